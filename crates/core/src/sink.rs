//! What a sink promises.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{
    CheckpointId, Committable, DataChange, DdlId, EpochCommitted, Error, Offsets, OperatorContext,
    PipelineId, Position, Result, SchemaEvent, TableId,
};

/// What a look at the sink found. `errors` would stop a run; `warnings` would not.
#[derive(Debug, Clone, Default)]
pub struct SinkCheck {
    pub target: String,
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
}

/// How far a table of the sink has come in this pipeline: read from the table itself, not from a state directory.
#[derive(Debug, Clone, PartialEq)]
pub struct TableProgress {
    pub table: TableId,
    /// The newest checkpoint of which it holds something.
    pub checkpoint: CheckpointId,
    pub offsets: Offsets,
    /// The last DDL that was applied to it.
    pub ddl: Option<Position>,
}

/// One attempt's hold on a sink, for those who join: opaque to all but the sink that gave it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ownership(pub String);

/// Who joins an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub attempt: u64,
    pub ownership: &'a Ownership,
    /// Unlike that of every other member of the attempt: `DynamicStreamWriter-3`.
    pub name: &'a str,
}

/// What a DDL must wait for, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DdlNeeds {
    /// Nothing: it touches no row.
    Nothing,
    /// The writers' files before it are complete.
    FilesComplete,
    /// The rows before it are committed: it contradicts or rewrites them.
    RowsCommitted,
}

/// A consistent cut: what one checkpoint covers.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Epoch {
    pub checkpoint: CheckpointId,
    pub offsets: Offsets,
    /// The newest source commit in it, in milliseconds since the epoch; 0 when there is none.
    pub commit_ms: i64,
}

/// The outcome of one table's commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedTable {
    /// The sink's name for the table's new version (Iceberg: snapshot id).
    pub version: String,
    pub rows: u64,
    /// The table already held this epoch; nothing was done.
    pub already: bool,
}

/// One target system. Shared by all of a job; its parts are opened per operator instance.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Looks without changing anything: reaches the catalog, says what it would create for these tables, and what would
    /// keep this pipeline from writing to them.
    async fn check(
        &self,
        pipeline: &PipelineId,
        tables: &[(TableId, std::sync::Arc<crate::TableSchema>)],
    ) -> Result<SinkCheck>;

    /// Whether this pipeline has owned the sink before. One that keeps no record of its owners says yes.
    async fn knows(&self, _pipeline: &PipelineId) -> Result<bool> {
        Ok(true)
    }

    /// Takes ownership for this attempt: from now on an older owner's commits are refused as `Fenced`. Called once per
    /// attempt, before anything else is opened.
    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<Ownership>;

    /// Takes part in an attempt for which the sink was acquired by another object of it, maybe in another process: instead
    /// of [`Sink::acquire`], where the parts of a job do not share one sink object. Then no part sees what another has
    /// opened or knows; all that they have in common is the target system.
    async fn join(&self, pipeline: &PipelineId, member: &Member<'_>) -> Result<()>;

    /// The progress of every table that this pipeline ever committed to.
    async fn progress(&self, pipeline: &PipelineId) -> Result<Vec<TableProgress>>;

    /// A writer of one table for one writer instance. Called at the first sight of the table's rows.
    async fn writer(
        &self,
        table: &TableId,
        context: &OperatorContext,
    ) -> Result<Box<dyn SinkWriter>>;

    async fn committer(&self, context: &OperatorContext) -> Result<Box<dyn Committer>>;

    async fn metadata_applier(&self, context: &OperatorContext)
    -> Result<Box<dyn MetadataApplier>>;

    /// `None` when the sink has nothing to publish per epoch.
    async fn epoch_publisher(
        &self,
        context: &OperatorContext,
    ) -> Result<Option<Box<dyn EpochPublisher>>>;
}

/// Writes the rows of one table that fall to one writer instance.
///
/// The outcome of an epoch is the state of the table after all its rows in order: a put row of a keyed table is an
/// upsert, the last one of a key wins, a delete of a missing key is counted and otherwise does nothing.
#[async_trait]
pub trait SinkWriter: Send {
    /// Takes rows. May complete files when it holds much; never commits.
    async fn write(&mut self, change: DataChange) -> Result<()>;

    /// What it holds in memory, apart from lookup structures.
    fn buffered_bytes(&self) -> usize;

    /// Completes files to give memory back.
    async fn flush(&mut self) -> Result<()>;

    /// Completes all files (barrier or mark) and returns them for the committer. Returns nothing when there is nothing.
    async fn complete_files(&mut self) -> Result<Vec<Committable>>;

    /// The table's epoch is committed, or its schema changed, or it was dropped: reload what depends on the table.
    async fn table_changed(&mut self) -> Result<()>;
}

/// Makes epochs visible. Calling it twice is calling it once.
#[async_trait]
pub trait Committer: Send {
    /// Commits the tables of one epoch, concurrently where it can. A table that already holds the epoch (decided by
    /// offsets, not by checkpoint ids) is left alone and reported as `already`.
    ///
    /// The outer error ends the attempt (`Fenced`, `Transient`, and `EpochLost` when what was completed for this epoch is
    /// gone); an inner error belongs to its table.
    async fn commit(
        &mut self,
        epoch: &Epoch,
        tables: BTreeMap<TableId, Vec<Committable>>,
    ) -> Result<Vec<(TableId, Result<CommittedTable, Error>)>>;

    /// Called once per attempt, before any new work: everything that the restored checkpoint had left is committed. What
    /// earlier attempts wrote beyond it will never be, and can be discarded.
    async fn restored(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Publishes an epoch once all of its tables are committed.
#[async_trait]
pub trait EpochPublisher: Send {
    /// Publishing twice is publishing once.
    async fn publish(&mut self, epoch: &EpochCommitted) -> Result<()>;
}

/// Applies DDL to the sink. Idempotent by the event's id: a DDL that the table already has is a no-op.
#[async_trait]
pub trait MetadataApplier: Send {
    /// What has to happen before [`MetadataApplier::apply`].
    fn needs(&self, event: &SchemaEvent) -> DdlNeeds;

    /// True when the table already has this DDL or a later one.
    async fn is_applied(&mut self, ddl: &DdlId) -> Result<bool>;

    /// Asked again and again, once nothing stands before the DDL any more: starts in the sink what takes long, and is true
    /// when [`MetadataApplier::apply`] would not wait. Meanwhile the table's rows are held, and other tables go on.
    async fn prepare(&mut self, event: &SchemaEvent) -> Result<bool> {
        let _ = event;
        Ok(true)
    }

    /// # Errors
    /// `SchemaIncompatible` when the sink cannot express the change; nothing was changed then.
    async fn apply(&mut self, event: &SchemaEvent) -> Result<()>;
}
