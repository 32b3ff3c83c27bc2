//! What the sink counts.

use lakeward_core::{Counter, Gauge, MetricGroup};

/// Metrics of the committer and its maintenance.
#[derive(Debug, Clone)]
pub(crate) struct CommitMetrics {
    /// Snapshots that were committed.
    pub(crate) snapshots: Counter,
    /// Commits that found the table changed by another program and were built anew.
    pub(crate) conflicts: Counter,
    /// Deletes that found no row, when positions had to be looked up again.
    pub(crate) missed: Counter,
    pub(crate) data_files: Counter,
    pub(crate) rewritten_files: Counter,
    pub(crate) removed_orphans: Counter,
    /// Milliseconds that the last epoch's commit took.
    pub(crate) last_commit_ms: Gauge,
}

impl CommitMetrics {
    pub(crate) fn new(group: &MetricGroup) -> Self {
        Self {
            snapshots: group.counter("iceberg_snapshots_total"),
            conflicts: group.counter("iceberg_commit_conflicts_total"),
            missed: group.counter("iceberg_missed_deletes_total"),
            data_files: group.counter("iceberg_data_files_total"),
            rewritten_files: group.counter("iceberg_rewritten_files_total"),
            removed_orphans: group.counter("iceberg_removed_orphans_total"),
            last_commit_ms: group.gauge("iceberg_last_commit_ms"),
        }
    }
}
