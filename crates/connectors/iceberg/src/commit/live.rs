//! Reads what a snapshot holds: live data files, their delete files, and the manifests that name them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{
    DataContentType, Manifest, ManifestEntryRef, ManifestFile, ManifestList, Snapshot,
    TableMetadata,
};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use roaring::RoaringTreemap;

use crate::catalog::LoadedTable;
use crate::commit::deletes::{only_data_file, read_position_deletes};
use crate::storage::{FILE_CONCURRENCY, Lake};
use crate::store_error::StoreResultExt;
use crate::table_state::{LiveDeleteFile, LiveFile, TableHandle, TableState};

/// What every name of our own files starts with.
const OUR_FILES: &str = "lw-";

/// The state of a table whose metadata was just loaded.
///
/// # Errors
/// `DataInvalid` for a table that we cannot follow: equality deletes or another format version.
pub(crate) async fn load_state(
    handle: &TableHandle,
    lake: &Lake,
    loaded: &LoadedTable,
) -> Result<TableState> {
    let in_table = |e: Error| e.with("table", handle.table());
    let mut state = TableState {
        metadata: loaded.metadata.clone(),
        metadata_location: loaded.location.clone(),
        files: BTreeMap::new(),
        shared_deletes: Vec::new(),
        manifests: Vec::new(),
    };
    let Some(snapshot) = loaded.metadata.current_snapshot() else {
        return Ok(state);
    };
    state.manifests = manifest_list(lake, &loaded.metadata, snapshot).await.map_err(in_table)?;
    let live: Vec<ManifestFile> = state.manifests.iter().filter(|m| is_live(m)).cloned().collect();
    let manifests = load_manifests(lake, live).await.map_err(in_table)?;
    let mut deletes = Vec::new();
    for (file, manifest) in &manifests {
        let path: Arc<str> = file.manifest_path.as_str().into();
        for entry in manifest.entries().iter().filter(|e| e.is_alive()) {
            match entry.content_type() {
                DataContentType::Data => {
                    let live = live_file(handle, entry, file.partition_spec_id, &path);
                    state.files.insert(live.ordinal, Arc::new(live));
                }
                DataContentType::PositionDeletes => deletes.push((entry.clone(), path.clone())),
                DataContentType::EqualityDeletes => {
                    return Err(in_table(Error::data_invalid(
                        "another program wrote equality deletes into the table, which cannot be followed; compact the \
                         table with that program, or read it anew with --resnapshot",
                    )));
                }
            }
        }
    }
    let by_path: HashMap<Arc<str>, u32> =
        state.files.values().map(|f| (f.path.clone(), f.ordinal)).collect();
    for (entry, manifest) in deletes {
        let mut delete = live_delete(&entry, &manifest);
        let ordinal = only_data_file(entry.data_file()).and_then(|p| by_path.get(&*p).copied());
        match ordinal.and_then(|o| state.files.get_mut(&o)) {
            Some(file) => {
                if file.sequence_number <= delete.sequence_number {
                    Arc::make_mut(file).delete_files.push(delete);
                } else {
                    delete.entry = Some(Arc::new(entry.data_file().clone()));
                    state.shared_deletes.push(delete);
                }
            }
            None => {
                if only_data_file(entry.data_file()).is_none() {
                    apply_shared(lake, &mut state, &by_path, &delete).await.map_err(in_table)?;
                }
                delete.entry = Some(Arc::new(entry.data_file().clone()));
                state.shared_deletes.push(delete);
            }
        }
    }
    for file in state.files.values_mut() {
        if file.delete_files.is_empty() {
            let file = Arc::make_mut(file);
            file.deleted = Some(file.shared_deleted.clone());
        }
    }
    Ok(state)
}

/// A manifest list's entries.
pub(crate) async fn manifest_list(
    lake: &Lake,
    metadata: &TableMetadata,
    snapshot: &Snapshot,
) -> Result<Vec<ManifestFile>> {
    let bytes = lake.read(snapshot.manifest_list()).await?;
    let list = ManifestList::parse_with_version(&bytes, metadata.format_version())
        .or_err(ErrorKind::DataInvalid, "a manifest list cannot be read")
        .map_err(|e| e.with("file", snapshot.manifest_list()))?;
    Ok(list.consume_entries().into_iter().collect())
}

pub(crate) async fn load_manifests(
    lake: &Lake,
    files: Vec<ManifestFile>,
) -> Result<Vec<(ManifestFile, Manifest)>> {
    futures::stream::iter(files)
        .map(|file| async move {
            let manifest = file
                .load_manifest(lake.file_io())
                .await
                .or_store("could not read a manifest")
                .map_err(|e| e.with("file", &file.manifest_path))?;
            Ok::<_, Error>((file, manifest))
        })
        .buffered(FILE_CONCURRENCY)
        .try_collect()
        .await
}

/// True when a manifest names live files.
pub(crate) fn is_live(manifest: &ManifestFile) -> bool {
    manifest.has_added_files() || manifest.has_existing_files()
}

fn live_file(
    handle: &TableHandle,
    entry: &ManifestEntryRef,
    spec_id: i32,
    manifest: &Arc<str>,
) -> LiveFile {
    let ordinal = handle.ordinal_of(entry.file_path());
    LiveFile {
        ordinal,
        path: handle.path_of(ordinal).unwrap_or_else(|| entry.file_path().into()),
        rows: entry.record_count(),
        size_bytes: entry.file_size_in_bytes(),
        spec_id,
        partition: entry.data_file().partition().clone(),
        sequence_number: entry.sequence_number().unwrap_or_default(),
        manifest: manifest.clone(),
        deleted: None,
        delete_files: Vec::new(),
        shared_deleted: Arc::default(),
    }
}

fn live_delete(entry: &ManifestEntryRef, manifest: &Arc<str>) -> LiveDeleteFile {
    let name = entry.file_path().rsplit('/').next().unwrap_or_default();
    let ours = name.starts_with(OUR_FILES) && entry.data_file().referenced_data_file().is_some();
    LiveDeleteFile {
        path: entry.file_path().into(),
        rows: entry.record_count(),
        size_bytes: entry.file_size_in_bytes(),
        sequence_number: entry.sequence_number().unwrap_or_default(),
        file_sequence_number: entry.file_sequence_number.unwrap_or_default(),
        snapshot_id: entry.snapshot_id().unwrap_or_default(),
        manifest: manifest.clone(),
        entry: (!ours).then(|| Arc::new(entry.data_file().clone())),
    }
}

/// Adds the positions of a delete file that spans data files to those of them that it applies to.
async fn apply_shared(
    lake: &Lake,
    state: &mut TableState,
    by_path: &HashMap<Arc<str>, u32>,
    delete: &LiveDeleteFile,
) -> Result<()> {
    let found = read_position_deletes(lake.file_io(), &delete.path).await?;
    for (path, positions) in found {
        let Some(file) = by_path.get(&path).and_then(|o| state.files.get_mut(o)) else { continue };
        if file.sequence_number <= delete.sequence_number {
            let file = Arc::make_mut(file);
            let all: RoaringTreemap = &*file.shared_deleted | &positions;
            file.shared_deleted = Arc::new(all);
        }
    }
    Ok(())
}

/// True when both hold the same rows at the same places, so that what a locator knows stays true. Deletes that another
/// program added are no matter: a locator may know rows that are gone.
pub(crate) fn same_rows(before: &TableState, after: &TableState) -> bool {
    before.metadata.uuid() == after.metadata.uuid()
        && before.files.len() == after.files.len()
        && before.files.keys().all(|ordinal| after.files.contains_key(ordinal))
        && identifier(before) == identifier(after)
}

fn identifier(state: &TableState) -> Vec<i32> {
    let mut ids: Vec<i32> = state.metadata.current_schema().identifier_field_ids().collect();
    ids.sort_unstable();
    ids
}
