//! The step between two versions of a table.

use std::sync::Arc;

use crate::{Column, DataType, DdlId, Literal, Position, TableId, TableSchema};

/// Where a column stands among its neighbours.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum ColumnPlace {
    First,
    After(Arc<str>),
    Last,
}

/// One clause of a DDL statement, independent of the source's dialect.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum SchemaChange {
    /// A table appears, empty. Applied to a target that exists and is ours, it is a no-op when the columns agree.
    CreateTable,
    DropTable,
    /// All rows go, the columns stay.
    TruncateTable,
    /// The table's content starts over under the event's `after` schema: DROP + CREATE of one name, or a new snapshot.
    /// The target loses its rows and takes the new columns; columns of equal name and compatible type keep their ids.
    ResetTable,
    /// The table goes on under another name with its rows.
    RenameTable {
        to: TableId,
    },
    AddColumn {
        column: Column,
        place: ColumnPlace,
        /// What rows that exist already hold in the new column. `Null` costs nothing; another constant must be written
        /// to every existing row.
        existing_rows: Literal,
    },
    DropColumn {
        name: Arc<str>,
    },
    /// Several of these in one event are simultaneous: a swap of two names is two renames.
    RenameColumn {
        from: Arc<str>,
        to: Arc<str>,
    },
    AlterColumnType {
        name: Arc<str>,
        from: DataType,
        to: DataType,
    },
    AlterColumnNullable {
        name: Arc<str>,
        nullable: bool,
    },
    MoveColumn {
        name: Arc<str>,
        place: ColumnPlace,
    },
    SetPrimaryKey {
        columns: Vec<Arc<str>>,
    },
    CommentColumn {
        name: Arc<str>,
        comment: Option<Arc<str>>,
    },
    CommentTable {
        comment: Option<Arc<str>>,
    },
}

impl SchemaChange {
    /// The name that `include.schema.changes` and `exclude.schema.changes` know it by (Flink CDC's words).
    pub fn kind(&self) -> &'static str {
        match self {
            SchemaChange::CreateTable => "create.table",
            SchemaChange::DropTable => "drop.table",
            SchemaChange::TruncateTable => "truncate.table",
            SchemaChange::ResetTable => "reset.table",
            SchemaChange::RenameTable { .. } => "rename.table",
            SchemaChange::AddColumn { .. } => "add.column",
            SchemaChange::DropColumn { .. } => "drop.column",
            SchemaChange::RenameColumn { .. } => "rename.column",
            SchemaChange::AlterColumnType { .. } => "alter.column.type",
            SchemaChange::AlterColumnNullable { .. } => "alter.column.nullable",
            SchemaChange::MoveColumn { .. } => "move.column",
            SchemaChange::SetPrimaryKey { .. } => "alter.primary.key",
            SchemaChange::CommentColumn { .. } => "comment.column",
            SchemaChange::CommentTable { .. } => "comment.table",
        }
    }
}

/// One DDL statement's effect on one table, in stream order: rows before it have the `before` schema, rows after it the
/// `after` schema.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SchemaEvent {
    pub table: TableId,
    /// Table and source position: the same statement read again has the same id.
    pub id: DdlId,
    /// The clauses. Renames are simultaneous; the rest apply in order. `after` is the outcome of all.
    pub changes: Vec<SchemaChange>,
    /// `None` when the table did not exist.
    pub before: Option<Arc<TableSchema>>,
    /// `None` when the table is gone.
    pub after: Option<Arc<TableSchema>>,
    pub position: Position,
    /// When the source committed it, in milliseconds since the epoch.
    pub commit_ms: i64,
}

impl SchemaEvent {
    /// After it, nothing of the table's earlier rows counts: a table that was left out because of them is taken in again.
    pub fn starts_anew(&self) -> bool {
        let anew =
            |c: &SchemaChange| matches!(c, SchemaChange::DropTable | SchemaChange::ResetTable);
        self.changes.iter().any(anew)
    }
}
