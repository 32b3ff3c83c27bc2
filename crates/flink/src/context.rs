//! What every instance is opened with: its pipeline, its place in it, and what the process has once.

use std::sync::{Arc, OnceLock};

use lakeward_core::{
    CheckpointRequester, Clock, EpochCommitted, Error, JobListener, MetricGroup, OperatorContext,
    Plan, Result, TableId,
};
use lakeward_operators::{PipelineDefinition, plan_of};
use lakeward_pipeline::definition_of;
use lakeward_pipeline::pipeline_file::{PipelineFile, Use};
use lakeward_pipeline::registry::Connectors;
use lakeward_runtime::SystemClock;
use tokio::runtime::Runtime;

use crate::marks::{self, Marks};
use crate::spec::Spec;

/// The one runtime of this process, for whatever operators wait for.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        // Two providers are in the tree; without a choice the first TLS connection would panic.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cores.max(4))
            .thread_name("lakeward")
            .enable_all()
            .build()
            .map_err(|e| e.to_string())
    });
    made.as_ref().map_err(|e| {
        Error::transient(format!("the threads of the lakeward library cannot be started: {e}"))
    })
}

/// One instance's pipeline and place.
pub(crate) struct Context {
    pub(crate) file: PipelineFile,
    pub(crate) definition: PipelineDefinition,
    pub(crate) plan: Plan,
    pub(crate) connectors: Connectors,
    /// A state directory of the embedded runtime that the first attempt goes on from.
    pub(crate) restore_from: Option<std::path::PathBuf>,
    pub(crate) bounded: bool,
    pub(crate) until_caught_up: bool,
    pub(crate) operator: Arc<str>,
    pub(crate) index: usize,
    pub(crate) parallelism: usize,
    pub(crate) marks: Arc<Marks>,
    pub(crate) metrics: MetricGroup,
    pub(crate) clock: Arc<dyn Clock>,
    memory_bytes: usize,
    scratch_dir: std::path::PathBuf,
    checkpoint_interval_ms: u64,
}

impl Context {
    pub(crate) async fn of(spec: &Spec) -> Result<Self> {
        let file = spec.pipeline(Use::All)?;
        let connectors = Connectors::of(&file).await?;
        let definition = definition_of(&file, &connectors);
        let plan = plan_of(&definition);
        let until_caught_up = spec.get("until") == Some("caught-up");
        let operator: Arc<str> = spec.text("operator")?.into();
        let index: usize = spec.number("index")?;
        for warning in connectors.warnings.iter().filter(|_| &*operator == "Source" && index == 0) {
            tracing::warn!("{warning}");
        }
        Ok(Self {
            bounded: connectors.bounded || until_caught_up,
            connectors,
            restore_from: spec.get("restore.from").map(Into::into),
            until_caught_up,
            definition,
            plan,
            operator,
            index,
            parallelism: spec.number("parallelism")?,
            marks: Arc::default(),
            metrics: MetricGroup::default(),
            clock: Arc::new(SystemClock),
            memory_bytes: spec.number("memory.bytes")?,
            scratch_dir: spec.text("scratch.dir")?.into(),
            checkpoint_interval_ms: spec.number("checkpoint.interval.ms")?,
            file,
        })
    }

    /// Where the operator is in the plan; `None` for the source.
    pub(crate) fn stage(&self) -> Result<Option<usize>> {
        if &*self.operator == "Source" {
            return Ok(None);
        }
        let at = self.plan.stages.iter().position(|stage| stage.name == self.operator);
        let at = at.ok_or_else(|| {
            Error::bug("the job has an operator that its pipeline does not have")
                .with("operator", &self.operator)
        })?;
        if self.plan.stages[at].parallelism != self.parallelism {
            return Err(Error::config(
                "an operator runs at another parallelism than its pipeline says; leave it to `pipeline.parallelism`",
            )
            .with("operator", &self.operator)
            .with("parallelism", self.parallelism));
        }
        Ok(Some(at))
    }

    /// Instances of the stage behind this one.
    pub(crate) fn downstream(&self) -> Result<usize> {
        let next = self.stage()?.map_or(0, |at| at + 1);
        Ok(self.plan.stages.get(next).map_or(0, |stage| stage.parallelism))
    }

    /// Instances of all stages behind the source.
    pub(crate) fn instances(&self) -> usize {
        self.plan.stages.iter().map(|stage| stage.parallelism).sum()
    }

    /// What Flink gives this instance, or, where it says nothing, its part of `pipeline.memory`.
    pub(crate) fn memory_bytes(&self) -> usize {
        if self.memory_bytes > 0 {
            return self.memory_bytes;
        }
        let total = usize::try_from(self.file.pipeline.memory.0).unwrap_or(usize::MAX);
        let weights: usize = self.plan.stages.iter().map(|stage| stage.memory_weight).sum();
        let stage = self.plan.stages.iter().find(|stage| stage.name == self.operator);
        match stage {
            Some(stage) => {
                total / 4 * 3 / weights.max(1) * stage.memory_weight / self.parallelism.max(1)
            }
            None => total / 8,
        }
    }

    /// For an operator of the attempt.
    pub(crate) fn operator_context(&self, attempt: u64, downstream: usize) -> OperatorContext {
        OperatorContext {
            operator: self.operator.clone(),
            index: self.index,
            parallelism: self.parallelism,
            downstream_parallelism: downstream,
            pipeline: self.definition.id.clone(),
            attempt,
            checkpoint_interval_ms: self.checkpoint_interval_ms,
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            marks: self.marks.clone(),
            checkpoints: Arc::new(FlinkDecides),
            listener: Arc::new(Listener {
                marks: self.marks.clone(),
                folder: marks::folder(attempt),
                tells_epochs: self.bounded,
            }),
            scratch_dir: self.scratch_dir.clone(),
            memory_bytes: self.memory_bytes(),
        }
    }

    /// Unlike that of all other instances of the job.
    pub(crate) fn member(&self) -> String {
        format!("{}-{}", self.operator, self.index)
    }
}

/// Flink takes checkpoints when it sees fit.
pub(crate) struct FlinkDecides;

impl CheckpointRequester for FlinkDecides {
    fn request(&self) {}
}

/// Tells the source of a bounded job how far the sink has come, and the log what happens to tables.
struct Listener {
    marks: Arc<Marks>,
    folder: String,
    tells_epochs: bool,
}

/// What the mark of a committed epoch begins with.
pub(crate) const EPOCH: &str = "epoch.";

impl JobListener for Listener {
    fn epoch_committed(&self, epoch: &EpochCommitted) {
        if self.tells_epochs && !epoch.held {
            self.marks.leave_name(format!("{}/{EPOCH}{}", self.folder, epoch.checkpoint));
        }
    }

    fn table_paused(&self, table: &TableId, error: &Error) {
        tracing::error!(%table, %error, "the table is paused");
    }

    fn table_resumed(&self, table: &TableId) {
        tracing::info!(%table, "the table goes on");
    }

    fn schema_changed(&self, table: &TableId, what: &str) {
        tracing::info!(%table, what, "schema changed");
    }
}
