//! One instance of a stage: opened when the attempt's begin arrives, then called as every runtime calls it.

use lakeward_core::{
    CheckpointId, Collector, Error, Member, Operator, Result, State, StreamRecord, codec,
};

use lakeward_runtime::store::{decode_state, encode_state};

use crate::context::Context;
use crate::marks;
use crate::state_copies::StateCopies;
use crate::wire::{Begin, Control, Outputs, Received, receive};

/// What a call may return before Java has to send it on.
const CALL_BYTES: usize = 4 << 20;

pub(crate) struct OperatorInstance {
    context: Context,
    stage: usize,
    downstream: usize,
    /// As Flink gave it back: the states of all instances.
    restored: Vec<Vec<u8>>,
    open: Option<Open>,
    collector: Collector,
    /// The record that is being processed, and how far.
    input: (Vec<u8>, usize),
    watches: bool,
    finished: bool,
    copies: StateCopies,
}

struct Open {
    operator: Box<dyn Operator>,
    attempt: u64,
}

impl OperatorInstance {
    pub(crate) fn new(context: Context, stage: usize, restored: Vec<Vec<u8>>) -> Result<Self> {
        let downstream = context.downstream()?;
        let copies = StateCopies::of(&context);
        Ok(Self {
            context,
            stage,
            downstream,
            restored,
            open: None,
            collector: Collector::default(),
            input: (Vec::new(), 0),
            watches: false,
            finished: false,
            copies,
        })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn downstream(&self) -> usize {
        self.downstream
    }

    pub(crate) async fn process(&mut self, record: Vec<u8>, out: &mut Outputs) -> Result<()> {
        match receive(&record)? {
            Received::Begin(begin) => self.begin(begin, out).await,
            Received::Frames(start) => {
                if self.input.1 < self.input.0.len() {
                    return Err(Error::bug("a record came before the last one was done"));
                }
                self.input = (record, start);
                self.go_on(out).await
            }
        }
    }

    async fn begin(&mut self, begin: Begin, out: &mut Outputs) -> Result<()> {
        if let Some(open) = &self.open {
            return match open.attempt == begin.attempt {
                true => Ok(()),
                false => Err(Error::transient("two attempts of the job have met")),
            };
        }
        out.begin(&begin)?;
        let stage = &self.context.plan.stages[self.stage];
        let mut states = std::mem::take(&mut self.restored);
        if states.is_empty() {
            states = begin.states_of(&stage.name)?;
        }
        let states = states.iter().map(|s| decode_state(s)).collect::<Result<Vec<State>>>()?;
        let restored = match (&stage.redistribute, states.is_empty()) {
            (_, true) => None,
            (Some(redistribute), false) => {
                redistribute(states, stage.parallelism)?.into_iter().nth(self.context.index)
            }
            (None, false) => states.into_iter().nth(self.context.index),
        };
        let member = self.context.member();
        let member = Member { attempt: begin.attempt, ownership: &begin.ownership, name: &member };
        self.context.definition.sink.join(&self.context.definition.id, &member).await?;
        let context = self.context.operator_context(begin.attempt, self.downstream);
        let mut operator = (stage.factory)(context)?;
        operator.open(restored, &mut self.collector).await?;
        self.open = Some(Open { operator, attempt: begin.attempt });
        self.settle(out).await?;
        let folder = marks::folder(begin.attempt);
        let (operator, index) = (&self.context.operator, self.context.index);
        self.context.marks.leave_name(format!("{folder}/open.{operator}.{index}"));
        Ok(())
    }

    /// Processes what is left of the input, and lets the operator emit what is left of its answer.
    async fn go_on(&mut self, out: &mut Outputs) -> Result<()> {
        loop {
            if !self.settle(out).await? {
                return Ok(());
            }
            let Some(record) = self.next_record()? else { return Ok(()) };
            let Some(open) = &mut self.open else {
                return Err(Error::bug("a record came before the attempt's begin"));
            };
            open.operator.process(record, &mut self.collector).await?;
        }
    }

    fn next_record(&mut self) -> Result<Option<StreamRecord>> {
        let (input, at) = &mut self.input;
        let mut rest = &input[(*at).min(input.len())..];
        let record = codec::decode(&mut rest);
        *at = input.len() - rest.len();
        if !matches!(record, Ok(Some(_))) {
            self.input = (Vec::new(), 0);
        }
        record
    }

    /// Puts out what was emitted. False when it was stopped by its size, to go on in the next `poll`.
    async fn settle(&mut self, out: &mut Outputs) -> Result<bool> {
        loop {
            out.collect(&mut self.collector)?;
            let Some(open) = &mut self.open else { return Ok(true) };
            if out.bytes() >= CALL_BYTES {
                out.control(Control::More);
                return Ok(false);
            }
            if !open.operator.has_more() {
                return Ok(true);
            }
            open.operator.emit_more(&mut self.collector).await?;
        }
    }

    pub(crate) async fn poll(&mut self, out: &mut Outputs) -> Result<()> {
        if self.input.1 < self.input.0.len() {
            return self.go_on(out).await;
        }
        self.tick(out).await
    }

    async fn tick(&mut self, out: &mut Outputs) -> Result<()> {
        if !self.settle(out).await? {
            return Ok(());
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        open.operator.tick(&mut self.collector).await?;
        self.watch(out);
        self.settle(out).await.map(drop)
    }

    /// Marks are listed only while something waits for them.
    fn watch(&mut self, out: &mut Outputs) {
        let Some(open) = &self.open else { return };
        let holds = open.operator.holds();
        if holds != self.watches {
            self.watches = holds;
            let folder = marks::folder(open.attempt);
            out.control(if holds { Control::Watch(folder) } else { Control::Unwatch(folder) });
        }
    }

    pub(crate) async fn prepare_snapshot(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Outputs,
    ) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.operator.prepare_snapshot(checkpoint, &mut self.collector).await?;
        out.collect(&mut self.collector)
    }

    pub(crate) async fn snapshot_state(&mut self, checkpoint: CheckpointId) -> Result<Vec<u8>> {
        let Some(open) = &mut self.open else { return self.unopened_state() };
        let state = open.operator.snapshot_state(checkpoint).await?;
        let bytes = encode_state(&state);
        self.copies.taken(open.attempt, checkpoint, &bytes);
        Ok(if state.bytes.is_empty() { Vec::new() } else { bytes })
    }

    /// What Flink gave back goes back as it was. It was given to every instance, so one of them keeps it.
    fn unopened_state(&self) -> Result<Vec<u8>> {
        if self.context.index > 0 || self.restored.is_empty() {
            return Ok(Vec::new());
        }
        let states = self.restored.iter().map(|s| decode_state(s)).collect::<Result<Vec<_>>>()?;
        let stage = &self.context.plan.stages[self.stage];
        let whole = match &stage.redistribute {
            Some(redistribute) => redistribute(states, 1)?.into_iter().next(),
            None => states.into_iter().next(),
        };
        Ok(whole.map(|state| encode_state(&state)).unwrap_or_default())
    }

    pub(crate) async fn checkpoint_complete(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Outputs,
    ) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.operator.checkpoint_complete(checkpoint, &mut self.collector).await?;
        self.copies.completed(checkpoint, out);
        if self.finished {
            return self.nothing_is_lost();
        }
        self.tick(out).await
    }

    /// Behind its last record a stage sends nothing. A source ends only when everything has been committed, so what a last
    /// commit says is that there was nothing to do.
    fn nothing_is_lost(&mut self) -> Result<()> {
        let mut failures = self.collector.drain().filter_map(|(_, record)| match record {
            StreamRecord::Failure(failure) => Some(failure.error.with("table", failure.table)),
            _ => None,
        });
        failures.next().map_or(Ok(()), Err)
    }

    pub(crate) async fn finish(&mut self, out: &mut Outputs) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.operator.finish(&mut self.collector).await?;
        self.settle(out).await?;
        self.finished = true;
        Ok(())
    }
}
