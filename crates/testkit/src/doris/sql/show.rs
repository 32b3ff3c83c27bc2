//! SHOW and DESC.

use super::super::cluster::{Cluster, Database};
use super::super::table::{KeysModel, Table};
use super::super::transaction::Transaction;
use super::column::{self, escape};
use super::lexer::{Token, Tokens};
use super::{Answer, ResultSet, Session, SqlError, VERSION, schema_tables, table_name, variables};

pub fn run(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.expect("show")?;
    for scope in ["session", "global", "full"] {
        tokens.accept(scope);
    }
    let result = if tokens.accept("databases") || tokens.accept("schemas") {
        databases(cluster, &Like::parse(tokens)?)
    } else if tokens.accept("tables") {
        tables(cluster, session, tokens)?
    } else if tokens.accept("create table") {
        let (database, table) = table_name(session, tokens)?;
        let mut result = ResultSet::of_texts(&["Table", "Create Table"]);
        let table = cluster.table(&database, &table)?;
        result.push([table.name.clone(), create_statement(table)]);
        result
    } else if tokens.accept("create database") || tokens.accept("create schema") {
        let name = tokens.name()?;
        cluster.database(&name)?;
        let mut result = ResultSet::of_texts(&["Database", "Create Database"]);
        result.push([name.clone(), format!("CREATE DATABASE `{name}`")]);
        result
    } else if tokens.accept("columns") || tokens.accept("fields") {
        if !tokens.accept("from") {
            tokens.expect("in")?;
        }
        let (mut database, table) = table_name(session, tokens)?;
        if tokens.accept("from") || tokens.accept("in") {
            database = tokens.name()?;
        }
        columns(cluster.table(&database, &table)?)
    } else if tokens.accept("backends") {
        backends(cluster)
    } else if tokens.accept("frontends") {
        frontends(cluster)
    } else if tokens.accept("transaction") {
        transaction(cluster, session, tokens)?
    } else if tokens.accept("alter table column") {
        alter_jobs(cluster, session, tokens)?
    } else if tokens.accept("variables") {
        let like = Like::parse(tokens)?;
        variables::show(session, |name| like.fits(name))
    } else if tokens.accept("proc") {
        proc(cluster, &tokens.text()?)?
    } else if tokens.accept("partitions") {
        return Err(SqlError::refused("the stand-in has no partitions to show"));
    } else if tokens.accept("warnings") || tokens.accept("errors") {
        ResultSet::of_texts(&["Level", "Code", "Message"])
    } else if tokens.accept("engines") {
        let mut result = ResultSet::of_texts(&["Engine", "Support", "Comment"]);
        result.push(["Olap", "YES", "Default storage engine of palo"]);
        result
    } else if tokens.accept("collation") || tokens.accept("character set") {
        ResultSet::of_texts(&["Collation", "Charset"])
    } else {
        return Err(tokens.unexpected("something the stand-in can show"));
    };
    tokens.end()?;
    Ok(Answer::Rows(result))
}

pub fn describe(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.next();
    let (database, table) = table_name(session, tokens)?;
    tokens.accept("all");
    tokens.end()?;
    Ok(Answer::Rows(columns(cluster.table(&database, &table)?)))
}

/// `LIKE '…'`, or anything.
struct Like(Option<String>);

impl Like {
    fn parse(tokens: &mut Tokens) -> Result<Self, SqlError> {
        Ok(Self(if tokens.accept("like") { Some(tokens.text()?) } else { None }))
    }

    fn fits(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|pattern| like(pattern.as_bytes(), name.as_bytes()))
    }
}

fn like(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'%', rest @ ..] => (0..=text.len()).any(|at| like(rest, &text[at..])),
        [b'_', rest @ ..] => !text.is_empty() && like(rest, &text[1..]),
        [b'\\', sign, rest @ ..] => text.first() == Some(sign) && like(rest, &text[1..]),
        [sign, rest @ ..] => text.first() == Some(sign) && like(rest, &text[1..]),
    }
}

fn databases(cluster: &Cluster, like: &Like) -> ResultSet {
    let mut result = ResultSet::of_texts(&["Database"]);
    let own = cluster.databases.keys().map(String::as_str);
    for name in own.chain([schema_tables::SCHEMA]).filter(|name| like.fits(name)) {
        result.push([name]);
    }
    result.rows.sort();
    result
}

fn tables(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<ResultSet, SqlError> {
    let database = match tokens.accept("from") || tokens.accept("in") {
        true => tokens.name()?,
        false => session.database()?.to_owned(),
    };
    let like = Like::parse(tokens)?;
    let mut result = ResultSet::of_texts(&[&format!("Tables_in_{database}")]);
    for name in cluster.database(&database)?.tables.keys().filter(|name| like.fits(name)) {
        result.push([name.as_str()]);
    }
    Ok(result)
}

fn columns(table: &Table) -> ResultSet {
    let mut result = ResultSet::of_texts(&["Field", "Type", "Null", "Key", "Default", "Extra"]);
    for column in &table.columns {
        let yes = |is: bool, yes: &str, no: &str| if is { yes.to_owned() } else { no.to_owned() };
        let extra = match (column.is_key, table.model) {
            (false, KeysModel::Unique) if !table.is_merge_on_write() => "REPLACE",
            (false, _) => "NONE",
            (true, _) => "",
        };
        result.rows.push(vec![
            Some(column.name.clone()),
            Some(column.data_type.to_string()),
            Some(yes(column.nullable, "Yes", "No")),
            Some(yes(column.is_key, "true", "false")),
            column.default.clone(),
            Some(extra.to_owned()),
        ]);
    }
    result
}

/// As SHOW CREATE TABLE has it; the stand-in takes it again.
pub fn create_statement(table: &Table) -> String {
    let columns: Vec<String> =
        table.columns.iter().map(|c| format!("  {}", column::print(c))).collect();
    let keys: Vec<String> =
        table.columns.iter().filter(|c| c.is_key).map(|c| format!("`{}`", c.name)).collect();
    let model = match table.model {
        KeysModel::Unique => "UNIQUE KEY",
        KeysModel::Duplicate => "DUPLICATE KEY",
    };
    let mut out = format!(
        "CREATE TABLE `{}` (\n{}\n) ENGINE=OLAP\n{model}({})\n",
        table.name,
        columns.join(",\n"),
        keys.join(", ")
    );
    if !table.comment.is_empty() {
        out.push_str(&format!("COMMENT \"{}\"\n", escape(&table.comment)));
    }
    if let Some(partition) = &table.partition {
        out.push_str(&format!("{partition}\n"));
    }
    let properties: Vec<String> = table
        .properties
        .iter()
        .map(|(name, value)| format!("\"{}\" = \"{}\"", escape(name), escape(value)))
        .collect();
    out.push_str(&table.distribution);
    if !properties.is_empty() {
        out.push_str(&format!("\nPROPERTIES (\n{}\n)", properties.join(",\n")));
    }
    out.push(';');
    out
}

fn backends(cluster: &Cluster) -> ResultSet {
    let mut result = ResultSet::of_texts(&[
        "BackendId",
        "Host",
        "HeartbeatPort",
        "BePort",
        "HttpPort",
        "BrpcPort",
        "Alive",
        "SystemDecommissioned",
        "Version",
    ]);
    for (index, node) in cluster.backends.iter().enumerate() {
        let (id, port, alive) = (10_001 + index, node.http_port, node.alive);
        result.push([
            id.to_string(),
            "127.0.0.1".into(),
            "-1".into(),
            "-1".into(),
            port.to_string(),
            "-1".into(),
            alive.to_string(),
            "false".into(),
            VERSION.into(),
        ]);
    }
    result
}

fn frontends(cluster: &Cluster) -> ResultSet {
    let mut result = ResultSet::of_texts(&[
        "Name",
        "Host",
        "EditLogPort",
        "HttpPort",
        "QueryPort",
        "Role",
        "IsMaster",
        "Alive",
        "Version",
    ]);
    let master = cluster.frontends.iter().position(|f| f.alive);
    for (index, node) in cluster.frontends.iter().enumerate() {
        result.push([
            format!("fe_{index}"),
            "127.0.0.1".into(),
            "-1".into(),
            node.http_port.to_string(),
            node.mysql_port.to_string(),
            "FOLLOWER".into(),
            (Some(index) == master).to_string(),
            node.alive.to_string(),
            VERSION.into(),
        ]);
    }
    result
}

const TRANSACTION_COLUMNS: &[&str] = &[
    "TransactionId",
    "Label",
    "Coordinator",
    "TransactionStatus",
    "LoadJobSourceType",
    "PrepareTime",
    "PreCommitTime",
    "CommitTime",
    "PublishTime",
    "FinishTime",
    "Reason",
    "ErrorReplicasCount",
    "ListenerId",
    "TimeoutMs",
    "ErrMsg",
];

fn transaction_row(transaction: &Transaction) -> Vec<String> {
    vec![
        transaction.id.to_string(),
        transaction.label.clone(),
        "BE: 127.0.0.1".into(),
        transaction.status.name().into(),
        "BACKEND_STREAMING".into(),
        transaction.prepared.clone(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        transaction.reason.clone(),
        "0".into(),
        "-1".into(),
        transaction.timeout().as_millis().to_string(),
        String::new(),
    ]
}

fn transaction(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<ResultSet, SqlError> {
    let database = match tokens.accept("from") || tokens.accept("in") {
        true => tokens.name()?,
        false => session.database()?.to_owned(),
    };
    tokens.expect("where")?;
    let by = tokens.name()?.to_ascii_lowercase();
    let similar = tokens.accept("like");
    if !similar {
        tokens.expect_sign('=')?;
    }
    let wanted = match tokens.next() {
        Some(Token::Text(text) | Token::Number(text)) => text,
        _ => return Err(tokens.unexpected("an id, a label or a status")),
    };
    let transactions = &cluster.database(&database)?.transactions;
    let found: Vec<&Transaction> = transactions
        .all()
        .rev()
        .filter(|t| match by.as_str() {
            "id" => t.id.to_string() == wanted,
            "label" if similar => like(wanted.as_bytes(), t.label.as_bytes()),
            "label" => t.label == wanted,
            "status" => t.status.name().eq_ignore_ascii_case(&wanted),
            _ => false,
        })
        .collect();
    match by.as_str() {
        "id" if found.is_empty() => {
            return Err(SqlError::refused(format!("transaction with id {wanted} does not exist")));
        }
        "label" if found.is_empty() && !similar => {
            return Err(SqlError::refused(format!(
                "transaction with label {wanted} does not exist"
            )));
        }
        "id" | "label" | "status" => {}
        _ => {
            return Err(SqlError::refused(
                "Where clause should looks like: ID = $transaction_id, or LABEL = 'label', or STATUS \
                 = 'prepare/precommitted/committed/visible/aborted'",
            ));
        }
    }
    let mut result = ResultSet::of_texts(TRANSACTION_COLUMNS);
    found.into_iter().for_each(|t| result.push(transaction_row(t)));
    Ok(result)
}

fn alter_jobs(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<ResultSet, SqlError> {
    let database = match tokens.accept("from") || tokens.accept("in") {
        true => tokens.name()?,
        false => session.database()?.to_owned(),
    };
    let mut only = None;
    if tokens.accept("where") {
        let by = tokens.name()?;
        tokens.expect_sign('=')?;
        only = Some((by.to_ascii_lowercase(), tokens.text()?));
    }
    let mut descending = false;
    if tokens.accept("order by") {
        tokens.name()?;
        descending = tokens.accept("desc");
        tokens.accept("asc");
    }
    let limit = match tokens.accept("limit") {
        true => tokens.number()?.parse().unwrap_or(usize::MAX),
        false => usize::MAX,
    };
    let mut result = ResultSet::of_texts(&[
        "JobId",
        "TableName",
        "CreateTime",
        "FinishTime",
        "IndexName",
        "IndexId",
        "OriginIndexId",
        "SchemaVersion",
        "TransactionId",
        "State",
        "Msg",
        "Progress",
        "Timeout",
    ]);
    let tables = cluster.database(&database)?.tables.values();
    let mut jobs: Vec<_> = tables.flat_map(|t| t.jobs.iter().map(move |job| (t, job))).collect();
    jobs.sort_by_key(|(_, job)| job.id);
    if descending {
        jobs.reverse();
    }
    for (table, job) in jobs {
        let fits = match &only {
            None => true,
            Some((by, wanted)) => match by.as_str() {
                "tablename" => *wanted == table.name,
                "state" => wanted.eq_ignore_ascii_case(job.state.name()),
                _ => {
                    return Err(SqlError::refused(
                        "The columns of TableName/IndexName/CreateTime/FinishTime/State are \
                         supported.",
                    ));
                }
            },
        };
        if !fits || result.rows.len() >= limit {
            continue;
        }
        result.push([
            job.id.to_string(),
            table.name.clone(),
            job.created.clone(),
            job.finished.clone().unwrap_or_else(|| "NULL".into()),
            table.name.clone(),
            (job.id + 1).to_string(),
            table.id.to_string(),
            "1:0".into(),
            job.watershed.to_string(),
            job.state.name().into(),
            job.message.clone(),
            if job.state.name() == "RUNNING" { "0/1".into() } else { "NULL".into() },
            "2592000".into(),
        ]);
    }
    Ok(result)
}

/// `/transactions`, `/transactions/DB`, `/transactions/DB/running` and `/finished`.
fn proc(cluster: &Cluster, path: &str) -> Result<ResultSet, SqlError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let unknown = || SqlError::refused(format!("Proc path '{path}' doesn't exist"));
    let of_id = |id: &str| -> Result<&Database, SqlError> {
        cluster.databases.values().find(|d| d.id.to_string() == id).ok_or_else(unknown)
    };
    let count = |database: &Database, running: bool| {
        database.transactions.all().filter(|t| t.status.is_running() == running).count()
    };
    match parts.as_slice() {
        ["dbs"] => {
            let mut result = ResultSet::of_texts(&["DbId", "DbName", "TableNum"]);
            for (name, database) in &cluster.databases {
                let tables = database.tables.len().to_string();
                result.push([database.id.to_string(), name.clone(), tables]);
            }
            Ok(result)
        }
        ["transactions"] => {
            let mut result = ResultSet::of_texts(&["DbId", "DbName", "RunningTransactionNum"]);
            for (name, database) in &cluster.databases {
                let running = count(database, true).to_string();
                result.push([database.id.to_string(), name.clone(), running]);
            }
            Ok(result)
        }
        ["transactions", id] => {
            let database = of_id(id)?;
            let mut result = ResultSet::of_texts(&["State", "Number"]);
            result.push(["running".to_owned(), count(database, true).to_string()]);
            result.push(["finished".to_owned(), count(database, false).to_string()]);
            Ok(result)
        }
        ["transactions", id, state @ ("running" | "finished")] => {
            let database = of_id(id)?;
            let mut result = ResultSet::of_texts(TRANSACTION_COLUMNS);
            let all = database.transactions.all().rev();
            all.filter(|t| t.status.is_running() == (*state == "running"))
                .for_each(|t| result.push(transaction_row(t)));
            Ok(result)
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(like(b"lw\\_a%", b"lw_abc"));
        assert!(!like(b"lw\\_a%", b"lwxabc"));
        assert!(like(b"_b%", b"ab"));
    }
}
