//! Puts a pipeline file's source, sink and operators together and starts the job.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::flink;
use futures::FutureExt;
use lakeward_core::{EpochCommitted, Error, JobListener, MetricGroup, Result, Source, TableId};
use lakeward_operators::{PipelineDefinition, plan_of};
use lakeward_pipeline::pipeline_file::pipeline::RestartStrategyOption;
use lakeward_pipeline::pipeline_file::{PipelineConfig, PipelineFile};
use lakeward_pipeline::{Connectors, Floors, definition_of, pipeline_id};
use lakeward_runtime::{
    BeforeAttempt, CheckpointStore, DirStore, Hooks, Identity, Job, JobHandle, JobOptions,
    RestartStrategy,
};

/// A job that was started, and what others need to tell about it.
#[derive(Clone)]
pub struct Running {
    pub handle: JobHandle,
    pub source: Arc<dyn Source>,
    pub metrics: MetricGroup,
    pub checkpoint_interval_ms: u64,
}

/// Where a run's state comes from, when not from the pipeline's own state directory.
pub enum TakeOver {
    Nothing,
    /// From a job on Flink; from that folder, or from where the last job was told to keep copies of its states.
    Flink(Option<PathBuf>),
}

/// `resnapshot` names tables to be read anew, `*` for all.
pub async fn start(
    file: &PipelineFile,
    connectors: Connectors,
    resnapshot: Vec<String>,
    take_over: TakeOver,
) -> Result<Running> {
    for warning in &connectors.warnings {
        tracing::warn!("{warning}");
    }
    let config = &file.pipeline;
    let identity = identity_of(file, &connectors);
    let store = Arc::new(DirStore::open(file.state_dir(), identity)?);
    match take_over {
        TakeOver::Flink(folder) => flink::import(file, folder.as_deref(), &store).await?,
        TakeOver::Nothing => flink::refuse_to_run_beside_it(file)?,
    }
    let source = connectors.source.clone();
    let definition = definition_of(file, &connectors);
    let metrics = MetricGroup::default();
    check_sink_knows(&definition, &*store, &resnapshot).await?;
    let mut options = JobOptions::new(store, file.state_dir().join("scratch"));
    options.checkpoint_interval = config.checkpoint_interval.0;
    // Whoever asks for checkpoints without a pause gets them.
    options.checkpoint_min_pause = options.checkpoint_min_pause.min(options.checkpoint_interval);
    options.restart = restart_of(config);
    options.source_parallelism = config.parallelism.into();
    options.memory_bytes = usize::try_from(config.memory.0).unwrap_or(usize::MAX);
    options.resnapshot = resnapshot.clone();
    options.metrics = metrics.clone();
    let read_anew = Arc::new(ReadAnew { tables: resnapshot, done: AtomicBool::new(false) });
    let hooks = Hooks {
        before_attempt: Some(before_attempt(&definition, read_anew.clone())),
        listener: Some(read_anew),
    };
    let handle = Job::start(plan_of(&definition), options, hooks)?;
    let checkpoint_interval_ms = config.checkpoint_interval.as_millis();
    Ok(Running { handle, source, metrics, checkpoint_interval_ms })
}

/// What a state directory of the pipeline says whose it is.
pub fn identity_of(file: &PipelineFile, connectors: &Connectors) -> Identity {
    Identity {
        pipeline: pipeline_id(file),
        source: connectors.source_identity.clone(),
        sink: connectors.sink_identity.clone(),
    }
}

/// Refuses to go on into a sink that has never heard of the pipeline: what its state says is there would be missing for
/// ever, in silence.
async fn check_sink_knows(
    pipeline: &PipelineDefinition,
    store: &dyn CheckpointStore,
    resnapshot: &[String],
) -> Result<()> {
    let has_state = store.load().await?.checkpoint.is_some();
    if !has_state || !resnapshot.is_empty() {
        return Ok(());
    }
    match pipeline.sink.knows(&pipeline.id).await {
        Ok(false) => {}
        Ok(true) => return Ok(()),
        // The first attempt meets it as well, and waits.
        Err(e) if e.kind().is_retryable() => return Ok(()),
        Err(e) => return Err(e),
    }
    Err(Error::config(
        "the state directory has a checkpoint of this pipeline, but the sink has never heard of it: its catalog was deleted or \
         replaced; put it back, or read the tables anew with --resnapshot",
    ))
}

/// The user's wish to read tables anew, in force until an epoch is committed.
struct ReadAnew {
    tables: Vec<String>,
    done: AtomicBool,
}

impl ReadAnew {
    fn holds(&self, table: &TableId) -> bool {
        !self.done.load(Ordering::Acquire)
            && self.tables.iter().any(|t| t == "*" || *t == table.to_string())
    }
}

impl JobListener for ReadAnew {
    fn epoch_committed(&self, _: &EpochCommitted) {
        self.done.store(true, Ordering::Release);
    }

    fn table_paused(&self, _: &TableId, _: &Error) {}
    fn table_resumed(&self, _: &TableId) {}

    fn schema_changed(&self, _: &TableId, _: &str) {}
}

/// Before each attempt: takes the sink over, and finds how far it holds each table.
fn before_attempt(definition: &PipelineDefinition, read_anew: Arc<ReadAnew>) -> BeforeAttempt {
    let (id, sink) = (definition.id.clone(), definition.sink.clone());
    let floors = Floors::new(definition);
    Arc::new(move |attempt| {
        let (id, sink) = (id.clone(), sink.clone());
        let (floors, read_anew) = (floors.clone(), read_anew.clone());
        async move {
            sink.acquire(&id, attempt).await?;
            let mut floors = floors.read().await?;
            floors.retain(|table, _| !read_anew.holds(table));
            Ok(floors)
        }
        .boxed()
    })
}

fn restart_of(config: &PipelineConfig) -> RestartStrategy {
    match config.restart_strategy {
        RestartStrategyOption::ExponentialDelay => RestartStrategy::ExponentialDelay {
            initial: config.initial_backoff.0,
            max: config.max_backoff.0,
            factor: config.backoff_multiplier.max(1.0),
            jitter: config.jitter_factor.clamp(0.0, 1.0),
            reset_after: config.reset_backoff_threshold.0,
        },
        RestartStrategyOption::FixedDelay => RestartStrategy::FixedDelay {
            attempts: Some(config.fixed_delay_attempts),
            delay: config.fixed_delay.0,
        },
        RestartStrategyOption::None => RestartStrategy::None,
    }
}
