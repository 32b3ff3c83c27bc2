//! One step of a pipeline: a plain value that a runtime calls.

use async_trait::async_trait;

use crate::{CheckpointId, Result, State, StreamRecord};

/// Where a record goes in the next stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To every instance.
    All,
    /// To one instance, by its index.
    Index(usize),
    /// To the instance that owns this hash: `hash % parallelism`.
    Hash(u64),
}

/// Takes what an operator emits, in order.
#[derive(Debug, Default)]
pub struct Collector {
    records: Vec<(Target, StreamRecord)>,
}

impl Collector {
    pub fn emit(&mut self, target: Target, record: StreamRecord) {
        self.records.push((target, record));
    }

    pub fn drain(&mut self) -> std::vec::Drain<'_, (Target, StreamRecord)> {
        self.records.drain(..)
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// One instance of an operator, within one attempt.
///
/// The runtime calls one method at a time, in this order: `open`, then `process`, `tick` and the checkpoint methods as
/// the stream goes, then `finish` at a bounded end. An operator starts no task, reads no clock but its context's, and
/// never waits for another operator: what it cannot do yet it holds, as state. An error ends the attempt.
#[async_trait]
pub trait Operator: Send {
    /// `restored` is what this instance stored at the checkpoint that the attempt starts from.
    async fn open(&mut self, restored: Option<State>, out: &mut Collector) -> Result<()>;

    /// Takes one record. Records of one upstream instance come in the order in which it emitted them.
    async fn process(&mut self, record: StreamRecord, out: &mut Collector) -> Result<()>;

    /// Called every few milliseconds to tens of milliseconds, also when nothing arrives, and soon after a success mark was
    /// left or a checkpoint completed: the place for what waits for time or for marks.
    async fn tick(&mut self, out: &mut Collector) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// True while the last call has more to emit than it put out: [`Operator::emit_more`] is called next, and nothing else
    /// until this is false. So what one call emits stays bounded, and is sent before more of it is made.
    fn has_more(&self) -> bool {
        false
    }

    /// Emits the next part.
    async fn emit_more(&mut self, out: &mut Collector) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// The barrier has arrived from every input: emit everything that belongs before it.
    async fn prepare_snapshot(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Collector,
    ) -> Result<()>;

    /// The state as of the barrier, after what `prepare_snapshot` emitted.
    async fn snapshot_state(&mut self, checkpoint: CheckpointId) -> Result<State>;

    /// True while it holds records that arrived before the barrier and belong before it: asked right after
    /// `snapshot_state`. An epoch at whose barrier an operator held something does not count as caught up.
    fn holds(&self) -> bool {
        false
    }

    /// Every instance's state of this checkpoint is durable. Checkpoints complete in order; one that never completes is
    /// covered by a later one, so act on everything up to and including `checkpoint`.
    async fn checkpoint_complete(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Collector,
    ) -> Result<()>;

    /// The input has ended. Emit what can be emitted; what still waits for a mark or a commit stays state. The runtime takes a last checkpoint after this, and the operator
    /// still gets its `prepare_snapshot`, `snapshot_state` and `checkpoint_complete`.
    async fn finish(&mut self, out: &mut Collector) -> Result<()>;
}
