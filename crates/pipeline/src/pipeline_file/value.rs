//! Sizes as people write them.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// `256mb`, `1 gb`. Units are powers of 1024; a number without a unit is bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", inline, extend("format" = "size"))]
pub struct ByteSize(pub u64);

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

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 256mb")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                ByteSize::parse(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(ByteSize::parse("256mb"), Ok(ByteSize(256 << 20)));
        assert_eq!(ByteSize::parse("1 GiB"), Ok(ByteSize(1 << 30)));
        assert_eq!(ByteSize::parse("1024"), Ok(ByteSize(1024)));
        assert!(ByteSize::parse("many").is_err());
        assert!(ByteSize::parse("99999999999999tb").is_err());
    }
}
