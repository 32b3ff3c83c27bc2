//! ALTER TABLE: the clauses that change columns, keys, names and comments. Others are stepped over.

use lakeward_core::TableId;

use super::SqlMode;
use super::column::{column, column_named, default, place};
use super::create::{KeyElement, key_element, table_option};
use super::cursor::{Cursor, Parsed, Unclear};
use super::statement::{AlterClause, AlterTable, DeclaredDefault, Statement, TableDefinition};
use super::tokens::Token;
use crate::model::MysqlDefault;

/// After the table's name and its WAIT or NOWAIT.
pub fn alter_table(
    mut alter: AlterTable,
    c: &mut Cursor<'_, '_>,
    mode: &SqlMode,
) -> Parsed<Statement> {
    let mut rows = None;
    while !c.is_end() {
        if let Some(changed) = rows_changed(&alter.name, c)? {
            rows = Some(changed);
            c.skip_all();
        } else {
            clause(c, mode, &mut alter.clauses)?;
        }
        c.skip_element();
        if !c.is_end() && !c.take_symbol(',') {
            return Err(Unclear("a clause of ALTER TABLE does not end"));
        }
    }
    // Clauses that move rows without row events stand alone, by the servers' grammar.
    Ok(rows.unwrap_or(Statement::AlterTable(alter)))
}

fn rows_changed(table: &TableId, c: &mut Cursor<'_, '_>) -> Parsed<Option<Statement>> {
    let mut tables = vec![table.clone()];
    let cause = match (c.keyword().as_str(), c.keyword_at(1).as_str()) {
        ("DROP", "PARTITION") => "drop partition",
        ("TRUNCATE", "PARTITION") => "truncate partition",
        (verb @ ("DISCARD" | "IMPORT"), "TABLESPACE" | "PARTITION") => match verb {
            "DISCARD" => "discard tablespace",
            _ => "import tablespace",
        },
        ("EXCHANGE", "PARTITION") => {
            while !c.take_words(&["WITH", "TABLE"]) {
                c.next().ok_or(Unclear("EXCHANGE PARTITION names no table"))?;
            }
            tables.push(c.table_name()?);
            "exchange partition"
        }
        ("CONVERT", "PARTITION") => {
            while !c.take_words(&["TO", "TABLE"]) {
                c.next().ok_or(Unclear("CONVERT PARTITION names no table"))?;
            }
            tables.push(c.table_name()?);
            "convert partition"
        }
        ("CONVERT", "TABLE") => {
            c.next();
            c.next();
            tables.push(c.table_name()?);
            "convert table"
        }
        _ => return Ok(None),
    };
    Ok(Some(Statement::RowsChanged { tables, cause }))
}

fn clause(c: &mut Cursor<'_, '_>, mode: &SqlMode, out: &mut Vec<AlterClause>) -> Parsed<()> {
    let keyword = c.keyword();
    match keyword.as_str() {
        "ADD" => {
            c.next();
            add(c, mode, out)
        }
        "DROP" => {
            c.next();
            drop(c, out)
        }
        "MODIFY" | "CHANGE" => {
            c.next();
            c.take_word("COLUMN");
            let if_exists = c.take_if_exists();
            let from = c.column_name()?;
            let column = if keyword == "MODIFY" {
                column_named(from.clone(), c, mode)?
            } else {
                column(c, mode)?
            };
            let place = place(c)?;
            out.push(AlterClause::ChangeColumn { from, column, place, if_exists });
            Ok(())
        }
        "RENAME" => {
            c.next();
            rename(c, out)
        }
        "ALTER" => {
            c.next();
            alter_column(c, out)
        }
        "CONVERT" if c.is_word_at(1, "TO") => {
            c.next();
            c.next();
            let charset = c.charset_clause().ok_or(Unclear("CONVERT TO names no character set"))?;
            // A COLLATE after it says nothing new, unless the character set is DEFAULT.
            let collation = c.charset_clause().flatten();
            out.push(AlterClause::ConvertCharset { charset: charset.or(collation) });
            Ok(())
        }
        _ => options(c, out),
    }
}

fn add(c: &mut Cursor<'_, '_>, mode: &SqlMode, out: &mut Vec<AlterClause>) -> Parsed<()> {
    if c.is_word("PARTITION") {
        c.skip_all();
        return Ok(());
    }
    if c.take_words(&["SYSTEM", "VERSIONING"]) {
        out.push(AlterClause::SystemVersioning { add: true });
        return Ok(());
    }
    match key_element(c)? {
        Some(KeyElement::Primary(columns)) => {
            out.push(AlterClause::AddPrimaryKey { columns, if_not_exists: false });
            return Ok(());
        }
        Some(KeyElement::Unique) => {
            out.push(AlterClause::AddUniqueKey);
            return Ok(());
        }
        Some(KeyElement::Other) => return Ok(()),
        None => {}
    }
    c.take_word("COLUMN");
    let if_not_exists = c.take_if_not_exists();
    if !c.take_symbol('(') {
        let column = column(c, mode)?;
        let place = place(c)?;
        out.push(AlterClause::AddColumn { column, place, if_not_exists });
        return Ok(());
    }
    loop {
        match key_element(c)? {
            Some(KeyElement::Primary(columns)) => {
                out.push(AlterClause::AddPrimaryKey { columns, if_not_exists: false });
            }
            Some(KeyElement::Unique) => out.push(AlterClause::AddUniqueKey),
            Some(KeyElement::Other) => {}
            None => {
                let column = column(c, mode)?;
                out.push(AlterClause::AddColumn { column, place: None, if_not_exists });
            }
        }
        c.skip_element();
        if c.take_symbol(')') {
            return Ok(());
        }
        if !c.take_symbol(',') {
            return Err(Unclear("a list of columns to add does not end"));
        }
    }
}

fn drop(c: &mut Cursor<'_, '_>, out: &mut Vec<AlterClause>) -> Parsed<()> {
    match (c.keyword().as_str(), c.keyword_at(1).as_str()) {
        ("PRIMARY", "KEY") => {
            c.next();
            c.next();
            out.push(AlterClause::DropPrimaryKey);
            return Ok(());
        }
        ("SYSTEM", "VERSIONING") => {
            out.push(AlterClause::SystemVersioning { add: false });
            return Ok(());
        }
        ("INDEX" | "KEY" | "CONSTRAINT", _) => {
            c.next();
            c.take_if_exists();
            if c.name()?.eq_ignore_ascii_case("PRIMARY") {
                out.push(AlterClause::DropPrimaryKey);
            }
            return Ok(());
        }
        ("FOREIGN" | "CHECK", _) | ("PERIOD", "FOR") => return Ok(()),
        _ => {}
    }
    c.take_word("COLUMN");
    let if_exists = c.take_if_exists();
    out.push(AlterClause::DropColumn { name: c.column_name()?, if_exists });
    Ok(())
}

fn rename(c: &mut Cursor<'_, '_>, out: &mut Vec<AlterClause>) -> Parsed<()> {
    if c.take_word("COLUMN") {
        let if_exists = c.take_if_exists();
        let from = c.column_name()?;
        if !c.take_word("TO") {
            return Err(Unclear("RENAME COLUMN names no new name"));
        }
        out.push(AlterClause::RenameColumn { from, to: c.column_name()?, if_exists });
        return Ok(());
    }
    if matches!(c.keyword().as_str(), "INDEX" | "KEY") {
        return Ok(());
    }
    if !c.take_any(&["TO", "AS"]) {
        c.take_symbol('=');
    }
    out.push(AlterClause::RenameTo { table: c.table_name()? });
    Ok(())
}

fn alter_column(c: &mut Cursor<'_, '_>, out: &mut Vec<AlterClause>) -> Parsed<()> {
    if matches!(c.keyword().as_str(), "INDEX" | "KEY" | "CHECK" | "CONSTRAINT") {
        return Ok(());
    }
    c.take_word("COLUMN");
    let if_exists = c.take_if_exists();
    let name = c.column_name()?;
    let clause = if c.take_words(&["SET", "DEFAULT"]) {
        AlterClause::SetDefault { name, default: default(c)?, if_exists }
    } else if c.take_words(&["DROP", "DEFAULT"]) {
        let default = DeclaredDefault::Known(MysqlDefault::None);
        AlterClause::SetDefault { name, default, if_exists }
    } else if c.take_words(&["SET", "INVISIBLE"]) {
        AlterClause::SetInvisible { name, invisible: true }
    } else if c.take_words(&["SET", "VISIBLE"]) {
        AlterClause::SetInvisible { name, invisible: false }
    } else {
        return Err(Unclear("ALTER COLUMN cannot be read"));
    };
    out.push(clause);
    Ok(())
}

/// Words that open clauses and options without a bearing on columns or rows.
const HARMLESS: &[&str] = &[
    "ALGORITHM",
    "ANALYZE",
    "AUTO_INCREMENT",
    "AVG_ROW_LENGTH",
    "AUTOEXTEND_SIZE",
    "CHECK",
    "CHECKSUM",
    "COALESCE",
    "COLLATE",
    "COMPRESSION",
    "CONNECTION",
    "DATA",
    "DEFAULT",
    "DELAY_KEY_WRITE",
    "DISABLE",
    "ENABLE",
    "ENCRYPTION",
    "ENGINE",
    "FORCE",
    "INDEX",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "LOCK",
    "MAX_ROWS",
    "MIN_ROWS",
    "OPTIMIZE",
    "ORDER",
    "PACK_KEYS",
    "PARTITION",
    "PASSWORD",
    "REBUILD",
    "REMOVE",
    "REORGANIZE",
    "REPAIR",
    "ROW_FORMAT",
    "SECONDARY_LOAD",
    "SECONDARY_UNLOAD",
    "SEQUENCE",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "STORAGE",
    "TABLESPACE",
    "TRANSACTIONAL",
    "TYPE",
    "UNION",
    "UPGRADE",
    "VALIDATION",
    "WITH",
    "WITHOUT",
];

/// Table options, which may follow each other without a comma.
fn options(c: &mut Cursor<'_, '_>, out: &mut Vec<AlterClause>) -> Parsed<()> {
    let mut found = TableDefinition::default();
    let mut is_known = false;
    while !(c.is_end() || c.is_symbol(',') || c.is_symbol(')')) {
        let keyword = c.keyword();
        if keyword == "COMMENT" || is_charset(c) {
            if !table_option(c, &mut found)? {
                return Err(Unclear("an option of ALTER TABLE cannot be read"));
            }
            if keyword == "COMMENT" {
                out.push(AlterClause::Comment { comment: found.comment.take() });
            }
            is_known = true;
            continue;
        }
        let is_assignment = c.peek_at(1) == Some(&Token::Symbol('='));
        is_known |= is_assignment || HARMLESS.contains(&keyword.as_str());
        match keyword.as_str() {
            _ if !is_known => return Err(Unclear("a clause of ALTER TABLE is not known")),
            "ORDER" => {
                order_by(c);
                break;
            }
            // What follows, commas and all, is about partitions, not the table.
            "PARTITION" => c.skip_all(),
            _ => {
                c.skip();
                if c.take_symbol('=') {
                    c.skip();
                }
            }
        }
    }
    if let Some(charset) = found.charset {
        out.push(AlterClause::DefaultCharset { charset });
    }
    Ok(())
}

/// `ORDER BY a, b DESC`: the commas are its own as long as what follows is no clause.
fn order_by(c: &mut Cursor<'_, '_>) {
    const CLAUSES: &[&str] = &["ADD", "DROP", "MODIFY", "CHANGE", "RENAME", "ALTER", "CONVERT"];
    loop {
        c.skip_element();
        let next = c.keyword_at(1);
        let is_clause = CLAUSES.contains(&&*next) || HARMLESS.contains(&&*next);
        if is_clause || !c.take_symbol(',') {
            return;
        }
    }
}

fn is_charset(c: &Cursor<'_, '_>) -> bool {
    let n = usize::from(c.is_word("DEFAULT"));
    match c.keyword_at(n).as_str() {
        "CHARSET" | "COLLATE" => true,
        "CHARACTER" | "CHAR" => c.is_word_at(n + 1, "SET"),
        _ => false,
    }
}
