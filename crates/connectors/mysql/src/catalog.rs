//! Questions to the server about its log and its tables.

use lakeward_core::{Error, Result, TableId};

use crate::client::{ServerFacts, failure, literal, quoted};
use crate::offset::{FilePosition, GtidSet};
use crate::selector::TableSelector;
use crate::wire::{Connection, ResultSet, WireError};

/// Where the log ended when the server was asked.
#[derive(Debug, Clone)]
pub struct LogEnd {
    pub at: FilePosition,
    /// MySQL: the transactions executed. On MariaDB they are asked for apart: [`gtids_at`].
    pub gtids: Option<GtidSet>,
}

pub async fn log_end(connection: &mut Connection, facts: &ServerFacts) -> Result<LogEnd> {
    let doing = "could not ask where the log ends; the account needs REPLICATION CLIENT (BINLOG MONITOR on MariaDB)";
    let newer = !facts.is_mariadb() && facts.version_number >= (8, 2, 0);
    let sql = if newer { "SHOW BINARY LOG STATUS" } else { "SHOW MASTER STATUS" };
    let row = connection.query(sql).await.map_err(|e| failure(e, doing))?;
    let file = row.value("File");
    let pos = row.value("Position").and_then(|p| p.parse().ok());
    let Some((file, pos)) = file.zip(pos) else {
        return Err(Error::config(
            "the server writes no binlog; start it with log_bin and binlog_format=ROW",
        ));
    };
    let at = FilePosition::new(file, pos);
    let gtids = match row.value("Executed_Gtid_Set") {
        Some(text) if facts.gtid && !facts.is_mariadb() => Some(GtidSet::MySql(text.parse()?)),
        _ => None,
    };
    Ok(LogEnd { at, gtids })
}

/// The oldest byte of the log that the server still has.
pub async fn log_start(connection: &mut Connection) -> Result<FilePosition> {
    let logs = connection
        .query("SHOW BINARY LOGS")
        .await
        .map_err(|e| failure(e, "could not list the server's log files"))?;
    let first = logs.scalar().ok_or_else(|| Error::config("the server has no log files"))?;
    Ok(FilePosition::new(first, 4))
}

/// MariaDB: the transactions before a place in the log; `None` where the server does not know the place.
pub async fn gtids_at(connection: &mut Connection, at: &FilePosition) -> Result<Option<GtidSet>> {
    let sql = format!("SELECT BINLOG_GTID_POS({}, {})", literal(&at.file), at.pos);
    match connection.query(&sql).await {
        Ok(row) => row.scalar().map(|t| t.parse().map(GtidSet::MariaDb)).transpose(),
        Err(WireError::Server { .. }) => Ok(None),
        Err(e) => Err(failure(e, "could not ask for the GTIDs of a position")),
    }
}

/// MySQL: transactions that the server has thrown away.
pub async fn purged(connection: &mut Connection) -> Result<Option<GtidSet>> {
    let row = connection
        .query("SELECT @@global.gtid_purged")
        .await
        .map_err(|e| failure(e, "could not ask for the purged transactions"))?;
    row.scalar().map(|t| t.parse().map(GtidSet::MySql)).transpose()
}

/// The selected tables that exist, with the server's estimate of their rows and of a row's bytes.
#[derive(Debug, Clone)]
pub struct ListedTable {
    pub table: TableId,
    pub rows: u64,
    pub row_bytes: u64,
}

pub async fn list_tables(
    connection: &mut Connection,
    selector: &TableSelector,
) -> Result<Vec<ListedTable>> {
    let doing = "could not list the server's tables";
    let databases = connection.query("SHOW DATABASES").await.map_err(|e| failure(e, doing))?;
    let mut tables = Vec::new();
    for database in databases.rows.iter().filter_map(|r| r.first()?.as_deref()) {
        if !selector.may_select_in(database) {
            continue;
        }
        let sql = format!(
            "SELECT TABLE_NAME AS t, TABLE_ROWS AS n, AVG_ROW_LENGTH AS b FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA={} AND TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED') ORDER BY TABLE_NAME",
            literal(database)
        );
        let listed = connection.query(&sql).await.map_err(|e| failure(e, doing))?;
        for row in &listed.rows {
            let text = |i: usize| row.get(i).and_then(|v| v.as_deref());
            let Some(name) = text(0) else { continue };
            let table = TableId::new(database, name);
            if selector.is_selected(&table) {
                let number = |i: usize| text(i).and_then(|v| v.parse().ok()).unwrap_or(0);
                tables.push(ListedTable { table, rows: number(1), row_bytes: number(2) });
            }
        }
    }
    Ok(tables)
}

/// The text of SHOW CREATE TABLE; `None` where there is no such table, or it is a view or a sequence.
pub async fn create_statement(
    connection: &mut Connection,
    table: &TableId,
) -> Result<Option<String>> {
    match connection.query(&format!("SHOW CREATE TABLE {}", name(table))).await {
        // MariaDB shows a sequence as a table.
        Ok(row) if row.value("Create Table").is_some_and(keeps_history) => {
            Err(keeps_history_error().with("table", table))
        }
        Ok(row) => Ok(row
            .value("Create Table")
            .filter(|sql| !sql.contains(") ENGINE=") || !sql.contains(" SEQUENCE=1"))
            .map(str::to_string)),
        Err(WireError::Server { code: NO_TABLE | NO_DATABASE, .. }) => Ok(None),
        Err(e) => Err(failure(e, "could not read a table's definition").with("table", table)),
    }
}

pub fn keeps_history_error() -> Error {
    Error::schema_incompatible(
        "the table keeps its own history (WITH SYSTEM VERSIONING), whose rows cannot be told from others in the log; leave it \
         out with tables.exclude",
    )
}

/// Row events of such a table carry hidden columns and the rows of its past.
fn keeps_history(create_table: &str) -> bool {
    let options = create_table.rfind("\n) ").and_then(|at| create_table.get(at..));
    options.is_some_and(|options| options.contains(" WITH SYSTEM VERSIONING"))
}

pub const NO_DATABASE: u16 = 1049;
pub const NO_TABLE: u16 = 1146;

/// Default character sets of databases.
pub async fn database_charsets(connection: &mut Connection) -> Result<Vec<(String, String)>> {
    let sql =
        "SELECT SCHEMA_NAME AS s, DEFAULT_CHARACTER_SET_NAME AS c FROM information_schema.SCHEMATA";
    let set: ResultSet = connection
        .query(sql)
        .await
        .map_err(|e| failure(e, "could not read the databases' character sets"))?;
    let pair = |r: Vec<Option<String>>| {
        let mut values = r.into_iter();
        values.next().flatten().zip(values.next().flatten())
    };
    Ok(set.rows.into_iter().filter_map(pair).collect())
}

/// A table's name as SQL takes it.
pub fn name(table: &TableId) -> String {
    format!("{}.{}", quoted(&table.namespace), quoted(&table.name))
}

#[cfg(test)]
mod tests {
    use super::keeps_history;

    #[test]
    fn only_the_table_option_counts() {
        assert!(keeps_history(
            "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB WITH SYSTEM VERSIONING"
        ));
        assert!(!keeps_history(
            "CREATE TABLE `t` (\n `a` int COMMENT ' WITH SYSTEM VERSIONING'\n) ENGINE=InnoDB"
        ));
    }
}
