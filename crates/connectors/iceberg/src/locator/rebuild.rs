//! Fills a locator from the table: reads the key columns of all live rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{NestedFieldRef, SchemaRef};
use lakeward_core::{Error, Result, TableId, keys};
use roaring::RoaringTreemap;

use super::{KeyPlan, Locator, Place};
use crate::read_rows::{FileToRead, read_columns};
use crate::table_state::TableHandle;

/// The part of a table's keys that falls to one writer instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub index: usize,
    pub parallelism: usize,
}

/// How many files are read at once: their key columns are small, and a store answers slowly.
const FILES_AT_ONCE: usize = 8;

struct Source {
    file: FileToRead,
    ordinal: u32,
    deleted: Arc<RoaringTreemap>,
}

/// Reads the table as of now, with what writers have handed over and nobody has committed yet. The caller holds the
/// table's lock.
pub(crate) async fn rebuild(
    handle: &TableHandle,
    plan: KeyPlan,
    schema: &SchemaRef,
    share: &Share,
) -> Result<Locator> {
    let mut locator = Locator::new(plan.clone());
    // Rows that were written later may be wider than those that are being written now.
    let newest = handle.metadata()?.current_schema().clone();
    let fields = plan
        .fields
        .iter()
        .map(|id| {
            let field = newest.field_by_id(*id).or_else(|| schema.field_by_id(*id)).cloned();
            field.ok_or_else(|| Error::bug("a key column is not in the schema").with("field", id))
        })
        .collect::<Result<Vec<NestedFieldRef>>>()?;
    let sources = sources(handle).await?;
    let table = handle.table();
    let mut batches = futures::stream::iter(sources)
        .map(|source| {
            let (fields, file_io) = (fields.clone(), handle.file_io().clone());
            async move {
                let Source { file, ordinal, deleted } = source;
                let rows = read_columns(&file_io, &file, &fields, None).await?;
                Ok::<_, Error>(rows.map_ok(move |(first, rows)| {
                    (Place { file: ordinal, row: first }, rows, deleted.clone())
                }))
            }
        })
        .buffer_unordered(FILES_AT_ONCE)
        .try_flatten_unordered(FILES_AT_ONCE);
    let columns: Vec<usize> = (0..fields.len()).collect();
    while let Some((first, rows, deleted)) = batches.try_next().await? {
        let keys = plan.encode(&rows, &columns)?;
        let ours = ours(table, &plan, &rows, share)?;
        let places = (0..rows.num_rows()).filter_map(|row| {
            let position = first.row + row as u32;
            let keep = ours.as_ref().is_none_or(|ours| ours[row])
                && (deleted.is_empty() || !deleted.contains(u64::from(position)));
            keep.then_some((row, Place { file: first.file, row: position }))
        });
        locator.load(&keys, places)?;
    }
    Ok(locator)
}

/// Which rows fall to this writer; `None` for all.
fn ours(
    table: &TableId,
    plan: &KeyPlan,
    rows: &RecordBatch,
    share: &Share,
) -> Result<Option<Vec<bool>>> {
    if share.parallelism <= 1 {
        return Ok(None);
    }
    let columns: Vec<usize> = if plan.unique { (0..rows.num_columns()).collect() } else { vec![] };
    let hashes = keys::row_hashes(table, rows, &columns)?;
    let parallelism = share.parallelism as u64;
    let ours = hashes.into_iter().map(|hash| hash % parallelism == share.index as u64);
    Ok(Some(ours.collect()))
}

async fn sources(handle: &TableHandle) -> Result<Vec<Source>> {
    let pending = handle.pending();
    let mut late: HashMap<&str, RoaringTreemap> = HashMap::new();
    for work in &pending {
        for (path, positions) in &work.deletes {
            *late.entry(path).or_default() |= positions;
        }
    }
    let mut sources: BTreeMap<u32, Source> = BTreeMap::new();
    for live in handle.live_files()? {
        let mut deleted = handle.deleted_rows(&live).await?;
        if let Some(positions) = late.get(&*live.path) {
            *Arc::make_mut(&mut deleted) |= positions;
        }
        let file = FileToRead { path: live.path.clone(), size_bytes: Some(live.size_bytes) };
        sources.insert(live.ordinal, Source { file, ordinal: live.ordinal, deleted });
    }
    for new in pending.iter().flat_map(|work| &work.files) {
        let path: Arc<str> = new.file.file_path().into();
        let deleted = late.get(&*path).cloned().unwrap_or_default().into();
        let ordinal = handle.ordinal_of(&path);
        let file = FileToRead { path, size_bytes: Some(new.file.file_size_in_bytes()) };
        sources.entry(ordinal).or_insert(Source { file, ordinal, deleted });
    }
    Ok(sources.into_values().collect())
}
