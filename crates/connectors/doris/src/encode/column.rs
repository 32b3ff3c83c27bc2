//! A column of a batch, typed once so that cells are written without looking the type up again.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lakeward_core::{DataType, Error, Result, TableSchema};

use crate::text;

pub(super) enum TypedColumn<'a> {
    Boolean(&'a BooleanArray),
    Int8(&'a Int8Array),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    Float(&'a Float32Array),
    Double(&'a Float64Array),
    Decimal(&'a Decimal128Array, i8),
    Date(&'a Date32Array),
    /// Digits of the second, and what to add for the wall clock.
    Timestamp(&'a TimestampMicrosecondArray, u8, i64),
    Text(&'a StringArray),
    Binary(&'a BinaryArray),
}

/// How a cell's text is to be wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    Null,
    /// A JSON number or literal as it stands.
    Bare,
    /// ASCII text without anything to escape.
    Plain,
    /// Any text.
    Text,
}

impl<'a> TypedColumn<'a> {
    pub(super) fn of(
        rows: &'a RecordBatch,
        schema: &TableSchema,
        index: usize,
        zone_offset_seconds: i32,
    ) -> Result<Self> {
        let array = rows.column(index);
        let column = &schema.columns[index];
        if *array.data_type() != column.data_type.arrow_type() {
            return Err(Error::bug("a column has another arrow layout than its type")
                .with("column", &column.name));
        }
        let zone_micros = i64::from(zone_offset_seconds) * 1_000_000;
        Ok(match column.data_type {
            DataType::Boolean => Self::Boolean(array.as_boolean()),
            DataType::TinyInt => Self::Int8(array.as_primitive::<Int8Type>()),
            DataType::SmallInt => Self::Int16(array.as_primitive::<Int16Type>()),
            DataType::Int => Self::Int32(array.as_primitive::<Int32Type>()),
            DataType::BigInt | DataType::Time { .. } => {
                Self::Int64(array.as_primitive::<Int64Type>())
            }
            DataType::Float => Self::Float(array.as_primitive::<Float32Type>()),
            DataType::Double => Self::Double(array.as_primitive::<Float64Type>()),
            DataType::Decimal { scale, .. } => {
                Self::Decimal(array.as_primitive::<Decimal128Type>(), scale)
            }
            DataType::Date => Self::Date(array.as_primitive::<Date32Type>()),
            DataType::Timestamp { precision } => {
                Self::Timestamp(array.as_primitive::<TimestampMicrosecondType>(), precision, 0)
            }
            DataType::TimestampLtz { precision } => Self::Timestamp(
                array.as_primitive::<TimestampMicrosecondType>(),
                precision,
                zone_micros,
            ),
            DataType::Char { .. }
            | DataType::Varchar { .. }
            | DataType::String
            | DataType::Json => Self::Text(array.as_string::<i32>()),
            DataType::Binary { .. } | DataType::Varbinary { .. } | DataType::Bytes => {
                Self::Binary(array.as_binary::<i32>())
            }
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Boolean(a) => a.is_null(row),
            Self::Int8(a) => a.is_null(row),
            Self::Int16(a) => a.is_null(row),
            Self::Int32(a) => a.is_null(row),
            Self::Int64(a) => a.is_null(row),
            Self::Float(a) => a.is_null(row),
            Self::Double(a) => a.is_null(row),
            Self::Decimal(a, _) => a.is_null(row),
            Self::Date(a) => a.is_null(row),
            Self::Timestamp(a, ..) => a.is_null(row),
            Self::Text(a) => a.is_null(row),
            Self::Binary(a) => a.is_null(row),
        }
    }

    /// The text of a cell that any text may be in; `None` for other types.
    pub(super) fn as_text(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::Text(a) => Some(a.value(row)),
            _ => None,
        }
    }

    /// Appends the cell's text, except for null and for [`CellKind::Text`], which the caller takes by
    /// [`TypedColumn::as_text`] to escape it.
    pub(super) fn push(&self, row: usize, out: &mut Vec<u8>) -> Result<CellKind> {
        if self.is_null(row) {
            return Ok(CellKind::Null);
        }
        let mut integer = itoa::Buffer::new();
        let mut float = ryu::Buffer::new();
        Ok(match self {
            Self::Boolean(a) => {
                out.extend_from_slice(if a.value(row) { b"true" } else { b"false" });
                CellKind::Bare
            }
            Self::Int8(a) => bare(integer.format(a.value(row)), out),
            Self::Int16(a) => bare(integer.format(a.value(row)), out),
            Self::Int32(a) => bare(integer.format(a.value(row)), out),
            Self::Int64(a) => bare(integer.format(a.value(row)), out),
            Self::Float(a) => match a.value(row) {
                v if v.is_finite() => bare(float.format_finite(v), out),
                v => plain(not_finite(f64::from(v)), out),
            },
            Self::Double(a) => match a.value(row) {
                v if v.is_finite() => bare(float.format_finite(v), out),
                v => plain(not_finite(v), out),
            },
            // More digits than a JSON number is sure to keep.
            Self::Decimal(a, scale) => {
                text::push_decimal(a.value(row), *scale, out);
                CellKind::Plain
            }
            Self::Date(a) => {
                text::push_date(a.value(row), out)?;
                CellKind::Plain
            }
            Self::Timestamp(a, precision, zone_micros) => {
                text::push_timestamp(a.value(row).saturating_add(*zone_micros), *precision, out)?;
                CellKind::Plain
            }
            Self::Text(_) => CellKind::Text,
            Self::Binary(a) => {
                let value = a.value(row);
                let start = out.len();
                out.resize(start + value.len().div_ceil(3) * 4, 0);
                let written = BASE64
                    .encode_slice(value, &mut out[start..])
                    .map_err(|e| Error::bug("could not encode bytes as base64").with_source(e))?;
                out.truncate(start + written);
                CellKind::Plain
            }
        })
    }
}

fn bare(text: &str, out: &mut Vec<u8>) -> CellKind {
    out.extend_from_slice(text.as_bytes());
    CellKind::Bare
}

fn plain(text: &str, out: &mut Vec<u8>) -> CellKind {
    out.extend_from_slice(text.as_bytes());
    CellKind::Plain
}

fn not_finite(value: f64) -> &'static str {
    match value {
        v if v.is_nan() => "NaN",
        v if v > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

/// Every column of every batch, by batch and then by the place among `columns`.
pub(super) fn typed<'a>(rows: &super::Rows<'a>) -> Result<Vec<Vec<TypedColumn<'a>>>> {
    let of_batch = |batch: &'a RecordBatch| {
        let columns = rows.columns.iter();
        columns.map(|c| TypedColumn::of(batch, rows.schema, *c, rows.zone_offset_seconds)).collect()
    };
    rows.batches.iter().map(of_batch).collect()
}
