//! Keeps tables quick to read beside the ingestion: merges small files, rewrites files with many deleted rows, removes
//! orphans of earlier attempts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use iceberg::spec::Struct;
use lakeward_core::{Result, TableId};

use crate::catalog::{CatalogChange, CommitOutcome, LoadedTable};
use crate::commit::live;
use crate::commit::snapshot::{Changes, Start};
use crate::data_files::DataFileOptions;
use crate::metrics::CommitMetrics;
use crate::names::Incarnation;
use crate::rewrite::{Part, Rewriter};
use crate::session::Session;
use crate::table_state::{LiveFile, Move, TableHandle, TableState};

/// Files of one size class that are worth merging.
const MIN_SMALL_FILES: usize = 8;
/// Deleted rows, in percent, that make a file worth rewriting.
const MIN_DELETED_PERCENT: u64 = 15;
/// Bytes that are read in one go, so that a commit is not kept waiting for long.
const MAX_INPUT_BYTES: u64 = 512 << 20;

/// Decides after commits what is to be done, and does it under the table's commit lock.
pub(crate) struct Maintenance {
    enabled: bool,
    commit_interval: u64,
    target_size_bytes: u64,
    metrics: CommitMetrics,
    tables: Mutex<HashMap<TableId, Seen>>,
}

#[derive(Default)]
struct Seen {
    commits: u64,
    swept: bool,
}

impl Maintenance {
    pub(crate) fn new(session: &Session, metrics: CommitMetrics) -> Self {
        let config = &session.env.config;
        Self {
            // Rows of files that are merged move; writers in other processes would look for them where they were.
            enabled: config.compaction_enabled && session.is_alone(),
            commit_interval: config.compaction_commit_interval,
            target_size_bytes: config.target_file_size_bytes(),
            metrics,
            tables: Mutex::default(),
        }
    }

    /// Called when nothing of the epoch is left to do. What fails here is tried again after a later commit.
    pub(crate) async fn after_commit(
        &self,
        session: &Session,
        changed: &[Arc<TableHandle>],
        now_ms: i64,
    ) {
        for handle in changed {
            let (compact, sweep) = self.due(handle.table());
            if compact && let Err(error) = self.compact(session, handle, now_ms).await {
                tracing::warn!(table = %handle.table(), %error, "small files stay as they are for now");
            }
            if sweep && let Err(error) = self.sweep(session, handle).await {
                tracing::warn!(table = %handle.table(), %error, "orphan files stay as they are for now");
            }
        }
    }

    fn due(&self, table: &TableId) -> (bool, bool) {
        let mut tables = self.tables.lock().unwrap_or_else(|e| e.into_inner());
        let seen = tables.entry(table.clone()).or_default();
        seen.commits += 1;
        let compact = self.enabled && seen.commits % self.commit_interval == 0;
        // The second commit of an attempt: whatever the checkpoint held from the attempt before is committed by then.
        let sweep = !seen.swept && seen.commits >= 2;
        seen.swept |= sweep;
        (compact, sweep)
    }

    async fn compact(&self, session: &Session, handle: &TableHandle, now_ms: i64) -> Result<()> {
        let commit = handle.lock_for_commit().await;
        let state = handle.state()?;
        let groups = plan(&state, self.target_size_bytes);
        if groups.is_empty() {
            return Ok(());
        }
        let mut changes = Changes { keeps_rows: true, ..Changes::default() };
        let mut moves: Vec<(u32, Move)> = Vec::new();
        let options =
            DataFileOptions::default().with_table_properties(state.metadata.properties())?;
        let rewriter = Rewriter {
            file_io: handle.file_io(),
            schema: state.metadata.current_schema(),
            names: &session.names,
            options: &options,
        };
        for group in &groups {
            let mut parts = Vec::with_capacity(group.len());
            for file in group {
                let deleted = handle.deleted_rows(file).await?;
                parts.push(Part { file: file.clone(), deleted });
            }
            let (new, bases) = rewriter.merge(&parts).await?;
            let to = handle.ordinal_of(new.file.file_path());
            for (part, base) in parts.into_iter().zip(bases) {
                changes.removed.insert(part.file.ordinal);
                moves.push((part.file.ordinal, Move { to, base, dropped: part.deleted }));
            }
            changes.added.push(new);
        }
        let rewritten = changes.removed.len();
        changes.summary.insert("lakeward.maintenance".to_string(), "merge".to_string());
        let data_files: Vec<String> =
            changes.added.iter().map(|f| f.file.file_path().to_string()).collect();
        let workshop = session.workshop(now_ms);
        let mut prepared = workshop.prepare(handle, &state, Start::of(&state), changes).await?;
        let base = LoadedTable {
            metadata: state.metadata.clone(),
            location: state.metadata_location.clone(),
        };
        let new = session.env.catalog.stage(Some(&base), prepared.metadata.clone()).await?;
        prepared.written.extend(data_files);
        prepared.written.push(new.location.to_string());
        session.env.lake.make_durable(&prepared.written).await?;
        let change = CatalogChange::Update {
            table: handle.table().clone(),
            base,
            new: new.clone(),
            updates: prepared.updates,
        };
        match session.env.catalog.commit(&session.incarnation, &[change]).await {
            Ok(CommitOutcome::Done) => {}
            Ok(CommitOutcome::Conflict(_)) => {
                session.env.lake.delete_all(prepared.written).await;
                session.reload(handle, &commit).await?;
                return Ok(());
            }
            Err(error) => {
                // Whether it landed shows when the table is loaded. Locators do not know the moves then, and are rebuilt.
                session.reload(handle, &commit).await?;
                return Err(error);
            }
        }
        let guard = handle.lock().await;
        let mut next = prepared.state;
        next.metadata = new.metadata.clone();
        next.metadata_location = new.location.clone();
        handle.install(&guard, Some(next));
        handle.add_moves(&guard, moves);
        self.metrics.rewritten_files.add(rewritten as u64);
        tracing::debug!(table = %handle.table(), files = rewritten, "merged small files");
        Ok(())
    }

    /// Removes files of earlier attempts of this pipeline that no snapshot names. A fenced attempt never commits, so
    /// what it left is nobody's.
    async fn sweep(&self, session: &Session, handle: &TableHandle) -> Result<()> {
        let lake = &session.env.lake;
        let location = handle.state()?.metadata.location().to_string();
        // Long where files are many. What comes to be meanwhile is of the current attempt.
        let Some(listed) = lake.list(&location).await? else { return Ok(()) };
        let _commit = handle.lock_for_commit().await;
        let state = handle.state()?;
        let ours = Incarnation::pipeline_prefix(&session.incarnation.pipeline);
        let current = session.incarnation.prefix();
        let mut orphans: HashMap<String, String> = listed
            .into_iter()
            .filter(|f| f.name.starts_with(&ours) && !f.name.starts_with(&current))
            .map(|f| (f.location.clone(), f.location))
            .collect();
        if orphans.is_empty() {
            return Ok(());
        }
        let mut seen = HashSet::new();
        for snapshot in state.metadata.snapshots() {
            orphans.remove(snapshot.manifest_list());
            let list = live::manifest_list(lake, &state.metadata, snapshot).await?;
            let new: Vec<_> =
                list.into_iter().filter(|m| seen.insert(m.manifest_path.clone())).collect();
            for (file, manifest) in live::load_manifests(lake, new).await? {
                orphans.remove(&file.manifest_path);
                for entry in manifest.entries() {
                    orphans.remove(entry.file_path());
                }
            }
            if orphans.is_empty() {
                return Ok(());
            }
        }
        let count = orphans.len();
        lake.delete_all(orphans.into_values().collect()).await;
        self.metrics.removed_orphans.add(count as u64);
        tracing::info!(table = %handle.table(), files = count, "removed files that an earlier attempt left behind");
        Ok(())
    }
}

/// Groups of files that become one each. Files are merged with others of their size, so that a row is rewritten a few
/// times in its life and not at each merge.
fn plan(state: &TableState, target_size_bytes: u64) -> Vec<Vec<Arc<LiveFile>>> {
    let mut groups: BTreeMap<(i32, String, u32), Vec<Arc<LiveFile>>> = BTreeMap::new();
    let mut out: Vec<Vec<Arc<LiveFile>>> = Vec::new();
    for file in state.files.values() {
        if !can_rewrite(state, file.spec_id) {
            continue;
        }
        let worn =
            file.deleted_rows() * 100 >= file.rows * MIN_DELETED_PERCENT && file.deleted_rows() > 0;
        let large = file.size_bytes * 4 >= target_size_bytes * 3;
        if large && worn {
            out.push(vec![file.clone()]);
        } else if !large {
            let class = size_class(file.size_bytes);
            groups
                .entry((file.spec_id, partition_key(&file.partition), class))
                .or_default()
                .push(file.clone());
        }
    }
    for files in groups.into_values() {
        let worn = files.iter().map(|f| f.deleted_rows()).sum::<u64>() * 100
            >= files.iter().map(|f| f.rows).sum::<u64>() * MIN_DELETED_PERCENT;
        let any_deleted = files.iter().any(|f| f.deleted_rows() > 0);
        if files.len() >= MIN_SMALL_FILES || (worn && any_deleted) {
            let mut group = Vec::new();
            let mut size = 0;
            for file in files {
                size += file.size_bytes;
                if size > target_size_bytes.max(file.size_bytes) && !group.is_empty() {
                    out.push(std::mem::take(&mut group));
                    size = file.size_bytes;
                }
                group.push(file);
            }
            out.push(group);
        }
    }
    out.retain(|group| group.len() > 1 || group.iter().any(|f| f.deleted_rows() > 0));
    let mut budget = MAX_INPUT_BYTES;
    let mut first = true;
    out.retain(|group| {
        let size: u64 = group.iter().map(|f| f.size_bytes).sum();
        let take = first || size <= budget;
        if take {
            budget = budget.saturating_sub(size);
            first = false;
        }
        take
    });
    out
}

/// A file of an old partition spec can only be written again while the columns of that spec are there.
fn can_rewrite(state: &TableState, spec_id: i32) -> bool {
    let schema = state.metadata.current_schema();
    state.metadata.partition_spec_by_id(spec_id).is_some_and(|spec| {
        spec.fields().iter().all(|field| schema.field_by_id(field.source_id).is_some())
    })
}

/// Each class is eight times the one before, from 64 KiB on.
fn size_class(size_bytes: u64) -> u32 {
    (size_bytes >> 16).checked_ilog2().map_or(0, |log| 1 + log / 3)
}

fn partition_key(partition: &Struct) -> String {
    if partition.fields().is_empty() { String::new() } else { format!("{partition:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_grow_by_eight() {
        assert_eq!(size_class(0), 0);
        assert_eq!(size_class(65_535), 0);
        assert_eq!(size_class(65_536), 1);
        assert_eq!(size_class(8 * 65_536 - 1), 1);
        assert_eq!(size_class(8 * 65_536), 2);
        assert_eq!(size_class(64 * 65_536), 3);
    }
}
