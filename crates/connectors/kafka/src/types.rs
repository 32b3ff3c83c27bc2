//! Column types: what their names say, what a value of JSON shows, and the narrowest type that holds two.

use lakeward_core::DataType;
use serde_json::value::RawValue;

use crate::json::{self, Kind};

/// An integer of a capture system that sends no types. It may turn out to be an unsigned 64-bit one, which no later change
/// of the column could make room for in every sink.
pub const INFERRED_INTEGER: DataType = DataType::Decimal { precision: 20, scale: 0 };
const WIDE_INTEGER: DataType = DataType::Decimal { precision: 38, scale: 0 };

/// A name with its arguments, as in `decimal(10, 2) unsigned`: lower-case name, numbers, rest.
fn parts(text: &str) -> (String, Vec<u32>, String) {
    let text = text.trim().to_ascii_lowercase();
    let Some((name, behind)) = text.split_once('(') else {
        let mut words = text.splitn(2, ' ');
        let name = words.next().unwrap_or_default().to_owned();
        return (name, Vec::new(), words.next().unwrap_or_default().to_owned());
    };
    let (arguments, rest) = behind.rsplit_once(')').unwrap_or((behind, ""));
    let numbers = arguments.split(',').map_while(|n| n.trim().parse().ok()).collect();
    (name.trim().to_owned(), numbers, rest.trim().to_owned())
}

/// At most 38 digits are a decimal, more a text.
pub fn decimal(precision: u32, scale: i64) -> DataType {
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if (0..=precision as i8).contains(&scale) => {
            DataType::Decimal { precision, scale }
        }
        _ => DataType::String,
    }
}

fn precision(numbers: &[u32], otherwise: u8) -> u8 {
    numbers.first().and_then(|p| u8::try_from(*p).ok()).map_or(otherwise, |p| p.min(6))
}

/// A type of the option `column-types`: the names that Lakeward shows types by, which are Flink's.
pub fn parse_type(text: &str) -> Option<DataType> {
    let (name, numbers, rest) = parts(text);
    if !rest.is_empty() {
        return None;
    }
    let first = numbers.first().copied();
    Some(match name.as_str() {
        "boolean" => DataType::Boolean,
        "tinyint" => DataType::TinyInt,
        "smallint" => DataType::SmallInt,
        "int" | "integer" => DataType::Int,
        "bigint" => DataType::BigInt,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "decimal" => {
            let scale = numbers.get(1).copied().unwrap_or(0);
            let exact = decimal(first.unwrap_or(10), i64::from(scale));
            return (exact != DataType::String).then_some(exact);
        }
        "date" => DataType::Date,
        "time" => DataType::Time { precision: precision(&numbers, 0) },
        "timestamp" => DataType::Timestamp { precision: precision(&numbers, 6) },
        "timestamp_ltz" => DataType::TimestampLtz { precision: precision(&numbers, 6) },
        "char" => DataType::Char { length: first.unwrap_or(1) },
        "varchar" => DataType::Varchar { length: first? },
        "string" => DataType::String,
        "json" => DataType::Json,
        "binary" => DataType::Binary { length: first.unwrap_or(1) },
        "varbinary" => DataType::Varbinary { length: first? },
        "bytes" => DataType::Bytes,
        _ => return None,
    })
}

/// A type as a database spells it: MySQL's names first, and those of others that are not MySQL's.
pub fn database_type(text: &str) -> Option<DataType> {
    let (name, numbers, rest) = parts(text);
    let unsigned = rest.contains("unsigned") || rest.contains("zerofill");
    let first = numbers.first().copied();
    let signed_or = |signed, other| if unsigned { other } else { signed };
    Some(match name.as_str() {
        "bool" | "boolean" => DataType::Boolean,
        "tinyint" => signed_or(DataType::TinyInt, DataType::SmallInt),
        "smallint" | "int2" | "smallserial" => signed_or(DataType::SmallInt, DataType::Int),
        "mediumint" => DataType::Int,
        "int" | "integer" | "int4" => signed_or(DataType::Int, DataType::BigInt),
        "bigint" | "int8" | "bigserial" => signed_or(DataType::BigInt, INFERRED_INTEGER),
        "serial" => INFERRED_INTEGER,
        "year" => DataType::Int,
        "float" | "float4" if first.is_none_or(|p| p <= 24 || numbers.len() > 1) => DataType::Float,
        "real" if rest.is_empty() => DataType::Float,
        "float" | "float8" | "double" | "double precision" | "real" => DataType::Double,
        "decimal" | "numeric" | "dec" | "fixed" => {
            let scale = numbers.get(1).copied().unwrap_or(0);
            decimal(first.unwrap_or(10), i64::from(scale))
        }
        "number" => match first {
            Some(p) => decimal(p, i64::from(numbers.get(1).copied().unwrap_or(0))),
            None => DataType::String,
        },
        "date" => DataType::Date,
        "time" => DataType::Time { precision: precision(&numbers, 0) },
        "datetime" => DataType::Timestamp { precision: precision(&numbers, 0) },
        "timestamp" => DataType::TimestampLtz { precision: precision(&numbers, 0) },
        "timestamptz" => DataType::TimestampLtz { precision: 6 },
        "char" | "nchar" | "character" => DataType::Char { length: first.unwrap_or(1) },
        "varchar" | "nvarchar" | "varchar2" | "nvarchar2" | "character varying" => match first {
            Some(length) => DataType::Varchar { length },
            None => DataType::String,
        },
        "tinytext" | "text" | "mediumtext" | "longtext" | "long" | "enum" | "set" | "clob"
        | "uuid" | "inet4" | "inet6" | "xml" => DataType::String,
        "json" | "jsonb" => DataType::Json,
        "binary" => DataType::Binary { length: first.unwrap_or(1) },
        "varbinary" => match first {
            Some(length) => DataType::Varbinary { length },
            None => DataType::Bytes,
        },
        "tinyblob" | "blob" | "mediumblob" | "longblob" | "bytea" | "raw" => DataType::Bytes,
        "bit" => match first.unwrap_or(1) {
            1 => DataType::Boolean,
            bits => DataType::Binary { length: bits.div_ceil(8) },
        },
        _ => return None,
    })
}

/// The type behind a number of `java.sql.Types`, where no name says more.
pub fn jdbc_type(code: i64) -> Option<DataType> {
    Some(match code {
        -7 | 16 => DataType::Boolean,
        -6 => DataType::TinyInt,
        5 => DataType::SmallInt,
        4 => DataType::Int,
        -5 => DataType::BigInt,
        7 => DataType::Float,
        6 | 8 => DataType::Double,
        91 => DataType::Date,
        92 => DataType::Time { precision: 6 },
        93 => DataType::Timestamp { precision: 6 },
        2014 => DataType::TimestampLtz { precision: 6 },
        1 | 12 | -1 | -9 | -15 | -16 | 2005 | 2011 | 2 | 3 => DataType::String,
        -2 | -3 | -4 | 2004 => DataType::Bytes,
        _ => return None,
    })
}

/// The type that a value alone shows; `None` for null.
pub fn infer(raw: &RawValue) -> Option<DataType> {
    Some(match json::kind(raw) {
        Kind::Null => return None,
        Kind::Boolean => DataType::Boolean,
        Kind::Text => DataType::String,
        Kind::List | Kind::Object => DataType::Json,
        Kind::Number => number_type(raw.get()),
    })
}

fn number_type(text: &str) -> DataType {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let bound = text.parse::<i128>().map(|n| i128::from(i64::MIN) <= n && n <= u64::MAX.into());
        return match (bound, digits.len()) {
            (Ok(true), _) => INFERRED_INTEGER,
            (_, ..=38) => WIDE_INTEGER,
            _ => DataType::String,
        };
    }
    if is_exact_double(text) { DataType::Double } else { DataType::String }
}

/// True where a 64-bit float prints the same number again: no digit is lost.
pub fn is_exact_double(text: &str) -> bool {
    let Ok(value) = text.parse::<f64>() else { return false };
    value.is_finite() && significant(&format!("{value:e}")) == significant(text)
}

/// Digits without leading and trailing zeros, and the exponent of the first.
fn significant(text: &str) -> Option<(String, i64)> {
    let text = text.trim_start_matches('-');
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.trim_start_matches('+').parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let digits = digits.trim_matches('0').to_owned();
    if digits.is_empty() {
        return Some((digits, 0));
    }
    Some((digits, exponent + whole.len() as i64 - zeros as i64))
}

/// Digits of an integer type.
fn integer_digits(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::TinyInt => 3,
        DataType::SmallInt => 5,
        DataType::Int => 10,
        DataType::BigInt => 19,
        _ => return None,
    })
}

/// The narrowest type that holds every value of both without loss. Text holds everything but bytes.
pub fn join(a: DataType, b: DataType) -> DataType {
    use DataType::*;
    if a.widens_to(&b) {
        return b;
    }
    if b.widens_to(&a) {
        return a;
    }
    let whole = |t: DataType| match t {
        Decimal { precision, scale } => Some((precision as i8 - scale, scale)),
        other => integer_digits(&other).map(|digits| (digits as i8, 0)),
    };
    if let (Some((digits, scale)), Some((other_digits, other_scale))) = (whole(a), whole(b)) {
        let scale = scale.max(other_scale);
        return decimal((digits.max(other_digits) + scale) as u32, i64::from(scale));
    }
    match (a, b) {
        (TinyInt | SmallInt | Int, Float | Double) | (Float | Double, TinyInt | SmallInt | Int) => {
            Double
        }
        (Date, Timestamp { precision }) | (Timestamp { precision }, Date) => {
            Timestamp { precision }
        }
        (
            Char { length: m } | Varchar { length: m },
            Char { length: n } | Varchar { length: n },
        ) => Varchar { length: m.max(n) },
        (Binary { .. } | Varbinary { .. } | Bytes, Binary { .. } | Varbinary { .. } | Bytes) => {
            Bytes
        }
        _ => String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(json: &str) -> Option<DataType> {
        infer(&RawValue::from_string(json.into()).unwrap())
    }

    #[test]
    fn values_show_their_type() {
        for (json, expected) in [
            ("null", None),
            ("true", Some(DataType::Boolean)),
            ("9007199254740993", Some(INFERRED_INTEGER)),
            ("18446744073709551615", Some(INFERRED_INTEGER)),
            ("-9223372036854775808", Some(INFERRED_INTEGER)),
            ("987654321098765432109", Some(WIDE_INTEGER)),
            ("1234567890123456789012345678901234567890", Some(DataType::String)),
            ("0.5", Some(DataType::Double)),
            ("12.30", Some(DataType::Double)),
            ("1e2", Some(DataType::Double)),
            ("-0.0", Some(DataType::Double)),
            ("5e-324", Some(DataType::Double)),
            ("0.1234567890123456789", Some(DataType::String)),
            ("123456789012345678901234567890.12", Some(DataType::String)),
            ("1e999", Some(DataType::String)),
            ("\"1\"", Some(DataType::String)),
            ("{}", Some(DataType::Json)),
        ] {
            assert_eq!(inferred(json), expected, "{json}");
        }
    }

    #[test]
    fn names_of_databases() {
        for (name, expected) in [
            ("int(11)", DataType::Int),
            ("int(10) unsigned", DataType::BigInt),
            ("bigint(20) unsigned", INFERRED_INTEGER),
            ("decimal(10,2)", DataType::Decimal { precision: 10, scale: 2 }),
            ("DECIMAL(65,30)", DataType::String),
            ("varchar(9)", DataType::Varchar { length: 9 }),
            ("enum('a,b','c')", DataType::String),
            ("datetime(6)", DataType::Timestamp { precision: 6 }),
            ("timestamp", DataType::TimestampLtz { precision: 0 }),
            ("bit(9)", DataType::Binary { length: 2 }),
            ("double unsigned", DataType::Double),
            ("longblob", DataType::Bytes),
        ] {
            assert_eq!(database_type(name), Some(expected), "{name}");
        }
        assert_eq!(database_type("geometry"), None);
        assert_eq!(
            parse_type("DECIMAL(38, 19)"),
            Some(DataType::Decimal { precision: 38, scale: 19 })
        );
        assert_eq!(parse_type("decimal(39,1)"), None);
        assert_eq!(parse_type("varchar"), None);
    }

    #[test]
    fn a_join_holds_both() {
        let all = [
            DataType::Boolean,
            DataType::TinyInt,
            DataType::Int,
            DataType::BigInt,
            INFERRED_INTEGER,
            DataType::Decimal { precision: 10, scale: 2 },
            DataType::Float,
            DataType::Double,
            DataType::Date,
            DataType::Timestamp { precision: 3 },
            DataType::TimestampLtz { precision: 6 },
            DataType::Varchar { length: 3 },
            DataType::Char { length: 5 },
            DataType::Json,
            DataType::String,
        ];
        for a in all {
            for b in all {
                let both = join(a, b);
                assert_eq!(both, join(b, a), "{a} {b}");
                assert_eq!(join(both, a), both, "{a} {b}");
            }
        }
        let money = DataType::Decimal { precision: 10, scale: 2 };
        assert_eq!(join(DataType::BigInt, money), DataType::Decimal { precision: 21, scale: 2 });
        assert_eq!(join(DataType::BigInt, DataType::Double), DataType::String);
    }
}
