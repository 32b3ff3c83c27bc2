//! What a runtime lends to an operator: its place, a clock, metrics, and the few ways to reach the rest of the job.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{EpochCommitted, Error, MetricGroup, Position, Result, TableId};

/// A pipeline's name as the sinks know it. Two pipelines of one name fence each other off.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct PipelineId(pub Arc<str>);

impl fmt::Display for PipelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names a DDL statement's effect on one table: the same statement read again has the same id.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct DdlId {
    pub table: TableId,
    pub position: Position,
}

impl fmt::Display for DdlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.table, self.position.hi, self.position.lo)
    }
}

/// The only clock that operators and connectors read.
pub trait Clock: Send + Sync {
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> i64;
}

/// What a success mark vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkStage {
    /// A writer has completed the table's files before the DDL.
    FilesComplete,
    /// The committer has committed all rows before the DDL.
    RowsCommitted,
}

/// Where writers and committers leave word of how far a table's rows before a DDL have come. Marks carry the attempt that
/// left them: one of an earlier attempt never counts.
pub trait SuccessMarks: Send + Sync {
    /// `instance` is the index of the operator instance. Leaving a mark twice is leaving it once.
    fn leave(&self, ddl: &DdlId, attempt: u64, stage: MarkStage, instance: usize) -> Result<()>;
    /// How many different instances have left a mark of this stage.
    fn count(&self, ddl: &DdlId, attempt: u64, stage: MarkStage) -> Result<usize>;
    /// The DDL has run: its marks are no longer needed.
    fn clear(&self, ddl: &DdlId);
}

/// Asks for a checkpoint sooner than the interval says. A hint: it may be ignored, and several requests may become one.
pub trait CheckpointRequester: Send + Sync {
    fn request(&self);
}

/// What the job tells the outside.
pub trait JobListener: Send + Sync {
    /// Everything up to these offsets is visible in the sink and its epoch is published.
    fn epoch_committed(&self, epoch: &EpochCommitted);
    /// The table is left out from here on; the others go on.
    fn table_paused(&self, table: &TableId, error: &Error);
    /// A table that was left out has begun anew.
    fn table_resumed(&self, table: &TableId);
    /// A schema change was applied to the sink.
    fn schema_changed(&self, table: &TableId, what: &str);
}

/// Lent to an operator for its life within one attempt.
#[derive(Clone)]
pub struct OperatorContext {
    /// As in the architecture page: `StreamDdlHandler`, `DynamicStreamWriter`, …
    pub operator: Arc<str>,
    /// This instance among `parallelism`.
    pub index: usize,
    pub parallelism: usize,
    /// Instances of the next stage; 0 for the last one.
    pub downstream_parallelism: usize,
    pub pipeline: PipelineId,
    /// Grows with every start of the pipeline and every attempt within it; unique in the state directory.
    pub attempt: u64,
    pub checkpoint_interval_ms: u64,
    pub clock: Arc<dyn Clock>,
    pub metrics: MetricGroup,
    pub marks: Arc<dyn SuccessMarks>,
    pub checkpoints: Arc<dyn CheckpointRequester>,
    pub listener: Arc<dyn JobListener>,
    /// A folder of this attempt for spilled rows; emptied at its start.
    pub scratch_dir: PathBuf,
    /// What this instance may hold in memory.
    pub memory_bytes: usize,
}
