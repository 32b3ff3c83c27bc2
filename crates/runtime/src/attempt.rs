//! One attempt: opens everything from the newest checkpoint, runs it, and ends every task.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use lakeward_core::{
    CheckpointId, CheckpointRequester as _, Error, MetricGroup, Offsets, Operator, OperatorContext,
    Result, SourceOpen, TableId, tables_ahead,
};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::checkpoint::{Coordinator, Pace, Trigger, suspended};
use crate::gate::{GateLimit, GateSender, InputGate, gate};
use crate::job::Shared;
use crate::listener::AttemptListener;
use crate::marks::MemoryMarks;
use crate::restore::{Restored, check_not_lost, restore};
use crate::signal::Signal;
use crate::source_task::{Snapshotting, SourceTask};
use crate::status::{JobState, JobStatus};
use crate::store::Loaded;
use crate::task::{InstanceId, OperatorTask, Outputs, Signals};
use crate::time::timeout;

/// Elements that wait between two instances.
const GATE_RECORDS: usize = 32;
/// A queue that holds less than this would make batches wait for no good reason.
const GATE_BYTES_MIN: usize = 1 << 20;

type Tasks = JoinSet<Result<()>>;

/// Runs until the job is to stop and its last epoch is committed, or until something fails. No task outlives it.
pub(crate) async fn run(job: &Shared, attempt: u64) -> Result<()> {
    let cancel = CancellationToken::new();
    let mut tasks = Tasks::new();
    let mut stop = job.stop.watch();
    let started = async {
        let start = AssertUnwindSafe(start(job, attempt, &cancel, &mut tasks)).catch_unwind();
        match start.await {
            Ok(result) => result.map(Some),
            Err(panic) => Err(panicked(&*panic)),
        }
    };
    // Until records flow there is nothing to complete: what an earlier attempt has left to commit is in its checkpoint.
    let started = tokio::select! {
        biased;
        () = suspended(&mut stop) => Ok(None),
        started = started => started,
    };
    let result = match started {
        Ok(Some((coordinator, readers))) => watch_over(coordinator, readers, &mut tasks).await,
        Ok(None) => Ok(()),
        Err(e) => Err(e),
    };
    cancel.cancel();
    end(job, tasks).await;
    result
}

async fn start(
    job: &Shared,
    attempt: u64,
    cancel: &CancellationToken,
    tasks: &mut Tasks,
) -> Result<(Coordinator, usize)> {
    let (plan, options) = (&job.plan, &job.options);
    let committed = match &job.hooks.before_attempt {
        Some(hook) => hook(attempt).await?,
        None => Default::default(),
    };
    let Loaded { checkpoint, last_id } = options.store.load().await?;
    let resnapshot = job.resnapshot();
    check_not_lost(checkpoint.as_ref(), &committed, &resnapshot)?;
    let readers = plan.source.reader_parallelism(options.source_parallelism.max(1)).max(1);
    let Restored { source: reader_states, stages: stage_states } =
        restore(plan, readers, checkpoint.as_ref())?;
    let ahead = tables_ahead(&committed, checkpoint.as_ref().map(|c| CheckpointId(c.id)));
    let committed: HashMap<TableId, Offsets> =
        committed.into_iter().map(|(table, reached)| (table, reached.offsets)).collect();
    let is_first = checkpoint.is_none() && committed.is_empty() && resnapshot.is_empty();
    let restored = checkpoint.as_ref().map(|c| c.id);
    job.status.update(|status| status.restored = restored);
    tracing::info!(attempt, checkpoint = restored, "attempt starts");

    let listener = Arc::new(AttemptListener::new(
        job.status.clone(),
        options.clock.clone(),
        job.hooks.listener.clone(),
    ));
    if let Some(checkpoint) = &checkpoint {
        // What is to be read anew is not complete, however far the log has come.
        listener.completed(checkpoint.id, checkpoint.held || !resnapshot.is_empty());
    }
    let marks = Arc::new(MemoryMarks::default());
    let total = readers + plan.stages.iter().map(|s| s.parallelism).sum::<usize>();
    let (acks, acks_received) = mpsc::channel(total);
    let (opened, mut opened_received) = mpsc::channel(total);
    let completed = Signal::new(0);
    let trigger = Signal::new(Trigger::default());
    let signals = Signals {
        completed: completed.watch(),
        marks: marks.changes(),
        acks: acks.clone(),
        status: job.status.clone(),
        timer: options.timer.clone(),
        tick: options.tick,
    };
    let scratch = Scratch::make(job, attempt)?;
    let memory = Memory::of(job, readers);

    let mut instances = Vec::with_capacity(total);
    for index in 0..readers {
        instances.push(InstanceId { stage: 0, name: "Source".into(), index });
    }
    let (mut senders, mut gates) = connect(readers, plan.stages.first(), memory.gate_bytes);
    let source_senders = std::mem::take(&mut senders);
    for (at, (stage, states)) in plan.stages.iter().zip(stage_states).enumerate() {
        let next = plan.stages.get(at + 1);
        let (next_senders, next_gates) = connect(stage.parallelism, next, memory.gate_bytes);
        let inputs = std::mem::replace(&mut gates, next_gates);
        let parts = inputs.into_iter().zip(next_senders).zip(states).enumerate();
        for (index, ((inputs, outputs), restored)) in parts {
            let instance = InstanceId { stage: at + 1, name: stage.name.clone(), index };
            let context = OperatorContext {
                operator: stage.name.clone(),
                index,
                parallelism: stage.parallelism,
                downstream_parallelism: next.map_or(0, |s| s.parallelism),
                pipeline: plan.pipeline.clone(),
                attempt,
                checkpoint_interval_ms: millis(options.checkpoint_interval),
                clock: options.clock.clone(),
                metrics: metrics(&options.metrics, &instance),
                marks: marks.clone(),
                checkpoints: job.requests.clone(),
                listener: listener.clone(),
                scratch_dir: scratch.dir(&instance)?,
                memory_bytes: memory.of_stage(stage.memory_weight) / stage.parallelism,
            };
            let operator: Box<dyn Operator> = (stage.factory)(context)?;
            let task = OperatorTask {
                instance: instance.clone(),
                operator,
                restored,
                inputs,
                outputs: Outputs { senders: outputs },
                signals: signals.clone(),
                opened: opened.clone(),
            };
            let cancel = cancel.clone();
            tasks.spawn(async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => Ok(()),
                    result = task.run() => result,
                }
            });
            instances.push(instance);
        }
    }
    drop(opened);
    let all_open = async {
        for _ in readers..total {
            opened_received.recv().await.ok_or_else(|| Error::bug("an operator has vanished"))?;
        }
        Ok(())
    };
    unless_failed(tasks, all_open).await?;

    let snapshotting = Snapshotting::new(readers);
    let restored_readers = reader_states.into_iter().zip(source_senders).zip(&instances);
    for ((restored, outputs), instance) in restored_readers {
        let open = SourceOpen {
            pipeline: plan.pipeline.clone(),
            attempt,
            index: instance.index,
            parallelism: readers,
            restored,
            committed: committed.clone(),
            ahead: ahead.clone(),
            resnapshot: resnapshot.clone(),
            clock: options.clock.clone(),
            checkpoints: job.requests.clone(),
            metrics: metrics(&options.metrics, instance),
            memory_bytes: memory.source_bytes / readers,
        };
        let task = SourceTask {
            instance: instance.clone(),
            reader: unless_failed(tasks, plan.source.open(open)).await?,
            is_first,
            outputs: Outputs { senders: outputs },
            trigger: trigger.watch(),
            committed: listener.committed(),
            acks: acks.clone(),
            status: job.status.clone(),
            snapshotting: snapshotting.clone(),
            cancel: cancel.clone(),
            timer: options.timer.clone(),
            close_timeout: options.cancel_timeout,
        };
        tasks.spawn(task.run());
    }
    job.status.running(JobState::Snapshotting);
    if is_first {
        job.requests.request();
    }
    let coordinator = Coordinator {
        store: options.store.clone(),
        clock: options.clock.clone(),
        timer: options.timer.clone(),
        status: job.status.clone(),
        listener,
        requests: job.requests.clone(),
        pace: Pace {
            interval: options.checkpoint_interval,
            min_pause: options.checkpoint_min_pause,
            report_after: options.checkpoint_report_after,
        },
        attempt,
        last_id: last_id.max(restored.unwrap_or(0)),
        instances,
        acks: acks_received,
        trigger,
        completed,
        stop: job.stop.watch(),
    };
    Ok((coordinator, readers))
}

/// Each of `from` sending instances to each instance of the stage: senders by sending instance, gates by receiving one.
fn connect(
    from: usize,
    to: Option<&lakeward_core::Stage>,
    bytes: usize,
) -> (Vec<Vec<GateSender>>, Vec<InputGate>) {
    let mut senders: Vec<Vec<GateSender>> = (0..from).map(|_| Vec::new()).collect();
    let mut gates = Vec::new();
    for _ in 0..to.map_or(0, |s| s.parallelism) {
        let (inputs, gate_of_one) = gate(from, GateLimit { records: GATE_RECORDS, bytes });
        for (sender, input) in senders.iter_mut().zip(inputs) {
            sender.push(input);
        }
        gates.push(gate_of_one);
    }
    (senders, gates)
}

/// Runs until the last epoch is committed and the readers know, or until anyone fails.
async fn watch_over(coordinator: Coordinator, readers: usize, tasks: &mut Tasks) -> Result<()> {
    tasks.spawn(coordinator.run());
    // Operators end only by failing or by being cancelled.
    for _ in 0..readers + 1 {
        match tasks.join_next().await {
            Some(ended) => outcome(ended)?,
            None => return Err(Error::bug("an attempt ran without tasks")),
        }
    }
    Ok(())
}

/// The future's result, unless a task fails first.
async fn unless_failed<T>(tasks: &mut Tasks, future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        Some(ended) = tasks.join_next() => {
            outcome(ended)?;
            Err(Error::bug("a task ended before it should"))
        }
        result = future => result,
    }
}

fn outcome(ended: Result<Result<()>, JoinError>) -> Result<()> {
    match ended {
        Ok(result) => result,
        Err(e) => match e.try_into_panic() {
            Ok(panic) => Err(panicked(&*panic)),
            Err(_) => Err(Error::bug("a task was cut off")),
        },
    }
}

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Error::bug(format!("a task panicked, which is a defect of lakeward: {text}"))
}

async fn end(job: &Shared, mut tasks: Tasks) {
    let all = async { while tasks.join_next().await.is_some() {} };
    // The source may take its own time to close; after that only a call that never yields can be left.
    let patience = job.options.cancel_timeout * 2;
    if timeout(&*job.options.timer, patience, all).await.is_none() {
        tracing::error!(tasks = tasks.len(), "tasks did not end in time; they are left behind");
        tasks.abort_all();
    }
}

fn metrics(root: &MetricGroup, instance: &InstanceId) -> MetricGroup {
    root.with("operator", &instance.name).with("index", instance.index)
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How the job's memory is shared out: an eighth in the queues, an eighth to the readers, the rest to the operators.
struct Memory {
    gate_bytes: usize,
    source_bytes: usize,
    operator_bytes: usize,
    weights: usize,
}

impl Memory {
    fn of(job: &Shared, readers: usize) -> Self {
        let total = job.options.memory_bytes;
        let stages = &job.plan.stages;
        let mut from = readers;
        let mut queues = 0;
        for stage in stages {
            queues += from * stage.parallelism;
            from = stage.parallelism;
        }
        Self {
            gate_bytes: (total / 8 / queues.max(1)).max(GATE_BYTES_MIN),
            source_bytes: total / 8,
            operator_bytes: total / 4 * 3,
            weights: stages.iter().map(|s| s.memory_weight).sum::<usize>().max(1),
        }
    }

    fn of_stage(&self, weight: usize) -> usize {
        self.operator_bytes / self.weights * weight
    }
}

/// The folder for spilled rows. What an earlier attempt left there is of no use.
struct Scratch {
    dir: std::path::PathBuf,
}

impl Scratch {
    /// On the task's own thread: nothing of the job moves yet.
    fn make(job: &Shared, attempt: u64) -> Result<Self> {
        let root = &job.options.scratch_dir;
        match std::fs::remove_dir_all(root) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::transient("could not empty the scratch directory")
                    .with("path", root.display())
                    .with_source(e))
            }
            _ => Ok(Self { dir: root.join(format!("attempt-{attempt}")) }),
        }
    }

    fn dir(&self, instance: &InstanceId) -> Result<std::path::PathBuf> {
        let dir = self.dir.join(format!("{}-{}", instance.name, instance.index));
        std::fs::create_dir_all(&dir).map_err(|e| {
            Error::transient("could not make a scratch directory")
                .with("path", dir.display())
                .with_source(e)
        })?;
        Ok(dir)
    }
}

/// What the status says while nothing of an attempt is open yet.
pub(crate) fn starting(status: &mut JobStatus, attempt: u64, now_ms: i64) {
    status.state = JobState::Starting;
    status.attempt = attempt;
    status.attempt_started_ms = now_ms;
    status.next_attempt_ms = None;
    status.checkpoint_in_flight = None;
}
