//! What a source promises.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    CheckpointId, CheckpointRequester, Clock, Collector, MetricGroup, Offset, Offsets, PipelineId,
    Result, State, TableId, TableSchema,
};

/// A table as `check` shows it.
#[derive(Debug, Clone)]
pub struct SourceTable {
    pub table: TableId,
    pub schema: Arc<TableSchema>,
    /// The server's estimate of the number of rows.
    pub rows: Option<u64>,
}

/// What a look at the source found. `errors` would stop a run; `warnings` would not.
#[derive(Debug, Clone, Default)]
pub struct SourceCheck {
    pub server: String,
    pub tables: Vec<SourceTable>,
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
}

/// How far the sink holds a source table.
#[derive(Debug, Clone, PartialEq)]
pub struct Reached {
    pub offsets: Offsets,
    /// The newest checkpoint of which it holds something.
    pub checkpoint: CheckpointId,
}

/// Tables of which the sink holds a later checkpoint than the one that an attempt starts from.
pub fn tables_ahead(
    reached: &HashMap<TableId, Reached>,
    restored: Option<CheckpointId>,
) -> HashSet<TableId> {
    let Some(restored) = restored else { return HashSet::new() };
    let ahead = reached.iter().filter(|(_, reached)| reached.checkpoint > restored);
    ahead.map(|(table, _)| table.clone()).collect()
}

/// How a reader is opened.
#[derive(Clone)]
pub struct SourceOpen {
    pub pipeline: PipelineId,
    pub attempt: u64,
    /// This reader among `parallelism`.
    pub index: usize,
    pub parallelism: usize,
    /// What this reader stored at the checkpoint that the attempt starts from.
    pub restored: Option<State>,
    /// How far the sink already holds each source table, where that is beyond `restored`: log rows and DDL that these
    /// offsets cover are dropped. See [`Source::covers`].
    pub committed: HashMap<TableId, Offsets>,
    /// Tables of which the sink holds a later checkpoint than `restored`: an older one was put back. Their log rows are told
    /// apart by `committed`. A snapshot that `restored` has not finished cannot be gone on with: rows that it brought
    /// later may have been deleted in the source since, and nobody would take them away. Such a table starts over.
    pub ahead: HashSet<TableId>,
    /// Tables whose content is to be read anew ("all" when it holds `*`), by the user's explicit wish.
    pub resnapshot: Vec<String>,
    pub clock: Arc<dyn Clock>,
    /// For a reader that has something to store before it can go on.
    pub checkpoints: Arc<dyn CheckpointRequester>,
    pub metrics: MetricGroup,
    pub memory_bytes: usize,
}

/// What the last call of [`SourceReader::next`] left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadStatus {
    /// The reader stands between two source transactions: a barrier may be put here.
    pub at_boundary: bool,
    /// Every snapshot is done: only the log is being read.
    pub streaming: bool,
}

/// Finds tables and splits, and opens readers. Shared by all of a job.
#[async_trait]
pub trait Source: Send + Sync {
    /// Looks at the server without changing anything: connects, checks privileges and settings, lists tables.
    async fn check(&self) -> Result<SourceCheck>;

    /// How many readers can work side by side, given what the user wants.
    fn reader_parallelism(&self, wanted: usize) -> usize {
        let _ = wanted;
        1
    }

    async fn open(&self, open: SourceOpen) -> Result<Box<dyn SourceReader>>;

    /// Where the source's log ends now: whatever was committed there before this call is covered by it.
    async fn current_offsets(&self) -> Result<Offsets>;

    /// True when everything up to `offset` is also up to `reached`. Both are of the same split of this source.
    ///
    /// # Errors
    /// `OffsetLost` when the two cannot be compared (another server without common GTIDs).
    fn covers(&self, reached: &Offset, offset: &Offset) -> Result<bool>;
}

/// Reads its splits: snapshot rows and the log, in one ordered stream.
///
/// Contract:
/// - Records go `Target::Hash(table.stable_hash())` for data and DDL, `Target::All` for progress, in source order per table.
/// - Before the first rows of a table a `CreateTable` (or `ResetTable`) schema event is emitted.
/// - Directly before a schema event from the log a `Progress` is emitted whose offset is just before that DDL.
/// - Restored from a checkpoint it emits what followed that checkpoint's barrier, under the same schema versions, though
///   batches may be cut elsewhere. Rows that a keyed table's snapshot had sent may come again.
#[async_trait]
pub trait SourceReader: Send {
    /// Whether a checkpoint can be taken before the first call of [`SourceReader::next`]. Then the first run of a pipeline
    /// takes one there, so that whatever reaches the sink can be followed from a known place after a crash.
    fn begins_at_boundary(&self) -> bool {
        true
    }

    /// Waits for input and emits it. Returns at the latest after a few tens of milliseconds. Cancel-safe: when the future
    /// is dropped nothing is lost. It may keep rows back to fill a batch; `prepare_snapshot` brings them out.
    async fn next(&mut self, out: &mut Collector) -> Result<ReadStatus>;

    /// Called only at a boundary. Emits all rows that were kept back, then a `Progress`. A runtime may call it without a
    /// snapshot behind it, and then more often than checkpoints are taken.
    async fn prepare_snapshot(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Collector,
    ) -> Result<()>;

    async fn snapshot_state(&mut self, checkpoint: CheckpointId) -> Result<State>;

    /// The sink holds everything of this checkpoint: the source may be told that it can forget.
    async fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()>;

    /// Ends connections and tasks. Called once; the reader is dropped after it.
    async fn close(&mut self);
}
