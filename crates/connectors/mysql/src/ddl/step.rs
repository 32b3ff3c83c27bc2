//! A captured table's way from one version to the next, as its target must go it.

use lakeward_core::{SchemaChange, TableSchema};

use super::apply::{Altered, Concern};
use super::conversion::promotes;
use super::diff::{Came, changes, table_schema};
use super::outcome::{Selection, TableVersion};

pub(super) struct Step {
    pub schema: TableSchema,
    pub changes: Vec<SchemaChange>,
    pub concerns: Vec<Concern>,
    pub reset: bool,
}

impl Step {
    pub fn new(
        before: &TableVersion,
        altered: &Altered,
        version: u32,
        selection: &Selection<'_>,
    ) -> Self {
        let schema = table_schema(version, &altered.shape, selection.types);
        let mut concerns = altered.concerns.clone();
        for (column, came) in schema.columns.iter().zip(&altered.came) {
            let Came::From(i) = came else { continue };
            // The published type counts: it may be of an older mapping than the present one.
            let Some(from) = before.schema.columns.get(*i).map(|c| c.data_type) else { continue };
            if !promotes(from, column.data_type) && !concerns.iter().any(|c| c.reset) {
                let to = column.data_type;
                let reason = format!("column {} goes from {from} to {to}", column.name);
                concerns.push(Concern { reason, reset: true });
            }
        }
        let mut changes = changes(&before.schema, &schema, &altered.came);
        // New rows replace old ones only by a key that both have.
        let is_keyless = before.schema.primary_key.is_empty() || schema.primary_key.is_empty();
        let is_rekeyed = changes.iter().any(|c| matches!(c, SchemaChange::SetPrimaryKey { .. }));
        let reset =
            !concerns.is_empty() && (is_keyless || is_rekeyed || concerns.iter().any(|c| c.reset));
        if reset {
            changes = vec![SchemaChange::ResetTable];
        }
        Self { schema, changes, concerns, reset }
    }
}

pub(super) fn reasons(concerns: &[Concern]) -> String {
    let reasons: Vec<&str> = concerns.iter().map(|c| c.reason.as_str()).collect();
    reasons.join("; ")
}
