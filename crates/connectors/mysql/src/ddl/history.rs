//! The shapes of tables over the log's course.

use std::sync::Arc;

use lakeward_core::{DataType, Position, SchemaEvent, TableId, TableSchema};

use super::{SqlMode, Statement};
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
    /// True: the outcome's event for this table is a `ResetTable` (or `CreateTable`), so the target is empty. False: the
    /// target's rows stay and the new snapshot's rows, which have the same keys, replace them.
    pub reset: bool,
}

/// A captured table whose shape is not known from the log: read the catalog, then call [`SchemaHistory::adopt`].
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
}

/// The present shape of each table, persisted with the reader's state.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct SchemaHistory {
    tables: Vec<(TableId, TableVersion)>,
}

impl SchemaHistory {
    /// `server_charset` is `character_set_server`; `lower_case_table_names` the server's variable of that name.
    pub fn new(_server_charset: &str, _lower_case_table_names: u8) -> Self {
        Self::default()
    }

    /// A database's default character set, for CREATE TABLE statements that name none.
    pub fn set_database_charset(&mut self, _database: &str, _charset: &str) {}

    /// Takes a shape read from the catalog, where the log has not passed a statement that changes it.
    pub fn insert(
        &mut self,
        _table: TableId,
        _shape: MysqlTable,
        _selection: &Selection<'_>,
    ) -> Option<&TableVersion> {
        None
    }

    pub fn get(&self, table: &TableId) -> Option<&TableVersion> {
        self.tables.iter().find(|(t, _)| t == table).map(|(_, v)| v)
    }

    /// Applies a statement.
    pub fn apply(
        &mut self,
        _statement: &Statement,
        _place: &StatementPlace,
        _selection: &Selection<'_>,
    ) -> Outcome {
        Outcome::default()
    }

    /// Settles a [`Doubt`] with what the catalog says now; `None`: the table is gone.
    pub fn adopt(
        &mut self,
        _table: &TableId,
        _shape: Option<MysqlTable>,
        _place: &StatementPlace,
        _selection: &Selection<'_>,
    ) -> Outcome {
        Outcome::default()
    }
}
