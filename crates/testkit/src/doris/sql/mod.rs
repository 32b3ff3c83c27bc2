//! Statements: which kind it is, who runs it, and what comes back.

mod alter;
mod column;
mod create;
mod insert;
mod lexer;
mod names;
mod schema_tables;
mod select;
mod show;
mod variables;

use std::collections::BTreeMap;
use std::fmt;

use super::cluster::Cluster;
use super::faults::{Fault, Moment};
use super::load::Condition;
use super::stand_in::{Shared, lock};
use lexer::{Token, Tokens};

/// What `SHOW FRONTENDS` says; the name tells that it is no Doris.
pub const VERSION: &str = "doris-3.0.0-lakeward-stand-in";
/// What the handshake and `version()` say, as Doris' do.
pub const MYSQL_VERSION: &str = "5.7.99";

/// What a connection remembers.
#[derive(Debug, Clone)]
pub struct Session {
    pub user: String,
    pub database: Option<String>,
    pub variables: BTreeMap<String, String>,
    pub connection_id: u32,
}

impl Session {
    pub fn new(user: String) -> Self {
        Self { user, database: None, variables: BTreeMap::new(), connection_id: 1 }
    }

    fn database(&self) -> Result<&str, SqlError> {
        self.database.as_deref().ok_or_else(|| SqlError::new(1046, "No database selected"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    pub code: u16,
    pub message: String,
}

impl SqlError {
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        let message = match message.starts_with("errCode") {
            true => message,
            false => format!("errCode = 2, detailMessage = {message}"),
        };
        Self { code, message }
    }

    fn syntax(message: String) -> Self {
        Self::new(1105, message)
    }

    fn refused(message: impl Into<String>) -> Self {
        Self::new(1105, message)
    }

    pub fn state(&self) -> &'static str {
        match self.code {
            1044 | 1045 => "28000",
            1046 => "3D000",
            1049 | 1051 | 1146 => "42000",
            _ => "HY000",
        }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.state(), self.message)
    }
}

/// The cluster's own refusals.
impl From<String> for SqlError {
    fn from(message: String) -> Self {
        let code = match message {
            ref m if m.starts_with("Unknown database") => 1049,
            ref m if m.starts_with("Unknown table") => 1051,
            _ => 1105,
        };
        Self::new(code, message)
    }
}

/// How a column of a result is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    Decimal,
    Date,
    DateTime,
    Text,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::TinyInt => "TINYINT",
            Self::SmallInt => "SMALLINT",
            Self::Int => "INT",
            Self::BigInt => "BIGINT",
            Self::Float => "FLOAT",
            Self::Double => "DOUBLE",
            Self::Decimal => "DECIMAL",
            Self::Date => "DATE",
            Self::DateTime => "DATETIME",
            Self::Text => "VARCHAR",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultColumn {
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultSet {
    pub columns: Vec<ResultColumn>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl ResultSet {
    /// All columns are texts.
    fn of_texts(names: &[&str]) -> Self {
        let columns = names
            .iter()
            .map(|name| ResultColumn { name: (*name).to_owned(), kind: Kind::Text })
            .collect();
        Self { columns, rows: Vec::new() }
    }

    fn push<S: Into<String>>(&mut self, row: impl IntoIterator<Item = S>) {
        self.rows.push(row.into_iter().map(|text| Some(text.into())).collect());
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done { affected_rows: u64 },
    Rows(ResultSet),
}

const DONE: Answer = Answer::Done { affected_rows: 0 };

/// Runs one statement.
pub async fn execute(
    shared: &Shared,
    session: &mut Session,
    sql: &str,
) -> Result<Answer, SqlError> {
    let fault = lock(shared).faults.take(Moment::Statement, None);
    match &fault {
        Some(Fault::Refuse(message)) => return Err(SqlError::refused(message.clone())),
        Some(Fault::Delay(time)) => tokio::time::sleep(*time).await,
        _ => {}
    }
    let mut tokens = Tokens::read(sql)?;
    lock(shared).advance();
    let Some(Token::Word(first)) = tokens.peek() else {
        return match tokens.peek() {
            None => Err(SqlError::new(1065, "Query was empty")),
            Some(_) => select::run(shared, session, &tokens).await,
        };
    };
    match first.to_ascii_uppercase().as_str() {
        "SELECT" | "WITH" => select::run(shared, session, &tokens).await,
        "SHOW" => show::run(&mut lock(shared), session, &mut tokens),
        "DESC" | "DESCRIBE" => show::describe(&mut lock(shared), session, &mut tokens),
        "USE" => use_database(&lock(shared), session, &mut tokens),
        "SET" => variables::set(session, &mut tokens),
        "CREATE" => create::run(&mut lock(shared), session, &mut tokens),
        "DROP" => drop_object(&mut lock(shared), session, &mut tokens),
        "TRUNCATE" => truncate(&mut lock(shared), session, &mut tokens),
        "ALTER" => alter::run(&mut lock(shared), session, &mut tokens),
        "INSERT" => insert::run(&mut lock(shared), session, &mut tokens),
        "DELETE" => delete(&mut lock(shared), session, &mut tokens),
        // All that has been committed can be seen in any session here.
        "SYNC" => Ok(DONE),
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "UPDATE" | "EXPLAIN" | "CANCEL" => {
            Err(SqlError::refused(format!("the stand-in does not know {first} statements")))
        }
        _ => Err(tokens.unexpected("a statement")),
    }
}

/// `[catalog.][database.]table`.
fn table_name(session: &Session, tokens: &mut Tokens) -> Result<(String, String), SqlError> {
    let mut parts = vec![tokens.name()?];
    while tokens.accept_sign('.') {
        parts.push(tokens.name()?);
    }
    let table = parts.pop().unwrap_or_default();
    let database = match parts.pop() {
        Some(database) => database,
        None => session.database()?.to_owned(),
    };
    match parts.pop() {
        Some(catalog) if catalog != "internal" => {
            Err(SqlError::refused(format!("Unknown catalog '{catalog}'")))
        }
        _ => Ok((database, table)),
    }
}

pub(super) fn use_database(
    cluster: &Cluster,
    session: &mut Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.expect("use")?;
    let mut name = tokens.name()?;
    if tokens.accept_sign('.') {
        name = tokens.name()?;
    }
    tokens.end()?;
    enter(cluster, session, &name)?;
    Ok(DONE)
}

/// Makes a database the current one.
pub fn enter(cluster: &Cluster, session: &mut Session, name: &str) -> Result<(), SqlError> {
    if !cluster.databases.contains_key(name) && name != schema_tables::SCHEMA {
        return Err(SqlError::new(1049, format!("Unknown database '{name}'")));
    }
    session.database = Some(name.to_owned());
    Ok(())
}

fn drop_object(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.expect("drop")?;
    if tokens.accept("database") || tokens.accept("schema") {
        let lenient = tokens.accept("if exists");
        let name = tokens.name()?;
        tokens.accept("force");
        tokens.end()?;
        return match cluster.databases.remove(&name) {
            None if !lenient => Err(SqlError::new(
                1008,
                format!("Can't drop database '{name}'; database doesn't exist"),
            )),
            _ => Ok(DONE),
        };
    }
    tokens.expect("table")?;
    let lenient = tokens.accept("if exists");
    let (database, table) = table_name(session, tokens)?;
    tokens.accept("force");
    tokens.end()?;
    match cluster.database(&database)?.tables.remove(&table) {
        None if !lenient => Err(SqlError::new(1051, format!("Unknown table '{table}'"))),
        _ => Ok(DONE),
    }
}

fn truncate(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.expect("truncate table")?;
    let (database, table) = table_name(session, tokens)?;
    tokens.accept("force");
    tokens.end()?;
    let table = cluster.table(&database, &table)?;
    if table.open_job().is_some() {
        return Err(SqlError::refused(format!(
            "Table[{}]'s state(SCHEMA_CHANGE) is not NORMAL. Do not allow doing truncate",
            table.name
        )));
    }
    table.truncate();
    Ok(DONE)
}

fn delete(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.expect("delete from")?;
    let (database, table) = table_name(session, tokens)?;
    if !tokens.accept("where") {
        return Err(SqlError::refused(
            "Where clause is not set, use TRUNCATE TABLE to delete everything",
        ));
    }
    let condition =
        Condition::parse(tokens.rest().trim().trim_end_matches(';')).map_err(SqlError::refused)?;
    let table = cluster.table(&database, &table)?;
    let columns = table.columns.clone();
    if let Some(unknown) = condition.fields().find(|f| table.column(f).is_none()) {
        return Err(SqlError::refused(format!("Unknown column '{unknown}' in 'table list'")));
    }
    table.delete(|values| {
        let texts: Vec<Option<String>> =
            values.iter().zip(&columns).map(|(v, c)| v.print(&c.data_type)).collect();
        condition.holds(|name| {
            let at = columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))?;
            texts[at].as_deref()
        })
    });
    Ok(DONE)
}
