//! Values of a SELECT into the columns that row images fill: the same value gives the same bits on both ways.

use lakeward_core::{Error, Result};
use mysql_async::Value;

use super::cell::{not_text, push_bits};
use super::{append_canonical, date_time_us, days, unscaled_of_text};
use crate::binlog::be_uint;
use crate::columns::ColumnBuilder;
use crate::model::MysqlType as T;

pub(super) fn push_value(column_type: &T, value: &Value, column: &mut ColumnBuilder) -> Result<()> {
    if *value == Value::NULL {
        column.push_null();
        return Ok(());
    }
    match (column_type, value) {
        (T::BigInt { unsigned: true }, _) => column.push_decimal(integer(value)?),
        (
            T::TinyInt { .. }
            | T::SmallInt { .. }
            | T::MediumInt { .. }
            | T::Int { .. }
            | T::BigInt { .. }
            | T::Year,
            _,
        ) => column.push_long(integer(value)?.try_into().map_err(|_| unexpected())?),
        (T::Decimal { precision: 39.., .. }, Value::Bytes(text)) => {
            let values = column.text()?;
            append_canonical(text, values.data()).ok_or_else(unexpected)?;
            values.end_value()
        }
        (T::Decimal { scale, .. }, Value::Bytes(text)) => {
            column.push_decimal(unscaled_of_text(text, *scale).ok_or_else(unexpected)?)
        }
        (T::Float, Value::Float(v)) => column.push_float(*v),
        (T::Double, Value::Double(v)) => column.push_double(*v),
        (T::Bit { .. }, Value::Bytes(bits)) if bits.len() <= 8 => push_bits(be_uint(bits), column),
        (T::Date, Value::Date(y, m, d, ..)) => {
            push_time(days((*y).into(), (*m).into(), (*d).into()).map(i64::from), column)
        }
        (T::DateTime { .. } | T::Timestamp { .. }, Value::Date(y, mo, d, h, mi, s, us)) => {
            let date = ((*y).into(), (*mo).into(), (*d).into());
            let time = ((*h).into(), (*mi).into(), (*s).into());
            push_time(date_time_us(date, time, (*us).into()), column)
        }
        (T::Time { .. }, Value::Time(negative, days, hours, minutes, seconds, us)) => {
            let hours = i64::from(*days) * 24 + i64::from(*hours);
            let seconds = (hours * 60 + i64::from(*minutes)) * 60 + i64::from(*seconds);
            let total = seconds * 1_000_000 + i64::from(*us);
            column.push_long(if *negative { -total } else { total })
        }
        (T::Geometry, Value::Bytes(bytes)) => {
            column.binary()?.push(bytes.get(4..).ok_or_else(unexpected)?)
        }
        (T::Binary { length }, Value::Bytes(bytes)) => {
            let binary = column.binary()?;
            let missing = (*length as usize).checked_sub(bytes.len()).ok_or_else(unexpected)?;
            binary.data().extend_from_slice(bytes);
            binary.data().extend(std::iter::repeat_n(0, missing));
            binary.end_value()
        }
        (_, Value::Bytes(bytes)) => match column {
            ColumnBuilder::Text(text) => {
                std::str::from_utf8(bytes).map_err(|_| not_text())?;
                text.push(bytes)
            }
            _ => column.binary()?.push(bytes),
        },
        _ => Err(unexpected()),
    }
}

fn push_time(value: Option<i64>, column: &mut ColumnBuilder) -> Result<()> {
    match value {
        Some(value) => column.push_long(value),
        None => {
            column.push_null();
            Ok(())
        }
    }
}

fn integer(value: &Value) -> Result<i128> {
    match value {
        Value::Int(v) => Ok((*v).into()),
        Value::UInt(v) => Ok((*v).into()),
        // The text protocol.
        Value::Bytes(text) => {
            std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or_else(unexpected)
        }
        _ => Err(unexpected()),
    }
}

#[cold]
fn unexpected() -> Error {
    Error::data_invalid("a selected value does not have the form of its column's type")
}
