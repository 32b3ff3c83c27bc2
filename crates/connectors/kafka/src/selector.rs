//! The patterns of `tables`, `tables.exclude`, `primary-keys`, `column-types`, `topic-pattern`.

use std::sync::Arc;

use lakeward_core::{DataType, Error, Result, TableId};
use regex::Regex;

use crate::config::KafkaConfig;
use crate::types::parse_type;

/// A pattern of `db.table`.
#[derive(Debug)]
struct Pattern {
    namespace: Regex,
    name: Regex,
}

impl Pattern {
    fn matches(&self, table: &TableId) -> bool {
        self.namespace.is_match(&table.namespace) && self.name.is_match(&table.name)
    }
}

/// A column and its type.
type ColumnType = (Arc<str>, DataType);

/// What the options say about tables.
#[derive(Debug)]
pub struct TableRules {
    include: Option<Vec<Pattern>>,
    exclude: Vec<Pattern>,
    keys: Vec<(Pattern, Vec<Arc<str>>)>,
    types: Vec<(Pattern, Vec<ColumnType>)>,
}

impl TableRules {
    pub fn new(config: &KafkaConfig) -> Result<Self> {
        let include = config.tables.as_deref().map(|t| patterns("tables", t)).transpose()?;
        let exclude = patterns("tables.exclude", config.tables_exclude.as_deref().unwrap_or(""))?;
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
        let hit = |list: &[Pattern]| list.iter().any(|p| p.matches(table));
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
fn rules(option: &'static str, text: &str) -> Result<Vec<(Pattern, String)>> {
    split(text, ';')
        .iter()
        .map(|rule| rule.trim())
        .filter(|rule| !rule.is_empty())
        .map(|rule| match rule.split_once(':') {
            Some((tables, rest)) if !rest.trim().is_empty() => {
                Ok((pattern(option, tables.trim())?, rest.trim().to_owned()))
            }
            _ => Err(Error::config(format!("`{option}`: `{rule}` must be `db.table:…`"))),
        })
        .collect()
}

fn patterns(option: &'static str, text: &str) -> Result<Vec<Pattern>> {
    split(text, ',')
        .iter()
        .map(|item| item.trim())
        .filter(|item| !item.is_empty())
        .map(|item| pattern(option, item))
        .collect()
}

fn pattern(option: &'static str, item: &str) -> Result<Pattern> {
    let parts = split_at_dots(item);
    let [namespace, name] = parts.as_slice() else {
        return Err(Error::config(format!(
            "`{option}`: {item} must be a database and a table with one `.` between; a dot of a regular expression is \
             written `\\.`"
        )));
    };
    Ok(Pattern { namespace: whole(option, namespace)?, name: whole(option, name)? })
}

/// A regular expression of a whole name.
pub fn whole(option: &'static str, expression: &str) -> Result<Regex> {
    Regex::new(&format!("^(?:{expression})$")).map_err(|e| {
        Error::config(format!("`{option}`: {expression} is not a regular expression"))
            .with_source(e)
    })
}

/// Splits at a character that stands outside of brackets, braces and parentheses.
fn split(text: &str, at: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0usize;
    let mut escaped = false;
    for c in text.chars() {
        if c == at && depth == 0 && !escaped {
            parts.push(String::new());
            continue;
        }
        match c {
            _ if escaped => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

/// `.` separates; `\.` is a dot of the expression (any character).
fn split_at_dots(item: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = item.chars().peekable();
    while let Some(c) = chars.next() {
        let Some(last) = parts.last_mut() else { break };
        match c {
            '\\' if chars.peek() == Some(&'.') => {
                chars.next();
                last.push('.');
            }
            '\\' => {
                last.push(c);
                last.extend(chars.next());
            }
            '.' => parts.push(String::new()),
            _ => last.push(c),
        }
    }
    parts
}
