//! What a statement is applied under, and what comes of it.

use std::sync::Arc;

use lakeward_core::{DataType, DdlId, Position, SchemaChange, SchemaEvent, TableId, TableSchema};

use super::SqlMode;
use crate::model::{MysqlColumn, MysqlTable};

/// One version of a table: how its rows are read, and what they become.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TableVersion {
    pub shape: Arc<MysqlTable>,
    pub schema: Arc<TableSchema>,
}

/// Which tables matter, and how columns map to Lakeward's types.
#[derive(Clone, Copy)]
pub struct Selection<'a> {
    pub is_captured: &'a dyn Fn(&TableId) -> bool,
    /// Tables of online schema change tools: never captured themselves, but tracked.
    pub is_ghost: &'a dyn Fn(&TableId) -> bool,
    pub types: &'a dyn Fn(&MysqlColumn) -> DataType,
}

impl Selection<'_> {
    pub(super) fn captures(&self, table: &TableId) -> bool {
        (self.is_captured)(table) && !(self.is_ghost)(table)
    }
}

/// When a statement ran, for `DEFAULT CURRENT_TIMESTAMP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementTime {
    /// Microseconds since the epoch.
    pub micros: i64,
    /// False where the log gave whole seconds only.
    pub has_fraction: bool,
    /// The session's time zone as seconds east of UTC; `None` where it is not a fixed offset.
    pub offset_secs: Option<i32>,
}

/// Where and under which settings a statement ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementPlace {
    pub position: Position,
    pub commit_ms: i64,
    pub mode: SqlMode,
    pub time: StatementTime,
}

/// A table whose rows must be read anew from this position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resnapshot {
    pub table: TableId,
    /// For the log: why.
    pub reason: String,
    /// True: the outcome's event for this table is a `ResetTable` or `CreateTable`, so the target is empty. False: the
    /// target's rows stay and the new snapshot's rows, which have the same keys, replace them; there may be no event.
    pub reset: bool,
}

/// A captured table whose shape is not known from the log: read the catalog, then call [`SchemaHistory::adopt`]. Until
/// then [`SchemaHistory::get`] has no answer for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    pub table: TableId,
    pub reason: String,
}

/// What one statement did. Of one table there is at most one event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    pub events: Vec<SchemaEvent>,
    pub resnapshots: Vec<Resnapshot>,
    pub doubts: Vec<Doubt>,
    /// Captured tables whose rows are read differently from now on, with or without an event.
    pub reshaped: Vec<TableId>,
    /// Captured tables whose keys the server may sort in another order from now on: a place in the old order, such as where
    /// a snapshot has come to, means nothing any more.
    pub reordered: Vec<TableId>,
}

pub(super) fn event(
    table: &TableId,
    changes: Vec<SchemaChange>,
    before: Option<&TableVersion>,
    after: Option<&TableVersion>,
    place: &StatementPlace,
) -> SchemaEvent {
    SchemaEvent {
        table: table.clone(),
        id: DdlId { table: table.clone(), position: place.position },
        changes,
        before: before.map(|v| v.schema.clone()),
        after: after.map(|v| v.schema.clone()),
        position: place.position,
        commit_ms: place.commit_ms,
    }
}
