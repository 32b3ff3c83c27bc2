//! Dates and times: from the texts and numbers that capture systems write, to days and microseconds.

use chrono::{NaiveDate, NaiveDateTime};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days since the epoch of `2024-02-29`. A zero date is `None`, as is what is no date.
pub fn days(text: &str) -> Option<i32> {
    let date = NaiveDate::parse_from_str(text.get(..10)?, "%Y-%m-%d").ok()?;
    // A date may come with a midnight behind it.
    match text.get(10..)? {
        "" | "Z" => {}
        rest => {
            let time = rest.strip_prefix(['T', ' '])?;
            let (time, _) = split_zone(time);
            if time_micros(time)? != 0 {
                return None;
            }
        }
    }
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

/// True for MySQL's dates that do not exist: `0000-00-00`, `2024-00-01`.
pub fn is_zero_date(text: &str) -> bool {
    let Some((year, rest)) = text.get(..10).and_then(|date| date.split_once('-')) else {
        return false;
    };
    let Some((month, day)) = rest.split_once('-') else { return false };
    let digits = |t: &str, n| t.len() == n && t.bytes().all(|b| b.is_ascii_digit());
    digits(year, 4) && digits(month, 2) && digits(day, 2) && (month == "00" || day == "00")
}

/// Signed microseconds of `-838:59:59.000001` or `12:30`.
pub fn time_micros(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.split(':');
    let hours: i64 = number(parts.next()?, 4)?;
    let minutes: i64 = number(parts.next()?, 2).filter(|m| *m < 60)?;
    let seconds = match parts.next() {
        Some(seconds) => seconds_micros(seconds)?,
        None => 0,
    };
    if parts.next().is_some() {
        return None;
    }
    let micros = (hours * 3600 + minutes * 60) * MICROS_PER_SECOND + seconds;
    Some(if negative { -micros } else { micros })
}

fn seconds_micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = number(whole, 2).filter(|s| *s < 61)?;
    let mut micros = 0;
    for at in 0..6 {
        let digit = fraction.as_bytes().get(at).copied().unwrap_or(b'0');
        micros = micros * 10 + i64::from(digit.is_ascii_digit().then_some(digit - b'0')?);
    }
    fraction.bytes().all(|b| b.is_ascii_digit()).then_some(whole * MICROS_PER_SECOND + micros)
}

fn number(text: &str, most: usize) -> Option<i64> {
    let fits = !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok())?
}

/// Microseconds of `2024-01-01T10:00:00.5` or with a blank between, as if it were UTC, and the offset from UTC in seconds
/// where one is given (`Z`, `+08:00`).
pub fn timestamp_micros(text: &str) -> Option<(i64, Option<i32>)> {
    let date = NaiveDate::parse_from_str(text.get(..10)?, "%Y-%m-%d").ok()?;
    let midnight =
        NaiveDateTime::from(date).and_utc().timestamp().checked_mul(MICROS_PER_SECOND)?;
    let rest = text.get(10..)?;
    if rest.is_empty() {
        return Some((midnight, None));
    }
    let (time, offset) = split_zone(rest.strip_prefix(['T', ' '])?);
    let micros = time_micros(time).filter(|m| (0..=MICROS_PER_DAY).contains(m))?;
    Some((midnight.checked_add(micros)?, offset))
}

/// The time, and the zone behind it. What cannot be a zone stays with the time, which then is no time.
fn split_zone(text: &str) -> (&str, Option<i32>) {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return (time, Some(0));
    }
    let at = text.rfind(['+', '-']).filter(|at| *at > 0);
    let zone = at.and_then(|at| Some((text[..at].trim_end(), zone_offset_secs(&text[at..])?)));
    match zone {
        Some((time, secs)) => (time, Some(secs)),
        None => (text, None),
    }
}

/// Seconds of `+08:00`, `-0330`, `+08`.
pub fn zone_offset_secs(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => (digits.get(..2)?, digits.get(2..)?),
        None => (digits, "00"),
    };
    let hours = number(hours, 2).filter(|h| *h < 19)?;
    let minutes = number(minutes, 2).filter(|m| *m < 60)?;
    i32::try_from(sign * (hours * 3600 + minutes * 60)).ok()
}

/// A count of parts of a second, to microseconds: 3, 6 or 9 digits behind the second. Rounds towards the past.
pub fn scaled_micros(value: i64, digits: u32) -> Option<i64> {
    match digits {
        3 => value.checked_mul(1_000),
        6 => Some(value),
        _ => Some(value.div_euclid(1_000)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_of_all_capture_systems() {
        assert_eq!(days("1970-01-02"), Some(1));
        assert_eq!(days("1969-12-31T00:00:00Z"), Some(-1));
        assert_eq!(days("2024-02-30"), None);
        assert!(is_zero_date("0000-00-00 00:00:00") && is_zero_date("2024-05-00"));
        assert!(!is_zero_date("2024-05-01") && !is_zero_date("abcd-00-00"));
        assert_eq!(time_micros("-838:59:59"), Some(-3_020_399_000_000));
        assert_eq!(time_micros("00:00:01.25"), Some(1_250_000));
        assert_eq!(time_micros("1:2:3:4"), None);
        assert_eq!(timestamp_micros("1970-01-01 00:00:01.5"), Some((1_500_000, None)));
        assert_eq!(
            timestamp_micros("1970-01-01T08:00:00+08:00"),
            Some((28_800_000_000, Some(28_800)))
        );
        assert_eq!(timestamp_micros("1970-01-01T00:00:00.123456789Z"), Some((123_456, Some(0))));
        assert_eq!(timestamp_micros("1970-01-01 25:00:00"), None);
        assert_eq!(zone_offset_secs("-0330"), Some(-12_600));
        assert_eq!(scaled_micros(-1, 9), Some(-1));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = (days(&text), time_micros(&text), timestamp_micros(&text), is_zero_date(&text));
            let _ = zone_offset_secs(&text);
        }
    }
}
