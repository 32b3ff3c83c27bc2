//! Applies DDL to the lake.

use async_trait::async_trait;
use lakeward_core::{
    DdlId, DdlNeeds, Literal, MetadataApplier, OperatorContext, PipelineId, Result, SchemaChange,
    SchemaEvent,
};

use crate::ValuesSink;

pub(crate) struct ValuesMetadataApplier {
    sink: ValuesSink,
    pipeline: PipelineId,
    attempt: u64,
}

impl ValuesMetadataApplier {
    pub(crate) fn new(sink: ValuesSink, context: &OperatorContext) -> Self {
        Self { sink, pipeline: context.pipeline.clone(), attempt: context.attempt }
    }
}

#[async_trait]
impl MetadataApplier for ValuesMetadataApplier {
    fn needs(&self, event: &SchemaEvent) -> DdlNeeds {
        let of = |change: &SchemaChange| match change {
            SchemaChange::CreateTable => 0,
            SchemaChange::DropTable
            | SchemaChange::TruncateTable
            | SchemaChange::ResetTable
            | SchemaChange::RenameTable { .. } => 2,
            SchemaChange::AddColumn { existing_rows, .. } if *existing_rows != Literal::Null => 2,
            _ => 1,
        };
        match event.changes.iter().map(of).max() {
            None | Some(0) => DdlNeeds::Nothing,
            Some(1) => DdlNeeds::FilesComplete,
            Some(_) => DdlNeeds::RowsCommitted,
        }
    }

    async fn is_applied(&mut self, ddl: &DdlId) -> Result<bool> {
        Ok(self.sink.lake.is_applied(ddl))
    }

    async fn apply(&mut self, event: &SchemaEvent) -> Result<()> {
        let ValuesSink { lake, faults } = &self.sink;
        let what = event.changes.first().map_or("nothing", SchemaChange::kind);
        faults.step(format!("ddl {what} {}:before", event.id)).await?;
        lake.check_owner(&self.pipeline, self.attempt)?;
        lake.apply(event)?;
        faults.step(format!("ddl {what} {}:after", event.id)).await
    }
}
