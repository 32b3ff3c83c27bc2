//! `DynamicStreamWriter`: a map of writers, one per table, made on first sight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::StreamExt;
use lakeward_core::{
    CheckpointId, Collector, Committable, Counter, DataChange, Error, Mark, MarkStage, Operator,
    OperatorContext, Result, SchemaChange, SchemaEvent, Sink, SinkWriter, State, StreamRecord,
    TableFailure, TableId, Target,
};
use serde::{Deserialize, Serialize};

use crate::{TableErrorPolicy, state};

/// Tables whose files are completed at the same time.
const CONCURRENT_TABLES: usize = 16;

pub struct DynamicStreamWriter {
    context: OperatorContext,
    sink: Arc<dyn Sink>,
    table_errors: TableErrorPolicy,
    tables: BTreeMap<TableId, Table>,
    failed: BTreeSet<TableId>,
    rows: Counter,
}

struct Table {
    writer: Box<dyn SinkWriter>,
    dirty: bool,
    rows: Counter,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    failed: BTreeMap<String, TableId>,
}

impl DynamicStreamWriter {
    pub fn new(
        context: OperatorContext,
        sink: Arc<dyn Sink>,
        table_errors: TableErrorPolicy,
    ) -> Self {
        let rows = context.metrics.counter("rows_written_total");
        Self { context, sink, table_errors, tables: BTreeMap::new(), failed: BTreeSet::new(), rows }
    }

    async fn data(&mut self, change: DataChange, out: &mut Collector) -> Result<()> {
        if self.failed.contains(&change.table) {
            return Ok(());
        }
        let id = change.table.clone();
        let count = change.kinds.len() as u64;
        let written = self.write(&id, change).await;
        match written {
            Ok(()) => {
                self.rows.add(count);
                self.give_memory_back(out).await
            }
            Err(error) => self.fail(&id, error, out),
        }
    }

    async fn write(&mut self, id: &TableId, change: DataChange) -> Result<()> {
        if !self.tables.contains_key(id) {
            let writer = self.sink.writer(id, &self.context).await?;
            let rows = self.context.metrics.with("table", id).counter("table_rows_written_total");
            self.tables.insert(id.clone(), Table { writer, dirty: false, rows });
        }
        let table = self.tables.get_mut(id).expect("inserted above");
        table.dirty = true;
        table.rows.add(change.kinds.len() as u64);
        table.writer.write(change).await
    }

    /// Completes files of the largest tables until what is buffered fits the bound.
    async fn give_memory_back(&mut self, out: &mut Collector) -> Result<()> {
        let mut total: usize = self.tables.values().map(|t| t.writer.buffered_bytes()).sum();
        while total > self.context.memory_bytes {
            let largest = self.tables.iter_mut().max_by_key(|(_, t)| t.writer.buffered_bytes());
            let Some((id, table)) = largest else { break };
            let before = table.writer.buffered_bytes();
            let id = id.clone();
            if let Err(error) = table.writer.flush().await {
                self.fail(&id, error, out)?;
                continue;
            }
            let after = table.writer.buffered_bytes();
            if after >= before {
                break;
            }
            total -= before - after;
        }
        Ok(())
    }

    async fn mark(&mut self, mark: Mark, out: &mut Collector) -> Result<()> {
        let id = mark.table.clone();
        if let Some(table) = self.tables.get_mut(&id).filter(|t| t.dirty) {
            match table.writer.complete_files().await {
                Ok(committables) => {
                    table.dirty = false;
                    emit(committables, out);
                }
                // Left out from here on; a DDL that takes the table in again must not wait for this writer.
                Err(error) => self.fail(&id, error, out)?,
            }
        }
        let (context, writer) = (&self.context, self.context.index);
        context.marks.leave(&mark.ddl, context.attempt, MarkStage::FilesComplete, writer)?;
        let mark = Mark { writer: Some(writer), ..mark };
        out.emit(Target::Hash(id.stable_hash()), StreamRecord::Mark(mark));
        Ok(())
    }

    async fn schema(&mut self, event: SchemaEvent, out: &mut Collector) -> Result<()> {
        let gone = event.changes.iter().any(|c| {
            matches!(
                c,
                SchemaChange::DropTable
                    | SchemaChange::ResetTable
                    | SchemaChange::RenameTable { .. }
            )
        });
        if gone {
            self.tables.remove(&event.table);
        } else if let Some(table) = self.tables.get_mut(&event.table) {
            table.writer.table_changed().await.map_err(|e| e.with("table", &event.table))?;
        }
        let anew = event.starts_anew();
        if anew {
            self.failed.remove(&event.table);
        }
        // The owner in the next stage needs it once; but where a table begins anew, before the first rows of every writer.
        if self.context.index == 0 || anew {
            let target = Target::Hash(event.table.stable_hash());
            out.emit(target, StreamRecord::Schema(event));
        }
        Ok(())
    }

    /// Completes the files of every table that got rows since the last time.
    async fn complete_all(&mut self, out: &mut Collector) -> Result<()> {
        let mut work = Vec::new();
        for (id, table) in self.tables.iter_mut().filter(|(_, t)| t.dirty) {
            work.push(complete(id.clone(), table));
        }
        let done: Vec<(TableId, Result<Vec<Committable>>)> =
            futures::stream::iter(work).buffer_unordered(CONCURRENT_TABLES).collect().await;
        for (id, completed) in done {
            match completed {
                Ok(committables) => emit(committables, out),
                Err(error) => self.fail(&id, error, out)?,
            }
        }
        Ok(())
    }

    fn fail(&mut self, id: &TableId, error: Error, out: &mut Collector) -> Result<()> {
        if !error.kind().is_of_table() || self.table_errors == TableErrorPolicy::Fail {
            return Err(error.with("table", id));
        }
        self.tables.remove(id);
        self.failed.insert(id.clone());
        let failure = TableFailure { table: id.clone(), error };
        out.emit(Target::Hash(id.stable_hash()), StreamRecord::Failure(failure));
        Ok(())
    }
}

async fn complete(id: TableId, table: &mut Table) -> (TableId, Result<Vec<Committable>>) {
    table.dirty = false;
    (id, table.writer.complete_files().await)
}

fn emit(committables: Vec<Committable>, out: &mut Collector) {
    for committable in committables {
        let target = Target::Hash(committable.table.stable_hash());
        out.emit(target, StreamRecord::Committable(committable));
    }
}

#[async_trait]
impl Operator for DynamicStreamWriter {
    async fn open(&mut self, restored: Option<State>, _out: &mut Collector) -> Result<()> {
        if let Some(restored) = restored {
            for (entry, _) in state::read::<Entry>(&restored)? {
                self.failed.extend(entry.failed.into_values());
            }
        }
        Ok(())
    }

    async fn process(&mut self, record: StreamRecord, out: &mut Collector) -> Result<()> {
        match record {
            StreamRecord::Data(change) => self.data(change, out).await,
            StreamRecord::Mark(mark) => self.mark(mark, out).await,
            StreamRecord::Schema(event) => self.schema(event, out).await,
            StreamRecord::Failure(failure) => {
                self.tables.remove(&failure.table);
                self.failed.insert(failure.table.clone());
                let target = Target::Hash(failure.table.stable_hash());
                out.emit(target, StreamRecord::Failure(failure));
                Ok(())
            }
            // A committer needs the progress of every writer's stream once; they are all alike at a barrier.
            StreamRecord::Progress(progress) => {
                out.emit(Target::All, StreamRecord::Progress(progress));
                Ok(())
            }
            other => {
                out.emit(Target::All, other);
                Ok(())
            }
        }
    }

    async fn prepare_snapshot(
        &mut self,
        _checkpoint: CheckpointId,
        out: &mut Collector,
    ) -> Result<()> {
        self.complete_all(out).await
    }

    async fn snapshot_state(&mut self, _checkpoint: CheckpointId) -> Result<State> {
        let mut writer = state::StateWriter::default();
        if !self.failed.is_empty() {
            let failed = self.failed.iter().map(|t| (t.to_string(), t.clone())).collect();
            writer.entry(&Entry { failed }, [])?;
        }
        Ok(writer.finish())
    }

    async fn checkpoint_complete(
        &mut self,
        _checkpoint: CheckpointId,
        _out: &mut Collector,
    ) -> Result<()> {
        Ok(())
    }

    async fn finish(&mut self, out: &mut Collector) -> Result<()> {
        self.complete_all(out).await
    }
}
