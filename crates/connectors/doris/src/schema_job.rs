//! Schema changes that rewrite a table take Doris a while: they are jobs, one per table at a time.

use std::time::{Duration, Instant};

use lakeward_core::{Error, Result, TableId};

use crate::client::answer::shortened;
use crate::client::{Backoff, Cluster, literal, quoted};

const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Waits until no job of the table is on its way.
///
/// # Errors
/// None of its own: a job that was cancelled shows in the table's columns.
pub(crate) async fn wait(cluster: &Cluster, table: &TableId) -> Result<()> {
    let sql = format!(
        "SHOW ALTER TABLE COLUMN FROM {} WHERE TableName = {} ORDER BY CreateTime DESC LIMIT 1",
        quoted(&table.namespace),
        literal(&table.name)
    );
    let started = Instant::now();
    let mut reported = started;
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    loop {
        let rows = cluster.sql.rows(&sql).await?;
        let Some(job) = rows.first() else { return Ok(()) };
        match job.get("State").unwrap_or_default() {
            "PENDING" | "WAITING_TXN" | "RUNNING" => {}
            "CANCELLED" => {
                let why = shortened(job.get("Msg").unwrap_or_default());
                tracing::warn!(%table, %why, "the newest schema change of the table was cancelled");
                return Ok(());
            }
            "FINISHED" => return Ok(()),
            other => {
                return Err(Error::transient("a schema change of doris is in an unknown state")
                    .with("table", table)
                    .with("state", other));
            }
        }
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            tracing::info!(
                %table,
                state = job.get("State"),
                progress = job.get("Progress"),
                seconds = started.elapsed().as_secs(),
                "doris rewrites the table for a schema change"
            );
        }
        backoff.wait().await;
    }
}
