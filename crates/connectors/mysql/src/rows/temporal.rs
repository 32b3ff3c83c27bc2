//! Dates and times in all forms that the servers ever wrote: MySQL 5.6 and later, before it, and
//! MariaDB's own between (`mysql56_temporal_format=OFF`).
//!
//! A date that no calendar has (zero dates, zero parts, 31 February) is `None` and becomes null.

use crate::binlog::{be_uint, le_uint};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
/// 838:59:59, the reach of TIME.
const TIME_LIMIT_US: i64 = (838 * 3600 + 59 * 60 + 59) * SECOND_US;

const POWERS: [i64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// Bytes of a fraction in the format of MySQL 5.6.
pub(crate) fn fraction_bytes(fsp: u8) -> usize {
    usize::from(fsp).div_ceil(2)
}

/// The fraction in microseconds: two digits in each byte.
#[inline]
fn fraction_us(bytes: &[u8]) -> i64 {
    let value = be_uint(bytes) as i64;
    match bytes.len() {
        0 => 0,
        1 => value * 10_000,
        2 => value * 100,
        _ => value,
    }
}

/// Days since the epoch in the proleptic Gregorian calendar.
#[inline]
pub(crate) fn days(year: i64, month: i64, day: i64) -> Option<i32> {
    const LENGTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = LENGTHS[month as usize - 1] + i64::from(leap && month == 2);
    if !(1..=length).contains(&day) {
        return None;
    }
    // Years from March on, so that the leap day is the last of its year.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era_days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some((era * 146_097 + of_era_days - 719_468) as i32)
}

#[inline]
fn clock_us(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let valid = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    valid.then_some(((hour * 60 + minute) * 60 + second) * SECOND_US)
}

/// Microseconds since the epoch of a wall clock.
#[inline]
pub(crate) fn date_time_us(date: (i64, i64, i64), time: (i64, i64, i64), us: i64) -> Option<i64> {
    let days = days(date.0, date.1, date.2)?;
    let clock = clock_us(time.0, time.1, time.2)?;
    (0..SECOND_US).contains(&us).then_some(i64::from(days) * DAY_US + clock + us)
}

/// DATE, three bytes in all versions.
#[inline]
pub(crate) fn date(bytes: &[u8]) -> Option<i32> {
    let packed = le_uint(bytes) as i64;
    days(packed >> 9, packed >> 5 & 15, packed & 31)
}

/// DATETIME of MySQL 5.6: five bytes and a fraction.
#[inline]
pub(crate) fn date_time(bytes: &[u8]) -> Option<i64> {
    let (whole, fraction) = bytes.split_at_checked(5)?;
    let packed = be_uint(whole) as i64 - 0x80_0000_0000;
    let (date, time) = (packed >> 17, packed & 0x1_ffff);
    let month = date >> 5;
    date_time_us(
        (month / 13, month % 13, date & 31),
        (time >> 12, time >> 6 & 63, time & 63),
        fraction_us(fraction),
    )
}

/// DATETIME before MySQL 5.6: the decimal number YYYYMMDDhhmmss.
pub(crate) fn old_date_time(bytes: &[u8]) -> Option<i64> {
    let packed = i64::try_from(le_uint(bytes)).ok()?;
    let (date, time) = (packed / 1_000_000, packed % 1_000_000);
    date_time_us(
        (date / 10_000, date / 100 % 100, date % 100),
        (time / 10_000, time / 100 % 100, time % 100),
        0,
    )
}

/// MariaDB's DATETIME(1–6) before it took MySQL's format.
pub(crate) fn hires_date_time(bytes: &[u8], fsp: u8) -> Option<i64> {
    let unit = POWERS[6 - usize::from(fsp.min(6))];
    let packed = i64::try_from(be_uint(bytes)).ok()?.checked_mul(unit)?;
    let (seconds, us) = (packed / SECOND_US, packed % SECOND_US);
    let (minutes, second) = (seconds / 60, seconds % 60);
    let (hours, minute) = (minutes / 60, minutes % 60);
    let (days, hour) = (hours / 24, hours % 24);
    let (months, day) = (days / 32, days % 32);
    date_time_us((months / 13, months % 13, day), (hour, minute, second), us)
}

pub(crate) fn hires_date_time_bytes(fsp: u8) -> usize {
    [5, 6, 6, 7, 7, 7, 8][usize::from(fsp.min(6))]
}

/// TIMESTAMP of MySQL 5.6: seconds since the epoch, which MariaDB 11.5 lets reach into 2106, and a
/// fraction. The zero date is kept as second 0.
#[inline]
pub(crate) fn timestamp(bytes: &[u8]) -> Option<i64> {
    let (whole, fraction) = bytes.split_at_checked(4)?;
    seconds_us(be_uint(whole) as i64, fraction_us(fraction))
}

/// TIMESTAMP before MySQL 5.6.
pub(crate) fn old_timestamp(bytes: &[u8]) -> Option<i64> {
    seconds_us(u32::from_le_bytes(bytes.try_into().ok()?).into(), 0)
}

/// MariaDB's TIMESTAMP(1–6) before it took MySQL's format.
pub(crate) fn hires_timestamp(bytes: &[u8], fsp: u8) -> Option<i64> {
    let (whole, fraction) = bytes.split_at_checked(4)?;
    let unit = POWERS[6 - usize::from(fsp.min(6))];
    let us = i64::try_from(be_uint(fraction)).ok()?.checked_mul(unit)?;
    seconds_us(be_uint(whole) as i64, us)
}

pub(crate) fn hires_timestamp_bytes(fsp: u8) -> usize {
    4 + [0, 1, 1, 2, 2, 3, 3][usize::from(fsp.min(6))]
}

#[inline]
fn seconds_us(seconds: i64, us: i64) -> Option<i64> {
    (seconds != 0 && us < SECOND_US).then_some(seconds * SECOND_US + us)
}

/// TIME of MySQL 5.6: three bytes around 800000 and a fraction, which for a negative time counts up
/// from the next lower second.
#[inline]
pub(crate) fn time(bytes: &[u8]) -> Option<i64> {
    // With the fraction as the lower bytes of one number the borrow of a negative time undoes itself.
    let fraction_bits = 8 * bytes.len().checked_sub(3).filter(|n| *n <= 3)?;
    let packed = be_uint(bytes) as i64 - (0x80_0000 << fraction_bits);
    let magnitude = packed.abs();
    let clock = magnitude >> fraction_bits;
    let part = magnitude & ((1 << fraction_bits) - 1);
    let us = match fraction_bits {
        0 => 0,
        8 => part * 10_000,
        16 => part * 100,
        _ => part,
    };
    signed_time(packed < 0, (clock >> 12, clock >> 6 & 63, clock & 63), us)
}

/// TIME before MySQL 5.6: the decimal number hhmmss with a sign.
pub(crate) fn old_time(bytes: &[u8]) -> Option<i64> {
    let packed = (le_uint(bytes) as i64) << 40 >> 40;
    let magnitude = packed.abs();
    let parts = (magnitude / 10_000, magnitude / 100 % 100, magnitude % 100);
    signed_time(packed < 0, parts, 0)
}

/// MariaDB's TIME(1–6) before it took MySQL's format: units of the last digit, counted from one
/// second below the least time.
pub(crate) fn hires_time(bytes: &[u8], fsp: u8) -> Option<i64> {
    let unit = POWERS[6 - usize::from(fsp.min(6))];
    let units = i64::try_from(be_uint(bytes)).ok()?;
    let us = units.checked_mul(unit)? - (TIME_LIMIT_US + SECOND_US);
    (us.abs() < TIME_LIMIT_US + SECOND_US).then_some(us)
}

pub(crate) fn hires_time_bytes(fsp: u8) -> usize {
    [3, 4, 4, 5, 5, 5, 6][usize::from(fsp.min(6))]
}

#[inline]
fn signed_time(negative: bool, (hour, minute, second): (i64, i64, i64), us: i64) -> Option<i64> {
    if minute > 59 || second > 59 || us >= SECOND_US {
        return None;
    }
    let total = ((hour * 60 + minute) * 60 + second) * SECOND_US + us;
    Some(if negative { -total } else { total })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn days_of_the_calendar() {
        for (date, day) in [
            ((1970, 1, 1), 0),
            ((1969, 12, 31), -1),
            ((2000, 2, 29), 11_016),
            ((1, 1, 1), -719_162),
            ((0, 1, 1), -719_528),
            ((9999, 12, 31), 2_932_896),
        ] {
            assert_eq!(days(date.0, date.1, date.2), Some(day), "{date:?}");
        }
        for date in
            [(2023, 2, 29), (1900, 2, 29), (2024, 0, 1), (2024, 1, 0), (2024, 13, 1), (0, 0, 0)]
        {
            assert_eq!(days(date.0, date.1, date.2), None, "{date:?}");
        }
    }

    #[test]
    fn timestamps_reach_beyond_2038() {
        assert_eq!(timestamp(&[0x7f, 0xff, 0xff, 0xff]), Some(2_147_483_647_000_000));
        assert_eq!(
            timestamp(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0x42, 0x3f]),
            Some(4_294_967_295_999_999)
        );
        assert_eq!(timestamp(&[0, 0, 0, 0, 0]), None);
        assert_eq!(timestamp(&[0, 0, 0, 1, 0x63]), Some(1_990_000));
        assert_eq!(old_timestamp(&[1, 0, 0, 0x80]), Some(2_147_483_649_000_000));
    }

    proptest! {
        #[test]
        fn days_follow_chrono(day in -719_162i32..2_932_896) {
            use chrono::Datelike;
            let date = chrono::DateTime::from_timestamp(i64::from(day) * 86_400, 0).expect("in reach");
            prop_assert_eq!(days(date.year().into(), date.month().into(), date.day().into()), Some(day));
        }

        /// The server's packing (`my_time_packed_to_binary`) written down again.
        #[test]
        fn times_come_back(us in -TIME_LIMIT_US..=TIME_LIMIT_US, fsp in 0u8..=6) {
            let unit = POWERS[6 - usize::from(fsp)];
            let us = us / unit * unit;
            let (clock, part) = (us.abs() / SECOND_US, us.abs() % SECOND_US);
            let hms = (clock / 3600) << 12 | (clock / 60 % 60) << 6 | clock % 60;
            let packed = (hms << 24 | part) * us.signum();
            let bytes = match fsp {
                0 => (0x80_0000 + (packed >> 24)).to_be_bytes()[5..].to_vec(),
                1 | 2 => [&(0x80_0000 + (packed >> 24)).to_be_bytes()[5..], &[((packed % (1 << 24)) / 10_000) as u8]].concat(),
                3 | 4 => [
                    &(0x80_0000 + (packed >> 24)).to_be_bytes()[5..],
                    &(((packed % (1 << 24)) / 100) as i16).to_be_bytes(),
                ].concat(),
                _ => (0x8000_0000_0000i64 + packed).to_be_bytes()[2..].to_vec(),
            };
            prop_assert_eq!(time(&bytes), Some(us));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..9), fsp in any::<u8>()) {
            let _ = (date(&bytes), date_time(&bytes), old_date_time(&bytes), timestamp(&bytes));
            let _ = (old_timestamp(&bytes), time(&bytes), old_time(&bytes));
            let _ = (hires_date_time(&bytes, fsp), hires_timestamp(&bytes, fsp), hires_time(&bytes, fsp));
        }
    }
}
