//! Snapshots alongside the log: which tables become active, which chunks go to workers, and when their rows go out.

use std::sync::Arc;

use arrow_array::RecordBatch;
use lakeward_core::{
    DataChange, Result, RowKind, SchemaChange, SchemaEvent, Segment, StreamRecord, TableId,
    TableSchema, Target,
};
use tracing::{info, warn};

use crate::chunks;
use crate::chunks::{chunk_rows, integer_lanes};
use crate::log::{LogCore, data_type, flush};
use crate::model::MysqlColumn;
use crate::offset::{FilePosition, position};
use crate::snapshot::{Chunk, Job};
use crate::tables::{Found, Lane, Phase, Run, Whole};

/// Reads of one table that may fail in a row.
const MAX_FAILURES: u32 = 20;
/// Chunks of one lane that may wait for the reader.
const WAITING_CHUNKS: usize = 2;
/// Chunks of all tables that may be in memory beyond one for each worker.
const SPARE_CHUNKS: usize = 2;

mod dispatch;

/// What a snapshot is done with.
#[derive(Debug, Clone, Copy)]
pub struct BackfillOptions {
    pub workers: usize,
    /// `scan.incremental.snapshot.chunk.size`, where the user gave it.
    pub chunk_size: Option<u32>,
    /// What one chunk may take.
    pub chunk_bytes: u64,
    /// A table's view can be taken while its log is read: MariaDB, and MySQL with GTIDs.
    pub concurrent: bool,
}

/// The snapshots' part of a reader.
pub struct Backfill {
    pub options: BackfillOptions,
    pub jobs_out: usize,
    /// Tables that are being read whole: the log stands still for them.
    pub whole_out: usize,
    /// Nothing can happen before the reader is here, unless an answer comes.
    wake_at: Option<FilePosition>,
}

impl Backfill {
    pub fn new(options: BackfillOptions) -> Self {
        Self { options, jobs_out: 0, whole_out: 0, wake_at: None }
    }

    fn chunk_rows(&self, row_bytes: u64) -> u32 {
        chunk_rows(self.options.chunk_size, row_bytes, self.options.chunk_bytes)
    }

    pub fn pauses_log(&self) -> bool {
        self.whole_out > 0
    }

    /// Does what can be done at this boundary. Cheap when there is nothing.
    pub fn step(
        &mut self,
        core: &mut LogCore,
        now_ms: i64,
        submit: &mut dyn FnMut(Job),
    ) -> Result<()> {
        let due = self.wake_at.as_ref().is_some_and(|at| core.boundary.at >= *at);
        if !core.changed && !due {
            return Ok(());
        }
        core.changed = false;
        self.activate_due(core)?;
        let ids: Vec<TableId> = core.tables.slots.iter().map(|s| s.id.clone()).collect();
        for id in &ids {
            self.emit_due(core, id, now_ms)?;
        }
        self.dispatch(core, submit)?;
        self.wake_at = next_wake(core);
        count_tables(core);
        Ok(())
    }

    fn activate_due(&mut self, core: &mut LogCore) -> Result<()> {
        let here = core.boundary.at.clone();
        let due: Vec<TableId> = core
            .tables
            .slots
            .iter()
            .filter(|s| matches!(&s.phase, Phase::Waiting { until, .. } if *until <= here))
            .map(|s| s.id.clone())
            .collect();
        for id in due {
            self.activate(core, &id)?;
        }
        Ok(())
    }

    fn activate(&mut self, core: &mut LogCore, id: &TableId) -> Result<()> {
        let Some(slot) = core.tables.get_mut(id) else { return Ok(()) };
        let Phase::Waiting { from, found, .. } = std::mem::replace(&mut slot.phase, Phase::Active)
        else {
            return Ok(());
        };
        if slot.last_ddl.as_ref().is_some_and(|ddl| *ddl > from) {
            slot.phase = Phase::Asked;
            let reset = slot.intent.reset;
            core.ask(id, "its definition changed while it was read", reset);
            return Ok(());
        }
        let (intent, announced) = (slot.intent, slot.announced);
        let made = core.made_position(id);
        let before = core.history.get(id).filter(|_| announced).map(|v| v.schema.clone());
        let Some(found) = found else {
            info!(table = %id, "the table is gone");
            // Also where the sink has not been told of the table: an earlier attempt may have made it there.
            let event = SchemaEvent {
                table: id.clone(),
                id: lakeward_core::DdlId { table: id.clone(), position: made },
                changes: vec![SchemaChange::DropTable],
                before,
                after: None,
                position: made,
                commit_ms: core.commit_ms,
            };
            core.history.remove(id);
            core.tables.remove(id);
            core.tables.passed_over.insert(id.clone());
            return core.emit_schema(event);
        };
        // The table's rows were passed over until here.
        core.forget_maps();
        let after = settle(core, id, &found)?;
        let change = match intent.reset {
            true => SchemaChange::ResetTable,
            false => SchemaChange::CreateTable,
        };
        core.emit_schema(SchemaEvent {
            table: id.clone(),
            id: lakeward_core::DdlId { table: id.clone(), position: made },
            changes: vec![change],
            before,
            after: Some(after),
            position: made,
            commit_ms: core.commit_ms,
        })?;
        self.begin_run(core, id, &found);
        Ok(())
    }

    fn begin_run(&self, core: &mut LogCore, id: &TableId, found: &Found) {
        let workers = self.options.workers;
        let concurrent = self.options.concurrent;
        let Some(slot) = core.tables.get_mut(id) else { return };
        slot.announced = true;
        slot.last_ddl = None;
        slot.row_bytes = found.row_bytes;
        slot.epoch += 1;
        slot.touched.clear();
        slot.rows_from = None;
        slot.metrics.rows_done.set(0);
        slot.metrics.rows_total.set(found.rows.try_into().unwrap_or(i64::MAX));
        if !slot.intent.snapshot {
            slot.run = Run::Done;
            return;
        }
        slot.intent.reset = false;
        slot.run = if concurrent && chunks::is_chunkable(&found.shape) {
            let rows = u64::from(self.chunk_rows(found.row_bytes));
            let lanes = match found.range {
                Some((min, max)) if found.rows > rows * 4 => integer_lanes(min, max, workers),
                _ => integer_lanes(0, 0, 1),
            };
            Run::Lanes(lanes.into_iter().map(Lane::new).collect())
        } else {
            Run::Whole(Whole::Ready { reset: false })
        };
    }

    /// Emits the chunks that the reader has come up with.
    fn emit_due(&mut self, core: &mut LogCore, id: &TableId, now_ms: i64) -> Result<()> {
        let here = core.boundary.at.clone();
        let Some(i) = core.tables.find(id) else { return Ok(()) };
        if core.tables.slots[i].touched.has_overflowed() {
            warn!(table = %id, "the log changes the table faster than it is read; reading some chunks again");
            core.tables.slots[i].void_chunks();
        }
        let lane_count = match &core.tables.slots[i].run {
            Run::Lanes(lanes) => lanes.len(),
            _ => return Ok(()),
        };
        for lane in 0..lane_count {
            loop {
                let slot = &mut core.tables.slots[i];
                let Run::Lanes(lanes) = &mut slot.run else { return Ok(()) };
                let due = lanes[lane].waiting.front().is_some_and(|(c, _)| c.high <= here);
                if !due {
                    break;
                }
                // Before it is taken out, so that the flush still records keys for it.
                flush(slot, &mut core.out)?;
                let Run::Lanes(lanes) = &mut slot.run else { return Ok(()) };
                if let Some((chunk, _)) = lanes[lane].waiting.pop_front() {
                    self.emit_chunk(core, i, lane, chunk, now_ms)?;
                }
            }
        }
        let slot = &mut core.tables.slots[i];
        match slot.oldest_chunk() {
            Some(oldest) => slot.touched.forget_up_to(oldest),
            None => slot.touched.clear(),
        }
        if let Run::Lanes(lanes) = &slot.run
            && lanes.iter().all(|l| l.state.done)
        {
            finish(slot);
        }
        Ok(())
    }

    fn emit_chunk(
        &mut self,
        core: &mut LogCore,
        i: usize,
        lane: usize,
        chunk: Chunk,
        now_ms: i64,
    ) -> Result<()> {
        let low = position(core.boundary.era, &chunk.low);
        let slot = &mut core.tables.slots[i];
        let Some(version) = core.history.get(&slot.id) else { return Ok(()) };
        let schema = version.schema.clone();
        let key_columns = schema.key_indices();
        for batch in chunk.batches {
            let read = batch.num_rows() as i64;
            slot.metrics.rows_done.set(slot.metrics.rows_done.get() + read);
            core.metrics.rows_read.add(read as u64);
            let batch = slot.touched.filter(batch, &key_columns, low)?;
            emit_rows(&mut core.out, &slot.id, &schema, batch, low, now_ms);
        }
        if let Run::Lanes(lanes) = &mut slot.run {
            let lane = &mut lanes[lane];
            if chunk.last.is_some() {
                lane.state.after = chunk.last;
            }
            lane.state.done = chunk.is_end;
        }
        Ok(())
    }
}

/// Takes the catalog's shape of a table into the history, where the log has reached it.
fn settle(core: &mut LogCore, id: &TableId, found: &Found) -> Result<Arc<TableSchema>> {
    let types = core.types;
    let by_type = move |c: &MysqlColumn| data_type(&types, c);
    let version = core.history.insert(id, found.shape.clone(), &by_type);
    // Character sets that cannot be read are found here, before the first row.
    crate::types::table_schema(&found.shape, version.schema.version, &types)
        .map_err(|e| e.with("table", id))?;
    Ok(version.schema)
}

fn emit_rows(
    out: &mut Vec<(Target, StreamRecord)>,
    table: &TableId,
    schema: &Arc<TableSchema>,
    rows: RecordBatch,
    at: lakeward_core::Position,
    now_ms: i64,
) {
    let count = rows.num_rows();
    if count == 0 {
        return;
    }
    let change = DataChange {
        table: table.clone(),
        schema: schema.clone(),
        kinds: vec![RowKind::Insert; count],
        rows,
        unavailable: None,
        segments: vec![Segment { end: count as u32, position: at, commit_ms: now_ms }],
        snapshot: true,
    };
    out.push((Target::Hash(table.stable_hash()), StreamRecord::Data(change)));
}

fn finish(slot: &mut crate::tables::TableSlot) {
    slot.run = Run::Done;
    slot.touched.clear();
    let done = slot.metrics.rows_done.get();
    slot.metrics.rows_total.set(done);
    info!(table = %slot.id, rows = done, "the table's snapshot is complete");
}

/// The nearest place at which something waits for the reader.
fn next_wake(core: &LogCore) -> Option<FilePosition> {
    let mut wake: Option<FilePosition> = None;
    let mut consider = |at: &FilePosition| {
        if wake.as_ref().is_none_or(|w| at < w) {
            wake = Some(at.clone());
        }
    };
    for slot in &core.tables.slots {
        if let Phase::Waiting { until, .. } = &slot.phase {
            consider(until);
        }
        match &slot.run {
            Run::Lanes(lanes) => {
                for lane in lanes {
                    lane.waiting.front().iter().for_each(|(chunk, _)| consider(&chunk.high));
                    lane.rests_until.iter().for_each(&mut consider);
                }
            }
            Run::Whole(Whole::Resting(until)) => consider(until),
            _ => {}
        }
    }
    wake
}

fn count_tables(core: &LogCore) {
    let done = core.tables.slots.iter().filter(|s| s.is_done()).count();
    core.metrics.snapshot_tables_done.set(done as i64);
    core.metrics.snapshot_tables_total.set(core.tables.slots.len() as i64);
}
