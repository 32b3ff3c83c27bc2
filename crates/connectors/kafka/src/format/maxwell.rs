//! `maxwell-json`: rows, bootstrap rows and DDL.

use std::borrow::Cow;
use std::sync::Arc;

use lakeward_core::{DataType, TableId};

use super::statement::{self, Effect};
use super::{Change, Ddl, DdlChange, Message, Op, Reason, Rows};
use crate::declared::{Declared, DeclaredColumn, Encoding};
use crate::json::Object;
use crate::types::database_type;

/// Maxwell writes seconds for rows and milliseconds for DDL.
const MILLIS_FROM: i64 = 100_000_000_000;

pub fn read<'a>(key: Option<&'a [u8]>, value: Object<'a>) -> Result<Message<'a>, Reason> {
    let kind = value.text("type").ok_or("it has no `type`: not a message of Maxwell")?;
    let ts = value.long("ts").unwrap_or(0);
    let commit_ms = if ts < MILLIS_FROM { ts.saturating_mul(1000) } else { ts };
    let op = match kind.as_ref() {
        "insert" | "bootstrap-insert" => Op::Insert,
        "update" => Op::Update,
        "delete" => Op::Delete,
        "bootstrap-start" | "bootstrap-complete" | "heartbeat" => return Ok(Message::Marker),
        "table-create" | "table-alter" | "table-drop" => return ddl(&value, &kind, commit_ms),
        "database-create" | "database-alter" | "database-drop" => return Ok(Message::Marker),
        _ => return Err("its `type` is none of Maxwell's".into()),
    };
    let namespace = value.text("database").ok_or("it names no database")?;
    let table = value.text("table").ok_or("it names no table")?;
    let row = value.object("data").ok_or("`data` is not an object")?;
    let change = match op {
        Op::Insert => Change { op, before: None, after: Some(row) },
        Op::Update => Change { op, before: value.object("old"), after: Some(row) },
        Op::Delete => Change { op, before: Some(row), after: None },
    };
    let named = value.texts("primary_key_columns").filter(|key| !key.is_empty());
    let key = named.unwrap_or_else(|| key_of(key));
    let changes = vec![change];
    Ok(Message::Rows(Rows {
        namespace,
        table,
        commit_ms,
        key,
        declared: None,
        partial: false,
        changes,
    }))
}

/// The record's key is `{"database":…,"table":…,"pk.id":1}`; in an array it is a hash of it, which names no columns.
fn key_of(key: Option<&[u8]>) -> Vec<Cow<'_, str>> {
    let Some(object) = key.and_then(Object::of_bytes) else { return Vec::new() };
    let column = |(name, _): (Cow<'_, str>, _)| Some(name.strip_prefix("pk.")?.to_owned().into());
    object.0.into_iter().filter_map(column).collect()
}

fn ddl<'a>(value: &Object<'a>, kind: &str, commit_ms: i64) -> Result<Message<'a>, Reason> {
    let namespace = value.text("database").ok_or("it names no database")?;
    let name = value.text("table").ok_or("it names no table")?;
    let sql = value.text("sql").unwrap_or_default();
    let table = TableId::new(&*namespace, &*name);
    let mut all = Vec::new();
    let mut push = |table: TableId, change| {
        all.push(Ddl { table, change, commit_ms, sql: sql.clone().into_owned() });
    };
    if kind == "table-drop" {
        push(table, DdlChange::Drop);
        return Ok(Message::Ddl(all));
    }
    let def = value.object("def").ok_or("it has no definition of the table")?;
    let renamed = match (def.text("database"), def.text("table")) {
        (Some(database), Some(name)) => TableId::new(&*database, &*name),
        _ => table.clone(),
    };
    if renamed != table {
        push(table.clone(), DdlChange::Rename { to: renamed.clone() });
    }
    for (altered, effect) in statement::effects(&sql, &namespace) {
        match effect {
            Effect::Alter { renames } if !renames.is_empty() && altered == table => {
                push(renamed.clone(), DdlChange::Altered { renames });
            }
            _ => {}
        }
    }
    let key = def.texts("primary-key").unwrap_or_default();
    let key = key.iter().map(|name| Arc::from(name.as_ref())).collect();
    push(renamed, DdlChange::Columns { declared: columns_of(&def)?, key: Some(key) });
    Ok(Message::Ddl(all))
}

fn columns_of(def: &Object<'_>) -> Result<Declared, Reason> {
    let columns = def.list("columns").ok_or("the definition has no columns")?;
    let column = |raw: &&serde_json::value::RawValue| {
        let column = Object::parse(raw.get())?;
        let (name, type_name) = (column.text("name")?, column.text("type")?);
        let unsigned = column.entry("signed").is_some_and(|raw| raw.get() == "false");
        let length = column.long("column-length").map(|n| format!("({n})")).unwrap_or_default();
        let unsigned = if unsigned { " unsigned" } else { "" };
        let data_type = match type_name.as_ref() {
            // The definition does not say how many digits a decimal has, nor how long a text or a run of bits is.
            "decimal" | "numeric" | "char" | "varchar" | "nchar" | "nvarchar" => DataType::String,
            "binary" | "varbinary" => DataType::Bytes,
            "bit" => DataType::BigInt,
            _ => {
                database_type(&format!("{type_name}{length}{unsigned}")).unwrap_or(DataType::String)
            }
        };
        let name = name.as_ref().into();
        Some(DeclaredColumn { name, data_type, nullable: true, encoding: Encoding::Plain })
    };
    let declared: Option<Vec<_>> = columns.iter().map(column).collect();
    declared.map(Declared).ok_or_else(|| "a column of the definition has no name or type".into())
}
