//! What a table looks like at one version, and how its values are laid out in Arrow.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef, TimeUnit};

use crate::Literal;

/// A column's type, independent of any source or sink. Each has exactly one Arrow layout ([`DataType::arrow_type`]),
/// which sources build and sinks read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum DataType {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    /// At most 38 digits. A source's unsigned 64-bit integer is `Decimal(20, 0)`; wider decimals are `String`.
    Decimal {
        precision: u8,
        scale: i8,
    },
    Date,
    /// Signed microseconds, not bound to a day: MySQL's TIME reaches from -838:59:59 to 838:59:59.
    Time {
        precision: u8,
    },
    /// Wall clock without a zone, in microseconds.
    Timestamp {
        precision: u8,
    },
    /// An instant, in microseconds since the epoch in UTC.
    TimestampLtz {
        precision: u8,
    },
    /// Length in characters.
    Char {
        length: u32,
    },
    /// Length in characters.
    Varchar {
        length: u32,
    },
    String,
    /// A JSON document as text.
    Json,
    /// Length in bytes; values are padded to it by the source.
    Binary {
        length: u32,
    },
    /// Length in bytes.
    Varbinary {
        length: u32,
    },
    Bytes,
}

impl DataType {
    /// The one Arrow layout of this type.
    pub fn arrow_type(&self) -> ArrowType {
        match *self {
            DataType::Boolean => ArrowType::Boolean,
            DataType::TinyInt => ArrowType::Int8,
            DataType::SmallInt => ArrowType::Int16,
            DataType::Int => ArrowType::Int32,
            DataType::BigInt | DataType::Time { .. } => ArrowType::Int64,
            DataType::Float => ArrowType::Float32,
            DataType::Double => ArrowType::Float64,
            DataType::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale),
            DataType::Date => ArrowType::Date32,
            DataType::Timestamp { .. } => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            DataType::TimestampLtz { .. } => {
                ArrowType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
            }
            DataType::Char { .. }
            | DataType::Varchar { .. }
            | DataType::String
            | DataType::Json => ArrowType::Utf8,
            DataType::Binary { .. } | DataType::Varbinary { .. } | DataType::Bytes => {
                ArrowType::Binary
            }
        }
    }
}

impl DataType {
    /// True where every value of this type is, unchanged, a value of `to`.
    pub fn widens_to(&self, to: &DataType) -> bool {
        use DataType::*;
        let integer = |t: &DataType| match t {
            TinyInt => Some(1),
            SmallInt => Some(2),
            Int => Some(4),
            BigInt => Some(8),
            _ => None,
        };
        match (self, to) {
            (a, b) if a == b => true,
            (a, b) if integer(a).is_some() && integer(b).is_some() => integer(a) <= integer(b),
            (Float, Double) => true,
            (Decimal { precision: p, scale: s }, Decimal { precision: q, scale: t }) => {
                s == t && p <= q
            }
            (Char { length: m }, Char { length: n } | Varchar { length: n })
            | (Varchar { length: m }, Varchar { length: n })
            | (Binary { length: m }, Varbinary { length: n })
            | (Varbinary { length: m }, Varbinary { length: n }) => m <= n,
            (Char { .. } | Varchar { .. } | Json, String) => true,
            (Binary { .. } | Varbinary { .. }, Bytes) => true,
            (Time { precision: p }, Time { precision: q })
            | (Timestamp { precision: p }, Timestamp { precision: q })
            | (TimestampLtz { precision: p }, TimestampLtz { precision: q }) => p <= q,
            _ => false,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Boolean => f.write_str("BOOLEAN"),
            DataType::TinyInt => f.write_str("TINYINT"),
            DataType::SmallInt => f.write_str("SMALLINT"),
            DataType::Int => f.write_str("INT"),
            DataType::BigInt => f.write_str("BIGINT"),
            DataType::Float => f.write_str("FLOAT"),
            DataType::Double => f.write_str("DOUBLE"),
            DataType::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            DataType::Date => f.write_str("DATE"),
            DataType::Time { precision } => write!(f, "TIME({precision})"),
            DataType::Timestamp { precision } => write!(f, "TIMESTAMP({precision})"),
            DataType::TimestampLtz { precision } => write!(f, "TIMESTAMP_LTZ({precision})"),
            DataType::Char { length } => write!(f, "CHAR({length})"),
            DataType::Varchar { length } => write!(f, "VARCHAR({length})"),
            DataType::String => f.write_str("STRING"),
            DataType::Json => f.write_str("JSON"),
            DataType::Binary { length } => write!(f, "BINARY({length})"),
            DataType::Varbinary { length } => write!(f, "VARBINARY({length})"),
            DataType::Bytes => f.write_str("BYTES"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Column {
    pub name: Arc<str>,
    pub data_type: DataType,
    /// What the source declares. A sink may still need to store a null (MySQL zero dates).
    pub nullable: bool,
    /// The value that the source gives a row which does not name this column, where that is a constant.
    pub default: Option<Literal>,
    pub comment: Option<Arc<str>>,
}

impl Column {
    pub fn new(name: impl Into<Arc<str>>, data_type: DataType, nullable: bool) -> Self {
        Self { name: name.into(), data_type, nullable, default: None, comment: None }
    }
}

/// One version of a table's columns. Immutable; shared by every batch that was read under it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TableSchema {
    /// Grows by one with every change of the table's shape, in the source's order, and survives restarts in the source's
    /// state: replayed rows carry the same version as when they were first read.
    pub version: u32,
    pub columns: Vec<Column>,
    /// Names of the primary key columns in key order; empty where the table has no key.
    pub primary_key: Vec<Arc<str>>,
    pub comment: Option<Arc<str>>,
}

impl TableSchema {
    pub fn new(version: u32, columns: Vec<Column>, primary_key: Vec<Arc<str>>) -> Self {
        Self { version, columns, primary_key, comment: None }
    }

    pub fn index_of(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| &*c.name == column)
    }

    /// Positions of the key columns, in key order. A key column that does not exist is left out.
    pub fn key_indices(&self) -> Vec<usize> {
        self.primary_key.iter().filter_map(|k| self.index_of(k)).collect()
    }

    /// The Arrow schema of this version's batches. Every field is nullable: see [`Column::nullable`].
    pub fn arrow_schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self
            .columns
            .iter()
            .map(|c| Field::new(&*c.name, c.data_type.arrow_type(), true))
            .collect();
        Arc::new(Schema::new(fields))
    }
}
