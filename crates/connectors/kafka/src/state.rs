//! What a reader stores at a checkpoint.

use std::sync::Arc;

use lakeward_core::{Position, SchemaEvent};
use serde::{Deserialize, Serialize};

use crate::offset::TopicPartition;
use crate::shape::ShapeState;

/// Format version of [`ReaderState`]. Every version ever written is read.
pub const STATE_VERSION: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReaderState {
    /// Place of the last step of any table that was decided.
    pub last_step: Position,
    /// Topics in the order in which they were found: a topic's number never changes.
    pub topics: Vec<Arc<str>>,
    pub partitions: Vec<PartitionState>,
    pub tables: Vec<ShapeState>,
    /// Steps of tables that are decided and not taken: they are the first thing to do.
    #[serde(default)]
    pub decided: Vec<Decision>,
    /// DDL statements that were taken in, newest last, so that copies of them are known.
    #[serde(default)]
    pub statements: Vec<u64>,
    /// The topics were read before into the same sink: a table that appears starts over.
    #[serde(default)]
    pub resets: bool,
    /// The newest change, in milliseconds since the epoch.
    pub commit_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartitionState {
    #[serde(flatten)]
    pub partition: TopicPartition,
    /// The first record that was not emitted.
    pub offset: i64,
    /// It has had DDL.
    #[serde(default)]
    pub has_statements: bool,
}

/// A step of a table that records or a DDL ask for. It is stored by a checkpoint before anyone acts on it, so that every
/// attempt takes the same steps in the same order, in whatever order it meets the partitions' records.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Decision {
    /// `None` where nothing changes for the sink.
    pub event: Option<SchemaEvent>,
    /// The table from then on.
    pub after: Option<ShapeState>,
    /// Its name until then.
    pub table: lakeward_core::TableId,
}
