//! What one epoch changes in one table: the writers' committables, put onto the table's live files.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lakeward_core::{Epoch, Result};
use roaring::RoaringTreemap;

use crate::NewDataFile;
use crate::commit::remap;
use crate::commit::snapshot::Changes;
use crate::committable::{CommittableId, RowCounts, TableCommittable};
use crate::names::Incarnation;
use crate::properties;
use crate::table_state::{TableHandle, TableState};

/// All committables of one table and epoch, merged.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) ids: Vec<CommittableId>,
    pub(crate) files: Vec<NewDataFile>,
    pub(crate) deletes: BTreeMap<Arc<str>, RoaringTreemap>,
    pub(crate) rows: RowCounts,
    pub(crate) commit_ms: i64,
    /// Rows that were written for a table of this name that does not exist any more.
    pub(crate) stale_rows: u64,
}

impl Work {
    /// Puts together what was written for the table as it is now.
    pub(crate) fn merge(parts: Vec<TableCommittable>, state: Option<&TableState>) -> Self {
        let mut work = Self::default();
        for part in parts {
            work.ids.push(part.id);
            if state.is_none_or(|state| state.metadata.uuid() != part.table_uuid) {
                work.stale_rows += part.rows.total();
                continue;
            }
            work.files.extend(part.files);
            for (path, positions) in part.deletes {
                *work.deletes.entry(path).or_default() |= positions;
            }
            work.rows.add(&part.rows);
            work.commit_ms = work.commit_ms.max(part.commit_ms);
        }
        work
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.deletes.is_empty()
    }

    /// The changes that these are to the table. The second value counts rows to delete that were not found.
    ///
    /// A position may name a file that is not live any more: then it is followed through our own rewrites, or looked up
    /// by its key where another program rewrote the file.
    pub(crate) async fn changes(
        &self,
        handle: &TableHandle,
        state: &TableState,
    ) -> Result<(Changes, u64)> {
        let mut of_live: BTreeMap<u32, RoaringTreemap> = BTreeMap::new();
        let mut of_new: HashMap<Arc<str>, RoaringTreemap> = HashMap::new();
        let mut lost: BTreeMap<Arc<str>, RoaringTreemap> = BTreeMap::new();
        let new: HashMap<&str, u64> =
            self.files.iter().map(|f| (f.file.file_path(), f.file.record_count())).collect();
        for (path, positions) in &self.deletes {
            if new.contains_key(&**path) {
                of_new.insert(path.clone(), positions.clone());
                continue;
            }
            let ordinal = handle.ordinal_of(path);
            if state.files.contains_key(&ordinal) {
                *of_live.entry(ordinal).or_default() |= positions;
                continue;
            }
            for position in positions {
                let row = u32::try_from(position).ok();
                match row.map(|row| handle.translate(ordinal, row)) {
                    // Left out by our own rewrite, because it was deleted already.
                    Some(None) => {}
                    Some(Some((to, row))) if state.files.contains_key(&to) => {
                        of_live.entry(to).or_default().insert(u64::from(row));
                    }
                    _ => {
                        lost.entry(path.clone()).or_default().insert(position);
                    }
                }
            }
        }
        let mut missed = 0;
        if !lost.is_empty() {
            let found = remap::by_key(handle, state, &lost).await?;
            missed = found.missed;
            for (ordinal, positions) in found.positions {
                *of_live.entry(ordinal).or_default() |= positions;
            }
        }
        let mut changes = Changes { added: self.files.clone(), ..Changes::default() };
        changes.added_deletes = of_new.into_iter().map(|(p, s)| (p, Arc::new(s))).collect();
        for (ordinal, positions) in of_live {
            let Some(file) = state.files.get(&ordinal) else { continue };
            let known = handle.deleted_rows(file).await?;
            let all: RoaringTreemap = &*known | &positions;
            if all.len() == known.len() {
                continue;
            }
            if all.len() >= file.rows {
                changes.removed.insert(ordinal);
            } else {
                changes.deletes.insert(ordinal, Arc::new(all));
            }
        }
        Ok((changes, missed))
    }
}

/// Writes down, in the snapshot and in the table's properties, how far the pipeline has come with it.
pub(crate) fn mark_progress(
    changes: &mut Changes,
    incarnation: &Incarnation,
    epoch: &Epoch,
    work: &Work,
) -> Result<()> {
    let pipeline = &incarnation.pipeline;
    let offsets = properties::encode_offsets(&epoch.offsets)?;
    let checkpoint = epoch.checkpoint.to_string();
    changes.summary.extend([
        (properties::SUMMARY_PIPELINE.to_string(), pipeline.to_string()),
        (properties::SUMMARY_CHECKPOINT.to_string(), checkpoint.clone()),
        (properties::SUMMARY_OFFSETS.to_string(), offsets.clone()),
        (
            properties::SUMMARY_ATTEMPT.to_string(),
            format!("{}.{}", incarnation.attempt, incarnation.token),
        ),
        (properties::SUMMARY_COMMIT_MS.to_string(), work.commit_ms.to_string()),
        (properties::SUMMARY_SOURCE_ROWS.to_string(), work.rows.total().to_string()),
    ]);
    changes.properties.extend([
        (properties::max_committed_checkpoint_id(pipeline), checkpoint),
        (properties::offsets(pipeline), offsets),
    ]);
    Ok(())
}

/// True when the table holds the epoch: by its last progress, or by a snapshot of its history since it last started
/// over. Offsets alone do not tell: while a snapshot is read from an idle source, epoch after epoch has the same ones.
pub(crate) fn holds_epoch(
    state: &TableState,
    incarnation: &Incarnation,
    epoch: &Epoch,
) -> Result<bool> {
    let pipeline = &incarnation.pipeline;
    if properties::marker(&state.metadata, pipeline)?
        .is_some_and(|m| m.offsets == epoch.offsets && m.checkpoint == epoch.checkpoint)
    {
        return Ok(true);
    }
    let offsets = properties::encode_offsets(&epoch.offsets)?;
    let checkpoint = epoch.checkpoint.to_string();
    let mut next = state.metadata.current_snapshot();
    while let Some(snapshot) = next {
        let summary = &snapshot.summary().additional_properties;
        let is = |key: &str, value: &str| summary.get(key).is_some_and(|found| found == value);
        if is(properties::SUMMARY_PIPELINE, &pipeline.0) {
            if summary.contains_key(properties::SUMMARY_RESET) {
                return Ok(false);
            }
            if is(properties::SUMMARY_CHECKPOINT, &checkpoint)
                && is(properties::SUMMARY_OFFSETS, &offsets)
            {
                return Ok(true);
            }
        }
        next = snapshot.parent_snapshot_id().and_then(|id| state.metadata.snapshot_by_id(id));
    }
    Ok(false)
}
