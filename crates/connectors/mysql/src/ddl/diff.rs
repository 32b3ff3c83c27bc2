//! The step between two shapes as schema changes.

use std::sync::Arc;

use lakeward_core::{Column, ColumnPlace, DataType, Literal, SchemaChange, TableSchema};

use super::literal;
use crate::model::{MysqlColumn, MysqlTable};

/// A shape as Lakeward's schema.
pub fn table_schema(
    version: u32,
    table: &MysqlTable,
    types: &dyn Fn(&MysqlColumn) -> DataType,
) -> TableSchema {
    TableSchema {
        version,
        columns: table.columns.iter().map(|column| schema_column(column, types)).collect(),
        primary_key: table.primary_key.clone(),
        comment: table.comment.clone(),
    }
}

fn schema_column(column: &MysqlColumn, types: &dyn Fn(&MysqlColumn) -> DataType) -> Column {
    let data_type = types(column);
    Column {
        name: column.name.clone(),
        data_type,
        nullable: column.nullable,
        default: literal::constant(&column.default, column, &data_type, None),
        comment: column.comment.clone(),
    }
}

/// What a column of the new schema was before.
#[derive(Debug, Clone, PartialEq)]
pub enum Came {
    /// Index in the old schema.
    From(usize),
    /// New, with what rows that exist hold in it.
    New(Literal),
}

/// The changes that lead from `before` to `after`, where `came` says for each column of `after` where it comes from.
pub fn changes(before: &TableSchema, after: &TableSchema, came: &[Came]) -> Vec<SchemaChange> {
    let mut changes = Vec::new();
    let survives = |i: usize| came.iter().any(|c| matches!(c, Came::From(from) if *from == i));
    for (i, column) in before.columns.iter().enumerate() {
        if !survives(i) {
            changes.push(SchemaChange::DropColumn { name: column.name.clone() });
        }
    }
    let pairs = || {
        after.columns.iter().zip(came).filter_map(|(to, came)| match came {
            Came::From(i) => Some((&before.columns[*i], to)),
            Came::New(_) => None,
        })
    };
    for (from, to) in pairs().filter(|(from, to)| from.name != to.name) {
        let (from, to) = (from.name.clone(), to.name.clone());
        changes.push(SchemaChange::RenameColumn { from, to });
    }
    for (from, to) in pairs() {
        let name = to.name.clone();
        if from.data_type != to.data_type {
            let (from, to) = (from.data_type, to.data_type);
            changes.push(SchemaChange::AlterColumnType { name: name.clone(), from, to });
        }
        if from.nullable != to.nullable {
            let nullable = to.nullable;
            changes.push(SchemaChange::AlterColumnNullable { name, nullable });
        }
    }
    places(after, came, &mut changes);
    if key_before(before, after, came) != after.primary_key {
        changes.push(SchemaChange::SetPrimaryKey { columns: after.primary_key.clone() });
    }
    for (_, to) in pairs().filter(|(from, to)| from.comment != to.comment) {
        let (name, comment) = (to.name.clone(), to.comment.clone());
        changes.push(SchemaChange::CommentColumn { name, comment });
    }
    if before.comment != after.comment {
        changes.push(SchemaChange::CommentTable { comment: after.comment.clone() });
    }
    changes
}

/// The old key under the new names, without columns that are gone.
fn key_before(before: &TableSchema, after: &TableSchema, came: &[Came]) -> Vec<Arc<str>> {
    let new_name = |part: &Arc<str>| {
        let old = before.index_of(part)?;
        let new = came.iter().position(|c| matches!(c, Came::From(i) if *i == old))?;
        Some(after.columns[new].name.clone())
    };
    before.primary_key.iter().filter_map(new_name).collect()
}

/// Adds and moves, from the front to the back, so that each column's predecessor already stands where it belongs.
fn places(after: &TableSchema, came: &[Came], changes: &mut Vec<SchemaChange>) {
    let stay = longest_increasing(came);
    // The survivors in their old order.
    let mut standing: Vec<usize> =
        (0..came.len()).filter(|i| matches!(came[*i], Came::From(_))).collect();
    standing.sort_by_key(|i| match came[*i] {
        Came::From(from) => from,
        Came::New(_) => usize::MAX,
    });
    for (i, column) in after.columns.iter().enumerate() {
        if stay[i] {
            continue;
        }
        standing.retain(|s| *s != i);
        let at = match i.checked_sub(1) {
            None => 0,
            Some(previous) => {
                1 + standing
                    .iter()
                    .position(|s| *s == previous)
                    .expect("placed in the round before")
            }
        };
        let place = match i.checked_sub(1) {
            _ if at == standing.len() => ColumnPlace::Last,
            None => ColumnPlace::First,
            Some(previous) => ColumnPlace::After(after.columns[previous].name.clone()),
        };
        standing.insert(at, i);
        changes.push(match &came[i] {
            Came::New(existing_rows) => SchemaChange::AddColumn {
                column: column.clone(),
                place,
                existing_rows: existing_rows.clone(),
            },
            Came::From(_) => SchemaChange::MoveColumn { name: column.name.clone(), place },
        });
    }
}

/// The largest set of columns that keep their order among themselves: those need no move.
fn longest_increasing(came: &[Came]) -> Vec<bool> {
    let olds: Vec<Option<usize>> = came
        .iter()
        .map(|c| match c {
            Came::From(i) => Some(*i),
            Came::New(_) => None,
        })
        .collect();
    let mut best: Vec<(usize, Option<usize>)> = vec![(0, None); olds.len()];
    for i in 0..olds.len() {
        let Some(old) = olds[i] else { continue };
        best[i].0 = 1;
        for j in 0..i {
            if olds[j].is_some_and(|o| o < old) && best[j].0 + 1 > best[i].0 {
                best[i] = (best[j].0 + 1, Some(j));
            }
        }
    }
    let mut stay = vec![false; olds.len()];
    // The first of the longest: stable between runs.
    let mut at = (0..olds.len()).rev().max_by_key(|i| best[*i].0).filter(|i| best[*i].0 > 0);
    while let Some(i) = at {
        stay[i] = true;
        at = best[i].1;
    }
    stay
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(names: &mut Vec<Arc<str>>, change: &SchemaChange) {
        let mut put = |name: &Arc<str>, place: &ColumnPlace| {
            let at = match place {
                ColumnPlace::First => 0,
                ColumnPlace::Last => names.len(),
                ColumnPlace::After(other) => {
                    1 + names.iter().position(|n| n == other).expect("the neighbour is there")
                }
            };
            names.insert(at, name.clone());
        };
        match change {
            SchemaChange::AddColumn { column, place, .. } => put(&column.name, place),
            SchemaChange::MoveColumn { name, place } => {
                let at = names.iter().position(|n| n == name).expect("it is there");
                names.remove(at);
                apply(
                    names,
                    &SchemaChange::AddColumn {
                        column: Column::new(name.clone(), DataType::Int, true),
                        place: place.clone(),
                        existing_rows: Literal::Null,
                    },
                );
            }
            SchemaChange::DropColumn { name } => names.retain(|n| n != name),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        /// Any subset in any order with any new columns between is reached, and whoever can stay does.
        #[test]
        fn places_lead_to_the_new_order(
            order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(),
            kept in prop::collection::vec(any::<bool>(), 8),
            new in prop::collection::vec(0..9usize, 0..4),
        ) {
            let column = |name: String| Column::new(name, DataType::Int, true);
            let before = (0..8).map(|i| column(format!("c{i}"))).collect();
            let before = TableSchema::new(1, before, vec![]);
            let mut after: Vec<(Column, Came)> = order
                .iter()
                .filter(|i| kept[**i])
                .map(|i| (column(format!("c{i}")), Came::From(*i)))
                .collect();
            for (n, at) in new.iter().enumerate() {
                let at = (*at).min(after.len());
                after.insert(at, (column(format!("n{n}")), Came::New(Literal::Null)));
            }
            let (columns, came): (Vec<Column>, Vec<Came>) = after.into_iter().unzip();
            let after = TableSchema::new(2, columns, vec![]);
            let changes = changes(&before, &after, &came);
            let mut names: Vec<Arc<str>> = before.columns.iter().map(|c| c.name.clone()).collect();
            for change in &changes {
                apply(&mut names, change);
            }
            let expected: Vec<Arc<str>> = after.columns.iter().map(|c| c.name.clone()).collect();
            prop_assert_eq!(names, expected);
            let moves = changes.iter().filter(|c| matches!(c, SchemaChange::MoveColumn { .. })).count();
            let in_order = order.iter().filter(|i| kept[**i]).is_sorted();
            prop_assert!(!in_order || moves == 0);
        }
    }
}
