//! The patterns of `tables`, `tables.exclude`, `primary-keys`, `column-types`, `topic-pattern`.

use std::sync::Arc;

use lakeward_core::options::TablePattern;
use lakeward_core::options::table_pattern::split;
use lakeward_core::{DataType, Error, Result, TableId};

use crate::config::KafkaConfig;
use crate::types::parse_type;

/// A column and its type.
type ColumnType = (Arc<str>, DataType);

/// What the options say about tables.
#[derive(Debug)]
pub struct TableRules {
    include: Option<Vec<TablePattern>>,
    exclude: Vec<TablePattern>,
    keys: Vec<(TablePattern, Vec<Arc<str>>)>,
    types: Vec<(TablePattern, Vec<ColumnType>)>,
}

impl TableRules {
    pub fn new(config: &KafkaConfig) -> Result<Self> {
        let include =
            config.tables.as_deref().map(|t| TablePattern::parse_list("tables", t)).transpose()?;
        let exclude = TablePattern::parse_list(
            "tables.exclude",
            config.tables_exclude.as_deref().unwrap_or(""),
        )?;
        let keys = rules("primary-keys", config.primary_keys.as_deref().unwrap_or(""))?
            .into_iter()
            .map(|(pattern, columns)| {
                let names = split(&columns, ',').iter().map(|c| Arc::from(c.trim())).collect();
                (pattern, names)
            })
            .collect();
        let types = rules("column-types", config.column_types.as_deref().unwrap_or(""))?
            .into_iter()
            .map(|(pattern, columns)| {
                let columns: Result<Vec<_>> =
                    split(&columns, ',').iter().map(|c| column_type(c.trim())).collect();
                Ok((pattern, columns?))
            })
            .collect::<Result<_>>()?;
        Ok(Self { include, exclude, keys, types })
    }

    pub fn is_selected(&self, table: &TableId) -> bool {
        let hit = |list: &[TablePattern]| list.iter().any(|p| p.matches(table));
        self.include.as_deref().is_none_or(hit) && !hit(&self.exclude)
    }

    /// The key that the options give a table.
    pub fn key(&self, table: &TableId) -> Option<&[Arc<str>]> {
        self.keys.iter().find(|(p, _)| p.matches(table)).map(|(_, key)| key.as_slice())
    }

    /// The types that the options give columns of a table.
    pub fn types(&self, table: &TableId) -> impl Iterator<Item = &ColumnType> {
        self.types.iter().filter(|(p, _)| p.matches(table)).flat_map(|(_, types)| types)
    }

    pub fn type_of(&self, table: &TableId, column: &str) -> Option<DataType> {
        self.types(table).find(|(name, _)| **name == *column).map(|(_, data_type)| *data_type)
    }
}

fn column_type(text: &str) -> Result<ColumnType> {
    let parsed = text
        .split_once(char::is_whitespace)
        .and_then(|(name, type_name)| Some((Arc::from(name), parse_type(type_name.trim())?)));
    parsed.ok_or_else(|| {
        Error::config(format!(
            "`column-types`: `{text}` must be a column and a type, as in `a BIGINT`"
        ))
    })
}

/// `pattern:rest;pattern:rest`.
fn rules(option: &'static str, text: &str) -> Result<Vec<(TablePattern, String)>> {
    split(text, ';')
        .iter()
        .map(|rule| rule.trim())
        .filter(|rule| !rule.is_empty())
        .map(|rule| match rule.split_once(':') {
            Some((tables, rest)) if !rest.trim().is_empty() => {
                Ok((TablePattern::parse(option, tables.trim())?, rest.trim().to_owned()))
            }
            _ => Err(Error::config(format!("`{option}`: `{rule}` must be `db.table:…`"))),
        })
        .collect()
}
