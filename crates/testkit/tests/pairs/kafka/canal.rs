//! Canal's flat messages.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::debezium::bytes_of;
use super::{Of, Record, partition_of, row_topic};
use crate::tables::{ColumnType, Event, Row, Shape};

pub fn records(of: &Of<'_>, event: &Event, all: &mut Vec<Record>) -> Result<()> {
    let (value, partition) = match event {
        Event::Row { shape, before, after } => {
            let value = rows(of, shape, before.as_ref(), after.as_ref())?;
            (value, partition_of(&shape.table))
        }
        Event::Ddl { table, word, .. } => {
            let kind = if *word == "DROP" { "ERASE" } else { word };
            let value = json!({
                "database": of.database, "table": table, "type": kind, "isDdl": true, "data": null, "old": null,
                "pkNames": null, "mysqlType": null, "sqlType": null, "sql": of.sql,
                "es": of.now_ms, "ts": of.now_ms + 3,
            });
            (value, 0)
        }
    };
    let topic = row_topic(of.run, of.database);
    all.push(Record { topic, partition, key: None, value: Some(value.to_string()) });
    Ok(())
}

fn rows(of: &Of<'_>, shape: &Shape, before: Option<&Row>, after: Option<&Row>) -> Result<Value> {
    let image = |row: &Row| -> Result<Map<String, Value>> {
        let one = |(at, column): (usize, &crate::tables::Column)| {
            Ok((column.name.clone(), text(&column.kind, &row[at])?))
        };
        shape.columns.iter().enumerate().map(one).collect()
    };
    let (kind, data, old) = match (before, after) {
        (Some(before), Some(after)) => {
            let (old, new) = (image(before)?, image(after)?);
            let changed = old.into_iter().filter(|(name, value)| new[name] != *value).collect();
            ("UPDATE", new, Value::Array(vec![Value::Object(changed)]))
        }
        (None, Some(after)) => ("INSERT", image(after)?, Value::Null),
        (Some(before), None) => ("DELETE", image(before)?, Value::Null),
        (None, None) => ("QUERY", Map::new(), Value::Null),
    };
    let types: Map<String, Value> =
        shape.columns.iter().map(|c| (c.name.clone(), json!(c.kind.spelled))).collect();
    let keys = (!shape.key.is_empty()).then_some(&shape.key);
    Ok(json!({
        "database": of.database, "table": shape.table, "type": kind, "isDdl": false, "data": [data], "old": old,
        "pkNames": keys, "mysqlType": types, "sqlType": null, "sql": "", "es": of.now_ms, "ts": of.now_ms + 3,
    }))
}

/// Every value is a text; bytes are one character each.
fn text(kind: &ColumnType, value: &Value) -> Result<Value> {
    Ok(match value {
        Value::String(hex) if kind.is_binary() => {
            bytes_of(hex)?.into_iter().map(char::from).collect::<String>().into()
        }
        Value::Null | Value::String(_) => value.clone(),
        other => other.to_string().into(),
    })
}
