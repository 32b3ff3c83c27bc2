//! Old snapshots: which ones go, and which files only they needed.

use std::collections::HashSet;

use iceberg::spec::{MAIN_BRANCH, ManifestStatus, SnapshotRef, TableMetadata};
use lakeward_core::Result;

use crate::commit::live;
use crate::storage::Lake;

/// Snapshots that go with the next commit so that about `keep` stay. They go in groups, because finding their files
/// costs a little each time. Snapshots that a tag or another branch needs stay.
pub(crate) fn expired(metadata: &TableMetadata, keep: usize) -> Vec<SnapshotRef> {
    let slack = (keep / 5).max(1);
    if metadata.snapshots().len() < keep + slack {
        return Vec::new();
    }
    let mut stay: HashSet<i64> =
        ancestors(metadata, metadata.current_snapshot_id()).take(keep.saturating_sub(1)).collect();
    for (_, id) in refs(metadata).into_iter().filter(|(name, _)| name != MAIN_BRANCH) {
        stay.extend(ancestors(metadata, Some(id)));
    }
    let mut gone: Vec<SnapshotRef> =
        metadata.snapshots().filter(|s| !stay.contains(&s.snapshot_id())).cloned().collect();
    gone.sort_by_key(|s| s.sequence_number());
    gone
}

/// Tags and branches. The crate does not list them, but serialises them.
fn refs(metadata: &TableMetadata) -> Vec<(String, i64)> {
    // Only `main` in nearly every table; then there is nothing to look for.
    let value = serde_json::to_value(metadata).unwrap_or_default();
    value["refs"]
        .as_object()
        .map(|refs| {
            refs.iter()
                .filter_map(|(name, r)| Some((name.clone(), r["snapshot-id"].as_i64()?)))
                .collect()
        })
        .unwrap_or_default()
}

fn ancestors(metadata: &TableMetadata, from: Option<i64>) -> impl Iterator<Item = i64> + '_ {
    std::iter::successors(from.filter(|id| metadata.snapshot_by_id(*id).is_some()), |id| {
        let parent = metadata.snapshot_by_id(*id)?.parent_snapshot_id()?;
        metadata.snapshot_by_id(parent).map(|s| s.snapshot_id())
    })
}

/// Files that only expired snapshots needed. `metadata` is the one after the expiry.
///
/// The expired ones are the oldest of one line, so a file that was removed on the way to the oldest snapshot that stays
/// is needed by nobody. Where the history is not one line (tags, a rollback) data files are left alone.
pub(crate) async fn garbage(
    lake: &Lake,
    metadata: &TableMetadata,
    expired: &[SnapshotRef],
) -> Result<Vec<String>> {
    let gone: HashSet<i64> = expired.iter().map(|s| s.snapshot_id()).collect();
    let line: Vec<i64> = ancestors(metadata, metadata.current_snapshot_id()).collect();
    let one_line = line.len() == metadata.snapshots().len();
    let mut needed = HashSet::new();
    let mut staying: Vec<&SnapshotRef> = metadata.snapshots().collect();
    staying.sort_by_key(|s| s.sequence_number());
    if one_line {
        // Later snapshots only name manifests of the oldest one and newer ones.
        staying.truncate(1);
    }
    let mut manifests_after = Vec::new();
    for snapshot in &staying {
        let list = live::manifest_list(lake, metadata, snapshot).await?;
        needed.extend(list.iter().map(|m| m.manifest_path.clone()));
        manifests_after.extend(list);
    }
    let mut files = HashSet::new();
    let mut manifests = manifests_after;
    for snapshot in expired {
        // A list that is gone was cleaned up before.
        let Ok(list) = live::manifest_list(lake, metadata, snapshot).await else { continue };
        files.insert(snapshot.manifest_list().to_string());
        for manifest in list {
            if !needed.contains(&manifest.manifest_path) {
                files.insert(manifest.manifest_path.clone());
            }
            manifests.push(manifest);
        }
    }
    if one_line {
        let oldest = staying.first().map(|s| s.snapshot_id());
        let mut seen = HashSet::new();
        manifests.retain(|m| {
            m.has_deleted_files()
                && (gone.contains(&m.added_snapshot_id) || Some(m.added_snapshot_id) == oldest)
                && seen.insert(m.manifest_path.clone())
        });
        for (_, manifest) in live::load_manifests(lake, manifests).await? {
            for entry in manifest.entries() {
                if entry.status() == ManifestStatus::Deleted {
                    files.insert(entry.file_path().to_string());
                }
            }
        }
    }
    Ok(files.into_iter().collect())
}
