//! Consistent reads whose place in the log is known.

use std::time::Duration;

use lakeward_core::{Error, Result, TableId};

use super::Job;
use crate::catalog;
use crate::client::{ServerFacts, failure, literal, run};
use crate::offset::FilePosition;
use crate::wire::Connection;

/// How long the server may take to commit what it has already sent to its replicas.
const VISIBLE_SECONDS: u32 = 30;

pub async fn start_transaction(connection: &mut Connection) -> Result<()> {
    let sql = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
    run(connection, sql, "could not begin a consistent read").await
}

/// Begins a view and returns the place up to which it surely holds everything.
pub async fn begin_view(
    connection: &mut Connection,
    facts: &ServerFacts,
    job: &Job,
) -> Result<FilePosition> {
    if facts.is_mariadb() {
        // The server sends a transaction to replicas before it commits it to the tables.
        for _ in 0..VISIBLE_SECONDS * 100 {
            start_transaction(connection).await?;
            let at = view_place(connection).await?;
            if job.last_group.as_ref().is_none_or(|last| at >= *last) {
                return Ok(at);
            }
            run(connection, "ROLLBACK", "could not end a consistent read").await?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        return Err(invisible());
    }
    if let Some(visible) = job.visible.as_ref().filter(|v| !v.is_empty()) {
        let sql = format!(
            "SELECT WAIT_FOR_EXECUTED_GTID_SET({}, {VISIBLE_SECONDS})",
            literal(&visible.to_string())
        );
        let waited = connection
            .query(&sql)
            .await
            .map_err(|e| failure(e, "could not wait for a transaction to be visible"))?;
        if waited.scalar() != Some("0") {
            return Err(invisible());
        }
    }
    start_transaction(connection).await?;
    Ok(job.registered.clone())
}

fn invisible() -> Error {
    Error::transient("the server does not commit what it has written to its log")
}

/// MariaDB: the place in the log of the view that the session has.
async fn view_place(connection: &mut Connection) -> Result<FilePosition> {
    let status = connection
        .query("SHOW STATUS LIKE 'binlog_snapshot_%'")
        .await
        .map_err(|e| failure(e, "could not ask for the place of a consistent read"))?;
    let value = |name: &str| {
        let row = status.rows.iter().find(|r| {
            r.first().and_then(|n| n.as_deref()).is_some_and(|n| n.eq_ignore_ascii_case(name))
        })?;
        row.get(1)?.clone()
    };
    let file = value("binlog_snapshot_file").filter(|f| !f.is_empty());
    let pos = value("binlog_snapshot_position").and_then(|p| p.parse().ok());
    let (file, pos) = file.zip(pos).ok_or_else(|| {
        Error::config(
            "the server gives no place in its binlog for a consistent read; is log_bin on?",
        )
    })?;
    Ok(FilePosition::new(file, pos))
}

/// From here to the end of the transaction no DDL can change the table.
pub async fn hold_shape(connection: &mut Connection, table: &TableId) -> Result<()> {
    let sql = format!("SELECT 1 FROM {} LIMIT 0", catalog::name(table));
    connection
        .query(&sql)
        .await
        .map(|_| ())
        .map_err(|e| failure(e, "could not open the table").with("table", table))
}
