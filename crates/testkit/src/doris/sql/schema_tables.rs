//! `information_schema`: schemata, tables, columns, as batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::super::cluster::Cluster;
use super::super::table::{KeysModel, Table};
use super::super::types::DorisType;

pub const SCHEMA: &str = "information_schema";

pub const TABLES: &[&str] = &["schemata", "tables", "columns"];

/// A column of one of these tables.
enum Cells {
    Text(Vec<Option<String>>),
    Number(Vec<Option<i64>>),
}

/// The rows of one of [`TABLES`], whatever the case of its name.
pub fn batch(cluster: &Cluster, name: &str) -> Option<Result<RecordBatch, ArrowError>> {
    Some(match name.to_ascii_lowercase().as_str() {
        "schemata" => schemata(cluster),
        "tables" => tables(cluster),
        "columns" => columns(cluster),
        _ => return None,
    })
}

fn build(columns: Vec<(&str, Cells)>) -> Result<RecordBatch, ArrowError> {
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (name, cells) in columns {
        match cells {
            Cells::Text(texts) => {
                fields.push(Field::new(name, DataType::Utf8, true));
                arrays.push(Arc::new(StringArray::from(texts)));
            }
            Cells::Number(numbers) => {
                fields.push(Field::new(name, DataType::Int64, true));
                arrays.push(Arc::new(Int64Array::from(numbers)));
            }
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn schemata(cluster: &Cluster) -> Result<RecordBatch, ArrowError> {
    let names: Vec<&String> = cluster.databases.keys().collect();
    let same = |text: &str| Cells::Text(names.iter().map(|_| Some(text.to_owned())).collect());
    build(vec![
        ("CATALOG_NAME", same("internal")),
        ("SCHEMA_NAME", Cells::Text(names.iter().map(|n| Some((*n).clone())).collect())),
        ("DEFAULT_CHARACTER_SET_NAME", same("utf8mb4")),
        ("DEFAULT_COLLATION_NAME", same("utf8mb4_0900_bin")),
    ])
}

fn all_tables(cluster: &Cluster) -> Vec<(&str, &Table)> {
    let databases = cluster.databases.iter();
    databases.flat_map(|(name, d)| d.tables.values().map(move |t| (name.as_str(), t))).collect()
}

fn tables(cluster: &Cluster) -> Result<RecordBatch, ArrowError> {
    let all = all_tables(cluster);
    let text = |of: &dyn Fn(&str, &Table) -> String| {
        Cells::Text(all.iter().map(|(d, t)| Some(of(d, t))).collect())
    };
    build(vec![
        ("TABLE_CATALOG", text(&|_, _| "internal".into())),
        ("TABLE_SCHEMA", text(&|d, _| d.into())),
        ("TABLE_NAME", text(&|_, t| t.name.clone())),
        ("TABLE_TYPE", text(&|_, _| "BASE TABLE".into())),
        ("ENGINE", text(&|_, _| "Doris".into())),
        (
            "TABLE_ROWS",
            Cells::Number(
                all.iter().map(|(_, t)| i64::try_from(t.visible().count()).ok()).collect(),
            ),
        ),
        ("TABLE_COLLATION", text(&|_, _| "utf-8".into())),
        ("TABLE_COMMENT", text(&|_, t| t.comment.clone())),
    ])
}

fn columns(cluster: &Cluster) -> Result<RecordBatch, ArrowError> {
    let tables = all_tables(cluster);
    let all: Vec<_> = tables
        .iter()
        .flat_map(|(d, t)| t.columns.iter().enumerate().map(move |(at, c)| (*d, *t, at, c)))
        .collect();
    let text = |of: &dyn Fn(usize) -> Option<String>| Cells::Text((0..all.len()).map(of).collect());
    let number = |of: &dyn Fn(&DorisType) -> Option<i64>| {
        Cells::Number(all.iter().map(|(.., c)| of(&c.data_type)).collect())
    };
    build(vec![
        ("TABLE_CATALOG", text(&|_| Some("internal".into()))),
        ("TABLE_SCHEMA", text(&|at| Some(all[at].0.to_owned()))),
        ("TABLE_NAME", text(&|at| Some(all[at].1.name.clone()))),
        ("COLUMN_NAME", text(&|at| Some(all[at].3.name.clone()))),
        (
            "ORDINAL_POSITION",
            Cells::Number(all.iter().map(|(_, _, at, _)| i64::try_from(at + 1).ok()).collect()),
        ),
        ("COLUMN_DEFAULT", text(&|at| all[at].3.default.clone())),
        (
            "IS_NULLABLE",
            text(&|at| Some(if all[at].3.nullable { "YES".into() } else { "NO".into() })),
        ),
        ("DATA_TYPE", text(&|at| Some(all[at].3.data_type.data_type().to_owned()))),
        (
            "CHARACTER_MAXIMUM_LENGTH",
            number(&|t| {
                t.is_text().then(|| t.max_bytes()).flatten().and_then(|n| i64::try_from(n).ok())
            }),
        ),
        (
            "NUMERIC_PRECISION",
            number(&|t| match t {
                DorisType::Decimal { precision, .. } => Some((*precision).into()),
                _ => None,
            }),
        ),
        (
            "NUMERIC_SCALE",
            number(&|t| match t {
                DorisType::Decimal { scale, .. } => Some((*scale).into()),
                _ => None,
            }),
        ),
        (
            "DATETIME_PRECISION",
            number(&|t| match t {
                DorisType::DateTime(digits) => Some((*digits).into()),
                _ => None,
            }),
        ),
        ("COLUMN_TYPE", text(&|at| Some(all[at].3.data_type.to_string()))),
        (
            "COLUMN_KEY",
            text(&|at| {
                Some(match (all[at].3.is_key, all[at].1.model) {
                    (true, KeysModel::Unique) => "UNI".to_owned(),
                    (true, KeysModel::Duplicate) => "DUP".to_owned(),
                    (false, _) => String::new(),
                })
            }),
        ),
        ("EXTRA", text(&|_| Some(String::new()))),
        ("COLUMN_COMMENT", text(&|at| Some(all[at].3.comment.clone()))),
    ])
}
