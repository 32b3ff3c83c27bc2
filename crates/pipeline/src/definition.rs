//! The pipeline that a file and its connectors make.

use std::sync::Arc;

use lakeward_core::PipelineId;
use lakeward_operators::{PipelineDefinition, SchemaPolicy};

use crate::pipeline_file::PipelineFile;
use crate::registry::Connectors;

pub fn pipeline_id(file: &PipelineFile) -> PipelineId {
    PipelineId(file.pipeline.name.as_str().into())
}

pub fn definition_of(file: &PipelineFile, connectors: &Connectors) -> PipelineDefinition {
    let config = &file.pipeline;
    PipelineDefinition {
        id: pipeline_id(file),
        source: connectors.source.clone(),
        sink: connectors.sink.clone(),
        routes: Arc::new(file.routes.clone()),
        policy: SchemaPolicy {
            behavior: config.schema_change_behavior.into(),
            include: file.schema_changes.include.clone(),
            exclude: file.schema_changes.exclude.clone(),
        },
        table_errors: config.table_error.into(),
        parallelism: config.parallelism.into(),
    }
}
