//! The statements that the sink sends, as text. Everything here is also checked by a parser that is not ours.

use lakeward_core::{Column, DataType, Error, Literal, Result, TableId, TableSchema};

use crate::client::{literal, quoted};
use crate::config::DorisConfig;
use crate::sequence::SEQUENCE_TYPE;
use crate::table::{TableColumn, name_of};
use crate::types::{DorisType, default_text};

/// `"a" = "b", …`.
pub(crate) fn properties(list: &[(String, String)]) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let one =
        |(key, value): &(String, String)| format!("\"{}\" = \"{}\"", escaped(key), escaped(value));
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Keys first, in their order, then the other columns.
///
/// # Errors
/// `SchemaIncompatible` for what Doris has no equal of, `Config` for wrong options of auto partition.
pub(crate) fn create_table(
    table: &TableId,
    schema: &TableSchema,
    config: &DorisConfig,
) -> Result<String> {
    let key = schema.key_indices();
    let partition = Partition::of(table, schema, config)?;
    let mut columns = Vec::new();
    for index in &key {
        columns.push(column_definition(&schema.columns[*index], true, partition.as_ref())?);
    }
    for (index, column) in schema.columns.iter().enumerate() {
        if !key.contains(&index) {
            columns.push(column_definition(column, false, partition.as_ref())?);
        }
    }
    let mut sql = format!("CREATE TABLE IF NOT EXISTS {} ({})", name_of(table), columns.join(", "));
    let names: Vec<String> = schema.primary_key.iter().map(|k| quoted(k)).collect();
    let names = names.join(", ");
    if !key.is_empty() {
        sql.push_str(&format!(" UNIQUE KEY({names})"));
    }
    if let Some(comment) = &schema.comment {
        sql.push_str(&format!(" COMMENT {}", literal(comment)));
    }
    if let Some(Partition { column, unit }) = &partition {
        let column = quoted(column);
        sql.push_str(&format!(" AUTO PARTITION BY RANGE (date_trunc({column}, '{unit}')) ()"));
    }
    let buckets = config.create_properties.get("buckets").map_or("AUTO", String::as_str);
    if !buckets.eq_ignore_ascii_case("auto") && buckets.parse::<u32>().is_err() {
        return Err(Error::config("table.create.properties.buckets must be a number or AUTO"));
    }
    match key.is_empty() {
        false => sql.push_str(&format!(" DISTRIBUTED BY HASH({names}) BUCKETS {buckets}")),
        true => sql.push_str(&format!(" DISTRIBUTED BY RANDOM BUCKETS {buckets}")),
    }
    let properties = properties(&table_properties(config, !key.is_empty()));
    sql.push_str(&format!(" PROPERTIES ({properties})"));
    Ok(sql)
}

/// The user's win, where the sink does not depend on its own.
fn table_properties(config: &DorisConfig, keyed: bool) -> Vec<(String, String)> {
    let mut all = vec![("light_schema_change", "true")];
    match keyed {
        true => {
            all.push(("enable_unique_key_merge_on_write", "true"));
            if config.sequence_column {
                all.push(("function_column.sequence_type", SEQUENCE_TYPE));
            }
        }
        false => all.push(("enable_duplicate_without_keys_by_default", "true")),
    }
    let mut all: Vec<(String, String)> =
        all.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let given = config.create_properties.iter().filter(|(key, _)| *key != "buckets");
    for (key, value) in given {
        let keyed_only = key.starts_with("function_column.") || key.contains("unique_key");
        if keyed_only && !keyed {
            continue;
        }
        match all.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => known.clone_from(value),
            None => all.push((key.clone(), value.clone())),
        }
    }
    all
}

fn column_definition(
    column: &Column,
    is_key: bool,
    partition: Option<&Partition>,
) -> Result<String> {
    let data_type = DorisType::of(column, is_key)?;
    let mut text = format!("{} {data_type}", quoted(&column.name));
    // A source may have no value even where it says so: dates that no calendar has become null.
    let dated = matches!(
        column.data_type,
        DataType::Date | DataType::Timestamp { .. } | DataType::TimestampLtz { .. }
    );
    let partitions = partition.is_some_and(|p| p.column == *column.name);
    let not_null = is_key && (!column.nullable && !dated || partitions);
    text.push_str(if not_null { " NOT NULL" } else { " NULL" });
    if let Some(comment) = column.comment.as_ref().filter(|c| !c.is_empty()) {
        text.push_str(&format!(" COMMENT {}", literal(comment)));
    }
    Ok(text)
}

/// By which column a new table is partitioned.
struct Partition {
    column: String,
    unit: String,
}

impl Partition {
    fn of(table: &TableId, schema: &TableSchema, config: &DorisConfig) -> Result<Option<Self>> {
        let options = &config.auto_partition;
        let own = |what: &str| options.get(&format!("{table}.{what}"));
        let listed = |list: &str| {
            options.get(list).map(|l| l.split(',').any(|t| t.trim() == table.to_string()))
        };
        if listed("exclude") == Some(true) || listed("include") == Some(false) {
            return Ok(None);
        }
        let named = own("partition-key");
        let Some(name) = named.or_else(|| options.get("default-partition-key")) else {
            return Ok(None);
        };
        let wrong = |what: &str| {
            Error::config(format!("the table cannot be partitioned: {what}"))
                .with("table", table)
                .with("column", name)
        };
        let Some(index) = schema.index_of(name) else {
            // A default is for the tables that have the column.
            return match named {
                Some(_) => Err(wrong("it has no such column")),
                None => Ok(None),
            };
        };
        let column = &schema.columns[index];
        if !schema.primary_key.is_empty() && !schema.primary_key.contains(&column.name) {
            return match named {
                Some(_) => Err(wrong(
                    "doris wants the partition column in the key, and it is not in the table's primary key",
                )),
                None => Ok(None),
            };
        }
        if !matches!(
            column.data_type,
            DataType::Date | DataType::Timestamp { .. } | DataType::TimestampLtz { .. }
        ) {
            return Err(wrong("the column is neither a date nor a time"));
        }
        let unit = own("partition-unit").or_else(|| options.get("default-partition-unit"));
        let unit = unit.map_or("day", String::as_str).to_ascii_lowercase();
        if !["year", "month", "day", "hour"].contains(&unit.as_str()) {
            return Err(wrong("the unit must be year, month, day or hour"));
        }
        Ok(Some(Self { column: column.name.to_string(), unit }))
    }
}

pub(crate) fn create_database(table: &TableId) -> String {
    format!("CREATE DATABASE IF NOT EXISTS {}", quoted(&table.namespace))
}

pub(crate) fn drop_table(table: &TableId) -> String {
    format!("DROP TABLE IF EXISTS {}", name_of(table))
}

pub(crate) fn truncate_table(table: &TableId) -> String {
    format!("TRUNCATE TABLE {}", name_of(table))
}

pub(crate) fn rename_table(table: &TableId, to: &str) -> String {
    format!("ALTER TABLE {} RENAME {}", name_of(table), quoted(to))
}

/// A new value column. What rows that exist hold in it is its default, which costs nothing.
///
/// # Errors
/// `SchemaIncompatible` where Doris takes no default of that type.
pub(crate) fn add_column(
    table: &TableId,
    column: &Column,
    existing_rows: &Literal,
    after: Option<&str>,
    zone_offset_seconds: i32,
) -> Result<String> {
    let data_type = DorisType::of(column, false)?;
    let mut sql = format!(
        "ALTER TABLE {} ADD COLUMN {} {data_type} NULL",
        name_of(table),
        quoted(&column.name)
    );
    if *existing_rows != Literal::Null {
        let text = default_text(&column.data_type, existing_rows, zone_offset_seconds)
            .ok_or_else(|| {
                Error::schema_incompatible(
                    "doris takes no default for a column of this type, so that rows that exist cannot be given its value; \
                     read the table anew with --resnapshot",
                )
                .with("column", &column.name)
            })?;
        sql.push_str(&format!(" DEFAULT {}", literal(&text)));
    }
    if let Some(comment) = column.comment.as_ref().filter(|c| !c.is_empty()) {
        sql.push_str(&format!(" COMMENT {}", literal(comment)));
    }
    if let Some(after) = after {
        sql.push_str(&format!(" AFTER {}", quoted(after)));
    }
    Ok(sql)
}

pub(crate) fn drop_column(table: &TableId, name: &str) -> String {
    format!("ALTER TABLE {} DROP COLUMN {}", name_of(table), quoted(name))
}

pub(crate) fn rename_column(table: &TableId, from: &str, to: &str) -> String {
    format!("ALTER TABLE {} RENAME COLUMN {} {}", name_of(table), quoted(from), quoted(to))
}

/// Changes a column's type. Everything else that Doris wants repeated is as it is.
pub(crate) fn modify_column(
    table: &TableId,
    column: &TableColumn,
    to: DorisType,
    comment: Option<&str>,
) -> String {
    let mut sql =
        format!("ALTER TABLE {} MODIFY COLUMN {} {to}", name_of(table), quoted(&column.name));
    if column.is_key {
        sql.push_str(" KEY");
    }
    sql.push_str(if column.nullable { " NULL" } else { " NOT NULL" });
    if let Some(default) = &column.default {
        sql.push_str(&format!(" DEFAULT {}", literal(default)));
    }
    if let Some(comment) = comment.filter(|c| !c.is_empty()) {
        sql.push_str(&format!(" COMMENT {}", literal(comment)));
    }
    sql
}

pub(crate) fn comment_column(table: &TableId, name: &str, comment: &str) -> String {
    let (table, name) = (name_of(table), quoted(name));
    format!("ALTER TABLE {table} MODIFY COLUMN {name} COMMENT {}", literal(comment))
}

pub(crate) fn comment_table(table: &TableId, comment: &str) -> String {
    format!("ALTER TABLE {} MODIFY COMMENT {}", name_of(table), literal(comment))
}

#[cfg(test)]
#[path = "ddl/tests.rs"]
mod tests;
