//! The tables of a scenario as they are after each step, so that a source can tell what a row was before.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use lakeward_testkit::form::Form;
use lakeward_testkit::sql::quote;
use serde_json::{Map, Value};

use crate::scenario::{Step, numbered};

pub type Row = Vec<Value>;

/// A type as MySQL spells it.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnType {
    /// `decimal` of `decimal(10,2) unsigned`.
    pub base: String,
    pub arguments: Vec<u32>,
    pub unsigned: bool,
    /// The whole text.
    pub spelled: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub kind: ColumnType,
    pub nullable: bool,
    /// What rows that are there already get.
    pub default: Value,
    /// The type and what stands behind it, for SQL.
    definition: String,
}

/// Columns and key at a moment.
#[derive(Debug, Clone)]
pub struct Shape {
    pub table: String,
    pub columns: Vec<Column>,
    pub key: Vec<String>,
}

#[derive(Debug, Clone)]
pub enum Event {
    Row {
        shape: Arc<Shape>,
        before: Option<Row>,
        after: Option<Row>,
    },
    /// `shape` is missing where the table is gone. `was` is another name that it had.
    Ddl {
        table: String,
        was: Option<String>,
        shape: Option<Arc<Shape>>,
        word: &'static str,
    },
}

/// An event and the statement that makes it happen.
#[derive(Debug, Clone)]
pub struct Done {
    pub event: Event,
    pub sql: String,
}

#[derive(Debug, Default)]
pub struct Tables(BTreeMap<String, Table>);

#[derive(Debug)]
struct Table {
    shape: Arc<Shape>,
    rows: Vec<Row>,
}

impl ColumnType {
    fn parse(text: &str) -> Result<Self> {
        let lower = text.to_lowercase();
        let base: String = lower.chars().take_while(char::is_ascii_alphanumeric).collect();
        let arguments = match lower.split_once('(').and_then(|(_, rest)| rest.split_once(')')) {
            Some((inner, _)) => inner.split(',').map_while(|n| n.trim().parse().ok()).collect(),
            None => Vec::new(),
        };
        if base.is_empty() {
            bail!("`{text}` is no type");
        }
        let unsigned = lower.contains("unsigned");
        Ok(Self { base, arguments, unsigned, spelled: text.to_owned() })
    }

    /// How its values are compared.
    pub fn form(&self) -> Form {
        match self.base.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" => Form::Integer,
            "decimal" => Form::Decimal,
            "float" => Form::Float,
            "double" => Form::Double,
            "date" => Form::Date,
            "datetime" | "timestamp" => Form::Timestamp,
            "time" => Form::Time,
            "json" => Form::Json,
            _ => Form::Text,
        }
    }

    pub fn is_binary(&self) -> bool {
        self.base.ends_with("binary") || self.base.ends_with("blob")
    }

    fn literal(&self, value: &Value) -> String {
        match value {
            Value::Null => "NULL".into(),
            Value::String(text) if self.is_binary() => format!("X'{text}'"),
            Value::String(text) => {
                format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
            }
            other => other.to_string(),
        }
    }
}

impl Column {
    fn parse(text: &str) -> Result<Self> {
        let (name, definition) = text.split_once(' ').context("a column is `name type`")?;
        let (rest, default) = match definition.split_once(" default ") {
            Some((rest, default)) => {
                let text = default.trim_matches('\'');
                (rest, Value::String(text.to_owned()))
            }
            None => (definition, Value::Null),
        };
        let (kind, nullable) = match rest.strip_suffix(" not null") {
            Some(kind) => (kind, false),
            None => (rest, true),
        };
        let kind = ColumnType::parse(kind)?;
        Ok(Self { name: name.into(), kind, nullable, default, definition: definition.into() })
    }

    fn sql(&self) -> String {
        format!("{} {}", quote(&self.name), self.definition)
    }
}

impl Shape {
    pub fn place(&self, column: &str) -> Result<usize> {
        let found = self.columns.iter().position(|c| c.name == column);
        found.with_context(|| format!("{} has no column {column}", self.table))
    }

    /// The key's values, nothing without a key.
    pub fn key_of(&self, row: &Row) -> Result<Vec<Value>> {
        self.key.iter().map(|name| Ok(row[self.place(name)?].clone())).collect()
    }

    fn assignments(&self, set: &Map<String, Value>, between: &str) -> Result<String> {
        let one = |(name, value): (&String, &Value)| {
            let kind = &self.columns[self.place(name)?].kind;
            Ok(format!("{} = {}", quote(name), kind.literal(value)))
        };
        Ok(set.iter().map(one).collect::<Result<Vec<_>>>()?.join(between))
    }

    fn insert_sql(&self, rows: &[Row]) -> String {
        let names: Vec<_> = self.columns.iter().map(|c| quote(&c.name)).collect();
        let row = |row: &Row| {
            let values = row.iter().zip(&self.columns).map(|(value, c)| c.kind.literal(value));
            format!("({})", values.collect::<Vec<_>>().join(", "))
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let (table, names) = (quote(&self.table), names.join(", "));
        format!("INSERT INTO {table} ({names}) VALUES {}", rows.join(", "))
    }

    /// True for the row with this key, or with these values where there is no key.
    fn is_at(&self, row: &Row, at: &[Value]) -> Result<bool> {
        Ok(if self.key.is_empty() { row == at } else { self.key_of(row)? == at })
    }

    fn condition(&self, row: &Row) -> Result<String> {
        let names: Vec<&String> = match self.key.is_empty() {
            true => self.columns.iter().map(|c| &c.name).collect(),
            false => self.key.iter().collect(),
        };
        let one = |name: &String| {
            let at = self.place(name)?;
            Ok(format!("{} <=> {}", quote(name), self.columns[at].kind.literal(&row[at])))
        };
        Ok(names.into_iter().map(one).collect::<Result<Vec<_>>>()?.join(" AND "))
    }
}

impl Tables {
    pub fn shape(&self, table: &str) -> Result<&Arc<Shape>> {
        Ok(&self.0.get(table).with_context(|| format!("there is no table {table}"))?.shape)
    }

    /// Carries a step out, and says what happened. One statement may make several events: it stands with the first.
    pub fn apply(&mut self, step: &Step) -> Result<Vec<Done>> {
        match step {
            Step::Create { table, columns, key } => {
                let columns =
                    columns.iter().map(|c| Column::parse(c)).collect::<Result<Vec<_>>>()?;
                let mut parts: Vec<_> = columns.iter().map(Column::sql).collect();
                if !key.is_empty() {
                    let names: Vec<_> = key.iter().map(|name| quote(name)).collect();
                    parts.push(format!("PRIMARY KEY ({})", names.join(", ")));
                }
                let sql = format!("CREATE TABLE {} ({})", quote(table), parts.join(", "));
                let shape = Shape { table: table.clone(), columns, key: key.clone() };
                self.0.insert(table.clone(), Table { shape: Arc::new(shape), rows: Vec::new() });
                self.ddl(table, "CREATE", sql)
            }
            Step::Insert { table, rows, series } => {
                let mut all = rows.clone();
                all.extend(series.iter().flat_map(|s| s.rows()));
                let table = self.table(table)?;
                let sql = table.shape.insert_sql(&all);
                table.rows.extend(all.iter().cloned());
                let event = |row| (None, Some(row));
                Ok(table.done(all.into_iter().map(event).collect(), vec![sql]))
            }
            Step::Update { table, at, set } => {
                let table = self.table(table)?;
                let place = table.find(at)?;
                table.update(&[place], |_| set.clone())
            }
            Step::UpdateSeries { table, from, to, set } => {
                let table = self.table(table)?;
                let places = table.series(*from, *to);
                table.update(&places, |n| {
                    set.iter().map(|(k, v)| (k.clone(), numbered(v, n))).collect()
                })
            }
            Step::Delete { table, at } => {
                let table = self.table(table)?;
                let place = table.find(at)?;
                table.delete(&[place])
            }
            Step::DeleteSeries { table, from, to } => {
                let table = self.table(table)?;
                let places = table.series(*from, *to);
                table.delete(&places)
            }
            Step::AddColumn { table, column } => {
                let column = Column::parse(column)?;
                let clause = format!("ADD COLUMN {}", column.sql());
                let default = column.default.clone();
                self.alter(table, &clause, |shape, rows| {
                    shape.columns.push(column);
                    rows.iter_mut().for_each(|row| row.push(default.clone()));
                    Ok(())
                })
            }
            Step::DropColumn { table, column } => {
                let clause = format!("DROP COLUMN {}", quote(column));
                self.alter(table, &clause, |shape, rows| {
                    let place = shape.place(column)?;
                    shape.columns.remove(place);
                    rows.iter_mut().for_each(|row| drop(row.remove(place)));
                    Ok(())
                })
            }
            Step::RenameColumn { table, from, to } => {
                let clause = format!("RENAME COLUMN {} TO {}", quote(from), quote(to));
                self.alter(table, &clause, |shape, _| {
                    let place = shape.place(from)?;
                    shape.columns[place].name.clone_from(to);
                    for key in shape.key.iter_mut().filter(|key| *key == from) {
                        key.clone_from(to);
                    }
                    Ok(())
                })
            }
            Step::Widen { table, column } => {
                let column = Column::parse(column)?;
                let clause = format!("MODIFY COLUMN {}", column.sql());
                self.alter(table, &clause, |shape, _| {
                    let place = shape.place(&column.name)?;
                    shape.columns[place] = column;
                    Ok(())
                })
            }
            Step::Truncate { table } => {
                self.table(table)?.rows.clear();
                self.ddl(table, "TRUNCATE", format!("TRUNCATE TABLE {}", quote(table)))
            }
            Step::DropTable { table } => {
                self.0.remove(table).with_context(|| format!("there is no table {table}"))?;
                let sql = format!("DROP TABLE {}", quote(table));
                let event =
                    Event::Ddl { table: table.clone(), was: None, shape: None, word: "DROP" };
                Ok(vec![Done { event, sql }])
            }
            Step::RenameTable { table, to } => {
                let mut found = self.0.remove(table).context("there is no such table")?;
                Arc::make_mut(&mut found.shape).table.clone_from(to);
                self.0.insert(to.clone(), found);
                let sql = format!("RENAME TABLE {} TO {}", quote(table), quote(to));
                let shape = Some(self.shape(to)?.clone());
                let was = Some(table.clone());
                let event = Event::Ddl { table: to.clone(), was, shape, word: "RENAME" };
                Ok(vec![Done { event, sql }])
            }
            Step::Transaction(steps) => {
                let all = steps.iter().map(|step| self.apply(step)).collect::<Result<Vec<_>>>()?;
                Ok(all.into_iter().flatten().collect())
            }
        }
    }

    fn table(&mut self, name: &str) -> Result<&mut Table> {
        self.0.get_mut(name).with_context(|| format!("there is no table {name}"))
    }

    fn alter(
        &mut self,
        name: &str,
        clause: &str,
        change: impl FnOnce(&mut Shape, &mut Vec<Row>) -> Result<()>,
    ) -> Result<Vec<Done>> {
        let table = self.table(name)?;
        change(Arc::make_mut(&mut table.shape), &mut table.rows)?;
        self.ddl(name, "ALTER", format!("ALTER TABLE {} {clause}", quote(name)))
    }

    fn ddl(&self, table: &str, word: &'static str, sql: String) -> Result<Vec<Done>> {
        let shape = Some(self.shape(table)?.clone());
        let event = Event::Ddl { table: table.to_owned(), was: None, shape, word };
        Ok(vec![Done { event, sql }])
    }
}

impl Table {
    fn find(&self, at: &[Value]) -> Result<usize> {
        for (place, row) in self.rows.iter().enumerate() {
            if self.shape.is_at(row, at)? {
                return Ok(place);
            }
        }
        bail!("{} has no row {at:?}", self.shape.table)
    }

    fn series(&self, from: i64, to: i64) -> Vec<usize> {
        let number = |row: &Row| number_of(row).is_some_and(|n| (from..=to).contains(&n));
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| number(row)).map(|(place, _)| place).collect()
    }

    fn update(
        &mut self,
        places: &[usize],
        set: impl Fn(i64) -> Map<String, Value>,
    ) -> Result<Vec<Done>> {
        let (mut changes, mut statements) = (Vec::new(), Vec::new());
        for &place in places {
            let before = self.rows[place].clone();
            let set = set(number_of(&before).unwrap_or(0));
            let mut after = before.clone();
            for (name, value) in &set {
                after[self.shape.place(name)?] = value.clone();
            }
            let (values, at) =
                (self.shape.assignments(&set, ", ")?, self.shape.condition(&before)?);
            let table = quote(&self.shape.table);
            statements.push(format!("UPDATE {table} SET {values} WHERE {at} LIMIT 1"));
            self.rows[place].clone_from(&after);
            changes.push((Some(before), Some(after)));
        }
        Ok(self.done(changes, statements))
    }

    fn delete(&mut self, places: &[usize]) -> Result<Vec<Done>> {
        let (mut changes, mut statements) = (Vec::new(), Vec::new());
        for &place in places.iter().rev() {
            let row = self.rows.remove(place);
            let (table, at) = (quote(&self.shape.table), self.shape.condition(&row)?);
            statements.push(format!("DELETE FROM {table} WHERE {at} LIMIT 1"));
            changes.push((Some(row), None));
        }
        Ok(self.done(changes, statements))
    }

    fn done(&self, changes: Vec<(Option<Row>, Option<Row>)>, statements: Vec<String>) -> Vec<Done> {
        let mut statements = statements.into_iter();
        let event = |(before, after)| {
            let event = Event::Row { shape: self.shape.clone(), before, after };
            Done { event, sql: statements.next().unwrap_or_default() }
        };
        changes.into_iter().map(event).collect()
    }
}

fn number_of(row: &Row) -> Option<i64> {
    match row.first()? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}
