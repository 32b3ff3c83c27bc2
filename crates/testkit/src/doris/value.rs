//! One stored value: how it is read from text as a load does it, ordered, and printed.

use std::cmp::Ordering;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::de::IgnoredAny;

use super::temporal;
use super::types::DorisType;

#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Boolean(bool),
    Integer(i128),
    Float(f32),
    Double(f64),
    /// Unscaled, at the scale of the column.
    Decimal(i128),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01, without a zone.
    DateTime(i64),
    Text(Box<str>),
}

/// Why a text is no value of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It cannot be converted: the value becomes NULL, or the row is refused in strict mode.
    Conversion(String),
    /// It is a value, but beyond a limit of the column: the row is refused in any mode.
    Limit(String),
}

impl Value {
    /// Reads a text. `offset_minutes` is the zone of the load, for texts that name a zone of their own.
    pub fn parse(text: &str, as_type: &DorisType, offset_minutes: i32) -> Result<Self, Unfit> {
        let unfit = || {
            let start: String = text.chars().take(32).collect();
            Unfit::Conversion(format!("parse {as_type} fail, string: '{start}'"))
        };
        if let Some((low, high)) = as_type.integer_range() {
            let value = integer(text.trim()).ok_or_else(unfit)?;
            return if (low..=high).contains(&value) {
                Ok(Self::Integer(value))
            } else {
                Err(unfit())
            };
        }
        match as_type {
            DorisType::Boolean => match text.trim() {
                "1" => Ok(Self::Boolean(true)),
                "0" => Ok(Self::Boolean(false)),
                word if word.eq_ignore_ascii_case("true") => Ok(Self::Boolean(true)),
                word if word.eq_ignore_ascii_case("false") => Ok(Self::Boolean(false)),
                _ => Err(unfit()),
            },
            DorisType::Float => text.trim().parse().map(Self::Float).map_err(|_| unfit()),
            DorisType::Double => text.trim().parse().map(Self::Double).map_err(|_| unfit()),
            DorisType::Decimal { precision, scale } => {
                decimal(text.trim(), *precision, *scale).map(Self::Decimal).ok_or_else(unfit)
            }
            DorisType::Date => {
                temporal::date(text.trim(), offset_minutes).map(Self::Date).ok_or_else(unfit)
            }
            DorisType::DateTime(digits) => {
                temporal::date_time(text.trim(), *digits, offset_minutes)
                    .map(Self::DateTime)
                    .ok_or_else(unfit)
            }
            DorisType::IpV4 => match text.trim().parse::<Ipv4Addr>() {
                Ok(address) => Ok(Self::Text(address.to_string().into())),
                Err(_) => Err(unfit()),
            },
            DorisType::IpV6 => match text.trim().parse::<Ipv6Addr>() {
                Ok(address) => Ok(Self::Text(address.to_string().into())),
                Err(_) => Err(unfit()),
            },
            DorisType::Json | DorisType::Variant | DorisType::Nested(_) => {
                if serde_json::from_str::<IgnoredAny>(text).is_err() {
                    return Err(unfit());
                }
                within(without_spaces(text), as_type)
            }
            _ => within(text.to_owned(), as_type),
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// As a result set has it; nothing for NULL.
    pub fn print(&self, as_type: &DorisType) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Boolean(value) => u8::from(*value).to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Double(value) => value.to_string(),
            Self::Decimal(value) => match as_type {
                DorisType::Decimal { scale, .. } => print_decimal(*value, *scale),
                _ => value.to_string(),
            },
            Self::Date(days) => temporal::print_date(*days),
            Self::DateTime(micros) => match as_type {
                DorisType::DateTime(digits) => temporal::print_date_time(*micros, *digits),
                _ => temporal::print_date_time(*micros, 6),
            },
            Self::Text(text) => text.to_string(),
        })
    }

    /// What a heavy schema change makes of it.
    pub fn cast(&self, from: &DorisType, to: &DorisType) -> Result<Self, Unfit> {
        match self.print(from) {
            Some(text) => Self::parse(&text, to, 0),
            None => Ok(Self::Null),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Boolean(_) => 1,
            Self::Integer(_) => 2,
            Self::Float(_) => 3,
            Self::Double(_) => 4,
            Self::Decimal(_) => 5,
            Self::Date(_) => 6,
            Self::DateTime(_) => 7,
            Self::Text(_) => 8,
        }
    }
}

/// NULL first, as keys are ordered.
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Double(a), Self::Double(b)) => a.total_cmp(b),
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(b),
            (Self::Date(a), Self::Date(b)) => a.cmp(b),
            (Self::DateTime(a), Self::DateTime(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

fn within(text: String, as_type: &DorisType) -> Result<Value, Unfit> {
    match as_type.max_bytes() {
        Some(limit) if text.len() > limit => Err(Unfit::Limit(format!(
            "the length of input is too long than schema. first 32 bytes of input str: [{}] \
             schema length: {limit}; actual length: {}; ",
            &text[..text.floor_char_boundary(32)],
            text.len()
        ))),
        _ => Ok(Value::Text(text.into())),
    }
}

/// A fraction is cut off, as Doris' own parser of integers does it.
fn integer(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    whole.parse().ok()
}

/// Digits beyond the scale are rounded, half away from zero.
fn decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The digits, and where the point stands among them once the exponent is applied.
    let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if !all.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent);
    let kept = point + i64::from(scale);
    let mut value: i128 = 0;
    for position in 0..kept.max(0) {
        let digit = usize::try_from(position).ok().and_then(|p| all.get(p)).map_or(0, |b| b - b'0');
        value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
    }
    let next = usize::try_from(kept).ok().and_then(|p| all.get(p)).map_or(0, |b| b - b'0');
    if next >= 5 {
        value += 1;
    }
    (value < 10_i128.pow(u32::from(precision))).then_some(if negative { -value } else { value })
}

fn print_decimal(value: i128, scale: u8) -> String {
    if scale == 0 {
        return value.to_string();
    }
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    format!("{sign}{whole}.{fraction}")
}

/// A JSON text without what stands between its tokens.
fn without_spaces(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in json.chars() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = c == '\\' && !escaped;
        } else if !c.is_ascii_whitespace() {
            out.push(c);
            quoted = c == '"';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, as_type: DorisType) -> Option<String> {
        Value::parse(text, &as_type, 0).ok().and_then(|value| value.print(&as_type))
    }

    fn dec(precision: u8, scale: u8) -> DorisType {
        DorisType::Decimal { precision, scale }
    }

    #[test]
    fn numbers_keep_to_the_type() {
        assert_eq!(read("127", DorisType::TinyInt).as_deref(), Some("127"));
        assert_eq!(read("128", DorisType::TinyInt), None);
        assert_eq!(read("12.9", DorisType::Int).as_deref(), Some("12"));
        assert_eq!(read("18446744073709551615", DorisType::BigInt), None);
        assert_eq!(
            read("18446744073709551615", DorisType::LargeInt).as_deref(),
            Some("18446744073709551615")
        );
        assert_eq!(read("abc", DorisType::Int), None);
        assert_eq!(read("yes", DorisType::Boolean), None);
    }

    #[test]
    fn decimals_are_rounded_and_bounded() {
        assert_eq!(read("1.235", dec(10, 2)).as_deref(), Some("1.24"));
        assert_eq!(read("-0.005", dec(10, 2)).as_deref(), Some("-0.01"));
        assert_eq!(read("1.5e3", dec(10, 2)).as_deref(), Some("1500.00"));
        assert_eq!(read("5e-3", dec(10, 2)).as_deref(), Some("0.01"));
        assert_eq!(read("99.995", dec(4, 2)), None);
        assert_eq!(read(".", dec(4, 2)), None);
        let widest = "9".repeat(38);
        assert_eq!(read(&widest, dec(38, 0)), Some(widest.clone()));
        assert_eq!(read(&format!("{widest}0"), dec(38, 0)), None);
    }

    #[test]
    fn a_text_is_measured_in_bytes() {
        assert_eq!(read("äöü", DorisType::VarChar(6)).as_deref(), Some("äöü"));
        let long = Value::parse("äöü", &DorisType::VarChar(5), 0);
        assert!(matches!(long, Err(Unfit::Limit(_))), "{long:?}");
    }

    #[test]
    fn json_is_checked_and_tightened() {
        let text = r#"{ "a b" : [1, "x \" y"] }"#;
        assert_eq!(read(text, DorisType::Json).as_deref(), Some(r#"{"a b":[1,"x \" y"]}"#));
        assert_eq!(read("{", DorisType::Json), None);
    }
}
