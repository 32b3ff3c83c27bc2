//! Several source tables in one sink table: their columns united, their rows told apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use lakeward_core::{
    Column, ColumnPlace, DataChange, DataType, DdlId, Error, Literal, Position, Result,
    SchemaChange, SchemaEvent, TableId, TableSchema, Unavailable,
};
use serde::{Deserialize, Serialize};

use crate::projection::Projection;
use crate::route::ShardKey;

/// The column that [`ShardKey::SourceTable`] adds: `namespace.table` of the row's source.
pub const SOURCE_TABLE_COLUMN: &str = "__source_table";

/// One sink table and the source tables that feed it. A merged table only grows: a column that one source drops or
/// renames stays for the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MergedTable {
    pub(crate) target: TableId,
    sources: BTreeMap<String, Arc<TableSchema>>,
    /// The united columns; `None` while the only source's own schema is used as it is.
    merged: Option<Arc<TableSchema>>,
    version: u32,
    last_ddl: Position,
    ddl_at_position: u64,
}

impl MergedTable {
    pub(crate) fn new(target: TableId) -> Self {
        Self {
            target,
            sources: BTreeMap::new(),
            merged: None,
            version: 0,
            last_ddl: Position::default(),
            ddl_at_position: 0,
        }
    }

    /// The event as the sink table is to see it.
    ///
    /// # Errors
    /// `Config` when a second table joins without a shard key; `SchemaIncompatible` when columns or keys do not go
    /// together, or one source is truncated, which the rows of the others must not suffer for.
    pub(crate) fn schema(
        &mut self,
        event: SchemaEvent,
        shard_key: ShardKey,
    ) -> Result<Option<SchemaEvent>> {
        let source = event.table.to_string();
        let alone = self.sources.keys().all(|s| *s == source);
        if !alone && event.after.is_none() && !self.sources.contains_key(&source) {
            // It was never a part of this.
            return Ok(None);
        }
        if alone && self.merged.is_none() && shard_key != ShardKey::SourceTable {
            match &event.after {
                Some(after) => {
                    self.version = after.version;
                    self.sources.insert(source, after.clone());
                }
                None => {
                    self.sources.remove(&source);
                }
            }
            return Ok(Some(self.renamed(event)));
        }
        if shard_key == ShardKey::Unspecified {
            return Err(Error::config(format!(
                "several source tables are routed into one table, where rows of equal key would overwrite each other; set \
                 `shard-key: source-table` on the route to tell them apart by a column {SOURCE_TABLE_COLUMN}, or \
                 `shard-key: none` if keys are unique across the tables"
            ))
            .with("sink table", &self.target)
            .with("source table", &event.table));
        }
        self.merge(event, source, shard_key)
    }

    fn merge(
        &mut self,
        event: SchemaEvent,
        source: String,
        shard_key: ShardKey,
    ) -> Result<Option<SchemaEvent>> {
        if event.changes.iter().any(|c| matches!(c, SchemaChange::TruncateTable)) {
            return Err(Error::schema_incompatible(
                "a source table that shares its sink table with others was truncated, which cannot be repeated for its \
                 rows alone; resnapshot the sink table",
            )
            .with("source table", &event.table)
            .with("sink table", &self.target));
        }
        let before = self.merged.clone().or_else(|| self.sources.values().next().cloned());
        match &event.after {
            Some(after) => {
                self.sources.insert(source, after.clone());
            }
            None => {
                self.sources.remove(&source);
                return Ok(None);
            }
        }
        let mut united = before.as_deref().cloned();
        for schema in self.sources.values() {
            united = Some(match united {
                None => start(schema, shard_key),
                Some(united) => unite(united, schema, shard_key).map_err(|e| {
                    e.with("source table", &event.table).with("sink table", &self.target)
                })?,
            });
        }
        let mut after = united.ok_or_else(|| Error::bug("a merged table without sources"))?;
        let changes = match &before {
            None => vec![SchemaChange::CreateTable],
            Some(before) => difference(before, &after, &event),
        };
        if let Some(before) = &before {
            if changes.is_empty() {
                self.merged = Some(before.clone());
                return Ok(None);
            }
            self.version += 1;
        }
        after.version = self.version;
        let after = Arc::new(after);
        self.merged = Some(after.clone());
        let event = SchemaEvent { changes, before, after: Some(after), ..event };
        Ok(Some(self.renamed(event)))
    }

    /// Under the sink table's name. Events of several sources at one position get ids of their own.
    fn renamed(&mut self, event: SchemaEvent) -> SchemaEvent {
        if event.position == self.last_ddl {
            self.ddl_at_position += 1;
        } else {
            (self.last_ddl, self.ddl_at_position) = (event.position, 0);
        }
        let position = Position {
            lo: event.position.lo.saturating_add(self.ddl_at_position),
            ..event.position
        };
        let id = DdlId { table: self.target.clone(), position };
        SchemaEvent { table: self.target.clone(), id, ..event }
    }

    /// Rows of one source in the sink table's columns.
    pub(crate) fn data(&self, change: DataChange) -> Result<DataChange> {
        let Some(merged) = &self.merged else {
            return Ok(DataChange { table: self.target.clone(), ..change });
        };
        let source_table = change.table.to_string();
        let from = merged
            .columns
            .iter()
            .map(|c| change.schema.index_of(&c.name).map(|_| c.name.clone()))
            .collect();
        let mut change = Projection::new(merged.clone(), from).apply(change)?;
        if let Some(i) = merged.index_of(SOURCE_TABLE_COLUMN) {
            let name = Literal::String(source_table.into());
            let mut columns = change.rows.columns().to_vec();
            columns[i] = name.to_array(&DataType::String, change.rows.num_rows())?;
            change.rows = arrow_array::RecordBatch::try_new(change.rows.schema(), columns)
                .map_err(|e| {
                    Error::bug("could not add the source table's name to its rows").with_source(e)
                })?;
            if let Some(Unavailable(cells)) = &mut change.unavailable {
                cells[i] = None;
            }
        }
        Ok(DataChange { table: self.target.clone(), ..change })
    }
}

fn start(schema: &TableSchema, shard_key: ShardKey) -> TableSchema {
    let mut start = schema.clone();
    if shard_key == ShardKey::SourceTable {
        start.columns.insert(0, Column::new(SOURCE_TABLE_COLUMN, DataType::String, false));
        if !start.primary_key.is_empty() {
            start.primary_key.insert(0, SOURCE_TABLE_COLUMN.into());
        }
    }
    start
}

fn unite(
    mut united: TableSchema,
    schema: &TableSchema,
    shard_key: ShardKey,
) -> Result<TableSchema> {
    let with_key = start(schema, shard_key);
    if with_key.primary_key != united.primary_key {
        return Err(Error::schema_incompatible(
            "source tables with different primary keys cannot be merged into one table; route them apart",
        ));
    }
    for column in &mut united.columns {
        column.nullable |= with_key.index_of(&column.name).is_none();
    }
    for column in &with_key.columns {
        let Some(i) = united.index_of(&column.name) else {
            united.columns.push(Column { nullable: true, ..column.clone() });
            continue;
        };
        let present = &mut united.columns[i];
        present.nullable |= column.nullable;
        if present.data_type.widens_to(&column.data_type) {
            present.data_type = column.data_type;
        } else if !column.data_type.widens_to(&present.data_type) {
            return Err(Error::schema_incompatible(
                "source tables that are merged into one table have a column of types that no one type holds; route them apart",
            )
            .with("column", &column.name)
            .with("types", format!("{} and {}", present.data_type, column.data_type)));
        }
    }
    Ok(united)
}

/// The changes from one union to the next, which only grows.
fn difference(before: &TableSchema, after: &TableSchema, event: &SchemaEvent) -> Vec<SchemaChange> {
    warn_of_defaults(before, event);
    let mut changes = Vec::new();
    for column in &after.columns {
        let Some(i) = before.index_of(&column.name) else {
            let existing_rows = event.changes.iter().find_map(|c| match c {
                SchemaChange::AddColumn { column: added, existing_rows, .. }
                    if added.name == column.name =>
                {
                    Some(existing_rows.clone())
                }
                _ => None,
            });
            // An ALTER of one source stands for the same one of the others, which are expected to follow.
            let existing_rows =
                existing_rows.filter(|_| event_is_whole(event)).unwrap_or(Literal::Null);
            changes.push(SchemaChange::AddColumn {
                column: column.clone(),
                place: ColumnPlace::Last,
                existing_rows,
            });
            continue;
        };
        let old = &before.columns[i];
        let name = column.name.clone();
        if old.data_type != column.data_type {
            let (from, to) = (old.data_type, column.data_type);
            changes.push(SchemaChange::AlterColumnType { name: name.clone(), from, to });
        }
        if old.nullable != column.nullable {
            changes.push(SchemaChange::AlterColumnNullable { name, nullable: column.nullable });
        }
    }
    if before.primary_key != after.primary_key {
        changes.push(SchemaChange::SetPrimaryKey { columns: after.primary_key.clone() });
    }
    changes
}

/// A DEFAULT is of one source's rows, and the table holds those of others too: what it does not get right is said.
fn warn_of_defaults(before: &TableSchema, event: &SchemaEvent) {
    for change in &event.changes {
        let SchemaChange::AddColumn { column, existing_rows, .. } = change else { continue };
        if *existing_rows == Literal::Null || !event_is_whole(event) {
            continue;
        }
        let (table, column) = (&event.table, &column.name);
        match before.index_of(column) {
            None => tracing::warn!(
                %table, %column,
                "the DEFAULT of a new column is now in the rows of all tables that are merged with this one; those of the \
                 others that change before they get the column too have NULL in it"
            ),
            Some(_) => tracing::warn!(
                %table, %column,
                "the merged table had this column already; where the rows of this source are to hold another DEFAULT, or have \
                 changed since, read it anew (--resnapshot={table})"
            ),
        }
    }
}

/// An ALTER of a source, as against its first appearance beside others.
fn event_is_whole(event: &SchemaEvent) -> bool {
    event.before.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::{ArrayRef, Int32Array, RecordBatch};
    use lakeward_core::{RowKind, Segment};

    fn table(version: u32, columns: &[(&str, DataType)]) -> Arc<TableSchema> {
        let columns = columns.iter().map(|(n, t)| Column::new(*n, *t, false)).collect();
        Arc::new(TableSchema::new(version, columns, vec!["id".into()]))
    }

    fn event(
        name: &str,
        at: u64,
        changes: Vec<SchemaChange>,
        before: Option<&Arc<TableSchema>>,
        after: Option<&Arc<TableSchema>>,
    ) -> SchemaEvent {
        let table = TableId::new("m", name);
        let position = Position { hi: 1, lo: at };
        let id = DdlId { table: table.clone(), position };
        SchemaEvent {
            table,
            id,
            changes,
            before: before.cloned(),
            after: after.cloned(),
            position,
            commit_ms: 0,
        }
    }

    fn create(name: &str, schema: &Arc<TableSchema>) -> SchemaEvent {
        event(name, 4, vec![SchemaChange::CreateTable], None, Some(schema))
    }

    #[test]
    fn one_source_passes_through_and_a_second_needs_a_shard_key() {
        let a = table(0, &[("id", DataType::Int)]);
        let mut merged = MergedTable::new(TableId::new("m", "s"));
        let passed = merged.schema(create("s_0", &a), ShardKey::Unspecified).unwrap().unwrap();
        assert_eq!((passed.table.to_string().as_str(), &passed.after), ("m.s", &Some(a.clone())));
        let refused = merged.schema(create("s_1", &a), ShardKey::Unspecified).unwrap_err();
        assert!(refused.to_string().contains("shard-key"), "{refused}");
    }

    #[test]
    fn the_end_of_a_table_that_was_never_a_part_changes_nothing() {
        let a = table(0, &[("id", DataType::Int)]);
        let drop = |source| SchemaEvent {
            changes: vec![SchemaChange::DropTable],
            after: None,
            ..create(source, &a)
        };
        for shard_key in [ShardKey::Unspecified, ShardKey::None, ShardKey::SourceTable] {
            let mut merged = MergedTable::new(TableId::new("m", "s"));
            merged.schema(create("s_0", &a), shard_key).unwrap().unwrap();
            assert_eq!(merged.schema(drop("s_1"), shard_key).unwrap(), None);
        }
        // Where the target has no other, an earlier attempt may have made it.
        let mut merged = MergedTable::new(TableId::new("m", "s"));
        assert!(merged.schema(drop("s_1"), ShardKey::Unspecified).unwrap().is_some());
    }

    #[test]
    fn columns_unite_and_ids_differ_at_one_position() {
        let a = table(0, &[("id", DataType::Int), ("v", DataType::Int)]);
        let b = table(0, &[("id", DataType::BigInt), ("w", DataType::String)]);
        let mut merged = MergedTable::new(TableId::new("m", "s"));
        let first = merged.schema(create("s_0", &a), ShardKey::None).unwrap().unwrap();
        let second = merged.schema(create("s_1", &b), ShardKey::None).unwrap().unwrap();
        assert_ne!(first.id, second.id);
        let after = second.after.unwrap();
        let names: Vec<_> =
            after.columns.iter().map(|c| (&*c.name, c.data_type, c.nullable)).collect();
        assert_eq!(
            names,
            [
                ("id", DataType::BigInt, false),
                ("v", DataType::Int, true),
                ("w", DataType::String, true)
            ]
        );
        assert!(after.version > first.after.unwrap().version);
        // The same columns again change nothing.
        assert_eq!(merged.schema(create("s_2", &b), ShardKey::None).unwrap(), None);
        // A column that one source drops stays.
        let a2 = table(1, &[("id", DataType::Int)]);
        let dropped = vec![SchemaChange::DropColumn { name: "v".into() }];
        assert_eq!(
            merged.schema(event("s_0", 9, dropped, Some(&a), Some(&a2)), ShardKey::None).unwrap(),
            None
        );
        let truncate = event("s_0", 10, vec![SchemaChange::TruncateTable], Some(&a2), Some(&a2));
        assert!(merged.schema(truncate, ShardKey::None).is_err());
    }

    #[test]
    fn the_source_table_becomes_part_of_the_key() {
        let a = table(0, &[("id", DataType::Int)]);
        let mut merged = MergedTable::new(TableId::new("m", "s"));
        let event = merged.schema(create("s_0", &a), ShardKey::SourceTable).unwrap().unwrap();
        let after = event.after.unwrap();
        assert_eq!(after.primary_key, [SOURCE_TABLE_COLUMN.into(), "id".into()] as [Arc<str>; 2]);
        let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let change = DataChange {
            table: TableId::new("m", "s_0"),
            rows: RecordBatch::try_new(a.arrow_schema(), vec![ids]).unwrap(),
            schema: a,
            kinds: vec![RowKind::Insert; 2],
            unavailable: None,
            segments: vec![Segment { end: 2, position: Position::default(), commit_ms: 0 }],
            snapshot: false,
        };
        let change = merged.data(change).unwrap();
        assert_eq!(change.table, TableId::new("m", "s"));
        assert_eq!(change.rows.column(0).as_string::<i32>().value(1), "m.s_0");
    }
}
