//! The types of columns in Doris: which one holds a source's type, how it is written in DDL, and how Doris shows it.
//! TYPES.md is this module for people.

use std::fmt;

use lakeward_core::{Column, DataType, Error, Literal, Result};

use crate::text;

/// VARCHAR's limit in bytes.
const MAX_VARCHAR_BYTES: u32 = 65_533;
/// Bytes of a character of utf8mb4.
const CHAR_BYTES: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DorisType {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    LargeInt,
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    Date,
    DateTime {
        precision: u8,
    },
    /// Length in bytes.
    Varchar {
        bytes: u32,
    },
    String,
    Json,
}

impl DorisType {
    /// # Errors
    /// `SchemaIncompatible` for what cannot be a key in Doris.
    pub(crate) fn of(column: &Column, is_key: bool) -> Result<Self> {
        let cannot_be_key = |what: &str| {
            Error::schema_incompatible(format!(
                "doris takes no {what} column as part of a key; leave the table out, or give it another key"
            ))
            .with("column", &column.name)
        };
        let doris = match column.data_type {
            DataType::Boolean => DorisType::Boolean,
            DataType::TinyInt => DorisType::TinyInt,
            DataType::SmallInt => DorisType::SmallInt,
            DataType::Int => DorisType::Int,
            DataType::BigInt | DataType::Time { .. } => DorisType::BigInt,
            DataType::Float => DorisType::Float,
            DataType::Double => DorisType::Double,
            DataType::Decimal { precision: 20, scale: 0 } => DorisType::LargeInt,
            DataType::Decimal { precision, scale } => match u8::try_from(scale) {
                Ok(scale) if precision <= 38 && scale <= precision => {
                    DorisType::Decimal { precision, scale }
                }
                _ => {
                    return Err(Error::schema_incompatible(
                        "doris has no decimal with a scale that is negative or larger than the precision",
                    )
                    .with("column", &column.name));
                }
            },
            DataType::Date => DorisType::Date,
            DataType::Timestamp { precision } | DataType::TimestampLtz { precision } => {
                DorisType::DateTime { precision: precision.min(6) }
            }
            DataType::Char { length } | DataType::Varchar { length } => {
                varchar(length.saturating_mul(CHAR_BYTES).max(1))
            }
            DataType::Binary { length } | DataType::Varbinary { length } => {
                varchar(length.div_ceil(3).saturating_mul(4).max(1))
            }
            DataType::String | DataType::Bytes => DorisType::String,
            DataType::Json => DorisType::Json,
        };
        match doris {
            DorisType::Float | DorisType::Double if is_key => Err(cannot_be_key("floating point")),
            DorisType::Json if is_key => Err(cannot_be_key("json")),
            DorisType::String if is_key => Ok(DorisType::Varchar { bytes: MAX_VARCHAR_BYTES }),
            other => Ok(other),
        }
    }

    /// From what `SHOW FULL COLUMNS`, `DESC` and `information_schema` say, in the spellings of several versions.
    pub(crate) fn parse(shown: &str) -> Option<Self> {
        let shown = shown.to_ascii_lowercase();
        let (name, arguments) = match shown.split_once('(') {
            Some((name, rest)) => (name.trim(), rest.trim_end_matches([')', ' '])),
            None => (shown.trim(), ""),
        };
        let numbers: Vec<u32> =
            arguments.split(',').filter_map(|n| n.trim().parse().ok()).collect();
        let byte = |at: usize| numbers.get(at).and_then(|n| u8::try_from(*n).ok());
        Some(match name {
            "boolean" | "bool" => DorisType::Boolean,
            "tinyint" if byte(0) == Some(1) => DorisType::Boolean,
            "tinyint" => DorisType::TinyInt,
            "smallint" => DorisType::SmallInt,
            "int" | "integer" => DorisType::Int,
            "bigint" => DorisType::BigInt,
            "largeint" => DorisType::LargeInt,
            "float" => DorisType::Float,
            "double" => DorisType::Double,
            "decimal" | "decimalv3" | "decimal32" | "decimal64" | "decimal128" => {
                DorisType::Decimal { precision: byte(0).unwrap_or(38), scale: byte(1).unwrap_or(0) }
            }
            "date" | "datev2" => DorisType::Date,
            "datetime" | "datetimev2" => DorisType::DateTime { precision: byte(0).unwrap_or(0) },
            "varchar" => {
                DorisType::Varchar { bytes: numbers.first().copied().unwrap_or(MAX_VARCHAR_BYTES) }
            }
            "string" | "text" => DorisType::String,
            "json" | "jsonb" => DorisType::Json,
            _ => return None,
        })
    }

    /// True where changing to `to` is a matter of metadata: Doris rewrites nothing.
    pub(crate) fn is_light_change(self, to: Self) -> bool {
        match (self, to) {
            (a, b) if a == b => true,
            (DorisType::Varchar { bytes: a }, DorisType::Varchar { bytes: b }) => a <= b,
            _ => false,
        }
    }

    /// True where Doris can convert a column that holds rows, keeping every value that the source can have before it.
    pub(crate) fn converts_to(self, to: Self) -> bool {
        use DorisType::*;
        let integer = |t: DorisType| match t {
            TinyInt => Some(1),
            SmallInt => Some(2),
            Int => Some(4),
            BigInt => Some(8),
            LargeInt => Some(16),
            _ => None,
        };
        match (self, to) {
            (a, b) if a == b => true,
            (a, b) if integer(a).is_some() && integer(b).is_some() => integer(a) < integer(b),
            (TinyInt | SmallInt | Int, Double) | (Float, Double) => true,
            (TinyInt | SmallInt | Int | BigInt | LargeInt, Varchar { bytes }) => bytes >= 40,
            (Varchar { bytes: a }, Varchar { bytes: b }) => a < b,
            (Varchar { .. }, String) => true,
            (Decimal { precision: p, scale: s }, Decimal { precision: q, scale: t }) => {
                t >= s && q - t.min(q) >= p - s.min(p)
            }
            (Date, DateTime { .. }) => true,
            (DateTime { precision: p }, DateTime { precision: q }) => p < q,
            _ => false,
        }
    }
}

fn varchar(bytes: u32) -> DorisType {
    if bytes <= MAX_VARCHAR_BYTES { DorisType::Varchar { bytes } } else { DorisType::String }
}

/// As DDL writes it.
impl fmt::Display for DorisType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DorisType::Boolean => f.write_str("BOOLEAN"),
            DorisType::TinyInt => f.write_str("TINYINT"),
            DorisType::SmallInt => f.write_str("SMALLINT"),
            DorisType::Int => f.write_str("INT"),
            DorisType::BigInt => f.write_str("BIGINT"),
            DorisType::LargeInt => f.write_str("LARGEINT"),
            DorisType::Float => f.write_str("FLOAT"),
            DorisType::Double => f.write_str("DOUBLE"),
            DorisType::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            DorisType::Date => f.write_str("DATE"),
            DorisType::DateTime { precision: 0 } => f.write_str("DATETIME"),
            DorisType::DateTime { precision } => write!(f, "DATETIME({precision})"),
            DorisType::Varchar { bytes } => write!(f, "VARCHAR({bytes})"),
            DorisType::String => f.write_str("STRING"),
            DorisType::Json => f.write_str("JSON"),
        }
    }
}

/// What `DEFAULT` takes for a constant, unquoted; `None` for null and where Doris takes no default but null.
pub(crate) fn default_text(
    data_type: &DataType,
    literal: &Literal,
    zone_offset_seconds: i32,
) -> Option<String> {
    Some(match (data_type, literal) {
        (DataType::Json | DataType::Float | DataType::Double, _) | (_, Literal::Null) => {
            return None;
        }
        (DataType::Boolean, Literal::Boolean(v)) => v.to_string(),
        (DataType::Date, Literal::Long(days)) => {
            let mut out = Vec::new();
            text::push_date(i32::try_from(*days).ok()?, &mut out).ok()?;
            String::from_utf8(out).ok()?
        }
        (DataType::Timestamp { precision }, Literal::Long(micros)) => {
            let mut out = Vec::new();
            text::push_timestamp(*micros, *precision, &mut out).ok()?;
            String::from_utf8(out).ok()?
        }
        (DataType::TimestampLtz { precision }, Literal::Long(micros)) => {
            let mut out = Vec::new();
            let local = micros.checked_add(i64::from(zone_offset_seconds) * 1_000_000)?;
            text::push_timestamp(local, *precision, &mut out).ok()?;
            String::from_utf8(out).ok()?
        }
        (_, Literal::Long(v)) => v.to_string(),
        (DataType::Decimal { scale, .. }, Literal::Decimal(v)) => {
            let mut out = Vec::new();
            text::push_decimal(*v, *scale, &mut out);
            String::from_utf8(out).ok()?
        }
        (_, Literal::String(v)) => v.to_string(),
        (_, Literal::Binary(v)) => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(v)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(data_type: DataType, is_key: bool) -> Result<DorisType> {
        DorisType::of(&Column::new("c", data_type, true), is_key)
    }

    #[test]
    fn lengths_are_bytes_of_utf8mb4() {
        let n = |length| of(DataType::Varchar { length }, false).expect("mapped");
        assert_eq!(n(10), DorisType::Varchar { bytes: 40 });
        assert_eq!(n(16_383), DorisType::Varchar { bytes: 65_532 });
        assert_eq!(n(16_384), DorisType::String);
        assert_eq!(n(0), DorisType::Varchar { bytes: 1 });
        assert_eq!(
            of(DataType::Varchar { length: 20_000 }, true).expect("a key"),
            DorisType::Varchar { bytes: 65_533 }
        );
        assert_eq!(
            of(DataType::Varbinary { length: 16 }, false).expect("mapped"),
            DorisType::Varchar { bytes: 24 }
        );
    }

    #[test]
    fn unsigned_bigint_is_largeint() {
        let unsigned = DataType::Decimal { precision: 20, scale: 0 };
        assert_eq!(of(unsigned, true).expect("mapped"), DorisType::LargeInt);
        let other = DataType::Decimal { precision: 20, scale: 2 };
        assert_eq!(
            of(other, false).expect("mapped"),
            DorisType::Decimal { precision: 20, scale: 2 }
        );
    }

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        for data_type in [DataType::Float, DataType::Double, DataType::Json] {
            let error = of(data_type, true).expect_err("refused");
            assert!(error.to_string().contains("column c"), "{error}");
            of(data_type, false).expect("a value column");
        }
    }

    #[test]
    fn what_doris_shows_is_what_was_written() {
        for t in [
            DorisType::Boolean,
            DorisType::TinyInt,
            DorisType::LargeInt,
            DorisType::Decimal { precision: 12, scale: 3 },
            DorisType::Date,
            DorisType::DateTime { precision: 0 },
            DorisType::DateTime { precision: 6 },
            DorisType::Varchar { bytes: 40 },
            DorisType::String,
            DorisType::Json,
        ] {
            assert_eq!(DorisType::parse(&t.to_string()), Some(t));
        }
        assert_eq!(DorisType::parse("text"), Some(DorisType::String));
        assert_eq!(DorisType::parse("int(11)"), Some(DorisType::Int));
        assert_eq!(
            DorisType::parse("decimalv3(10,2)"),
            Some(DorisType::Decimal { precision: 10, scale: 2 })
        );
        assert_eq!(DorisType::parse("hll"), None);
    }

    #[test]
    fn a_decimal_may_only_grow() {
        let d = |precision, scale| DorisType::Decimal { precision, scale };
        assert!(d(10, 2).converts_to(d(12, 2)) && d(10, 2).converts_to(d(14, 4)));
        assert!(!d(10, 2).converts_to(d(10, 4)) && !d(10, 2).converts_to(d(12, 1)));
    }
}
