//! What operators report, put into the status and passed on to whoever else listens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lakeward_core::{Clock, EpochCommitted, Error, JobListener, TableId};

use crate::signal::{Signal, Watcher};
use crate::status::{CommittedStatus, StatusCell, table};

/// One attempt's listener.
pub(crate) struct AttemptListener {
    status: Arc<StatusCell>,
    clock: Arc<dyn Clock>,
    next: Option<Arc<dyn JobListener>>,
    /// For each completed checkpoint that is not committed: whether an operator held records at its barrier.
    held: Mutex<BTreeMap<u64, bool>>,
    committed: Signal<u64>,
}

impl AttemptListener {
    pub(crate) fn new(
        status: Arc<StatusCell>,
        clock: Arc<dyn Clock>,
        next: Option<Arc<dyn JobListener>>,
    ) -> Self {
        Self { status, clock, next, held: Mutex::default(), committed: Signal::default() }
    }

    /// The newest checkpoint of this attempt, or the restored one, whose epoch is committed; 0 before the first.
    pub(crate) fn committed(&self) -> Watcher<u64> {
        self.committed.watch()
    }

    /// Before anyone is told that the checkpoint is complete.
    pub(crate) fn completed(&self, checkpoint: u64, held: bool) {
        self.held.lock().unwrap_or_else(|e| e.into_inner()).insert(checkpoint, held);
    }

    fn was_held(&self, checkpoint: u64) -> bool {
        let mut held = self.held.lock().unwrap_or_else(|e| e.into_inner());
        let found = held.get(&checkpoint).copied();
        held.retain(|id, _| *id > checkpoint);
        // Unknown, so better not counted as complete.
        found.unwrap_or(true)
    }
}

impl JobListener for AttemptListener {
    fn epoch_committed(&self, epoch: &EpochCommitted) {
        let checkpoint = epoch.checkpoint.0;
        let held = self.was_held(checkpoint);
        let now_ms = self.clock.now_ms();
        self.status.update(|status| {
            status.committed = Some(CommittedStatus {
                checkpoint,
                offsets: epoch.offsets.clone(),
                commit_ms: epoch.commit_ms,
                at_ms: now_ms,
            });
            if !held {
                status.complete = epoch.offsets.clone();
            }
            status.rows_committed += epoch.rows;
            for (name, version) in &epoch.tables {
                // One that has been dropped since is not listed any more.
                let Some(table) = status.tables.get_mut(name) else { continue };
                table.version = Some(version.clone());
                table.committed_ms = Some(now_ms);
            }
        });
        if let Some(next) = &self.next {
            next.epoch_committed(epoch);
        }
        if checkpoint > self.committed.get() {
            self.committed.set(checkpoint);
        }
    }

    fn table_paused(&self, name: &TableId, error: &Error) {
        tracing::error!(table = %name, "table is left out from here on: {error}");
        let reason = error.to_string();
        self.status.update(|status| table(status, name.to_string()).paused = Some(reason));
        if let Some(next) = &self.next {
            next.table_paused(name, error);
        }
    }

    fn table_resumed(&self, name: &TableId) {
        self.status.update(|status| table(status, name.to_string()).paused = None);
        if let Some(next) = &self.next {
            next.table_resumed(name);
        }
    }

    fn schema_changed(&self, name: &TableId, what: &str) {
        tracing::debug!(table = %name, "schema changed: {what}");
        self.status.update(|status| {
            let table = table(status, name.to_string());
            table.schema_changes += 1;
            table.last_schema_change = Some(what.to_string());
        });
        if let Some(next) = &self.next {
            next.schema_changed(name, what);
        }
    }
}
