//! The table properties that we keep our own bookkeeping in. They change in the same commit as what they speak of.

use std::collections::{BTreeMap, HashMap};

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

/// The positions of the last DDL that were applied.
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
    marker_in(metadata.properties(), pipeline)
}

pub fn marker_in(
    properties: &HashMap<String, String>,
    pipeline: &PipelineId,
) -> Result<Option<Marker>> {
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

pub fn decode_position(text: &str) -> Option<Position> {
    let (hi, lo) = text.split_once(':')?;
    Some(Position { hi: hi.parse().ok()?, lo: lo.parse().ok()? })
}

pub fn encode_position(position: Position) -> String {
    format!("{}:{}", position.hi, position.lo)
}

// Keys of the snapshot summary.
pub const SUMMARY_PIPELINE: &str = "lakeward.pipeline";
pub const SUMMARY_CHECKPOINT: &str = "lakeward.checkpoint-id";
/// The source position that the snapshot brings the table to.
pub const SUMMARY_OFFSETS: &str = "lakeward.offsets";
/// The attempt and its token.
pub const SUMMARY_ATTEMPT: &str = "lakeward.attempt";
/// When the source committed the newest row, in milliseconds since the epoch.
pub const SUMMARY_COMMIT_MS: &str = "lakeward.source-commit-ms";
pub const SUMMARY_SOURCE_ROWS: &str = "lakeward.source-rows";
/// The table's content starts over with this snapshot: what is older says nothing about progress.
pub const SUMMARY_RESET: &str = "lakeward.reset";
