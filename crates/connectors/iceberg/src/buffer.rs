//! Rows that wait to be written, all of one schema version.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::BooleanBuffer;
use lakeward_core::RowKind;

/// Per column of a batch which cells the source did not send.
pub(crate) type Missing = Vec<Option<BooleanBuffer>>;

/// Rows are named by their place in the whole run, across batches.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) kinds: Vec<RowKind>,
    /// Per batch; `None` where every cell is known.
    pub(crate) missing: Vec<Option<Missing>>,
    /// The first row of each batch.
    pub(crate) starts: Vec<u32>,
    bytes: usize,
}

impl Buffer {
    pub(crate) fn push(&mut self, rows: RecordBatch, kinds: &[RowKind], missing: Option<Missing>) {
        self.bytes += size_bytes(&rows) + kinds.len();
        self.starts.push(self.kinds.len() as u32);
        self.kinds.extend_from_slice(kinds);
        self.batches.push(rows);
        self.missing.push(missing);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn rows(&self) -> usize {
        self.kinds.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(crate) fn has_missing(&self) -> bool {
        self.missing.iter().any(Option::is_some)
    }

    /// The batch that a row is in, and its place there.
    pub(crate) fn locate(&self, row: u32) -> (usize, usize) {
        let batch = self.starts.partition_point(|start| *start <= row) - 1;
        (batch, (row - self.starts[batch]) as usize)
    }

    /// Whether the source sent this cell.
    pub(crate) fn is_known(&self, row: u32, column: usize) -> bool {
        let (batch, place) = self.locate(row);
        match &self.missing[batch] {
            None => true,
            Some(columns) => columns[column].as_ref().is_none_or(|bits| !bits.value(place)),
        }
    }

    /// Whether the source sent all cells of this row.
    pub(crate) fn is_whole(&self, row: u32) -> bool {
        let (batch, place) = self.locate(row);
        match &self.missing[batch] {
            None => true,
            Some(columns) => columns.iter().flatten().all(|bits| !bits.value(place)),
        }
    }
}

/// What the rows take, without the unused ends of buffers that slices share.
fn size_bytes(rows: &RecordBatch) -> usize {
    let columns = rows.columns().iter();
    columns
        .map(|column| {
            let data = column.to_data();
            data.get_slice_memory_size().unwrap_or_else(|_| data.get_array_memory_size())
        })
        .sum()
}
