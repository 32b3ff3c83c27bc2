//! Values as the text that Doris reads: dates, wall clocks, decimals.

use chrono::{DateTime, Datelike, NaiveDate, Timelike};
use lakeward_core::{Error, Result};

/// Doris' DATE and DATETIME end here.
const MAX_YEAR: i32 = 9999;

fn out_of_range() -> Error {
    Error::data_invalid("a date is outside the years 0 to 9999, which doris cannot hold")
}

fn push_padded(value: u32, width: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value);
    for _ in digits.len()..width {
        out.push(b'0');
    }
    out.extend_from_slice(digits.as_bytes());
}

fn push_day(date: NaiveDate, out: &mut Vec<u8>) -> Result<()> {
    let year = u32::try_from(date.year()).map_err(|_| out_of_range())?;
    if date.year() > MAX_YEAR {
        return Err(out_of_range());
    }
    push_padded(year, 4, out);
    out.push(b'-');
    push_padded(date.month(), 2, out);
    out.push(b'-');
    push_padded(date.day(), 2, out);
    Ok(())
}

/// `days` since the epoch as `2024-02-29`.
pub(crate) fn push_date(days: i32, out: &mut Vec<u8>) -> Result<()> {
    let date = DateTime::from_timestamp(i64::from(days) * 86_400, 0).ok_or_else(out_of_range)?;
    push_day(date.date_naive(), out)
}

/// `micros` since the epoch as `2024-02-29 12:00:00.123456`, with as many digits of the second as `precision` says.
pub(crate) fn push_timestamp(micros: i64, precision: u8, out: &mut Vec<u8>) -> Result<()> {
    let at = DateTime::from_timestamp_micros(micros).ok_or_else(out_of_range)?;
    push_day(at.date_naive(), out)?;
    out.push(b' ');
    push_padded(at.hour(), 2, out);
    out.push(b':');
    push_padded(at.minute(), 2, out);
    out.push(b':');
    push_padded(at.second(), 2, out);
    let precision = precision.min(6);
    if precision > 0 {
        let fraction = u32::try_from(micros.rem_euclid(1_000_000)).unwrap_or(0);
        out.push(b'.');
        push_padded(fraction / 10u32.pow(u32::from(6 - precision)), usize::from(precision), out);
    }
    Ok(())
}

/// An unscaled value under a scale as `-12.30`.
pub(crate) fn push_decimal(unscaled: i128, scale: i8, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let Ok(scale @ 1..) = usize::try_from(scale) else {
        out.extend_from_slice(buffer.format(unscaled).as_bytes());
        return;
    };
    if unscaled < 0 {
        out.push(b'-');
    }
    let digits = buffer.format(unscaled.unsigned_abs()).as_bytes();
    let whole = digits.len().saturating_sub(scale);
    if whole == 0 {
        out.push(b'0');
    }
    out.extend_from_slice(&digits[..whole]);
    out.push(b'.');
    for _ in digits.len()..scale {
        out.push(b'0');
    }
    out.extend_from_slice(&digits[whole..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).expect("ascii")
    }

    #[test]
    fn dates_and_clocks() {
        let date = |days| text(|out| push_date(days, out).expect("in range"));
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(19_782), "2024-02-29");
        assert_eq!(date(-719_528), "0000-01-01");
        assert!(push_date(-719_529, &mut Vec::new()).is_err());
        assert!(push_date(2_932_897, &mut Vec::new()).is_err());
        let at = |micros, precision| {
            text(|out| push_timestamp(micros, precision, out).expect("in range"))
        };
        assert_eq!(at(-1, 6), "1969-12-31 23:59:59.999999");
        assert_eq!(at(1_000_000_123_456, 3), "1970-01-12 13:46:40.123");
        assert_eq!(at(1_000_000_123_456, 0), "1970-01-12 13:46:40");
        assert!(push_timestamp(i64::MAX, 6, &mut Vec::new()).is_err());
    }

    #[test]
    fn decimals() {
        let decimal = |v, scale| text(|out| push_decimal(v, scale, out));
        assert_eq!(decimal(0, 2), "0.00");
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(12_345, 2), "123.45");
        assert_eq!(decimal(-12_345, 0), "-12345");
        let smallest = i128::MIN.to_string();
        let (whole, fraction) = smallest.split_at(2);
        assert_eq!(decimal(i128::MIN, 38), format!("{whole}.{fraction}"));
    }
}
