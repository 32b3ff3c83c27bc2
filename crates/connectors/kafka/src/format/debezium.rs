//! `debezium-json`: envelopes with and without their schema, and the schema-change topic.

use std::borrow::Cow;
use std::sync::Arc;

use lakeward_core::{DataType, TableId};

use super::statement::{self, Effect};
use super::{Change, Ddl, DdlChange, Message, Op, Reason, Rows};
use crate::declared::{Declared, DeclaredCache, DeclaredColumn, Encoding, of_connect_schema};
use crate::json::Object;
use crate::types::{database_type, jdbc_type};

pub fn read<'a>(
    key: Option<&'a [u8]>,
    value: Object<'a>,
    cache: &mut DeclaredCache,
) -> Result<Message<'a>, Reason> {
    let mut declared = None;
    let mut envelope = value;
    if envelope.entry("payload").is_some() && envelope.get("op").is_none() {
        if let Some(schema) = envelope.get("schema") {
            declared = cache.get(schema.get(), of_connect_schema);
        }
        let Some(payload) = envelope.get("payload") else { return Ok(Message::Marker) };
        envelope = Object::parse(payload.get()).ok_or("the payload is not an object")?;
    }
    let source = envelope.object("source").unwrap_or_default();
    let commit_ms = source.long("ts_ms").or_else(|| envelope.long("ts_ms")).unwrap_or(0);
    let Some(op) = envelope.text("op") else {
        return without_op(&envelope, &source, commit_ms);
    };
    // Messages of the database itself, and heartbeats, are about no table.
    let Some(table) = source.text("table").filter(|t| !t.is_empty()) else {
        return match op.as_ref() {
            "m" => Ok(Message::Marker),
            _ => Err("`source` names no table".into()),
        };
    };
    let namespace = source.text("schema").filter(|s| !s.is_empty()).or_else(|| source.text("db"));
    let namespace = namespace.ok_or("`source` names neither schema nor database")?;
    let image = |name: &str| match envelope.get(name) {
        None => Ok(None),
        Some(raw) => match Object::parse(raw.get()) {
            Some(object) => Ok(Some(object)),
            None => Err(Reason::from("a row image is not an object")),
        },
    };
    let key = key_of(key);
    let (before, after) = (image("before")?, image("after")?);
    let change = match op.as_ref() {
        "c" | "r" => Change { op: Op::Insert, before: None, after },
        "u" => Change { op: Op::Update, before, after },
        "d" => {
            let before = before.or_else(|| key.clone());
            Change { op: Op::Delete, before, after: None }
        }
        "t" => {
            let table = TableId::new(&*namespace, &*table);
            let ddl = Ddl { table, change: DdlChange::Truncate, commit_ms, sql: "TRUNCATE".into() };
            return Ok(Message::Ddl(vec![ddl]));
        }
        "m" => return Ok(Message::Marker),
        _ => return Err("the operation is none of c, r, u, d, t, m".into()),
    };
    let key = key.map(|key| key.0.into_iter().map(|(name, _)| name).collect()).unwrap_or_default();
    let changes = vec![change];
    Ok(Message::Rows(Rows { namespace, table, commit_ms, key, declared, partial: false, changes }))
}

/// The key's columns. A key that is no object, or an empty one, says that the table has none.
fn key_of(key: Option<&[u8]>) -> Option<Object<'_>> {
    let object = Object::of_bytes(key?)?;
    let object = match object.entry("payload") {
        Some(payload) if object.entry("schema").is_some() => Object::parse(payload.get())?,
        _ => object,
    };
    (!object.0.is_empty()).then_some(object)
}

fn without_op<'a>(
    envelope: &Object<'a>,
    source: &Object<'a>,
    commit_ms: i64,
) -> Result<Message<'a>, Reason> {
    if envelope.entry("tableChanges").is_some() || envelope.entry("ddl").is_some() {
        return schema_change(envelope, source, commit_ms);
    }
    // The transaction topic and heartbeats.
    let is_transaction = envelope.entry("status").is_some() && envelope.entry("id").is_some();
    if is_transaction || envelope.0.iter().all(|(name, _)| name == "ts_ms") {
        return Ok(Message::Marker);
    }
    Err("it has no `op`: not an envelope of Debezium".into())
}

fn schema_change<'a>(
    envelope: &Object<'a>,
    source: &Object<'a>,
    commit_ms: i64,
) -> Result<Message<'a>, Reason> {
    let text = |name: &str, or: &str| envelope.text(name).or_else(|| source.text(or));
    let namespace = text("schemaName", "schema").or_else(|| text("databaseName", "db"));
    let namespace = namespace.unwrap_or_default();
    let sql = envelope.text("ddl").unwrap_or_default();
    let effects = statement::effects(&sql, &namespace);
    let mut all = Vec::new();
    let mut push = |table: TableId, change| {
        all.push(Ddl { table, change, commit_ms, sql: sql.clone().into_owned() });
    };
    for (table, effect) in &effects {
        match effect {
            Effect::Truncate => push(table.clone(), DdlChange::Truncate),
            Effect::Rename { to } => push(table.clone(), DdlChange::Rename { to: to.clone() }),
            Effect::Drop => push(table.clone(), DdlChange::Drop),
            Effect::Alter { renames } if !renames.is_empty() => {
                push(table.clone(), DdlChange::Altered { renames: renames.clone() });
            }
            Effect::Alter { .. } | Effect::Create => {}
        }
    }
    for raw in envelope.list("tableChanges").unwrap_or_default() {
        let change = Object::parse(raw.get()).ok_or("a table change is not an object")?;
        let id = change.text("id").ok_or("a table change names no table")?;
        let table = table_of(&id, &namespace);
        if change.text("type").as_deref() == Some("DROP") {
            if !effects.iter().any(|(known, e)| *known == table && *e == Effect::Drop) {
                push(table, DdlChange::Drop);
            }
            continue;
        }
        let Some(shape) = change.object("table") else { continue };
        let key = shape.texts("primaryKeyColumnNames").unwrap_or_default();
        let key = key.iter().map(|name| Arc::from(name.as_ref())).collect();
        let connector = source.text("connector").unwrap_or_default();
        let declared = columns_of(&shape, &connector)?;
        push(table, DdlChange::Columns { declared, key: Some(key) });
    }
    if all.is_empty() {
        return Ok(Message::Marker);
    }
    Ok(Message::Ddl(all))
}

/// `"db"."table"`: the last two parts.
fn table_of(id: &str, namespace: &str) -> TableId {
    let mut parts: Vec<String> = vec![String::new()];
    let mut quoted = false;
    for c in id.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            _ => {
                if let Some(last) = parts.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    let name = parts.pop().unwrap_or_default();
    let namespace = parts.pop().unwrap_or_else(|| namespace.to_owned());
    TableId::new(namespace, name)
}

fn columns_of(shape: &Object<'_>, connector: &str) -> Result<Declared, Reason> {
    // MySQL's times of day are microseconds, whatever their own precision.
    let micros = matches!(connector, "mysql" | "mariadb");
    let columns = shape.list("columns").ok_or("a table change has no columns")?;
    let column = |raw: &&serde_json::value::RawValue| {
        let column = Object::parse(raw.get())?;
        let name = column.text("name")?;
        let number = |field: &str| column.long(field).map(|n| n.to_string());
        let type_name = column.text("typeName").unwrap_or_default();
        let (base, modifier) = type_name.split_once(' ').unwrap_or((&type_name, ""));
        let arguments: Vec<String> = number("length").into_iter().chain(number("scale")).collect();
        let spelled: Cow<'_, str> = match arguments.is_empty() {
            true => type_name.clone(),
            false => format!("{base}({}) {modifier}", arguments.join(",")).into(),
        };
        let by_code = || column.long("jdbcType").and_then(jdbc_type);
        let data_type = database_type(&spelled).or_else(|| database_type(&type_name));
        Some(DeclaredColumn {
            name: name.as_ref().into(),
            data_type: match data_type.or_else(by_code) {
                Some(DataType::Time { .. }) if micros => DataType::Time { precision: 6 },
                found => found.unwrap_or(DataType::String),
            },
            nullable: column.is_true("optional"),
            encoding: Encoding::Plain,
        })
    };
    let declared: Option<Vec<_>> = columns.iter().map(column).collect();
    declared.map(Declared).ok_or_else(|| "a column of a table change has no name".into())
}
