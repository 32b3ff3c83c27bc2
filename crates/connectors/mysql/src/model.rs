//! A table as MySQL and MariaDB declare it. Both the DDL reader and the row decoder stand on it: the reader makes it from
//! CREATE TABLE and ALTER TABLE text, the decoder reads row events by it, and [`crate::types`] maps it to Lakeward's types.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A column's declared type, with everything that decides how its bytes are read. Character sets are names as the server
/// spells them in lower case (`utf8mb4`, `gbk`, `latin1`); the reader has resolved them from column, table and database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MysqlType {
    /// `display_width` is kept only because `TINYINT(1)` may stand for a boolean.
    TinyInt {
        unsigned: bool,
        display_width: Option<u8>,
    },
    SmallInt {
        unsigned: bool,
    },
    MediumInt {
        unsigned: bool,
    },
    Int {
        unsigned: bool,
    },
    BigInt {
        unsigned: bool,
    },
    /// Up to 65 digits.
    Decimal {
        precision: u8,
        scale: u8,
        unsigned: bool,
    },
    Float,
    Double,
    /// 1 to 64 bits.
    Bit {
        width: u8,
    },
    Year,
    Date,
    /// `fsp`: fractional second digits, 0 to 6.
    Time {
        fsp: u8,
    },
    DateTime {
        fsp: u8,
    },
    Timestamp {
        fsp: u8,
    },
    /// Length in characters.
    Char {
        length: u32,
        charset: Arc<str>,
    },
    Varchar {
        length: u32,
        charset: Arc<str>,
    },
    /// TINYTEXT to LONGTEXT; `length_bytes` is the size of its length prefix, 1 to 4.
    Text {
        length_bytes: u8,
        charset: Arc<str>,
    },
    Binary {
        length: u32,
    },
    Varbinary {
        length: u32,
    },
    /// TINYBLOB to LONGBLOB.
    Blob {
        length_bytes: u8,
    },
    Enum {
        labels: Arc<[Arc<str>]>,
        charset: Arc<str>,
    },
    Set {
        labels: Arc<[Arc<str>]>,
        charset: Arc<str>,
    },
    /// MySQL's binary JSON. MariaDB's JSON is `Text`.
    Json,
    /// POINT, GEOMETRY, …: four bytes of SRID, then WKB.
    Geometry,
    /// MySQL 9 (32-bit floats, length-prefixed like a blob) and MariaDB 11.7.
    Vector {
        dimensions: u32,
    },
    /// MariaDB.
    Uuid,
    Inet4,
    Inet6,
}

/// A column's DEFAULT as far as it can be known without asking the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MysqlDefault {
    /// No DEFAULT clause: NULL for a nullable column, else the type's implicit default.
    None,
    Null,
    /// A constant, as text without quotes (`17`, `q`, `2024-01-01 00:00:00`, `-1.5`).
    Text(Arc<str>),
    /// A constant of bytes (`b'101'`, `x'00FF'`, `_binary'..'`).
    Bytes(Vec<u8>),
    /// `CURRENT_TIMESTAMP` and its synonyms.
    Now,
    /// `(uuid())` and the like: the value of existing rows is known only to the server.
    Expression,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MysqlColumn {
    pub name: Arc<str>,
    pub column_type: MysqlType,
    pub nullable: bool,
    pub default: MysqlDefault,
    pub auto_increment: bool,
    /// GENERATED ALWAYS AS (…), stored or virtual.
    pub generated: bool,
    /// VIRTUAL generated columns take part in row events on MySQL and MariaDB alike (their value is logged).
    pub virtual_column: bool,
    pub invisible: bool,
    /// MariaDB's COMPRESSED attribute: the row event holds the compressed form.
    pub compressed: bool,
    /// Digits after the point of FLOAT(m,d) and DOUBLE(m,d), to which the server rounds values when they are stored.
    #[serde(default)]
    pub float_scale: Option<u8>,
    pub comment: Option<Arc<str>>,
}

/// One version of a table, columns in the server's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MysqlTable {
    pub columns: Vec<MysqlColumn>,
    /// Names in key order; empty where there is no primary key.
    pub primary_key: Vec<Arc<str>>,
    /// The table's default character set, which new columns take.
    pub charset: Arc<str>,
    pub comment: Option<Arc<str>>,
}

impl MysqlTable {
    pub fn column(&self, name: &str) -> Option<&MysqlColumn> {
        self.index_of(name).map(|i| &self.columns[i])
    }

    /// Column names are compared without regard to case, as the servers do.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| {
            c.name.eq_ignore_ascii_case(name) || c.name.to_lowercase() == name.to_lowercase()
        })
    }
}
