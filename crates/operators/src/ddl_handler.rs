//! `StreamDdlHandler`: lets a table's rows through, and brings its DDL to the sink at the right moment.
//!
//! A DDL that must not overtake rows is preceded by a mark to all writers; what follows it for that table is held until
//! the marks say that the rows before it are safe. Nothing waits: the hold is state, other tables go on.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{
    CheckpointId, Collector, DataChange, DdlId, DdlNeeds, Error, MetadataApplier, Offsets,
    Operator, OperatorContext, Progress, Result, SchemaEvent, Sink, SplitId, State, StreamRecord,
    TableFailure, TableId, Target,
};

use crate::held::HeldQueue;
use crate::policy::SchemaPolicy;
use crate::projection::Projection;
use crate::{TableErrorPolicy, state};
use apply::renamed_to;
use by_key::by_key;
use hold::{Behind, Hold, HoldEntry, Place, Released, TableEntry};

mod apply;
mod by_key;
mod hold;

/// Rows that may be held in memory per table; more go to a file.
const HELD_MEMORY_BYTES: usize = 8 << 20;

pub struct StreamDdlHandler {
    context: OperatorContext,
    sink: Arc<dyn Sink>,
    applier: Option<Box<dyn MetadataApplier>>,
    policy: SchemaPolicy,
    table_errors: TableErrorPolicy,
    tables: BTreeMap<TableId, Table>,
    /// In whose hold a table's newest records wait: its own, or that of a table which is to be renamed to it.
    newest: BTreeMap<TableId, TableId>,
    /// What is being let go, a part at a time. Empty again before anything else happens.
    released: VecDeque<Released>,
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
            newest: BTreeMap::new(),
            released: VecDeque::new(),
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

    fn data(&mut self, change: DataChange, out: &mut Collector) -> Result<()> {
        if let Some(hold) = self.hold_of(&change.table) {
            return hold.behind.queue.push(StreamRecord::Data(change));
        }
        self.let_through(change, out)
    }

    fn let_through(&mut self, change: DataChange, out: &mut Collector) -> Result<()> {
        let id = change.table.clone();
        if self.has_failed(&id) {
            return Ok(());
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

    fn send(&mut self, change: DataChange, out: &mut Collector) -> Result<()> {
        if let Some(table) = self.tables.get_mut(&change.table) {
            table.dirty = Dirty::SinceBarrier;
        }
        for (writer, change) in by_key(change, self.context.downstream_parallelism.max(1))? {
            out.emit(Target::Index(writer), StreamRecord::Data(change));
        }
        Ok(())
    }

    async fn schema(&mut self, event: SchemaEvent, out: &mut Collector) -> Result<()> {
        let offsets = self.offsets();
        if self.is_left_out(&event) && self.hold_of(&event.table).is_none() {
            return Ok(());
        }
        let progress: Vec<Progress> = self.progress.values().cloned().collect();
        let renamed = renamed_to(&event).cloned();
        let holder = self.newest.get(&event.table).unwrap_or(&event.table).clone();
        let position = event.position;
        if let Some(hold) = self.hold_of(&event.table) {
            // Its own offsets come out of the queue before it.
            for progress in progress {
                let progress = Progress { table: Some(event.table.clone()), ..progress };
                hold.behind.queue.push(StreamRecord::Progress(progress))?;
            }
            hold.behind.queue.push(StreamRecord::Schema(event))?;
            if let Some(to) = renamed {
                if to != holder {
                    let place = Place { position, offsets };
                    hold.behind.followers.entry(to.clone()).or_insert(place);
                }
                self.newest.insert(to, holder);
            }
            return Ok(());
        }
        self.begin(event, offsets, None, out).await
    }

    fn has_failed(&self, id: &TableId) -> bool {
        self.tables.get(id).is_some_and(|t| t.failed)
    }

    fn is_left_out(&self, event: &SchemaEvent) -> bool {
        self.has_failed(&event.table) && !event.starts_anew()
    }

    /// The hold that a new record of the table has to wait in.
    fn hold_of(&mut self, id: &TableId) -> Option<&mut Hold> {
        let holder = self.newest.get(id).unwrap_or(id);
        self.tables.get_mut(holder)?.hold.as_mut()
    }

    fn place(&mut self, id: TableId, hold: Hold) -> Result<()> {
        let place = &mut self.tables.entry(id.clone()).or_default().hold;
        if place.is_some() {
            return Err(Error::bug("a second DDL of a table would wait beside the first one")
                .with("table", id));
        }
        *place = Some(hold);
        Ok(())
    }

    fn take(&mut self, id: &TableId) -> Option<Hold> {
        self.tables.get_mut(id)?.hold.take()
    }

    /// Tables with records that wait: up to where each is let through, and when the source committed what it waits for.
    fn let_through_up_to(&self) -> BTreeMap<TableId, (Place, i64)> {
        let mut through: BTreeMap<TableId, (Place, i64)> = BTreeMap::new();
        for (id, table) in &self.tables {
            let Some(hold) = &table.hold else { continue };
            let own = Place { position: hold.event.position, offsets: hold.offsets.clone() };
            for (id, place) in std::iter::once((id, &own)).chain(&hold.behind.followers) {
                // Records of one table may wait in several holds: the oldest ones count.
                let known = through.get(id).is_some_and(|(p, _)| p.position <= place.position);
                if !known {
                    through.insert(id.clone(), (place.clone(), hold.event.commit_ms));
                }
            }
        }
        through
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
                self.newest.extend(held.newest.into_iter().map(|table| (table, id.clone())));
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
            StreamRecord::Data(change) => self.data(change, out),
            StreamRecord::Schema(event) => self.schema(event, out).await,
            StreamRecord::Progress(progress) => {
                self.progress.insert(progress.split.clone(), progress.clone());
                out.emit(Target::All, StreamRecord::Progress(progress));
                Ok(())
            }
            StreamRecord::Failure(failure) => self.fail(&failure.table, failure.error, out),
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
            if self.ready(&mut hold)? && self.prepared(&hold).await? {
                self.run(id, hold, out).await?;
            } else {
                self.place(id, hold)?;
            }
            if self.has_more() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.released.is_empty()
    }

    async fn emit_more(&mut self, out: &mut Collector) -> Result<()> {
        self.let_go(out).await
    }

    async fn prepare_snapshot(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Collector,
    ) -> Result<()> {
        for table in self.tables.values_mut().filter(|t| t.dirty == Dirty::SinceBarrier) {
            table.dirty = Dirty::Before(checkpoint);
        }
        for (id, (place, commit_ms)) in self.let_through_up_to() {
            for (split, offset) in place.offsets {
                let progress = Progress { table: Some(id.clone()), split, offset, commit_ms };
                out.emit(Target::All, StreamRecord::Progress(progress));
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
                    let here = self.newest.iter().filter(|(_, holder)| *holder == id);
                    let newest = here.map(|(table, _)| table.clone()).collect();
                    Some(HoldEntry {
                        event: hold.event.clone(),
                        offsets: hold.offsets.clone(),
                        followers: hold.behind.followers.clone().into_iter().collect(),
                        newest,
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
