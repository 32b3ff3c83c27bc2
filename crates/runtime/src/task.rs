//! The task of one operator instance: aligns barriers, calls the operator, sends on what it emits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lakeward_core::{
    CheckpointId, Collector, Error, Offsets, Operator, Result, State, StreamRecord, Target,
};
use tokio::sync::mpsc;

use crate::Timer;
use crate::gate::{Element, GateSender, InputGate};
use crate::signal::Watcher;
use crate::status::StatusCell;

/// One instance among those of a stage, or one reader of the source. Displayed as `DynamicStreamWriter#1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InstanceId {
    /// 0 for the source, 1 for the first stage.
    pub(crate) stage: usize,
    pub(crate) name: Arc<str>,
    pub(crate) index: usize,
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.index)
    }
}

/// An instance's part of a checkpoint.
pub(crate) struct Ack {
    pub(crate) instance: InstanceId,
    pub(crate) checkpoint: CheckpointId,
    pub(crate) state: State,
    pub(crate) holds: bool,
    /// Set by readers only.
    pub(crate) offsets: Offsets,
}

/// Sends an instance's output to the next stage.
pub(crate) struct Outputs {
    pub(crate) senders: Vec<GateSender>,
}

impl Outputs {
    pub(crate) async fn emit(&self, target: Target, record: StreamRecord) -> Result<()> {
        let count = self.senders.len();
        let index = match target {
            _ if count == 0 => {
                return Err(Error::bug("the last stage has emitted a record"));
            }
            Target::All => {
                for sender in &self.senders[1..] {
                    sender.send(Element::Record(copy(&record))).await;
                }
                0
            }
            Target::Index(index) if index < count => index,
            Target::Index(index) => {
                return Err(Error::bug("a record goes to an instance that is not there")
                    .with("instance", index)
                    .with("instances", count));
            }
            Target::Hash(hash) => (hash % count as u64) as usize,
        };
        self.senders[index].send(Element::Record(record)).await;
        Ok(())
    }

    pub(crate) async fn barrier(&self, checkpoint: CheckpointId) {
        for sender in &self.senders {
            sender.send(Element::Barrier(checkpoint)).await;
        }
    }

    pub(crate) async fn end(&self) {
        for sender in &self.senders {
            sender.send(Element::End).await;
        }
    }
}

/// A record for one receiver more. Batches share their buffers.
fn copy(record: &StreamRecord) -> StreamRecord {
    match record {
        StreamRecord::Data(change) => StreamRecord::Data(change.clone()),
        StreamRecord::Schema(event) => StreamRecord::Schema(event.clone()),
        StreamRecord::Mark(mark) => StreamRecord::Mark(mark.clone()),
        StreamRecord::Committable(committable) => StreamRecord::Committable(committable.clone()),
        StreamRecord::Progress(progress) => StreamRecord::Progress(progress.clone()),
        StreamRecord::Committed(epoch) => StreamRecord::Committed(epoch.clone()),
        StreamRecord::Failure(failure) => StreamRecord::Failure(lakeward_core::TableFailure {
            table: failure.table.clone(),
            error: Error::new(failure.error.kind(), failure.error.to_string()),
        }),
    }
}

/// What reaches every task from the side.
#[derive(Clone)]
pub(crate) struct Signals {
    /// The newest checkpoint that is complete.
    pub(crate) completed: Watcher<u64>,
    /// Changes when a success mark was left.
    pub(crate) marks: Watcher<()>,
    pub(crate) acks: mpsc::Sender<Ack>,
    pub(crate) status: Arc<StatusCell>,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) tick: Duration,
}

pub(crate) struct OperatorTask {
    pub(crate) instance: InstanceId,
    pub(crate) operator: Box<dyn Operator>,
    pub(crate) restored: Option<State>,
    pub(crate) inputs: InputGate,
    pub(crate) outputs: Outputs,
    pub(crate) signals: Signals,
    pub(crate) opened: mpsc::Sender<()>,
}

enum Event {
    Completed(u64),
    Tick,
    Input(usize, Element),
}

impl OperatorTask {
    /// Runs until it fails or is dropped.
    pub(crate) async fn run(mut self) -> Result<()> {
        let instance = self.instance.clone();
        match self.calls().await {
            Ok(never) => match never {},
            Err(e) => Err(e.with("operator", instance)),
        }
    }

    async fn calls(&mut self) -> Result<std::convert::Infallible> {
        let mut out = Collector::default();
        let restored = self.restored.take();
        self.operator.open(restored, &mut out).await?;
        self.send(&mut out).await?;
        // Nobody listens any more only when the attempt is over, and then this task is too.
        let _ = self.opened.send(()).await;

        let (timer, period) = (self.signals.timer.clone(), self.signals.tick);
        let mut due = timer.sleep(period);
        let mut ended = 0;
        let mut aligning = None;
        loop {
            let event = tokio::select! {
                biased;
                completed = self.signals.completed.changed() => Event::Completed(completed),
                () = self.signals.marks.changed() => Event::Tick,
                () = &mut due => {
                    due = timer.sleep(period);
                    Event::Tick
                }
                (input, element) = self.inputs.recv() => Event::Input(input, element),
            };
            match event {
                Event::Completed(checkpoint) => {
                    self.complete(checkpoint, &mut out).await?;
                    self.operator.tick(&mut out).await?;
                }
                Event::Tick => self.operator.tick(&mut out).await?,
                Event::Input(_, Element::Record(record)) => {
                    self.operator.process(record, &mut out).await?;
                }
                Event::Input(_, Element::End) => {
                    ended += 1;
                    if ended == self.inputs.inputs() {
                        self.operator.finish(&mut out).await?;
                        self.send(&mut out).await?;
                        self.outputs.end().await;
                    }
                }
                Event::Input(input, Element::Barrier(checkpoint)) => {
                    if *aligning.get_or_insert(checkpoint) != checkpoint {
                        return Err(
                            Error::bug("two barriers have met").with("checkpoint", checkpoint)
                        );
                    }
                    self.inputs.block(input);
                    if self.inputs.all_blocked() {
                        aligning = None;
                        self.inputs.unblock_all();
                        self.snapshot(checkpoint, &mut out).await?;
                    }
                }
            }
            self.send(&mut out).await?;
        }
    }

    async fn snapshot(&mut self, checkpoint: CheckpointId, out: &mut Collector) -> Result<()> {
        // A checkpoint completes before the next one starts, and the operator hears of it in that order.
        if let Some(completed) = self.signals.completed.take_change() {
            self.complete(completed, out).await?;
        }
        self.operator.prepare_snapshot(checkpoint, out).await?;
        self.send(out).await?;
        let state = self.operator.snapshot_state(checkpoint).await?;
        let holds = self.operator.holds();
        let instance = self.instance.clone();
        let ack = Ack { instance, checkpoint, state, holds, offsets: Offsets::new() };
        let _ = self.signals.acks.send(ack).await;
        self.outputs.barrier(checkpoint).await;
        Ok(())
    }

    async fn complete(&mut self, checkpoint: u64, out: &mut Collector) -> Result<()> {
        self.operator.checkpoint_complete(CheckpointId(checkpoint), out).await?;
        self.send(out).await
    }

    async fn send(&mut self, out: &mut Collector) -> Result<()> {
        loop {
            for (target, record) in out.drain() {
                self.signals.status.emitted(&record);
                self.outputs.emit(target, record).await?;
            }
            if !self.operator.has_more() {
                return Ok(());
            }
            self.operator.emit_more(out).await?;
        }
    }
}
