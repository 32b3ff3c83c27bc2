//! Dates and times as Doris reads and prints them.

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, TimeDelta};

/// Days since 1970-01-01.
pub fn date(text: &str, offset_minutes: i32) -> Option<i32> {
    let micros = date_time(text, 6, offset_minutes)?;
    i32::try_from(micros.div_euclid(MICROS_OF_DAY)).ok()
}

const MICROS_OF_DAY: i64 = 86_400_000_000;

/// Microseconds since 1970-01-01, rounded to `digits` of a second. A zone in the text is converted to `offset_minutes`.
pub fn date_time(text: &str, digits: u8, offset_minutes: i32) -> Option<i64> {
    let (day, rest) = leading_date(text)?;
    let rest = rest.strip_prefix(['T', 't', ' ']).unwrap_or(rest);
    let (clock, zone) = match rest.find(['+', '-', 'Z', 'z']) {
        Some(at) => (&rest[..at], Some(&rest[at..])),
        None => (rest, None),
    };
    let mut micros = time(clock.trim())?;
    if let Some(zone) = zone {
        micros += i64::from(offset_minutes - offset(zone)?) * 60_000_000;
    }
    micros += day.and_time(NaiveTime::MIN).and_utc().timestamp_micros();
    let unit = 10_i64.pow(u32::from(6 - digits.min(6)));
    let rounded = (micros + unit / 2).div_euclid(unit) * unit;
    let year = DateTime::from_timestamp_micros(rounded)?.year();
    (0..=9999).contains(&year).then_some(rounded)
}

/// Minutes east of Greenwich: `Z`, `UTC`, `+08:00`, `Asia/Shanghai`. Other names are not known here.
pub fn offset(zone: &str) -> Option<i32> {
    match zone {
        "Z" | "z" | "UTC" | "GMT" | "Etc/UTC" => return Some(0),
        "CST" | "PRC" | "Asia/Shanghai" => return Some(480),
        _ => {}
    }
    let (sign, rest) = match zone.as_bytes().first()? {
        b'+' => (1, &zone[1..]),
        b'-' => (-1, &zone[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

pub fn print_date(days: i32) -> String {
    match NaiveDate::default().checked_add_signed(TimeDelta::days(days.into())) {
        Some(date) => format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day()),
        None => days.to_string(),
    }
}

pub fn print_date_time(micros: i64, digits: u8) -> String {
    let day = micros.div_euclid(MICROS_OF_DAY);
    let within = micros.rem_euclid(MICROS_OF_DAY);
    let (seconds, fraction) = (within / 1_000_000, within % 1_000_000);
    let date = print_date(i32::try_from(day).unwrap_or(i32::MAX));
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match usize::from(digits.min(6)) {
        0 => format!("{date} {clock}"),
        digits => format!("{date} {clock}.{}", &format!("{fraction:06}")[..digits]),
    }
}

/// `2024-1-31`, `2024/01/31` or `20240131`, and what follows.
fn leading_date(text: &str) -> Option<(NaiveDate, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 8 || digits == 14 {
        let numbers = (text[..4].parse().ok()?, text[4..6].parse().ok()?, text[6..8].parse().ok()?);
        return Some((NaiveDate::from_ymd_opt(numbers.0, numbers.1, numbers.2)?, &text[8..]));
    }
    let (year, rest) = number(text, 4)?;
    let rest = rest.strip_prefix(['-', '/'])?;
    let (month, rest) = number(rest, 2)?;
    let rest = rest.strip_prefix(['-', '/'])?;
    let (day, rest) = number(rest, 2)?;
    Some((NaiveDate::from_ymd_opt(year as i32, month, day)?, rest))
}

/// Microseconds of the day.
fn time(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (hour, rest) = number(text, 2)?;
    let (minute, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 2)?,
        None => number(rest, 2).unwrap_or((0, rest)),
    };
    let (second, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 2)?,
        None => number(rest, 2).unwrap_or((0, rest)),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut micros = i64::from(hour * 3600 + minute * 60 + second) * 1_000_000;
    if let Some(fraction) = rest.strip_prefix('.') {
        if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let six: String = fraction.chars().chain("000000".chars()).take(6).collect();
        micros += six.parse::<i64>().ok()?;
        micros += i64::from(fraction.as_bytes().get(6).is_some_and(|b| *b >= b'5'));
    } else if !rest.is_empty() {
        return None;
    }
    Some(micros)
}

fn number(text: &str, longest: usize) -> Option<(u32, &str)> {
    let digits = text.bytes().take(longest).take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, digits: u8) -> Option<String> {
        date_time(text, digits, 480).map(|micros| print_date_time(micros, digits))
    }

    #[test]
    fn spellings() {
        assert_eq!(read("2024-02-29", 0).as_deref(), Some("2024-02-29 00:00:00"));
        assert_eq!(read("20240229123456", 0).as_deref(), Some("2024-02-29 12:34:56"));
        assert_eq!(read("2024-2-9T1:02:03.5", 3).as_deref(), Some("2024-02-09 01:02:03.500"));
        assert_eq!(read("2024-12-31 23:59:59.9", 0).as_deref(), Some("2025-01-01 00:00:00"));
        assert_eq!(
            read("2024-12-31 23:59:59.1234567", 6).as_deref(),
            Some("2024-12-31 23:59:59.123457")
        );
        assert_eq!(date("0000-01-01 05:00:00", 0).map(print_date).as_deref(), Some("0000-01-01"));
    }

    #[test]
    fn a_zone_is_converted_to_the_zone_of_the_load() {
        assert_eq!(read("2024-01-01 00:00:00Z", 0).as_deref(), Some("2024-01-01 08:00:00"));
        assert_eq!(read("2024-01-01 00:00:00+08:00", 0).as_deref(), Some("2024-01-01 00:00:00"));
    }

    #[test]
    fn no_dates() {
        for text in [
            "",
            "0000-00-00",
            "2024-02-30",
            "2024-01-01 24:00:00",
            "10000-01-01",
            "x",
            "9999-12-31 23:59:59.9",
            "2024-01-01 1:2:3.x",
        ] {
            assert_eq!(read(text, 0), None, "{text}");
        }
    }
}
