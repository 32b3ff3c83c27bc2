//! What a job is started with.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use lakeward_core::{Clock, JobListener, MetricGroup, Reached, Result, TableId};

use crate::{CheckpointStore, RestartStrategy, SystemClock, SystemTimer, Timer};

/// Called with the attempt's number before anything else of it: takes ownership of the sink and gives back how far each
/// source table has come in it.
pub type BeforeAttempt =
    Arc<dyn Fn(u64) -> BoxFuture<'static, Result<HashMap<TableId, Reached>>> + Send + Sync>;

/// Where a job reaches out of the runtime.
#[derive(Clone, Default)]
pub struct Hooks {
    pub before_attempt: Option<BeforeAttempt>,
    pub listener: Option<Arc<dyn JobListener>>,
}

#[derive(Clone)]
pub struct JobOptions {
    pub store: Arc<dyn CheckpointStore>,
    /// For spilled rows; emptied at each attempt. One job's own.
    pub scratch_dir: PathBuf,
    /// From the start of one checkpoint to the start of the next.
    pub checkpoint_interval: Duration,
    /// From the end of one checkpoint to the start of the next, requested ones too.
    pub checkpoint_min_pause: Duration,
    /// A checkpoint that takes longer is reported, again and again, with those it waits for. It is not given up: a source
    /// transaction may be that large.
    pub checkpoint_report_after: Duration,
    pub restart: RestartStrategy,
    /// How many readers are wanted; the source decides.
    pub source_parallelism: usize,
    /// What the whole job may hold in memory, apart from what operators keep to look rows up.
    pub memory_bytes: usize,
    /// Tables to be read anew, by the user's wish (`*` for all). In force until a checkpoint is complete.
    pub resnapshot: Vec<String>,
    pub metrics: MetricGroup,
    pub clock: Arc<dyn Clock>,
    pub timer: Arc<dyn Timer>,
    /// How often an idle operator is called.
    pub tick: Duration,
    /// How long a stop may take before it is given up as a failure. Nothing is lost then either.
    pub stop_timeout: Duration,
    /// How long a source may take to close, and tasks to end, once they must.
    pub cancel_timeout: Duration,
    /// Makes the jitter of restart delays repeatable.
    pub seed: Option<u64>,
}

impl JobOptions {
    pub fn new(store: Arc<dyn CheckpointStore>, scratch_dir: impl Into<PathBuf>) -> Self {
        Self {
            store,
            scratch_dir: scratch_dir.into(),
            checkpoint_interval: Duration::from_secs(10),
            checkpoint_min_pause: Duration::from_millis(100),
            checkpoint_report_after: Duration::from_secs(60),
            restart: RestartStrategy::default(),
            source_parallelism: 1,
            memory_bytes: 128 << 20,
            resnapshot: Vec::new(),
            metrics: MetricGroup::default(),
            clock: Arc::new(SystemClock),
            timer: Arc::new(SystemTimer::default()),
            tick: Duration::from_millis(20),
            stop_timeout: Duration::from_secs(120),
            cancel_timeout: Duration::from_secs(10),
            seed: None,
        }
    }
}
