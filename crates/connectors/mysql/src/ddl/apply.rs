//! One ALTER's effect on one table: its new shape, where its columns come from, and what the text cannot tell about the
//! rows that exist.

use std::sync::Arc;

use lakeward_core::{DataType, Literal};

use super::conversion::{changes_values, promotes};
use super::diff::Came;
use super::literal;
use super::outcome::StatementPlace;
use super::shape::same;
use super::statement::{AlterClause, AlterTable};
use crate::model::{MysqlColumn, MysqlDefault, MysqlTable, MysqlType};

/// A reason to read a table's rows anew.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Concern {
    pub reason: String,
    /// The rows in the target must go first: their keys or types no longer fit.
    pub reset: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Altered {
    pub shape: MysqlTable,
    /// For each column of `shape`.
    pub came: Vec<Came>,
    pub concerns: Vec<Concern>,
    /// The server may sort the primary key in another order from now on: a text column of it may have another collation.
    pub reorders: bool,
}

/// What ALTER makes of a table.
///
/// # Errors
/// The statement does not fit `before`: the log and the known shape have parted.
pub fn alter(
    before: &MysqlTable,
    alter: &AlterTable,
    database_charset: &Arc<str>,
    place: &StatementPlace,
    types: &dyn Fn(&MysqlColumn) -> DataType,
) -> Result<Altered, String> {
    let reshaped = alter.reshape(before, database_charset, &place.mode)?;
    let strict = place.mode.strict && !alter.ignore;
    let mut concerns = Vec::new();
    let mut came = Vec::with_capacity(reshaped.origins.len());
    for (column, origin) in reshaped.table.columns.iter().zip(&reshaped.origins) {
        let Some(origin) = origin else {
            let known = literal::existing_rows(column, &types(column), Some(&place.time));
            if known.is_none() {
                let reason = format!("only the server knows what column {} holds", column.name);
                concerns.push(Concern { reason, reset: false });
            }
            came.push(Came::New(known.unwrap_or(Literal::Null)));
            continue;
        };
        came.push(Came::From(origin.index));
        let old = &before.columns[origin.index];
        let (from, to) = (types(old), types(column));
        let is_touched = origin.redeclared
            || old.column_type != column.column_type
            || old.nullable != column.nullable;
        if !promotes(from, to) {
            let reason = format!("column {} goes from {from} to {to}", column.name);
            concerns.push(Concern { reason, reset: true });
        } else if is_touched
            && (origin.redeclared || !column.generated)
            && let Some(why) = changes_values(old, column, strict)
        {
            let reason = format!("column {} is declared anew: {why}", column.name);
            let is_key = |table: &MysqlTable, c: &MysqlColumn| {
                table.primary_key.iter().any(|k| same(k, &c.name))
            };
            let reset = is_key(before, old) || is_key(&reshaped.table, column);
            concerns.push(Concern { reason, reset });
        }
    }
    if alter.ignore && adds_unique_key(alter) {
        let reason = "ALTER IGNORE may have dropped duplicate rows".to_owned();
        concerns.push(Concern { reason, reset: true });
    }
    let converts = alter.clauses.iter().any(|c| matches!(c, AlterClause::ConvertCharset { .. }));
    let reorders = reshaped.table.columns.iter().zip(&reshaped.origins).any(|(column, origin)| {
        (converts || origin.as_ref().is_some_and(|o| o.redeclared))
            && is_text_key(&reshaped.table, column)
    });
    Ok(Altered { shape: reshaped.table, came, concerns, reorders })
}

/// A column of the primary key that is sorted by a collation.
pub fn is_text_key(table: &MysqlTable, column: &MysqlColumn) -> bool {
    let is_text = matches!(
        column.column_type,
        MysqlType::Char { .. } | MysqlType::Varchar { .. } | MysqlType::Text { .. }
    );
    is_text && table.primary_key.iter().any(|key| same(key, &column.name))
}

/// True where rows with equal values cannot all stay.
pub fn adds_unique_key(alter: &AlterTable) -> bool {
    alter.clauses.iter().any(|clause| match clause {
        AlterClause::AddUniqueKey | AlterClause::AddPrimaryKey { .. } => true,
        AlterClause::AddColumn { column, .. } | AlterClause::ChangeColumn { column, .. } => {
            column.unique || column.primary_key
        }
        _ => false,
    })
}

/// Where a column of an online schema change tool's table comes from.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Lineal {
    /// It was there under this name when the tool created the table.
    Created(Arc<str>),
    /// Added since; what copied rows hold in it, where that is a constant.
    Added(Option<Literal>),
}

/// How an online schema change tool's table differs from the one it was made from.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Lineage {
    /// For each column of the present shape.
    pub columns: Vec<Lineal>,
    pub concerns: Vec<Concern>,
}

impl Lineage {
    pub fn of_new(shape: &MysqlTable) -> Self {
        let columns = shape.columns.iter().map(|c| Lineal::Created(c.name.clone())).collect();
        Self { columns, concerns: Vec::new() }
    }

    /// The lineage after an ALTER of the tool's table. The tool copies rows with INSERT IGNORE … SELECT.
    pub fn after(&self, before: &MysqlTable, alter: &AlterTable, altered: &Altered) -> Self {
        let mut concerns = self.concerns.clone();
        concerns.extend(altered.concerns.iter().cloned());
        let mut columns = Vec::with_capacity(altered.came.len());
        for (column, came) in altered.shape.columns.iter().zip(&altered.came) {
            columns.push(match came {
                Came::From(i) => {
                    if !same(&before.columns[*i].name, &column.name) {
                        let name = &column.name;
                        let reason = format!(
                            "only the online schema change tool knows whether it copied into the renamed column {name}"
                        );
                        concerns.push(Concern { reason, reset: false });
                    }
                    self.columns[*i].clone()
                }
                // The time of each row's copy, not of the ALTER.
                Came::New(_) if column.default == MysqlDefault::Now => Lineal::Added(None),
                Came::New(literal) => {
                    let is_known = !column.generated
                        && !column.auto_increment
                        && column.default != MysqlDefault::Expression;
                    Lineal::Added(is_known.then(|| literal.clone()))
                }
            });
        }
        if adds_unique_key(alter) {
            let reason = "the online schema change tool leaves out rows that a new unique key \
                          takes for duplicates"
                .to_owned();
            concerns.push(Concern { reason, reset: true });
        }
        Self { columns, concerns }
    }

    /// The tool's table as the successor of `before`.
    pub fn came(&self, before: &MysqlTable) -> (Vec<Came>, Vec<Concern>) {
        let mut concerns = self.concerns.clone();
        let came = self.columns.iter().map(|lineal| match lineal {
            Lineal::Created(name) => match before.index_of(name) {
                Some(i) => Came::From(i),
                None => {
                    let reason = format!(
                        "the online schema change tool made column {name} in a way that the log does not show"
                    );
                    concerns.push(Concern { reason, reset: false });
                    Came::New(Literal::Null)
                }
            },
            Lineal::Added(Some(literal)) => Came::New(literal.clone()),
            Lineal::Added(None) => {
                let reason = "only the server knows what copied rows hold in an added column";
                concerns.push(Concern { reason: reason.to_owned(), reset: false });
                Came::New(Literal::Null)
            }
        });
        let came = came.collect();
        (came, concerns)
    }
}
