//! The definition of a column, in CREATE and in ALTER.

use super::super::schema_change::default_value;
use super::super::table::Column;
use super::super::types::DorisType;
use super::lexer::{Token, Tokens};
use super::{SqlError, names};

/// `name type [KEY] [NOT NULL | NULL] [DEFAULT …] [COMMENT '…']`; the id is for the caller to give.
pub fn parse(tokens: &mut Tokens) -> Result<Column, SqlError> {
    let name = tokens.name()?;
    names::check_column(&name)?;
    let data_type = parse_type(tokens)?;
    let mut column = Column {
        id: 0,
        name,
        data_type,
        is_key: false,
        nullable: true,
        default: None,
        comment: String::new(),
    };
    loop {
        if tokens.accept("key") {
            column.is_key = true;
        } else if tokens.accept("not null") {
            column.nullable = false;
        } else if tokens.accept("null") {
            column.nullable = true;
        } else if tokens.accept("default") {
            column.default = default(tokens)?;
        } else if tokens.accept("comment") {
            column.comment = tokens.text()?;
        } else if tokens.accept("replace")
            || tokens.accept("sum")
            || tokens.accept("auto_increment")
        {
            return Err(SqlError::refused(
                "the stand-in knows neither aggregation nor AUTO_INCREMENT",
            ));
        } else {
            break;
        }
    }
    check(&column)?;
    Ok(column)
}

fn check(column: &Column) -> Result<(), SqlError> {
    if column.default.is_some() && matches!(column.data_type, DorisType::Json | DorisType::Variant)
    {
        let name = column.data_type.to_string().to_ascii_uppercase();
        return Err(SqlError::refused(format!(
            "{name} type column default value just support null"
        )));
    }
    default_value(column)?;
    Ok(())
}

fn parse_type(tokens: &mut Tokens) -> Result<DorisType, SqlError> {
    let begun = tokens.position();
    let name = tokens.name()?;
    if ["array", "map", "struct"].iter().any(|nested| name.eq_ignore_ascii_case(nested)) {
        return nested(tokens, begun);
    }
    let mut arguments = Vec::new();
    let mut wildcard = false;
    if tokens.accept_sign('(') {
        loop {
            if tokens.accept_sign('*') {
                wildcard = true;
            } else {
                let number = tokens.number()?;
                let number = number.parse().map_err(|_| tokens.unexpected("a length"))?;
                arguments.push(number);
            }
            if !tokens.accept_sign(',') {
                break;
            }
        }
        tokens.expect_sign(')')?;
    }
    if tokens.accept("unsigned") || tokens.accept("character set") || tokens.accept("collate") {
        return Err(tokens.unexpected("a type of Doris"));
    }
    if wildcard {
        arguments.clear();
    }
    match DorisType::from_name(&name, &arguments) {
        Some(Ok(data_type)) => Ok(data_type),
        Some(Err(why)) => Err(SqlError::refused(why)),
        None => Err(SqlError::syntax(format!(
            "mismatched input '{name}' expecting a type: there is no type {name}"
        ))),
    }
}

/// `ARRAY<INT>` and the like, with any depth.
fn nested(tokens: &mut Tokens, begun: usize) -> Result<DorisType, SqlError> {
    let mut depth = 0;
    if tokens.accept_sign('<') {
        depth = 1;
    }
    while depth > 0 {
        match tokens.next() {
            Some(Token::Sign('<')) => depth += 1,
            Some(Token::Sign('>')) => depth -= 1,
            Some(_) => {}
            None => return Err(tokens.unexpected("'>'")),
        }
    }
    let name = tokens.source()[begun..tokens.end_of_last()].to_ascii_lowercase();
    Ok(DorisType::Nested(name))
}

fn default(tokens: &mut Tokens) -> Result<Option<String>, SqlError> {
    if tokens.accept("null") {
        return Ok(None);
    }
    if tokens.accept("current_timestamp") {
        if tokens.peek() == Some(&Token::Sign('(')) {
            tokens.parenthesized()?;
        }
        return Ok(Some("CURRENT_TIMESTAMP".to_owned()));
    }
    if tokens.accept("true") {
        return Ok(Some("1".to_owned()));
    }
    if tokens.accept("false") {
        return Ok(Some("0".to_owned()));
    }
    let minus = if tokens.accept_sign('-') { "-" } else { "" };
    match tokens.next() {
        Some(Token::Text(text)) => Ok(Some(text)),
        Some(Token::Number(number)) => Ok(Some(format!("{minus}{number}"))),
        _ => Err(tokens.unexpected("a default")),
    }
}

/// As DDL has it.
pub fn print(column: &Column) -> String {
    let mut out = format!("`{}` {}", column.name, column.data_type);
    out.push_str(if column.nullable { " NULL" } else { " NOT NULL" });
    match column.default.as_deref() {
        None => {}
        Some("CURRENT_TIMESTAMP") => out.push_str(" DEFAULT CURRENT_TIMESTAMP"),
        Some(text) => out.push_str(&format!(" DEFAULT \"{}\"", escape(text))),
    }
    if !column.comment.is_empty() {
        out.push_str(&format!(" COMMENT \"{}\"", escape(&column.comment)));
    }
    out
}

/// For a text in double quotes.
pub fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
