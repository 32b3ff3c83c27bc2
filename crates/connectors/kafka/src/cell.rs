//! One value: from JSON to what its column holds.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use lakeward_core::DataType;
use serde_json::value::RawValue;

use crate::config::DecimalEncoding;
use crate::declared::Encoding;
use crate::json::{self, Kind, Object};
use crate::temporal;

/// A value that fits its column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// The source did not send it.
    Unavailable,
    Null,
    Boolean(bool),
    /// Integers; days, and microseconds of times.
    Long(i64),
    Double(f64),
    /// Unscaled.
    Decimal(i128),
    Text(Cow<'a, str>),
    Bytes(Vec<u8>),
}

/// The value is none of its column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit;

/// What differs between capture systems in how they write values.
#[derive(Debug, Clone)]
pub struct Dialect {
    /// Bytes are text of one character each (Canal) instead of base64.
    pub latin1_bytes: bool,
    pub decimals: DecimalEncoding,
    /// Seconds that timestamps without a zone, of columns that are instants, are ahead of UTC.
    pub offset_secs: i32,
}

/// Reads a value.
///
/// # Errors
/// `Misfit` where the column cannot hold it without loss.
pub fn read<'a>(
    raw: &'a RawValue,
    data_type: &DataType,
    encoding: Encoding,
    dialect: &Dialect,
) -> Result<Value<'a>, Misfit> {
    let kind = json::kind(raw);
    if kind == Kind::Null {
        return Ok(Value::Null);
    }
    let text = || json::text(raw).ok_or(Misfit);
    match *data_type {
        DataType::String | DataType::Json | DataType::Char { .. } | DataType::Varchar { .. } => {
            text_value(raw, kind, encoding)
        }
        DataType::Boolean => boolean(raw, kind),
        DataType::TinyInt => long(raw, kind, i8::MIN.into(), i8::MAX.into()),
        DataType::SmallInt => long(raw, kind, i16::MIN.into(), i16::MAX.into()),
        DataType::Int => long(raw, kind, i32::MIN.into(), i32::MAX.into()),
        DataType::BigInt => long(raw, kind, i64::MIN, i64::MAX),
        DataType::Float => double(raw, kind).map(|d| Value::Double(f64::from(d as f32))),
        DataType::Double => double(raw, kind).map(Value::Double),
        DataType::Decimal { precision, scale } => {
            decimal(raw, kind, precision, scale, encoding, dialect).map(Value::Decimal)
        }
        DataType::Date => match (kind, encoding) {
            (Kind::Number, Encoding::Parts(digits)) => {
                let micros = temporal::scaled_micros(integer(raw.get())?, digits).ok_or(Misfit)?;
                Ok(Value::Long(micros.div_euclid(86_400_000_000)))
            }
            (Kind::Number, _) => long(raw, kind, i32::MIN.into(), i32::MAX.into()),
            _ => {
                let text = text()?;
                match temporal::days(&text) {
                    Some(days) => Ok(Value::Long(days.into())),
                    None => zero_date(&text),
                }
            }
        },
        DataType::Time { precision } => match kind {
            Kind::Number => parts(raw, encoding, precision).map(Value::Long),
            _ => {
                temporal::time_micros(text()?.trim_end_matches('Z')).map(Value::Long).ok_or(Misfit)
            }
        },
        DataType::Timestamp { precision } => match kind {
            Kind::Number => timestamp_number(raw, encoding, precision).map(Value::Long),
            _ => {
                let text = text()?;
                match temporal::timestamp_micros(&text) {
                    Some((micros, None | Some(0))) => Ok(Value::Long(micros)),
                    Some(_) => Err(Misfit),
                    None => zero_date(&text),
                }
            }
        },
        DataType::TimestampLtz { precision } => match kind {
            Kind::Number => timestamp_number(raw, encoding, precision).map(Value::Long),
            _ => {
                let text = text()?;
                match temporal::timestamp_micros(&text) {
                    Some((micros, offset)) => {
                        let ahead = i64::from(offset.unwrap_or(dialect.offset_secs));
                        Ok(Value::Long(micros - ahead * 1_000_000))
                    }
                    None => zero_date(&text),
                }
            }
        },
        DataType::Binary { length } => {
            let mut bytes = bytes(raw, kind, Some(length), encoding, dialect)?;
            // MySQL cuts trailing zero bytes off.
            if bytes.len() < length as usize {
                bytes.resize(length as usize, 0);
            }
            Ok(Value::Bytes(bytes))
        }
        DataType::Varbinary { .. } | DataType::Bytes => {
            bytes(raw, kind, None, encoding, dialect).map(Value::Bytes)
        }
    }
}

fn zero_date<'a>(text: &str) -> Result<Value<'a>, Misfit> {
    if temporal::is_zero_date(text) { Ok(Value::Null) } else { Err(Misfit) }
}

fn text_value<'a>(raw: &'a RawValue, kind: Kind, encoding: Encoding) -> Result<Value<'a>, Misfit> {
    match (kind, encoding) {
        (Kind::Text, Encoding::Unscaled(scale)) => {
            let (negative, digits) = unscaled_digits(&base64(&json::text(raw).ok_or(Misfit)?)?);
            Ok(Value::Text(plain_decimal(negative, &digits, scale).into()))
        }
        (Kind::Object, Encoding::VariableScale) => {
            let object = Object::parse(raw.get()).ok_or(Misfit)?;
            let scale = object.long("scale").and_then(|s| i32::try_from(s).ok()).ok_or(Misfit)?;
            if !(-1000..=1000).contains(&scale) {
                return Err(Misfit);
            }
            let value = base64(&object.text("value").ok_or(Misfit)?)?;
            let (negative, digits) = unscaled_digits(&value);
            Ok(Value::Text(plain_decimal(negative, &digits, scale).into()))
        }
        (Kind::Text, _) => json::text(raw).map(Value::Text).ok_or(Misfit),
        // Numbers, lists and objects keep their own text.
        _ => Ok(Value::Text(Cow::Borrowed(raw.get()))),
    }
}

fn boolean<'a>(raw: &RawValue, kind: Kind) -> Result<Value<'a>, Misfit> {
    let text = match kind {
        Kind::Text => json::text(raw).ok_or(Misfit)?,
        Kind::Boolean | Kind::Number => Cow::Borrowed(raw.get()),
        _ => return Err(Misfit),
    };
    match text.as_ref() {
        "true" | "TRUE" | "1" | "t" => Ok(Value::Boolean(true)),
        "false" | "FALSE" | "0" | "f" => Ok(Value::Boolean(false)),
        _ => Err(Misfit),
    }
}

/// The text of a number, also of one that stands in quotes. A boolean is 1 or 0.
fn number_text(raw: &RawValue, kind: Kind) -> Result<Cow<'_, str>, Misfit> {
    match kind {
        Kind::Number => Ok(Cow::Borrowed(raw.get())),
        Kind::Text => json::text(raw).ok_or(Misfit),
        Kind::Boolean => Ok(Cow::Borrowed(if raw.get() == "true" { "1" } else { "0" })),
        _ => Err(Misfit),
    }
}

fn integer(text: &str) -> Result<i64, Misfit> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(value);
    }
    // 1e2 and 3.0 are whole numbers too.
    let unscaled = decimal_text(text, 19, 0)?;
    i64::try_from(unscaled).map_err(|_| Misfit)
}

fn long<'a>(raw: &RawValue, kind: Kind, least: i64, most: i64) -> Result<Value<'a>, Misfit> {
    let value = integer(&number_text(raw, kind)?)?;
    if (least..=most).contains(&value) { Ok(Value::Long(value)) } else { Err(Misfit) }
}

/// A column of doubles was one at the source, or holds only numbers that lose nothing: see `shape`.
fn double(raw: &RawValue, kind: Kind) -> Result<f64, Misfit> {
    let text = number_text(raw, kind)?;
    match text.as_ref() {
        "NaN" => return Ok(f64::NAN),
        "Infinity" | "+Infinity" => return Ok(f64::INFINITY),
        "-Infinity" => return Ok(f64::NEG_INFINITY),
        _ => {}
    }
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let value: f64 =
        if is_number { text.parse().map_err(|_| Misfit)? } else { return Err(Misfit) };
    if value.is_finite() { Ok(value) } else { Err(Misfit) }
}

fn decimal(
    raw: &RawValue,
    kind: Kind,
    precision: u8,
    scale: i8,
    encoding: Encoding,
    dialect: &Dialect,
) -> Result<i128, Misfit> {
    let text = number_text(raw, kind)?;
    let unscaled = match (kind, encoding) {
        (Kind::Text, Encoding::Unscaled(own)) => {
            rescale(unscaled_number(&base64(&text)?)?, own, scale.into())?
        }
        (Kind::Text, _) => {
            let plain = || decimal_text(&text, precision, scale);
            let packed = || unscaled_number(&base64(&text)?);
            match dialect.decimals {
                DecimalEncoding::Text => plain()?,
                DecimalEncoding::Base64 => packed()?,
                DecimalEncoding::Auto => match (plain(), packed()) {
                    (Ok(value), Err(Misfit)) | (Err(Misfit), Ok(value)) => value,
                    // A text with a point is no base64; digits alone may be both.
                    (Ok(a), Ok(b)) if a == b => a,
                    _ => return Err(Misfit),
                },
            }
        }
        _ => decimal_text(&text, precision, scale)?,
    };
    let limit = 10_i128.checked_pow(precision.into()).ok_or(Misfit)?;
    if -limit < unscaled && unscaled < limit { Ok(unscaled) } else { Err(Misfit) }
}

fn rescale(value: i128, from: i32, to: i32) -> Result<i128, Misfit> {
    let power = |n: i32| 10_i128.checked_pow(n.unsigned_abs()).ok_or(Misfit);
    if to >= from {
        return value.checked_mul(power(to - from)?).ok_or(Misfit);
    }
    let divisor = power(from - to)?;
    if value % divisor == 0 { Ok(value / divisor) } else { Err(Misfit) }
}

/// The unscaled value of `-12.50`, `1e2`, `7`, without rounding.
pub fn decimal_text(text: &str, precision: u8, scale: i8) -> Result<i128, Misfit> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let exponent: i32 = exponent.parse().map_err(|_| Misfit)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(Misfit);
    }
    let mut value: i128 = 0;
    let mut zeros = 0u32;
    // Zeros at the end are kept back: they may lie behind the last place that the column has.
    for digit in whole.bytes().chain(fraction.bytes()) {
        match digit {
            b'0' => zeros += 1,
            b'1'..=b'9' => {
                let power = 10_i128.checked_pow(zeros + 1).ok_or(Misfit)?;
                let shifted = value.checked_mul(power).ok_or(Misfit)?;
                value = shifted.checked_add(i128::from(digit - b'0')).ok_or(Misfit)?;
                zeros = 0;
            }
            _ => return Err(Misfit),
        }
    }
    if value == 0 {
        return Ok(0);
    }
    let places = i32::try_from(fraction.len()).map_err(|_| Misfit)?;
    let zeros = i32::try_from(zeros).map_err(|_| Misfit)?;
    let own_scale = places.checked_sub(zeros).and_then(|s| s.checked_sub(exponent));
    let shift = i32::from(scale).checked_sub(own_scale.ok_or(Misfit)?).ok_or(Misfit)?;
    let power = u32::try_from(shift).ok().and_then(|s| 10_i128.checked_pow(s)).ok_or(Misfit)?;
    let unscaled = value.checked_mul(power).ok_or(Misfit)?;
    let limit = 10_i128.checked_pow(precision.into()).ok_or(Misfit)?;
    if unscaled >= limit {
        return Err(Misfit);
    }
    Ok(if negative { -unscaled } else { unscaled })
}

fn base64(text: &str) -> Result<Vec<u8>, Misfit> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).map_err(|_| Misfit)
}

/// Big-endian two's complement.
fn unscaled_number(bytes: &[u8]) -> Result<i128, Misfit> {
    let first = *bytes.first().ok_or(Misfit)?;
    let fill: i128 = if first & 0x80 != 0 { -1 } else { 0 };
    // More than 16 bytes may still be a small number with its sign in front.
    let sign = fill as u8;
    let skipped = bytes.len().saturating_sub(16);
    if bytes[..skipped].iter().any(|b| *b != sign) {
        return Err(Misfit);
    }
    let rest = &bytes[skipped..];
    if skipped > 0 && (rest[0] ^ sign) & 0x80 != 0 {
        return Err(Misfit);
    }
    Ok(rest.iter().fold(fill, |value, byte| value << 8 | i128::from(*byte)))
}

/// Sign and decimal digits of a big-endian two's complement number of any length.
fn unscaled_digits(bytes: &[u8]) -> (bool, String) {
    let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
    let mut magnitude = bytes.to_vec();
    if negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let mut digits = Vec::new();
    while magnitude.iter().any(|b| *b != 0) {
        let mut rest = 0u32;
        for byte in &mut magnitude {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 10) as u8;
            rest = value % 10;
        }
        digits.push(b'0' + rest as u8);
    }
    if digits.is_empty() {
        digits.push(b'0');
    }
    digits.reverse();
    (negative, digits.into_iter().map(char::from).collect())
}

fn plain_decimal(negative: bool, digits: &str, scale: i32) -> String {
    let sign = if negative { "-" } else { "" };
    let places = scale.unsigned_abs() as usize;
    if scale <= 0 {
        let zeros = if digits == "0" { 0 } else { places };
        return format!("{sign}{digits}{}", "0".repeat(zeros));
    }
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    format!("{sign}{whole}.{fraction}")
}

/// Debezium's adaptive precision: milliseconds, microseconds or nanoseconds by the column's own precision.
fn parts(raw: &RawValue, encoding: Encoding, precision: u8) -> Result<i64, Misfit> {
    let digits = match (encoding, precision) {
        (Encoding::Parts(digits), _) => digits,
        (_, 0..=3) => 3,
        _ => 6,
    };
    temporal::scaled_micros(integer(raw.get())?, digits).ok_or(Misfit)
}

fn timestamp_number(raw: &RawValue, encoding: Encoding, precision: u8) -> Result<i64, Misfit> {
    match encoding {
        Encoding::Days => integer(raw.get())?.checked_mul(86_400_000_000).ok_or(Misfit),
        _ => parts(raw, encoding, precision),
    }
}

fn bytes(
    raw: &RawValue,
    kind: Kind,
    length: Option<u32>,
    encoding: Encoding,
    dialect: &Dialect,
) -> Result<Vec<u8>, Misfit> {
    // MySQL's BIT is a number in Canal and Maxwell.
    if kind == Kind::Number {
        return bits(raw.get(), length);
    }
    let text = json::text(raw).ok_or(Misfit)?;
    if dialect.latin1_bytes {
        let latin1 = text.chars().map(|c| u8::try_from(u32::from(c)).map_err(|_| Misfit));
        let bytes: Vec<u8> = latin1.collect::<Result<_, _>>()?;
        let is_bit = length.is_some_and(|l| l <= 8) && bytes.iter().all(u8::is_ascii_digit);
        return match is_bit && bytes.len() != length.unwrap_or(0) as usize {
            true => bits(&text, length),
            false => Ok(bytes),
        };
    }
    let mut bytes = base64(&text)?;
    if encoding == Encoding::Bits {
        bytes.reverse();
        if let Some(length) = length.map(|l| l as usize) {
            // The highest byte first, as many as the column has.
            let missing = length.saturating_sub(bytes.len());
            bytes.splice(0..0, std::iter::repeat_n(0, missing));
        }
    }
    Ok(bytes)
}

fn bits(text: &str, length: Option<u32>) -> Result<Vec<u8>, Misfit> {
    let number: u64 = text.parse().map_err(|_| Misfit)?;
    let length = length.unwrap_or(8) as usize;
    let bytes = number.to_be_bytes();
    match bytes.split_at_checked(8_usize.checked_sub(length).ok_or(Misfit)?) {
        Some((front, back)) if front.iter().all(|b| *b == 0) => Ok(back.to_vec()),
        _ => Err(Misfit),
    }
}

#[cfg(test)]
mod tests;
