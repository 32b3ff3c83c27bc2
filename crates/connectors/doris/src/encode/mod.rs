//! Rows as the body of a load.

mod arrow;
mod column;
mod compress;
mod csv;
mod json;

use arrow_array::RecordBatch;
use lakeward_core::{Result, TableSchema};

pub(crate) use compress::{Compression, compress};

use crate::collapse::Row;

/// `sink.properties.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// One JSON object per line.
    Json,
    /// Separated by the characters 1 and 2, which may not appear in values.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
}

/// Which hidden columns a body carries, and under which name the sequence goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HiddenColumns {
    pub(crate) delete_sign: bool,
    /// The field that the header `function_column.sequence_col` names.
    pub(crate) sequence: Option<&'static str>,
}

/// Rows that go into one body: all have the same known columns.
pub(crate) struct Rows<'a> {
    pub(crate) schema: &'a TableSchema,
    pub(crate) batches: &'a [RecordBatch],
    pub(crate) rows: &'a [Row],
    /// Indices of the columns that the body carries, in order.
    pub(crate) columns: &'a [usize],
    /// For each column of the schema its name in Doris.
    pub(crate) names: &'a [Option<String>],
    /// Columns that have the same text in every row.
    pub(crate) constants: &'a [(String, Option<String>)],
    pub(crate) hidden: HiddenColumns,
    pub(crate) zone_offset_seconds: i32,
}

impl Rows<'_> {
    fn name(&self, column: usize) -> &str {
        let name = self.names.get(column).and_then(Option::as_deref);
        name.unwrap_or(&self.schema.columns[column].name)
    }

    /// Names of everything in the body, in order.
    pub(crate) fn header_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.columns.iter().map(|c| self.name(*c)).collect();
        names.extend(self.constants.iter().map(|(name, _)| name.as_str()));
        if self.hidden.delete_sign {
            names.push(crate::sequence::DELETE_SIGN);
        }
        names.extend(self.hidden.sequence);
        names
    }
}

/// # Errors
/// `DataInvalid` for a value that Doris or the format cannot hold.
pub(crate) fn encode(rows: &Rows<'_>, format: BodyFormat) -> Result<Vec<u8>> {
    match format {
        BodyFormat::Json => json::encode(rows),
        BodyFormat::Csv => csv::encode(rows),
        BodyFormat::Arrow => arrow::encode(rows),
    }
}

#[cfg(test)]
mod tests;
