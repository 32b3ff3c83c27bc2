//! Dates and times as constants are written.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

use super::literal::decimal;

/// Two digits stand for 1970 to 2069.
pub fn year(text: &str) -> Option<i64> {
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

pub enum Instant {
    /// A date of zeros, or with a zero month or day.
    Zero,
    At(NaiveDateTime),
}

/// A date, with or without a time, in the forms that the servers accept for constants.
pub fn instant(text: &str) -> Option<Instant> {
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
pub fn duration(text: &str) -> Option<i64> {
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
pub fn round(micros: i64, fsp: u8) -> i64 {
    let unit = 10i64.pow(6 - u32::from(fsp.min(6)));
    let rest = micros.rem_euclid(unit);
    let down = micros - rest;
    if rest * 2 >= unit && unit > 1 { down + unit } else { down }
}
