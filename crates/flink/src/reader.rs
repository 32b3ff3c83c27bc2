//! The source's instance: begins an attempt, reads between two barriers, ends a bounded job.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lakeward_core::{
    CheckpointId, Collector, Error, Offsets, Ownership, ReadStatus, Result, SourceOpen,
    SourceReader, StreamRecord, TableId, Target, tables_ahead,
};
use lakeward_pipeline::Floors;
use lakeward_runtime::store::SourceState;

use crate::context::{Context, EPOCH, FlinkDecides};
use crate::marks;
use crate::state_copies::StateCopies;
use crate::wire::{Begin, Control, Outputs};

/// How long rows wait for company.
const BATCH: Duration = Duration::from_millis(20);
/// What one call gathers at most, if the source comes to a boundary.
const BATCH_BYTES: usize = 512 << 10;
/// What one call returns in the middle of a source transaction.
const CALL_BYTES: usize = 2 << 20;
/// Between two looks at what others have done.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct SourceInstance {
    context: Context,
    restored: Option<SourceState>,
    /// What is restored is not Flink's: it counts once all operators have their part of it.
    is_moved: bool,
    attempt: u64,
    step: Step,
    collector: Collector,
    /// How far what was put out has come.
    offsets: Offsets,
    told: Offsets,
    streaming: bool,
    at_boundary: bool,
    end: End,
    copies: StateCopies,
}

enum Step {
    /// Nothing has been done.
    New,
    /// All instances are to open.
    Opening,
    /// A first checkpoint is to complete, so that what reaches the sink can be followed from a known place.
    First(Box<dyn SourceReader>, Option<CheckpointId>),
    Reading(Box<dyn SourceReader>),
    Ended,
}

/// Where a bounded job ends.
#[derive(Default)]
struct End {
    offsets: Option<Offsets>,
    reached: bool,
    /// The first barrier behind it.
    checkpoint: Option<CheckpointId>,
}

impl SourceInstance {
    pub(crate) fn new(context: Context, restored: Vec<Vec<u8>>) -> Result<Self> {
        if context.parallelism != 1 {
            return Err(Error::config(
                "this source is read by one reader; leave its parallelism at 1",
            ));
        }
        let restored = restored.first().map(|bytes| SourceState::decode(bytes)).transpose()?;
        let copies = StateCopies::of(&context);
        Ok(Self {
            context,
            restored,
            is_moved: false,
            attempt: 0,
            step: Step::New,
            collector: Collector::default(),
            offsets: Offsets::new(),
            told: Offsets::new(),
            streaming: false,
            at_boundary: false,
            end: End::default(),
            copies,
        })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn downstream(&self) -> usize {
        self.context.plan.stages.first().map_or(0, |stage| stage.parallelism)
    }

    pub(crate) async fn poll(&mut self, out: &mut Outputs) -> Result<()> {
        match self.step {
            Step::New => self.begin(out).await,
            Step::Opening => match self.all_are_open() {
                true => self.open(out).await,
                false => pause().await,
            },
            Step::First(..) => pause().await,
            Step::Reading(_) => self.read(out).await,
            Step::Ended => pause().await,
        }
    }

    async fn begin(&mut self, out: &mut Outputs) -> Result<()> {
        let now = u64::try_from(self.context.clock.now_ms()).unwrap_or(0);
        let last = self.restored.as_ref().map_or(0, |restored| restored.attempt);
        self.attempt = now.max(last + 1);
        let mut states = Vec::new();
        if self.restored.is_none()
            && let Some(moved) = crate::moved::state(&self.context).await?
        {
            self.attempt = self.attempt.max(moved.source.attempt + 1);
            self.restored = Some(moved.source);
            self.is_moved = true;
            states = moved.stages;
        }
        let (attempt, definition) = (self.attempt, &self.context.definition);
        let ownership: Ownership = definition.sink.acquire(&definition.id, attempt).await?;
        tracing::info!(attempt, restored = self.restored.is_some(), "attempt starts");
        let begin = Begin { attempt, ownership, states };
        out.begin(&begin)?;
        let folder = marks::folder(self.attempt);
        out.control(Control::Clear(format!("!{folder}")));
        out.control(Control::Watch(folder));
        self.step = Step::Opening;
        Ok(())
    }

    fn all_are_open(&self) -> bool {
        let open = format!("{}/open.", marks::folder(self.attempt));
        self.context.marks.names_with(&open).len() >= self.context.instances()
    }

    /// Every operator has done what its checkpoint had left to do. Now rows may come.
    async fn open(&mut self, out: &mut Outputs) -> Result<()> {
        if !self.context.bounded {
            out.control(Control::Unwatch(marks::folder(self.attempt)));
        }
        let definition = &self.context.definition;
        let reached = Floors::new(definition).read().await?;
        let from = self.restored.as_ref().map(|restored| restored.checkpoint);
        let ahead = tables_ahead(&reached, from);
        let committed: HashMap<TableId, Offsets> =
            reached.into_iter().map(|(table, reached)| (table, reached.offsets)).collect();
        let restored = self.restored.as_ref().map(|restored| restored.reader.clone());
        if let (None, Some(table)) = (&restored, committed.keys().min()) {
            return Err(Error::config(
                "the sink holds this pipeline's tables but the job starts without their state; start it from its last \
                 savepoint or retained checkpoint",
            )
            .with("table", table)
            .with("tables", committed.len()));
        }
        let is_first = restored.is_none();
        let open = SourceOpen {
            pipeline: definition.id.clone(),
            attempt: self.attempt,
            index: self.context.index,
            parallelism: self.context.parallelism,
            restored,
            committed,
            ahead,
            resnapshot: Vec::new(),
            clock: self.context.clock.clone(),
            checkpoints: Arc::new(FlinkDecides),
            metrics: self.context.metrics.clone(),
            memory_bytes: self.context.memory_bytes(),
        };
        let mut reader = definition.source.open(open).await?;
        if self.context.until_caught_up {
            self.end.offsets = Some(definition.source.current_offsets().await?);
        }
        if is_first && reader.begins_at_boundary() {
            reader.prepare_snapshot(CheckpointId(0), &mut self.collector).await?;
            self.step = Step::First(reader, None);
            return put_out(&mut self.collector, &mut self.offsets, &mut self.told, out);
        }
        self.step = Step::Reading(reader);
        // Where it stands is known once it has read: no barrier may come before.
        self.read(out).await
    }

    async fn read(&mut self, out: &mut Outputs) -> Result<()> {
        let Step::Reading(reader) = &mut self.step else { return Ok(()) };
        if self.end.reached && self.at_boundary {
            return self.wait_for_the_end(out).await;
        }
        let started = Instant::now();
        let before = out.records();
        loop {
            let ReadStatus { at_boundary, streaming } = reader.next(&mut self.collector).await?;
            self.at_boundary = at_boundary;
            self.streaming = streaming;
            put_out(&mut self.collector, &mut self.offsets, &mut self.told, out)?;
            let nothing = out.records() == before;
            let enough = started.elapsed() >= BATCH || out.bytes() >= BATCH_BYTES;
            if at_boundary && (enough || nothing) {
                break;
            }
            if !at_boundary && out.bytes() >= CALL_BYTES {
                out.control(Control::More);
                return Ok(());
            }
        }
        // A barrier may come next, and behind it nothing can be put before it any more.
        reader.prepare_snapshot(CheckpointId(0), &mut self.collector).await?;
        put_out(&mut self.collector, &mut self.offsets, &mut self.told, out)?;
        self.look_for_the_end().await
    }

    async fn look_for_the_end(&mut self) -> Result<()> {
        if !self.context.bounded || !self.streaming || self.end.reached {
            return Ok(());
        }
        let source = &self.context.definition.source;
        let end = match &self.end.offsets {
            Some(end) => end,
            None => self.end.offsets.insert(source.current_offsets().await?),
        };
        for (split, offset) in end.iter() {
            match self.offsets.get(split) {
                Some(reached) if source.covers(reached, offset)? => {}
                _ => return Ok(()),
            }
        }
        self.end.reached = true;
        Ok(())
    }

    /// Everything has been read; the job ends once a barrier behind it is committed and no DDL holds rows back.
    async fn wait_for_the_end(&mut self, out: &mut Outputs) -> Result<()> {
        let prefix = format!("{}/{EPOCH}", marks::folder(self.attempt));
        let names = self.context.marks.names_with(&prefix);
        let committed = names.iter().filter_map(|name| name[prefix.len()..].parse::<u64>().ok());
        match (self.end.checkpoint, committed.max()) {
            (Some(first), Some(newest)) if newest >= first.0 => {
                if let Step::Reading(mut reader) = std::mem::replace(&mut self.step, Step::Ended) {
                    reader.close().await;
                }
                out.control(Control::End);
                Ok(())
            }
            _ => pause().await,
        }
    }

    pub(crate) async fn snapshot_state(&mut self, checkpoint: CheckpointId) -> Result<Vec<u8>> {
        let reader = match &mut self.step {
            Step::New | Step::Opening if self.is_moved => return Ok(Vec::new()),
            Step::New | Step::Opening => {
                return Ok(self.restored.as_ref().map(SourceState::encode).unwrap_or_default());
            }
            Step::Ended => {
                let state = self.restored.as_ref().map(SourceState::encode).unwrap_or_default();
                self.copies.taken(self.attempt, checkpoint, &state);
                return Ok(state);
            }
            Step::First(reader, first) => {
                first.get_or_insert(checkpoint);
                reader
            }
            Step::Reading(reader) => reader,
        };
        let reader = reader.snapshot_state(checkpoint).await?;
        let state = SourceState { attempt: self.attempt, checkpoint, reader };
        if self.end.reached {
            self.end.checkpoint.get_or_insert(checkpoint);
            // Nothing is read any more: this is the state to the end.
            self.restored = Some(state.clone());
        }
        let bytes = state.encode();
        self.copies.taken(self.attempt, checkpoint, &bytes);
        Ok(bytes)
    }

    pub(crate) async fn checkpoint_complete(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Outputs,
    ) -> Result<()> {
        self.copies.completed(checkpoint, out);
        match std::mem::replace(&mut self.step, Step::Ended) {
            Step::First(mut reader, Some(first)) if first <= checkpoint => {
                reader.checkpoint_complete(checkpoint).await?;
                self.step = Step::Reading(reader);
            }
            Step::Reading(mut reader) => {
                reader.checkpoint_complete(checkpoint).await?;
                self.step = Step::Reading(reader);
            }
            other => self.step = other,
        }
        Ok(())
    }

    pub(crate) async fn close(&mut self) {
        if let Step::First(reader, _) | Step::Reading(reader) = &mut self.step {
            reader.close().await;
        }
    }
}

async fn pause() -> Result<()> {
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

/// Puts out what the reader emitted. A progress that says nothing new is left out.
fn put_out(
    collector: &mut Collector,
    offsets: &mut Offsets,
    told: &mut Offsets,
    out: &mut Outputs,
) -> Result<()> {
    for (target, record) in collector.drain() {
        if let StreamRecord::Progress(progress) = &record {
            let (split, offset) = (progress.split.clone(), progress.offset.clone());
            offsets.insert(split.clone(), offset.clone());
            if target == Target::All && told.get(&split) == Some(&offset) {
                continue;
            }
            told.insert(split, offset);
        }
        out.record(target, &record)?;
    }
    Ok(())
}
