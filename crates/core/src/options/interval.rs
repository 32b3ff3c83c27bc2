//! Durations as people write them.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// `10s`, `3 min`, `500ms`, `1 d`, `PT30S`. A number without a unit is milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", inline, extend("format" = "duration"))]
pub struct Interval(pub Duration);

const EXPECTED: &str = "expected a duration such as 500ms, 10s, 3 min, 1h";

impl Interval {
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| EXPECTED.to_string())
    }

    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        // Of ISO 8601, the forms with one unit, which is what Java prints.
        let iso = text.strip_prefix("PT").map(str::to_ascii_lowercase);
        let text = iso.as_deref().unwrap_or(text);
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = text[..digits].parse().ok()?;
        let unit_nanos = match text[digits..].trim_start() {
            "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            _ => return None,
        };
        number.checked_mul(unit_nanos).map(|nanos| Self(Duration::from_nanos(nanos)))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.as_millis();
        match ms {
            _ if ms % 86_400_000 == 0 && ms > 0 => write!(f, "{} d", ms / 86_400_000),
            _ if ms % 3_600_000 == 0 && ms > 0 => write!(f, "{} h", ms / 3_600_000),
            _ if ms % 60_000 == 0 && ms > 0 => write!(f, "{} min", ms / 60_000),
            _ if ms % 1000 == 0 => write!(f, "{} s", ms / 1000),
            _ => write!(f, "{ms} ms"),
        }
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}ms", self.0.as_millis()))
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = Interval;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as 10s")
            }

            fn visit_u64<E: Error>(self, millis: u64) -> Result<Interval, E> {
                Ok(Interval(Duration::from_millis(millis)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Interval, E> {
                Interval::parse(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let ms = |text: &str| Interval::parse(text).map(Interval::as_millis);
        assert_eq!(ms("10s"), Ok(10_000));
        assert_eq!(ms("3 min"), Ok(180_000));
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms(" 250 "), Ok(250));
        assert_eq!(ms("1 d"), Ok(86_400_000));
        assert_eq!(ms("PT30S"), Ok(30_000));
        for bad in ["", "s", "ten", "-1s", "1.5s", "10 parsecs", "99999999999999999999s", "PT"] {
            assert!(ms(bad).is_err(), "{bad}");
        }
        assert_eq!(Interval::parse("90s").unwrap().to_string(), "90 s");
        assert_eq!(Interval::parse("120s").unwrap().to_string(), "2 min");
    }

    #[test]
    fn in_a_file_it_is_a_text_or_a_number() {
        let read = |json: &str| serde_json::from_str::<Interval>(json).map(Interval::as_millis);
        assert_eq!(read("\"2s\"").unwrap(), 2000);
        assert_eq!(read("1500").unwrap(), 1500);
        assert!(read("\"soon\"").unwrap_err().to_string().contains("such as 500ms"));
        let interval = Interval(Duration::from_secs(3));
        assert_eq!(serde_json::to_string(&interval).unwrap(), "\"3000ms\"");
    }
}
