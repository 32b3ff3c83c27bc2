//! Compares a table of the source with its table in the lake: columns, types, and every value of every row.

use std::collections::HashMap;

use anyhow::{Context, Result};

use crate::form::Form;
use crate::lake::{Lake, LakeTable, Reader};
use crate::sql::{Session, TextRow, quote};

/// A column of the source: how to select it and where it must land.
#[derive(Debug, Clone)]
pub struct SourceColumn {
    pub name: String,
    pub form: Form,
    /// Prints the value as the form reads it.
    pub select: String,
    /// Iceberg types that hold it: the one that is expected first, then wider ones that earlier columns may have left.
    pub kinds: Vec<String>,
}

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Comparison {
    pub rows: u64,
    /// Empty when source and lake are equal.
    pub differences: Vec<String>,
}

const SHOWN: usize = 5;

/// Tables of a database, without views.
pub fn source_tables(session: &mut Session, database: &str) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA='{database}' \
         AND TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED') ORDER BY 1"
    );
    Ok(session.rows(&sql)?.into_iter().filter_map(|row| row.into_iter().next()?).collect())
}

/// Columns of a table, in its order.
pub fn source_columns(
    session: &mut Session,
    database: &str,
    table: &str,
) -> Result<Vec<SourceColumn>> {
    let sql = format!(
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE \
         FROM information_schema.COLUMNS WHERE TABLE_SCHEMA='{}' AND TABLE_NAME='{}' \
         ORDER BY ORDINAL_POSITION",
        database.replace('\'', "''"),
        table.replace('\'', "''")
    );
    session.rows(&sql)?.iter().map(|row| column(row).context("an odd column")).collect()
}

fn column(row: &TextRow) -> Option<SourceColumn> {
    let name = row.first()?.clone()?;
    let kind = row.get(1)?.clone()?.to_lowercase();
    let declared = row.get(2)?.clone()?.to_lowercase();
    let number = |i: usize| row.get(i).cloned().flatten().and_then(|n| n.parse::<u32>().ok());
    let q = quote(&name);
    let unsigned = declared.contains("unsigned");
    let as_char = format!("CAST({q} AS CHAR)");
    let hex = format!("HEX({q})");
    let (form, select, kinds): (Form, String, Vec<String>) = match kind.as_str() {
        "tinyint" | "smallint" | "mediumint" => (Form::Integer, q, words(&["int", "long"])),
        "int" if unsigned => (Form::Integer, q, words(&["long"])),
        "int" => (Form::Integer, q, words(&["int", "long"])),
        "bigint" if unsigned => (Form::Integer, q, words(&["decimal(20,0)"])),
        "bigint" => (Form::Integer, q, words(&["long"])),
        "year" => (Form::Integer, format!("CAST({q} AS UNSIGNED)"), words(&["int"])),
        "bit" if number(3)? >= 64 => (Form::Integer, format!("{q}+0"), words(&["decimal(20,0)"])),
        "bit" => (Form::Integer, format!("{q}+0"), words(&["long"])),
        "decimal" => (Form::Decimal, as_char, decimals(number(3)?, number(4)?)),
        "float" => (Form::Float, format!("CAST({q} AS DOUBLE)"), words(&["float"])),
        "double" => (Form::Double, q, words(&["double"])),
        "date" => (Form::Date, as_char, words(&["date"])),
        "datetime" => (Form::Timestamp, as_char, words(&["timestamp"])),
        "timestamp" => (Form::Timestamp, as_char, words(&["timestamptz"])),
        "time" => (Form::Time, as_char, words(&["long"])),
        "json" => (Form::Json, as_char, words(&["string"])),
        "binary" | "varbinary" | "vector" => (Form::Text, hex, words(&["binary"])),
        blob if blob.ends_with("blob") => (Form::Text, hex, words(&["binary"])),
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geometrycollection" | "geomcollection" => {
            (Form::Text, format!("HEX(ST_AsWKB({q}))"), words(&["binary"]))
        }
        _ => (Form::Text, as_char, words(&["string"])),
    };
    Some(SourceColumn { name, form, select, kinds })
}

fn words(kinds: &[&str]) -> Vec<String> {
    kinds.iter().map(|k| (*k).to_owned()).collect()
}

/// The declared decimal and, where a column was narrowed, any wider one of the same scale.
fn decimals(precision: u32, scale: u32) -> Vec<String> {
    match precision {
        0..=38 => (precision..=38).map(|p| format!("decimal({p},{scale})")).collect(),
        _ => words(&["string"]),
    }
}

/// Compares a whole table.
pub fn table(
    session: &mut Session,
    database: &str,
    name: &str,
    lake: &Lake,
    lake_table: &LakeTable,
    reader: Reader,
) -> Result<Comparison> {
    let columns = source_columns(session, database, name)?;
    let selected: Vec<&str> = columns.iter().map(|c| c.select.as_str()).collect();
    let sql = format!("SELECT {} FROM {}.{}", selected.join(", "), quote(database), quote(name));
    query(session, &sql, &columns, lake, lake_table, reader)
}

/// Compares the rows of a query with a table of the lake that has exactly these columns.
pub fn query(
    session: &mut Session,
    sql: &str,
    columns: &[SourceColumn],
    lake: &Lake,
    lake_table: &LakeTable,
    reader: Reader,
) -> Result<Comparison> {
    let mut found = Comparison::default();
    let Some(places) = places(columns, lake_table, &mut found.differences) else {
        return Ok(found);
    };
    // How often each row is in the source, minus how often it is in the lake.
    let mut balance: HashMap<String, i64> = HashMap::new();
    session.run("SET time_zone='+00:00', sql_mode=''")?;
    let mut forms: Vec<Option<String>> = Vec::new();
    session.each_row(sql, |row| {
        forms.clear();
        for (column, value) in columns.iter().zip(&row) {
            let form = match value {
                Some(text) => column.form.of_source(text),
                None => Ok(None),
            };
            forms.push(form.with_context(|| format!("column {} of the source", column.name))?);
        }
        found.rows += 1;
        *balance.entry(joined(&forms)).or_default() += 1;
        Ok(())
    })?;
    lake.each_row(lake_table, reader, |row| {
        forms.clear();
        for (column, &place) in columns.iter().zip(&places) {
            let form = match &row[place] {
                Some(text) => {
                    Some(column.form.of_lake(&lake_table.columns[place].kind, text)).transpose()
                }
                None => Ok(None),
            };
            forms.push(form.with_context(|| format!("column {} of the lake", column.name))?);
        }
        *balance.entry(joined(&forms)).or_default() -= 1;
        Ok(())
    })?;
    found.differences.extend(unbalanced(balance, columns, reader));
    Ok(found)
}

/// Where each source column stands in the lake; nothing when one is missing.
fn places(
    columns: &[SourceColumn],
    lake: &LakeTable,
    differences: &mut Vec<String>,
) -> Option<Vec<usize>> {
    let mut places = Vec::with_capacity(columns.len());
    for column in columns {
        match lake.columns.iter().position(|c| c.name == column.name) {
            None => differences.push(format!("column {} is not in the lake", column.name)),
            Some(place) => {
                let kind = &lake.columns[place].kind;
                if !column.kinds.contains(kind) {
                    let (name, wanted) = (&column.name, &column.kinds[0]);
                    differences.push(format!("column {name} is {kind} in the lake, not {wanted}"));
                }
                places.push(place);
            }
        }
    }
    for extra in &lake.columns {
        if !columns.iter().any(|c| c.name == extra.name) {
            differences.push(format!("column {} is in the lake only", extra.name));
        }
    }
    (places.len() == columns.len()).then_some(places)
}

const NULL: &str = "\u{0}NULL";
const SEPARATOR: char = '\u{1f}';

fn joined(forms: &[Option<String>]) -> String {
    let mut row = String::with_capacity(forms.iter().flatten().map(|f| f.len() + 1).sum());
    for form in forms {
        row.push_str(form.as_deref().unwrap_or(NULL));
        row.push(SEPARATOR);
    }
    row
}

fn unbalanced(
    balance: HashMap<String, i64>,
    columns: &[SourceColumn],
    reader: Reader,
) -> Vec<String> {
    let mut missing: Vec<(String, i64)> = Vec::new();
    let mut surplus: Vec<(String, i64)> = Vec::new();
    for (row, count) in balance {
        match count {
            0 => {}
            1.. => missing.push((row, count)),
            _ => surplus.push((row, -count)),
        }
    }
    if missing.is_empty() && surplus.is_empty() {
        return Vec::new();
    }
    missing.sort();
    surplus.sort();
    let total = |rows: &[(String, i64)]| rows.iter().map(|(_, n)| n).sum::<i64>();
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let mut text = format!(
        "{} rows are missing and {} are too many in the lake, as {} sees it ({})",
        total(&missing),
        total(&surplus),
        reader.name(),
        names.join(", ")
    );
    for (what, rows) in [("missing", &missing), ("too many", &surplus)] {
        for (row, count) in rows.iter().take(SHOWN) {
            text += &format!("\n    {what}: ({}) x{count}", show(row));
        }
    }
    vec![text]
}

fn show(row: &str) -> String {
    let values = row.trim_end_matches(SEPARATOR).split(SEPARATOR).map(|value| match value {
        NULL => "NULL".to_owned(),
        long if long.chars().count() > 60 => {
            format!("{}..[{}]", long.chars().take(60).collect::<String>(), long.chars().count())
        }
        value => value.to_owned(),
    });
    values.collect::<Vec<_>>().join(", ")
}
