//! Reads the tables as they were at one moment, then the log from there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lakeward_core::{
    CheckpointId, Collector, DataChange, DdlId, Error, Offset, Position, Progress, ReadStatus,
    Result, RowKind, SchemaChange, SchemaEvent, Segment, SourceOpen, SourceReader, State,
    StreamRecord, TableId, TableSchema, Target,
};
use serde::{Deserialize, Serialize};

use crate::batch::to_batch;
use crate::database::{Table, commit_ms};
use crate::source::split;
use crate::{Database, Event, Faults, Pace, Random, Row, ValuesSource};

/// How long a call waits when there is nothing to read.
const IDLE: Duration = Duration::from_millis(10);
const VERSION: u32 = 1;

/// Where a reader is: its checkpoint state and, as text, its offset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReaderState {
    /// Transactions that are read.
    pub(crate) log: u64,
    pub(crate) snapshot: Option<SnapshotState>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SnapshotState {
    /// Tables that are not done, in order.
    tables: Vec<TableId>,
    /// Rows of the first of them that are read.
    rows: usize,
    /// The tables are read anew.
    reset: bool,
}

impl ReaderState {
    pub(crate) fn offset(&self) -> Result<Offset> {
        let text = serde_json::to_string(self)
            .map_err(|e| Error::bug("could not encode an offset").with_source(e))?;
        Ok(Offset(text.into()))
    }

    pub(crate) fn of(offset: &Offset) -> Result<Self> {
        serde_json::from_str(&offset.0)
            .map_err(|e| Error::offset_lost("the offset cannot be read").with_source(e))
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (&self.snapshot, &other.snapshot) {
            (None, _) => self.log >= other.log,
            (Some(_), None) => false,
            (Some(reached), Some(wanted)) => {
                let left = |s: &SnapshotState| (s.tables.len(), std::cmp::Reverse(s.rows));
                self.log == other.log && left(reached) <= left(wanted)
            }
        }
    }

    /// The table's rows as of `log` are all read.
    fn has(&self, table: &TableId) -> bool {
        self.snapshot.as_ref().is_none_or(|s| !s.tables.contains(table))
    }
}

pub(crate) struct ValuesReader {
    database: Database,
    faults: Faults,
    pace: Pace,
    random: Random,
    attempt: u64,
    state: ReaderState,
    /// The tables as of `state.log`, while there is a snapshot.
    tables: BTreeMap<TableId, Table>,
    /// The current table of the snapshot has been announced.
    announced: bool,
    /// Events of the next transaction that are read already.
    inside: usize,
    pending: BTreeMap<TableId, Pending>,
    /// How far the sink holds each table, beyond the restored state.
    floors: HashMap<TableId, ReaderState>,
}

struct Pending {
    schema: Arc<TableSchema>,
    snapshot: bool,
    kinds: Vec<RowKind>,
    rows: Vec<Row>,
    positions: Vec<Position>,
}

impl ValuesReader {
    pub(crate) fn open(source: &ValuesSource, open: SourceOpen) -> Result<Self> {
        let ValuesSource { database, faults, pace } = source.clone();
        let restored = open.restored.map(|s| s.to_json::<ReaderState>()).transpose()?;
        let mut floors = HashMap::new();
        for (table, offsets) in &open.committed {
            if let Some(offset) = offsets.get(&split()) {
                floors.insert(table.clone(), ReaderState::of(offset)?);
            }
        }
        let all = open.resnapshot.iter().any(|t| t == "*");
        let anew = |table: &TableId| all || open.resnapshot.iter().any(|t| *t == table.to_string());
        let mut state = match restored {
            Some(state) if !all => state,
            _ => {
                let log = database.log_end();
                let tables = database.tables_at(log).into_keys().collect();
                let snapshot = SnapshotState { tables, rows: 0, reset: all };
                ReaderState { log, snapshot: Some(snapshot) }
            }
        };
        if !all && !open.resnapshot.is_empty() && state.snapshot.is_none() {
            let tables = database.tables_at(state.log).into_keys().filter(anew).collect();
            state.snapshot = Some(SnapshotState { tables, rows: 0, reset: true });
        }
        floors.retain(|table, floor| !anew(table) && !state.covers(floor));
        let tables = match state.snapshot {
            Some(_) => database.tables_at(state.log),
            None => BTreeMap::new(),
        };
        let random = Random::new(pace.seed ^ open.attempt.wrapping_mul(0x1_0000_0001));
        let (attempt, pending) = (open.attempt, BTreeMap::new());
        Ok(Self {
            database,
            faults,
            pace,
            random,
            attempt,
            state,
            tables,
            announced: false,
            inside: 0,
            pending,
            floors,
        })
    }

    fn snapshot(&mut self, out: &mut Collector) -> Result<()> {
        let at = self.state.log;
        let Some(snapshot) = &mut self.state.snapshot else { return Ok(()) };
        let Some(id) = snapshot.tables.first().cloned() else {
            self.state.snapshot = None;
            self.tables.clear();
            return Ok(());
        };
        let Some(table) = self.tables.get(&id) else {
            return Err(Error::bug("a table of the snapshot is not there").with("table", id));
        };
        let floor = self.floors.get(&id);
        let skipped = floor.is_some_and(|f| f.has(&id));
        if !self.announced {
            self.announced = true;
            // Without a key, rows that come again would be there twice.
            let again =
                table.schema.primary_key.is_empty() && (snapshot.rows > 0 || floor.is_some());
            let reset = (snapshot.reset && snapshot.rows == 0 || again) && !skipped;
            if again {
                snapshot.rows = 0;
            }
            let (change, lo) = match reset {
                true => (SchemaChange::ResetTable, self.attempt),
                false => (SchemaChange::CreateTable, 0),
            };
            let position = Position { hi: at, lo };
            out.emit(
                Target::Hash(id.stable_hash()),
                StreamRecord::Schema(SchemaEvent {
                    table: id.clone(),
                    id: DdlId { table: id.clone(), position },
                    changes: vec![change],
                    before: None,
                    after: Some(table.schema.clone()),
                    position,
                    commit_ms: commit_ms(at),
                }),
            );
        }
        let wanted = 1 + self.random.below(self.pace.snapshot_rows) as usize;
        let rows: Vec<Row> = match skipped {
            true => Vec::new(),
            false => table.rows.iter().skip(snapshot.rows).take(wanted).cloned().collect(),
        };
        snapshot.rows += rows.len();
        if skipped || snapshot.rows >= table.rows.len() {
            snapshot.tables.remove(0);
            snapshot.rows = 0;
            self.announced = false;
        }
        let position = Position { hi: at, lo: 0 };
        let schema = table.schema.clone();
        for row in rows {
            self.hold(&id, &schema, RowKind::Insert, row, position, true);
        }
        self.flush(out)
    }

    /// Reads the log; false when it stands inside a transaction.
    async fn log(&mut self, out: &mut Collector) -> Result<bool> {
        let mut left = 1 + self.random.below(self.pace.transactions);
        while left > 0 {
            let Some(transaction) = self.database.transaction(self.state.log + 1) else {
                self.flush(out)?;
                (self.faults.pause())(IDLE).await;
                return Ok(true);
            };
            if self.inside == 0 {
                self.faults.step(format!("source:read {}", self.state.log + 1)).await?;
            }
            while let Some(event) = transaction.get(self.inside) {
                let position = Position { hi: self.state.log + 1, lo: self.inside as u64 };
                self.event(event, position, out)?;
                self.inside += 1;
                if self.inside < transaction.len() && self.random.chance(self.pace.cut_percent) {
                    return Ok(false);
                }
            }
            self.inside = 0;
            self.state.log += 1;
            left -= 1;
        }
        if !self.random.chance(self.pace.cut_percent) {
            self.flush(out)?;
            if self.random.chance(50) {
                self.progress(out)?;
            }
        }
        Ok(true)
    }

    fn event(&mut self, event: &Event, position: Position, out: &mut Collector) -> Result<()> {
        let table = match event {
            Event::Row { table, .. } => table,
            Event::Ddl(event) => &event.table,
        };
        if self.floors.get(table).is_some_and(|f| f.has(table) && position.hi <= f.log) {
            return Ok(());
        }
        match event {
            Event::Row { table, schema, kind, row } => {
                self.hold(table, schema, *kind, row.clone(), position, false);
                Ok(())
            }
            Event::Ddl(event) => {
                self.flush(out)?;
                self.progress(out)?;
                let target = Target::Hash(event.table.stable_hash());
                out.emit(target, StreamRecord::Schema(event.clone()));
                Ok(())
            }
        }
    }

    fn hold(
        &mut self,
        table: &TableId,
        schema: &Arc<TableSchema>,
        kind: RowKind,
        row: Row,
        position: Position,
        snapshot: bool,
    ) {
        let pending = self.pending.entry(table.clone()).or_insert_with(|| Pending {
            schema: schema.clone(),
            snapshot,
            kinds: Vec::new(),
            rows: Vec::new(),
            positions: Vec::new(),
        });
        pending.kinds.push(kind);
        pending.rows.push(row);
        pending.positions.push(position);
    }

    fn flush(&mut self, out: &mut Collector) -> Result<()> {
        for (table, pending) in std::mem::take(&mut self.pending) {
            let mut start = 0;
            while start < pending.rows.len() {
                let size = 1 + self.random.below(self.pace.batch_rows) as usize;
                let end = (start + size).min(pending.rows.len());
                let segment = |(at, position): (usize, &Position)| Segment {
                    end: at as u32 + 1,
                    position: *position,
                    commit_ms: commit_ms(position.hi),
                };
                let change = DataChange {
                    table: table.clone(),
                    schema: pending.schema.clone(),
                    kinds: pending.kinds[start..end].to_vec(),
                    rows: to_batch(&pending.schema, &pending.rows[start..end])?,
                    unavailable: None,
                    segments: pending.positions[start..end]
                        .iter()
                        .enumerate()
                        .map(segment)
                        .collect(),
                    snapshot: pending.snapshot,
                };
                out.emit(Target::Hash(table.stable_hash()), StreamRecord::Data(change));
                start = end;
            }
        }
        Ok(())
    }

    fn progress(&self, out: &mut Collector) -> Result<()> {
        let progress = Progress {
            table: None,
            split: split(),
            offset: self.state.offset()?,
            commit_ms: commit_ms(self.state.log),
        };
        out.emit(Target::All, StreamRecord::Progress(progress));
        Ok(())
    }
}

#[async_trait]
impl SourceReader for ValuesReader {
    async fn next(&mut self, out: &mut Collector) -> Result<ReadStatus> {
        let pause_ms = self.random.below(self.pace.pause_ms + 1);
        (self.faults.pause())(Duration::from_millis(pause_ms)).await;
        self.faults.alive()?;
        let at_boundary = match self.state.snapshot {
            Some(_) => {
                self.faults.step("source:snapshot").await?;
                self.snapshot(out)?;
                true
            }
            None => self.log(out).await?,
        };
        Ok(ReadStatus { at_boundary, streaming: self.state.snapshot.is_none() })
    }

    async fn prepare_snapshot(&mut self, _: CheckpointId, out: &mut Collector) -> Result<()> {
        self.faults.step("source:barrier").await?;
        self.flush(out)?;
        self.progress(out)
    }

    async fn snapshot_state(&mut self, _: CheckpointId) -> Result<State> {
        State::from_json(VERSION, &self.state)
    }

    async fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.faults.step(format!("source:acknowledge {checkpoint}")).await
    }

    async fn close(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(log: u64, snapshot: Option<(&[&str], usize)>) -> ReaderState {
        let snapshot = snapshot.map(|(tables, rows)| SnapshotState {
            tables: tables.iter().map(|t| TableId::new("shop", *t)).collect(),
            rows,
            reset: false,
        });
        ReaderState { log, snapshot }
    }

    #[test]
    fn offsets_are_ordered_through_the_snapshot_and_the_log() {
        let order = [
            state(5, Some((&["a", "b"], 0))),
            state(5, Some((&["a", "b"], 3))),
            state(5, Some((&["b"], 0))),
            state(5, None),
            state(6, None),
        ];
        for (i, reached) in order.iter().enumerate() {
            for (j, wanted) in order.iter().enumerate() {
                assert_eq!(reached.covers(wanted), i >= j, "{reached:?} {wanted:?}");
                let text = wanted.offset().unwrap();
                assert_eq!(ReaderState::of(&text).unwrap(), *wanted);
            }
        }
    }
}
