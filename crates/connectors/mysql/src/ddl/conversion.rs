//! Whether a column's change leaves the values of existing rows as they are. The binlog has no events for what an ALTER
//! does to them, so every doubt counts as a change.

use std::sync::Arc;

use lakeward_core::DataType;

use super::charsets;
use crate::model::{MysqlColumn, MysqlType};

/// True where values written under `from` can be read under `to` without being written anew: a promotion.
pub fn promotes(from: DataType, to: DataType) -> bool {
    use DataType::*;
    let is_text = |t| matches!(t, Char { .. } | Varchar { .. } | String | Json);
    let is_bytes = |t| matches!(t, Binary { .. } | Varbinary { .. } | Bytes);
    match (from, to) {
        (from, to) if from == to => true,
        (TinyInt | SmallInt | Int, TinyInt | SmallInt | Int | BigInt) => true,
        (Float, Double) => true,
        (Decimal { precision, scale }, Decimal { precision: to_precision, scale: to_scale }) => {
            to_scale == scale && to_precision >= precision
        }
        (Time { .. }, Time { .. })
        | (Timestamp { .. }, Timestamp { .. })
        | (TimestampLtz { .. }, TimestampLtz { .. }) => true,
        (from, to) => (is_text(from) && is_text(to)) || (is_bytes(from) && is_bytes(to)),
    }
}

/// Why the values of existing rows may differ after a column was declared anew, where the types promote. `strict`: a
/// value that does not fit made the statement fail, so that none did.
pub fn changes_values(from: &MysqlColumn, to: &MysqlColumn, strict: bool) -> Option<&'static str> {
    if to.generated {
        return Some("its expression may have changed");
    }
    if to.auto_increment && !from.auto_increment {
        return Some("auto_increment numbers rows that hold zero");
    }
    if from.nullable && !to.nullable {
        if matches!(to.column_type, MysqlType::Timestamp { .. }) {
            return Some("nulls become the present time");
        }
        if !strict {
            return Some("nulls become the type's default");
        }
    }
    if to.float_scale.is_some() && to.float_scale != from.float_scale {
        return Some("values are rounded to its digits");
    }
    let keeps = keeps_values(&from.column_type, &to.column_type, strict);
    (!keeps).then_some("the new type may not hold every value as it was")
}

fn keeps_values(from: &MysqlType, to: &MysqlType, strict: bool) -> bool {
    use MysqlType::*;
    if from == to {
        return true;
    }
    if let (Some(from_charset), Some(to_charset)) = (charset(from), charset(to))
        && !(strict || holds_all_of(to_charset, from_charset))
    {
        return false;
    }
    match (from, to) {
        (Year, _) if integer_range(to).is_some() => true,
        (_, Year) => false,
        (Decimal { unsigned, .. }, Decimal { unsigned: to_unsigned, .. }) => {
            strict || *unsigned || !to_unsigned
        }
        (Float | Double, Float | Double) => true,
        (Time { fsp }, Time { fsp: to })
        | (DateTime { fsp }, DateTime { fsp: to })
        | (Timestamp { fsp }, Timestamp { fsp: to }) => to >= fsp,
        (Enum { labels, .. }, Enum { labels: to, .. }) => {
            labels.iter().all(|label| to.contains(label) || (strict && is_gone(label, to)))
        }
        // MariaDB joins the labels with a comma of one byte, whatever the character set's width.
        (Set { .. }, _) if is_wide(charset(from)) || is_wide(charset(to)) => false,
        (Set { labels, .. }, Set { labels: to, .. }) => keeps_order(labels, to),
        (Enum { .. } | Set { .. } | Uuid | Inet4 | Inet6, Char { .. }) => strict,
        (Enum { .. } | Set { .. } | Uuid | Inet4 | Inet6, Varchar { .. } | Text { .. }) => strict,
        (_, Enum { .. } | Set { .. }) => false,
        // CHAR cuts trailing blanks, and so does every text column that gets shorter, in strict mode too.
        (Char { length, .. }, Char { length: to, .. }) => to >= length,
        (_, Char { .. }) => false,
        (Text { length_bytes, .. }, Text { length_bytes: to, .. }) => to >= length_bytes,
        (Char { .. } | Varchar { .. } | Text { .. }, Varchar { .. } | Text { .. }) => {
            fewest_characters(to) >= most_characters(from)
        }
        (Binary { length }, Varbinary { .. } | Blob { .. }) => {
            strict || bytes(to) >= u64::from(*length)
        }
        // BINARY pads.
        (_, Binary { .. }) => false,
        (Varbinary { .. } | Blob { .. }, Varbinary { .. } | Blob { .. }) => {
            strict || bytes(to) >= bytes(from)
        }
        _ => match (integer_range(from), integer_range(to)) {
            (Some((low, high)), Some((to_low, to_high))) => {
                strict || (to_low <= low && high <= to_high)
            }
            _ => false,
        },
    }
}

fn charset(column_type: &MysqlType) -> Option<&str> {
    match column_type {
        MysqlType::Char { charset, .. }
        | MysqlType::Varchar { charset, .. }
        | MysqlType::Text { charset, .. }
        | MysqlType::Enum { charset, .. }
        | MysqlType::Set { charset, .. } => Some(charset),
        _ => None,
    }
}

/// Characters of ASCII take more than a byte.
fn is_wide(charset: Option<&str>) -> bool {
    charset.is_some_and(|c| matches!(c, "ucs2" | "utf16" | "utf16le" | "utf32"))
}

fn holds_all_of(to: &str, from: &str) -> bool {
    from == to || matches!(to, "utf8mb4" | "utf16" | "utf16le" | "utf32") || from == "ascii"
}

/// A label that no new one can have taken the place of: the server matches labels by collation, so that `low` becomes
/// `LOW` without an error.
fn is_gone(label: &str, labels: &[Arc<str>]) -> bool {
    let comparable = |l: &str| l.is_ascii();
    comparable(label) && labels.iter().all(|l| comparable(l) && !l.eq_ignore_ascii_case(label))
}

/// The text of a SET value lists its labels in the declaration's order.
fn keeps_order(from: &[Arc<str>], to: &[Arc<str>]) -> bool {
    let mut rest = to.iter();
    from.iter().all(|label| rest.any(|l| l == label))
}

/// How many characters fit for sure.
fn fewest_characters(column_type: &MysqlType) -> u64 {
    match column_type {
        MysqlType::Text { length_bytes, charset } => {
            prefix_range(*length_bytes) / u64::from(charsets::max_bytes_per_char(charset))
        }
        other => most_characters(other),
    }
}

fn most_characters(column_type: &MysqlType) -> u64 {
    match column_type {
        MysqlType::Char { length, .. } | MysqlType::Varchar { length, .. } => u64::from(*length),
        MysqlType::Text { length_bytes, .. } => prefix_range(*length_bytes),
        _ => 0,
    }
}

/// The longest value, in bytes, under a length prefix of so many bytes.
fn prefix_range(length_bytes: u8) -> u64 {
    (1u64 << (8 * u32::from(length_bytes).clamp(1, 4))) - 1
}

fn bytes(column_type: &MysqlType) -> u64 {
    match column_type {
        MysqlType::Binary { length } | MysqlType::Varbinary { length } => u64::from(*length),
        MysqlType::Blob { length_bytes } => prefix_range(*length_bytes),
        _ => 0,
    }
}

fn integer_range(column_type: &MysqlType) -> Option<(i128, i128)> {
    let (bits, unsigned) = match column_type {
        MysqlType::TinyInt { unsigned, .. } => (8, *unsigned),
        MysqlType::SmallInt { unsigned } => (16, *unsigned),
        MysqlType::MediumInt { unsigned } => (24, *unsigned),
        MysqlType::Int { unsigned } => (32, *unsigned),
        MysqlType::BigInt { unsigned } => (64, *unsigned),
        MysqlType::Bit { width } => (u32::from(*width), true),
        _ => return None,
    };
    Some(match unsigned {
        true => (0, (1 << bits) - 1),
        false => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddl::{Flavor, SqlMode, read_column_type};

    fn keeps(from: &str, to: &str, strict: bool) -> bool {
        let mode = SqlMode::new(Flavor::MariaDb);
        let read = |text| read_column_type(text, &mode, "latin1").expect("readable");
        keeps_values(&read(from), &read(to), strict)
    }

    #[test]
    fn what_keeps_values() {
        for (from, to) in [
            ("int", "bigint"),
            ("int", "int unsigned"),
            ("bigint", "int"),
            ("year", "int"),
            ("varchar(5)", "varchar(9)"),
            ("varchar(5)", "text"),
            ("char(5)", "varchar(5)"),
            ("text", "longtext"),
            ("datetime", "datetime(6)"),
            ("enum('a','b')", "enum('b','x','a')"),
            ("enum('a','b')", "enum('a')"),
            ("enum('a','b')", "varchar(1)"),
            ("set('a','b')", "set('x','a','b')"),
            ("binary(3)", "varbinary(3)"),
            ("varbinary(9)", "blob"),
            ("decimal(5,2)", "decimal(9,2)"),
        ] {
            assert!(keeps(from, to, true), "{from} to {to}");
        }
    }

    #[test]
    fn what_bends_values() {
        for (from, to) in [
            ("int", "year"),
            ("varchar(9)", "varchar(5)"),
            ("varchar(5)", "char(5)"),
            ("text", "varchar(100)"),
            ("datetime(6)", "datetime"),
            ("time(3)", "time(2)"),
            ("enum('a','b')", "enum('A','b')"),
            ("enum('é','b')", "enum('b')"),
            ("enum('e','b')", "enum('é','b')"),
            ("set('a','b')", "set('b','a')"),
            ("varchar(5)", "enum('a')"),
            ("binary(3)", "binary(4)"),
            ("varbinary(3)", "binary(3)"),
            ("char(36)", "uuid"),
            ("blob", "point"),
        ] {
            assert!(!keeps(from, to, true), "{from} to {to}");
        }
        for (from, to) in
            [("int", "int unsigned"), ("bigint", "int"), ("enum('a','b')", "enum('a')")]
        {
            assert!(!keeps(from, to, false), "{from} to {to}, not strict");
        }
        assert!(keeps("int", "bigint", false));
    }

    #[test]
    fn promotions() {
        use DataType::*;
        assert!(
            promotes(Int, BigInt)
                && promotes(Float, Double)
                && promotes(Varchar { length: 5 }, String)
        );
        assert!(promotes(Decimal { precision: 10, scale: 2 }, Decimal { precision: 20, scale: 2 }));
        assert!(!promotes(
            Decimal { precision: 10, scale: 2 },
            Decimal { precision: 20, scale: 3 }
        ));
        assert!(!promotes(BigInt, Int) && !promotes(Double, Float) && !promotes(String, Bytes));
        assert!(!promotes(Int, String) && !promotes(Date, Timestamp { precision: 0 }));
    }
}
