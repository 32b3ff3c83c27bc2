//! Takes checkpoints, one at a time: by interval, on request, and a last one at a stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lakeward_core::{CheckpointId, CheckpointRequester, Clock, Error, Result, State};
use tokio::sync::{Notify, mpsc};

use crate::job::Stop;
use crate::listener::AttemptListener;
use crate::signal::{Signal, Watcher};
use crate::status::{CheckpointStatus, InFlightStatus, StatusCell};
use crate::store::StageStates;
use crate::task::{Ack, InstanceId};
use crate::time::timeout;
use crate::{Checkpoint, CheckpointStore, Timer};

/// What the readers are told: put this barrier at the next boundary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trigger {
    pub(crate) checkpoint: CheckpointId,
    /// Read nothing more after it.
    pub(crate) last: bool,
    /// Tell the operators before it that the input has ended.
    pub(crate) end: bool,
}

impl Default for Trigger {
    fn default() -> Self {
        Self { checkpoint: CheckpointId(0), last: false, end: false }
    }
}

/// Requests for a checkpoint. Any number of them before a checkpoint starts are served by that one; one that comes while a
/// checkpoint is being taken is served by the next, because that barrier may have passed what it is about.
#[derive(Debug, Default)]
pub(crate) struct Requests(Notify);

impl CheckpointRequester for Requests {
    fn request(&self) {
        self.0.notify_one();
    }
}

/// When checkpoints are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    pub(crate) min_pause: Duration,
    pub(crate) report_after: Duration,
}

pub(crate) struct Coordinator {
    pub(crate) store: Arc<dyn CheckpointStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) status: Arc<StatusCell>,
    pub(crate) listener: Arc<AttemptListener>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) pace: Pace,
    pub(crate) attempt: u64,
    pub(crate) last_id: u64,
    /// All instances that take part, the readers first.
    pub(crate) instances: Vec<InstanceId>,
    pub(crate) acks: mpsc::Receiver<Ack>,
    pub(crate) trigger: Signal<Trigger>,
    pub(crate) completed: Signal<u64>,
    pub(crate) stop: Watcher<Stop>,
}

impl Coordinator {
    /// Takes checkpoints until it is to stop. Then takes the last one, waits until its epoch is committed, and returns.
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut due = self.timer.now() + self.pace.interval;
        let mut not_before = self.timer.now();
        loop {
            let wanted = async {
                tokio::select! {
                    biased;
                    () = self.requests.0.notified() => {}
                    () = self.timer.sleep_until(due) => {}
                }
                self.timer.sleep_until(not_before).await;
            };
            let stop = tokio::select! {
                biased;
                stop = stopped(&mut self.stop) => stop,
                () = wanted => Stop::No,
            };
            let started = self.timer.now();
            let id = self.take(stop).await?;
            if stop != Stop::No {
                self.listener.committed().wait_for(|newest| newest >= id).await;
                return Ok(());
            }
            due = started + self.pace.interval;
            not_before = self.timer.now() + self.pace.min_pause;
        }
    }

    async fn take(&mut self, stop: Stop) -> Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        let started = self.timer.now();
        let started_ms = self.clock.now_ms();
        let in_flight = InFlightStatus { id, started_ms, waiting_for: Vec::new() };
        self.status.update(|status| status.checkpoint_in_flight = Some(in_flight));
        self.trigger.set(Trigger {
            checkpoint: CheckpointId(id),
            last: stop != Stop::No,
            end: stop == Stop::Finish,
        });
        let acks = self.collect(id, started).await?;
        let checkpoint = Arc::new(self.assemble(id, acks)?);
        let held = checkpoint.held;
        let size_bytes = self.store.save(checkpoint).await.map_err(|e| e.with("checkpoint", id))?;
        let duration_ms = millis(self.timer.now() - started);
        let completed_ms = self.clock.now_ms();
        self.status.update(|status| {
            status.checkpoint_in_flight = None;
            status.checkpoint =
                Some(CheckpointStatus { id, completed_ms, duration_ms, size_bytes });
        });
        self.listener.completed(id, held);
        self.completed.set(id);
        tracing::debug!(checkpoint = id, duration_ms, size_bytes, "checkpoint is complete");
        Ok(id)
    }

    async fn collect(&mut self, id: u64, started: Duration) -> Result<BTreeMap<InstanceId, Ack>> {
        let mut acks = BTreeMap::new();
        let mut report_at = started + self.pace.report_after;
        while acks.len() < self.instances.len() {
            let left = report_at.saturating_sub(self.timer.now());
            match timeout(&*self.timer, left, self.acks.recv()).await {
                Some(Some(ack)) if ack.checkpoint.0 == id => {
                    acks.insert(ack.instance.clone(), ack);
                }
                Some(Some(ack)) => {
                    return Err(Error::bug(
                        "a state came for a checkpoint that is not being taken",
                    )
                    .with("operator", ack.instance)
                    .with("checkpoint", ack.checkpoint));
                }
                Some(None) => return Err(Error::bug("all instances ended during a checkpoint")),
                None => {
                    self.report(id, started, &acks);
                    report_at = self.timer.now() + self.pace.report_after;
                }
            }
        }
        Ok(acks)
    }

    fn report(&self, id: u64, started: Duration, acks: &BTreeMap<InstanceId, Ack>) {
        let missing = self.instances.iter().filter(|i| !acks.contains_key(i));
        let missing: Vec<String> = missing.map(InstanceId::to_string).collect();
        let duration_ms = millis(self.timer.now() - started);
        tracing::warn!(
            checkpoint = id,
            duration_ms,
            "checkpoint is late, waiting for {}; a large source transaction or a slow sink delays it",
            missing.join(", "),
        );
        self.status.update(|status| {
            if let Some(in_flight) = &mut status.checkpoint_in_flight {
                in_flight.waiting_for = missing;
            }
        });
    }

    /// `acks` is ordered by stage and index, as the checkpoint is.
    fn assemble(&self, id: u64, acks: BTreeMap<InstanceId, Ack>) -> Result<Checkpoint> {
        let mut checkpoint = Checkpoint {
            id,
            attempt: self.attempt,
            created_ms: self.clock.now_ms(),
            offsets: Default::default(),
            held: false,
            source: Vec::new(),
            stages: Vec::new(),
        };
        let mut stage = 0;
        for (instance, ack) in acks {
            checkpoint.held |= ack.holds;
            checkpoint.offsets.extend(ack.offsets);
            if instance.stage == 0 {
                checkpoint.source.push(ack.state);
                continue;
            }
            if instance.stage != stage {
                stage = instance.stage;
                let states: Vec<State> = Vec::new();
                checkpoint.stages.push(StageStates { name: instance.name, states });
            }
            match checkpoint.stages.last_mut() {
                Some(last) => last.states.push(ack.state),
                None => return Err(Error::bug("a state came without its stage")),
            }
        }
        Ok(checkpoint)
    }
}

/// Waits until the job is to stop where it is.
pub(crate) async fn suspended(stop: &mut Watcher<Stop>) {
    stop.wait_for(|stop| stop == Stop::Suspend).await;
}

/// Waits until the job is to stop in any way.
async fn stopped(stop: &mut Watcher<Stop>) -> Stop {
    stop.wait_for(|stop| stop != Stop::No).await
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
