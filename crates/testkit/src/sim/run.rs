//! Runs a scenario to its end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lakeward_core::{PipelineId, Reached, Result, Sink, Source, TableId};
use lakeward_operators::{PipelineDefinition, TableErrorPolicy, plan_of};
use lakeward_runtime::{Hooks, Job, JobHandle, JobOptions, MemoryStore, Timer, Until, VirtualTime};
use lakeward_values::{Contents, Database, Faults, Lake, Pause, Random, ValuesSink, ValuesSource};

use super::check::{Failure, check, lake_contents};
use super::sabotage::{SabotagedSink, SabotagedSource};
use super::store::SimulatedStore;
use super::{Phase, Scenario};

/// How much simulated time a phase may take before it counts as hung.
const PHASE_LIMIT: Duration = Duration::from_secs(600);
/// More deaths than any plan asks for.
const LIVES: usize = 50;

/// What a run left behind.
#[derive(Debug)]
pub struct Outcome {
    pub contents: Contents,
    /// Every step of source, sink and store, in order.
    pub trace: Vec<String>,
    /// How often the process was started.
    pub lives: usize,
}

impl Outcome {
    pub fn steps(&self) -> u64 {
        self.trace.len() as u64
    }

    /// Numbers of the steps whose name begins so.
    pub fn steps_named(&self, prefix: &str) -> Vec<u64> {
        let numbered = self.trace.iter().zip(1..);
        numbered.filter(|(name, _)| name.starts_with(prefix)).map(|(_, step)| step).collect()
    }
}

/// What outlives a process.
pub(super) struct World {
    pub(super) time: VirtualTime,
    pub(super) database: Database,
    pub(super) lake: Lake,
    pub(super) faults: Faults,
    pub(super) disk: MemoryStore,
    scratch: PathBuf,
}

/// Runs the scenario and compares the lake with the source.
///
/// # Errors
/// What is wrong in the end, or the error or hang that kept it from ending.
pub fn run(scenario: &Scenario) -> Result<Outcome, Failure> {
    let scratch = tempfile::tempdir().map_err(Failure::of)?;
    run_with(scenario, scratch.path())
}

/// As [`run`], with a folder that many runs share.
///
/// # Errors
/// As [`run`].
pub fn run_with(scenario: &Scenario, scratch: &Path) -> Result<Outcome, Failure> {
    let time = VirtualTime::default();
    let sleeps = time.clone();
    let pause: Pause = Arc::new(move |duration| sleeps.sleep(duration));
    let world = World {
        faults: Faults::new(pause).with_latency(scenario.seed, scenario.latency_ms),
        time,
        database: Database::default(),
        lake: Lake::default(),
        disk: MemoryStore::default(),
        scratch: scratch.to_path_buf(),
    };
    for (step, fault) in &scenario.faults {
        world.faults.plan_at(*step, fault.clone());
    }
    for statement in &scenario.setup {
        world.database.run(statement).map_err(Failure::of)?;
    }
    let mut lives = 0;
    for phase in &scenario.phases {
        if let Some(kept) = world.disk.ids().iter().rev().nth(phase.rewind) {
            world.disk.rewind_to(*kept);
        }
        lives += run_phase(scenario, phase, &world)?;
        check(scenario, &world)?;
    }
    Ok(Outcome { contents: lake_contents(&world), trace: world.faults.trace(), lives })
}

/// Gives back how many lives it took.
fn run_phase(scenario: &Scenario, phase: &Phase, world: &World) -> Result<usize, Failure> {
    let whole = async {
        let client = tokio::spawn(client(scenario.seed, phase.clone(), world));
        let mut client = Some(client);
        for life in 1..=LIVES {
            world.faults.revive();
            let job = start(scenario, phase, world)?;
            let ended = tokio::select! {
                biased;
                () = death(world) => None,
                ended = live(&job, &mut client) => Some(ended),
            };
            match ended {
                // It failed because it died.
                Some(Err(_)) | None if world.faults.is_dead() => {
                    job.abort();
                    // Failed, because aborted; what matters is that it has ended.
                    let _ = job.wait().await;
                }
                Some(Ok(())) => return Ok(life),
                Some(Err(e)) => return Err(e),
                None => {}
            }
        }
        Err(Failure::new(format!("has not ended after {LIVES} lives")))
    };
    match world.time.block_on(PHASE_LIMIT, whole) {
        Some(result) => result.map_err(|f| f.with_trace(&world.faults)),
        None => Err(Failure::new("hangs").with_trace(&world.faults)),
    }
}

type Client = tokio::task::JoinHandle<Result<()>>;

/// Until all statements have run and the pipeline has caught up with them.
async fn live(job: &JobHandle, client: &mut Option<Client>) -> Result<(), Failure> {
    if let Some(running) = client {
        // The pipeline may fail for good while the client still talks.
        tokio::select! {
            biased;
            ran = &mut *running => ran.map_err(Failure::of)?.map_err(Failure::of)?,
            ended = job.wait() => {
                ended.map_err(Failure::of)?;
                return Err(Failure::new("the pipeline ended by itself"));
            }
        }
        *client = None;
    }
    job.run_until(Until::CaughtUp).await.map_err(Failure::of)
}

async fn death(world: &World) {
    while !world.faults.is_dead() {
        world.time.sleep(Duration::from_millis(1)).await;
    }
}

/// Talks to the database, whatever happens to the pipeline.
fn client(
    seed: u64,
    phase: Phase,
    world: &World,
) -> impl Future<Output = Result<()>> + Send + 'static {
    let (time, database) = (world.time.clone(), world.database.clone());
    let mut random = Random::new(seed ^ 0xc11e);
    async move {
        for statement in phase.statements {
            if phase.pause_ms > 0 {
                let pause_ms = random.below(phase.pause_ms + 1);
                time.sleep(Duration::from_millis(pause_ms)).await;
            }
            database.run(&statement)?;
        }
        Ok(())
    }
}

fn start(scenario: &Scenario, phase: &Phase, world: &World) -> Result<JobHandle, Failure> {
    let faults = world.faults.clone();
    let mut sink: Arc<dyn Sink> = Arc::new(ValuesSink::new(world.lake.clone(), faults.clone()));
    let mut source: Arc<dyn Source> =
        Arc::new(ValuesSource::new(world.database.clone(), faults.clone(), scenario.pace));
    if let Some(sabotage) = scenario.sabotage {
        sink = Arc::new(SabotagedSink { sink, sabotage, done: Arc::default() });
        source = Arc::new(SabotagedSource { source, sabotage });
    }
    let id = PipelineId("simulated".into());
    let plan = plan_of(&PipelineDefinition {
        id: id.clone(),
        source,
        sink: sink.clone(),
        routes: Arc::default(),
        policy: Default::default(),
        table_errors: TableErrorPolicy::Fail,
        parallelism: phase.parallelism,
    });
    let store = SimulatedStore { disk: world.disk.clone(), faults, sabotage: scenario.sabotage };
    let options = JobOptions {
        checkpoint_interval: scenario.checkpoint_interval,
        checkpoint_min_pause: Duration::from_millis(5),
        restart: scenario.restart.clone(),
        clock: Arc::new(world.time.clone()),
        timer: Arc::new(world.time.clone()),
        seed: Some(scenario.seed),
        ..JobOptions::new(Arc::new(store), world.scratch.join("scratch"))
    };
    let hooks = Hooks {
        before_attempt: Some(Arc::new(move |attempt| {
            Box::pin(before_attempt(sink.clone(), id.clone(), attempt))
        })),
        listener: None,
    };
    Job::start(plan, options, hooks).map_err(Failure::of)
}

async fn before_attempt(
    sink: Arc<dyn Sink>,
    id: PipelineId,
    attempt: u64,
) -> Result<HashMap<TableId, Reached>> {
    sink.acquire(&id, attempt).await?;
    let progress = sink.progress(&id).await?;
    let reached = progress
        .into_iter()
        .map(|p| (p.table, Reached { offsets: p.offsets, checkpoint: p.checkpoint }));
    Ok(reached.collect())
}
