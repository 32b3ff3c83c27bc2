//! Whether a column of a TABLE_MAP is the column that the tracked schema has in its place, and how
//! it is decoded.

use std::sync::Arc;

use lakeward_core::{Error, Result};

use super::cell::{CellDecoder as D, Width};
use super::decimal::DecimalLayout;
use super::temporal;
use crate::binlog::{ColumnMetadata, OptionalMetadata, code};
use crate::charset::{self, TextDecoder};
use crate::model::{MysqlColumn, MysqlType};

/// What is wrong with a column, as a part of a sentence.
pub(super) type Mismatch = &'static str;

/// Where and how a column's cells are read.
#[derive(Debug, Clone)]
pub(super) struct CellFormat {
    pub(super) width: Width,
    pub(super) decoder: D,
}

/// # Errors
/// `SchemaIncompatible` when the two are not the same column, `Config` for a character set that is
/// not supported; the caller adds the table.
pub(super) fn cell_format(
    column: &MysqlColumn,
    stored: ColumnMetadata,
    optional: &OptionalMetadata<'_>,
    index: usize,
) -> Result<CellFormat> {
    let refuse = |what: Mismatch| {
        Error::schema_incompatible(
            "the binlog and the known schema of the table disagree; its definition has to be read again",
        )
        .with("column", &column.name)
        .with("difference", what)
    };
    if let Some(name) = optional.names.get(index)
        && *name != column.name.as_bytes()
    {
        return Err(refuse("name"));
    }
    check_sign(&column.column_type, optional.unsigned.get(index).copied().flatten())
        .map_err(refuse)?;
    let collation = optional.collations.get(index).copied().flatten();
    check_charset(&column.column_type, collation).map_err(refuse)?;
    check_labels(&column.column_type, optional.labels.get(index).map_or(&[], Vec::as_slice))
        .map_err(refuse)?;
    let text = |charset: &Arc<str>| TextDecoder::for_column(charset, &column.name);
    let Some((width, decoder)) = storage(column, stored, text)? else {
        return Err(refuse("type"));
    };
    Ok(CellFormat { width, decoder })
}

fn storage(
    column: &MysqlColumn,
    stored: ColumnMetadata,
    text: impl Fn(&Arc<str>) -> Result<TextDecoder>,
) -> Result<Option<(Width, D)>> {
    let ColumnMetadata { type_code, metadata } = stored;
    let fixed = |length: usize, decoder: D| Some((Width::Fixed(length), decoder));
    let signed = |unsigned: bool, yes: D, no: D| if unsigned { yes } else { no };
    let string_width = || Width::Prefixed(if stored.string_bytes() > 255 { 2 } else { 1 });
    let varchar_width = || Width::Prefixed(if metadata > 255 { 2 } else { 1 });
    let is_string = stored.is_string();
    let is_varchar = matches!(type_code, code::VARCHAR | code::VAR_STRING);
    let is_compressed_varchar = type_code == code::VARCHAR_COMPRESSED;
    let blob = |length_bytes: u8| {
        let length = Width::Prefixed(length_bytes.into());
        (metadata == u16::from(length_bytes)).then_some(length)
    };
    Ok(match (&column.column_type, type_code) {
        (MysqlType::TinyInt { unsigned, .. }, code::TINY) => {
            fixed(1, signed(*unsigned, D::Uint8, D::Int8))
        }
        (MysqlType::SmallInt { unsigned }, code::SHORT) => {
            fixed(2, signed(*unsigned, D::Uint16, D::Int16))
        }
        (MysqlType::MediumInt { unsigned }, code::INT24) => {
            fixed(3, signed(*unsigned, D::Uint24, D::Int24))
        }
        (MysqlType::Int { unsigned }, code::LONG) => {
            fixed(4, signed(*unsigned, D::Uint32, D::Int32))
        }
        (MysqlType::BigInt { unsigned }, code::LONGLONG) => {
            fixed(8, signed(*unsigned, D::Uint64, D::Int64))
        }
        (MysqlType::Decimal { precision, scale, .. }, code::NEWDECIMAL) => {
            let same = metadata == u16::from(*precision) << 8 | u16::from(*scale);
            DecimalLayout::new(*precision, *scale).filter(|_| same).and_then(|layout| {
                let decoder =
                    if *precision > 38 { D::DecimalText(layout) } else { D::Decimal(layout) };
                fixed(layout.size_bytes(), decoder)
            })
        }
        (MysqlType::Float, code::FLOAT) => fixed(4, D::Float),
        (MysqlType::Double, code::DOUBLE) => fixed(8, D::Double),
        (MysqlType::Bit { width }, code::BIT) => {
            let bits = (metadata >> 8) * 8 + (metadata & 0xff);
            (bits == u16::from(*width))
                .then_some((Width::Fixed(usize::from(*width).div_ceil(8)), D::Bit))
        }
        (MysqlType::Year, code::YEAR) => fixed(1, D::Year),
        (MysqlType::Date, code::DATE) => fixed(3, D::Date),
        (MysqlType::Time { fsp }, code::TIME2) if metadata == u16::from(*fsp) => {
            fixed(3 + temporal::fraction_bytes(*fsp), D::Time)
        }
        (MysqlType::Time { fsp: 0 }, code::TIME) => fixed(3, D::OldTime),
        (MysqlType::Time { fsp }, code::TIME) => {
            fixed(temporal::hires_time_bytes(*fsp), D::HiresTime(*fsp))
        }
        (MysqlType::DateTime { fsp }, code::DATETIME2) if metadata == u16::from(*fsp) => {
            fixed(5 + temporal::fraction_bytes(*fsp), D::DateTime)
        }
        (MysqlType::DateTime { fsp: 0 }, code::DATETIME) => fixed(8, D::OldDateTime),
        (MysqlType::DateTime { fsp }, code::DATETIME) => {
            fixed(temporal::hires_date_time_bytes(*fsp), D::HiresDateTime(*fsp))
        }
        (MysqlType::Timestamp { fsp }, code::TIMESTAMP2) if metadata == u16::from(*fsp) => {
            fixed(4 + temporal::fraction_bytes(*fsp), D::Timestamp)
        }
        (MysqlType::Timestamp { fsp: 0 }, code::TIMESTAMP) => fixed(4, D::OldTimestamp),
        (MysqlType::Timestamp { fsp }, code::TIMESTAMP) => {
            fixed(temporal::hires_timestamp_bytes(*fsp), D::HiresTimestamp(*fsp))
        }
        (MysqlType::Char { length, charset }, _) if is_string && &**charset == "binary" => {
            Some((string_width(), D::PaddedBytes(*length as usize)))
        }
        (MysqlType::Varchar { charset, .. }, _) if is_varchar && &**charset == "binary" => {
            Some((varchar_width(), D::Bytes))
        }
        (MysqlType::Text { length_bytes, charset }, code::BLOB) if &**charset == "binary" => {
            blob(*length_bytes).map(|w| (w, D::Bytes))
        }
        (MysqlType::Char { charset, .. }, _) if is_string => {
            Some((string_width(), D::Text(text(charset)?)))
        }
        (MysqlType::Varchar { charset, .. }, _) if is_varchar => {
            Some((varchar_width(), D::Text(text(charset)?)))
        }
        (MysqlType::Varchar { charset, .. }, _) if is_compressed_varchar => {
            Some((varchar_width(), D::CompressedText(text(charset)?)))
        }
        (MysqlType::Text { length_bytes, charset }, code::BLOB) => {
            let decoder = text(charset)?;
            blob(*length_bytes).map(|w| (w, D::Text(decoder)))
        }
        (MysqlType::Text { length_bytes, charset }, code::BLOB_COMPRESSED) => {
            let decoder = text(charset)?;
            blob(*length_bytes).map(|w| (w, D::CompressedText(decoder)))
        }
        (MysqlType::Binary { length }, _) if is_string => {
            let same = stored.string_bytes() == *length as usize;
            same.then_some((string_width(), D::PaddedBytes(*length as usize)))
        }
        (MysqlType::Varbinary { .. }, _) if is_varchar => Some((varchar_width(), D::Bytes)),
        (MysqlType::Varbinary { .. }, _) if is_compressed_varchar => {
            Some((varchar_width(), D::CompressedBytes))
        }
        (MysqlType::Blob { length_bytes }, code::BLOB) => {
            blob(*length_bytes).map(|w| (w, D::Bytes))
        }
        (MysqlType::Blob { length_bytes }, code::BLOB_COMPRESSED) => {
            blob(*length_bytes).map(|w| (w, D::CompressedBytes))
        }
        (MysqlType::Enum { labels, .. }, _) if stored.is_enum() => {
            let bytes = if labels.len() < 256 { 1 } else { 2 };
            (stored.packed_bytes() == bytes).then(|| (Width::Fixed(bytes), D::Enum(labels.clone())))
        }
        (MysqlType::Set { labels, .. }, _) if stored.is_set() => {
            let bytes = match labels.len().div_ceil(8) {
                few @ 0..=4 => few,
                _ => 8,
            };
            (stored.packed_bytes() == bytes).then(|| (Width::Fixed(bytes), D::Set(labels.clone())))
        }
        (MysqlType::Json, code::JSON) => Some((Width::Prefixed(metadata.min(4).into()), D::Json)),
        (MysqlType::Geometry, code::GEOMETRY) => {
            Some((Width::Prefixed(metadata.min(4).into()), D::Geometry))
        }
        (MysqlType::Vector { .. }, code::VECTOR) => {
            Some((Width::Prefixed(metadata.min(4).into()), D::Bytes))
        }
        // MariaDB's is a VARBINARY.
        (MysqlType::Vector { .. }, _) if is_varchar => Some((varchar_width(), D::Bytes)),
        (MysqlType::Uuid, _) if is_string => Some((string_width(), D::Uuid)),
        (MysqlType::Inet4, _) if is_string => Some((string_width(), D::Inet4)),
        (MysqlType::Inet6, _) if is_string => Some((string_width(), D::Inet6)),
        _ => None,
    })
}

fn check_sign(column_type: &MysqlType, stored: Option<bool>) -> Result<(), Mismatch> {
    let unsigned = match column_type {
        MysqlType::TinyInt { unsigned, .. }
        | MysqlType::SmallInt { unsigned }
        | MysqlType::MediumInt { unsigned }
        | MysqlType::Int { unsigned }
        | MysqlType::BigInt { unsigned } => *unsigned,
        _ => return Ok(()),
    };
    if stored.is_some_and(|s| s != unsigned) { Err("sign") } else { Ok(()) }
}

/// A number that neither server lists says nothing.
fn check_charset(column_type: &MysqlType, collation: Option<u32>) -> Result<(), Mismatch> {
    let (MysqlType::Char { charset, .. }
    | MysqlType::Varchar { charset, .. }
    | MysqlType::Text { charset, .. }
    | MysqlType::Enum { charset, .. }
    | MysqlType::Set { charset, .. }) = column_type
    else {
        return Ok(());
    };
    match collation.and_then(charset::of_collation) {
        Some(stored) if stored != charset::canonical_name(charset) => Err("character set"),
        _ => Ok(()),
    }
}

fn check_labels(column_type: &MysqlType, stored: &[&[u8]]) -> Result<(), Mismatch> {
    let (MysqlType::Enum { labels, charset } | MysqlType::Set { labels, charset }) = column_type
    else {
        return Ok(());
    };
    let Some(decoder) = TextDecoder::for_charset(charset).filter(|_| !stored.is_empty()) else {
        return Ok(());
    };
    let same = |(known, stored): (&Arc<str>, &&[u8])| {
        decoder.decode(stored).is_ok_and(|text| *text == **known)
    };
    if labels.len() == stored.len() && labels.iter().zip(stored).all(same) {
        Ok(())
    } else {
        Err("labels")
    }
}

impl CellFormat {
    pub(super) fn is_json(&self) -> bool {
        matches!(self.decoder, D::Json)
    }
}
