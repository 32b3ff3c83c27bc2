//! The operators between a source and a sink, and the plan that puts them in a line.
//!
//! ```text
//! source ─► Router ─► StreamDdlHandler ─► DynamicStreamWriter ×N ─► DynamicFilesCommitter ─► CheckCommitSink
//! ```
//!
//! They see the vocabulary of `lakeward-core` only: no connector and no runtime.

pub mod check_commit_sink;
pub mod ddl_handler;
pub mod dynamic_committer;
pub mod dynamic_writer;
pub mod held;
pub mod merge;
pub mod pipeline;
pub mod policy;
pub mod projection;
pub mod route;
pub mod router;
pub mod sink_list;
mod state;

pub use pipeline::{PipelineDefinition, StageShape, plan_of, stages_of};
pub use policy::{SchemaChangeBehavior, SchemaPolicy};
pub use route::{RouteMode, RouteRule, Routes, ShardKey};

/// What happens when one table cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TableErrorPolicy {
    /// The job stops.
    #[default]
    Fail,
    /// That table is left out, the others go on.
    Pause,
}
