//! The vocabulary of Lakeward: what travels, what a table looks like, what a connector and an operator promise.
//!
//! Nothing here starts a task, opens a socket or reads a clock. The crate depends on arrow and little else, so that
//! every other crate, whatever runtime it serves, speaks the same language.

pub mod change;
pub mod codec;
pub mod context;
pub mod error;
pub mod keys;
pub mod literal;
pub mod metrics;
pub mod offset;
pub mod operator;
pub mod options;
pub mod plan;
pub mod record;
pub mod schema;
pub mod sink;
pub mod source;
pub mod table;

pub use change::{ColumnPlace, SchemaChange, SchemaEvent};
pub use context::{
    CheckpointRequester, Clock, DdlId, JobListener, MarkStage, OperatorContext, PipelineId,
    SuccessMarks,
};
pub use error::{Error, ErrorKind, Result, ResultExt};
pub use literal::Literal;
pub use metrics::{Counter, Gauge, MetricGroup};
pub use offset::{Offset, Offsets, Position, SplitId};
pub use operator::{Collector, Operator, Target};
pub use plan::{OperatorFactory, Plan, Redistribute, Stage};
pub use record::{
    CheckpointId, Committable, DataChange, EpochCommitted, Mark, Progress, RowKind, Segment,
    StreamRecord, TableFailure, Unavailable,
};
pub use schema::{Column, DataType, TableSchema};
pub use sink::{
    CommittedTable, Committer, DdlNeeds, Epoch, EpochPublisher, Member, MetadataApplier, Ownership,
    Sink, SinkCheck, SinkWriter, TableProgress,
};
pub use source::{
    Reached, ReadStatus, Source, SourceCheck, SourceOpen, SourceReader, SourceTable, tables_ahead,
};
pub use table::TableId;

/// State of one operator instance or source reader at one checkpoint: opaque bytes with a version that their owner gave.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct State {
    /// The owner's format version. An owner reads every version that it ever wrote.
    pub version: u32,
    pub bytes: Vec<u8>,
}

impl State {
    /// State that is a serde value, as JSON: readable in an emergency, tolerant of added fields.
    pub fn from_json<T: serde::Serialize>(version: u32, value: &T) -> Result<Self> {
        let bytes = serde_json::to_vec(value)
            .map_err(|e| Error::bug("could not encode the state").with_source(e))?;
        Ok(Self { version, bytes })
    }

    /// The inverse of [`State::from_json`].
    pub fn to_json<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.bytes).map_err(|e| {
            Error::config(
                "the state in this checkpoint cannot be read by this version of lakeward; use the version that wrote it, \
                 or start over with a new state directory",
            )
            .with("state version", self.version)
            .with_source(e)
        })
    }
}
