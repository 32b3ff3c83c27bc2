//! `canal-json`: flat messages, several rows in each.

use lakeward_core::TableId;

use super::statement::{self, Effect};
use super::{Change, Ddl, DdlChange, Message, Op, Reason, Rows};
use crate::declared::{DeclaredCache, of_canal_types};
use crate::json::Object;

pub fn read<'a>(value: Object<'a>, cache: &mut DeclaredCache) -> Result<Message<'a>, Reason> {
    let kind = value.text("type").ok_or("it has no `type`: not a message of Canal")?;
    let namespace = value.text("database").unwrap_or_default();
    let table = value.text("table").unwrap_or_default();
    let commit_ms = value.long("es").or_else(|| value.long("ts")).unwrap_or(0);
    if value.is_true("isDdl") {
        return Ok(ddl(&value, &kind, &namespace, &table, commit_ms));
    }
    let op = match kind.as_ref() {
        "INSERT" => Op::Insert,
        "UPDATE" => Op::Update,
        "DELETE" => Op::Delete,
        // Statements that are not marked as DDL: QUERY, GTID, heartbeats.
        _ => return Ok(Message::Marker),
    };
    if table.is_empty() {
        return Err("it names no table".into());
    }
    let rows = |name: &str| -> Result<Option<Vec<Object<'a>>>, Reason> {
        let Some(list) = value.list(name) else { return Ok(None) };
        let object = |raw: &'a serde_json::value::RawValue| {
            // Of an update whose row did not change, `old` has nothing to say.
            if raw.get() == "null" { Some(Object::default()) } else { Object::parse(raw.get()) }
        };
        let objects: Option<Vec<_>> = list.into_iter().map(object).collect();
        objects.map(Some).ok_or_else(|| "a row is not an object".into())
    };
    let (data, old) = (rows("data")?, rows("old")?);
    let changes = match (op, data, old) {
        (Op::Insert, Some(data), _) => {
            data.into_iter().map(|row| Change { op, before: None, after: Some(row) }).collect()
        }
        (Op::Update, Some(data), Some(old)) if data.len() == old.len() => {
            let pairs = data.into_iter().zip(old);
            pairs
                .map(|(row, old)| Change { op, before: Some(old), after: Some(row) })
                .collect::<Vec<_>>()
        }
        (Op::Update, Some(data), None) => {
            data.into_iter().map(|row| Change { op, before: None, after: Some(row) }).collect()
        }
        (Op::Update, Some(_), Some(_)) => {
            return Err("`data` and `old` have different numbers of rows".into());
        }
        // Some versions send the deleted rows in `old`.
        (Op::Delete, Some(rows), _) | (Op::Delete, None, Some(rows)) => {
            rows.into_iter().map(|row| Change { op, before: Some(row), after: None }).collect()
        }
        _ => return Err("it has no rows".into()),
    };
    let declared = match value.get("mysqlType").or_else(|| value.get("sqlType")) {
        Some(raw) => cache.get(raw.get(), |text| {
            let types = Object::parse(text)?;
            let sql = value.object("sqlType").unwrap_or_default();
            let named = value.get("mysqlType").is_some();
            Some(if named {
                of_canal_types(&types, &sql)
            } else {
                of_canal_types(&Object::default(), &types)
            })
        }),
        None => None,
    };
    let key = value.texts("pkNames").unwrap_or_default();
    Ok(Message::Rows(Rows { namespace, table, commit_ms, key, declared, partial: false, changes }))
}

/// The message has the statement and nothing of the table's shape: what the statement does to whole tables is read from
/// it, and the columns from the types of the next row.
fn ddl<'a>(
    value: &Object<'a>,
    kind: &str,
    namespace: &str,
    table: &str,
    commit_ms: i64,
) -> Message<'a> {
    let sql = value.text("sql").unwrap_or_default();
    let mut effects = statement::effects(&sql, namespace);
    if effects.is_empty() && !table.is_empty() {
        let effect = match kind {
            "TRUNCATE" => Some(Effect::Truncate),
            "ERASE" => Some(Effect::Drop),
            "ALTER" => Some(Effect::Alter { renames: Vec::new() }),
            _ => None,
        };
        effects.extend(effect.map(|effect| (TableId::new(namespace, table), effect)));
    }
    let all: Vec<Ddl> = effects
        .into_iter()
        .filter_map(|(table, effect)| {
            let change = match effect {
                Effect::Create => return None,
                Effect::Truncate => DdlChange::Truncate,
                Effect::Drop => DdlChange::Drop,
                Effect::Rename { to } => DdlChange::Rename { to },
                Effect::Alter { renames } => DdlChange::Altered { renames },
            };
            Some(Ddl { table, change, commit_ms, sql: sql.clone().into_owned() })
        })
        .collect();
    if all.is_empty() { Message::Marker } else { Message::Ddl(all) }
}
