//! One cell: how many bytes it has in a row image, and how they become a value of an Arrow column.

use std::sync::Arc;

use lakeward_core::{Error, Result};

use super::decimal::DecimalLayout;
use super::{address, temporal};
use crate::binlog::{Cursor, be_uint, inflate_zlib, le_uint};
use crate::charset::TextDecoder;
use crate::columns::ColumnBuilder;
use crate::json;

/// How a cell's end is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Fixed(usize),
    /// Behind a length of so many bytes.
    Prefixed(usize),
}

impl Width {
    #[inline]
    pub(crate) fn take<'a>(self, cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
        let length = match self {
            Width::Fixed(length) => length,
            Width::Prefixed(1) => cursor.u8()?.into(),
            Width::Prefixed(2) => cursor.u16()?.into(),
            Width::Prefixed(bytes) => cursor.uint(bytes)? as usize,
        };
        cursor.take(length)
    }
}

/// How a cell's bytes become a value. Chosen once for each table map, so that a row needs no look-up.
#[derive(Debug, Clone)]
pub(crate) enum CellDecoder {
    Int8,
    Int16,
    Int24,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint24,
    Uint32,
    Uint64,
    Year,
    Float,
    Double,
    Decimal(DecimalLayout),
    /// More than 38 digits.
    DecimalText(DecimalLayout),
    Date,
    Time,
    OldTime,
    HiresTime(u8),
    DateTime,
    OldDateTime,
    HiresDateTime(u8),
    Timestamp,
    OldTimestamp,
    HiresTimestamp(u8),
    Text(TextDecoder),
    CompressedText(TextDecoder),
    Bytes,
    CompressedBytes,
    /// Zero bytes at the end are cut off in the image.
    PaddedBytes(usize),
    Geometry,
    Enum(Arc<[Arc<str>]>),
    Set(Arc<[Arc<str>]>),
    Bit,
    Json,
    Uuid,
    Inet4,
    Inet6,
}

impl CellDecoder {
    /// Appends the value of exactly one cell.
    ///
    /// # Errors
    /// `DataInvalid` when the bytes are no value of the type; the caller adds table and column. The
    /// column may hold a part of the value then, and has to be truncated.
    #[inline]
    pub(crate) fn push(&self, bytes: &[u8], column: &mut ColumnBuilder) -> Result<()> {
        match self {
            Self::Int8 => column.push_long(i8::from_le_bytes(fixed(bytes)?).into()),
            Self::Int16 => column.push_long(i16::from_le_bytes(fixed(bytes)?).into()),
            Self::Int24 => {
                let [a, b, c] = fixed(bytes)?;
                column.push_long((i32::from_le_bytes([0, a, b, c]) >> 8).into())
            }
            Self::Int32 => column.push_long(i32::from_le_bytes(fixed(bytes)?).into()),
            Self::Int64 => column.push_long(i64::from_le_bytes(fixed(bytes)?)),
            Self::Uint8 => column.push_long(u8::from_le_bytes(fixed(bytes)?).into()),
            Self::Uint16 => column.push_long(u16::from_le_bytes(fixed(bytes)?).into()),
            Self::Uint24 => {
                let [a, b, c] = fixed(bytes)?;
                column.push_long(u32::from_le_bytes([a, b, c, 0]).into())
            }
            Self::Uint32 => column.push_long(u32::from_le_bytes(fixed(bytes)?).into()),
            Self::Uint64 => column.push_decimal(u64::from_le_bytes(fixed(bytes)?).into()),
            Self::Year => {
                let [year] = fixed(bytes)?;
                column.push_long(if year == 0 { 0 } else { 1900 + i64::from(year) })
            }
            Self::Float => column.push_float(f32::from_le_bytes(fixed(bytes)?)),
            Self::Double => column.push_double(f64::from_le_bytes(fixed(bytes)?)),
            Self::Decimal(layout) => {
                column.push_decimal(layout.unscaled(bytes).ok_or_else(unreadable)?)
            }
            Self::DecimalText(layout) => {
                let text = column.text()?;
                layout.append_text(bytes, text.data()).ok_or_else(unreadable)?;
                text.end_value()
            }
            Self::Date => push_time(temporal::date(bytes).map(i64::from), column),
            Self::Time => column.push_long(temporal::time(bytes).ok_or_else(unreadable)?),
            Self::OldTime => column.push_long(temporal::old_time(bytes).ok_or_else(unreadable)?),
            Self::HiresTime(fsp) => {
                column.push_long(temporal::hires_time(bytes, *fsp).ok_or_else(unreadable)?)
            }
            Self::DateTime => push_time(temporal::date_time(bytes), column),
            Self::OldDateTime => push_time(temporal::old_date_time(bytes), column),
            Self::HiresDateTime(fsp) => push_time(temporal::hires_date_time(bytes, *fsp), column),
            Self::Timestamp => push_time(temporal::timestamp(bytes), column),
            Self::OldTimestamp => push_time(temporal::old_timestamp(bytes), column),
            Self::HiresTimestamp(fsp) => push_time(temporal::hires_timestamp(bytes, *fsp), column),
            Self::Text(decoder) => push_text(decoder, bytes, column),
            Self::CompressedText(decoder) => {
                push_text(decoder, &uncompressed(bytes).ok_or_else(unreadable)?, column)
            }
            Self::Bytes => column.binary()?.push(bytes),
            Self::CompressedBytes => {
                column.binary()?.push(&uncompressed(bytes).ok_or_else(unreadable)?)
            }
            Self::PaddedBytes(length) => {
                let binary = column.binary()?;
                let missing = length.checked_sub(bytes.len()).ok_or_else(unreadable)?;
                let data = binary.data();
                data.extend_from_slice(bytes);
                data.resize(data.len() + missing, 0);
                binary.end_value()
            }
            // Four bytes of SRID stand before the WKB.
            Self::Geometry => column.binary()?.push(bytes.get(4..).ok_or_else(unreadable)?),
            Self::Enum(labels) => push_enum(labels, le_uint(bytes), column),
            Self::Set(labels) => push_set(labels, le_uint(bytes), column),
            Self::Bit => push_bits(be_uint(bytes), column),
            Self::Json => {
                let text = column.text()?;
                json::append_text(bytes, text.data())?;
                text.end_value()
            }
            Self::Uuid => push_ascii(address::append_uuid, bytes, column),
            Self::Inet4 => push_ascii(address::append_inet4, bytes, column),
            Self::Inet6 => push_ascii(address::append_inet6, bytes, column),
        }
    }
}

#[cold]
fn unreadable() -> Error {
    Error::data_invalid("a value in the binlog does not have the form of its column's type")
}

#[inline]
fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| unreadable())
}

#[inline]
fn push_time(value: Option<i64>, column: &mut ColumnBuilder) -> Result<()> {
    match value {
        Some(value) => column.push_long(value),
        None => {
            column.push_null();
            Ok(())
        }
    }
}

#[inline]
fn push_text(decoder: &TextDecoder, bytes: &[u8], column: &mut ColumnBuilder) -> Result<()> {
    let text = column.text()?;
    decoder.append(bytes, text.data()).map_err(|_| not_text())?;
    text.end_value()
}

#[cold]
pub(crate) fn not_text() -> Error {
    Error::data_invalid(
        "a value is not text in its column's character set; correct the row in the source or convert the column to VARBINARY",
    )
}

fn push_ascii(
    append: fn(&[u8], &mut Vec<u8>) -> Option<()>,
    bytes: &[u8],
    column: &mut ColumnBuilder,
) -> Result<()> {
    let text = column.text()?;
    append(bytes, text.data()).ok_or_else(unreadable)?;
    text.end_value()
}

/// Index 0 is the empty string that the server stores for an invalid value.
fn push_enum(labels: &[Arc<str>], index: u64, column: &mut ColumnBuilder) -> Result<()> {
    let text = column.text()?;
    match usize::try_from(index).ok().and_then(|i| i.checked_sub(1)) {
        None => text.push(b""),
        Some(i) => text.push(labels.get(i).ok_or_else(no_such_label)?.as_bytes()),
    }
}

fn push_set(labels: &[Arc<str>], bits: u64, column: &mut ColumnBuilder) -> Result<()> {
    let text = column.text()?;
    let mut left = bits;
    while left != 0 {
        let label = labels.get(left.trailing_zeros() as usize).ok_or_else(no_such_label)?;
        let data = text.data();
        if left != bits {
            data.push(b',');
        }
        data.extend_from_slice(label.as_bytes());
        left &= left - 1;
    }
    text.end_value()
}

#[cold]
fn no_such_label() -> Error {
    Error::schema_incompatible(
        "a row holds an ENUM or SET value beyond the labels of the known schema; its definition has to be read again",
    )
}

pub(crate) fn push_bits(bits: u64, column: &mut ColumnBuilder) -> Result<()> {
    match column {
        ColumnBuilder::Decimal { .. } => column.push_decimal(bits.into()),
        _ => column.push_long(bits.cast_signed()),
    }
}

/// MariaDB's COMPRESSED columns: a first byte of 0 before plain content; else the method (8: zlib)
/// in the upper half, and in the lower half whether the zlib header is left out and how many bytes
/// the content's length has. An empty value has no first byte.
fn uncompressed(bytes: &[u8]) -> Option<std::borrow::Cow<'_, [u8]>> {
    let Some((head, rest)) = bytes.split_first() else {
        return Some([].as_slice().into());
    };
    if *head == 0 {
        return Some(rest.into());
    }
    if head >> 4 != 8 {
        return None;
    }
    let (length, content) = rest.split_at_checked(usize::from(head & 7))?;
    Some(inflate_zlib(content, be_uint(length) as usize, head & 8 == 0)?.into())
}
