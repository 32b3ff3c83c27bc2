//! `DynamicFilesCommitter`: keeps what the writers finished in checkpoint state, and commits it once the checkpoint is
//! complete. One instance owns a table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{
    CheckpointId, Collector, Committable, Committer, Counter, DdlId, Epoch, EpochCommitted, Error,
    Gauge, MarkStage, Offset, Offsets, Operator, OperatorContext, Progress, Result, SchemaEvent,
    Sink, Source, SplitId, State, StreamRecord, TableFailure, TableId, Target,
};
use serde::{Deserialize, Serialize};

use crate::{TableErrorPolicy, state};

pub struct DynamicFilesCommitter {
    context: OperatorContext,
    sink: Arc<dyn Sink>,
    source: Arc<dyn Source>,
    table_errors: TableErrorPolicy,
    /// Writer instances: a mark counts once all of them have passed it on.
    writers: usize,
    committer: Option<Box<dyn Committer>>,
    /// What arrived since the last barrier.
    current: Pending,
    progress: BTreeMap<SplitId, Progress>,
    /// What stands before each barrier that is not committed yet, in order.
    pending: Vec<Pending>,
    /// Writers that passed on a mark, and the barrier behind the last of them.
    marks: BTreeMap<DdlId, MarkSeen>,
    failed: BTreeSet<TableId>,
    /// The DDL with which each table last began anew.
    renewed: BTreeMap<TableId, DdlId>,
    commits: Counter,
    commit_ms: Gauge,
}

#[derive(Default)]
struct Pending {
    epoch: Option<Epoch>,
    tables: BTreeMap<TableId, Vec<Committable>>,
    /// Tables whose rows the DDL handler holds: complete only up to these offsets.
    capped: BTreeMap<TableId, Offsets>,
}

struct MarkSeen {
    writers: BTreeSet<usize>,
    barrier: Option<CheckpointId>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    epoch: Epoch,
    capped: Vec<(TableId, BTreeMap<SplitId, Offset>)>,
    failed: Vec<TableId>,
}

impl DynamicFilesCommitter {
    pub fn new(
        context: OperatorContext,
        sink: Arc<dyn Sink>,
        source: Arc<dyn Source>,
        table_errors: TableErrorPolicy,
        writers: usize,
    ) -> Self {
        let commits = context.metrics.counter("commits_total");
        let commit_ms = context.metrics.gauge("last_commit_duration_ms");
        Self {
            context,
            sink,
            source,
            table_errors,
            writers,
            committer: None,
            current: Pending::default(),
            progress: BTreeMap::new(),
            pending: Vec::new(),
            marks: BTreeMap::new(),
            failed: BTreeSet::new(),
            renewed: BTreeMap::new(),
            commits,
            commit_ms,
        }
    }

    /// Commits every pending epoch up to `checkpoint`, oldest first.
    async fn commit_up_to(&mut self, checkpoint: CheckpointId, out: &mut Collector) -> Result<()> {
        while self.pending.first().is_some_and(|p| p.epoch_id() <= Some(checkpoint)) {
            let pending = self.pending.remove(0);
            self.commit(pending, out).await?;
        }
        for (ddl, seen) in &self.marks {
            if seen.barrier.is_some_and(|b| b <= checkpoint) {
                let context = &self.context;
                context.marks.leave(
                    ddl,
                    context.attempt,
                    MarkStage::RowsCommitted,
                    context.index,
                )?;
            }
        }
        self.marks.retain(|_, seen| seen.barrier.is_none_or(|b| b > checkpoint));
        Ok(())
    }

    async fn commit(&mut self, pending: Pending, out: &mut Collector) -> Result<()> {
        let Some(epoch) = pending.epoch else { return Ok(()) };
        let mut report = EpochCommitted {
            checkpoint: epoch.checkpoint,
            committer: (self.context.index, self.context.parallelism),
            offsets: epoch.offsets.clone(),
            commit_ms: epoch.commit_ms,
            tables: BTreeMap::new(),
            rows: 0,
            held: !pending.capped.is_empty(),
        };
        // Tables whose rows are held reach less far; the others go together, so that a catalog can make them one commit.
        let mut groups: Vec<(Epoch, BTreeMap<TableId, Vec<Committable>>)> = Vec::new();
        let mut whole = BTreeMap::new();
        for (id, committables) in pending.tables {
            if self.failed.contains(&id) {
                continue;
            }
            match pending.capped.get(&id) {
                None => {
                    whole.insert(id, committables);
                }
                Some(offsets) => {
                    let mut capped = epoch.clone();
                    capped.offsets.extend(offsets.clone());
                    groups.push((capped, BTreeMap::from([(id, committables)])));
                }
            }
        }
        if !whole.is_empty() {
            groups.insert(0, (epoch.clone(), whole));
        }
        let committer =
            self.committer.as_mut().ok_or_else(|| Error::bug("the committer is not open"))?;
        let started_ms = self.context.clock.now_ms();
        let mut failures = Vec::new();
        for (epoch, tables) in groups {
            for (id, outcome) in committer.commit(&epoch, tables).await? {
                match outcome {
                    Ok(committed) => {
                        report.rows += committed.rows;
                        report.tables.insert(id.to_string(), committed.version);
                        self.commits.add(1);
                    }
                    Err(error) => failures.push((id, error)),
                }
            }
        }
        for (id, error) in failures {
            self.fail(&id, error, out)?;
        }
        self.commit_ms.set(self.context.clock.now_ms().saturating_sub(started_ms));
        out.emit(Target::All, StreamRecord::Committed(report));
        Ok(())
    }

    /// Commits what the checkpoint holds and the tables do not.
    async fn restore(&mut self, restored: &State, out: &mut Collector) -> Result<()> {
        let mut pending: BTreeMap<CheckpointId, Pending> = BTreeMap::new();
        for (entry, records) in state::read::<Entry>(restored)? {
            self.failed.extend(entry.failed);
            let p = pending.entry(entry.epoch.checkpoint).or_default();
            p.epoch = Some(entry.epoch);
            let owned = |id: &TableId| state::owns(&self.context, id);
            p.capped.extend(entry.capped.into_iter().filter(|(id, _)| owned(id)));
            for record in records {
                if let StreamRecord::Committable(c) = record
                    && owned(&c.table)
                {
                    p.tables.entry(c.table.clone()).or_default().push(c);
                }
            }
        }
        self.pending = pending.into_values().collect();
        self.drop_committed().await?;
        if let Some(last) = self.pending.last().and_then(Pending::epoch_id) {
            self.commit_up_to(last, out).await?;
        }
        Ok(())
    }

    /// Leaves out what the tables themselves say they hold: the checkpoint may be older than their last commit.
    async fn drop_committed(&mut self) -> Result<()> {
        let progress = self.sink.progress(&self.context.pipeline).await?;
        for progress in progress {
            for pending in &mut self.pending {
                let Some(epoch) = &pending.epoch else { continue };
                if !pending.tables.contains_key(&progress.table) {
                    continue;
                }
                let mut wanted = epoch.offsets.clone();
                if let Some(capped) = pending.capped.get(&progress.table) {
                    wanted.extend(capped.clone());
                }
                // While a snapshot is read from an idle source, epoch after epoch has the same offsets.
                let reached = progress.checkpoint >= epoch.checkpoint;
                if reached && covers(&*self.source, &progress.offsets, &wanted)? {
                    tracing::info!(table = %progress.table, checkpoint = %epoch.checkpoint,
                        "the table already holds this epoch of the restored checkpoint");
                    pending.tables.remove(&progress.table);
                }
            }
        }
        Ok(())
    }

    fn mark(&mut self, ddl: DdlId, writer: usize) {
        let seen = self
            .marks
            .entry(ddl)
            .or_insert_with(|| MarkSeen { writers: BTreeSet::new(), barrier: None });
        seen.writers.insert(writer);
    }

    /// A table that begins anew is taken in again. Every writer says so, before its first rows of it; the first one counts.
    fn schema(&mut self, event: SchemaEvent, out: &mut Collector) {
        if event.starts_anew() && self.renewed.get(&event.table) != Some(&event.id) {
            self.renewed.insert(event.table.clone(), event.id.clone());
            if self.failed.remove(&event.table) {
                out.emit(Target::All, StreamRecord::Schema(event));
            }
        }
    }

    fn fail(&mut self, id: &TableId, error: Error, out: &mut Collector) -> Result<()> {
        if !error.kind().is_of_table() || self.table_errors == TableErrorPolicy::Fail {
            return Err(error.with("table", id));
        }
        self.forget(id);
        let failure = TableFailure { table: id.clone(), error };
        out.emit(Target::All, StreamRecord::Failure(failure));
        Ok(())
    }

    /// From the epoch in which a table failed, nothing of it is committed any more.
    fn forget(&mut self, id: &TableId) {
        self.failed.insert(id.clone());
        self.current.tables.remove(id);
    }
}

impl Pending {
    fn epoch_id(&self) -> Option<CheckpointId> {
        self.epoch.as_ref().map(|e| e.checkpoint)
    }
}

/// Whether `reached` is at or beyond `wanted` in every split.
fn covers(source: &dyn Source, reached: &Offsets, wanted: &Offsets) -> Result<bool> {
    for (split, offset) in wanted {
        match reached.get(split) {
            Some(reached) if source.covers(reached, offset)? => {}
            _ => return Ok(false),
        }
    }
    Ok(!wanted.is_empty())
}

#[async_trait]
impl Operator for DynamicFilesCommitter {
    async fn open(&mut self, restored: Option<State>, out: &mut Collector) -> Result<()> {
        self.committer = Some(self.sink.committer(&self.context).await?);
        if let Some(restored) = restored {
            self.restore(&restored, out).await?;
        }
        let committer = self.committer.as_mut().expect("opened above");
        committer.restored().await
    }

    async fn process(&mut self, record: StreamRecord, out: &mut Collector) -> Result<()> {
        match record {
            StreamRecord::Committable(c) => {
                if !self.failed.contains(&c.table) {
                    self.current.tables.entry(c.table.clone()).or_default().push(c);
                }
            }
            StreamRecord::Progress(p) => match p.table {
                Some(table) => {
                    // Several DDL may hold rows of one name: it is complete up to the first of them.
                    let capped = self.current.capped.entry(table).or_default();
                    let is_first = match capped.get(&p.split) {
                        Some(before) => self.source.covers(before, &p.offset)?,
                        None => true,
                    };
                    if is_first {
                        capped.insert(p.split, p.offset);
                    }
                }
                None => {
                    self.progress.insert(p.split.clone(), p);
                }
            },
            StreamRecord::Mark(mark) => {
                if let Some(writer) = mark.writer {
                    self.mark(mark.ddl, writer);
                }
            }
            StreamRecord::Schema(event) => self.schema(event, out),
            StreamRecord::Failure(failure) => {
                self.forget(&failure.table);
                out.emit(Target::All, StreamRecord::Failure(failure));
            }
            StreamRecord::Data(change) => {
                return Err(
                    Error::bug("rows arrived at the committer").with("table", &change.table)
                );
            }
            other @ StreamRecord::Committed(_) => out.emit(Target::All, other),
        }
        Ok(())
    }

    async fn prepare_snapshot(
        &mut self,
        checkpoint: CheckpointId,
        _out: &mut Collector,
    ) -> Result<()> {
        let mut frozen = std::mem::take(&mut self.current);
        let newest = frozen.tables.values().flatten().map(|c| c.commit_ms).max().unwrap_or(0);
        frozen.epoch = Some(Epoch {
            checkpoint,
            offsets: self.progress.iter().map(|(s, p)| (s.clone(), p.offset.clone())).collect(),
            commit_ms: newest,
        });
        self.pending.push(frozen);
        for seen in self.marks.values_mut() {
            if seen.barrier.is_none() && seen.writers.len() >= self.writers {
                seen.barrier = Some(checkpoint);
            }
        }
        Ok(())
    }

    async fn snapshot_state(&mut self, _checkpoint: CheckpointId) -> Result<State> {
        let mut writer = state::StateWriter::default();
        for pending in &self.pending {
            let Some(epoch) = &pending.epoch else { continue };
            let entry = Entry {
                epoch: epoch.clone(),
                capped: pending.capped.clone().into_iter().collect(),
                failed: self.failed.iter().cloned().collect(),
            };
            let records: Vec<StreamRecord> =
                pending.tables.values().flatten().cloned().map(StreamRecord::Committable).collect();
            writer.entry(&entry, &records)?;
        }
        Ok(writer.finish())
    }

    async fn checkpoint_complete(
        &mut self,
        checkpoint: CheckpointId,
        out: &mut Collector,
    ) -> Result<()> {
        self.commit_up_to(checkpoint, out).await
    }

    async fn finish(&mut self, _out: &mut Collector) -> Result<()> {
        Ok(())
    }
}
