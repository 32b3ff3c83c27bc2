//! A snapshot's summary: the counters that engines and people read.

use std::collections::{HashMap, HashSet};

use iceberg::spec::Summary;

use crate::commit::snapshot::{Changes, operation};
use crate::table_state::{LiveDeleteFile, LiveFile, TableState};

#[derive(Default)]
struct Count {
    files: u64,
    rows: u64,
    size_bytes: u64,
}

impl Count {
    fn files<'a>(files: impl Iterator<Item = &'a LiveFile>) -> Self {
        files.fold(Self::default(), |sum, f| Self {
            files: sum.files + 1,
            rows: sum.rows + f.rows,
            size_bytes: sum.size_bytes + f.size_bytes,
        })
    }

    fn deletes<'a>(deletes: impl Iterator<Item = &'a LiveDeleteFile>) -> Self {
        deletes.fold(Self::default(), |sum, d| Self {
            files: sum.files + 1,
            rows: sum.rows + d.rows,
            size_bytes: sum.size_bytes + d.size_bytes,
        })
    }
}

fn delete_files(state: &TableState) -> impl Iterator<Item = &LiveDeleteFile> {
    state.files.values().flat_map(|f| &f.delete_files).chain(&state.shared_deletes)
}

/// The summary of the snapshot that leads from `before` to `after`. Counters are of what is there, not carried on from
/// the last summary, so that a wrong one by another program does not live on.
pub(crate) fn of(before: &TableState, after: &TableState, changes: &Changes) -> Summary {
    let known: HashSet<&str> = delete_files(before).map(|d| &*d.path).collect();
    let left: HashSet<&str> = delete_files(after).map(|d| &*d.path).collect();
    let new = |o: &u32| !before.files.contains_key(o);
    let gone = |o: &u32| !after.files.contains_key(o);
    let added = Count::files(after.files.iter().filter(|(o, _)| new(o)).map(|(_, f)| &**f));
    let removed = Count::files(before.files.iter().filter(|(o, _)| gone(o)).map(|(_, f)| &**f));
    let added_deletes = Count::deletes(delete_files(after).filter(|d| !known.contains(&*d.path)));
    let removed_deletes = Count::deletes(delete_files(before).filter(|d| !left.contains(&*d.path)));
    let total = Count::files(after.files.values().map(|f| &**f));
    let total_deletes = Count::deletes(delete_files(after));

    let mut properties: HashMap<String, String> = HashMap::new();
    let mut put = |key: &str, value: u64| {
        properties.insert(key.to_string(), value.to_string());
    };
    let changed = [
        ("added-data-files", added.files),
        ("added-records", added.rows),
        ("added-files-size", added.size_bytes + added_deletes.size_bytes),
        ("added-delete-files", added_deletes.files),
        ("added-position-delete-files", added_deletes.files),
        ("added-position-deletes", added_deletes.rows),
        ("deleted-data-files", removed.files),
        ("deleted-records", removed.rows),
        ("removed-files-size", removed.size_bytes + removed_deletes.size_bytes),
        ("removed-delete-files", removed_deletes.files),
        ("removed-position-delete-files", removed_deletes.files),
        ("removed-position-deletes", removed_deletes.rows),
    ];
    for (key, value) in changed.into_iter().filter(|(_, value)| *value > 0) {
        put(key, value);
    }
    put("changed-partition-count", changed_partitions(before, after, changes));
    put("total-data-files", total.files);
    put("total-records", total.rows);
    put("total-files-size", total.size_bytes + total_deletes.size_bytes);
    put("total-delete-files", total_deletes.files);
    put("total-position-deletes", total_deletes.rows);
    put("total-equality-deletes", 0);
    properties.extend(changes.summary.iter().map(|(k, v)| (k.clone(), v.clone())));
    Summary { operation: operation(changes), additional_properties: properties }
}

fn changed_partitions(before: &TableState, after: &TableState, changes: &Changes) -> u64 {
    let of_added = changes.added.iter().map(|new| (new.spec_id, new.file.partition()));
    let of_others = changes
        .removed
        .iter()
        .chain(changes.deletes.keys())
        .filter_map(|o| before.files.get(o).or_else(|| after.files.get(o)))
        .map(|f| (f.spec_id, &f.partition));
    of_added.chain(of_others).collect::<HashSet<_>>().len() as u64
}
