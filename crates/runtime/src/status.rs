//! What a job is doing, for people and for those who wait for it.

use std::collections::BTreeMap;

use lakeward_core::{
    DataChange, Error, ErrorKind, Offsets, PipelineId, Progress, SchemaChange, SchemaEvent,
    StreamRecord,
};
use serde::Serialize;
use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// An attempt is being opened.
    Starting,
    /// Running; at least one reader still reads tables.
    Snapshotting,
    /// Running; only the log is being read.
    Streaming,
    /// Waiting before the next attempt.
    Restarting,
    /// Taking the last checkpoint.
    Stopping,
    /// Stopped as it was asked to.
    Finished,
    /// Stopped by an error.
    Failed,
}

impl JobState {
    pub fn has_ended(self) -> bool {
        matches!(self, JobState::Finished | JobState::Failed)
    }

    pub fn is_running(self) -> bool {
        matches!(self, JobState::Snapshotting | JobState::Streaming)
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct StatusError {
    pub kind: ErrorKind,
    pub message: String,
    pub at_ms: i64,
    pub attempt: u64,
}

/// The last completed checkpoint.
#[derive(Debug, Clone, Serialize)]
pub struct CheckpointStatus {
    pub id: u64,
    pub completed_ms: i64,
    pub duration_ms: u64,
    pub size_bytes: u64,
}

/// The checkpoint that is being taken.
#[derive(Debug, Clone, Serialize)]
pub struct InFlightStatus {
    pub id: u64,
    pub started_ms: i64,
    /// Set once it is late: the instances that have not stored their state.
    pub waiting_for: Vec<String>,
}

/// The newest epoch that is visible in the sink.
#[derive(Debug, Clone, Serialize)]
pub struct CommittedStatus {
    pub checkpoint: u64,
    pub offsets: Offsets,
    /// The newest source commit in it.
    pub commit_ms: i64,
    pub at_ms: i64,
}

/// One table, since the process started.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TableStatus {
    /// Rows of its snapshot and of the log; rows that were read again count again.
    pub rows_snapshot: u64,
    pub rows_streamed: u64,
    /// Rows handed to the committer.
    pub rows_written: u64,
    /// When the source committed the newest row that was read.
    pub last_event_ms: i64,
    pub schema_version: u32,
    /// The sink's name for its newest version.
    pub version: Option<String>,
    pub committed_ms: Option<i64>,
    pub schema_changes: u64,
    pub last_schema_change: Option<String>,
    /// Why it is left out.
    pub paused: Option<String>,
}

/// A snapshot of the job's state.
#[derive(Debug, Clone, Serialize)]
pub struct JobStatus {
    pub pipeline: PipelineId,
    pub state: JobState,
    pub started_ms: i64,
    pub attempt: u64,
    pub attempt_started_ms: i64,
    /// The checkpoint that the attempt started from.
    pub restored: Option<u64>,
    pub restarts: u64,
    /// Set while it waits before the next attempt.
    pub next_attempt_ms: Option<i64>,
    pub last_error: Option<StatusError>,
    pub checkpoint: Option<CheckpointStatus>,
    pub checkpoint_in_flight: Option<InFlightStatus>,
    pub committed: Option<CommittedStatus>,
    /// Offsets of the newest committed epoch at whose barrier no operator held rows back and no table was still being read:
    /// the sink has all of it.
    pub complete: Offsets,
    /// How far the source has been read.
    pub read: Offsets,
    pub rows_committed: u64,
    pub tables: BTreeMap<String, TableStatus>,
}

/// The one place where the status is kept. Waiters are woken by what they may wait for, not by each batch.
pub(crate) struct StatusCell {
    sender: watch::Sender<JobStatus>,
}

impl StatusCell {
    pub(crate) fn new(pipeline: PipelineId, now_ms: i64) -> Self {
        let status = JobStatus {
            pipeline,
            state: JobState::Starting,
            started_ms: now_ms,
            attempt: 0,
            attempt_started_ms: now_ms,
            restored: None,
            restarts: 0,
            next_attempt_ms: None,
            last_error: None,
            checkpoint: None,
            checkpoint_in_flight: None,
            committed: None,
            complete: Offsets::new(),
            read: Offsets::new(),
            rows_committed: 0,
            tables: BTreeMap::new(),
        };
        Self { sender: watch::Sender::new(status) }
    }

    pub(crate) fn get(&self) -> JobStatus {
        self.sender.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<JobStatus> {
        self.sender.subscribe()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut JobStatus)) {
        self.sender.send_modify(change);
    }

    fn update_quietly(&self, change: impl FnOnce(&mut JobStatus)) {
        self.sender.send_if_modified(|status| {
            change(status);
            false
        });
    }

    /// While it stops, a job is no longer said to run.
    pub(crate) fn running(&self, state: JobState) {
        self.update(|status| {
            if matches!(
                status.state,
                JobState::Starting | JobState::Snapshotting | JobState::Streaming
            ) {
                status.state = state;
            }
        });
    }

    pub(crate) fn failed(&self, error: &Error, now_ms: i64) {
        self.update(|status| {
            status.last_error = Some(StatusError {
                kind: error.kind(),
                message: error.to_string(),
                at_ms: now_ms,
                attempt: status.attempt,
            });
        });
    }

    /// A record that a source reader emitted.
    pub(crate) fn read(&self, record: &StreamRecord) {
        match record {
            StreamRecord::Data(change) => self.update_quietly(|status| count(status, change)),
            StreamRecord::Progress(Progress { table: None, split, offset, .. }) => {
                self.sender.send_if_modified(|status| {
                    let last = status.read.insert(split.clone(), offset.clone());
                    last.as_ref() != Some(offset)
                });
            }
            StreamRecord::Schema(event) => self.leave(event),
            _ => {}
        }
    }

    /// A table that is dropped or has another name from here on is no longer listed.
    fn leave(&self, event: &SchemaEvent) {
        let renamed = |c: &SchemaChange| matches!(c, SchemaChange::RenameTable { .. });
        if event.after.is_none() || event.changes.iter().any(renamed) {
            self.update(|status| {
                status.tables.remove(&event.table.to_string());
            });
        }
    }

    /// A record that an operator emitted.
    pub(crate) fn emitted(&self, record: &StreamRecord) {
        if let StreamRecord::Schema(event) = record {
            self.leave(event);
        }
        if let StreamRecord::Committable(committable) = record {
            self.update_quietly(|status| {
                table(status, committable.table.to_string()).rows_written += committable.rows;
            });
        }
    }
}

pub(crate) fn table(status: &mut JobStatus, name: String) -> &mut TableStatus {
    status.tables.entry(name).or_default()
}

fn count(status: &mut JobStatus, change: &DataChange) {
    let rows = change.kinds.len() as u64;
    let table = table(status, change.table.to_string());
    if change.snapshot {
        table.rows_snapshot += rows;
    } else {
        table.rows_streamed += rows;
    }
    table.schema_version = change.schema.version;
    let newest = change.segments.iter().map(|s| s.commit_ms).max().unwrap_or(0);
    table.last_event_ms = table.last_event_ms.max(newest);
}
