//! Envelopes and schema changes as Debezium's connector for MySQL writes them.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lakeward_testkit::form::Form;
use serde_json::{Map, Value, json};

use super::{Of, Record, partition_of, row_topic, schema_topic};
use crate::tables::{Column, ColumnType, Event, Row, Shape};

pub fn records(of: &Of<'_>, event: &Event, schemas: bool, all: &mut Vec<Record>) -> Result<()> {
    match event {
        Event::Row { shape, before, after } => {
            let key = |row: &Option<Row>| row.as_ref().map(|row| shape.key_of(row)).transpose();
            let (old, new) = (key(before)?, key(after)?);
            let moved = old.is_some() && new.is_some() && old != new;
            let mut push = |op, before: Option<&Row>, after: Option<&Row>| -> Result<()> {
                let row = before.filter(|_| after.is_none()).or(after).context("no row at all")?;
                let value = envelope(of, shape, op, before, after, schemas)?;
                let key = key_text(shape, row, schemas)?;
                // Without a key all rows of a table go to one partition.
                let partition = partition_of(key.as_deref().unwrap_or(&shape.table));
                let topic = row_topic(of.run, of.database);
                all.push(Record {
                    topic: topic.clone(),
                    partition,
                    key: key.clone(),
                    value: Some(value),
                });
                if op == "d" && key.is_some() {
                    all.push(Record { topic, partition, key, value: None });
                }
                Ok(())
            };
            match (before, after) {
                (None, Some(after)) => push("c", None, Some(after)),
                (Some(before), Some(after)) if moved => {
                    push("d", Some(before), None)?;
                    push("c", None, Some(after))
                }
                (Some(before), Some(after)) => push("u", Some(before), Some(after)),
                (before, _) => push("d", before.as_ref(), None),
            }
        }
        Event::Ddl { table, was, shape, word } => {
            if *word == "TRUNCATE" {
                let value = json!({"op": "t", "source": source(of, table), "ts_ms": of.now_ms});
                let topic = row_topic(of.run, of.database);
                all.push(Record { topic, partition: 0, key: None, value: Some(value.to_string()) });
            }
            let value = schema_change(of, table, was.as_deref(), shape.as_deref(), word);
            let value = match schemas {
                true => json!({"schema": {"type": "struct", "optional": false}, "payload": value}),
                false => value,
            };
            let key = json!({"databaseName": of.database}).to_string();
            let topic = schema_topic(of.run);
            all.push(Record {
                topic,
                partition: 0,
                key: Some(key),
                value: Some(value.to_string()),
            });
            Ok(())
        }
    }
}

fn source(of: &Of<'_>, table: &str) -> Value {
    json!({
        "version": "3.0.0.Final", "connector": "mysql", "name": of.run, "ts_ms": of.now_ms, "snapshot": "false",
        "db": of.database, "table": table,
    })
}

fn key_text(shape: &Shape, row: &Row, schemas: bool) -> Result<Option<String>> {
    if shape.key.is_empty() {
        return Ok(None);
    }
    let columns: Vec<&Column> =
        shape.columns.iter().filter(|c| shape.key.contains(&c.name)).collect();
    let mut key = Map::new();
    for column in &columns {
        let value = &row[shape.place(&column.name)?];
        key.insert(column.name.clone(), encoded(&column.kind, value, schemas)?);
    }
    Ok(Some(match schemas {
        true => {
            let fields: Vec<_> = columns.into_iter().map(field).collect();
            let schema = json!({"type": "struct", "fields": fields, "optional": false});
            json!({"schema": schema, "payload": key}).to_string()
        }
        false => Value::Object(key).to_string(),
    }))
}

fn envelope(
    of: &Of<'_>,
    shape: &Shape,
    op: &str,
    before: Option<&Row>,
    after: Option<&Row>,
    schemas: bool,
) -> Result<String> {
    let image = |row: Option<&Row>| -> Result<Value> {
        let Some(row) = row else { return Ok(Value::Null) };
        let one = |(column, value): (&Column, &Value)| {
            Ok((column.name.clone(), encoded(&column.kind, value, schemas)?))
        };
        Ok(Value::Object(shape.columns.iter().zip(row).map(one).collect::<Result<_>>()?))
    };
    let payload = json!({
        "before": image(before)?, "after": image(after)?, "source": source(of, &shape.table),
        "op": op, "ts_ms": of.now_ms + 3,
    });
    if !schemas {
        return Ok(payload.to_string());
    }
    let columns: Vec<_> = shape.columns.iter().map(field).collect();
    let row = |name: &str| json!({"type": "struct", "fields": columns, "optional": true, "field": name, "name": "v.Value"});
    let op = json!({"type": "string", "optional": false, "field": "op"});
    let fields = [row("before"), row("after"), op];
    let schema =
        json!({"type": "struct", "fields": fields, "optional": false, "name": "v.Envelope"});
    Ok(json!({"schema": schema, "payload": payload}).to_string())
}

/// How the converter describes a column.
fn field(column: &Column) -> Value {
    let kind = &column.kind;
    let digits = kind.arguments.first().copied().unwrap_or(0);
    let (plain, semantic) = match kind.base.as_str() {
        "tinyint" | "smallint" => ("int16", None),
        "int" if kind.unsigned => ("int64", None),
        "mediumint" | "int" => ("int32", None),
        "year" => ("int32", Some("io.debezium.time.Year")),
        "bigint" if kind.unsigned => ("bytes", Some("org.apache.kafka.connect.data.Decimal")),
        "bigint" => ("int64", None),
        "decimal" => ("bytes", Some("org.apache.kafka.connect.data.Decimal")),
        "float" => ("float", None),
        "double" => ("double", None),
        "date" => ("int32", Some("io.debezium.time.Date")),
        "datetime" if digits <= 3 => ("int64", Some("io.debezium.time.Timestamp")),
        "datetime" => ("int64", Some("io.debezium.time.MicroTimestamp")),
        "timestamp" => ("string", Some("io.debezium.time.ZonedTimestamp")),
        "time" => ("int64", Some("io.debezium.time.MicroTime")),
        "json" => ("string", Some("io.debezium.data.Json")),
        "enum" => ("string", Some("io.debezium.data.Enum")),
        _ if kind.is_binary() => ("bytes", None),
        _ => ("string", None),
    };
    let mut field = json!({"type": plain, "optional": column.nullable, "field": column.name});
    if let Some(name) = semantic {
        field["name"] = json!(name);
    }
    if semantic.is_some_and(|name| name.ends_with("Decimal")) {
        let scale = kind.arguments.get(1).copied().unwrap_or(0);
        let precision = if kind.base == "bigint" { 20 } else { digits };
        field["parameters"] =
            json!({"scale": scale.to_string(), "connect.decimal.precision": precision.to_string()});
    }
    field
}

fn encoded(kind: &ColumnType, value: &Value, packed: bool) -> Result<Value> {
    let text = match value {
        Value::Null => return Ok(Value::Null),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let number = |form: Form| -> Result<Value> {
        let digits = form.of_source(&text)?.context("no such moment")?;
        Ok(json!(digits.parse::<i64>()?))
    };
    let digits = kind.arguments.first().copied().unwrap_or(0);
    Ok(match kind.base.as_str() {
        "decimal" if packed => json!(STANDARD.encode(unscaled(&text)?)),
        "bigint" if kind.unsigned && packed => json!(STANDARD.encode(unscaled(&text)?)),
        "bigint" if kind.unsigned => json!(text),
        "decimal" => json!(text),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" => {
            json!(text.parse::<i64>()?)
        }
        "float" | "double" => serde_json::from_str(&text)?,
        "date" => number(Form::Date)?,
        "time" => number(Form::Time)?,
        "datetime" => {
            let micros = number(Form::Timestamp)?;
            let micros = micros.as_i64().context("a number")?;
            json!(if digits <= 3 { micros / 1000 } else { micros })
        }
        "timestamp" => json!(format!("{}Z", text.replace(' ', "T"))),
        _ if kind.is_binary() => json!(STANDARD.encode(bytes_of(&text)?)),
        _ => json!(text),
    })
}

pub fn bytes_of(hex: &str) -> Result<Vec<u8>> {
    let pair = |at: usize| hex.get(at..at + 2).context("half a byte");
    (0..hex.len()).step_by(2).map(|at| Ok(u8::from_str_radix(pair(at)?, 16)?)).collect()
}

/// The digits of a decimal as the shortest big-endian two's complement.
fn unscaled(text: &str) -> Result<Vec<u8>> {
    let number: i128 = text.replace('.', "").parse()?;
    let bytes = number.to_be_bytes();
    let sign = if number < 0 { 0xff } else { 0 };
    let spare = bytes
        .windows(2)
        .take_while(|pair| pair[0] == sign && (pair[0] ^ pair[1]) & 0x80 == 0)
        .count();
    Ok(bytes[spare..].to_vec())
}

fn schema_change(
    of: &Of<'_>,
    table: &str,
    was: Option<&str>,
    shape: Option<&Shape>,
    word: &str,
) -> Value {
    let id = |name: &str| format!("\"{}\".\"{name}\"", of.database);
    let change = match (shape, word) {
        (_, "TRUNCATE") => None,
        (None, _) => Some(json!({"type": "DROP", "id": id(table)})),
        (Some(shape), _) => {
            let kind = if word == "CREATE" { "CREATE" } else { "ALTER" };
            let columns: Vec<_> = shape.columns.iter().enumerate().map(column).collect();
            let table_of = json!({
                "defaultCharsetName": "utf8mb4", "primaryKeyColumnNames": shape.key, "columns": columns,
            });
            let previous = was.map(id);
            Some(json!({"type": kind, "id": id(table), "previousId": previous, "table": table_of}))
        }
    };
    json!({
        "source": source(of, table), "ts_ms": of.now_ms + 3, "databaseName": of.database, "schemaName": null,
        "ddl": of.sql, "tableChanges": change.into_iter().collect::<Vec<_>>(),
    })
}

fn column((at, column): (usize, &Column)) -> Value {
    let kind = &column.kind;
    let name = match kind.unsigned {
        true => format!("{} UNSIGNED", kind.base.to_uppercase()),
        false => kind.base.to_uppercase(),
    };
    let numbers = !matches!(kind.base.as_str(), "enum" | "set");
    let argument = |i: usize| kind.arguments.get(i).filter(|_| numbers);
    json!({
        "name": column.name, "typeName": name, "typeExpression": name, "charsetName": null,
        "length": argument(0), "scale": argument(1), "position": at + 1, "optional": column.nullable,
        "autoIncremented": false, "generated": false,
    })
}
