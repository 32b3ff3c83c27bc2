//! What becomes of a record that cannot be decoded.

use lakeward_core::{Column, DataType, Error, Result, TableId};

/// `pipeline.bad-record`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BadRecordPolicy {
    /// The pipeline stops before the record.
    #[default]
    Fail,
    /// The record is left out: counted, and named in the log.
    Skip,
    /// The record goes into a table as it is, with the reason.
    DeadLetter,
}

/// The policy, and the table of `dead-letter`.
#[derive(Debug, Clone)]
pub struct BadRecords {
    pub policy: BadRecordPolicy,
    pub table: TableId,
}

impl Default for BadRecords {
    fn default() -> Self {
        let table = TableId::new("lakeward", "bad_records");
        Self { policy: BadRecordPolicy::Fail, table }
    }
}

impl BadRecords {
    /// # Errors
    /// `Config` when the table is not written as `namespace.name`.
    pub fn new(policy: BadRecordPolicy, table: &str) -> Result<Self> {
        match table.split_once('.') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self { policy, table: TableId::new(namespace, name) })
            }
            _ => Err(Error::config(format!(
                "`bad-record.table`: `{table}` must be a namespace and a name with one `.` between"
            ))),
        }
    }
}

/// The columns of the table of bad records.
pub fn columns() -> Vec<Column> {
    vec![
        Column::new("topic", DataType::String, false),
        Column::new("partition", DataType::Int, false),
        Column::new("offset", DataType::BigInt, false),
        Column::new("timestamp", DataType::TimestampLtz { precision: 3 }, true),
        Column::new("key", DataType::Bytes, true),
        Column::new("value", DataType::Bytes, true),
        Column::new("reason", DataType::String, false),
    ]
}
