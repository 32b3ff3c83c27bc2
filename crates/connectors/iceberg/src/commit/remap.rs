//! Finds rows again whose data file another program rewrote: by their keys, which are still in the old file.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_row::{OwnedRow, RowConverter, SortField};
use futures::TryStreamExt;
use iceberg::spec::{NestedFieldRef, Schema};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use roaring::RoaringTreemap;

use crate::read_rows::{FileToRead, read_columns, read_positions};
use crate::table_state::{TableHandle, TableState};
use crate::types;

/// Where lost rows are now.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) positions: BTreeMap<u32, RoaringTreemap>,
    /// Rows that are nowhere: the other program deleted them.
    pub(crate) missed: u64,
}

/// Looks up, among the live rows, one row for each lost one: with the same key, or the same values where the table has
/// no key. It reads the key columns of the whole table, which is the price of following a foreign rewrite.
///
/// # Errors
/// `DataInvalid` when an old file is gone as well, so that nobody knows which rows are meant.
pub(crate) async fn by_key(
    handle: &TableHandle,
    state: &TableState,
    lost: &BTreeMap<Arc<str>, RoaringTreemap>,
) -> Result<Found> {
    let fields = key_fields(state.metadata.current_schema());
    let converter = converter(&fields)?;
    let mut wanted: HashMap<OwnedRow, u64> = HashMap::new();
    for (path, positions) in lost {
        let file = FileToRead { path: path.clone(), size_bytes: None };
        let rows: Vec<u32> = positions
            .iter()
            .map(u32::try_from)
            .collect::<std::result::Result<_, _>>()
            .or_err(ErrorKind::DataInvalid, "a data file has more rows than can be addressed")?;
        let batch = read_positions(handle.file_io(), &file, &fields, &rows).await.map_err(|e| {
            Error::data_invalid(
                "another program replaced a data file and removed it, so deletes of its rows cannot be followed; read the \
                 table anew with --resnapshot",
            )
            .with("table", handle.table())
            .with("file", path)
            .with_source(e)
        })?;
        for row in &converter.convert_columns(batch.columns()).or_err(ErrorKind::Bug, UNFIT)? {
            *wanted.entry(row.owned()).or_default() += 1;
        }
    }
    tracing::info!(table = %handle.table(), rows = wanted.len(), files = lost.len(),
        "looking up rows of data files that another program rewrote");
    let mut found = Found::default();
    for file in state.files.values() {
        if wanted.is_empty() {
            break;
        }
        let deleted = handle.deleted_rows(file).await?;
        let to_read = FileToRead { path: file.path.clone(), size_bytes: Some(file.size_bytes) };
        let mut batches = read_columns(handle.file_io(), &to_read, &fields, None).await?;
        while let Some((first, batch)) = batches.try_next().await? {
            take_matches(&converter, &batch, &mut wanted, |row| {
                let position = u64::from(first) + row as u64;
                let live = !deleted.contains(position);
                if live {
                    found.positions.entry(file.ordinal).or_default().insert(position);
                }
                live
            })?;
        }
    }
    found.missed = wanted.values().sum();
    Ok(found)
}

const UNFIT: &str = "key columns cannot be compared";

fn key_fields(schema: &Schema) -> Vec<NestedFieldRef> {
    let ids: Vec<i32> = schema.identifier_field_ids().collect();
    let all = schema.as_struct().fields().iter();
    all.filter(|f| ids.is_empty() || ids.contains(&f.id)).cloned().collect()
}

fn converter(fields: &[NestedFieldRef]) -> Result<RowConverter> {
    let sort_fields = fields
        .iter()
        .map(|f| Ok(SortField::new(types::arrow_type(&f.field_type)?)))
        .collect::<Result<Vec<_>>>()?;
    RowConverter::new(sort_fields).or_err(ErrorKind::Bug, UNFIT)
}

fn take_matches(
    converter: &RowConverter,
    batch: &RecordBatch,
    wanted: &mut HashMap<OwnedRow, u64>,
    mut take: impl FnMut(usize) -> bool,
) -> Result<()> {
    let rows = converter.convert_columns(batch.columns()).or_err(ErrorKind::Bug, UNFIT)?;
    for (index, row) in rows.iter().enumerate() {
        let row = row.owned();
        let Some(count) = wanted.get_mut(&row) else { continue };
        if take(index) {
            *count -= 1;
            if *count == 0 {
                wanted.remove(&row);
            }
        }
    }
    Ok(())
}
