//! Where the source's tables go, and which of them cannot go there together.

use std::collections::BTreeMap;
use std::sync::Arc;

use lakeward_core::{Result, SourceTable, TableId, TableSchema};
use lakeward_operators::{Routes, ShardKey};

/// The sink tables of the source's tables, each once.
pub fn targets_of(
    routes: &Routes,
    tables: &[SourceTable],
) -> Result<Vec<(TableId, Arc<TableSchema>)>> {
    let mut targets: BTreeMap<TableId, Arc<TableSchema>> = BTreeMap::new();
    for table in tables {
        for target in routes.targets(&table.table)? {
            targets.entry(target.table).or_insert_with(|| table.schema.clone());
        }
    }
    Ok(targets.into_iter().collect())
}

/// What keeps source tables from sharing their sink table.
pub fn merge_errors(routes: &Routes, tables: &[SourceTable]) -> Result<Vec<String>> {
    let mut merged: BTreeMap<TableId, Vec<&TableId>> = BTreeMap::new();
    for table in tables {
        for target in routes.targets(&table.table)? {
            if target.shard_key == ShardKey::Unspecified {
                merged.entry(target.table).or_default().push(&table.table);
            }
        }
    }
    merged.retain(|_, sources| sources.len() > 1);
    Ok(merged
        .into_iter()
        .map(|(target, sources)| {
            let sources: Vec<String> = sources.into_iter().map(TableId::to_string).collect();
            format!(
                "{} would share the sink table {target}, where rows of equal key overwrite each other; set `shard-key: \
                 source-table` on the route, or `shard-key: none` if keys are unique across the tables",
                sources.join(", ")
            )
        })
        .collect())
}
