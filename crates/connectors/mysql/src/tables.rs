//! The tables that a reader copies, and how far each one is.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use lakeward_core::{Position, Segment, TableId, TableSchema};

use crate::handover::TouchedKeys;
use crate::metrics::TableMetrics;
use crate::model::MysqlTable;
use crate::offset::{FilePosition, LogOffset};
use crate::rows::TableBuilder;
use crate::snapshot::Chunk;
use crate::state::{LaneState, SnapshotState};
use crate::wire::ParamBytes;

/// What is known of a table's shape where the reader stands.
pub enum Phase {
    /// The catalog is being asked. The log's rows of the table are dropped: a snapshot will follow.
    Asked,
    /// The catalog's answer holds from `from` on, unless the log has a DDL of the table between `from` and `until`.
    Waiting {
        from: FilePosition,
        until: FilePosition,
        found: Option<Found>,
    },
    Active,
    /// Its rows or its shape cannot be read. Its changes are passed over until it is read anew or dropped.
    LeftOut,
}

/// A table as the catalog has it.
#[derive(Debug, Clone)]
pub struct Found {
    pub shape: MysqlTable,
    pub rows: u64,
    pub row_bytes: u64,
    /// Smallest and largest key, where it is one integer column.
    pub range: Option<(i64, i64)>,
}

/// What happens when a table becomes active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intent {
    pub snapshot: bool,
    /// The target's content starts over even if it was complete.
    pub reset: bool,
}

pub struct TableSlot {
    pub id: TableId,
    pub phase: Phase,
    pub intent: Intent,
    /// The last DDL of the table that was met before it became active.
    pub last_ddl: Option<FilePosition>,
    pub announced: bool,
    pub rows_from: Option<Position>,
    /// The sink holds the table up to here.
    pub floor: Option<LogOffset>,
    /// Counts shapes and contents: chunks read under an earlier count are void.
    pub epoch: u64,
    pub run: Run,
    pub touched: TouchedKeys,
    pub row_bytes: u64,
    /// Reads in a row that failed.
    pub failures: u32,
    pub metrics: TableMetrics,
    pub builder: Option<OpenBuilder>,
}

/// Rows that wait for company.
pub struct OpenBuilder {
    pub schema: Arc<TableSchema>,
    pub rows: TableBuilder,
    pub segments: Vec<Segment>,
}

/// A table's snapshot.
pub enum Run {
    Done,
    Lanes(Vec<Lane>),
    Whole(Whole),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Whole {
    /// To be handed to a worker, after a `ResetTable` when rows of an earlier try may have gone out.
    Ready { reset: bool },
    /// A worker reads it; the log stands still.
    Reading,
    /// Not before the reader is here: it did not know the table's shape of then.
    Resting(FilePosition),
}

pub struct Lane {
    /// As of what was emitted.
    pub state: LaneState,
    /// Behind the last chunk that was read.
    pub read_after: Option<Vec<ParamBytes>>,
    /// A chunk is with a worker, registered at this place.
    pub registered: Option<Position>,
    /// Chunks that wait for the reader to come as far as they do, with where they were registered.
    pub waiting: VecDeque<(Chunk, Position)>,
    /// The lane's last chunk has been read.
    pub read_to_end: bool,
    /// Not to be tried again before the reader is here.
    pub rests_until: Option<FilePosition>,
}

impl Lane {
    pub fn new(state: LaneState) -> Self {
        Self {
            read_after: state.after.clone(),
            read_to_end: state.done,
            state,
            registered: None,
            waiting: VecDeque::new(),
            rests_until: None,
        }
    }

    /// Forgets what was read and not emitted.
    pub fn rewind(&mut self) {
        self.read_after = self.state.after.clone();
        self.read_to_end = self.state.done;
        self.registered = None;
        self.waiting.clear();
    }

    /// The earliest place where one of its chunks that are out was registered.
    pub fn oldest(&self) -> Option<Position> {
        self.waiting.front().map(|(_, at)| *at).or(self.registered)
    }
}

impl TableSlot {
    pub fn new(id: TableId, intent: Intent, metrics: TableMetrics) -> Self {
        Self {
            id,
            phase: Phase::Asked,
            intent,
            last_ddl: None,
            announced: false,
            rows_from: None,
            floor: None,
            epoch: 0,
            run: Run::Done,
            touched: TouchedKeys::default(),
            row_bytes: 0,
            failures: 0,
            metrics,
            builder: None,
        }
    }

    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active)
    }

    pub fn is_done(&self) -> bool {
        self.is_left_out() || self.is_active() && matches!(self.run, Run::Done)
    }

    pub fn is_left_out(&self) -> bool {
        matches!(self.phase, Phase::LeftOut)
    }

    /// The earliest place where a chunk that is out was registered; `None` when none is out.
    pub fn oldest_chunk(&self) -> Option<Position> {
        match &self.run {
            Run::Lanes(lanes) => lanes.iter().filter_map(Lane::oldest).min(),
            _ => None,
        }
    }

    /// Chunks that are out no longer fit the table.
    pub fn void_chunks(&mut self) {
        self.epoch += 1;
        if let Run::Lanes(lanes) = &mut self.run {
            lanes.iter_mut().for_each(Lane::rewind);
        }
        self.touched.clear();
    }

    /// The snapshot begins anew, in one lane.
    pub fn restart_run(&mut self, chunkable: bool, reset_whole: bool) {
        self.epoch += 1;
        self.touched.clear();
        self.run = match chunkable {
            true => {
                Run::Lanes(vec![Lane::new(LaneState { after: None, until: None, done: false })])
            }
            false => Run::Whole(Whole::Ready { reset: reset_whole }),
        };
    }

    pub fn snapshot_state(&self) -> SnapshotState {
        if self.is_left_out() {
            return SnapshotState::LeftOut;
        }
        if !self.is_active() {
            return match self.intent.snapshot {
                true => SnapshotState::Pending,
                false => SnapshotState::Done,
            };
        }
        match &self.run {
            Run::Done => SnapshotState::Done,
            Run::Lanes(lanes) => {
                SnapshotState::Lanes(lanes.iter().map(|l| l.state.clone()).collect())
            }
            Run::Whole(_) => SnapshotState::Whole,
        }
    }
}

/// All tables of a reader.
#[derive(Default)]
pub struct Tables {
    pub slots: Vec<TableSlot>,
    /// How far the sink holds each table, whatever becomes of it in the log before there.
    pub floors: HashMap<TableId, LogOffset>,
    /// Selected names that turned out to be no tables (sequences).
    pub passed_over: HashSet<TableId>,
    index: HashMap<TableId, usize>,
}

impl Tables {
    pub fn find(&self, id: &TableId) -> Option<usize> {
        self.index.get(id).copied()
    }

    pub fn get_mut(&mut self, id: &TableId) -> Option<&mut TableSlot> {
        let i = self.find(id)?;
        Some(&mut self.slots[i])
    }

    pub fn insert(&mut self, mut slot: TableSlot) -> usize {
        slot.floor = self.floors.get(&slot.id).cloned();
        self.passed_over.remove(&slot.id);
        if let Some(i) = self.find(&slot.id) {
            self.slots[i] = slot;
            return i;
        }
        self.index.insert(slot.id.clone(), self.slots.len());
        self.slots.push(slot);
        self.slots.len() - 1
    }

    pub fn remove(&mut self, id: &TableId) -> Option<TableSlot> {
        let i = self.index.remove(id)?;
        let slot = self.slots.swap_remove(i);
        slot.metrics.remove();
        if let Some(moved) = self.slots.get(i) {
            self.index.insert(moved.id.clone(), i);
        }
        Some(slot)
    }
}
