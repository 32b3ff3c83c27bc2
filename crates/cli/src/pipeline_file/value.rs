//! Durations and sizes as people write them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// `10s`, `3 min`, `500ms`, `1 d`. A number without a unit is milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval(pub Duration);

/// `256mb`, `1 gb`. Units are powers of 1024; a number without a unit is bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl Interval {
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        let unit_nanos: u64 = match unit {
            "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            _ => return Err("expected a duration such as 500ms, 10s, 3 min, 1h".to_string()),
        };
        let nanos = number.and_then(|n| n.checked_mul(unit_nanos));
        let nanos = nanos.ok_or("expected a duration such as 500ms, 10s, 3 min, 1h")?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

impl ByteSize {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" | "bytes" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err("expected a size such as 256mb or 1gb".to_string()),
        };
        let bytes = number.and_then(|n| n.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| "expected a size such as 256mb or 1gb".to_string())
    }
}

fn split(text: &str) -> (Option<u64>, &str) {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (text[..digits].parse().ok(), text[digits..].trim_start())
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

/// Reads a value that may be written as a number or as a text.
struct NumberOrText<T>(fn(&str) -> Result<T, String>, &'static str);

impl<T> Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<T, E> {
        self.0(&v.to_string()).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<T, E> {
        self.0(v).map_err(E::custom)
    }
}

macro_rules! read_as_text {
    ($type:ident, $what:literal, $format:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_any(NumberOrText($type::parse, $what))
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "format": $format})
            }

            fn inline_schema() -> bool {
                true
            }
        }
    };
}

read_as_text!(Interval, "a duration such as 10s", "duration");
read_as_text!(ByteSize, "a size such as 256mb", "size");

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
        for bad in ["", "s", "ten", "-1s", "1.5s", "10 parsecs", "99999999999999999999s"] {
            assert!(ms(bad).is_err(), "{bad}");
        }
        assert_eq!(Interval::parse("90s").unwrap().to_string(), "90 s");
        assert_eq!(Interval::parse("120s").unwrap().to_string(), "2 min");
        assert_eq!(serde_json::from_str::<Interval>("\"2s\"").unwrap().as_millis(), 2000);
    }

    #[test]
    fn sizes() {
        assert_eq!(ByteSize::parse("256mb"), Ok(ByteSize(256 << 20)));
        assert_eq!(ByteSize::parse("1 GiB"), Ok(ByteSize(1 << 30)));
        assert_eq!(ByteSize::parse("1024"), Ok(ByteSize(1024)));
        assert!(ByteSize::parse("many").is_err());
        assert!(ByteSize::parse("99999999999999tb").is_err());
    }
}
