//! One process's view of one Iceberg table, shared by the table's writers, its committer and its maintenance.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use iceberg::io::FileIO;
use iceberg::spec::{DataFile, ManifestFile, SchemaRef, Struct, TableMetadataRef};
use lakeward_core::{Error, Result, TableId};
use roaring::RoaringTreemap;

use crate::commit::deletes::read_position_deletes;
use crate::committable::{CommittableId, TableCommittable};

/// A live delete file. With ours it belongs to exactly one data file.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveDeleteFile {
    pub path: Arc<str>,
    pub rows: u64,
    pub size_bytes: u64,
    /// Its data sequence number.
    pub sequence_number: i64,
    pub file_sequence_number: i64,
    /// The snapshot that added it.
    pub snapshot_id: i64,
    /// The manifest that holds its entry.
    pub manifest: Arc<str>,
    /// The entry itself where it is foreign. One of ours follows from the other fields.
    pub entry: Option<Arc<DataFile>>,
}

/// A live data file.
#[derive(Debug, Clone)]
pub struct LiveFile {
    pub ordinal: u32,
    pub path: Arc<str>,
    pub rows: u64,
    pub size_bytes: u64,
    pub spec_id: i32,
    pub partition: Struct,
    /// Its data sequence number.
    pub sequence_number: i64,
    /// The manifest that holds its entry.
    pub manifest: Arc<str>,
    /// Positions of committed deletes, `None` until they are read: [`TableHandle::deleted_rows`].
    pub deleted: Option<Arc<RoaringTreemap>>,
    /// Delete files of this data file alone. At most one with ours; a foreign writer may leave several.
    pub delete_files: Vec<LiveDeleteFile>,
    /// Positions from foreign delete files that span data files.
    pub shared_deleted: Arc<RoaringTreemap>,
}

impl LiveFile {
    /// How many rows are deleted, as far as it is known without reading.
    pub fn deleted_rows(&self) -> u64 {
        match &self.deleted {
            Some(positions) => positions.len(),
            None => {
                self.delete_files.iter().map(|d| d.rows).sum::<u64>() + self.shared_deleted.len()
            }
        }
    }
}

/// Where the rows of a data file went when maintenance rewrote it. Row order is kept, so a row's new place follows from
/// its rank among those that were kept.
#[derive(Debug, Clone)]
pub struct Move {
    pub to: u32,
    /// The first row of the file in its new place.
    pub base: u64,
    /// Rows that were left out.
    pub dropped: Arc<RoaringTreemap>,
}

/// The table as last committed or loaded.
#[derive(Debug, Clone)]
pub struct TableState {
    pub metadata: TableMetadataRef,
    pub metadata_location: Arc<str>,
    /// Live data files by ordinal.
    pub files: BTreeMap<u32, Arc<LiveFile>>,
    /// Live position-delete files that are not bound to one live data file. Only foreign writers leave them.
    pub shared_deletes: Vec<LiveDeleteFile>,
    /// The current snapshot's manifest list.
    pub manifests: Vec<ManifestFile>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Option<Arc<TableState>>,
    generation: u64,
    ordinals: HashMap<Arc<str>, u32>,
    paths: Vec<Arc<str>>,
    moves: HashMap<u32, Move>,
    pending: BTreeMap<CommittableId, Arc<TableCommittable>>,
}

/// Held while keys are resolved, and while what they resolve to changes.
pub type TableGuard<'a> = tokio::sync::MutexGuard<'a, ()>;

/// Held by the one that commits: committer, schema change or maintenance. Writers never take it, so they go on while a
/// commit waits for the catalog. Taken before [`TableGuard`].
pub type CommitGuard = tokio::sync::OwnedMutexGuard<()>;

/// The shared object of a table within one attempt.
///
/// Rows are addressed by (file ordinal, row). Ordinals are given once per path and stay valid for the handle's life, also
/// for files that are not committed yet and for files that maintenance has replaced ([`TableHandle::translate`]), so a
/// locator entry never has to be rewritten.
///
/// Protocol of a writer at a mark, a barrier or a flush that resolves keys:
/// 1. take [`TableHandle::lock`];
/// 2. compare [`TableHandle::generation`] with the one its locator was built under; when it differs, rebuild the locator
///    from [`TableHandle::live_files`] and then [`TableHandle::pending`];
/// 3. resolve, translate, and leave the outcome with [`TableHandle::add_pending`] before the lock is released.
///
/// The committer takes a committable off the pending list in the same critical section that installs its files.
/// Maintenance rewrites files only while nothing is pending, so positions that were resolved are never of a file that is
/// rewritten before they are committed.
#[derive(Debug)]
pub struct TableHandle {
    table: TableId,
    file_io: FileIO,
    resolve_lock: tokio::sync::Mutex<()>,
    commit_lock: Arc<tokio::sync::Mutex<()>>,
    /// Whether the committer takes off what is pending here. One that is elsewhere cannot.
    tracks_pending: bool,
    inner: Mutex<Inner>,
}

impl TableHandle {
    pub fn new(table: TableId, file_io: FileIO) -> Self {
        Self::of_session(table, file_io, true)
    }

    pub(crate) fn of_session(table: TableId, file_io: FileIO, tracks_pending: bool) -> Self {
        Self {
            tracks_pending,
            table,
            file_io,
            resolve_lock: tokio::sync::Mutex::new(()),
            commit_lock: Arc::default(),
            inner: Mutex::new(Inner::default()),
        }
    }

    pub fn table(&self) -> &TableId {
        &self.table
    }

    pub fn file_io(&self) -> &FileIO {
        &self.file_io
    }

    pub async fn lock(&self) -> TableGuard<'_> {
        self.resolve_lock.lock().await
    }

    pub(crate) async fn lock_for_commit(&self) -> CommitGuard {
        self.commit_lock.clone().lock_owned().await
    }

    /// The table as last committed or loaded.
    ///
    /// # Errors
    /// `Bug` when nothing was loaded yet, which the sink does before it hands out a handle; `Config` when the table
    /// has been dropped by someone else.
    pub fn state(&self) -> Result<Arc<TableState>> {
        self.inner().state.clone().ok_or_else(|| {
            Error::config(
                "the table is not in the catalog any more; put it back, or have it read anew with --resnapshot",
            )
            .with("table", &self.table)
        })
    }

    pub fn metadata(&self) -> Result<TableMetadataRef> {
        Ok(self.state()?.metadata.clone())
    }

    /// Grows when what a locator knows has become wrong in a way that [`TableHandle::translate`] cannot put right: rows
    /// came or went behind our back, or all of them went, or the key changed.
    pub fn generation(&self) -> u64 {
        self.inner().generation
    }

    /// The ordinal of a data file's path, given at first sight.
    pub fn ordinal_of(&self, path: &str) -> u32 {
        self.inner().ordinal_of(path)
    }

    pub fn path_of(&self, ordinal: u32) -> Option<Arc<str>> {
        self.inner().paths.get(ordinal as usize).cloned()
    }

    /// Where a row is now. `None` when maintenance left it out because it was deleted.
    pub fn translate(&self, ordinal: u32, row: u32) -> Option<(u32, u32)> {
        let inner = self.inner();
        if inner.moves.is_empty() {
            return Some((ordinal, row));
        }
        inner.translate(ordinal, row)
    }

    /// Translates many rows under one look at the table.
    pub fn translate_all(&self, places: &mut [Option<(u32, u32)>]) {
        let inner = self.inner();
        if inner.moves.is_empty() {
            return;
        }
        for place in places {
            *place = place.and_then(|(ordinal, row)| inner.translate(ordinal, row));
        }
    }

    /// Live data files, oldest first.
    pub fn live_files(&self) -> Result<Vec<Arc<LiveFile>>> {
        Ok(self.state()?.files.values().cloned().collect())
    }

    /// Positions of a live file's committed deletes, read at first need.
    pub async fn deleted_rows(&self, file: &LiveFile) -> Result<Arc<RoaringTreemap>> {
        if let Some(known) = &file.deleted {
            return Ok(known.clone());
        }
        if let Some(known) = self.inner().deleted_of(file) {
            return Ok(known);
        }
        let mut positions = (*file.shared_deleted).clone();
        for delete in &file.delete_files {
            let read = read_position_deletes(&self.file_io, &delete.path).await?;
            if let Some(found) = read.get(&file.path) {
                positions |= found;
            }
        }
        let positions = Arc::new(positions);
        self.inner().remember_deleted(file, positions.clone());
        Ok(positions)
    }

    /// Work that writers have handed over and that is not committed yet, oldest first.
    pub fn pending(&self) -> Vec<Arc<TableCommittable>> {
        self.inner().pending.values().cloned().collect()
    }

    pub fn add_pending(&self, _guard: &TableGuard<'_>, work: Arc<TableCommittable>) {
        let mut inner = self.inner();
        for file in &work.files {
            inner.ordinal_of(file.file.file_path());
        }
        if !self.tracks_pending {
            return;
        }
        inner.pending.insert(work.id, work);
    }

    /// The schema that rows of a source schema version are written under; `None` when that version is not known here.
    pub fn schema_of_version(&self, version: u32) -> Result<Option<SchemaRef>> {
        let metadata = self.metadata()?;
        let id = crate::properties::schema_id_of_version(&metadata, version)?;
        Ok(id.and_then(|id| metadata.schema_by_id(id).cloned()))
    }

    pub(crate) fn settle(
        &self,
        _guard: &TableGuard<'_>,
        ids: impl IntoIterator<Item = CommittableId>,
    ) {
        let mut inner = self.inner();
        for id in ids {
            inner.pending.remove(&id);
        }
    }

    pub(crate) fn install(&self, _guard: &TableGuard<'_>, state: Option<TableState>) {
        self.inner().state = state.map(Arc::new);
    }

    pub(crate) fn add_moves(
        &self,
        _guard: &TableGuard<'_>,
        moves: impl IntoIterator<Item = (u32, Move)>,
    ) {
        self.inner().moves.extend(moves);
    }

    /// Makes writers rebuild their locators.
    pub(crate) fn invalidate_locators(&self, _guard: &TableGuard<'_>) {
        self.inner().generation += 1;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held, and each change is complete in itself.
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Inner {
    /// The cached positions, if the file's delete files are still the same.
    fn deleted_of(&self, file: &LiveFile) -> Option<Arc<RoaringTreemap>> {
        let current = self.state.as_ref()?.files.get(&file.ordinal)?;
        (current.delete_files == file.delete_files).then(|| current.deleted.clone()).flatten()
    }

    fn remember_deleted(&mut self, file: &LiveFile, positions: Arc<RoaringTreemap>) {
        let Some(state) = &mut self.state else { return };
        let state = Arc::make_mut(state);
        if let Some(current) = state.files.get_mut(&file.ordinal)
            && current.delete_files == file.delete_files
        {
            Arc::make_mut(current).deleted = Some(positions);
        }
    }

    fn ordinal_of(&mut self, path: &str) -> u32 {
        if let Some(ordinal) = self.ordinals.get(path) {
            return *ordinal;
        }
        let ordinal =
            u32::try_from(self.paths.len()).expect("a process sees fewer than 2^32 files");
        let path: Arc<str> = path.into();
        self.paths.push(path.clone());
        self.ordinals.insert(path, ordinal);
        ordinal
    }

    fn translate(&self, mut ordinal: u32, mut row: u32) -> Option<(u32, u32)> {
        while let Some(step) = self.moves.get(&ordinal) {
            let old = u64::from(row);
            if step.dropped.contains(old) {
                return None;
            }
            let new = step.base + old - step.dropped.rank(old);
            row = u32::try_from(new).ok()?;
            ordinal = step.to;
        }
        Some((ordinal, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> TableHandle {
        TableHandle::new(TableId::new("shop", "orders"), FileIO::new_with_memory())
    }

    #[test]
    fn a_path_keeps_its_ordinal() {
        let handle = handle();
        let a = handle.ordinal_of("a");
        let b = handle.ordinal_of("b");
        assert_ne!(a, b);
        assert_eq!(handle.ordinal_of("a"), a);
        assert_eq!(handle.path_of(b).as_deref(), Some("b"));
        assert_eq!(handle.path_of(9), None);
    }

    #[tokio::test]
    async fn rows_are_followed_through_several_rewrites() {
        let handle = handle();
        let (a, b, c, d) = (
            handle.ordinal_of("a"),
            handle.ordinal_of("b"),
            handle.ordinal_of("c"),
            handle.ordinal_of("d"),
        );
        let guard = handle.lock().await;
        // a (5 rows, row 1 gone) and b (3 rows) became c; c (row 0 gone) became d.
        let dropped = |rows: &[u64]| Arc::new(rows.iter().copied().collect::<RoaringTreemap>());
        handle.add_moves(&guard, [(a, Move { to: c, base: 0, dropped: dropped(&[1]) })]);
        handle.add_moves(&guard, [(b, Move { to: c, base: 4, dropped: dropped(&[]) })]);
        assert_eq!(handle.translate(a, 0), Some((c, 0)));
        assert_eq!(handle.translate(a, 1), None);
        assert_eq!(handle.translate(a, 4), Some((c, 3)));
        assert_eq!(handle.translate(b, 2), Some((c, 6)));
        handle.add_moves(&guard, [(c, Move { to: d, base: 10, dropped: dropped(&[0]) })]);
        assert_eq!(handle.translate(a, 0), None);
        assert_eq!(handle.translate(a, 2), Some((d, 10)));
        assert_eq!(handle.translate(b, 2), Some((d, 15)));
        assert_eq!(handle.translate(d, 3), Some((d, 3)));
    }
}
