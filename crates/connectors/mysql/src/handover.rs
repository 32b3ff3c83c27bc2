//! The hand-over from snapshot to log: which rows of a chunk the log has overtaken.
//!
//! While chunks of a table are out, the keys of all rows that the log emits for it are remembered with their positions. A
//! chunk's row goes out only if nothing newer of its key did. Keys are told apart by the bytes that rows hold, not by the
//! server's collation: an update that changes only a key's case is a delete and an insert, and remembers both.

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use hashbrown::HashMap;
use lakeward_core::keys::canonical_values;
use lakeward_core::{DataChange, Error, Position, Result};
use xxhash_rust::xxh3::xxh3_128;

/// Beyond this many keys it is cheaper to read the chunks again than to remember.
const MAX_KEYS: usize = 1 << 20;

/// Fewer are not worth going through.
const PRUNE_KEYS: usize = 1 << 16;

/// Keys that the log has emitted since the oldest chunk was registered.
#[derive(Default)]
pub struct TouchedKeys {
    newest: HashMap<u128, Position>,
    /// Too many: nothing is known of the keys any more.
    overflowed: bool,
}

impl TouchedKeys {
    pub fn clear(&mut self) {
        self.newest = HashMap::new();
        self.overflowed = false;
    }

    /// Forgets keys that no chunk which is out can need.
    pub fn forget_up_to(&mut self, position: Position) {
        if self.newest.len() >= PRUNE_KEYS {
            self.newest.retain(|_, at| *at > position);
        }
    }

    /// True when the chunks that are out cannot be reconciled and have to be read again.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    pub fn record(&mut self, change: &DataChange) -> Result<()> {
        if self.overflowed {
            return Ok(());
        }
        let digests = key_digests(&change.rows, &change.schema.key_indices())?;
        let mut row = 0;
        for segment in &change.segments {
            for digest in &digests[row..segment.end as usize] {
                self.newest.insert(*digest, segment.position);
            }
            row = segment.end as usize;
        }
        if self.newest.len() > MAX_KEYS {
            self.newest = HashMap::new();
            self.overflowed = true;
        }
        Ok(())
    }

    /// The rows of a chunk whose keys the log has not emitted after `low`.
    pub fn filter(
        &self,
        batch: RecordBatch,
        key_columns: &[usize],
        low: Position,
    ) -> Result<RecordBatch> {
        if self.newest.is_empty() {
            return Ok(batch);
        }
        let keep: BooleanArray = key_digests(&batch, key_columns)?
            .iter()
            .map(|digest| Some(self.newest.get(digest).is_none_or(|at| *at <= low)))
            .collect();
        if keep.true_count() == batch.num_rows() {
            return Ok(batch);
        }
        filter_record_batch(&batch, &keep)
            .map_err(|e| Error::bug("could not filter a chunk").with_source(e))
    }
}

/// One digest for each row, the same for equal keys. 128 bits: two keys never share one.
fn key_digests(rows: &RecordBatch, key_columns: &[usize]) -> Result<Vec<u128>> {
    let mut digests = vec![0u128; rows.num_rows()];
    let mut buffer = Vec::with_capacity(64);
    for column in key_columns {
        canonical_values(rows.column(*column), |row, value| {
            buffer.clear();
            buffer.extend_from_slice(&digests[row].to_le_bytes());
            buffer.push(u8::from(value.is_some()));
            buffer.extend_from_slice(value.unwrap_or_default());
            digests[row] = xxh3_128(&buffer);
        })?;
    }
    Ok(digests)
}
