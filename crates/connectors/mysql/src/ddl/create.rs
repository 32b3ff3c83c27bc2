//! CREATE TABLE.

use std::sync::Arc;

use lakeward_core::TableId;

use super::SqlMode;
use super::column::column;
use super::cursor::{Cursor, Parsed, Unclear};
use super::statement::{CreateTable, Statement, TableBody, TableDefinition, TransactionControl};
use super::tokens::Token;

/// What CREATE says before TABLE.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreateWords {
    pub or_replace: bool,
    pub temporary: bool,
}

/// After the table's name.
pub fn create_table(
    name: TableId,
    if_not_exists: bool,
    words: CreateWords,
    c: &mut Cursor<'_, '_>,
    mode: &SqlMode,
) -> Parsed<Vec<Statement>> {
    let mut definition = None;
    let mut like = None;
    let mut ending = Ending::default();
    if c.take_word("LIKE") {
        like = Some(c.table_name()?);
    } else if c.is_symbol('(') && c.is_word_at(1, "LIKE") {
        c.next();
        c.next();
        like = Some(c.table_name()?);
    } else {
        if c.is_symbol('(') && !is_query_at(c, 1) {
            c.next();
            let mut elements = TableDefinition::default();
            create_elements(c, mode, &mut elements)?;
            definition = Some(elements);
        }
        ending = table_options(c, definition.get_or_insert_default())?;
        if definition.as_ref().is_some_and(|d| d.columns.is_empty()) {
            definition = None;
        }
    }
    let body = match (like, definition) {
        (Some(like), _) => TableBody::Like(like),
        (None, definition) if ending.is_query => TableBody::AsSelect(definition),
        (None, Some(definition)) => TableBody::Definition(definition),
        (None, None) => return Err(Unclear("a table is created without columns")),
    };
    let CreateWords { or_replace, temporary } = words;
    let create = CreateTable { name, if_not_exists, or_replace, temporary, body };
    let mut statements = vec![Statement::CreateTable(create)];
    if ending.starts_transaction {
        statements.push(Statement::Transaction(TransactionControl::Begin));
    }
    Ok(statements)
}

fn is_query_at(c: &Cursor<'_, '_>, n: usize) -> bool {
    matches!(c.keyword_at(n).as_str(), "SELECT" | "WITH" | "VALUES" | "TABLE")
        || c.peek_at(n) == Some(&Token::Symbol('('))
}

/// After the opening parenthesis, up to and with the closing one.
fn create_elements(
    c: &mut Cursor<'_, '_>,
    mode: &SqlMode,
    definition: &mut TableDefinition,
) -> Parsed<()> {
    loop {
        match key_element(c)? {
            Some(KeyElement::Primary(columns)) => definition.primary_key = columns,
            Some(KeyElement::Unique | KeyElement::Other) => {}
            None => {
                let column = column(c, mode)?;
                if column.primary_key {
                    definition.primary_key = vec![column.name.clone()];
                }
                definition.columns.push(column);
            }
        }
        c.skip_element();
        if c.take_symbol(')') {
            return Ok(());
        }
        if !c.take_symbol(',') {
            return Err(Unclear("the list of columns does not end"));
        }
    }
}

pub enum KeyElement {
    Primary(Vec<Arc<str>>),
    Unique,
    /// Other indexes, foreign keys, checks and periods.
    Other,
}

/// A key, constraint or period, where one stands here rather than a column.
pub fn key_element(c: &mut Cursor<'_, '_>) -> Parsed<Option<KeyElement>> {
    let keyword = c.keyword();
    let other = match keyword.as_str() {
        "CONSTRAINT" => {
            c.next();
            // The name of a constraint is optional.
            if !matches!(c.keyword().as_str(), "PRIMARY" | "UNIQUE" | "FOREIGN" | "CHECK") {
                c.name()?;
                c.take_if_not_exists();
            }
            return Ok(Some(key_element(c)?.unwrap_or(KeyElement::Other)));
        }
        "PRIMARY" if c.is_word_at(1, "KEY") => {
            c.next();
            c.next();
            return Ok(Some(KeyElement::Primary(key_columns(c)?)));
        }
        "UNIQUE" => return Ok(Some(KeyElement::Unique)),
        "KEY" | "INDEX" | "FULLTEXT" | "SPATIAL" | "FOREIGN" | "CHECK" => true,
        "PERIOD" => c.is_word_at(1, "FOR"),
        "VECTOR" => c.is_word_at(1, "KEY") || c.is_word_at(1, "INDEX"),
        _ => false,
    };
    Ok(other.then_some(KeyElement::Other))
}

/// `[name] [USING BTREE] (a, b(10) DESC)`.
fn key_columns(c: &mut Cursor<'_, '_>) -> Parsed<Vec<Arc<str>>> {
    while !(c.is_end() || c.is_symbol('(') || c.is_symbol(',')) {
        c.next();
    }
    if !c.take_symbol('(') {
        return Err(Unclear("a primary key has no columns"));
    }
    let mut columns = Vec::new();
    loop {
        columns.push(c.name()?);
        c.skip_parentheses();
        c.take_any(&["ASC", "DESC"]);
        if c.is_word("WITHOUT") {
            return Err(Unclear("a primary key holds a period"));
        }
        if c.take_symbol(')') {
            return Ok(columns);
        }
        if !c.take_symbol(',') {
            return Err(Unclear("the list of key columns does not end"));
        }
    }
}

/// What follows a table's options.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ending {
    pub is_query: bool,
    pub starts_transaction: bool,
}

/// Table options up to the end: those that matter go to `definition`.
fn table_options(c: &mut Cursor<'_, '_>, definition: &mut TableDefinition) -> Parsed<Ending> {
    let mut in_partitions = false;
    while !c.is_end() {
        if c.is_symbol('(') && is_query_at(c, 1) && !in_partitions {
            return Ok(Ending { is_query: true, ..Ending::default() });
        }
        if !in_partitions && table_option(c, definition)? {
            continue;
        }
        match c.keyword().as_str() {
            "AS" | "SELECT" | "VALUES" | "WITH" | "IGNORE" | "REPLACE" => {
                return Ok(Ending { is_query: true, ..Ending::default() });
            }
            "START" if c.is_word_at(1, "TRANSACTION") => {
                return Ok(Ending { starts_transaction: true, ..Ending::default() });
            }
            "PARTITION" => in_partitions = true,
            _ => {}
        }
        c.skip();
        if c.take_symbol('=') {
            c.skip();
        }
    }
    Ok(Ending::default())
}

/// Steps over an option that matters, if one stands here.
pub fn table_option(c: &mut Cursor<'_, '_>, definition: &mut TableDefinition) -> Parsed<bool> {
    if let Some(charset) = c.charset_clause() {
        definition.charset = charset.or(definition.charset.take());
        return Ok(true);
    }
    if c.take_word("COMMENT") {
        c.take_symbol('=');
        definition.comment = Some(c.text()?).filter(|text| !text.is_empty());
        return Ok(true);
    }
    if c.take_words(&["WITH", "SYSTEM", "VERSIONING"]) {
        definition.system_versioned = true;
        return Ok(true);
    }
    Ok(false)
}
