//! From a table's columns to an Iceberg schema, and from one Iceberg schema to the next. Field ids are kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Schema, Type};
use lakeward_core::{
    Column, Error, ErrorKind, Literal, Result, ResultExt, SchemaChange, SchemaEvent, TableSchema,
};

use crate::rewrite::Fill;
use crate::types::iceberg_type;

#[derive(Debug)]
pub(crate) struct NextSchema {
    pub(crate) schema: Schema,
    pub(crate) fills: Vec<Fill>,
}

/// Columns that the sink adds behind those of the source, by name.
pub(crate) type ExtraColumns = [(&'static str, PrimitiveType)];

/// The schema of a new table.
pub(crate) fn first_schema(table: &TableSchema, extra: &ExtraColumns) -> Result<Schema> {
    let mut next_id = 0;
    let mut new_id = || {
        next_id += 1;
        next_id
    };
    let mut fields: Vec<NestedFieldRef> = Vec::new();
    for column in &table.columns {
        let required = is_key(table, column);
        fields.push(field(new_id(), column, iceberg_type(&column.data_type), required));
    }
    for (name, primitive) in extra {
        let field = NestedField::optional(new_id(), *name, Type::Primitive(primitive.clone()));
        fields.push(Arc::new(field));
    }
    build(fields, table, !extra.is_empty())
}

/// The schema after an event that changes columns. `last_column_id` is the highest id that the table ever gave.
///
/// # Errors
/// `SchemaIncompatible` for a type change that Iceberg does not know.
pub(crate) fn next_schema(
    current: &Schema,
    last_column_id: i32,
    event: &SchemaEvent,
    after: &TableSchema,
    extra: &ExtraColumns,
) -> Result<NextSchema> {
    let mut ids: HashMap<Arc<str>, i32> =
        current.as_struct().fields().iter().map(|f| (Arc::from(f.name.as_str()), f.id)).collect();
    let mut last_id = last_column_id;
    let mut new_id = || {
        last_id += 1;
        last_id
    };
    rename(&mut ids, &event.changes)?;
    let mut fills = Vec::new();
    for change in &event.changes {
        match change {
            SchemaChange::DropColumn { name } => {
                ids.remove(name);
            }
            SchemaChange::AddColumn { column, existing_rows, .. } => {
                // A dropped column that comes back is a new column.
                let field = new_id();
                ids.insert(column.name.clone(), field);
                if *existing_rows != Literal::Null {
                    let (data_type, value) = (column.data_type, existing_rows.clone());
                    fills.push(Fill { field, data_type, value });
                }
            }
            _ => {}
        }
    }
    let mut fields: Vec<NestedFieldRef> = Vec::new();
    for column in &after.columns {
        let wanted = iceberg_type(&column.data_type);
        let known = ids.get(&column.name).copied();
        let primitive = match known.and_then(|id| current.field_by_id(id)) {
            None => wanted,
            Some(old) => promoted(&old.field_type, wanted).ok_or_else(|| {
                Error::schema_incompatible(
                    "the column's new type cannot take its old values in an Iceberg table; read the table anew with \
                     --resnapshot",
                )
                .with("column", &column.name)
                .with("from", &old.field_type)
                .with("to", column.data_type)
            })?,
        };
        let id = known.unwrap_or_else(&mut new_id);
        fields.push(field(id, column, primitive, is_key(after, column)));
    }
    fills.retain(|fill| fields.iter().any(|f| f.id == fill.field));
    for (name, primitive) in extra {
        let id = ids.get(*name).copied().unwrap_or_else(&mut new_id);
        let field = NestedField::optional(id, *name, Type::Primitive(primitive.clone()));
        fields.push(Arc::new(field));
    }
    Ok(NextSchema { schema: build(fields, after, !extra.is_empty())?, fills })
}

/// The schema of a table whose content starts over: columns of equal name and compatible type keep their ids.
pub(crate) fn reset_schema(
    current: &Schema,
    last_column_id: i32,
    after: &TableSchema,
    extra: &ExtraColumns,
) -> Result<Schema> {
    let mut last_id = last_column_id;
    let mut new_id = || {
        last_id += 1;
        last_id
    };
    let mut fields: Vec<NestedFieldRef> = Vec::new();
    for column in &after.columns {
        let wanted = iceberg_type(&column.data_type);
        let kept = current
            .field_by_name(&column.name)
            .and_then(|old| Some((old.id, promoted(&old.field_type, wanted.clone())?)));
        let (id, primitive) = kept.unwrap_or_else(|| (new_id(), wanted));
        fields.push(field(id, column, primitive, is_key(after, column)));
    }
    for (name, primitive) in extra {
        let id = current.field_id_by_name(name).unwrap_or_else(&mut new_id);
        let field = NestedField::optional(id, *name, Type::Primitive(primitive.clone()));
        fields.push(Arc::new(field));
    }
    build(fields, after, !extra.is_empty())
}

/// True when rows of `table` can be written under `schema` as it is.
pub(crate) fn agrees(schema: &Schema, table: &TableSchema, extra: &ExtraColumns) -> bool {
    let Ok(wanted) = first_schema(table, extra) else { return false };
    let (have, want) = (schema.as_struct().fields(), wanted.as_struct().fields());
    have.len() == want.len()
        && want.iter().all(|w| {
            schema.field_by_name(&w.name).is_some_and(|h| {
                let primitive = w.field_type.as_primitive_type();
                primitive.is_some_and(|p| {
                    promoted(&h.field_type, p.clone()).as_ref() == h.field_type.as_primitive_type()
                })
            })
        })
}

/// Renames are simultaneous: a swap of two names is two renames.
fn rename(ids: &mut HashMap<Arc<str>, i32>, changes: &[SchemaChange]) -> Result<()> {
    let mut moved: BTreeMap<Arc<str>, i32> = BTreeMap::new();
    for change in changes {
        if let SchemaChange::RenameColumn { from, to } = change {
            let id = ids.remove(from).ok_or_else(|| {
                Error::schema_incompatible("the column to rename is not in the lake's table")
                    .with("column", from)
            })?;
            moved.insert(to.clone(), id);
        }
    }
    ids.extend(moved);
    Ok(())
}

/// The type that holds the old values and the new ones, or `None`. A narrowed column keeps its wider type.
fn promoted(old: &Type, wanted: PrimitiveType) -> Option<PrimitiveType> {
    use PrimitiveType::{Decimal, Double, Float, Int, Long};
    let old = old.as_primitive_type()?;
    match (old, &wanted) {
        (old, wanted) if old == wanted => Some(wanted.clone()),
        (Int, Long) | (Float, Double) => Some(wanted),
        (Long, Int) | (Double, Float) => Some(old.clone()),
        (Decimal { precision: p, scale: s }, Decimal { precision: q, scale: t }) if s == t => {
            Some(Decimal { precision: *p.max(q), scale: *s })
        }
        _ => None,
    }
}

fn is_key(table: &TableSchema, column: &Column) -> bool {
    table.primary_key.contains(&column.name)
}

fn field(id: i32, column: &Column, primitive: PrimitiveType, required: bool) -> NestedFieldRef {
    let mut field = NestedField::new(id, &*column.name, Type::Primitive(primitive), required);
    if let Some(comment) = column.comment.as_ref().filter(|c| !c.is_empty()) {
        field = field.with_doc(&**comment);
    }
    Arc::new(field)
}

fn build(fields: Vec<NestedFieldRef>, table: &TableSchema, changelog: bool) -> Result<Schema> {
    let key: Vec<&NestedFieldRef> =
        fields.iter().filter(|f| table.primary_key.iter().any(|k| **k == *f.name)).collect();
    // Iceberg takes no floating point number as an identifier, and a changelog has many rows of one key.
    let floats = key.iter().any(|f| {
        matches!(
            f.field_type.as_primitive_type(),
            Some(PrimitiveType::Float | PrimitiveType::Double)
        )
    });
    let identifier: Vec<i32> =
        if floats || changelog { Vec::new() } else { key.iter().map(|f| f.id).collect() };
    Schema::builder()
        .with_fields(fields)
        .with_identifier_field_ids(identifier)
        .build()
        .or_err(ErrorKind::SchemaIncompatible, "the columns do not make an Iceberg schema")
}

#[cfg(test)]
mod tests {
    use lakeward_core::{ColumnPlace, DataType, DdlId, Position, TableId};

    use super::*;

    fn column(name: &str, data_type: DataType) -> Column {
        Column::new(name, data_type, true)
    }

    fn table(columns: &[(&str, DataType)]) -> TableSchema {
        let columns = columns.iter().map(|(n, t)| column(n, *t)).collect();
        TableSchema::new(1, columns, vec!["id".into()])
    }

    fn event(changes: Vec<SchemaChange>) -> SchemaEvent {
        let table = TableId::new("d", "t");
        SchemaEvent {
            id: DdlId { table: table.clone(), position: Position::default() },
            table,
            changes,
            before: None,
            after: None,
            position: Position::default(),
            commit_ms: 0,
        }
    }

    fn ids(schema: &Schema) -> Vec<(String, i32)> {
        schema.as_struct().fields().iter().map(|f| (f.name.clone(), f.id)).collect()
    }

    fn rename(from: &str, to: &str) -> SchemaChange {
        SchemaChange::RenameColumn { from: from.into(), to: to.into() }
    }

    #[test]
    fn the_key_is_required_and_the_identifier() {
        let schema = first_schema(&table(&[("id", DataType::Int), ("a", DataType::String)]), &[])
            .expect("ok");
        assert_eq!(schema.identifier_field_ids().collect::<Vec<_>>(), [1]);
        assert!(schema.field_by_name("id").expect("id").required);
        assert!(!schema.field_by_name("a").expect("a").required);
    }

    #[test]
    fn a_float_key_is_no_identifier() {
        let schema = first_schema(&table(&[("id", DataType::Double)]), &[]).expect("ok");
        assert_eq!(schema.identifier_field_ids().count(), 0);
    }

    #[test]
    fn swapped_names_and_returning_columns() {
        let start = table(&[("id", DataType::Int), ("a", DataType::Int), ("b", DataType::Int)]);
        let current = first_schema(&start, &[]).expect("ok");
        let swap = event(vec![rename("a", "b"), rename("b", "a")]);
        let next = next_schema(&current, 3, &swap, &start, &[]).expect("ok");
        assert_eq!(ids(&next.schema), [("id".into(), 1), ("a".into(), 3), ("b".into(), 2)]);

        let back = event(vec![
            SchemaChange::DropColumn { name: "a".into() },
            SchemaChange::AddColumn {
                column: column("a", DataType::Int),
                place: ColumnPlace::Last,
                existing_rows: Literal::Long(7),
            },
        ]);
        let after = table(&[("id", DataType::Int), ("b", DataType::Int), ("a", DataType::Int)]);
        let next = next_schema(&next.schema, 3, &back, &after, &[]).expect("ok");
        assert_eq!(ids(&next.schema), [("id".into(), 1), ("b".into(), 2), ("a".into(), 4)]);
        assert_eq!(next.fills.len(), 1);
        assert_eq!(next.fills[0].field, 4);
    }

    #[test]
    fn types_widen_and_never_narrow() {
        let start = table(&[
            ("id", DataType::Int),
            ("f", DataType::Float),
            ("d", DataType::Decimal { precision: 10, scale: 2 }),
            ("s", DataType::Varchar { length: 10 }),
            ("n", DataType::BigInt),
        ]);
        let current = first_schema(&start, &[]).expect("ok");
        let after = table(&[
            ("id", DataType::BigInt),
            ("f", DataType::Double),
            ("d", DataType::Decimal { precision: 20, scale: 2 }),
            ("s", DataType::String),
            ("n", DataType::Int),
        ]);
        let next = next_schema(&current, 5, &event(Vec::new()), &after, &[]).expect("ok").schema;
        let type_of = |name: &str| next.field_by_name(name).expect(name).field_type.to_string();
        assert_eq!(type_of("id"), "long");
        assert_eq!(type_of("f"), "double");
        assert_eq!(type_of("d"), "decimal(20, 2)");
        assert_eq!(type_of("n"), "long");
        assert!(agrees(&next, &after, &[]));
        for bad in [DataType::String, DataType::Date, DataType::Boolean] {
            let after = table(&[("id", bad)]);
            let error = next_schema(&current, 5, &event(Vec::new()), &after, &[]).expect_err("bad");
            assert_eq!(error.kind(), ErrorKind::SchemaIncompatible);
        }
    }

    #[test]
    fn a_reset_keeps_ids_where_it_can() {
        let start = table(&[("id", DataType::Int), ("a", DataType::Int), ("b", DataType::Int)]);
        let current = first_schema(&start, &[]).expect("ok");
        let after = table(&[("b", DataType::String), ("id", DataType::BigInt)]);
        let reset = reset_schema(&current, 3, &after, &[]).expect("ok");
        assert_eq!(ids(&reset), [("b".into(), 4), ("id".into(), 1)]);
    }
}
