//! The sink: writes into a [`Lake`].

use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{
    Committer, EpochCommitted, EpochPublisher, Member, MetadataApplier, OperatorContext, Ownership,
    PipelineId, Result, Sink, SinkCheck, SinkWriter, TableId, TableProgress, TableSchema,
};

use crate::committer::ValuesCommitter;
use crate::ddl::ValuesMetadataApplier;
use crate::writer::ValuesWriter;
use crate::{Faults, Lake};

#[derive(Clone)]
pub struct ValuesSink {
    pub lake: Lake,
    pub faults: Faults,
}

impl ValuesSink {
    pub fn new(lake: Lake, faults: Faults) -> Self {
        Self { lake, faults }
    }
}

#[async_trait]
impl Sink for ValuesSink {
    async fn check(&self, _: &PipelineId, _: &[(TableId, Arc<TableSchema>)]) -> Result<SinkCheck> {
        Ok(SinkCheck { target: "values".into(), ..SinkCheck::default() })
    }

    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<Ownership> {
        self.faults.step("sink:acquire").await?;
        self.lake.acquire(pipeline, attempt);
        Ok(Ownership(String::new()))
    }

    /// The lake is in memory: whoever shares it is in this process.
    async fn join(&self, _: &PipelineId, _: &Member<'_>) -> Result<()> {
        Ok(())
    }

    async fn progress(&self, _: &PipelineId) -> Result<Vec<TableProgress>> {
        self.faults.step("sink:progress").await?;
        Ok(self.lake.progress())
    }

    async fn writer(&self, table: &TableId, _: &OperatorContext) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(ValuesWriter::new(table.clone(), self.lake.clone(), self.faults.clone())))
    }

    async fn committer(&self, context: &OperatorContext) -> Result<Box<dyn Committer>> {
        Ok(Box::new(ValuesCommitter::new(self.clone(), context)))
    }

    async fn metadata_applier(
        &self,
        context: &OperatorContext,
    ) -> Result<Box<dyn MetadataApplier>> {
        Ok(Box::new(ValuesMetadataApplier::new(self.clone(), context)))
    }

    async fn epoch_publisher(
        &self,
        context: &OperatorContext,
    ) -> Result<Option<Box<dyn EpochPublisher>>> {
        let publisher = Publisher {
            sink: self.clone(),
            pipeline: context.pipeline.clone(),
            attempt: context.attempt,
        };
        Ok(Some(Box::new(publisher)))
    }
}

struct Publisher {
    sink: ValuesSink,
    pipeline: PipelineId,
    attempt: u64,
}

#[async_trait]
impl EpochPublisher for Publisher {
    async fn publish(&mut self, epoch: &EpochCommitted) -> Result<()> {
        let ValuesSink { lake, faults } = &self.sink;
        faults.step(format!("publish {}:before", epoch.checkpoint)).await?;
        lake.check_owner(&self.pipeline, self.attempt)?;
        lake.publish(epoch);
        faults.step(format!("publish {}:after", epoch.checkpoint)).await
    }
}
