//! The job's status and metrics as the API's shape.

use std::collections::{BTreeMap, BTreeSet};

use lakeward_core::metrics::Metric;
use lakeward_core::{Clock, MetricGroup};
use lakeward_runtime::{JobState, JobStatus, SystemClock, TableStatus};

use super::shape::{
    Checkpoint, CheckpointInFlight, Committed, Snapshot, Status, StatusError, Table,
};
use crate::job::Running;

/// Intervals after which a commit that has not come back counts as stalled, and the least time.
const STALL_INTERVALS: i64 = 3;
const STALL_LEAST_MS: i64 = 15_000;

/// Sources set these by name.
pub const SOURCE_CONNECTED: &str = "source_connected";
const SOURCE_LAG_MS: &str = "source_lag_ms";
const SNAPSHOT_ROWS_DONE: &str = "snapshot_rows_done";
const SNAPSHOT_ROWS_TOTAL: &str = "snapshot_rows_total";
const SNAPSHOT_TABLES_DONE: &str = "snapshot_tables_done";
const SNAPSHOT_TABLES_TOTAL: &str = "snapshot_tables_total";

pub fn status_of(running: &Running) -> Status {
    let job = running.handle.status();
    let values = SourceValues::read(&running.metrics);
    let now_ms = SystemClock.now_ms();
    let interval_ms = running.checkpoint_interval_ms;
    let (tables_done, tables_total) =
        (values.get(SNAPSHOT_TABLES_DONE), values.get(SNAPSHOT_TABLES_TOTAL));
    Status {
        pipeline: job.pipeline.to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        state: state_word(job.state).to_string(),
        now_ms,
        started_ms: job.started_ms,
        attempt: job.attempt,
        attempt_started_ms: job.attempt_started_ms,
        restarts: job.restarts,
        next_attempt_ms: job.next_attempt_ms,
        error: job.last_error.as_ref().map(|e| StatusError {
            kind: e.kind,
            message: e.message.clone(),
            at_ms: e.at_ms,
            attempt: e.attempt,
        }),
        source_connected: values.get(SOURCE_CONNECTED).map(|v| v != 0),
        source_lag_ms: values.get(SOURCE_LAG_MS),
        lag_ms: lag_ms(&job, values.get(SOURCE_LAG_MS), now_ms),
        commit_stalled_ms: commit_stalled_ms(&job, interval_ms, now_ms),
        checkpoint_interval_ms: interval_ms,
        checkpoint: job.checkpoint.as_ref().map(|c| Checkpoint {
            id: c.id,
            completed_ms: c.completed_ms,
            duration_ms: c.duration_ms,
            size_bytes: c.size_bytes,
        }),
        checkpoint_in_flight: job.checkpoint_in_flight.as_ref().map(|c| CheckpointInFlight {
            id: c.id,
            started_ms: c.started_ms,
            waiting_for: c.waiting_for.clone(),
        }),
        committed: job.committed.as_ref().map(|c| Committed {
            checkpoint: c.checkpoint,
            at_ms: c.at_ms,
            commit_ms: c.commit_ms,
            offsets: c.offsets.clone(),
        }),
        rows_read: job.tables.values().map(|t| t.rows_snapshot + t.rows_streamed).sum(),
        rows_committed: job.rows_committed,
        snapshot: Snapshot {
            tables_done: unsigned(tables_done).unwrap_or(0),
            tables_total: unsigned(tables_total).unwrap_or(0),
        },
        tables: tables(&job, &values),
        read: job.read,
    }
}

/// Those that something happened to, and those that the source has told of.
fn tables(job: &JobStatus, values: &SourceValues) -> Vec<Table> {
    let idle = TableStatus::default();
    let names: BTreeSet<&str> =
        job.tables.keys().map(String::as_str).chain(values.snapshots().map(|s| s.0)).collect();
    let of = |name| table(name, job.tables.get(name).unwrap_or(&idle), values, job.state);
    names.into_iter().map(of).collect()
}

fn table(name: &str, t: &TableStatus, values: &SourceValues, state: JobState) -> Table {
    let done = values.of_table(SNAPSHOT_ROWS_DONE, name);
    let total = values.of_table(SNAPSHOT_ROWS_TOTAL, name);
    let reading =
        state == JobState::Snapshotting && matches!((done, total), (Some(d), Some(t)) if d < t);
    let word = match (&t.paused, reading) {
        (Some(_), _) => "paused",
        (None, true) => "snapshotting",
        (None, false) => "streaming",
    };
    Table {
        table: name.to_string(),
        state: word.to_string(),
        rows_snapshot: t.rows_snapshot,
        rows_snapshot_total: unsigned(total),
        rows_streamed: t.rows_streamed,
        rows_written: t.rows_written,
        schema_version: t.schema_version,
        schema_changes: t.schema_changes,
        last_schema_change: t.last_schema_change.clone(),
        last_event_ms: (t.last_event_ms > 0).then_some(t.last_event_ms),
        committed_ms: t.committed_ms,
        version: t.version.clone(),
        error: t.paused.clone(),
    }
}

pub fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::Starting => "starting",
        JobState::Snapshotting => "snapshotting",
        JobState::Streaming => "streaming",
        JobState::Restarting => "restarting",
        JobState::Stopping => "stopping",
        JobState::Finished => "finished",
        JobState::Failed => "failed",
    }
}

/// How far the lake is behind: what is still to be read, and the time since the last commit where something that was read
/// is not in it. An idle source is not behind.
fn lag_ms(job: &JobStatus, source_lag_ms: Option<i64>, now_ms: i64) -> Option<i64> {
    let source_lag_ms = source_lag_ms?;
    let committed = job.committed.as_ref()?;
    let waiting_ms = if job.read == job.complete { 0 } else { now_ms - committed.at_ms };
    Some(source_lag_ms + waiting_ms.max(0))
}

/// Set once a completed checkpoint has waited long for its commit.
pub fn commit_stalled_ms(job: &JobStatus, interval_ms: u64, now_ms: i64) -> Option<i64> {
    let completed = job.checkpoint.as_ref()?;
    let committed = job.committed.as_ref().map_or(0, |c| c.checkpoint);
    if committed >= completed.id || job.state.has_ended() {
        return None;
    }
    let since_ms = match &job.committed {
        Some(c) => c.at_ms.max(job.attempt_started_ms),
        None => completed.completed_ms.min(now_ms).max(job.attempt_started_ms),
    };
    let waited_ms = now_ms - since_ms;
    let interval_ms = i64::try_from(interval_ms).unwrap_or(i64::MAX);
    let limit_ms = interval_ms.saturating_mul(STALL_INTERVALS).max(STALL_LEAST_MS);
    (waited_ms > limit_ms).then_some(waited_ms)
}

/// What the source has set, by name and table.
pub struct SourceValues(BTreeMap<(String, Option<String>), i64>);

impl SourceValues {
    pub fn read(metrics: &MetricGroup) -> Self {
        let mut values = BTreeMap::new();
        for (key, metric) in metrics.snapshot() {
            let value = match metric {
                Metric::Gauge(gauge) => gauge.get(),
                Metric::Counter(_) => continue,
            };
            let table = key.labels.iter().find(|(name, _)| name == "table");
            values.insert((key.name, table.map(|(_, table)| table.clone())), value);
        }
        Self(values)
    }

    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.get(&(name.to_string(), None)).copied()
    }

    pub fn of_table(&self, name: &str, table: &str) -> Option<i64> {
        self.0.get(&(name.to_string(), Some(table.to_string()))).copied()
    }

    /// Rows read and rows to read of every table whose snapshot has begun.
    pub fn snapshots(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.0.iter().filter_map(|((name, table), done)| {
            let table = table.as_deref().filter(|_| name == SNAPSHOT_ROWS_DONE)?;
            let total = unsigned(self.of_table(SNAPSHOT_ROWS_TOTAL, table))?;
            Some((table, unsigned(Some(*done))?, total))
        })
    }
}

fn unsigned(value: Option<i64>) -> Option<u64> {
    value.and_then(|v| u64::try_from(v).ok())
}
