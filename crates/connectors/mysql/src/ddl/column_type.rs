//! Column types by all their names.

use std::sync::Arc;

use super::cursor::{Cursor, Parsed, Unclear};
use super::statement::{ColumnDefinition, DeclaredCharset, DeclaredType};
use super::tokens::Token;
use super::{Flavor, SqlMode, charsets};
use crate::model::MysqlType;

/// Reads the type and the attributes that only types have. Some types bring attributes along: those go to `column`.
pub fn column_type(
    c: &mut Cursor<'_, '_>,
    mode: &SqlMode,
    column: &mut ColumnDefinition,
) -> Parsed<()> {
    let word = c.keyword();
    c.next().ok_or(Unclear("a column has no type"))?;
    column.column_type = match word.as_str() {
        "TINYINT" | "INT1" => {
            let width = c.numbers()?;
            // Any other width means nothing, and servers differ in what they show.
            let display_width = (width.first() == Some(&1)).then_some(1);
            DeclaredType::Settled(MysqlType::TinyInt { unsigned: unsigned(c), display_width })
        }
        "BOOL" | "BOOLEAN" => {
            DeclaredType::Settled(MysqlType::TinyInt { unsigned: false, display_width: Some(1) })
        }
        "SMALLINT" | "INT2" => integer(c, |unsigned| MysqlType::SmallInt { unsigned })?,
        "MEDIUMINT" | "INT3" | "MIDDLEINT" => {
            integer(c, |unsigned| MysqlType::MediumInt { unsigned })?
        }
        "INT" | "INTEGER" | "INT4" => integer(c, |unsigned| MysqlType::Int { unsigned })?,
        "BIGINT" | "INT8" => integer(c, |unsigned| MysqlType::BigInt { unsigned })?,
        "SERIAL" => {
            column.nullable = Some(false);
            column.auto_increment = true;
            column.unique = true;
            DeclaredType::Settled(MysqlType::BigInt { unsigned: true })
        }
        "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => decimal(c)?,
        "NUMBER" if mode.oracle => {
            if c.is_symbol('(') {
                decimal(c)?
            } else {
                DeclaredType::Settled(MysqlType::Double)
            }
        }
        "FLOAT" | "FLOAT4" => {
            let numbers = c.numbers()?;
            let is_double = matches!(numbers[..], [precision] if precision > 24);
            float(c, column, &numbers, is_double)
        }
        "DOUBLE" | "FLOAT8" => {
            c.take_word("PRECISION");
            let numbers = c.numbers()?;
            float(c, column, &numbers, true)
        }
        "REAL" => {
            let numbers = c.numbers()?;
            float(c, column, &numbers, !mode.real_as_float)
        }
        "BIT" => {
            let width = small(&c.numbers()?, 1, 64)?.max(1);
            DeclaredType::Settled(MysqlType::Bit { width })
        }
        "YEAR" => {
            c.numbers()?;
            unsigned(c);
            DeclaredType::Settled(MysqlType::Year)
        }
        "DATE" if mode.oracle => DeclaredType::Settled(MysqlType::DateTime { fsp: 0 }),
        "DATE" => DeclaredType::Settled(MysqlType::Date),
        "TIME" => DeclaredType::Settled(MysqlType::Time { fsp: small(&c.numbers()?, 0, 6)? }),
        "DATETIME" => {
            DeclaredType::Settled(MysqlType::DateTime { fsp: small(&c.numbers()?, 0, 6)? })
        }
        "TIMESTAMP" => {
            DeclaredType::Settled(MysqlType::Timestamp { fsp: small(&c.numbers()?, 0, 6)? })
        }
        "CHAR" | "CHARACTER" => {
            if c.take_word("VARYING") {
                varchar(c)?
            } else {
                char(c)?
            }
        }
        "VARCHAR" | "VARCHARACTER" | "VARCHAR2" => varchar(c)?,
        "NATIONAL" => {
            national(column);
            let is_varchar = c.take_any(&["VARCHAR", "VARCHARACTER"]);
            if is_varchar || (c.take_any(&["CHAR", "CHARACTER"]) && c.take_word("VARYING")) {
                varchar(c)?
            } else {
                char(c)?
            }
        }
        "NCHAR" => {
            national(column);
            if c.take_any(&["VARCHAR", "VARCHARACTER", "VARYING"]) { varchar(c)? } else { char(c)? }
        }
        "NVARCHAR" => {
            national(column);
            varchar(c)?
        }
        "BINARY" => DeclaredType::Settled(MysqlType::Binary { length: length(c)?.unwrap_or(1) }),
        "VARBINARY" | "RAW" => settled_bytes(length(c)?.ok_or(NO_LENGTH)?),
        "TINYTEXT" => DeclaredType::Text { length_bytes: 1 },
        "TEXT" => match c.numbers()?.first() {
            Some(&length) if length > 0 => DeclaredType::TextOf { length },
            _ => DeclaredType::Text { length_bytes: 2 },
        },
        "MEDIUMTEXT" => DeclaredType::Text { length_bytes: 3 },
        "LONGTEXT" | "CLOB" => {
            c.numbers()?;
            DeclaredType::Text { length_bytes: 4 }
        }
        "LONG" => long(c),
        "TINYBLOB" => DeclaredType::Settled(MysqlType::Blob { length_bytes: 1 }),
        "BLOB" if mode.oracle && !c.is_symbol('(') => {
            DeclaredType::Settled(MysqlType::Blob { length_bytes: 4 })
        }
        "BLOB" => {
            let length_bytes = match c.numbers()?.first() {
                Some(&length) if length > 0 => length_bytes_for(length),
                _ => 2,
            };
            DeclaredType::Settled(MysqlType::Blob { length_bytes })
        }
        "MEDIUMBLOB" => DeclaredType::Settled(MysqlType::Blob { length_bytes: 3 }),
        "LONGBLOB" => DeclaredType::Settled(MysqlType::Blob { length_bytes: 4 }),
        "ENUM" => DeclaredType::Enum { labels: labels(c)? },
        "SET" => DeclaredType::Set { labels: labels(c)? },
        "JSON" if mode.flavor == Flavor::MySql => DeclaredType::Settled(MysqlType::Json),
        "JSON" => {
            column.charset = DeclaredCharset::Named("utf8mb4".into());
            DeclaredType::Text { length_bytes: 4 }
        }
        "GEOMETRY" | "POINT" | "LINESTRING" | "POLYGON" | "MULTIPOINT" | "MULTILINESTRING"
        | "MULTIPOLYGON" | "GEOMETRYCOLLECTION" | "GEOMCOLLECTION" => {
            DeclaredType::Settled(MysqlType::Geometry)
        }
        "VECTOR" => {
            DeclaredType::Settled(MysqlType::Vector { dimensions: length(c)?.unwrap_or(2048) })
        }
        "UUID" => DeclaredType::Settled(MysqlType::Uuid),
        "INET4" => DeclaredType::Settled(MysqlType::Inet4),
        "INET6" => DeclaredType::Settled(MysqlType::Inet6),
        _ => return Err(Unclear("a column has a type that is not known")),
    };
    Ok(())
}

const NO_LENGTH: Unclear = Unclear("a type lacks its length");

fn length(c: &mut Cursor<'_, '_>) -> Parsed<Option<u32>> {
    Ok(c.numbers()?.first().map(|&n| u32::try_from(n).unwrap_or(u32::MAX)))
}

fn small(numbers: &[u64], default: u8, most: u8) -> Parsed<u8> {
    let Some(&number) = numbers.first() else { return Ok(default) };
    u8::try_from(number)
        .ok()
        .filter(|n| *n <= most)
        .ok_or(Unclear("a type's length is out of range"))
}

/// UNSIGNED, SIGNED and ZEROFILL, which implies UNSIGNED.
fn unsigned(c: &mut Cursor<'_, '_>) -> bool {
    let mut unsigned = false;
    loop {
        match c.keyword().as_str() {
            "UNSIGNED" | "ZEROFILL" => unsigned = true,
            "SIGNED" => {}
            _ => return unsigned,
        }
        c.next();
    }
}

fn integer(c: &mut Cursor<'_, '_>, kind: fn(bool) -> MysqlType) -> Parsed<DeclaredType> {
    c.numbers()?;
    Ok(DeclaredType::Settled(kind(unsigned(c))))
}

fn decimal(c: &mut Cursor<'_, '_>) -> Parsed<DeclaredType> {
    let numbers = c.numbers()?;
    let precision = match small(&numbers, 10, 65)? {
        0 => 10,
        precision => precision,
    };
    let scale = small(numbers.get(1..).unwrap_or_default(), 0, precision)?;
    Ok(DeclaredType::Settled(MysqlType::Decimal { precision, scale, unsigned: unsigned(c) }))
}

fn float(
    c: &mut Cursor<'_, '_>,
    column: &mut ColumnDefinition,
    numbers: &[u64],
    is_double: bool,
) -> DeclaredType {
    column.float_scale = numbers.get(1).and_then(|scale| u8::try_from(*scale).ok());
    unsigned(c);
    DeclaredType::Settled(if is_double { MysqlType::Double } else { MysqlType::Float })
}

fn char(c: &mut Cursor<'_, '_>) -> Parsed<DeclaredType> {
    Ok(DeclaredType::Char { length: length(c)?.unwrap_or(1) })
}

fn varchar(c: &mut Cursor<'_, '_>) -> Parsed<DeclaredType> {
    Ok(DeclaredType::Varchar { length: length(c)?.ok_or(NO_LENGTH)? })
}

fn national(column: &mut ColumnDefinition) {
    column.charset = DeclaredCharset::Named("utf8mb3".into());
}

fn long(c: &mut Cursor<'_, '_>) -> DeclaredType {
    if c.take_word("VARBINARY") {
        return DeclaredType::Settled(MysqlType::Blob { length_bytes: 3 });
    }
    if c.take_any(&["CHAR", "CHARACTER"]) {
        c.take_word("VARYING");
    } else {
        c.take_any(&["VARCHAR", "VARCHARACTER"]);
    }
    DeclaredType::Text { length_bytes: 3 }
}

/// Labels lose trailing blanks, as the servers store them.
fn labels(c: &mut Cursor<'_, '_>) -> Parsed<Arc<[Arc<str>]>> {
    const UNCLEAR: Unclear = Unclear("the labels of an ENUM or SET cannot be read");
    if !c.take_symbol('(') {
        return Err(UNCLEAR);
    }
    let mut labels: Vec<Arc<str>> = Vec::new();
    loop {
        match c.next() {
            Some(Token::Text(label)) => labels.push(label.trim_end_matches(' ').into()),
            Some(Token::Bytes(label)) => {
                labels.push(std::str::from_utf8(label).map_err(|_| UNCLEAR)?.into());
            }
            Some(Token::Symbol(',')) => {}
            Some(Token::Symbol(')')) if !labels.is_empty() => return Ok(labels.into()),
            _ => return Err(UNCLEAR),
        }
    }
}

/// VARBINARY(n), or the BLOB that it becomes where it is too long.
fn settled_bytes(length: u32) -> DeclaredType {
    DeclaredType::Settled(match length {
        0..=65535 => MysqlType::Varbinary { length },
        _ => MysqlType::Blob { length_bytes: length_bytes_for(length.into()) },
    })
}

/// The size of the length prefix of the smallest TEXT or BLOB that holds so many bytes.
fn length_bytes_for(bytes: u64) -> u8 {
    match bytes {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    }
}

impl DeclaredType {
    /// The type under a character set.
    pub fn settle(&self, charset: &Arc<str>) -> MysqlType {
        let charset = charset.clone();
        let is_binary = &*charset == "binary";
        let width = u64::from(charsets::max_bytes_per_char(&charset));
        match self {
            DeclaredType::Settled(settled) => settled.clone(),
            DeclaredType::Char { length } if is_binary => MysqlType::Binary { length: *length },
            DeclaredType::Char { length } => MysqlType::Char { length: *length, charset },
            DeclaredType::Varchar { length } if u64::from(*length) * width > 65535 => {
                let length = u64::from(*length);
                DeclaredType::TextOf { length }.settle(&charset)
            }
            DeclaredType::Varchar { length } if is_binary => {
                MysqlType::Varbinary { length: *length }
            }
            DeclaredType::Varchar { length } => MysqlType::Varchar { length: *length, charset },
            DeclaredType::Text { length_bytes } if is_binary => {
                MysqlType::Blob { length_bytes: *length_bytes }
            }
            DeclaredType::Text { length_bytes } => {
                MysqlType::Text { length_bytes: *length_bytes, charset }
            }
            DeclaredType::TextOf { length } => {
                let length_bytes = length_bytes_for(length.saturating_mul(width));
                DeclaredType::Text { length_bytes }.settle(&charset)
            }
            DeclaredType::Enum { labels } => MysqlType::Enum { labels: labels.clone(), charset },
            DeclaredType::Set { labels } => MysqlType::Set { labels: labels.clone(), charset },
        }
    }
}
