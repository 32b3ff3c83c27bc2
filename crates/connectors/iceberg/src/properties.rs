//! The table properties that we keep our own bookkeeping in. They change in the same commit as what they speak of.

use std::collections::BTreeMap;

use iceberg::spec::TableMetadata;
use lakeward_core::{
    CheckpointId, Error, ErrorKind, Offsets, PipelineId, Position, Result, ResultExt,
};

/// Source schema version → Iceberg schema id, as a JSON object.
pub const SCHEMA_IDS: &str = "lakeward.schema-ids";
/// The pipeline that created the table.
pub const CREATED_BY: &str = "lakeward.created-by";

pub fn max_committed_checkpoint_id(pipeline: &PipelineId) -> String {
    format!("lakeward.{pipeline}.max-committed-checkpoint-id")
}

/// The source offsets that the table holds everything of, as JSON.
pub fn offsets(pipeline: &PipelineId) -> String {
    format!("lakeward.{pipeline}.offsets")
}

/// The position of the last DDL that was applied.
pub fn applied_ddl(pipeline: &PipelineId) -> String {
    format!("lakeward.{pipeline}.applied-ddl")
}

/// The schema id that rows of a source schema version are written under.
pub fn schema_id_of_version(metadata: &TableMetadata, version: u32) -> Result<Option<i32>> {
    Ok(schema_ids(metadata)?.get(&version).copied())
}

pub fn schema_ids(metadata: &TableMetadata) -> Result<BTreeMap<u32, i32>> {
    match metadata.properties().get(SCHEMA_IDS) {
        None => Ok(BTreeMap::new()),
        Some(text) => serde_json::from_str(text).or_err(
            ErrorKind::Config,
            format!("the table property {SCHEMA_IDS} was changed by hand and cannot be read"),
        ),
    }
}

pub fn encode_schema_ids(ids: &BTreeMap<u32, i32>) -> Result<String> {
    serde_json::to_string(ids).or_err(ErrorKind::Bug, "could not encode the schema ids")
}

pub fn encode_offsets(offsets: &Offsets) -> Result<String> {
    serde_json::to_string(offsets).or_err(ErrorKind::Bug, "could not encode source offsets")
}

/// How far a pipeline has come in this table, from its properties alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Marker {
    pub checkpoint: CheckpointId,
    pub offsets: Offsets,
}

pub fn marker(metadata: &TableMetadata, pipeline: &PipelineId) -> Result<Option<Marker>> {
    let properties = metadata.properties();
    let (Some(checkpoint), Some(text)) = (
        properties.get(&max_committed_checkpoint_id(pipeline)),
        properties.get(&offsets(pipeline)),
    ) else {
        return Ok(None);
    };
    let damaged =
        || Error::config("the table's progress properties were changed by hand and cannot be read");
    let checkpoint = checkpoint.parse().map_err(|e| damaged().with_source(e))?;
    let offsets = serde_json::from_str(text).map_err(|e| damaged().with_source(e))?;
    Ok(Some(Marker { checkpoint: CheckpointId(checkpoint), offsets }))
}

pub fn ddl_position(metadata: &TableMetadata, pipeline: &PipelineId) -> Result<Option<Position>> {
    let Some(text) = metadata.properties().get(&applied_ddl(pipeline)) else {
        return Ok(None);
    };
    let position = text
        .split_once(':')
        .and_then(|(hi, lo)| Some(Position { hi: hi.parse().ok()?, lo: lo.parse().ok()? }));
    position.map(Some).ok_or_else(|| {
        Error::config("the table's applied-ddl property was changed by hand and cannot be read")
    })
}

pub fn encode_position(position: Position) -> String {
    format!("{}:{}", position.hi, position.lo)
}
