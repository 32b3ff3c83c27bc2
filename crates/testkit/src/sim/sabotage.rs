//! Planted defects. Each breaks one promise that the pipeline stands on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use lakeward_core::{
    CheckpointId, Collector, Committable, CommittedTable, Committer, DataChange, DdlId, DdlNeeds,
    Epoch, EpochPublisher, Error, Member, MetadataApplier, Offset, Offsets, OperatorContext,
    Ownership, PipelineId, ReadStatus, Result, SchemaEvent, Sink, SinkCheck, SinkWriter, Source,
    SourceCheck, SourceOpen, SourceReader, State, TableId, TableProgress, TableSchema,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The committer commits each table twice.
    CommitsTwice,
    /// After a restart the sink does not know what it holds.
    ForgetsProgress,
    /// A writer loses the files of its first barrier.
    LosesFiles,
    /// No DDL waits for the rows before it.
    DdlDoesNotWait,
    /// The store says that a checkpoint is durable when it is not.
    ForgetfulStore,
    /// A restored reader starts one transaction too late.
    SkipsOne,
    /// A restored reader starts one transaction too early.
    RepeatsOne,
    /// A restored reader forgets rows that it kept back for its next batch.
    ForgetsHeldRows,
}

pub(super) struct SabotagedSink {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) sabotage: Sabotage,
    /// Once per run is enough.
    pub(super) done: Arc<AtomicBool>,
}

#[async_trait]
impl Sink for SabotagedSink {
    async fn check(
        &self,
        pipeline: &PipelineId,
        tables: &[(TableId, Arc<TableSchema>)],
    ) -> Result<SinkCheck> {
        self.sink.check(pipeline, tables).await
    }

    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<Ownership> {
        self.sink.acquire(pipeline, attempt).await
    }

    async fn join(&self, pipeline: &PipelineId, member: &Member<'_>) -> Result<()> {
        self.sink.join(pipeline, member).await
    }

    async fn progress(&self, pipeline: &PipelineId) -> Result<Vec<TableProgress>> {
        match self.sabotage {
            Sabotage::ForgetsProgress => Ok(Vec::new()),
            _ => self.sink.progress(pipeline).await,
        }
    }

    async fn writer(
        &self,
        table: &TableId,
        context: &OperatorContext,
    ) -> Result<Box<dyn SinkWriter>> {
        let writer = self.sink.writer(table, context).await?;
        Ok(match self.sabotage {
            Sabotage::LosesFiles => Box::new(LossyWriter { writer, done: self.done.clone() }),
            _ => writer,
        })
    }

    async fn committer(&self, context: &OperatorContext) -> Result<Box<dyn Committer>> {
        let committer = self.sink.committer(context).await?;
        Ok(match self.sabotage {
            Sabotage::CommitsTwice | Sabotage::ForgetsProgress => Box::new(CarelessCommitter {
                committer,
                sabotage: self.sabotage,
                calls: context.attempt << 32,
            }),
            _ => committer,
        })
    }

    async fn metadata_applier(
        &self,
        context: &OperatorContext,
    ) -> Result<Box<dyn MetadataApplier>> {
        let applier = self.sink.metadata_applier(context).await?;
        Ok(match self.sabotage {
            Sabotage::DdlDoesNotWait => Box::new(HastyApplier { applier }),
            _ => applier,
        })
    }

    async fn epoch_publisher(
        &self,
        context: &OperatorContext,
    ) -> Result<Option<Box<dyn EpochPublisher>>> {
        self.sink.epoch_publisher(context).await
    }
}

struct LossyWriter {
    writer: Box<dyn SinkWriter>,
    done: Arc<AtomicBool>,
}

#[async_trait]
impl SinkWriter for LossyWriter {
    async fn write(&mut self, change: DataChange) -> Result<()> {
        self.writer.write(change).await
    }
    fn buffered_bytes(&self) -> usize {
        self.writer.buffered_bytes()
    }
    async fn flush(&mut self) -> Result<()> {
        self.writer.flush().await
    }
    async fn complete_files(&mut self) -> Result<Vec<Committable>> {
        let files = self.writer.complete_files().await?;
        let loses = !files.is_empty() && !self.done.swap(true, Ordering::Relaxed);
        Ok(if loses { Vec::new() } else { files })
    }
    async fn table_changed(&mut self) -> Result<()> {
        self.writer.table_changed().await
    }
}

struct CarelessCommitter {
    committer: Box<dyn Committer>,
    sabotage: Sabotage,
    calls: u64,
}

#[async_trait]
impl Committer for CarelessCommitter {
    async fn commit(
        &mut self,
        epoch: &Epoch,
        tables: BTreeMap<TableId, Vec<Committable>>,
    ) -> Result<Vec<(TableId, Result<CommittedTable, Error>)>> {
        // Under offsets that were never seen the sink cannot know that it has these rows.
        self.calls += 1;
        let split = lakeward_core::SplitId("lost".into());
        let mut unknown = epoch.clone();
        unknown.offsets.insert(split, Offset(self.calls.to_string().into()));
        match self.sabotage {
            Sabotage::CommitsTwice => {
                self.committer.commit(&unknown, tables.clone()).await?;
                self.committer.commit(epoch, tables).await
            }
            _ => self.committer.commit(&unknown, tables).await,
        }
    }
}

struct HastyApplier {
    applier: Box<dyn MetadataApplier>,
}

#[async_trait]
impl MetadataApplier for HastyApplier {
    fn needs(&self, _: &SchemaEvent) -> DdlNeeds {
        DdlNeeds::Nothing
    }
    async fn is_applied(&mut self, ddl: &DdlId) -> Result<bool> {
        self.applier.is_applied(ddl).await
    }
    async fn apply(&mut self, event: &SchemaEvent) -> Result<()> {
        self.applier.apply(event).await
    }
}

pub(super) struct SabotagedSource {
    pub(super) source: Arc<dyn Source>,
    pub(super) sabotage: Sabotage,
}

#[async_trait]
impl Source for SabotagedSource {
    async fn check(&self) -> Result<SourceCheck> {
        self.source.check().await
    }

    async fn open(&self, mut open: SourceOpen) -> Result<Box<dyn SourceReader>> {
        let by: i64 = match self.sabotage {
            Sabotage::SkipsOne => 1,
            Sabotage::RepeatsOne => -1,
            Sabotage::ForgetsHeldRows => {
                return Ok(Box::new(ForgetfulReader { reader: self.source.open(open).await? }));
            }
            _ => 0,
        };
        if let Some(state) = &mut open.restored {
            let mut content: serde_json::Value = state.to_json()?;
            let log = content["log"].as_i64().unwrap_or(0);
            if content["snapshot"].is_null() && log > 0 {
                content["log"] = (log + by).into();
                *state = State::from_json(state.version, &content)?;
            }
        }
        self.source.open(open).await
    }

    async fn current_offsets(&self) -> Result<Offsets> {
        self.source.current_offsets().await
    }

    fn covers(&self, reached: &Offset, offset: &Offset) -> Result<bool> {
        self.source.covers(reached, offset)
    }
}

struct ForgetfulReader {
    reader: Box<dyn SourceReader>,
}

#[async_trait]
impl SourceReader for ForgetfulReader {
    async fn next(&mut self, out: &mut Collector) -> Result<ReadStatus> {
        self.reader.next(out).await
    }
    async fn prepare_snapshot(&mut self, at: CheckpointId, out: &mut Collector) -> Result<()> {
        // Brings nothing out: rows kept back are on the wrong side of the barrier.
        let mut late = Collector::default();
        self.reader.prepare_snapshot(at, &mut late).await?;
        for (target, record) in late.drain() {
            if !matches!(record, lakeward_core::StreamRecord::Data(_)) {
                out.emit(target, record);
            }
        }
        Ok(())
    }
    async fn snapshot_state(&mut self, at: CheckpointId) -> Result<State> {
        self.reader.snapshot_state(at).await
    }
    async fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.reader.checkpoint_complete(checkpoint).await
    }
    async fn close(&mut self) {
        self.reader.close().await;
    }
}
