//! A pipeline's definition and the plan that a runtime runs.

use std::sync::Arc;

use lakeward_core::{Error, PipelineId, Plan, Result, Sink, Source, Stage, State};

use crate::check_commit_sink::CheckCommitSink;
use crate::ddl_handler::StreamDdlHandler;
use crate::dynamic_committer::DynamicFilesCommitter;
use crate::dynamic_writer::DynamicStreamWriter;
use crate::policy::SchemaPolicy;
use crate::route::Routes;
use crate::router::Router;
use crate::{TableErrorPolicy, state};

/// What a pipeline is, apart from how it is run.
#[derive(Clone)]
pub struct PipelineDefinition {
    pub id: PipelineId,
    pub source: Arc<dyn Source>,
    pub sink: Arc<dyn Sink>,
    pub routes: Arc<Routes>,
    pub policy: SchemaPolicy,
    pub table_errors: TableErrorPolicy,
    /// Writer instances.
    pub parallelism: usize,
}

/// Memory of the writers against that of the other stages.
const WRITER_MEMORY_WEIGHT: usize = 8;

/// The operators in a line. DDL handler and committer have one instance each: both work per table, not per row, and one
/// committer can make all tables of an epoch one commit.
pub fn plan_of(pipeline: &PipelineDefinition) -> Plan {
    let PipelineDefinition { id, source, sink, routes, policy, table_errors, parallelism } =
        pipeline.clone();
    let writers = parallelism.max(1);
    let mut stages = Vec::new();
    if !routes.is_empty() {
        stages.push(Stage::new("Router", 1, move |_| Ok(Box::new(Router::new(routes.clone())))));
    }
    let (handler_sink, writer_sink, committer_sink) = (sink.clone(), sink.clone(), sink.clone());
    stages.push(Stage::new("StreamDdlHandler", 1, move |context| {
        let (sink, policy) = (handler_sink.clone(), policy.clone());
        Ok(Box::new(StreamDdlHandler::new(context, sink, policy, table_errors)))
    }));
    stages.push(
        Stage::new("DynamicStreamWriter", writers, move |context| {
            Ok(Box::new(DynamicStreamWriter::new(context, writer_sink.clone(), table_errors)))
        })
        .with_memory_weight(WRITER_MEMORY_WEIGHT),
    );
    let commit_source = source.clone();
    stages.push(Stage::new("DynamicFilesCommitter", 1, move |context| {
        let (sink, source) = (committer_sink.clone(), commit_source.clone());
        Ok(Box::new(DynamicFilesCommitter::new(context, sink, source, table_errors, writers)))
    }));
    stages.push(Stage::new("CheckCommitSink", 1, move |context| {
        Ok(Box::new(CheckCommitSink::new(context, sink.clone(), table_errors)))
    }));
    let stages = stages.into_iter().map(|s| s.with_redistribute(everything_to_all)).collect();
    Plan { pipeline: id, source, stages }
}

/// Every new instance gets the states of all old ones and keeps what it owns.
fn everything_to_all(states: Vec<State>, parallelism: usize) -> Result<Vec<State>> {
    if let Some(foreign) = states.iter().find(|s| s.version != state::VERSION) {
        return Err(Error::config(
            "the checkpoint holds operator state of another version of lakeward; use the version that wrote it",
        )
        .with("state version", foreign.version));
    }
    let bytes: Vec<u8> = states.into_iter().flat_map(|s| s.bytes).collect();
    Ok(vec![State { version: state::VERSION, bytes }; parallelism])
}
