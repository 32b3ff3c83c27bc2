//! A column's DEFAULT as a constant in the column's type: what an ADD COLUMN puts into the rows that exist.

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use lakeward_core::{DataType, Literal};

use super::history::StatementTime;
use crate::model::{MysqlColumn, MysqlDefault, MysqlType};

/// What rows that exist hold in a column that was just added; `None` where only the server knows.
pub fn existing_rows(
    column: &MysqlColumn,
    data_type: &DataType,
    time: Option<&StatementTime>,
) -> Option<Literal> {
    if column.generated || column.auto_increment {
        return None;
    }
    match &column.default {
        MysqlDefault::None if column.nullable => Some(Literal::Null),
        MysqlDefault::None => implicit(column, data_type),
        default => constant(default, column, data_type, time),
    }
}

/// A DEFAULT as a literal; `None` where it is none, or no constant.
pub fn constant(
    default: &MysqlDefault,
    column: &MysqlColumn,
    data_type: &DataType,
    time: Option<&StatementTime>,
) -> Option<Literal> {
    let literal = match default {
        MysqlDefault::Null => Literal::Null,
        MysqlDefault::Text(text) => from_text(text, column, data_type, time)?,
        MysqlDefault::Bytes(bytes) => from_bytes(bytes, column, data_type, time)?,
        MysqlDefault::Now => now(column, time?)?,
        MysqlDefault::None | MysqlDefault::Expression => return None,
    };
    // What cannot stand in the column's layout is no constant that a sink could write.
    literal.to_array(data_type, 1).ok().map(|_| literal)
}

/// What a NOT NULL column without a DEFAULT holds.
fn implicit(column: &MysqlColumn, data_type: &DataType) -> Option<Literal> {
    let text = match &column.column_type {
        MysqlType::Enum { labels, .. } => labels.first()?,
        MysqlType::Json | MysqlType::Geometry | MysqlType::Vector { .. } => return None,
        // Zero dates, which the lake knows as null.
        MysqlType::Date | MysqlType::DateTime { .. } | MysqlType::Timestamp { .. } => {
            return Some(Literal::Null);
        }
        MysqlType::Uuid => "00000000-0000-0000-0000-000000000000",
        MysqlType::Inet4 => "0.0.0.0",
        MysqlType::Inet6 => "::",
        MysqlType::Char { .. }
        | MysqlType::Varchar { .. }
        | MysqlType::Text { .. }
        | MysqlType::Set { .. }
        | MysqlType::Binary { .. }
        | MysqlType::Varbinary { .. }
        | MysqlType::Blob { .. } => "",
        MysqlType::Time { .. } => "00:00:00",
        _ => "0",
    };
    let default = match &column.column_type {
        MysqlType::Bit { .. } => MysqlDefault::Bytes(vec![0]),
        MysqlType::Year => return Some(Literal::Long(0)),
        _ => MysqlDefault::Text(text.into()),
    };
    constant(&default, column, data_type, None)
}

fn from_text(
    text: &str,
    column: &MysqlColumn,
    data_type: &DataType,
    time: Option<&StatementTime>,
) -> Option<Literal> {
    match &column.column_type {
        MysqlType::Year => year(text.trim()).map(Literal::Long),
        MysqlType::Float | MysqlType::Double => {
            let value: f64 = text.trim().parse().ok().filter(|v: &f64| v.is_finite())?;
            let value = column.float_scale.map_or(value, |scale| {
                // As the servers do it: only the fraction is scaled, and ties go to the even digit.
                let unit = 10f64.powi(i32::from(scale));
                let whole = value.floor();
                whole + ((value - whole) * unit).round_ties_even() / unit
            });
            Some(Literal::Double(if *data_type == DataType::Float {
                f64::from(value as f32)
            } else {
                value
            }))
        }
        MysqlType::Decimal { precision, scale, .. } => {
            let value = decimal(text.trim(), *scale)?;
            match data_type {
                DataType::Decimal { .. } => Some(Literal::Decimal(value)),
                _ if *precision > 38 => Some(Literal::String(decimal_text(value, *scale).into())),
                _ => None,
            }
        }
        MysqlType::TinyInt { .. }
        | MysqlType::SmallInt { .. }
        | MysqlType::MediumInt { .. }
        | MysqlType::Int { .. }
        | MysqlType::BigInt { .. }
        | MysqlType::Bit { .. } => integer(decimal(text.trim(), 0)?, data_type),
        MysqlType::Date => match instant(text)? {
            Instant::Zero => Some(Literal::Null),
            Instant::At(at) => Some(Literal::Long(i64::from(
                at.num_days_from_ce() - NaiveDate::default().num_days_from_ce(),
            ))),
        },
        MysqlType::DateTime { fsp } => match instant(text)? {
            Instant::Zero => Some(Literal::Null),
            Instant::At(at) => Some(Literal::Long(round(at.and_utc().timestamp_micros(), *fsp))),
        },
        MysqlType::Timestamp { fsp } => match instant(text)? {
            Instant::Zero => Some(Literal::Null),
            Instant::At(at) => {
                let offset_micros = i64::from(time?.offset_secs?) * 1_000_000;
                Some(Literal::Long(round(at.and_utc().timestamp_micros() - offset_micros, *fsp)))
            }
        },
        MysqlType::Time { fsp } => {
            duration(text.trim()).map(|micros| Literal::Long(round(micros, *fsp)))
        }
        MysqlType::Char { .. } => Some(Literal::String(text.trim_end_matches(' ').into())),
        MysqlType::Varchar { .. } | MysqlType::Text { .. } => Some(Literal::String(text.into())),
        MysqlType::Enum { labels, .. } => {
            let label = labels.iter().find(|l| ***l == *text).or_else(|| {
                labels.iter().find(|l| l.to_lowercase() == text.trim_end().to_lowercase())
            });
            let by_number = || labels.get(text.parse::<usize>().ok()?.checked_sub(1)?);
            label.or_else(by_number).map(|l| Literal::String(l.clone()))
        }
        MysqlType::Set { labels, .. } => set(text, labels),
        // How the server writes a document down is known for these alone.
        MysqlType::Json => {
            matches!(text, "{}" | "[]" | "null").then(|| Literal::String(text.into()))
        }
        MysqlType::Uuid => uuid(text),
        MysqlType::Inet4 => {
            text.parse::<std::net::Ipv4Addr>().ok().map(|ip| Literal::String(ip.to_string().into()))
        }
        MysqlType::Inet6 => (text == "::" || text == "::1").then(|| Literal::String(text.into())),
        // The bytes of a text depend on the session's character set, unless it is ASCII.
        MysqlType::Binary { .. } | MysqlType::Varbinary { .. } | MysqlType::Blob { .. } => {
            text.is_ascii().then(|| padded(text.as_bytes(), &column.column_type))
        }
        MysqlType::Geometry | MysqlType::Vector { .. } => None,
    }
}

fn from_bytes(
    bytes: &[u8],
    column: &MysqlColumn,
    data_type: &DataType,
    time: Option<&StatementTime>,
) -> Option<Literal> {
    match &column.column_type {
        MysqlType::Binary { .. } | MysqlType::Varbinary { .. } | MysqlType::Blob { .. } => {
            Some(padded(bytes, &column.column_type))
        }
        MysqlType::Bit { .. }
        | MysqlType::TinyInt { .. }
        | MysqlType::SmallInt { .. }
        | MysqlType::MediumInt { .. }
        | MysqlType::Int { .. }
        | MysqlType::BigInt { .. } => {
            let significant = bytes.iter().skip_while(|b| **b == 0);
            if significant.clone().count() > 8 {
                return None;
            }
            integer(significant.fold(0, |acc, b| acc << 8 | i128::from(*b)), data_type)
        }
        _ => {
            let text = std::str::from_utf8(bytes).ok()?;
            let is_utf8 = matches!(
                &column.column_type,
                MysqlType::Char { charset, .. }
                | MysqlType::Varchar { charset, .. }
                | MysqlType::Text { charset, .. } if charset.starts_with("utf8")
            );
            if is_utf8 || text.is_ascii() { from_text(text, column, data_type, time) } else { None }
        }
    }
}

fn integer(value: i128, data_type: &DataType) -> Option<Literal> {
    match data_type {
        DataType::Boolean => Some(Literal::Boolean(value != 0)),
        DataType::Decimal { scale: 0, .. } => Some(Literal::Decimal(value)),
        _ => i64::try_from(value).ok().map(Literal::Long),
    }
}

/// BINARY is padded with zero bytes, by the server and so by us.
fn padded(bytes: &[u8], column_type: &MysqlType) -> Literal {
    let mut bytes = bytes.to_vec();
    if let MysqlType::Binary { length } = column_type {
        bytes.resize((*length as usize).max(bytes.len()), 0);
    }
    Literal::Binary(bytes)
}

fn now(column: &MysqlColumn, time: &StatementTime) -> Option<Literal> {
    let (fsp, offset_secs) = match column.column_type {
        MysqlType::Timestamp { fsp } => (fsp, 0),
        MysqlType::DateTime { fsp } => (fsp, time.offset_secs?),
        _ => return None,
    };
    if fsp > 0 && !time.has_fraction {
        return None;
    }
    // The present time is cut to the column's digits, constants are rounded.
    let unit = 10i64.pow(6 - u32::from(fsp.min(6)));
    let micros = time.micros.checked_add(i64::from(offset_secs) * 1_000_000)?;
    Some(Literal::Long(micros.div_euclid(unit) * unit))
}

fn set(text: &str, labels: &[std::sync::Arc<str>]) -> Option<Literal> {
    let wanted: Vec<String> =
        text.split(',').filter(|l| !l.is_empty()).map(str::to_lowercase).collect();
    let known = |l: &str| wanted.contains(&l.to_lowercase());
    let chosen: Vec<&str> = labels.iter().map(|l| &**l).filter(|l| known(l)).collect();
    let all = wanted.iter().all(|w| labels.iter().any(|l| l.to_lowercase() == *w));
    all.then(|| Literal::String(chosen.join(",").into()))
}

fn uuid(text: &str) -> Option<Literal> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    if hex.len() != 32 || !hex.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let hex = hex.to_ascii_lowercase();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Some(Literal::String(parts.join("-").into()))
}

/// A number's unscaled value at `scale` digits after the point, rounded half away from zero.
fn decimal(text: &str, scale: u8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = !(whole.is_empty() && fraction.is_empty())
        && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    if !is_number || exponent.abs() > 100 {
        return None;
    }
    let mut all: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    // Where the last digit that stays ends.
    let keep = i32::try_from(whole.len()).ok()? + exponent + i32::from(scale);
    let rounds_up = match usize::try_from(keep) {
        Ok(keep) => {
            let rounds_up = all.get(keep).is_some_and(|d| *d >= 5);
            all.resize(keep, 0);
            rounds_up
        }
        Err(_) => {
            all.clear();
            false
        }
    };
    let mut value = 0i128;
    for digit in all {
        value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
    }
    let value = value.checked_add(i128::from(rounds_up))?;
    Some(if negative { -value } else { value })
}

fn decimal_text(value: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// Two digits stand for 1970 to 2069.
fn year(text: &str) -> Option<i64> {
    let value = decimal(text, 0).and_then(|v| i64::try_from(v).ok())?;
    match (value, text.len()) {
        (0, 4) => Some(0),
        // `0` is the year 0000 as a number and 2000 as a string: not to be told apart here.
        (0, _) => None,
        (1..=69, _) => Some(2000 + value),
        (70..=99, _) => Some(1900 + value),
        (1901..=2155, _) => Some(value),
        _ => None,
    }
}

enum Instant {
    /// A date of zeros, or with a zero month or day.
    Zero,
    At(NaiveDateTime),
}

/// A date, with or without a time, in the forms that the servers accept for constants.
fn instant(text: &str) -> Option<Instant> {
    let text = text.trim();
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, time.trim()),
        None => (text, ""),
    };
    let parts: Vec<&str> = date.split(|c: char| c.is_ascii_punctuation()).collect();
    let [year, month, day] = parts[..] else { return compact_instant(text) };
    let year = match year.len() {
        4 => year.parse::<i32>().ok()?,
        _ => return None,
    };
    let (month, day) = (month.parse().ok()?, day.parse().ok()?);
    if month == 0 || day == 0 {
        return Some(Instant::Zero);
    }
    let date = NaiveDate::from_ymd_opt(year, month, day)?;
    let micros = if time.is_empty() { 0 } else { clock(time)? };
    at(date, micros)
}

/// `20240105` and `20240105102030`.
fn compact_instant(text: &str) -> Option<Instant> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if text.bytes().all(|b| b == b'0') {
        return Some(Instant::Zero);
    }
    let micros = match text.len() {
        8 => 0,
        14 => clock(&format!("{}:{}:{}", &text[8..10], &text[10..12], &text[12..14]))?,
        _ => return None,
    };
    let (month, day) = (text[4..6].parse().ok()?, text[6..8].parse().ok()?);
    if month == 0 || day == 0 {
        return Some(Instant::Zero);
    }
    at(NaiveDate::from_ymd_opt(text[..4].parse().ok()?, month, day)?, micros)
}

fn at(date: NaiveDate, micros: i64) -> Option<Instant> {
    let time = NaiveTime::from_num_seconds_from_midnight_opt(
        u32::try_from(micros / 1_000_000).ok()?,
        u32::try_from(micros % 1_000_000).ok()? * 1000,
    )?;
    debug_assert!(time.nanosecond() < 1_000_000_000);
    Some(Instant::At(date.and_time(time)))
}

/// `h:m[:s[.f]]` in microseconds.
fn clock(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let parts: Vec<i64> = whole.split(':').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [h, m, s] => (h, m, s),
        [h, m] => (h, m, 0),
        _ => return None,
    };
    if !(0..60).contains(&minutes) || !(0..60).contains(&seconds) || !(0..=838).contains(&hours) {
        return None;
    }
    Some((hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction_micros(fraction)?)
}

fn fraction_micros(digits: &str) -> Option<i64> {
    if digits.is_empty() {
        return Some(0);
    }
    i64::try_from(decimal(&format!("0.{digits}"), 6)?).ok()
}

/// A TIME constant: `[-][d ]h:m[:s[.f]]` or `hhmmss`.
fn duration(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (days, text) = match text.split_once(' ') {
        Some((days, rest)) => (days.parse::<i64>().ok()?, rest),
        None => (0, text),
    };
    let micros = if text.contains(':') {
        clock(text)?
    } else {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let number: i64 = whole.parse().ok()?;
        let (h, m, s) = (number / 10_000, number / 100 % 100, number % 100);
        clock(&format!("{h}:{m}:{s}"))? + fraction_micros(fraction)?
    };
    let micros = micros.checked_add(days.checked_mul(86_400_000_000)?)?;
    Some(if negative { -micros } else { micros })
}

/// To so many digits of a second, half away from zero.
fn round(micros: i64, fsp: u8) -> i64 {
    let unit = 10i64.pow(6 - u32::from(fsp.min(6)));
    let rest = micros.rem_euclid(unit);
    let down = micros - rest;
    if rest * 2 >= unit && unit > 1 { down + unit } else { down }
}
