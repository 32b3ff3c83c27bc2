//! INSERT INTO … VALUES.

use super::super::cluster::Cluster;
use super::super::schema_change::default_value;
use super::super::table::{
    Column, DELETE_SIGN, KeysModel, LoadedRow, LoadedRows, SEQUENCE_COLUMN, Sequence, Table,
};
use super::super::types::DorisType;
use super::super::value::{Unfit, Value};
use super::lexer::{Token, Tokens};
use super::{Answer, Session, SqlError, table_name};

/// A literal: nothing for NULL.
enum Literal {
    Text(Option<String>),
    Default,
}

#[derive(Clone)]
enum Target {
    Column(usize),
    DeleteSign,
    Sequence(DorisType),
}

pub fn run(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.expect("insert into")?;
    let (database, name) = table_name(session, tokens)?;
    let listed = match tokens.accept_sign('(') {
        true => Some(tokens.names()?),
        false => None,
    };
    if !tokens.accept("values") && !tokens.accept("value") {
        return Err(tokens.unexpected("VALUES: the stand-in knows no other INSERT"));
    }
    let table = cluster.table(&database, &name)?;
    let targets = targets(table, listed)?;
    let mut rows = Vec::new();
    loop {
        rows.push(row(tokens, table, &targets)?);
        if !tokens.accept_sign(',') {
            break;
        }
    }
    tokens.end()?;
    let affected_rows = rows.len() as u64;
    let loaded = LoadedRows {
        columns: table.columns.iter().map(|c| c.id).collect(),
        types: table.columns.iter().map(|c| c.data_type.clone()).collect(),
        rows,
        partial: false,
    };
    cluster.insert(&database, &name, loaded)?;
    Ok(Answer::Done { affected_rows })
}

fn targets(table: &Table, listed: Option<Vec<String>>) -> Result<Vec<Target>, SqlError> {
    let needed = || {
        SqlError::refused(format!(
            "Table {} has sequence column, need to specify the sequence column",
            table.name
        ))
    };
    let Some(names) = listed else {
        if matches!(table.sequence, Sequence::Hidden(_)) {
            return Err(needed());
        }
        return Ok((0..table.columns.len()).map(Target::Column).collect());
    };
    let mut targets = Vec::new();
    for name in &names {
        targets.push(match (table.position(name), &table.sequence) {
            (Some(at), _) => Target::Column(at),
            (None, Sequence::Hidden(data_type)) if name.eq_ignore_ascii_case(SEQUENCE_COLUMN) => {
                Target::Sequence(data_type.clone())
            }
            (None, _)
                if name.eq_ignore_ascii_case(DELETE_SIGN) && table.model == KeysModel::Unique =>
            {
                Target::DeleteSign
            }
            _ => {
                return Err(SqlError::new(
                    1054,
                    format!("Unknown column '{name}' in '{}'", table.name),
                ));
            }
        });
    }
    if matches!(table.sequence, Sequence::Hidden(_))
        && !targets.iter().any(|t| matches!(t, Target::Sequence(_)))
    {
        return Err(needed());
    }
    Ok(targets)
}

fn row(tokens: &mut Tokens, table: &Table, targets: &[Target]) -> Result<LoadedRow, SqlError> {
    tokens.expect_sign('(')?;
    let mut values: Vec<Option<Value>> = vec![None; table.columns.len()];
    let (mut sequence, mut deleted) = (None, false);
    for (at, target) in targets.iter().enumerate() {
        if at > 0 && !tokens.accept_sign(',') {
            return Err(SqlError::refused("Column count doesn't match value count"));
        }
        match (target, literal(tokens)?) {
            (Target::Column(_), Literal::Default) => {}
            (Target::Column(at), Literal::Text(text)) => {
                values[*at] = Some(value(text.as_deref(), &table.columns[*at].data_type)?);
            }
            (Target::Sequence(data_type), Literal::Text(text)) => {
                sequence = Some(value(text.as_deref(), data_type)?);
            }
            (Target::DeleteSign, Literal::Text(text)) => deleted = text.is_some_and(|t| t != "0"),
            (_, Literal::Default) => return Err(tokens.unexpected("a value")),
        }
    }
    if !tokens.accept_sign(')') {
        return Err(SqlError::refused("Column count doesn't match value count"));
    }
    for (slot, column) in values.iter_mut().zip(&table.columns) {
        let value = match slot.take() {
            Some(value) => value,
            None => default_value(column)?,
        };
        if value.is_null() && !column.nullable {
            return Err(no_null(column));
        }
        *slot = Some(value);
    }
    Ok(LoadedRow { values, sequence, deleted })
}

fn no_null(column: &Column) -> SqlError {
    SqlError::refused(format!(
        "Insert has filtered data in strict mode. column_name[{}], null value for not null column",
        column.name
    ))
}

fn value(text: Option<&str>, data_type: &DorisType) -> Result<Value, SqlError> {
    let Some(text) = text else { return Ok(Value::Null) };
    Value::parse(text, data_type, 0).map_err(|unfit| {
        let (Unfit::Conversion(why) | Unfit::Limit(why)) = unfit;
        SqlError::refused(format!("Insert has filtered data in strict mode. {why}"))
    })
}

fn literal(tokens: &mut Tokens) -> Result<Literal, SqlError> {
    for (word, text) in [("null", None), ("true", Some("1")), ("false", Some("0"))] {
        if tokens.accept(word) {
            return Ok(Literal::Text(text.map(str::to_owned)));
        }
    }
    if tokens.accept("default") {
        return Ok(Literal::Default);
    }
    let sign = match tokens.peek() {
        Some(Token::Sign(sign @ ('-' | '+'))) => Some(*sign),
        _ => None,
    };
    if sign.is_some() {
        tokens.next();
    }
    match tokens.next() {
        Some(Token::Text(text)) if sign.is_none() => Ok(Literal::Text(Some(text))),
        Some(Token::Number(number)) => {
            let minus = if sign == Some('-') { "-" } else { "" };
            Ok(Literal::Text(Some(format!("{minus}{number}"))))
        }
        Some(Token::Word(word)) if word.eq_ignore_ascii_case("now") => {
            tokens.parenthesized()?;
            Ok(Literal::Text(Some(super::super::cluster::now_text())))
        }
        _ => Err(tokens.unexpected("a literal: the stand-in evaluates no expressions in VALUES")),
    }
}
