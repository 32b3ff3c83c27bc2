//! A column's DEFAULT as a constant in the column's type: what an ADD COLUMN puts into the rows that exist.

use chrono::{Datelike, NaiveDate};
use lakeward_core::{DataType, Literal};

use super::moment::{Instant, duration, instant, round, year};
use super::outcome::StatementTime;
use crate::model::{MysqlColumn, MysqlDefault, MysqlType};

/// What rows that exist hold in a column that was just added; `None` where only the server knows.
pub fn existing_rows(
    column: &MysqlColumn,
    data_type: &DataType,
    time: Option<&StatementTime>,
) -> Option<Literal> {
    if column.generated || column.auto_increment {
        return None;
    }
    match &column.default {
        MysqlDefault::None if column.nullable => Some(Literal::Null),
        MysqlDefault::None => implicit(column, data_type),
        default => constant(default, column, data_type, time),
    }
}

/// A DEFAULT as a literal; `None` where it is none, or no constant.
pub fn constant(
    default: &MysqlDefault,
    column: &MysqlColumn,
    data_type: &DataType,
    time: Option<&StatementTime>,
) -> Option<Literal> {
    let literal = match default {
        MysqlDefault::Null => Literal::Null,
        MysqlDefault::Text(text) => from_text(text, column, data_type, time)?,
        MysqlDefault::Bytes(bytes) => from_bytes(bytes, column, data_type, time)?,
        MysqlDefault::Now => now(column, time?)?,
        MysqlDefault::None | MysqlDefault::Expression => return None,
    };
    // What cannot stand in the column's layout is no constant that a sink could write.
    literal.to_array(data_type, 1).ok().map(|_| literal)
}

/// What a NOT NULL column without a DEFAULT holds.
fn implicit(column: &MysqlColumn, data_type: &DataType) -> Option<Literal> {
    let text = match &column.column_type {
        MysqlType::Enum { labels, .. } => labels.first()?,
        MysqlType::Json | MysqlType::Geometry | MysqlType::Vector { .. } => return None,
        // Zero dates, which the lake knows as null.
        MysqlType::Date | MysqlType::DateTime { .. } | MysqlType::Timestamp { .. } => {
            return Some(Literal::Null);
        }
        MysqlType::Uuid => "00000000-0000-0000-0000-000000000000",
        MysqlType::Inet4 => "0.0.0.0",
        MysqlType::Inet6 => "::",
        MysqlType::Char { .. }
        | MysqlType::Varchar { .. }
        | MysqlType::Text { .. }
        | MysqlType::Set { .. }
        | MysqlType::Binary { .. }
        | MysqlType::Varbinary { .. }
        | MysqlType::Blob { .. } => "",
        MysqlType::Time { .. } => "00:00:00",
        _ => "0",
    };
    let default = match &column.column_type {
        MysqlType::Bit { .. } => MysqlDefault::Bytes(vec![0]),
        MysqlType::Year => return Some(Literal::Long(0)),
        _ => MysqlDefault::Text(text.into()),
    };
    constant(&default, column, data_type, None)
}

fn from_text(
    text: &str,
    column: &MysqlColumn,
    data_type: &DataType,
    time: Option<&StatementTime>,
) -> Option<Literal> {
    match &column.column_type {
        MysqlType::Year => year(text.trim()).map(Literal::Long),
        MysqlType::Float | MysqlType::Double => {
            let value: f64 = text.trim().parse().ok().filter(|v: &f64| v.is_finite())?;
            let value = column.float_scale.map_or(value, |scale| {
                // As the servers do it: only the fraction is scaled, and ties go to the even digit.
                let unit = 10f64.powi(i32::from(scale));
                let whole = value.floor();
                whole + ((value - whole) * unit).round_ties_even() / unit
            });
            Some(Literal::Double(if *data_type == DataType::Float {
                f64::from(value as f32)
            } else {
                value
            }))
        }
        MysqlType::Decimal { precision, scale, .. } => {
            let value = decimal(text.trim(), *scale)?;
            match data_type {
                DataType::Decimal { .. } => Some(Literal::Decimal(value)),
                _ if *precision > 38 => Some(Literal::String(decimal_text(value, *scale).into())),
                _ => None,
            }
        }
        MysqlType::TinyInt { .. }
        | MysqlType::SmallInt { .. }
        | MysqlType::MediumInt { .. }
        | MysqlType::Int { .. }
        | MysqlType::BigInt { .. }
        | MysqlType::Bit { .. } => integer(decimal(text.trim(), 0)?, data_type),
        MysqlType::Date => match instant(text)? {
            Instant::Zero => Some(Literal::Null),
            Instant::At(at) => Some(Literal::Long(i64::from(
                at.num_days_from_ce() - NaiveDate::default().num_days_from_ce(),
            ))),
        },
        MysqlType::DateTime { fsp } => match instant(text)? {
            Instant::Zero => Some(Literal::Null),
            Instant::At(at) => Some(Literal::Long(round(at.and_utc().timestamp_micros(), *fsp))),
        },
        MysqlType::Timestamp { fsp } => match instant(text)? {
            Instant::Zero => Some(Literal::Null),
            Instant::At(at) => {
                let offset_micros = i64::from(time?.offset_secs?) * 1_000_000;
                Some(Literal::Long(round(at.and_utc().timestamp_micros() - offset_micros, *fsp)))
            }
        },
        MysqlType::Time { fsp } => {
            duration(text.trim()).map(|micros| Literal::Long(round(micros, *fsp)))
        }
        MysqlType::Char { .. } => Some(Literal::String(text.trim_end_matches(' ').into())),
        MysqlType::Varchar { .. } | MysqlType::Text { .. } => Some(Literal::String(text.into())),
        MysqlType::Enum { labels, .. } => {
            let label = labels.iter().find(|l| ***l == *text).or_else(|| {
                labels.iter().find(|l| l.to_lowercase() == text.trim_end().to_lowercase())
            });
            let by_number = || labels.get(text.parse::<usize>().ok()?.checked_sub(1)?);
            label.or_else(by_number).map(|l| Literal::String(l.clone()))
        }
        MysqlType::Set { labels, .. } => set(text, labels),
        // How the server writes a document down is known for these alone.
        MysqlType::Json => {
            matches!(text, "{}" | "[]" | "null").then(|| Literal::String(text.into()))
        }
        MysqlType::Uuid => uuid(text),
        MysqlType::Inet4 => {
            text.parse::<std::net::Ipv4Addr>().ok().map(|ip| Literal::String(ip.to_string().into()))
        }
        MysqlType::Inet6 => (text == "::" || text == "::1").then(|| Literal::String(text.into())),
        // The bytes of a text depend on the session's character set, unless it is ASCII.
        MysqlType::Binary { .. } | MysqlType::Varbinary { .. } | MysqlType::Blob { .. } => {
            text.is_ascii().then(|| padded(text.as_bytes(), &column.column_type))
        }
        MysqlType::Geometry | MysqlType::Vector { .. } => None,
    }
}

fn from_bytes(
    bytes: &[u8],
    column: &MysqlColumn,
    data_type: &DataType,
    time: Option<&StatementTime>,
) -> Option<Literal> {
    match &column.column_type {
        MysqlType::Binary { .. } | MysqlType::Varbinary { .. } | MysqlType::Blob { .. } => {
            Some(padded(bytes, &column.column_type))
        }
        MysqlType::Bit { .. }
        | MysqlType::TinyInt { .. }
        | MysqlType::SmallInt { .. }
        | MysqlType::MediumInt { .. }
        | MysqlType::Int { .. }
        | MysqlType::BigInt { .. } => {
            let significant = bytes.iter().skip_while(|b| **b == 0);
            if significant.clone().count() > 8 {
                return None;
            }
            integer(significant.fold(0, |acc, b| acc << 8 | i128::from(*b)), data_type)
        }
        _ => {
            let text = std::str::from_utf8(bytes).ok()?;
            let is_utf8 = matches!(
                &column.column_type,
                MysqlType::Char { charset, .. }
                | MysqlType::Varchar { charset, .. }
                | MysqlType::Text { charset, .. } if charset.starts_with("utf8")
            );
            if is_utf8 || text.is_ascii() { from_text(text, column, data_type, time) } else { None }
        }
    }
}

fn integer(value: i128, data_type: &DataType) -> Option<Literal> {
    match data_type {
        DataType::Boolean => Some(Literal::Boolean(value != 0)),
        DataType::Decimal { scale: 0, .. } => Some(Literal::Decimal(value)),
        _ => i64::try_from(value).ok().map(Literal::Long),
    }
}

/// BINARY is padded with zero bytes, by the server and so by us.
fn padded(bytes: &[u8], column_type: &MysqlType) -> Literal {
    let mut bytes = bytes.to_vec();
    if let MysqlType::Binary { length } = column_type {
        bytes.resize((*length as usize).max(bytes.len()), 0);
    }
    Literal::Binary(bytes)
}

fn now(column: &MysqlColumn, time: &StatementTime) -> Option<Literal> {
    let (fsp, offset_secs) = match column.column_type {
        MysqlType::Timestamp { fsp } => (fsp, 0),
        MysqlType::DateTime { fsp } => (fsp, time.offset_secs?),
        _ => return None,
    };
    if fsp > 0 && !time.has_fraction {
        return None;
    }
    // The present time is cut to the column's digits, constants are rounded.
    let unit = 10i64.pow(6 - u32::from(fsp.min(6)));
    let micros = time.micros.checked_add(i64::from(offset_secs) * 1_000_000)?;
    Some(Literal::Long(micros.div_euclid(unit) * unit))
}

fn set(text: &str, labels: &[std::sync::Arc<str>]) -> Option<Literal> {
    let wanted: Vec<String> =
        text.split(',').filter(|l| !l.is_empty()).map(str::to_lowercase).collect();
    let known = |l: &str| wanted.contains(&l.to_lowercase());
    let chosen: Vec<&str> = labels.iter().map(|l| &**l).filter(|l| known(l)).collect();
    let all = wanted.iter().all(|w| labels.iter().any(|l| l.to_lowercase() == *w));
    all.then(|| Literal::String(chosen.join(",").into()))
}

fn uuid(text: &str) -> Option<Literal> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    if hex.len() != 32 || !hex.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let hex = hex.to_ascii_lowercase();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Some(Literal::String(parts.join("-").into()))
}

/// A number's unscaled value at `scale` digits after the point, rounded half away from zero.
pub fn decimal(text: &str, scale: u8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = !(whole.is_empty() && fraction.is_empty())
        && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    if !is_number || exponent.abs() > 100 {
        return None;
    }
    let mut all: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    // Where the last digit that stays ends.
    let keep = i32::try_from(whole.len()).ok()? + exponent + i32::from(scale);
    let rounds_up = match usize::try_from(keep) {
        Ok(keep) => {
            let rounds_up = all.get(keep).is_some_and(|d| *d >= 5);
            all.resize(keep, 0);
            rounds_up
        }
        Err(_) => {
            all.clear();
            false
        }
    };
    let mut value = 0i128;
    for digit in all {
        value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
    }
    let value = value.checked_add(i128::from(rounds_up))?;
    Some(if negative { -value } else { value })
}

fn decimal_text(value: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddl::{Flavor, SqlMode, Statement, TableBody, read};

    const TIME: StatementTime = StatementTime {
        micros: 1_700_000_000_999_999,
        has_fraction: true,
        offset_secs: Some(3600),
    };

    fn value(declaration: &str, data_type: DataType) -> Option<Literal> {
        let mode = SqlMode::new(Flavor::MySql);
        let sql = format!("CREATE TABLE t (c {declaration})");
        let statements = read(&sql, &mode, Some("d")).expect("readable");
        let [Statement::CreateTable(create)] = &statements[..] else { panic!("{sql}") };
        let TableBody::Definition(table) = &create.body else { panic!("{sql}") };
        let table = table.resolve(&"utf8mb4".into(), &mode);
        existing_rows(&table.columns[0], &data_type, Some(&TIME))
    }

    #[test]
    fn constants_in_their_columns_types() {
        let text = |s: &str| Some(Literal::String(s.into()));
        let long = |v| Some(Literal::Long(v));
        let seconds = DataType::Timestamp { precision: 0 };
        let instants = DataType::TimestampLtz { precision: 0 };
        let decimal = DataType::Decimal { precision: 10, scale: 2 };
        for (declaration, data_type, expected) in [
            ("INT DEFAULT -1", DataType::Int, long(-1)),
            ("INT DEFAULT 1.5", DataType::Int, long(2)),
            ("INT DEFAULT 0x10", DataType::Int, long(16)),
            ("BIT(9) DEFAULT b'100000001'", DataType::BigInt, long(257)),
            ("BIT(8) DEFAULT '1'", DataType::BigInt, long(49)),
            ("DECIMAL(10,2) DEFAULT 1.005", decimal, Some(Literal::Decimal(101))),
            ("DECIMAL(10,2) DEFAULT -1e1", decimal, Some(Literal::Decimal(-1000))),
            ("DECIMAL(50,2) DEFAULT 1.5", DataType::String, text("1.50")),
            ("DECIMAL(50,2) DEFAULT -0.05", DataType::String, text("-0.05")),
            ("YEAR DEFAULT 99", DataType::Int, long(1999)),
            ("YEAR NOT NULL", DataType::Int, long(0)),
            ("DATE DEFAULT '1970-01-02'", DataType::Date, long(1)),
            ("DATE DEFAULT '0000-00-00'", DataType::Date, Some(Literal::Null)),
            ("DATETIME DEFAULT '1970-01-01 00:00:01.5'", seconds, long(2_000_000)),
            ("DATETIME DEFAULT 19700102000000", seconds, long(86_400_000_000)),
            ("DATETIME DEFAULT NOW()", seconds, long(1_700_003_600_000_000)),
            ("TIMESTAMP DEFAULT NOW()", instants, long(1_700_000_000_000_000)),
            ("TIMESTAMP DEFAULT '1970-01-01 01:00:01'", instants, long(1_000_000)),
            (
                "TIME DEFAULT '-838:59:59'",
                DataType::Time { precision: 0 },
                long(-3_020_399_000_000),
            ),
            ("TIME DEFAULT '1 1:2'", DataType::Time { precision: 0 }, long(90_120_000_000)),
            ("TIME DEFAULT 10203", DataType::Time { precision: 0 }, long(3_723_000_000)),
            ("CHAR(5) DEFAULT 'a '", DataType::Char { length: 5 }, text("a")),
            ("VARCHAR(5) DEFAULT 'a '", DataType::Varchar { length: 5 }, text("a ")),
            ("VARCHAR(5) DEFAULT 5", DataType::Varchar { length: 5 }, text("5")),
            ("ENUM('Low') DEFAULT 'lOW'", DataType::String, text("Low")),
            ("SET('x','y') DEFAULT 'y,x'", DataType::String, text("x,y")),
            (
                "BINARY(3) DEFAULT 'a'",
                DataType::Binary { length: 3 },
                Some(Literal::Binary(vec![97, 0, 0])),
            ),
            ("JSON DEFAULT ('{}')", DataType::Json, text("{}")),
            ("INT", DataType::Int, Some(Literal::Null)),
        ] {
            assert_eq!(value(declaration, data_type), expected, "{declaration}");
        }
    }

    #[test]
    fn what_only_the_server_knows() {
        for (declaration, data_type) in [
            ("VARCHAR(36) DEFAULT (uuid())", DataType::String),
            ("INT AS (1)", DataType::Int),
            ("INT AUTO_INCREMENT", DataType::Int),
            ("JSON NOT NULL", DataType::Json),
            ("JSON DEFAULT ('{\"a\": 1}')", DataType::Json),
            ("VARBINARY(5) DEFAULT 'é'", DataType::Bytes),
            ("INT DEFAULT 4294967296", DataType::Int),
            ("DATE DEFAULT 'today'", DataType::Date),
            ("POINT NOT NULL", DataType::Bytes),
        ] {
            assert_eq!(value(declaration, data_type), None, "{declaration}");
        }
    }
}
