//! The JSON of the API. Fields are only ever added.

use clap::ValueEnum;
use lakeward_core::{ErrorKind, Offsets};
use serde::{Deserialize, Serialize};

/// `GET /api/v1/status`. Times are milliseconds since the epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    pub pipeline: String,
    /// The program's version.
    pub version: String,
    /// `starting`, `snapshotting`, `streaming`, `restarting`, `stopping`, `finished` or `failed`.
    pub state: String,
    pub now_ms: i64,
    pub started_ms: i64,
    /// Counts starts and restarts over the life of the state directory.
    pub attempt: u64,
    pub attempt_started_ms: i64,
    /// Restarts since the process began.
    pub restarts: u64,
    /// When the next attempt begins, while `restarting`.
    pub next_attempt_ms: Option<i64>,
    /// The last error. It stands until the process ends, also when the pipeline has recovered: see `attempt`.
    pub error: Option<StatusError>,
    /// Whether the source's log is connected; null before the first connection.
    pub source_connected: Option<bool>,
    /// How far reading is behind the source.
    pub source_lag_ms: Option<i64>,
    /// How far the lake is behind the source.
    pub lag_ms: Option<i64>,
    /// How long a completed checkpoint has been waiting for its commit, once that is unusually long.
    pub commit_stalled_ms: Option<i64>,
    pub checkpoint_interval_ms: u64,
    pub checkpoint: Option<Checkpoint>,
    pub checkpoint_in_flight: Option<CheckpointInFlight>,
    pub committed: Option<Committed>,
    /// How far the source has been read, by split.
    pub read: Offsets,
    pub rows_read: u64,
    pub rows_committed: u64,
    pub snapshot: Snapshot,
    pub tables: Vec<Table>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StatusError {
    pub kind: ErrorKind,
    pub message: String,
    pub at_ms: i64,
    pub attempt: u64,
}

/// The last completed checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    pub id: u64,
    pub completed_ms: i64,
    pub duration_ms: u64,
    pub size_bytes: u64,
}

/// The checkpoint that is being taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckpointInFlight {
    pub id: u64,
    pub started_ms: i64,
    /// Who has not finished, once it is late.
    pub waiting_for: Vec<String>,
}

/// The newest epoch that is visible in the sink.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Committed {
    pub checkpoint: u64,
    pub at_ms: i64,
    /// The newest source commit in it; 0 for an epoch without rows.
    pub commit_ms: i64,
    pub offsets: Offsets,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Snapshot {
    pub tables_done: u64,
    pub tables_total: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    pub table: String,
    /// `snapshotting`, `streaming` or `paused`.
    pub state: String,
    /// Rows read since the process began; rows that were read again count again.
    pub rows_snapshot: u64,
    /// The server's estimate, and the true number in the end.
    pub rows_snapshot_total: Option<u64>,
    pub rows_streamed: u64,
    /// Rows handed to the sink's committer.
    pub rows_written: u64,
    pub schema_version: u32,
    pub schema_changes: u64,
    pub last_schema_change: Option<String>,
    /// When the source committed the newest row that was read.
    pub last_event_ms: Option<i64>,
    pub committed_ms: Option<i64>,
    /// The sink's name for the table's newest version; of Iceberg the snapshot's id.
    pub version: Option<String>,
    /// Why it is paused.
    pub error: Option<String>,
}

/// What `GET /api/v1/wait` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// All snapshots are read
    Streaming,
    /// All that is committed in the source now is visible in the sink
    CaughtUp,
}

/// The answer of `GET /api/v1/wait`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitAnswer {
    pub pipeline: String,
    pub until: Option<Point>,
    pub reached: bool,
    /// Why it was not reached, in one line.
    pub reason: Option<String>,
}
