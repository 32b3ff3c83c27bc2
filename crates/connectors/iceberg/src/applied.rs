//! Which DDL a table already has. The last ones are listed in a property of the table, which changes in the same commit
//! as the schema. Positions are compared for equality only: after a failover to another server they may go back.

use std::collections::BTreeMap;

use iceberg::spec::TableMetadata;
use lakeward_core::{ErrorKind, PipelineId, Position, Result, ResultExt, TableId};

use crate::properties;

/// How many are remembered per table: more than fit between two checkpoints.
const KEPT: usize = 100;
const KEPT_OF_GONE_TABLE: usize = 20;

pub(crate) fn of_table(metadata: &TableMetadata, pipeline: &PipelineId) -> Vec<Position> {
    let text = metadata.properties().get(&properties::applied_ddl(pipeline));
    text.map(|text| text.split(',').filter_map(properties::decode_position).collect())
        .unwrap_or_default()
}

/// Whether the pipeline made the table or has written to it.
pub(crate) fn is_of(metadata: &TableMetadata, pipeline: &PipelineId) -> Result<bool> {
    let created = metadata.properties().get(properties::CREATED_BY);
    Ok(created.is_some_and(|p| **p == *pipeline.0)
        || properties::marker(metadata, pipeline)?.is_some()
        || !of_table(metadata, pipeline).is_empty())
}

/// The property's new value.
pub(crate) fn with(mut applied: Vec<Position>, new: Position) -> String {
    applied.retain(|p| *p != new);
    applied.push(new);
    let skip = applied.len().saturating_sub(KEPT);
    let texts: Vec<String> =
        applied.into_iter().skip(skip).map(properties::encode_position).collect();
    texts.join(",")
}

/// What the namespace remembers of a table that was dropped or renamed away.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Gone {
    /// How many tables of this name there were: each has a folder of its own.
    pub(crate) count: u32,
    /// The DDL that took them away, by pipeline.
    #[serde(default)]
    pub(crate) by: BTreeMap<String, Vec<(u64, u64)>>,
}

impl Gone {
    pub(crate) fn key(table: &TableId) -> String {
        format!("lakeward.gone.{}", table.name)
    }

    pub(crate) fn read(properties: &BTreeMap<String, String>, table: &TableId) -> Self {
        let text = properties.get(&Self::key(table));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    pub(crate) fn has(&self, pipeline: &PipelineId, position: Position) -> bool {
        self.by.get(&*pipeline.0).is_some_and(|list| list.contains(&(position.hi, position.lo)))
    }

    pub(crate) fn add(&mut self, pipeline: &PipelineId, position: Position) {
        self.count += 1;
        let list = self.by.entry(pipeline.to_string()).or_default();
        list.push((position.hi, position.lo));
        let skip = list.len().saturating_sub(KEPT_OF_GONE_TABLE);
        list.drain(..skip);
    }

    pub(crate) fn encode(&self) -> Result<String> {
        serde_json::to_string(self)
            .or_err(ErrorKind::Bug, "could not encode a dropped table's note")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_and_repeats_do_not_count() {
        let position = |n| Position { hi: 1, lo: n };
        let mut text = String::new();
        for n in 0..150 {
            let applied = text.split(',').filter_map(properties::decode_position).collect();
            text = with(applied, position(n));
        }
        let applied: Vec<Position> =
            text.split(',').filter_map(properties::decode_position).collect();
        assert_eq!(applied.len(), KEPT);
        assert_eq!(applied.last(), Some(&position(149)));
        let again = with(applied, position(149));
        assert_eq!(again.split(',').count(), KEPT);
    }

    #[test]
    fn a_gone_table_is_remembered() {
        let pipeline = PipelineId("p".into());
        let table = TableId::new("d", "t");
        let mut gone = Gone::default();
        gone.add(&pipeline, Position { hi: 1, lo: 2 });
        let properties = BTreeMap::from([(Gone::key(&table), gone.encode().expect("encodes"))]);
        let read = Gone::read(&properties, &table);
        assert_eq!(read, gone);
        assert!(read.has(&pipeline, Position { hi: 1, lo: 2 }));
        assert!(!read.has(&PipelineId("q".into()), Position { hi: 1, lo: 2 }));
    }
}
