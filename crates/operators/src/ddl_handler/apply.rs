//! A DDL from its arrival to its place in the sink: what it waits for, and what is let go after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use lakeward_core::{
    Collector, DdlNeeds, Error, ErrorKind, Mark, MarkStage, Offsets, Position, Result,
    SchemaChange, SchemaEvent, StreamRecord, TableId, Target,
};

use super::hold::{Behind, Hold, Place, Released};
use super::{Dirty, HELD_MEMORY_BYTES, StreamDdlHandler};
use crate::held::HeldQueue;
use crate::policy::{SchemaChangeBehavior, SchemaPolicy};

/// How many of a table's last DDL are remembered to drop repeated ones.
const REMEMBERED_DDL: usize = 32;
/// After so many checkpoint intervals a DDL runs without the missing success marks.
const INTERVALS_BEFORE_FORCED: u64 = 3;
/// What is let go at once.
const RELEASE_BYTES: usize = 8 << 20;

impl StreamDdlHandler {
    /// Starts to deal with a DDL whose table is not held. `rest` is what waits behind it already.
    pub(super) async fn begin(
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
                self.refuse(&event, error, out)?;
                return self.release(&id, rest, out).await;
            }
        };
        let Some(applied) = decision.event.as_ref().filter(|_| !repeated) else {
            table.projection = decision.sink.or_else(|| table.projection.take());
            return self.release(&id, rest, out).await;
        };
        let needs = self.needs(applied, &id);
        let is_newest = rest.is_none();
        let mut behind = match rest {
            Some(behind) => behind,
            None => Behind {
                queue: HeldQueue::new(HELD_MEMORY_BYTES, self.spill_path(&event.id)),
                followers: BTreeMap::new(),
            },
        };
        // Whatever waits behind it comes after it, so all of it is let through up to here.
        let here = Place { position: event.position, offsets: offsets.clone() };
        behind.followers.extend(renamed_to(&event).map(|to| (to.clone(), here.clone())));
        behind.followers.remove(&id);
        for place in behind.followers.values_mut().filter(|p| p.position < here.position) {
            place.clone_from(&here);
        }
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
        if is_newest {
            // Records of a new name are of this table from here on, whoever had it before.
            let new_name = renamed_to(&hold.event).cloned();
            for name in std::iter::once(id.clone()).chain(new_name) {
                self.newest.insert(name, id.clone());
            }
        }
        self.place(id, hold)
    }

    /// What the DDL has to wait for, given what has gone before it.
    pub(super) fn needs(&self, event: &SchemaEvent, id: &TableId) -> DdlNeeds {
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

    pub(super) fn ask(&self, hold: &mut Hold, out: &mut Collector) {
        let mark =
            Mark { table: hold.event.table.clone(), ddl: hold.event.id.clone(), writer: None };
        out.emit(Target::All, StreamRecord::Mark(mark));
        if hold.needs == DdlNeeds::RowsCommitted {
            self.context.checkpoints.request();
        }
    }

    /// Whether older records of that name wait, of a table that may have to leave it first.
    fn is_taken(&self, name: &TableId, before: Position) -> bool {
        self.tables.iter().any(|(id, table)| {
            let waits = |hold: &Hold| {
                hold.behind.followers.get(name).is_some_and(|place| place.position < before)
            };
            table.hold.as_ref().is_some_and(|hold| id == name || waits(hold))
        })
    }

    /// Whether the DDL may run now.
    pub(super) fn ready(&self, hold: &mut Hold) -> Result<bool> {
        // The name is free once what happened to its last table has been done.
        if renamed_to(&hold.event).is_some_and(|to| self.is_taken(to, hold.event.position)) {
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

    /// Whether the sink can apply it without waiting. An error is met again when it is applied.
    pub(super) async fn prepared(&mut self, hold: &Hold) -> Result<bool> {
        let (Some(applier), Some(event)) = (&mut self.applier, &hold.decision.event) else {
            return Ok(true);
        };
        match applier.prepare(event).await {
            Err(error) if !error.kind().is_of_table() => Err(error.with("table", &event.table)),
            Err(_) => Ok(true),
            prepared => prepared,
        }
    }

    /// Applies the DDL, tells the stages behind, and lets go what was held.
    pub(super) async fn run(&mut self, id: TableId, hold: Hold, out: &mut Collector) -> Result<()> {
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
                    self.refuse(&event, error, out)?;
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
        table.failed &= !event.starts_anew();
        table.projection = sink;
        table.recent_ddl.push_back(event.id.clone());
        if table.recent_ddl.len() > REMEMBERED_DDL {
            table.recent_ddl.pop_front();
        }
        out.emit(Target::All, StreamRecord::Schema(applied));
        self.release(&id, Some(behind), out).await
    }

    /// The event's table is left out: under its new name as well, where rows would come to another table or to none.
    fn refuse(&mut self, event: &SchemaEvent, error: Error, out: &mut Collector) -> Result<()> {
        let (kind, text) = (error.kind(), error.to_string());
        self.fail(&event.table, error, out)?;
        match renamed_to(event) {
            Some(to) => self.fail(to, Error::new(kind, text), out),
            None => Ok(()),
        }
    }

    /// Begins to let go what is held, up to the next DDL that has to wait.
    async fn release(
        &mut self,
        id: &TableId,
        behind: Option<Behind>,
        out: &mut Collector,
    ) -> Result<()> {
        let Some(behind) = behind else { return Ok(()) };
        self.released.push_front(Released { id: id.clone(), behind, offsets: Offsets::new() });
        self.let_go(out).await
    }

    /// Lets go a part of what is released.
    pub(super) async fn let_go(&mut self, out: &mut Collector) -> Result<()> {
        let Some(mut released) = self.released.pop_front() else { return Ok(()) };
        let mut bytes = 0;
        while bytes < RELEASE_BYTES {
            let Some(record) = released.behind.queue.pop()? else {
                self.newest.retain(|_, holder| *holder != released.id);
                return Ok(());
            };
            bytes += record.size_bytes();
            match record {
                StreamRecord::Progress(p) => {
                    released.offsets.insert(p.split, p.offset);
                }
                StreamRecord::Schema(event) if self.is_left_out(&event) => {}
                StreamRecord::Schema(event) => {
                    let Released { id, mut behind, offsets } = released;
                    for holder in self.newest.values_mut().filter(|holder| **holder == id) {
                        holder.clone_from(&event.table);
                    }
                    if event.table != id {
                        let place = Place { position: event.position, offsets: offsets.clone() };
                        behind.followers.insert(id, place);
                    }
                    return Box::pin(self.begin(event, offsets, Some(behind), out)).await;
                }
                // Whatever the table's newest records wait for, this one is older.
                StreamRecord::Data(change) => self.let_through(change, out)?,
                _ => {}
            }
        }
        self.released.push_front(released);
        Ok(())
    }
}

/// The name that the event gives its table.
pub(super) fn renamed_to(event: &SchemaEvent) -> Option<&TableId> {
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
