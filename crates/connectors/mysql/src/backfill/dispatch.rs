//! Work for the snapshot workers, and their answers.

use arrow_array::{Array, ArrayRef, RecordBatch};
use lakeward_core::{Error, ErrorKind, Result, SchemaChange, SchemaEvent};
use tracing::warn;

use super::{Backfill, MAX_FAILURES, SPARE_CHUNKS, WAITING_CHUNKS, emit_rows, finish};
use crate::log::LogCore;
use crate::offset::{FilePosition, GtidSet, position};
use crate::snapshot::{Answer, Content, Job, Part};
use crate::tables::{Run, Whole};

impl Backfill {
    /// Hands work to idle workers. Tables that are read whole come first: the log stands still for them.
    pub(super) fn dispatch(
        &mut self,
        core: &mut LogCore,
        submit: &mut dyn FnMut(Job),
    ) -> Result<()> {
        let here = core.boundary.at.clone();
        let mut whole_left = false;
        for i in 0..core.tables.slots.len() {
            let slot = &mut core.tables.slots[i];
            if let Run::Whole(Whole::Resting(until)) = &slot.run
                && here >= *until
            {
                slot.run = Run::Whole(Whole::Ready { reset: true });
            }
            let Run::Whole(Whole::Ready { reset }) = slot.run else { continue };
            whole_left = true;
            if !slot.is_active() || self.jobs_out >= self.options.workers {
                continue;
            }
            if reset {
                core.flush_all()?;
                self.emit_reset(core, i)?;
            }
            if let Some(job) = job(core, i, Part::Whole) {
                core.tables.slots[i].run = Run::Whole(Whole::Reading);
                core.tables.slots[i].metrics.rows_done.set(0);
                self.jobs_out += 1;
                self.whole_out += 1;
                submit(job);
            }
        }
        if whole_left || self.whole_out > 0 {
            return Ok(());
        }
        let waiting = waiting_chunks(core);
        for i in 0..core.tables.slots.len() {
            if !core.tables.slots[i].is_active() {
                continue;
            }
            let rows = self.chunk_rows(core.tables.slots[i].row_bytes);
            let lane_count = match &core.tables.slots[i].run {
                Run::Lanes(lanes) => lanes.len(),
                _ => 0,
            };
            for at in 0..lane_count {
                if self.jobs_out >= self.options.workers
                    || self.jobs_out + waiting >= self.options.workers + SPARE_CHUNKS
                {
                    return Ok(());
                }
                let Run::Lanes(lanes) = &mut core.tables.slots[i].run else { break };
                let lane = &mut lanes[at];
                let rests = lane.rests_until.as_ref().is_some_and(|until| here < *until);
                if lane.read_to_end
                    || lane.registered.is_some()
                    || lane.waiting.len() >= WAITING_CHUNKS
                    || rests
                {
                    continue;
                }
                lane.rests_until = None;
                let part = Part::Chunk {
                    lane: at,
                    after: lane.read_after.clone(),
                    until: lane.state.until.clone(),
                    rows,
                };
                let registered = core.boundary.position_of(&here);
                if let Some(job) = job(core, i, part)
                    && let Run::Lanes(lanes) = &mut core.tables.slots[i].run
                {
                    lanes[at].registered = Some(registered);
                    self.jobs_out += 1;
                    submit(job);
                }
            }
        }
        Ok(())
    }

    fn emit_reset(&mut self, core: &mut LogCore, i: usize) -> Result<()> {
        let id = core.tables.slots[i].id.clone();
        let made = core.made_position(&id);
        let Some(version) = core.history.get(&id) else { return Ok(()) };
        let schema = version.schema.clone();
        core.emit_schema(SchemaEvent {
            table: id.clone(),
            id: lakeward_core::DdlId { table: id, position: made },
            changes: vec![SchemaChange::ResetTable],
            before: Some(schema.clone()),
            after: Some(schema),
            position: made,
            commit_ms: core.commit_ms,
        })
    }

    /// Takes a worker's answer.
    pub fn on_answer(&mut self, core: &mut LogCore, answer: Answer, now_ms: i64) -> Result<()> {
        core.changed = true;
        let era = core.boundary.era;
        match &answer.content {
            Content::Rows(_) => {}
            Content::WholeDone { .. } | Content::Failed { lane: None, .. } => {
                self.jobs_out -= 1;
                self.whole_out -= 1;
            }
            Content::Chunk(_) | Content::Failed { .. } => self.jobs_out -= 1,
        }
        let Some(i) = core.tables.find(&answer.table) else { return Ok(()) };
        if core.tables.slots[i].epoch != answer.epoch {
            // Void: the lanes have been rewound already.
            return Ok(());
        }
        match answer.content {
            Content::Rows(batch) => {
                let Some(version) = core.history.get(&answer.table) else { return Ok(()) };
                let schema = version.schema.clone();
                let slot = &mut core.tables.slots[i];
                let read = batch.num_rows() as i64;
                slot.metrics.rows_done.set(slot.metrics.rows_done.get() + read);
                core.metrics.rows_read.add(read as u64);
                let at = core.boundary.position_of(&core.boundary.at);
                emit_rows(&mut core.out, &answer.table, &schema, batch, at, now_ms);
                Ok(())
            }
            Content::WholeDone { at } => {
                let slot = &mut core.tables.slots[i];
                slot.rows_from = Some(position(era, &at));
                slot.failures = 0;
                finish(slot);
                Ok(())
            }
            Content::Chunk(chunk) => {
                let slot = &mut core.tables.slots[i];
                slot.failures = 0;
                // The server's estimate may be old; the rows themselves are not.
                let rows: usize = chunk.batches.iter().map(RecordBatch::num_rows).sum();
                let bytes: usize = chunk.batches.iter().map(bytes_of).sum();
                if rows > 0 {
                    slot.row_bytes = (bytes / rows).max(1) as u64;
                }
                if let Run::Lanes(lanes) = &mut slot.run {
                    let lane = &mut lanes[chunk.lane];
                    if let Some(registered) = lane.registered.take() {
                        if chunk.last.is_some() {
                            lane.read_after = chunk.last.clone();
                        }
                        lane.read_to_end = chunk.is_end;
                        lane.waiting.push_back((chunk, registered));
                    }
                }
                Ok(())
            }
            Content::Failed { lane, error, at } => self.on_failure(core, i, lane, error, at),
        }
    }

    fn on_failure(
        &mut self,
        core: &mut LogCore,
        i: usize,
        lane: Option<usize>,
        error: Error,
        at: Option<FilePosition>,
    ) -> Result<()> {
        let here = core.boundary.at.clone();
        let slot = &mut core.tables.slots[i];
        slot.failures += 1;
        // A reader that is behind may yet meet the DDL that explains it.
        let may_heal = at.as_ref().is_some_and(|at| here < *at);
        let fatal = match error.kind() {
            ErrorKind::Transient | ErrorKind::Bug => slot.failures > MAX_FAILURES,
            ErrorKind::DataInvalid | ErrorKind::SchemaIncompatible => {
                !may_heal && slot.failures > 2
            }
            _ => true,
        };
        if fatal && error.kind().is_of_table() {
            let table = slot.id.clone();
            core.leave_out(&table, error);
            return Ok(());
        }
        if fatal {
            return Err(error);
        }
        warn!(table = %slot.id, "reading the table failed, trying again: {error}");
        match (lane, &mut slot.run) {
            (Some(lane), Run::Lanes(lanes)) => {
                lanes[lane].registered = None;
                lanes[lane].rests_until = at;
            }
            (None, run) => {
                *run = Run::Whole(match at {
                    Some(at) if may_heal => Whole::Resting(at),
                    _ => Whole::Ready { reset: true },
                });
            }
            _ => {}
        }
        Ok(())
    }
}

fn job(core: &LogCore, i: usize, part: Part) -> Option<Job> {
    let slot = &core.tables.slots[i];
    let visible = match &core.boundary.gtids {
        Some(set @ GtidSet::MySql(_)) => Some(set.clone()),
        _ => None,
    };
    Some(Job {
        table: slot.id.clone(),
        version: core.history.get(&slot.id)?.clone(),
        epoch: slot.epoch,
        visible,
        registered: core.boundary.at.clone(),
        last_group: core.last_group.clone(),
        part,
    })
}

/// What the rows take, without the room that their buffers have left.
fn bytes_of(rows: &RecordBatch) -> usize {
    let of_column = |column: &ArrayRef| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    rows.columns().iter().map(of_column).sum()
}

fn waiting_chunks(core: &LogCore) -> usize {
    let of = |run: &Run| match run {
        Run::Lanes(lanes) => lanes.iter().map(|l| l.waiting.len()).sum(),
        _ => 0,
    };
    core.tables.slots.iter().map(|s| of(&s.run)).sum()
}
