//! The text of a query event to statements.

use std::sync::Arc;

use lakeward_core::{Error, Result, TableId};

use super::SqlMode;
use super::alter::alter_table;
use super::column_type::column_type;
use super::create::{CreateWords, create_table};
use super::cursor::{Cursor, Parsed, Unclear};
use super::statement::{AlterClause, AlterTable, ColumnDefinition, Statement, TableBody};
use super::tokens::{Lexer, Token};
use super::transaction::transaction;
use crate::model::{MysqlTable, MysqlType};

/// Reads the text of one query event. Nearly always one statement; `CREATE TABLE … START TRANSACTION` is two.
///
/// # Errors
/// `SchemaIncompatible` where the text ends in the middle of a token and it is not plain which table it is about, or
/// where the name of an XA transaction cannot be read.
pub fn read(sql: &str, mode: &SqlMode, current_database: Option<&str>) -> Result<Vec<Statement>> {
    let mut lexer = Lexer::new(sql, *mode);
    let mut tokens = Vec::new();
    let mut unfinished = None;
    // Statements logged as text can hold megabytes of rows: their head tells all.
    let mut limit = usize::MAX;
    while tokens.len() < limit {
        match lexer.next_token() {
            Ok(Some(token)) => tokens.push(token),
            Ok(None) => break,
            Err(e) => {
                unfinished = Some(e);
                break;
            }
        }
        if tokens.len() == 1 && is_dml(&tokens[0]) {
            limit = DML_HEAD_TOKENS;
        }
    }
    let mut statements = Vec::new();
    for tokens in tokens.split(|token| *token == Token::Symbol(';')) {
        if tokens.is_empty() {
            continue;
        }
        let mut c = Cursor::new(tokens, current_database);
        let read = statement(&mut c, mode)?;
        // The body of a routine holds semicolons of its own; nothing of it runs now.
        let is_last = read.is_none();
        statements.extend(read.unwrap_or_else(|| vec![Statement::Other]));
        if is_last {
            break;
        }
    }
    match unfinished {
        None => Ok(statements),
        Some(e) => statements
            .into_iter()
            .map(|s| in_doubt(s).ok_or(()))
            .collect::<Result<_, _>>()
            .map_err(|()| e),
    }
}

/// Reads the output of SHOW CREATE TABLE. `database_charset` is for tables that name no character set.
///
/// # Errors
/// `SchemaIncompatible` where it is not a table's definition, or holds a type that is not known.
pub fn read_table(sql: &str, mode: &SqlMode, database_charset: &str) -> Result<MysqlTable> {
    let unclear = |reason: &str| {
        Error::schema_incompatible(format!(
            "the definition that the server gives for a table cannot be read: {reason}"
        ))
    };
    let mut statements = read(sql, mode, Some(""))?;
    let definition = match statements.pop() {
        Some(Statement::CreateTable(create)) if statements.is_empty() => match create.body {
            TableBody::Definition(definition) => definition,
            _ => return Err(unclear("it has no columns")),
        },
        Some(Statement::Unsure { reason, .. }) => return Err(unclear(reason)),
        _ => return Err(unclear("it is not a CREATE TABLE statement")),
    };
    Ok(definition.resolve(&Arc::from(database_charset), mode))
}

/// Reads `COLUMN_TYPE` of `information_schema.columns`. `charset` is the column's, or of no meaning.
///
/// # Errors
/// `SchemaIncompatible` for a type that is not known.
pub fn read_column_type(text: &str, mode: &SqlMode, charset: &str) -> Result<MysqlType> {
    let mut lexer = Lexer::new(text, *mode);
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next_token()? {
        tokens.push(token);
    }
    let mut column = ColumnDefinition::empty("".into());
    column_type(&mut Cursor::new(&tokens, None), mode, &mut column).map_err(
        |Unclear(reason)| {
            Error::schema_incompatible("a column's type is not known to this version of lakeward")
                .with("reason", reason)
                .with("type", text)
        },
    )?;
    Ok(column.column_type.settle(&super::charsets::canonical(charset)))
}

const DML_HEAD_TOKENS: usize = 16;

fn is_dml(token: &Token<'_>) -> bool {
    const VERBS: &[&str] = &["INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD"];
    matches!(token, Token::Word(word) if VERBS.iter().any(|verb| verb.eq_ignore_ascii_case(word)))
}

/// `None`: a statement without a bearing on tables, whose text may hold semicolons.
fn statement(c: &mut Cursor<'_, '_>, mode: &SqlMode) -> Result<Option<Vec<Statement>>> {
    while c.is_word("SET") && c.is_word_at(1, "STATEMENT") {
        // MariaDB's SET STATEMENT variables FOR statement.
        while !c.take_word("FOR") {
            if c.next().is_none() {
                return Ok(None);
            }
        }
    }
    let one = |statement| Ok(Some(vec![statement]));
    match c.keyword().as_str() {
        "ALTER" => {
            c.next();
            Ok(alter(c, mode))
        }
        "CREATE" => {
            c.next();
            Ok(create(c, mode))
        }
        "DROP" => {
            c.next();
            Ok(drop(c).map(|statement| vec![statement]))
        }
        "RENAME" => {
            c.next();
            if !c.take_any(&["TABLE", "TABLES"]) {
                return one(Statement::Other);
            }
            one(rename(c))
        }
        "TRUNCATE" => {
            c.next();
            c.take_word("TABLE");
            one(match c.table_name() {
                Ok(name) => Statement::TruncateTable { name },
                Err(_) => Statement::Other,
            })
        }
        "INSERT" | "REPLACE" | "UPDATE" | "DELETE" | "LOAD" => one(dml(c)),
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "XA" => {
            match transaction(c) {
                Ok(statement) => Ok(statement.map(|statement| vec![statement])),
                Err(Unclear(reason)) => Err(Error::schema_incompatible(format!(
                    "a transaction statement in the log cannot be read: {reason}"
                ))),
            }
        }
        _ => one(Statement::Other),
    }
}

/// What is known of a statement whose text was cut short.
fn in_doubt(statement: Statement) -> Option<Statement> {
    let reason = "its text ends in the middle of a string or comment";
    let table = match statement {
        Statement::CreateTable(create) => create.name,
        Statement::AlterTable(alter) => alter.name,
        Statement::Unsure { tables, .. } => return Some(Statement::Unsure { tables, reason }),
        Statement::Dml { table } => return Some(Statement::Dml { table }),
        _ => return None,
    };
    Some(Statement::Unsure { tables: vec![table], reason })
}

fn unsure(table: TableId, Unclear(reason): Unclear) -> Statement {
    Statement::Unsure { tables: vec![table], reason }
}

fn alter(c: &mut Cursor<'_, '_>, mode: &SqlMode) -> Option<Vec<Statement>> {
    let mut ignore = false;
    loop {
        match c.keyword().as_str() {
            "ONLINE" | "OFFLINE" => {}
            "IGNORE" => ignore = true,
            _ => break,
        }
        c.next();
    }
    if c.take_any(&["DATABASE", "SCHEMA"]) {
        let has_name =
            !matches!(c.keyword().as_str(), "DEFAULT" | "CHARACTER" | "CHARSET" | "COLLATE");
        let name = if has_name { c.name().ok()? } else { c.current_database()? };
        return Some(vec![Statement::AlterDatabase { name, charset: database_charset(c) }]);
    }
    if !c.take_word("TABLE") {
        return None;
    }
    let if_exists = c.take_if_exists();
    let Ok(name) = c.table_name() else { return Some(vec![Statement::Other]) };
    if c.take_word("WAIT") {
        c.next();
    }
    c.take_word("NOWAIT");
    let alter = AlterTable { name: name.clone(), if_exists, ignore, clauses: Vec::new() };
    Some(vec![alter_table(alter, c, mode).unwrap_or_else(|reason| unsure(name, reason))])
}

fn create(c: &mut Cursor<'_, '_>, mode: &SqlMode) -> Option<Vec<Statement>> {
    let mut words = CreateWords::default();
    words.or_replace = c.take_words(&["OR", "REPLACE"]);
    if c.take_any(&["DATABASE", "SCHEMA"]) {
        c.take_if_not_exists();
        let name = c.name().ok()?;
        let charset = database_charset(c);
        let or_replace = words.or_replace;
        return Some(vec![Statement::CreateDatabase { name, or_replace, charset }]);
    }
    c.take_any(&["GLOBAL", "LOCAL", "EXTERNAL"]);
    words.temporary = c.take_word("TEMPORARY");
    if !c.take_word("TABLE") {
        return None;
    }
    let if_not_exists = c.take_if_not_exists();
    let Ok(name) = c.table_name() else { return Some(vec![Statement::Other]) };
    Some(
        create_table(name.clone(), if_not_exists, words, c, mode)
            .unwrap_or_else(|reason| vec![unsure(name, reason)]),
    )
}

fn database_charset(c: &mut Cursor<'_, '_>) -> Option<Arc<str>> {
    let mut found = None;
    while !c.is_end() {
        match c.charset_clause() {
            Some(charset) => found = charset.or(found),
            None => c.skip(),
        }
    }
    found
}

fn drop(c: &mut Cursor<'_, '_>) -> Option<Statement> {
    if c.take_any(&["DATABASE", "SCHEMA"]) {
        c.take_if_exists();
        return Some(Statement::DropDatabase { name: c.name().ok()? });
    }
    c.take_any(&["ONLINE", "OFFLINE"]);
    if c.take_word("INDEX") {
        c.take_if_exists();
        let is_primary = c.name().ok()?.eq_ignore_ascii_case("PRIMARY");
        if !is_primary || !c.take_word("ON") {
            return Some(Statement::Other);
        }
        return Some(Statement::AlterTable(AlterTable {
            name: c.table_name().ok()?,
            if_exists: false,
            ignore: false,
            clauses: vec![AlterClause::DropPrimaryKey],
        }));
    }
    let temporary = c.take_word("TEMPORARY");
    if !c.take_any(&["TABLE", "TABLES"]) {
        return Some(Statement::Other);
    }
    c.take_if_exists();
    let mut names = Vec::new();
    loop {
        match c.table_name() {
            Ok(name) => names.push(name),
            Err(Unclear(reason)) => return Some(Statement::Unsure { tables: names, reason }),
        }
        if !c.take_symbol(',') {
            return Some(Statement::DropTable { names, temporary });
        }
    }
}

/// `a TO b, c TO d`, with MariaDB's IF EXISTS and WAIT.
fn rename(c: &mut Cursor<'_, '_>) -> Statement {
    let mut pairs: Vec<(TableId, TableId)> = Vec::new();
    c.take_if_exists();
    match rename_pairs(c, &mut pairs) {
        Ok(()) => Statement::RenameTable { pairs },
        Err(Unclear(reason)) => {
            let tables = pairs.into_iter().flat_map(|(from, to)| [from, to]).collect();
            Statement::Unsure { tables, reason }
        }
    }
}

fn rename_pairs(c: &mut Cursor<'_, '_>, pairs: &mut Vec<(TableId, TableId)>) -> Parsed<()> {
    loop {
        let from = c.table_name()?;
        if c.take_word("WAIT") {
            c.next();
        }
        c.take_word("NOWAIT");
        if !c.take_word("TO") {
            return Err(Unclear("RENAME TABLE names no new name"));
        }
        pairs.push((from, c.table_name()?));
        if !c.take_symbol(',') {
            return Ok(());
        }
    }
}

/// The table is given only where one plain name stands where the table's name stands.
fn dml(c: &mut Cursor<'_, '_>) -> Statement {
    let verb = c.keyword();
    c.next();
    if verb == "LOAD" {
        while !(c.is_end() || c.take_words(&["INTO", "TABLE"])) {
            c.next();
        }
        return Statement::Dml { table: c.table_name().ok() };
    }
    while c.take_any(&["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE"]) {}
    let is_plain = match verb.as_str() {
        "DELETE" => c.take_word("FROM"),
        "UPDATE" => true,
        _ => {
            c.take_word("INTO");
            true
        }
    };
    let table = if is_plain { c.table_name().ok() } else { None };
    // Several tables, or an alias that may hide another.
    let is_joined = verb == "UPDATE" && !c.is_word("SET");
    let is_multiple = verb == "DELETE" && (c.is_symbol(',') || c.is_word("USING"));
    Statement::Dml { table: table.filter(|_| !is_joined && !is_multiple) }
}
