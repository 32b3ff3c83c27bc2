//! One text form for a value, whether it comes from the source, from the lake or from a test's expectation.
//!
//! Integers and decimals are digits, with all digits of their scale. Floats are their bits, because two decimal texts of
//! one float need not be equal. Dates are days and times microseconds, dates and timestamps counted from 1970. Bytes are
//! upper-case hex. JSON has sorted keys and no blanks.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How the source's text of a column becomes the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Integer,
    Decimal,
    Float,
    Double,
    Date,
    Timestamp,
    Time,
    Json,
    /// Text, and bytes that the query prints in hex.
    Text,
}

impl Form {
    /// The form of a source value; `None` is NULL, and so is a date that no calendar has.
    pub fn of_source(self, text: &str) -> Result<Option<String>> {
        let form = match self {
            Form::Text => text.to_owned(),
            Form::Integer | Form::Decimal => digits(text)?,
            Form::Float => float_bits(text.parse::<f64>().context("no float")? as f32),
            Form::Double => double_bits(text.parse().context("no double")?),
            Form::Date => return Ok(days(text).map(|d| d.to_string())),
            Form::Timestamp => return Ok(timestamp_micros(text).map(|us| us.to_string())),
            Form::Time => time_micros(text).context("no time")?.to_string(),
            Form::Json => json(text)?,
        };
        Ok(Some(form))
    }

    /// The form of a value of the lake that `python/lake.py` printed.
    pub fn of_lake(self, kind: &str, text: &str) -> Result<String> {
        match self {
            Form::Json => json(text),
            _ => of_lake_kind(kind, text),
        }
    }
}

/// The form of a lake value where only its Iceberg type is known.
pub fn of_lake_kind(kind: &str, text: &str) -> Result<String> {
    Ok(match kind {
        "float" => float_bits(text.parse().context("no float")?),
        "double" => double_bits(text.parse().context("no double")?),
        _ => text.to_owned(),
    })
}

/// The form of a value that a test expects in a column of an Iceberg type.
pub fn of_expected(kind: &str, value: &Value) -> Result<Option<String>> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => bail!("an expected value is text, a number or null, not {other}"),
    };
    Ok(Some(match kind {
        "date" => days(&text).context("no date")?.to_string(),
        "timestamp" | "timestamptz" => timestamp_micros(&text).context("no time")?.to_string(),
        _ => of_lake_kind(kind, &text)?,
    }))
}

/// Without the zeros that ZEROFILL puts in front.
fn digits(text: &str) -> Result<String> {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    if !rest.bytes().all(|b| b.is_ascii_digit() || b == b'.') || whole.is_empty() {
        bail!("no number");
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let is_zero = whole == "0" && fraction.is_none_or(|f| f.bytes().all(|b| b == b'0'));
    let sign = if is_zero { "" } else { sign };
    Ok(fraction.map_or(format!("{sign}{whole}"), |f| format!("{sign}{whole}.{f}")))
}

fn float_bits(value: f32) -> String {
    format!("f32:{:08x}", value.to_bits())
}

fn double_bits(value: f64) -> String {
    format!("f64:{:016x}", value.to_bits())
}

fn json(text: &str) -> Result<String> {
    let value: Value = serde_json::from_str(text).context("no JSON")?;
    Ok(value.to_string())
}

/// Days since 1970 of `YYYY-MM-DD`, if it is a date of the calendar.
fn days(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Years that begin in March put the leap day last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(
        365 * shifted + shifted.div_euclid(4) - shifted.div_euclid(100)
            + shifted.div_euclid(400)
            + in_year
            - 719_468,
    )
}

fn timestamp_micros(text: &str) -> Option<i64> {
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    Some(days(date)? * 86_400_000_000 + time_micros(time)?)
}

/// Signed microseconds of `[-]H…:MM:SS[.ffffff]`.
fn time_micros(text: &str) -> Option<i64> {
    let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (clock, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    let mut parts = clock.splitn(3, ':').map(str::parse::<i64>);
    let (h, m, s) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    Some(sign * (((h * 60 + m) * 60 + s) * 1_000_000 + micros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source(form: Form, text: &str) -> Option<String> {
        form.of_source(text).unwrap()
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(days("1970-01-01"), Some(0));
        assert_eq!(days("2024-02-29"), Some(19_782));
        assert_eq!(days("1000-01-01"), Some(-354_285));
        assert_eq!(days("9999-12-31"), Some(2_932_896));
        for no_date in ["0000-00-00", "2023-02-29", "2024-13-01", "2024-00-10"] {
            assert_eq!(days(no_date), None, "{no_date}");
        }
        assert_eq!(timestamp_micros("2026-02-10 13:15:30.5"), Some(1_770_729_330_500_000));
        assert_eq!(time_micros("-600:30:15"), Some(-2_161_815_000_000));
        assert_eq!(time_micros("-00:00:00.000001"), Some(-1));
    }

    #[test]
    fn numbers() {
        assert_eq!(source(Form::Integer, "00007").as_deref(), Some("7"));
        assert_eq!(source(Form::Decimal, "-000.0100").as_deref(), Some("-0.0100"));
        assert_eq!(source(Form::Decimal, "-0.00").as_deref(), Some("0.00"));
        assert!(Form::Integer.of_source("1e3").is_err());
        // The source shows a float widened to a double, the lake as a float.
        let lake = Form::Float.of_lake("float", "0.07").unwrap();
        assert_eq!(source(Form::Float, "0.07000000029802322"), Some(lake));
        assert_eq!(of_expected("float", &json!(0.07)).unwrap(), source(Form::Float, "0.07"));
        assert_ne!(source(Form::Double, "0.1"), source(Form::Double, "0.10000000149011612"));
    }

    #[test]
    fn json_is_compared_by_meaning_but_numbers_by_digits() {
        let a = source(Form::Json, r#"{"b": 1, "a": [1.10, null]}"#).unwrap();
        assert_eq!(Form::Json.of_lake("string", r#"{"a":[1.10,null],"b":1}"#).unwrap(), a);
        assert_ne!(Form::Json.of_lake("string", r#"{"a":[1.1,null],"b":1}"#).unwrap(), a);
    }
}
