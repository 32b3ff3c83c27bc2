//! Schema changes that rewrite a table take Doris a while: they are jobs, one per table at a time.

use std::time::{Duration, Instant};

use lakeward_core::{Error, Result, TableId};

use crate::client::answer::shortened;
use crate::client::{Backoff, Cluster, literal, quoted};

pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(10);

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) state: String,
    pub(crate) progress: String,
}

/// The table's job that is on its way.
///
/// # Errors
/// None for a job that was cancelled: it shows in the table's columns.
pub(crate) async fn open(cluster: &Cluster, table: &TableId) -> Result<Option<Job>> {
    let sql = format!(
        "SHOW ALTER TABLE COLUMN FROM {} WHERE TableName = {} ORDER BY CreateTime DESC LIMIT 1",
        quoted(&table.namespace),
        literal(&table.name)
    );
    let rows = cluster.sql.rows(&sql).await?;
    let Some(job) = rows.first() else { return Ok(None) };
    let text = |column: &str| job.get(column).unwrap_or_default().to_string();
    match job.get("State").unwrap_or_default() {
        "PENDING" | "WAITING_TXN" | "RUNNING" => {
            Ok(Some(Job { state: text("State"), progress: text("Progress") }))
        }
        "CANCELLED" => {
            let why = shortened(job.get("Msg").unwrap_or_default());
            tracing::warn!(%table, %why, "the newest schema change of the table was cancelled");
            Ok(None)
        }
        "FINISHED" => Ok(None),
        other => Err(Error::transient("a schema change of doris is in an unknown state")
            .with("table", table)
            .with("state", other)),
    }
}

/// Waits until no job of the table is on its way.
pub(crate) async fn wait(cluster: &Cluster, table: &TableId) -> Result<()> {
    let started = Instant::now();
    let mut reported = started;
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    while let Some(job) = open(cluster, table).await? {
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            report(table, &job, started.elapsed());
        }
        backoff.wait().await;
    }
    Ok(())
}

pub(crate) fn report(table: &TableId, job: &Job, since: Duration) {
    let Job { state, progress } = job;
    tracing::info!(%table, state, progress, seconds = since.as_secs(),
        "doris rewrites the table for a schema change");
}
