//! MySQL's and MariaDB's types as Lakeward's, and defaults as constants. `TYPES.md` is this page
//! for users.

use lakeward_core::{DataType, Result, TableSchema};

use crate::charset::TextDecoder;
use crate::ddl;
use crate::model::{MysqlColumn, MysqlTable, MysqlType};

/// What the user may choose about types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TypeOptions {
    /// `treat-tinyint1-as-boolean.enabled`: TINYINT(1) becomes a boolean, every value but 0 true.
    pub tinyint1_as_boolean: bool,
}

/// The one mapping. Every value of the MySQL type is a value of the result, exactly; impossible
/// dates become null.
pub fn data_type(column_type: &MysqlType, options: &TypeOptions) -> DataType {
    match column_type {
        MysqlType::TinyInt { display_width: Some(1), unsigned: false }
            if options.tinyint1_as_boolean =>
        {
            DataType::Boolean
        }
        MysqlType::TinyInt { unsigned: false, .. } => DataType::TinyInt,
        MysqlType::TinyInt { unsigned: true, .. } | MysqlType::SmallInt { unsigned: false } => {
            DataType::SmallInt
        }
        MysqlType::SmallInt { unsigned: true }
        | MysqlType::MediumInt { .. }
        | MysqlType::Int { unsigned: false }
        | MysqlType::Year => DataType::Int,
        MysqlType::Int { unsigned: true } | MysqlType::BigInt { unsigned: false } => {
            DataType::BigInt
        }
        MysqlType::BigInt { unsigned: true } => DataType::Decimal { precision: 20, scale: 0 },
        MysqlType::Bit { width: 0..=63 } => DataType::BigInt,
        MysqlType::Bit { .. } => DataType::Decimal { precision: 20, scale: 0 },
        // MySQL's DECIMAL has at most 38 digits after the point, so the cast keeps the value.
        MysqlType::Decimal { precision: precision @ 0..=38, scale, .. } => {
            DataType::Decimal { precision: *precision, scale: scale.cast_signed() }
        }
        MysqlType::Decimal { .. } => DataType::String,
        MysqlType::Float => DataType::Float,
        MysqlType::Double => DataType::Double,
        MysqlType::Date => DataType::Date,
        MysqlType::Time { fsp } => DataType::Time { precision: *fsp },
        MysqlType::DateTime { fsp } => DataType::Timestamp { precision: *fsp },
        MysqlType::Timestamp { fsp } => DataType::TimestampLtz { precision: *fsp },
        MysqlType::Char { length, charset } if &**charset == "binary" => {
            DataType::Binary { length: *length }
        }
        MysqlType::Varchar { length, charset } if &**charset == "binary" => {
            DataType::Varbinary { length: *length }
        }
        MysqlType::Text { charset, .. } if &**charset == "binary" => DataType::Bytes,
        MysqlType::Char { length, .. } => DataType::Char { length: *length },
        MysqlType::Varchar { length, .. } => DataType::Varchar { length: *length },
        MysqlType::Text { .. }
        | MysqlType::Enum { .. }
        | MysqlType::Set { .. }
        | MysqlType::Uuid
        | MysqlType::Inet4
        | MysqlType::Inet6 => DataType::String,
        MysqlType::Json => DataType::Json,
        MysqlType::Binary { length } => DataType::Binary { length: *length },
        MysqlType::Varbinary { length } => DataType::Varbinary { length: *length },
        MysqlType::Blob { .. } | MysqlType::Geometry | MysqlType::Vector { .. } => DataType::Bytes,
    }
}

/// A table as the rest of Lakeward sees it: the same columns in the same order, defaults where they
/// are constants.
///
/// # Errors
/// `Config`, naming the column, for a character set that is not supported.
pub fn table_schema(
    table: &MysqlTable,
    version: u32,
    options: &TypeOptions,
) -> Result<TableSchema> {
    table.columns.iter().try_for_each(check_charset)?;
    Ok(ddl::table_schema(version, table, &|c| data_type(&c.column_type, options)))
}

fn check_charset(column: &MysqlColumn) -> Result<()> {
    match &column.column_type {
        MysqlType::Char { charset, .. }
        | MysqlType::Varchar { charset, .. }
        | MysqlType::Text { charset, .. }
            if &**charset != "binary" =>
        {
            TextDecoder::for_column(charset, &column.name).map(|_| ())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn text() -> Arc<str> {
        "utf8mb4".into()
    }

    #[test]
    fn every_type_has_its_counterpart() {
        let labels: Arc<[Arc<str>]> = ["a".into()].into();
        let tiny = MysqlType::TinyInt { unsigned: false, display_width: Some(1) };
        for (column_type, expected) in [
            (tiny.clone(), DataType::TinyInt),
            (MysqlType::TinyInt { unsigned: true, display_width: Some(1) }, DataType::SmallInt),
            (MysqlType::SmallInt { unsigned: true }, DataType::Int),
            (MysqlType::MediumInt { unsigned: true }, DataType::Int),
            (MysqlType::Int { unsigned: true }, DataType::BigInt),
            (MysqlType::BigInt { unsigned: false }, DataType::BigInt),
            (MysqlType::BigInt { unsigned: true }, DataType::Decimal { precision: 20, scale: 0 }),
            (MysqlType::Bit { width: 1 }, DataType::BigInt),
            (MysqlType::Bit { width: 64 }, DataType::Decimal { precision: 20, scale: 0 }),
            (
                MysqlType::Decimal { precision: 38, scale: 38, unsigned: false },
                DataType::Decimal { precision: 38, scale: 38 },
            ),
            (MysqlType::Decimal { precision: 39, scale: 0, unsigned: false }, DataType::String),
            (MysqlType::Year, DataType::Int),
            (MysqlType::Timestamp { fsp: 3 }, DataType::TimestampLtz { precision: 3 }),
            (
                MysqlType::Char { length: 3, charset: "binary".into() },
                DataType::Binary { length: 3 },
            ),
            (MysqlType::Char { length: 3, charset: text() }, DataType::Char { length: 3 }),
            (MysqlType::Enum { labels, charset: text() }, DataType::String),
            (MysqlType::Vector { dimensions: 3 }, DataType::Bytes),
            (MysqlType::Json, DataType::Json),
        ] {
            assert_eq!(data_type(&column_type, &TypeOptions::default()), expected);
        }
        let options = TypeOptions { tinyint1_as_boolean: true };
        assert_eq!(data_type(&tiny, &options), DataType::Boolean);
    }
}
