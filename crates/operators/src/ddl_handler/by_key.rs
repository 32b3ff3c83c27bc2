//! Which writer gets which rows.

use arrow_array::UInt32Array;
use arrow_select::take::take_record_batch;
use lakeward_core::{DataChange, Error, Result, Segment, Unavailable, keys};

/// The rows of a change by the writer that owns their key, each part in order.
pub(super) fn by_key(change: DataChange, writers: usize) -> Result<Vec<(usize, DataChange)>> {
    if writers == 1 {
        return Ok(vec![(0, change)]);
    }
    let hashes = keys::row_hashes(&change.table, &change.rows, &change.schema.key_indices())?;
    let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); writers];
    for (row, hash) in hashes.iter().enumerate() {
        rows_of[(hash % writers as u64) as usize].push(row as u32);
    }
    if let Some(writer) = rows_of.iter().position(|r| r.len() == change.kinds.len()) {
        return Ok(vec![(writer, change)]);
    }
    rows_of
        .into_iter()
        .enumerate()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(writer, rows)| Ok((writer, select(&change, rows)?)))
        .collect()
}

/// The given rows of a change, in order.
fn select(change: &DataChange, rows: Vec<u32>) -> Result<DataChange> {
    let kinds = rows.iter().map(|r| change.kinds[*r as usize]).collect();
    let mut segments: Vec<Segment> = Vec::new();
    let mut taken = 0;
    for segment in &change.segments {
        let end = rows.partition_point(|r| *r < segment.end);
        if end > taken {
            segments.push(Segment { end: end as u32, ..*segment });
            taken = end;
        }
    }
    let unavailable = change.unavailable.as_ref().map(|u| {
        let column =
            |b: &arrow_buffer::BooleanBuffer| rows.iter().map(|r| b.value(*r as usize)).collect();
        Unavailable(u.0.iter().map(|c| c.as_ref().map(column)).collect())
    });
    let batch = take_record_batch(&change.rows, &UInt32Array::from(rows))
        .map_err(|e| Error::bug("could not split rows by key").with_source(e))?;
    Ok(DataChange {
        table: change.table.clone(),
        schema: change.schema.clone(),
        kinds,
        rows: batch,
        unavailable,
        segments,
        snapshot: change.snapshot,
    })
}
