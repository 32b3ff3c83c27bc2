//! Success marks in memory: enough where writers, committers and the DDL handler share a process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};

use lakeward_core::{DdlId, MarkStage, Result, SuccessMarks};

use crate::signal::{Signal, Watcher};

type Instances = BTreeMap<(u64, bool), BTreeSet<usize>>;

/// Lives as long as an attempt, so that its size is bounded by the DDL in flight.
#[derive(Default)]
pub struct MemoryMarks {
    left: Mutex<HashMap<DdlId, Instances>>,
    changed: Signal<()>,
}

impl MemoryMarks {
    /// Changes whenever a new mark is left.
    pub(crate) fn changes(&self) -> Watcher<()> {
        self.changed.watch()
    }

    fn left(&self) -> MutexGuard<'_, HashMap<DdlId, Instances>> {
        self.left.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn key(attempt: u64, stage: MarkStage) -> (u64, bool) {
    (attempt, stage == MarkStage::RowsCommitted)
}

impl SuccessMarks for MemoryMarks {
    fn leave(&self, ddl: &DdlId, attempt: u64, stage: MarkStage, instance: usize) -> Result<()> {
        let new = self
            .left()
            .entry(ddl.clone())
            .or_default()
            .entry(key(attempt, stage))
            .or_default()
            .insert(instance);
        if new {
            self.changed.set(());
        }
        Ok(())
    }

    fn count(&self, ddl: &DdlId, attempt: u64, stage: MarkStage) -> Result<usize> {
        let left = self.left();
        let instances = left.get(ddl).and_then(|i| i.get(&key(attempt, stage)));
        Ok(instances.map_or(0, BTreeSet::len))
    }

    fn clear(&self, ddl: &DdlId) {
        self.left().remove(ddl);
    }
}

#[cfg(test)]
mod tests {
    use lakeward_core::{Position, TableId};

    use super::*;

    #[test]
    fn marks_count_instances_of_their_own_attempt_and_stage() {
        let marks = MemoryMarks::default();
        let mut changes = marks.changes();
        let ddl = DdlId { table: TableId::new("a", "b"), position: Position { hi: 1, lo: 2 } };
        for instance in [0, 1, 1] {
            marks.leave(&ddl, 7, MarkStage::FilesComplete, instance).expect("left");
        }
        marks.leave(&ddl, 6, MarkStage::FilesComplete, 2).expect("left");
        marks.leave(&ddl, 7, MarkStage::RowsCommitted, 0).expect("left");
        assert_eq!(marks.count(&ddl, 7, MarkStage::FilesComplete).expect("counted"), 2);
        assert_eq!(marks.count(&ddl, 7, MarkStage::RowsCommitted).expect("counted"), 1);
        assert!(changes.take_change().is_some());
        marks.leave(&ddl, 7, MarkStage::RowsCommitted, 0).expect("left");
        assert!(changes.take_change().is_none(), "leaving it twice is leaving it once");
        marks.clear(&ddl);
        assert_eq!(marks.count(&ddl, 7, MarkStage::FilesComplete).expect("counted"), 0);
    }
}
