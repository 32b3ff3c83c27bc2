//! Builds a snapshot from what is to change, and the table state that follows from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use iceberg::TableUpdate;
use iceberg::spec::{
    MAIN_BRANCH, ManifestContentType, ManifestFile, ManifestListWriter, Operation, Snapshot,
    SnapshotRef, Struct, TableMetadata,
};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use roaring::RoaringTreemap;

use crate::NewDataFile;
use crate::commit::manifests::{self, Entry, Status};
use crate::commit::{deletes, expiry, live, summary};
use crate::faults::FaultPoints;
use crate::names::FileNames;
use crate::storage::{FILE_CONCURRENCY, Lake};
use crate::store_error::StoreResultExt;
use crate::table_state::{LiveDeleteFile, LiveFile, TableHandle, TableState};

/// Manifests of one kind and size that are merged into one.
const MANIFESTS_MIN_COUNT_TO_MERGE: usize = 32;

/// What a snapshot changes.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) added: Vec<NewDataFile>,
    /// Rows of `added` that are gone already.
    pub(crate) added_deletes: HashMap<Arc<str>, Arc<RoaringTreemap>>,
    /// All deleted positions of a live file, in place of what it had.
    pub(crate) deletes: BTreeMap<u32, Arc<RoaringTreemap>>,
    /// Live files that go, with their delete files.
    pub(crate) removed: BTreeSet<u32>,
    /// The table holds the same rows before and after.
    pub(crate) keeps_rows: bool,
    pub(crate) summary: BTreeMap<String, String>,
    pub(crate) properties: HashMap<String, String>,
}

/// The metadata that a commit starts from, and what led to it since the last committed one.
pub(crate) struct Start {
    pub(crate) metadata: TableMetadata,
    pub(crate) updates: Vec<TableUpdate>,
    /// The committed metadata file, unless `metadata` has it in its log already.
    pub(crate) previous: Option<String>,
}

impl Start {
    pub(crate) fn of(state: &TableState) -> Self {
        Self {
            metadata: (*state.metadata).clone(),
            updates: Vec::new(),
            previous: Some(state.metadata_location.to_string()),
        }
    }
}

/// A commit that is ready to be staged.
pub(crate) struct Prepared {
    pub(crate) metadata: TableMetadata,
    pub(crate) updates: Vec<TableUpdate>,
    /// The state after the commit, still under the old metadata.
    pub(crate) state: TableState,
    /// Files that must be durable before the commit.
    pub(crate) written: Vec<String>,
    pub(crate) expired: Vec<SnapshotRef>,
    /// Metadata files that the log no longer names.
    pub(crate) expired_metadata: Vec<String>,
}

/// Lent to whoever builds snapshots.
pub(crate) struct Workshop<'a> {
    pub(crate) lake: &'a Lake,
    pub(crate) names: &'a FileNames,
    pub(crate) faults: &'a FaultPoints,
    pub(crate) keep_snapshots: usize,
    pub(crate) now_ms: i64,
}

/// One snapshot under construction.
struct Draft<'a> {
    shop: &'a Workshop<'a>,
    base: &'a TableState,
    metadata: &'a TableMetadata,
    snapshot_id: i64,
    sequence_number: i64,
    written: Vec<String>,
    /// Manifests of the base that stay as they are.
    kept: Vec<ManifestFile>,
    new_manifests: Vec<ManifestFile>,
    /// Where entries of a rewritten manifest are now.
    moved: HashMap<Arc<str>, Arc<str>>,
}

impl Workshop<'_> {
    pub(crate) async fn prepare(
        &self,
        handle: &TableHandle,
        base: &TableState,
        start: Start,
        mut changes: Changes,
    ) -> Result<Prepared> {
        drop_dead_files(&mut changes);
        let mut draft = Draft::new(self, base, &start.metadata);
        self.faults.at("before-delete-files")?;
        let new_deletes = draft.write_delete_files(&changes).await?;
        self.faults.at("after-delete-files")?;
        draft.write_data_manifests(&changes).await?;
        draft.write_delete_manifests(&changes, &new_deletes).await?;
        draft.merge_manifests().await?;
        self.faults.at("after-manifests")?;
        let manifest_list = draft.write_manifest_list().await?;
        self.faults.at("after-manifest-list")?;
        let state = draft.next_state(handle, &changes, new_deletes);
        let summary = summary::of(base, &state, &changes);
        draft.finish(start.updates, start.previous, changes, state, summary, manifest_list)
    }

    fn location(&self, metadata: &TableMetadata, folder: &str, suffix: &str) -> String {
        format!("{}/{folder}/{}", metadata.location(), self.names.next(suffix))
    }
}

/// A file whose rows are all gone before it is committed is not committed.
fn drop_dead_files(changes: &mut Changes) {
    let deletes = &changes.added_deletes;
    changes.added.retain(|new| {
        let gone = deletes.get(new.file.file_path()).map_or(0, |positions| positions.len());
        gone < new.file.record_count()
    });
}

impl<'a> Draft<'a> {
    fn new(shop: &'a Workshop<'a>, base: &'a TableState, metadata: &'a TableMetadata) -> Self {
        // Unique, because file names are; and without randomness.
        let seed = format!("{}/{}", metadata.uuid(), shop.names.next(""));
        let mut snapshot_id = (xxhash_rust::xxh3::xxh3_64(seed.as_bytes()) >> 1) as i64;
        while snapshot_id == 0 || metadata.snapshot_by_id(snapshot_id).is_some() {
            snapshot_id = (snapshot_id + 1) & i64::MAX;
        }
        Self {
            shop,
            base,
            metadata,
            snapshot_id,
            sequence_number: metadata.next_sequence_number(),
            written: Vec::new(),
            kept: base.manifests.iter().filter(|m| live::is_live(m)).cloned().collect(),
            new_manifests: Vec::new(),
            moved: HashMap::new(),
        }
    }

    /// Writes the delete files of live and of new data files. Returns them by data file path.
    async fn write_delete_files(
        &mut self,
        changes: &Changes,
    ) -> Result<HashMap<Arc<str>, LiveDeleteFile>> {
        let of_live = changes.deletes.iter().filter_map(|(ordinal, positions)| {
            let file = self.base.files.get(ordinal)?;
            (!changes.removed.contains(ordinal)).then(|| (file.path.clone(), positions))
        });
        let of_new = changes.added.iter().filter_map(|new| {
            let (path, positions) = changes.added_deletes.get_key_value(new.file.file_path())?;
            (!positions.is_empty()).then(|| (path.clone(), positions))
        });
        let jobs: Vec<_> = of_live
            .chain(of_new)
            .map(|(path, positions)| {
                let location = self.shop.location(self.metadata, "data", "-deletes.parquet");
                (path, positions.clone(), location)
            })
            .collect();
        let lake = self.shop.lake;
        let (snapshot_id, sequence_number) = (self.snapshot_id, self.sequence_number);
        let files: HashMap<Arc<str>, LiveDeleteFile> = futures::stream::iter(jobs)
            .map(|(path, positions, location)| async move {
                let bytes = deletes::encode(&path, &positions)?;
                let size_bytes = bytes.len() as u64;
                lake.write(&location, bytes).await?;
                let delete = LiveDeleteFile {
                    path: location.into(),
                    rows: positions.len(),
                    size_bytes,
                    sequence_number,
                    file_sequence_number: sequence_number,
                    snapshot_id,
                    manifest: Arc::from(""),
                    entry: None,
                };
                Ok::<_, Error>((path, delete))
            })
            .buffer_unordered(FILE_CONCURRENCY)
            .try_collect()
            .await?;
        self.written.extend(files.values().map(|d| d.path.to_string()));
        Ok(files)
    }

    /// New data files, and what is left of manifests that name removed ones.
    async fn write_data_manifests(&mut self, changes: &Changes) -> Result<()> {
        let mut entries: BTreeMap<i32, Vec<Entry>> = BTreeMap::new();
        for new in &changes.added {
            let entry = Entry { status: Status::Added, file: new.file.clone() };
            entries.entry(new.spec_id).or_default().push(entry);
        }
        let removed: HashSet<Arc<str>> = changes
            .removed
            .iter()
            .filter_map(|o| Some(self.base.files.get(o)?.path.clone()))
            .collect();
        let touched: HashSet<Arc<str>> = changes
            .removed
            .iter()
            .filter_map(|o| Some(self.base.files.get(o)?.manifest.clone()))
            .collect();
        let mut touched_by_spec: BTreeMap<i32, Vec<Arc<str>>> = BTreeMap::new();
        let rewritten = self.take_kept(&touched);
        for (file, manifest) in live::load_manifests(self.shop.lake, rewritten).await? {
            touched_by_spec
                .entry(file.partition_spec_id)
                .or_default()
                .push(manifests::path_of(&file));
            let group = entries.entry(file.partition_spec_id).or_default();
            for entry in manifest.entries().iter().filter(|e| e.is_alive()) {
                group.push(Entry::of(entry, !removed.contains(entry.file_path()))?);
            }
        }
        self.write_groups(entries, ManifestContentType::Data, touched_by_spec).await
    }

    /// New delete files, and what is left of manifests that name superseded ones.
    async fn write_delete_manifests(
        &mut self,
        changes: &Changes,
        new_deletes: &HashMap<Arc<str>, LiveDeleteFile>,
    ) -> Result<()> {
        let mut entries: BTreeMap<i32, Vec<Entry>> = BTreeMap::new();
        let mut add = |path: &Arc<str>, spec_id: i32, partition: &Struct| -> Result<()> {
            let Some(delete) = new_deletes.get(path) else { return Ok(()) };
            let file = delete_entry(delete, path, spec_id, partition)?;
            entries.entry(spec_id).or_default().push(Entry { status: Status::Added, file });
            Ok(())
        };
        for new in &changes.added {
            let path: Arc<str> = new.file.file_path().into();
            add(&path, new.spec_id, new.file.partition())?;
        }
        for file in changes.deletes.keys().filter_map(|o| self.base.files.get(o)) {
            add(&file.path, file.spec_id, &file.partition)?;
        }
        let superseded = |file: &LiveFile| {
            changes.removed.contains(&file.ordinal) || changes.deletes.contains_key(&file.ordinal)
        };
        let touched: HashSet<Arc<str>> = self
            .base
            .files
            .values()
            .filter(|file| superseded(file))
            .flat_map(|file| file.delete_files.iter().map(|d| d.manifest.clone()))
            .collect();
        let mut touched_by_spec: BTreeMap<i32, Vec<Arc<str>>> = BTreeMap::new();
        let mut spec_of: HashMap<Arc<str>, i32> = HashMap::new();
        for manifest in self.take_kept(&touched) {
            let path = manifests::path_of(&manifest);
            spec_of.insert(path.clone(), manifest.partition_spec_id);
            touched_by_spec.entry(manifest.partition_spec_id).or_default().push(path);
        }
        for (delete, file) in all_deletes(self.base) {
            let Some(spec_id) = spec_of.get(&delete.manifest) else { continue };
            let keep = file.is_none_or(|f| !superseded(f));
            let group = entries.entry(*spec_id).or_default();
            group.push(Entry { status: status_of(delete, keep), file: entry_of(delete, file)? });
        }
        self.write_groups(entries, ManifestContentType::Deletes, touched_by_spec).await
    }

    /// Merges small manifests that have become many.
    async fn merge_manifests(&mut self) -> Result<()> {
        for group in manifests::merge_groups(&self.kept, MANIFESTS_MIN_COUNT_TO_MERGE) {
            let merged: Vec<ManifestFile> = group.iter().map(|i| self.kept[*i].clone()).collect();
            let (spec_id, content) = (merged[0].partition_spec_id, merged[0].content);
            let paths: Vec<Arc<str>> = merged.iter().map(manifests::path_of).collect();
            let mut entries = Vec::new();
            match content {
                ManifestContentType::Data => {
                    for (_, manifest) in live::load_manifests(self.shop.lake, merged).await? {
                        for entry in manifest.entries().iter().filter(|e| e.is_alive()) {
                            entries.push(Entry::of(entry, true)?);
                        }
                    }
                }
                ManifestContentType::Deletes => {
                    let paths: HashSet<&Arc<str>> = paths.iter().collect();
                    for (delete, file) in all_deletes(self.base) {
                        if paths.contains(&delete.manifest) {
                            let status = status_of(delete, true);
                            entries.push(Entry { status, file: entry_of(delete, file)? });
                        }
                    }
                }
            }
            let groups = BTreeMap::from([(spec_id, entries)]);
            self.write_groups(groups, content, BTreeMap::from([(spec_id, paths)])).await?;
        }
        let moved = &self.moved;
        self.kept.retain(|manifest| !moved.contains_key(manifest.manifest_path.as_str()));
        Ok(())
    }

    /// Takes manifests out of those that stay.
    fn take_kept(&mut self, paths: &HashSet<Arc<str>>) -> Vec<ManifestFile> {
        let (taken, kept) = std::mem::take(&mut self.kept)
            .into_iter()
            .partition(|m| paths.contains(m.manifest_path.as_str()));
        self.kept = kept;
        taken
    }

    async fn write_groups(
        &mut self,
        groups: BTreeMap<i32, Vec<Entry>>,
        content: ManifestContentType,
        replaced: BTreeMap<i32, Vec<Arc<str>>>,
    ) -> Result<()> {
        for (spec_id, entries) in groups {
            if entries.is_empty() {
                continue;
            }
            let target = manifests::Target {
                location: self.shop.location(self.metadata, "metadata", "-m.avro"),
                spec_id,
                content,
                snapshot_id: self.snapshot_id,
                metadata: self.metadata,
            };
            let manifest = manifests::write(self.shop.lake, target, entries).await?;
            let manifest = manifests::assigned(manifest, self.sequence_number);
            let path = manifests::path_of(&manifest);
            for old in replaced.get(&spec_id).into_iter().flatten() {
                self.moved.insert(old.clone(), path.clone());
            }
            self.written.push(path.to_string());
            self.new_manifests.push(manifest);
        }
        Ok(())
    }

    async fn write_manifest_list(&mut self) -> Result<String> {
        let failed = "could not write a manifest list";
        let location = self.shop.location(self.metadata, "metadata", "-snap.avro");
        let output = self.shop.lake.file_io().new_output(&location).or_store(failed)?;
        let mut writer = ManifestListWriter::v2(
            output.writer().await.or_store(failed)?,
            self.snapshot_id,
            self.metadata.current_snapshot_id(),
            self.sequence_number,
        );
        writer
            .add_manifests(self.new_manifests.iter().chain(&self.kept).cloned())
            .or_err(ErrorKind::Bug, failed)?;
        writer.close().await.or_store(failed)?;
        self.written.push(location.clone());
        Ok(location)
    }

    fn next_state(
        &self,
        handle: &TableHandle,
        changes: &Changes,
        mut new_deletes: HashMap<Arc<str>, LiveDeleteFile>,
    ) -> TableState {
        let mut state = self.base.clone();
        state.manifests = self.new_manifests.iter().chain(&self.kept).cloned().collect();
        let manifest_for = |content: ManifestContentType, spec_id: i32| -> Arc<str> {
            self.new_manifests
                .iter()
                .find(|m| {
                    m.content == content && m.partition_spec_id == spec_id && m.has_added_files()
                })
                .map_or_else(|| Arc::from(""), manifests::path_of)
        };
        for ordinal in &changes.removed {
            state.files.remove(ordinal);
        }
        if !self.moved.is_empty() {
            for file in state.files.values_mut() {
                self.follow_moved(file);
            }
            for delete in &mut state.shared_deletes {
                if let Some(path) = self.moved.get(&delete.manifest) {
                    delete.manifest = path.clone();
                }
            }
        }
        for (ordinal, positions) in &changes.deletes {
            let Some(file) = state.files.get_mut(ordinal) else { continue };
            let file = Arc::make_mut(file);
            file.deleted = Some(positions.clone());
            file.delete_files = new_deletes.remove(&file.path).into_iter().collect();
            for delete in &mut file.delete_files {
                delete.manifest = manifest_for(ManifestContentType::Deletes, file.spec_id);
            }
        }
        for new in &changes.added {
            let ordinal = handle.ordinal_of(new.file.file_path());
            let path = handle.path_of(ordinal).unwrap_or_else(|| new.file.file_path().into());
            let deleted = changes.added_deletes.get(&path).cloned().unwrap_or_default();
            let mut delete_files: Vec<_> = new_deletes.remove(&path).into_iter().collect();
            for delete in &mut delete_files {
                delete.manifest = manifest_for(ManifestContentType::Deletes, new.spec_id);
            }
            let file = LiveFile {
                ordinal,
                path,
                rows: new.file.record_count(),
                size_bytes: new.file.file_size_in_bytes(),
                spec_id: new.spec_id,
                partition: new.file.partition().clone(),
                sequence_number: self.sequence_number,
                manifest: manifest_for(ManifestContentType::Data, new.spec_id),
                deleted: Some(deleted),
                delete_files,
                shared_deleted: Arc::default(),
            };
            state.files.insert(ordinal, Arc::new(file));
        }
        state
    }

    fn follow_moved(&self, file: &mut Arc<LiveFile>) {
        let touched = self.moved.contains_key(&file.manifest)
            || file.delete_files.iter().any(|d| self.moved.contains_key(&d.manifest));
        if !touched {
            return;
        }
        let file = Arc::make_mut(file);
        if let Some(path) = self.moved.get(&file.manifest) {
            file.manifest = path.clone();
        }
        for delete in &mut file.delete_files {
            if let Some(path) = self.moved.get(&delete.manifest) {
                delete.manifest = path.clone();
            }
        }
    }

    fn finish(
        self,
        mut updates: Vec<TableUpdate>,
        previous: Option<String>,
        changes: Changes,
        state: TableState,
        summary: iceberg::spec::Summary,
        manifest_list: String,
    ) -> Result<Prepared> {
        let failed = "the table's metadata does not take the snapshot";
        let metadata = self.metadata;
        let newest = metadata.snapshots().map(|s| s.timestamp_ms()).max().unwrap_or(0);
        let snapshot = Snapshot::builder()
            .with_snapshot_id(self.snapshot_id)
            .with_parent_snapshot_id(metadata.current_snapshot_id())
            .with_sequence_number(self.sequence_number)
            // Another program's clock may be ahead of ours; snapshots go forward all the same.
            .with_timestamp_ms(self.shop.now_ms.max(newest).max(metadata.last_updated_ms()))
            .with_manifest_list(manifest_list)
            .with_summary(summary)
            .with_schema_id(metadata.current_schema_id())
            .build();
        let expired = expiry::expired(metadata, self.shop.keep_snapshots);
        let ids: Vec<i64> = expired.iter().map(|s| s.snapshot_id()).collect();
        let built = metadata
            .clone()
            .into_builder(previous)
            .set_branch_snapshot(snapshot, MAIN_BRANCH)
            .and_then(|builder| builder.set_properties(changes.properties))
            .map(|builder| builder.remove_snapshots(&ids))
            .and_then(|builder| builder.build())
            .or_err(ErrorKind::Bug, failed)?;
        updates.extend(built.changes);
        Ok(Prepared {
            metadata: built.metadata,
            updates,
            state,
            written: self.written,
            expired,
            expired_metadata: built
                .expired_metadata_logs
                .into_iter()
                .map(|log| log.metadata_file)
                .collect(),
        })
    }
}

/// Every live delete file with the data file that it is about, if that is one.
fn all_deletes(state: &TableState) -> impl Iterator<Item = (&LiveDeleteFile, Option<&LiveFile>)> {
    let bound = state
        .files
        .values()
        .flat_map(|file| file.delete_files.iter().map(move |d| (d, Some(&**file))));
    bound.chain(state.shared_deletes.iter().map(|d| (d, None)))
}

fn status_of(delete: &LiveDeleteFile, keep: bool) -> Status {
    let LiveDeleteFile { snapshot_id, sequence_number, file_sequence_number, .. } = *delete;
    if keep {
        Status::Existing { snapshot_id, sequence_number, file_sequence_number }
    } else {
        Status::Deleted { sequence_number, file_sequence_number }
    }
}

fn entry_of(delete: &LiveDeleteFile, file: Option<&LiveFile>) -> Result<iceberg::spec::DataFile> {
    match (&delete.entry, file) {
        (Some(entry), _) => Ok((**entry).clone()),
        (None, Some(file)) => delete_entry(delete, &file.path, file.spec_id, &file.partition),
        (None, None) => {
            Err(Error::bug("a delete file's data file is not known").with("file", &delete.path))
        }
    }
}

fn delete_entry(
    delete: &LiveDeleteFile,
    data_file: &str,
    spec_id: i32,
    partition: &Struct,
) -> Result<iceberg::spec::DataFile> {
    deletes::entry(&delete.path, delete.rows, delete.size_bytes, data_file, spec_id, partition)
}

/// The operation that a snapshot is, for engines that skip some of them.
pub(crate) fn operation(changes: &Changes) -> Operation {
    let removes = !changes.removed.is_empty() || !changes.deletes.is_empty();
    match (changes.keeps_rows, changes.added.is_empty(), removes) {
        (true, ..) => Operation::Replace,
        (false, false, false) if changes.added_deletes.is_empty() => Operation::Append,
        (false, true, true) => Operation::Delete,
        _ => Operation::Overwrite,
    }
}
