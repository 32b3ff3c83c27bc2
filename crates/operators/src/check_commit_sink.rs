//! `CheckCommitSink`: where failed tables end up and where an epoch is declared committed.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use lakeward_core::{
    CheckpointId, Collector, EpochCommitted, EpochPublisher, Operator, OperatorContext, Result,
    Sink, State, StreamRecord, TableFailure, TableId,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{TableErrorPolicy, state};

pub struct CheckCommitSink {
    context: OperatorContext,
    sink: Arc<dyn Sink>,
    table_errors: TableErrorPolicy,
    publisher: Option<Box<dyn EpochPublisher>>,
    /// Reports of committers, by epoch, until all have reported.
    reports: BTreeMap<CheckpointId, (BTreeSet<usize>, EpochCommitted)>,
    /// Tables left out and why.
    paused: BTreeMap<String, Paused>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Paused {
    table: TableId,
    reason: String,
}

impl CheckCommitSink {
    pub fn new(
        context: OperatorContext,
        sink: Arc<dyn Sink>,
        table_errors: TableErrorPolicy,
    ) -> Self {
        Self {
            context,
            sink,
            table_errors,
            publisher: None,
            reports: BTreeMap::new(),
            paused: BTreeMap::new(),
        }
    }

    async fn committed(&mut self, report: EpochCommitted) -> Result<()> {
        let checkpoint = report.checkpoint;
        let (committer, committers) = report.committer;
        let (seen, whole) = self.reports.entry(checkpoint).or_insert_with(|| {
            (BTreeSet::new(), EpochCommitted { tables: BTreeMap::new(), rows: 0, ..report.clone() })
        });
        if !seen.insert(committer) {
            return Ok(());
        }
        whole.tables.extend(report.tables);
        whole.rows += report.rows;
        whole.held |= report.held;
        whole.commit_ms = whole.commit_ms.max(report.commit_ms);
        if seen.len() < committers {
            return Ok(());
        }
        let Some((_, whole)) = self.reports.remove(&checkpoint) else { return Ok(()) };
        // Every committer commits in order, so an older epoch that is still incomplete was covered by this one.
        self.reports.retain(|c, _| *c > checkpoint);
        if !whole.tables.is_empty()
            && let Some(publisher) = &mut self.publisher
        {
            publisher.publish(&whole).await?;
        }
        self.context.listener.epoch_committed(&whole);
        Ok(())
    }

    fn failed(&mut self, failure: TableFailure) -> Result<()> {
        let TableFailure { table, error } = failure;
        if self.table_errors == TableErrorPolicy::Fail || !error.kind().is_of_table() {
            return Err(error.with("table", &table));
        }
        if self.paused.contains_key(&table.to_string()) {
            return Ok(());
        }
        tracing::error!(%table, %error, "the table is paused; the others go on");
        self.context.listener.table_paused(&table, &error);
        let reason = error.to_string();
        self.paused.insert(table.to_string(), Paused { table, reason });
        Ok(())
    }
}

#[async_trait]
impl Operator for CheckCommitSink {
    async fn open(&mut self, restored: Option<State>, _out: &mut Collector) -> Result<()> {
        self.publisher = self.sink.epoch_publisher(&self.context).await?;
        if let Some(restored) = restored {
            for (paused, _) in state::read::<Paused>(&restored)? {
                tracing::warn!(table = %paused.table, reason = %paused.reason,
                    "the table is still paused; resnapshot it to go on");
                let error = lakeward_core::Error::data_invalid(paused.reason.clone());
                self.context.listener.table_paused(&paused.table, &error);
                self.paused.insert(paused.table.to_string(), paused);
            }
        }
        Ok(())
    }

    async fn process(&mut self, record: StreamRecord, _out: &mut Collector) -> Result<()> {
        match record {
            StreamRecord::Committed(report) => self.committed(report).await,
            StreamRecord::Failure(failure) => self.failed(failure),
            // A committer says it of a table that had failed.
            StreamRecord::Schema(event) => {
                if self.paused.remove(&event.table.to_string()).is_some() {
                    tracing::info!(table = %event.table, "the table is no longer paused");
                    self.context.listener.table_resumed(&event.table);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn prepare_snapshot(
        &mut self,
        _checkpoint: CheckpointId,
        _out: &mut Collector,
    ) -> Result<()> {
        Ok(())
    }

    async fn snapshot_state(&mut self, _checkpoint: CheckpointId) -> Result<State> {
        let mut writer = state::StateWriter::default();
        for paused in self.paused.values() {
            writer.entry(paused, [])?;
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

    async fn finish(&mut self, _out: &mut Collector) -> Result<()> {
        Ok(())
    }
}
