//! Schema changes applied one after another, as a sink does it.

use std::sync::Arc;

use lakeward_core::{Column, ColumnPlace, SchemaChange, TableSchema};

/// The outcome of the changes; `None` where they start the table over.
pub fn apply(before: &TableSchema, changes: &[SchemaChange]) -> Option<TableSchema> {
    let mut schema = before.clone();
    let renames: Vec<(&Arc<str>, &Arc<str>)> = changes
        .iter()
        .filter_map(|change| match change {
            SchemaChange::RenameColumn { from, to } => Some((from, to)),
            _ => None,
        })
        .collect();
    let mut renamed = false;
    for change in changes {
        match change {
            SchemaChange::ResetTable => return None,
            SchemaChange::DropColumn { name } => {
                let at = schema.index_of(name).expect("the column to drop is there");
                schema.columns.remove(at);
                schema.primary_key.retain(|k| k != name);
            }
            SchemaChange::RenameColumn { .. } if renamed => {}
            SchemaChange::RenameColumn { .. } => {
                renamed = true;
                let new = |name: &Arc<str>| {
                    renames
                        .iter()
                        .find(|(from, _)| *from == name)
                        .map_or(name, |(_, to)| to)
                        .clone()
                };
                for column in &mut schema.columns {
                    column.name = new(&column.name);
                }
                schema.primary_key = schema.primary_key.iter().map(new).collect();
            }
            SchemaChange::AddColumn { column, place, existing_rows } => {
                existing_rows.to_array(&column.data_type, 1).expect("the constant fits its column");
                insert(&mut schema, column.clone(), place);
            }
            SchemaChange::MoveColumn { name, place } => {
                let at = schema.index_of(name).expect("the column to move is there");
                let column = schema.columns.remove(at);
                insert(&mut schema, column, place);
            }
            SchemaChange::AlterColumnType { name, from, to } => {
                let at = schema.index_of(name).expect("the column to change is there");
                assert_eq!(schema.columns[at].data_type, *from);
                schema.columns[at].data_type = *to;
            }
            SchemaChange::AlterColumnNullable { name, nullable } => {
                let at = schema.index_of(name).expect("the column to change is there");
                schema.columns[at].nullable = *nullable;
            }
            SchemaChange::SetPrimaryKey { columns } => schema.primary_key = columns.clone(),
            SchemaChange::CommentColumn { name, comment } => {
                let at = schema.index_of(name).expect("the column to comment is there");
                schema.columns[at].comment = comment.clone();
            }
            SchemaChange::CommentTable { comment } => schema.comment = comment.clone(),
            other => panic!("an ALTER made {other:?}"),
        }
    }
    Some(schema)
}

fn insert(schema: &mut TableSchema, column: Column, place: &ColumnPlace) {
    assert!(schema.index_of(&column.name).is_none(), "column {} is there twice", column.name);
    let at = match place {
        ColumnPlace::First => 0,
        ColumnPlace::After(name) => 1 + schema.index_of(name).expect("the neighbour is there"),
        ColumnPlace::Last => schema.columns.len(),
    };
    schema.columns.insert(at, column);
}

/// Defaults change without a schema change, and versions only with one.
pub fn assert_same(led: &TableSchema, after: &TableSchema, context: &str) {
    let strip = |schema: &TableSchema| {
        let mut schema = schema.clone();
        schema.version = 0;
        for column in &mut schema.columns {
            column.default = None;
        }
        schema
    };
    assert_eq!(strip(led), strip(after), "{context}");
}
