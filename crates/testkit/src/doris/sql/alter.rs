//! ALTER TABLE.

use super::super::cluster::Cluster;
use super::super::schema_change::{ColumnChange, Place};
use super::lexer::{Token, Tokens};
use super::{Answer, DONE, Session, SqlError, column, create, names, table_name};

pub fn run(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.expect("alter table")?;
    let (database, table) = table_name(session, tokens)?;
    // The table has to be there, whatever is to be done.
    cluster.table(&database, &table)?;
    if tokens.accept("set") {
        let properties = create::properties(tokens)?;
        tokens.end()?;
        cluster.table(&database, &table)?.properties.extend(properties);
        return Ok(DONE);
    }
    if tokens.accept("enable feature") {
        let feature = tokens.text()?;
        tokens.end()?;
        if feature == "UPDATE_FLEXIBLE_COLUMNS" {
            let name = "enable_unique_key_skip_bitmap_column".to_owned();
            cluster.table(&database, &table)?.properties.insert(name, "true".to_owned());
        }
        return Ok(DONE);
    }
    if tokens.accept("modify comment") {
        let comment = tokens.text()?;
        tokens.end()?;
        cluster.table(&database, &table)?.comment = comment;
        return Ok(DONE);
    }
    if is_rename_of_table(tokens) {
        tokens.expect("rename")?;
        let new = tokens.name()?;
        tokens.end()?;
        return rename_table(cluster, &database, &table, &new);
    }
    let mut changes = Vec::new();
    loop {
        parse_change(tokens, &mut changes)?;
        if !tokens.accept_sign(',') {
            break;
        }
    }
    tokens.end()?;
    check_mixture(&changes)?;
    cluster.alter(&database, &table, &changes)?;
    Ok(DONE)
}

fn is_rename_of_table(tokens: &Tokens) -> bool {
    let is = |ahead: usize, word: &str| matches!(tokens.peek_at(ahead), Some(Token::Word(w)) if w.eq_ignore_ascii_case(word));
    is(0, "rename") && !is(1, "column") && !is(1, "rollup") && !is(1, "partition")
}

fn rename_table(
    cluster: &mut Cluster,
    database: &str,
    table: &str,
    new: &str,
) -> Result<Answer, SqlError> {
    names::check_table(new)?;
    let database = cluster.database(database)?;
    if table == new {
        return Err(SqlError::refused("Same table name"));
    }
    if database.tables.contains_key(new) {
        return Err(SqlError::refused(format!("Table name[{new}] is already used")));
    }
    if let Some(mut found) = database.tables.remove(table) {
        found.name = new.to_owned();
        database.tables.insert(new.to_owned(), found);
    }
    Ok(DONE)
}

fn parse_change(tokens: &mut Tokens, changes: &mut Vec<ColumnChange>) -> Result<(), SqlError> {
    if tokens.accept("add column") {
        if tokens.accept_sign('(') {
            loop {
                changes.push(ColumnChange::Add(column::parse(tokens)?, Place::Default));
                if !tokens.accept_sign(',') {
                    break;
                }
            }
            return tokens.expect_sign(')');
        }
        let column = column::parse(tokens)?;
        changes.push(ColumnChange::Add(column, place(tokens)?));
    } else if tokens.accept("drop column") {
        changes.push(ColumnChange::Drop(tokens.name()?));
    } else if tokens.accept("rename column") {
        let from = tokens.name()?;
        tokens.accept("to");
        let to = tokens.name()?;
        names::check_column(&to)?;
        changes.push(ColumnChange::Rename(from, to));
    } else if tokens.accept("modify column") {
        let ahead = tokens.peek_at(1);
        if matches!(ahead, Some(Token::Word(w)) if w.eq_ignore_ascii_case("comment")) {
            let name = tokens.name()?;
            tokens.expect("comment")?;
            changes.push(ColumnChange::Comment(name, tokens.text()?));
        } else {
            let column = column::parse(tokens)?;
            changes.push(ColumnChange::Modify(column, place(tokens)?));
        }
    } else {
        return Err(tokens.unexpected("a change that the stand-in knows"));
    }
    Ok(())
}

fn place(tokens: &mut Tokens) -> Result<Place, SqlError> {
    if tokens.accept("first") {
        Ok(Place::First)
    } else if tokens.accept("after") {
        Ok(Place::After(tokens.name()?))
    } else {
        Ok(Place::Default)
    }
}

/// Adding, dropping and modifying go together; a rename stands alone, comments among themselves.
fn check_mixture(changes: &[ColumnChange]) -> Result<(), SqlError> {
    let kind = |change: &ColumnChange| match change {
        ColumnChange::Rename(..) => "RENAME",
        ColumnChange::Comment(..) => "MODIFY_COLUMN_COMMENT",
        _ => "SCHEMA_CHANGE",
    };
    for pair in changes.windows(2) {
        let (a, b) = (kind(&pair[0]), kind(&pair[1]));
        if a != b || a == "RENAME" {
            return Err(SqlError::refused(format!(
                "Alter operation {b} conflicts with operation {a}"
            )));
        }
    }
    Ok(())
}
