//! ALTER TABLE on columns: light changes at once, heavy ones as jobs that wait for earlier loads.

use std::time::Instant;

use super::table::{Column, KeysModel, Sequence, Table};
use super::types::DorisType;
use super::value::Value;

/// Where a column goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Behind the keys for a key, at the end for a value; where it is for one that is modified.
    Default,
    First,
    After(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnChange {
    Add(Column, Place),
    Drop(String),
    Modify(Column, Place),
    Rename(String, String),
    Comment(String, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    WaitingTransactions,
    Running,
    Finished,
    Cancelled,
}

impl JobState {
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitingTransactions => "WAITING_TXN",
            Self::Running => "RUNNING",
            Self::Finished => "FINISHED",
            Self::Cancelled => "CANCELLED",
        }
    }

    pub fn is_open(self) -> bool {
        matches!(self, Self::WaitingTransactions | Self::Running)
    }
}

/// A heavy change. It begins once every transaction that is older than it has been decided.
#[derive(Debug)]
pub struct SchemaChangeJob {
    pub id: i64,
    pub watershed: i64,
    pub state: JobState,
    pub message: String,
    pub created: String,
    pub finished: Option<String>,
    pub(super) running_since: Option<Instant>,
    pub(super) target: Vec<Column>,
}

/// What an ALTER statement comes to.
pub enum Outcome {
    /// Done.
    Done,
    /// The columns that a job will lead to.
    Job(Vec<Column>),
}

impl Table {
    pub fn open_job(&self) -> Option<&SchemaChangeJob> {
        self.jobs.iter().find(|job| job.state.is_open())
    }

    /// Checks all changes, then applies them, or says that it takes a job. Nothing is changed on an error.
    pub fn alter(&mut self, changes: &[ColumnChange]) -> Result<Outcome, String> {
        if self.open_job().is_some() {
            return Err(format!(
                "Table[{}]'s state(SCHEMA_CHANGE) is not NORMAL. Do not allow doing ALTER ops",
                self.name
            ));
        }
        let mut target = self.columns.clone();
        let mut next_id = self.next_column_id;
        let mut heavy = !self.has_light_schema_change()
            && changes.iter().any(|c| matches!(c, ColumnChange::Add(..) | ColumnChange::Drop(_)));
        for change in changes {
            heavy |= apply(self, &mut target, &mut next_id, change)?;
        }
        check_order(&target)?;
        self.next_column_id = next_id;
        if heavy {
            return Ok(Outcome::Job(target));
        }
        self.install(target)?;
        Ok(Outcome::Done)
    }

    /// Rewrites the rows for other columns. Fails, changing nothing, where a value does not fit its new type.
    pub(super) fn install(&mut self, target: Vec<Column>) -> Result<(), String> {
        let moves: Vec<(Option<usize>, Value)> = target
            .iter()
            .map(|new| {
                let old = self.columns.iter().position(|old| old.id == new.id);
                Ok((old, default_value(new)?))
            })
            .collect::<Result<_, String>>()?;
        let unchanged = moves.len() == self.columns.len()
            && moves.iter().enumerate().all(|(at, (old, _))| *old == Some(at))
            && target.iter().zip(&self.columns).all(|(new, old)| new.data_type == old.data_type);
        if !unchanged {
            let old_columns = self.columns.clone();
            let convert = |values: &[Value]| -> Result<Vec<Value>, String> {
                let mut out = Vec::with_capacity(moves.len());
                for ((from, default), new) in moves.iter().zip(&target) {
                    out.push(match from {
                        None => default.clone(),
                        Some(at) if old_columns[*at].data_type == new.data_type => {
                            values[*at].clone()
                        }
                        Some(at) => values[*at]
                            .cast(&old_columns[*at].data_type, &new.data_type)
                            .map_err(|_| "Null data is changed!".to_owned())?,
                    });
                }
                Ok(out)
            };
            let mut failure = None;
            self.rewrite(|values| {
                if let Err(why) = convert(values) {
                    failure.get_or_insert(why);
                }
            });
            if let Some(why) = failure {
                return Err(why);
            }
            self.rewrite(|values| {
                if let Ok(new) = convert(values) {
                    *values = new;
                }
            });
        }
        self.columns = target;
        self.rekey();
        Ok(())
    }
}

/// The value of rows that were there before the column, and of loads that do not have it.
pub fn default_value(column: &Column) -> Result<Value, String> {
    match column.default.as_deref() {
        None => Ok(Value::Null),
        Some("CURRENT_TIMESTAMP") => {
            let now = chrono::Utc::now().naive_utc().and_utc().timestamp_micros();
            match column.data_type {
                DorisType::DateTime(digits) => {
                    let unit = 10_i64.pow(u32::from(6 - digits));
                    Ok(Value::DateTime(now.div_euclid(unit) * unit))
                }
                _ => Err(format!(
                    "Types other than DATETIME and DATETIMEV2 cannot use current_timestamp as the \
                     default value: {}",
                    column.name
                )),
            }
        }
        Some(text) => Value::parse(text, &column.data_type, 0)
            .map_err(|_| format!("Invalid default value for '{}': {text}", column.name)),
    }
}

/// Applies one change to the list; true where it takes a job.
fn apply(
    table: &Table,
    columns: &mut Vec<Column>,
    next_id: &mut u32,
    change: &ColumnChange,
) -> Result<bool, String> {
    match change {
        ColumnChange::Add(column, place) => {
            if find(columns, &column.name).is_ok() {
                return Err(format!(
                    "Can not add column which already exists in base table: {}",
                    column.name
                ));
            }
            if column.is_key && table.model == KeysModel::Unique {
                return Err(format!("Can not add key column to a unique table: {}", column.name));
            }
            if !column.nullable && column.default.is_none() {
                return Err(format!(
                    "Column {} is not null and has no default value, existing rows need one",
                    column.name
                ));
            }
            default_value(column)?;
            let mut column = column.clone();
            column.id = *next_id;
            *next_id += 1;
            let heavy = column.is_key;
            insert(columns, column, place)?;
            Ok(heavy)
        }
        ColumnChange::Drop(name) => {
            let at = find(columns, name).map_err(|_| format!("Column does not exists: {name}"))?;
            let column = &columns[at];
            if column.is_key {
                return Err(match table.model {
                    KeysModel::Unique => {
                        "Can not drop key column in Unique data model table".into()
                    }
                    KeysModel::Duplicate => format!("Can not drop key column {name}"),
                });
            }
            if table.distribution_columns.contains(&column.id) {
                return Err(format!("Distribution column[{name}] cannot be dropped"));
            }
            if table.sequence == Sequence::Column(column.id) {
                return Err(format!(
                    "Can not drop sequence mapping column[{name}] in Unique data model table[{}]",
                    table.name
                ));
            }
            columns.remove(at);
            Ok(false)
        }
        ColumnChange::Rename(from, to) => {
            let at = find(columns, from)?;
            if find(columns, to).is_ok_and(|other| other != at) {
                return Err(format!("Column name[{to}] is already used"));
            }
            if !table.has_light_schema_change() {
                return Err("not implemented for table without column unique id, which are created with property 'light_schema_change'='false'.".into());
            }
            if table.distribution_columns.contains(&columns[at].id) && table.partition.is_some() {
                return Err(format!("Renaming the partition column {from} is not supported"));
            }
            columns[at].name.clone_from(to);
            Ok(false)
        }
        ColumnChange::Comment(name, comment) => {
            let at = find(columns, name)?;
            columns[at].comment.clone_from(comment);
            Ok(false)
        }
        ColumnChange::Modify(new, place) => modify(table, columns, new, place),
    }
}

fn modify(
    table: &Table,
    columns: &mut Vec<Column>,
    new: &Column,
    place: &Place,
) -> Result<bool, String> {
    let at = find(columns, &new.name)?;
    let old = columns[at].clone();
    if table.distribution_columns.contains(&old.id) {
        return Err(format!("Can not modify distribution column[{}]", old.name));
    }
    if table.sequence == Sequence::Column(old.id) && old.data_type != new.data_type {
        return Err("Can not alter sequence column".to_owned());
    }
    if old.is_key != new.is_key {
        return Err(match new.is_key {
            true => "Can not change from value column to key column".to_owned(),
            false => format!("Can not change key column {} to a value column: say KEY", old.name),
        });
    }
    if old.nullable && !new.nullable {
        return Err("Can not change from nullable to non-nullable".to_owned());
    }
    if old.default != new.default {
        return Err("Can not change default value".to_owned());
    }
    check_type_change(&old.data_type, &new.data_type)?;
    if let Some(why) = new.data_type.refused_as_key().filter(|_| new.is_key) {
        return Err(why);
    }
    let longer_varchar =
        matches!((&old.data_type, &new.data_type), (DorisType::VarChar(_), DorisType::VarChar(_)));
    let mut heavy = old.data_type != new.data_type && !(longer_varchar && !old.is_key);
    heavy |= old.nullable != new.nullable;
    let mut column = Column { id: old.id, ..new.clone() };
    column.name.clone_from(&old.name);
    if *place == Place::Default {
        columns[at] = column;
    } else {
        let before: Vec<u32> = columns.iter().map(|c| c.id).collect();
        columns.remove(at);
        insert(columns, column, place)?;
        heavy |= before != columns.iter().map(|c| c.id).collect::<Vec<_>>();
    }
    Ok(heavy)
}

fn find(columns: &[Column], name: &str) -> Result<usize, String> {
    columns
        .iter()
        .position(|c| c.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| format!("Column[{name}] does not exists"))
}

fn insert(columns: &mut Vec<Column>, column: Column, place: &Place) -> Result<(), String> {
    let at = match place {
        Place::First => 0,
        Place::After(name) => {
            find(columns, name).map_err(|_| format!("Column[{name}] does not found"))? + 1
        }
        Place::Default if column.is_key => columns.iter().filter(|c| c.is_key).count(),
        Place::Default => columns.len(),
    };
    columns.insert(at, column);
    Ok(())
}

/// Keys come first, in any table.
pub fn check_order(columns: &[Column]) -> Result<(), String> {
    let keys = columns.iter().take_while(|c| c.is_key).count();
    match columns[keys..].iter().find(|c| c.is_key) {
        Some(late) => {
            Err(format!("Invalid column order. value should be after key. index[{}]", late.name))
        }
        None => Ok(()),
    }
}

/// The conversions that a schema change may do.
fn check_type_change(old: &DorisType, new: &DorisType) -> Result<(), String> {
    use DorisType as T;
    if old == new {
        return Ok(());
    }
    let allowed = match (old, new) {
        (T::Char(was), T::Char(is)) | (T::VarChar(was) | T::Char(was), T::VarChar(is)) => {
            if is < was {
                return Err(format!(
                    "Shorten type length is prohibited, srcType={old}, dstType={new}"
                ));
            }
            true
        }
        (T::VarChar(_), T::Char(_)) => false,
        (T::Char(_) | T::VarChar(_), T::String | T::Json) => true,
        (T::Char(_) | T::VarChar(_), to) => {
            to.is_integer() || to.is_date_like() || matches!(to, T::Float | T::Double)
        }
        (T::String, to) => matches!(to, T::Json | T::Variant),
        (T::Json, to) => matches!(to, T::String | T::Variant),
        (from, T::VarChar(_)) if from.is_integer() => true,
        (T::Float | T::Double | T::Decimal { .. }, T::VarChar(_)) => true,
        (T::Float, T::Double) => true,
        (from, to) if from.is_integer() && to.is_integer() => wider(from, to),
        (from, T::Float | T::Double) => from.is_integer(),
        (T::Date, T::DateTime(_)) | (T::DateTime(_), T::Date) => true,
        (T::DateTime(was), T::DateTime(is)) => is >= was,
        (T::Int, T::Date) => true,
        (T::Decimal { precision: p, scale: s }, T::Decimal { precision: q, scale: t }) => {
            t >= s && q - t >= p - s
        }
        _ => false,
    };
    match allowed {
        true => Ok(()),
        false => Err(format!("Can not change {old} to {new}")),
    }
}

fn wider(from: &DorisType, to: &DorisType) -> bool {
    match (from.integer_range(), to.integer_range()) {
        (Some((_, from)), Some((_, to))) => to > from,
        _ => false,
    }
}
