//! A table: its columns, its keys, the rows that are visible, and how a committed load changes them.

use std::collections::BTreeMap;

use super::schema_change::SchemaChangeJob;
use super::types::DorisType;
use super::value::Value;

pub const DELETE_SIGN: &str = "__DORIS_DELETE_SIGN__";
pub const SEQUENCE_COLUMN: &str = "__DORIS_SEQUENCE_COL__";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Stays the same through a rename.
    pub id: u32,
    pub name: String,
    pub data_type: DorisType,
    pub is_key: bool,
    pub nullable: bool,
    /// The text of the default, `CURRENT_TIMESTAMP` for the time of the load.
    pub default: Option<String>,
    pub comment: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysModel {
    Duplicate,
    Unique,
}

/// Where the sequence of a row comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sequence {
    None,
    /// A hidden column of this type that each load has to name: `function_column.sequence_type`.
    Hidden(DorisType),
    /// A column of the table: `function_column.sequence_col`.
    Column(u32),
}

#[derive(Debug)]
pub struct Table {
    pub id: i64,
    pub name: String,
    pub columns: Vec<Column>,
    pub model: KeysModel,
    pub sequence: Sequence,
    pub comment: String,
    /// As written: `AUTO PARTITION BY RANGE (…) ()`.
    pub partition: Option<String>,
    /// As written: `DISTRIBUTED BY HASH(`id`) BUCKETS 1`.
    pub distribution: String,
    /// Columns that partitions or buckets are made of.
    pub distribution_columns: Vec<u32>,
    pub properties: BTreeMap<String, String>,
    pub jobs: Vec<SchemaChangeJob>,
    /// Rises with each committed load.
    pub version: u64,
    pub(super) next_column_id: u32,
    rows: Rows,
}

#[derive(Debug)]
enum Rows {
    Duplicate(Vec<Vec<Value>>),
    Unique(BTreeMap<Vec<Value>, Stored>),
}

/// A row of a Unique table; a deleted one stays, with its sequence, until compaction.
#[derive(Debug, Clone)]
struct Stored {
    values: Vec<Value>,
    sequence: Value,
    deleted: bool,
}

/// Rows of one load, invisible until it is published.
#[derive(Debug, Clone, Default)]
pub struct LoadedRows {
    /// Column ids, one for each value of a row.
    pub columns: Vec<u32>,
    /// Types that the values have been read as.
    pub types: Vec<DorisType>,
    pub rows: Vec<LoadedRow>,
    /// Columns that are not named keep the values they have.
    pub partial: bool,
}

#[derive(Debug, Clone)]
pub struct LoadedRow {
    /// Nothing where the load does not have the column.
    pub values: Vec<Option<Value>>,
    pub sequence: Option<Value>,
    pub deleted: bool,
}

impl Table {
    pub fn new(id: i64, name: String, model: KeysModel, columns: Vec<Column>) -> Self {
        let rows = match model {
            KeysModel::Duplicate => Rows::Duplicate(Vec::new()),
            KeysModel::Unique => Rows::Unique(BTreeMap::new()),
        };
        Self {
            id,
            name,
            next_column_id: columns.iter().map(|c| c.id + 1).max().unwrap_or(0),
            columns,
            model,
            sequence: Sequence::None,
            comment: String::new(),
            partition: None,
            distribution: String::new(),
            distribution_columns: Vec::new(),
            properties: BTreeMap::new(),
            jobs: Vec::new(),
            version: 1,
            rows,
        }
    }

    /// By name, whose case does not matter.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name.eq_ignore_ascii_case(name))
    }

    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }

    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    pub fn is_merge_on_write(&self) -> bool {
        self.model == KeysModel::Unique
            && self.property("enable_unique_key_merge_on_write") != Some("false")
    }

    pub fn has_light_schema_change(&self) -> bool {
        self.property("light_schema_change") != Some("false")
    }

    /// Rows that a query sees, in the order of the key.
    pub fn visible(&self) -> impl Iterator<Item = &[Value]> {
        let (duplicate, unique) = match &self.rows {
            Rows::Duplicate(rows) => (Some(rows), None),
            Rows::Unique(rows) => (None, Some(rows)),
        };
        let duplicate = duplicate.into_iter().flatten().map(Vec::as_slice);
        let unique = unique.into_iter().flat_map(BTreeMap::values);
        duplicate.chain(unique.filter(|row| !row.deleted).map(|row| row.values.as_slice()))
    }

    pub fn truncate(&mut self) {
        match &mut self.rows {
            Rows::Duplicate(rows) => rows.clear(),
            Rows::Unique(rows) => rows.clear(),
        }
        self.version += 1;
    }

    /// Forgets what was deleted, and with it the sequence at which it was.
    pub fn compact(&mut self) {
        if let Rows::Unique(rows) = &mut self.rows {
            rows.retain(|_, row| !row.deleted);
        }
    }

    pub fn has_key(&self, key: &[Value]) -> bool {
        matches!(&self.rows, Rows::Unique(rows) if rows.get(key).is_some_and(|row| !row.deleted))
    }

    /// Deletes the visible rows that `doomed` names.
    pub fn delete(&mut self, doomed: impl Fn(&[Value]) -> bool) {
        match &mut self.rows {
            Rows::Duplicate(rows) => rows.retain(|row| !doomed(row)),
            Rows::Unique(rows) => {
                rows.values_mut().filter(|r| doomed(&r.values)).for_each(|r| r.deleted = true);
            }
        }
        self.version += 1;
    }

    /// Makes a load visible, all of it at once.
    pub fn publish(&mut self, loaded: LoadedRows, defaults: &[Value]) {
        self.version += 1;
        // Where each column of the table stands in the rows of the load, and whether its type has changed since.
        let places: Vec<Option<usize>> =
            self.columns.iter().map(|c| loaded.columns.iter().position(|id| *id == c.id)).collect();
        let value = |row: &LoadedRow, at: usize, columns: &[Column]| -> Option<Value> {
            let place = places[at]?;
            let value = row.values[place].as_ref()?;
            let (was, is) = (&loaded.types[place], &columns[at].data_type);
            // A value that the new type does not have is NULL, as a heavy schema change makes it.
            Some(if was == is { value.clone() } else { value.cast(was, is).unwrap_or(Value::Null) })
        };
        let keys = self.columns.iter().filter(|c| c.is_key).count();
        let sequence_at = match self.sequence {
            Sequence::Column(id) => self.columns.iter().position(|c| c.id == id),
            _ => None,
        };
        for row in &loaded.rows {
            let given: Vec<Option<Value>> =
                (0..self.columns.len()).map(|at| value(row, at, &self.columns)).collect();
            let full = |given: Vec<Option<Value>>| -> Vec<Value> {
                given
                    .into_iter()
                    .zip(defaults)
                    .map(|(v, d)| v.unwrap_or_else(|| d.clone()))
                    .collect()
            };
            match &mut self.rows {
                Rows::Duplicate(rows) => rows.push(full(given)),
                Rows::Unique(rows) => {
                    let key: Vec<Value> =
                        given[..keys].iter().map(|v| v.clone().unwrap_or(Value::Null)).collect();
                    let existing = rows.get(&key);
                    let old = existing.filter(|old| loaded.partial && !old.deleted);
                    let values = match old {
                        Some(old) => {
                            let both = given.into_iter().zip(&old.values);
                            both.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect()
                        }
                        None => full(given),
                    };
                    let sequence = match sequence_at {
                        Some(at) => values[at].clone(),
                        None => match (&row.sequence, old) {
                            (Some(sequence), _) => sequence.clone(),
                            (None, Some(old)) => old.sequence.clone(),
                            (None, None) => Value::Null,
                        },
                    };
                    // A lower sequence never overwrites; an equal one does.
                    if existing.is_some_and(|old| old.sequence > sequence) {
                        continue;
                    }
                    rows.insert(key, Stored { values, sequence, deleted: row.deleted });
                }
            }
        }
    }

    /// Rewrites every stored row; `change` gets and returns its values, in the order of the columns. Keys stay.
    pub(super) fn rewrite(&mut self, mut change: impl FnMut(&mut Vec<Value>)) {
        match &mut self.rows {
            Rows::Duplicate(rows) => rows.iter_mut().for_each(change),
            Rows::Unique(rows) => rows.values_mut().for_each(|row| change(&mut row.values)),
        }
    }

    /// Makes the keys anew from the rows, after the type of a key column has changed.
    pub(super) fn rekey(&mut self) {
        let keys = self.columns.iter().filter(|c| c.is_key).count();
        if let Rows::Unique(rows) = &mut self.rows {
            let all = std::mem::take(rows).into_values();
            *rows = all.map(|row| (row.values[..keys].to_vec(), row)).collect();
        }
    }
}
