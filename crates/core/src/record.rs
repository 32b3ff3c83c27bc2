//! What travels between operators.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;

use crate::{DdlId, Error, Offset, Offsets, Position, SchemaEvent, SplitId, TableId, TableSchema};

/// The name of a consistent cut through the whole job. Grows within one state directory; it is not an order across a
/// restore of an older checkpoint, so decisions about what is committed are made on offsets.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct CheckpointId(pub u64);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What happened to a row. As in Flink, an update is a pair `UpdateBefore`, `UpdateAfter`; see [`DataChange`] for when
/// the first half may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum RowKind {
    Insert = 0,
    UpdateBefore = 1,
    UpdateAfter = 2,
    Delete = 3,
}

impl RowKind {
    pub fn short(self) -> &'static str {
        match self {
            RowKind::Insert => "+I",
            RowKind::UpdateBefore => "-U",
            RowKind::UpdateAfter => "+U",
            RowKind::Delete => "-D",
        }
    }

    /// True for the kinds that put a row, false for those that take one away.
    pub fn is_put(self) -> bool {
        matches!(self, RowKind::Insert | RowKind::UpdateAfter)
    }
}

/// A run of rows of one source transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Segment {
    /// Rows of the batch up to here (exclusive) belong to it.
    pub end: u32,
    pub position: Position,
    /// When the source committed it, in milliseconds since the epoch; for snapshot rows, when they were read.
    pub commit_ms: i64,
}

/// Cells that the source did not send (minimal row images, unchanged TOAST values): a third state beside value and null.
/// One entry per column, `None` where every cell of the column is known; a set bit marks a cell as not sent. The array
/// holds null there, which means nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Unavailable(pub Vec<Option<BooleanBuffer>>);

/// Changed rows of one table, in source order, all read under one schema version.
///
/// - `rows` has exactly the columns of `schema`, in its order and with its Arrow layouts. `kinds.len() == rows.num_rows()`.
/// - `segments` cover the rows without gaps; a batch may span transactions, never a checkpoint or a DDL of its table.
/// - For a table with a primary key, a source sends an update whose key is unchanged as one `UpdateAfter` row, and one
///   whose key changed as `Delete` of the old key followed by `Insert`. Of a `Delete` only the key columns need be known.
///   For a table without a key it always sends `UpdateBefore` (whole old row) followed by `UpdateAfter`.
/// - Snapshot rows are `Insert` rows with `snapshot` set. A sink treats a put row of a keyed table as an upsert, since a
///   resumed snapshot may repeat rows.
#[derive(Debug, Clone)]
pub struct DataChange {
    pub table: TableId,
    pub schema: Arc<TableSchema>,
    pub kinds: Vec<RowKind>,
    pub rows: RecordBatch,
    pub unavailable: Option<Unavailable>,
    pub segments: Vec<Segment>,
    pub snapshot: bool,
}

/// Asks the writers of a table to complete its files, ahead of a DDL.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    pub table: TableId,
    pub ddl: DdlId,
    /// On the way to the writers `None`; a writer passes it on to the committer with its own index.
    pub writer: Option<usize>,
}

/// A writer's finished work for one table, for the committer: opaque to all but the sink that made it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Committable {
    pub table: TableId,
    /// The sink's format version of `payload`.
    pub version: u32,
    pub payload: Vec<u8>,
    /// Rows in it, for metrics.
    pub rows: u64,
    pub size_bytes: u64,
    /// The newest source commit in it, in milliseconds since the epoch.
    pub commit_ms: i64,
}

/// How far a reader has come. The source emits one to all at each barrier, before each DDL, and now and then between.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// Set by the DDL handler at a barrier for a table whose rows it holds: in this epoch that table is complete only up
    /// to this offset. `None` for all other tables.
    pub table: Option<TableId>,
    pub split: SplitId,
    pub offset: Offset,
    /// The newest source commit that it covers, in milliseconds since the epoch.
    pub commit_ms: i64,
}

/// One committer's report that its part of an epoch is visible in the sink.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EpochCommitted {
    pub checkpoint: CheckpointId,
    /// Index and number of the committers that report.
    pub committer: (usize, usize),
    pub offsets: Offsets,
    /// The newest source commit in the epoch, in milliseconds since the epoch; 0 for an epoch without rows.
    pub commit_ms: i64,
    /// Changed tables and the sink's name for their new version (Iceberg: snapshot id).
    pub tables: BTreeMap<String, String>,
    pub rows: u64,
    /// Rows from before the offsets still wait behind a DDL.
    #[serde(default)]
    pub held: bool,
}

/// A table that cannot go on.
#[derive(Debug)]
pub struct TableFailure {
    pub table: TableId,
    pub error: Error,
}

/// The one thing that travels. Barriers are the runtime's and are not records.
#[derive(Debug)]
pub enum StreamRecord {
    Data(DataChange),
    Schema(SchemaEvent),
    Mark(Mark),
    Committable(Committable),
    Progress(Progress),
    Committed(EpochCommitted),
    Failure(TableFailure),
}

impl StreamRecord {
    /// What it holds in memory, for bounding queues. Buffers that several batches share count for each of them.
    pub fn size_bytes(&self) -> usize {
        const OVERHEAD: usize = 256;
        OVERHEAD
            + match self {
                StreamRecord::Data(change) => {
                    change.rows.get_array_memory_size()
                        + change.kinds.len()
                        + change.segments.len() * size_of::<Segment>()
                }
                StreamRecord::Committable(committable) => committable.payload.len(),
                StreamRecord::Schema(event) => event.changes.len() * OVERHEAD,
                StreamRecord::Committed(epoch) => epoch.tables.len() * OVERHEAD,
                StreamRecord::Mark(_) | StreamRecord::Progress(_) | StreamRecord::Failure(_) => 0,
            }
    }
}
