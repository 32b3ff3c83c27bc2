//! `StreamDdlHandler`: lets a table's rows through, and brings its DDL to the sink at the right moment.
//!
//! A DDL that must not overtake rows is preceded by a mark to all writers; what follows it for that table is held until
//! the marks say that the rows before it are safe. Nothing waits: the hold is state, other tables go on.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::UInt32Array;
use arrow_select::take::take_record_batch;
use async_trait::async_trait;
use lakeward_core::{
    CheckpointId, Collector, DataChange, DdlId, DdlNeeds, Error, ErrorKind, Mark, MarkStage,
    MetadataApplier, Offset, Offsets, Operator, OperatorContext, Progress, Result, SchemaChange,
    SchemaEvent, Segment, Sink, SplitId, State, StreamRecord, TableFailure, TableId, Target, keys,
};
use serde::{Deserialize, Serialize};

use crate::held::HeldQueue;
use crate::policy::{Decision, SchemaChangeBehavior, SchemaPolicy};
use crate::projection::Projection;
use crate::{TableErrorPolicy, state};

/// How many of a table's last DDL are remembered to drop repeated ones.
const REMEMBERED_DDL: usize = 32;
/// Rows that may be held in memory per table; more go to a file.
const HELD_MEMORY_BYTES: usize = 8 << 20;
/// After so many checkpoint intervals a DDL runs without the missing success marks.
const INTERVALS_BEFORE_FORCED: u64 = 3;

pub struct StreamDdlHandler {
    context: OperatorContext,
    sink: Arc<dyn Sink>,
    applier: Option<Box<dyn MetadataApplier>>,
    policy: SchemaPolicy,
    table_errors: TableErrorPolicy,
    tables: BTreeMap<TableId, Table>,
    /// Tables whose records wait in another table's hold: since a rename gives them its rows.
    followers: BTreeMap<TableId, TableId>,
    /// Where each split is, as of the records seen.
    progress: BTreeMap<SplitId, Progress>,
}

#[derive(Default)]
struct Table {
    projection: Option<Projection>,
    recent_ddl: VecDeque<DdlId>,
    hold: Option<Hold>,
    dirty: Dirty,
    failed: bool,
}

/// Whether rows were let through whose files are not known to be complete.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Dirty {
    #[default]
    Clean,
    SinceBarrier,
    Before(CheckpointId),
}

struct Hold {
    event: SchemaEvent,
    decision: Decision,
    needs: DdlNeeds,
    since_ms: i64,
    warned: bool,
    /// Just before the DDL.
    offsets: Offsets,
    behind: Behind,
}

/// What waits behind a DDL.
struct Behind {
    queue: HeldQueue,
    /// Other tables with records in the queue, and up to where each is let through.
    followers: BTreeMap<TableId, Offsets>,
}

#[derive(Serialize, Deserialize)]
struct TableEntry {
    table: TableId,
    projection: Option<Projection>,
    recent_ddl: VecDeque<DdlId>,
    failed: bool,
    hold: Option<HoldEntry>,
}

#[derive(Serialize, Deserialize)]
struct HoldEntry {
    event: SchemaEvent,
    offsets: BTreeMap<SplitId, Offset>,
    #[serde(default)]
    followers: Vec<(TableId, Offsets)>,
}

impl StreamDdlHandler {
    pub fn new(
        context: OperatorContext,
        sink: Arc<dyn Sink>,
        policy: SchemaPolicy,
        table_errors: TableErrorPolicy,
    ) -> Self {
        Self {
            context,
            sink,
            applier: None,
            policy,
            table_errors,
            tables: BTreeMap::new(),
            followers: BTreeMap::new(),
            progress: BTreeMap::new(),
        }
    }

    fn offsets(&self) -> Offsets {
        self.progress.iter().map(|(split, p)| (split.clone(), p.offset.clone())).collect()
    }

    fn spill_path(&self, id: &DdlId) -> PathBuf {
        let name =
            format!("held-{:016x}-{}-{}", id.table.stable_hash(), id.position.hi, id.position.lo);
        self.context.scratch_dir.join(name)
    }

    async fn data(&mut self, change: DataChange, out: &mut Collector) -> Result<()> {
        let id = change.table.clone();
        if self.has_failed(&id) {
            return Ok(());
        }
        if let Some(hold) = self.hold_of(&id) {
            return hold.behind.queue.push(StreamRecord::Data(change));
        }
        let table = self.tables.entry(id.clone()).or_default();
        let sent = match &table.projection {
            Some(projection) => projection.apply(change),
            None => Ok(change),
        }
        .and_then(|change| self.send(change, out));
        match sent {
            Ok(()) => Ok(()),
            Err(error) => self.fail(&id, error, out),
        }
    }

    /// Sends each row to the writer that owns its key.
    fn send(&mut self, change: DataChange, out: &mut Collector) -> Result<()> {
        if let Some(table) = self.tables.get_mut(&change.table) {
            table.dirty = Dirty::SinceBarrier;
        }
        let writers = self.context.downstream_parallelism.max(1);
        if writers == 1 {
            out.emit(Target::Index(0), StreamRecord::Data(change));
            return Ok(());
        }
        let hashes = keys::row_hashes(&change.table, &change.rows, &change.schema.key_indices())?;
        let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); writers];
        for (row, hash) in hashes.iter().enumerate() {
            rows_of[(hash % writers as u64) as usize].push(row as u32);
        }
        if let Some(writer) = rows_of.iter().position(|r| r.len() == change.kinds.len()) {
            out.emit(Target::Index(writer), StreamRecord::Data(change));
            return Ok(());
        }
        for (writer, rows) in rows_of.into_iter().enumerate().filter(|(_, r)| !r.is_empty()) {
            out.emit(Target::Index(writer), StreamRecord::Data(select(&change, rows)?));
        }
        Ok(())
    }

    async fn schema(&mut self, event: SchemaEvent, out: &mut Collector) -> Result<()> {
        let offsets = self.offsets();
        if self.has_failed(&event.table) {
            return Ok(());
        }
        let progress: Vec<Progress> = self.progress.values().cloned().collect();
        let renamed = renamed_to(&event).cloned();
        let holder = self.followers.get(&event.table).unwrap_or(&event.table).clone();
        if let Some(hold) = self.hold_of(&event.table) {
            // Its own offsets come out of the queue before it.
            for progress in progress {
                let progress = Progress { table: Some(event.table.clone()), ..progress };
                hold.behind.queue.push(StreamRecord::Progress(progress))?;
            }
            hold.behind.queue.push(StreamRecord::Schema(event))?;
            if let Some(to) = renamed.filter(|to| *to != holder) {
                hold.behind.followers.entry(to.clone()).or_insert(offsets);
                self.followers.insert(to, holder);
            }
            return Ok(());
        }
        self.begin(event, offsets, None, out).await
    }

    fn has_failed(&self, id: &TableId) -> bool {
        self.tables.get(id).is_some_and(|t| t.failed)
    }

    /// The hold that a new record of the table has to wait in.
    fn hold_of(&mut self, id: &TableId) -> Option<&mut Hold> {
        let holder = self.followers.get(id).unwrap_or(id);
        self.tables.get_mut(holder)?.hold.as_mut()
    }

    fn place(&mut self, id: TableId, hold: Hold) {
        for follower in hold.behind.followers.keys() {
            self.followers.insert(follower.clone(), id.clone());
        }
        self.tables.entry(id).or_default().hold = Some(hold);
    }

    fn take(&mut self, id: &TableId) -> Option<Hold> {
        let hold = self.tables.get_mut(id)?.hold.take()?;
        self.followers.retain(|_, holder| holder != id);
        Some(hold)
    }

    /// Starts to deal with a DDL whose table is not held. `rest` is what waits behind it already.
    async fn begin(
        &mut self,
        event: SchemaEvent,
        offsets: Offsets,
        rest: Option<Behind>,
        out: &mut Collector,
    ) -> Result<()> {
        let id = event.table.clone();
        let table = self.tables.entry(id.clone()).or_default();
        let repeated = table.recent_ddl.contains(&event.id);
        let decision = match self.policy.decide(&event, table.projection.as_ref()) {
            Ok(decision) => decision,
            Err(error) => {
                self.fail(&id, error, out)?;
                return self.release(&id, rest, out).await;
            }
        };
        let Some(applied) = decision.event.as_ref().filter(|_| !repeated) else {
            table.projection = decision.sink.or_else(|| table.projection.take());
            return self.release(&id, rest, out).await;
        };
        let needs = self.needs(applied, &id);
        let mut behind = match rest {
            Some(behind) => behind,
            None => Behind {
                queue: HeldQueue::new(HELD_MEMORY_BYTES, self.spill_path(&event.id)),
                followers: BTreeMap::new(),
            },
        };
        // Whatever waits behind it comes after it, so all of it is let through up to here.
        behind.followers.extend(renamed_to(&event).map(|to| (to.clone(), offsets.clone())));
        behind.followers.remove(&id);
        behind.followers.values_mut().for_each(|o| o.clone_from(&offsets));
        let mut hold = Hold {
            needs,
            since_ms: self.context.clock.now_ms(),
            warned: false,
            offsets,
            behind,
            event,
            decision,
        };
        if needs == DdlNeeds::Nothing {
            return self.run(id, hold, out).await;
        }
        self.ask(&mut hold, out);
        self.place(id, hold);
        Ok(())
    }

    /// What the DDL has to wait for, given what has gone before it.
    fn needs(&self, event: &SchemaEvent, id: &TableId) -> DdlNeeds {
        let contradicts = event.changes.iter().any(|c| {
            matches!(
                c,
                SchemaChange::DropTable
                    | SchemaChange::TruncateTable
                    | SchemaChange::ResetTable
                    | SchemaChange::RenameTable { .. }
            )
        });
        let needs = if contradicts {
            DdlNeeds::RowsCommitted
        } else {
            self.applier.as_ref().map_or(DdlNeeds::RowsCommitted, |a| a.needs(event))
        };
        let clean = self.tables.get(id).is_none_or(|t| t.dirty == Dirty::Clean);
        match needs {
            // The files of a clean table are complete; whether they are committed only the committer knows.
            DdlNeeds::FilesComplete if clean => DdlNeeds::Nothing,
            needs => needs,
        }
    }

    fn ask(&self, hold: &mut Hold, out: &mut Collector) {
        let mark =
            Mark { table: hold.event.table.clone(), ddl: hold.event.id.clone(), writer: None };
        out.emit(Target::All, StreamRecord::Mark(mark));
        if hold.needs == DdlNeeds::RowsCommitted {
            self.context.checkpoints.request();
        }
    }

    /// Whether the DDL may run now.
    fn ready(&self, hold: &mut Hold) -> Result<bool> {
        // The name is free once what happened to its last table has been done.
        let taken = |to: &TableId| self.tables.get(to).is_some_and(|t| t.hold.is_some());
        if renamed_to(&hold.event).is_some_and(taken) {
            return Ok(false);
        }
        let (marks, attempt) = (&self.context.marks, self.context.attempt);
        let id = &hold.event.id;
        let waited_ms = self.context.clock.now_ms().saturating_sub(hold.since_ms).max(0) as u64;
        let limit_ms = INTERVALS_BEFORE_FORCED * self.context.checkpoint_interval_ms;
        if hold.needs == DdlNeeds::RowsCommitted {
            if marks.count(id, attempt, MarkStage::RowsCommitted)? > 0 {
                return Ok(true);
            }
            if waited_ms > limit_ms && !hold.warned {
                hold.warned = true;
                tracing::warn!(table = %hold.event.table, waited_ms,
                    "a DDL still waits for the commit of the rows before it; the table's later rows are held meanwhile");
            }
            return Ok(false);
        }
        let complete = marks.count(id, attempt, MarkStage::FilesComplete)?;
        if complete >= self.context.downstream_parallelism.max(1) {
            return Ok(true);
        }
        // Files carry their schema, so a late one is still read right.
        if waited_ms > limit_ms {
            tracing::warn!(table = %hold.event.table, waited_ms, complete,
                "running a DDL without the success marks of all writers");
            return Ok(true);
        }
        Ok(false)
    }

    /// Applies the DDL, tells the stages behind, and lets go what was held.
    async fn run(&mut self, id: TableId, hold: Hold, out: &mut Collector) -> Result<()> {
        let Hold { event, decision, behind, .. } = hold;
        let Some(applied) = decision.event else {
            return Err(Error::bug("a DDL without effect was held").with("table", &id));
        };
        let mut sink = decision.sink;
        let applier =
            self.applier.as_mut().ok_or_else(|| Error::bug("the DDL handler is not open"))?;
        if !applier.is_applied(&applied.id).await? {
            match applier.apply(&applied).await {
                Ok(()) => {
                    let what = kinds(&applied);
                    tracing::info!(table = %id, change = %what, "schema changed");
                    self.context.listener.schema_changed(&id, &what);
                }
                Err(error)
                    if error.kind() == ErrorKind::SchemaIncompatible
                        && self.policy.behavior == SchemaChangeBehavior::TryEvolve =>
                {
                    tracing::warn!(table = %id, %error, "the sink cannot follow; its columns stay as they are");
                    let ignore = SchemaPolicy {
                        behavior: SchemaChangeBehavior::Ignore,
                        ..self.policy.clone()
                    };
                    let before = self.tables.get(&id).and_then(|t| t.projection.clone());
                    sink = ignore.decide(&event, before.as_ref())?.sink;
                }
                Err(error) if error.kind().is_of_table() => {
                    self.fail(&id, error, out)?;
                    return self.release(&id, Some(behind), out).await;
                }
                Err(error) => return Err(error.with("table", &id)),
            }
        }
        self.context.marks.clear(&event.id);
        if let Some(to) = renamed_to(&event) {
            let renamed = self.tables.entry(to.clone()).or_default();
            renamed.projection = sink.take();
            renamed.failed = false;
        }
        let table = self.tables.entry(id.clone()).or_default();
        table.projection = sink;
        table.recent_ddl.push_back(event.id.clone());
        if table.recent_ddl.len() > REMEMBERED_DDL {
            table.recent_ddl.pop_front();
        }
        out.emit(Target::All, StreamRecord::Schema(applied));
        self.release(&id, Some(behind), out).await
    }

    /// Lets go what is held, up to the next DDL that has to wait.
    async fn release(
        &mut self,
        id: &TableId,
        behind: Option<Behind>,
        out: &mut Collector,
    ) -> Result<()> {
        let Some(mut behind) = behind else { return Ok(()) };
        let mut offsets = Offsets::new();
        while let Some(record) = behind.queue.pop()? {
            match record {
                StreamRecord::Progress(p) => {
                    offsets.insert(p.split, p.offset);
                }
                StreamRecord::Schema(event) if self.has_failed(&event.table) => {}
                StreamRecord::Schema(event) => {
                    if event.table != *id {
                        behind.followers.insert(id.clone(), offsets.clone());
                    }
                    return Box::pin(self.begin(event, offsets, Some(behind), out)).await;
                }
                StreamRecord::Data(change) => Box::pin(self.data(change, out)).await?,
                _ => {}
            }
        }
        Ok(())
    }

    fn fail(&mut self, id: &TableId, error: Error, out: &mut Collector) -> Result<()> {
        if !error.kind().is_of_table() || self.table_errors == TableErrorPolicy::Fail {
            return Err(error.with("table", id));
        }
        self.tables.entry(id.clone()).or_default().failed = true;
        out.emit(Target::All, StreamRecord::Failure(TableFailure { table: id.clone(), error }));
        Ok(())
    }
}

#[async_trait]
impl Operator for StreamDdlHandler {
    async fn open(&mut self, restored: Option<State>, out: &mut Collector) -> Result<()> {
        self.applier = Some(self.sink.metadata_applier(&self.context).await?);
        let Some(restored) = restored else { return Ok(()) };
        for (entry, records) in state::read::<TableEntry>(&restored)? {
            if !state::owns(&self.context, &entry.table) {
                continue;
            }
            let id = entry.table;
            let mut table = Table {
                projection: entry.projection,
                recent_ddl: entry.recent_ddl,
                failed: entry.failed,
                ..Table::default()
            };
            if let Some(held) = entry.hold {
                let decision = self.policy.decide(&held.event, table.projection.as_ref())?;
                let mut queue = HeldQueue::new(HELD_MEMORY_BYTES, self.spill_path(&held.event.id));
                let followers: BTreeMap<_, _> = held.followers.into_iter().collect();
                for follower in followers.keys() {
                    self.followers.insert(follower.clone(), id.clone());
                }
                for record in records {
                    queue.push(record)?;
                }
                let applied = decision.event.as_ref().unwrap_or(&held.event);
                let mut hold = Hold {
                    // Marks of the earlier attempt do not count, so at least the writers' are asked for again.
                    needs: match self.needs(applied, &id) {
                        DdlNeeds::RowsCommitted => DdlNeeds::RowsCommitted,
                        _ => DdlNeeds::FilesComplete,
                    },
                    since_ms: self.context.clock.now_ms(),
                    warned: false,
                    offsets: held.offsets,
                    behind: Behind { queue, followers },
                    event: held.event,
                    decision,
                };
                self.ask(&mut hold, out);
                table.hold = Some(hold);
            }
            self.tables.insert(id, table);
        }
        Ok(())
    }

    async fn process(&mut self, record: StreamRecord, out: &mut Collector) -> Result<()> {
        match record {
            StreamRecord::Data(change) => self.data(change, out).await,
            StreamRecord::Schema(event) => self.schema(event, out).await,
            StreamRecord::Progress(progress) => {
                self.progress.insert(progress.split.clone(), progress.clone());
                out.emit(Target::All, StreamRecord::Progress(progress));
                Ok(())
            }
            other => {
                out.emit(Target::All, other);
                Ok(())
            }
        }
    }

    async fn tick(&mut self, out: &mut Collector) -> Result<()> {
        let held: Vec<TableId> = self
            .tables
            .iter()
            .filter(|(_, t)| t.hold.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        for id in held {
            let Some(mut hold) = self.take(&id) else { continue };
            if self.ready(&mut hold)? {
                self.run(id, hold, out).await?;
            } else {
                self.place(id, hold);
            }
        }
        Ok(())
    }

    async fn prepare_snapshot(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Collector,
    ) -> Result<()> {
        for (id, table) in &mut self.tables {
            if table.dirty == Dirty::SinceBarrier {
                table.dirty = Dirty::Before(checkpoint);
            }
            let Some(hold) = &table.hold else { continue };
            let held = std::iter::once((id, &hold.offsets)).chain(&hold.behind.followers);
            for (id, offsets) in held {
                for (split, offset) in offsets {
                    let progress = Progress {
                        table: Some(id.clone()),
                        split: split.clone(),
                        offset: offset.clone(),
                        commit_ms: hold.event.commit_ms,
                    };
                    out.emit(Target::All, StreamRecord::Progress(progress));
                }
            }
        }
        Ok(())
    }

    async fn snapshot_state(&mut self, _checkpoint: CheckpointId) -> Result<State> {
        let mut writer = state::StateWriter::default();
        for (id, table) in &mut self.tables {
            let mut records = Vec::new();
            let hold = match &mut table.hold {
                Some(hold) => {
                    hold.behind.queue.encode(&mut records)?;
                    Some(HoldEntry {
                        event: hold.event.clone(),
                        offsets: hold.offsets.clone(),
                        followers: hold.behind.followers.clone().into_iter().collect(),
                    })
                }
                None => None,
            };
            let entry = TableEntry {
                table: id.clone(),
                projection: table.projection.clone(),
                recent_ddl: table.recent_ddl.clone(),
                failed: table.failed,
                hold,
            };
            writer.entry_bytes(&entry, &records)?;
        }
        Ok(writer.finish())
    }

    fn holds(&self) -> bool {
        self.tables.values().any(|t| t.hold.is_some())
    }

    async fn checkpoint_complete(
        &mut self,
        checkpoint: CheckpointId,
        _out: &mut Collector,
    ) -> Result<()> {
        for table in self.tables.values_mut() {
            if matches!(table.dirty, Dirty::Before(c) if c <= checkpoint) {
                table.dirty = Dirty::Clean;
            }
        }
        // A hold that began after that barrier still waits for a checkpoint of its own.
        let waits = |t: &Table| t.hold.as_ref().is_some_and(|h| h.needs == DdlNeeds::RowsCommitted);
        if self.tables.values().any(waits) {
            self.context.checkpoints.request();
        }
        Ok(())
    }

    async fn finish(&mut self, out: &mut Collector) -> Result<()> {
        self.tick(out).await
    }
}

/// The name that the event gives its table.
fn renamed_to(event: &SchemaEvent) -> Option<&TableId> {
    event.changes.iter().find_map(|change| match change {
        SchemaChange::RenameTable { to } => Some(to),
        _ => None,
    })
}

fn kinds(event: &SchemaEvent) -> Arc<str> {
    let mut kinds: Vec<&str> = event.changes.iter().map(SchemaChange::kind).collect();
    kinds.dedup();
    kinds.join(", ").into()
}

/// The given rows of a change, in order.
fn select(change: &DataChange, rows: Vec<u32>) -> Result<DataChange> {
    let kinds = rows.iter().map(|r| change.kinds[*r as usize]).collect();
    let mut segments: Vec<Segment> = Vec::new();
    let mut taken = 0;
    for segment in &change.segments {
        let end = rows.partition_point(|r| *r < segment.end);
        if end > taken {
            segments.push(Segment { end: end as u32, ..*segment });
            taken = end;
        }
    }
    let unavailable = change.unavailable.as_ref().map(|u| {
        let column =
            |b: &arrow_buffer::BooleanBuffer| rows.iter().map(|r| b.value(*r as usize)).collect();
        lakeward_core::Unavailable(u.0.iter().map(|c| c.as_ref().map(column)).collect())
    });
    let batch = take_record_batch(&change.rows, &UInt32Array::from(rows))
        .map_err(|e| Error::bug("could not split rows by key").with_source(e))?;
    Ok(DataChange {
        table: change.table.clone(),
        schema: change.schema.clone(),
        kinds,
        rows: batch,
        unavailable,
        segments,
        snapshot: change.snapshot,
    })
}
