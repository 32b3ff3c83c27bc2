//! `ogg-json`: what Oracle GoldenGate for Big Data writes.

use std::borrow::Cow;

use lakeward_core::TableId;

use super::{Change, Ddl, DdlChange, Message, Op, Reason, Rows};
use crate::json::Object;
use crate::temporal::timestamp_micros;

pub fn read(value: Object<'_>) -> Result<Message<'_>, Reason> {
    let op = value.text("op_type").ok_or("it has no `op_type`: not a message of GoldenGate")?;
    let full = value.text("table").ok_or("it names no table")?;
    let (namespace, table) = split(full).ok_or("`table` has no schema before its name")?;
    let commit_ms = value
        .text("op_ts")
        .and_then(|text| timestamp_micros(&text))
        .map_or(0, |(micros, _)| micros.div_euclid(1000));
    let image = |name: &str| match value.get(name) {
        None => Ok(None),
        Some(raw) => match Object::parse(raw.get()) {
            Some(object) => Ok(Some(object)),
            None => Err(Reason::from("a row image is not an object")),
        },
    };
    let (before, after) = (image("before")?, image("after")?);
    let change = match op.as_ref() {
        "I" => Change { op: Op::Insert, before: None, after },
        "U" => Change { op: Op::Update, before, after },
        "D" => Change { op: Op::Delete, before: before.or(after), after: None },
        "T" => {
            let table = TableId::new(&*namespace, &*table);
            let ddl = Ddl { table, change: DdlChange::Truncate, commit_ms, sql: "TRUNCATE".into() };
            return Ok(Message::Ddl(vec![ddl]));
        }
        _ => return Err("`op_type` is none of I, U, D, T".into()),
    };
    let key = value.texts("primary_keys").unwrap_or_default();
    let changes = vec![change];
    Ok(Message::Rows(Rows {
        namespace,
        table,
        commit_ms,
        key,
        declared: None,
        partial: true,
        changes,
    }))
}

/// `CONTAINER.SCHEMA.TABLE`: the last two parts.
fn split(full: Cow<'_, str>) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    match full {
        Cow::Borrowed(text) => {
            let (front, table) = text.rsplit_once('.')?;
            let schema = front.rsplit_once('.').map_or(front, |(_, schema)| schema);
            Some((schema.into(), table.into()))
        }
        Cow::Owned(text) => {
            let (front, table) = text.rsplit_once('.')?;
            let schema = front.rsplit_once('.').map_or(front, |(_, schema)| schema);
            Some((schema.to_owned().into(), table.to_owned().into()))
        }
    }
}
