//! A pipeline's definition and the plan that a runtime runs.

use std::sync::Arc;

use lakeward_core::{
    Error, Operator, OperatorContext, PipelineId, Plan, Result, Sink, Source, Stage, State,
};

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

/// An operator as a job's graph shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageShape {
    pub name: &'static str,
    pub parallelism: usize,
    /// Its part of the job's memory, against the other stages' weights.
    pub memory_weight: usize,
}

const ROUTER: &str = "Router";
const HANDLER: &str = "StreamDdlHandler";
const WRITER: &str = "DynamicStreamWriter";
const COMMITTER: &str = "DynamicFilesCommitter";
const CHECK: &str = "CheckCommitSink";

/// The stages of a pipeline in the order of the flow; nothing is opened for it. DDL handler and committer have one
/// instance each: both work per table, not per row, and one committer can make all tables of an epoch one commit.
pub fn stages_of(has_routes: bool, writers: usize) -> Vec<StageShape> {
    let one = |name| StageShape { name, parallelism: 1, memory_weight: 1 };
    let writers = StageShape {
        parallelism: writers.max(1),
        memory_weight: WRITER_MEMORY_WEIGHT,
        ..one(WRITER)
    };
    let router = has_routes.then(|| one(ROUTER));
    router.into_iter().chain([one(HANDLER), writers, one(COMMITTER), one(CHECK)]).collect()
}

/// The operators in a line.
pub fn plan_of(pipeline: &PipelineDefinition) -> Plan {
    let shapes = stages_of(!pipeline.routes.is_empty(), pipeline.parallelism);
    let stages = shapes.into_iter().map(|shape| {
        let pipeline = pipeline.clone();
        Stage::new(shape.name, shape.parallelism, move |context| {
            Ok(operator(shape.name, context, &pipeline))
        })
        .with_memory_weight(shape.memory_weight)
        .with_redistribute(everything_to_all)
    });
    let (id, source) = (pipeline.id.clone(), pipeline.source.clone());
    Plan { pipeline: id, source, stages: stages.collect() }
}

fn operator(
    name: &str,
    context: OperatorContext,
    pipeline: &PipelineDefinition,
) -> Box<dyn Operator> {
    let PipelineDefinition { source, sink, routes, policy, table_errors, parallelism, .. } =
        pipeline.clone();
    match name {
        ROUTER => Box::new(Router::new(routes)),
        HANDLER => Box::new(StreamDdlHandler::new(context, sink, policy, table_errors)),
        WRITER => Box::new(DynamicStreamWriter::new(context, sink, table_errors)),
        COMMITTER => Box::new(DynamicFilesCommitter::new(
            context,
            sink,
            source,
            table_errors,
            parallelism.max(1),
        )),
        _ => Box::new(CheckCommitSink::new(context, sink, table_errors)),
    }
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
