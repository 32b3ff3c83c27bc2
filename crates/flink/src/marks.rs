//! Success marks of a job whose parts are in different processes: names of small objects beside the checkpoints, which the
//! Java side leaves and lists.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use lakeward_core::{DdlId, MarkStage, Result, SuccessMarks};

use crate::wire::Control;

/// One instance's view of the marks.
#[derive(Default)]
pub(crate) struct Marks {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// For the Java side, at the end of the call.
    controls: Vec<Control>,
    /// Names as they were listed last, and those that this instance left itself.
    known: HashSet<String>,
}

impl Marks {
    pub(crate) fn controls(&self) -> Vec<Control> {
        std::mem::take(&mut self.inner().controls)
    }

    pub(crate) fn leave_name(&self, name: String) {
        let mut inner = self.inner();
        if inner.known.insert(name.clone()) {
            inner.controls.push(Control::Leave(name));
        }
    }

    /// Takes names that the Java side has listed, one on each line.
    pub(crate) fn news(&self, names: &str) {
        self.inner().known.extend(names.lines().map(str::to_string));
    }

    pub(crate) fn names_with(&self, prefix: &str) -> Vec<String> {
        let inner = self.inner();
        inner.known.iter().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The folder of an attempt's marks.
pub(crate) fn folder(attempt: u64) -> String {
    format!("a{attempt}")
}

fn of_ddl(ddl: &DdlId, attempt: u64) -> String {
    let DdlId { table, position } = ddl;
    let (folder, hash) = (folder(attempt), table.stable_hash());
    format!("{folder}/ddl.{hash:016x}.{}.{}.", position.hi, position.lo)
}

fn of_stage(ddl: &DdlId, attempt: u64, stage: MarkStage) -> String {
    let stage = match stage {
        MarkStage::FilesComplete => "files-complete",
        MarkStage::RowsCommitted => "rows-committed",
    };
    format!("{}{stage}.", of_ddl(ddl, attempt))
}

impl SuccessMarks for Marks {
    fn leave(&self, ddl: &DdlId, attempt: u64, stage: MarkStage, instance: usize) -> Result<()> {
        self.leave_name(format!("{}{instance}", of_stage(ddl, attempt, stage)));
        Ok(())
    }

    fn count(&self, ddl: &DdlId, attempt: u64, stage: MarkStage) -> Result<usize> {
        Ok(self.names_with(&of_stage(ddl, attempt, stage)).len())
    }

    fn clear(&self, ddl: &DdlId) {
        let mut inner = self.inner();
        // The attempt is in the name; the folder of another one is gone by then.
        let own = format!(
            "/ddl.{:016x}.{}.{}.",
            ddl.table.stable_hash(),
            ddl.position.hi,
            ddl.position.lo
        );
        let found: HashSet<String> = inner
            .known
            .iter()
            .filter_map(|name| name.find(&own).map(|at| name[..at + own.len()].to_string()))
            .collect();
        inner.known.retain(|name| !name.contains(&own));
        inner.controls.extend(found.into_iter().map(Control::Clear));
    }
}

#[cfg(test)]
mod tests {
    use lakeward_core::{Position, TableId};

    use super::*;

    #[test]
    fn marks_of_others_count_once_and_are_cleared() {
        let (here, there) = (Marks::default(), Marks::default());
        let ddl = DdlId { table: TableId::new("a", "b"), position: Position { hi: 1, lo: 2 } };
        there.leave(&ddl, 7, MarkStage::FilesComplete, 1).unwrap();
        there.leave(&ddl, 7, MarkStage::FilesComplete, 1).unwrap();
        there.leave(&ddl, 6, MarkStage::FilesComplete, 0).unwrap();
        let left = there.controls();
        let names: Vec<String> = left
            .iter()
            .map(|c| match c {
                Control::Leave(name) => name.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(names.len(), 2);
        here.news(&names.join("\n"));
        assert_eq!(here.count(&ddl, 7, MarkStage::FilesComplete).unwrap(), 1);
        assert_eq!(here.count(&ddl, 7, MarkStage::RowsCommitted).unwrap(), 0);
        here.clear(&ddl);
        assert_eq!(here.count(&ddl, 7, MarkStage::FilesComplete).unwrap(), 0);
        let cleared = here.controls();
        assert!(
            cleared
                .iter()
                .all(|c| matches!(c, Control::Clear(p) if names.iter().any(|n| n.starts_with(p))))
        );
        assert_eq!(cleared.len(), 2);
    }
}
