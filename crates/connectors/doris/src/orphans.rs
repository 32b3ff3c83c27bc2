//! Loads that an earlier run precommitted and that no checkpoint counts on. They are aborted at once: a schema change would
//! wait for them, and so would the cluster's limit of open transactions.

use lakeward_core::{Result, TableId};

use crate::client::answer::LabelState;
use crate::client::{literal, quoted};
use crate::label;
use crate::session::Session;

/// Earlier runs that are looked at where Doris cannot list labels.
const RUNS: u64 = 16;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) database: String,
    pub(crate) label: String,
    pub(crate) txn_id: Option<i64>,
}

/// Those of the tables that fall to this committer. Nothing that a restored checkpoint counts on may be open any more.
pub(crate) async fn find(session: &Session, share: (usize, usize)) -> Result<Vec<Orphan>> {
    let owned = |hash: u64| hash % share.1.max(1) as u64 == share.0 as u64;
    let tables = session.progress.all(&session.cluster, &session.pipeline).await?;
    let tables: Vec<TableId> =
        tables.into_iter().map(|t| t.table).filter(|t| owned(t.stable_hash())).collect();
    let mut databases: Vec<&str> = tables.iter().map(|t| &*t.namespace).collect();
    databases.sort_unstable();
    databases.dedup();
    let mut found = Vec::new();
    for database in databases {
        let listed = listed(session, database).await;
        match listed {
            Ok(labels) => {
                found.extend(labels.into_iter().filter(|(table, _)| owned(*table)).map(|(_, o)| o))
            }
            Err(error) => {
                tracing::debug!(%error, "doris does not list labels; asking for each");
                let tables = tables.iter().filter(|t| &*t.namespace == database);
                found.extend(probed(session, tables).await?);
            }
        }
    }
    Ok(found)
}

/// Doris from 3.0 on lists the transactions whose label is like a pattern.
async fn listed(session: &Session, database: &str) -> Result<Vec<(u64, Orphan)>> {
    let pattern = format!("{}%", session.labels.of_pipeline());
    let sql = format!(
        "SHOW TRANSACTION FROM {} WHERE LABEL LIKE {}",
        quoted(database),
        literal(&pattern)
    );
    let rows = session.cluster.sql.rows(&sql).await?;
    let orphans = rows.iter().filter_map(|row| {
        let label = row.get("Label")?;
        let parsed = label::Parsed::of(label, &session.labels)?;
        let state = LabelState::parse(row.get("TransactionStatus")?)?;
        let open = matches!(state, LabelState::Prepare | LabelState::Precommitted);
        if !open || parsed.incarnation >= session.incarnation {
            return None;
        }
        let txn_id = row.get("TransactionId").and_then(|id| id.parse().ok());
        let orphan = Orphan { database: database.to_string(), label: label.to_string(), txn_id };
        Some((parsed.table, orphan))
    });
    Ok(orphans.collect())
}

/// Labels of a run are numbered without gaps, so they can be asked for one by one: from the first that is not known to be
/// committed, until as many as can be on the way at once are unknown. Nothing is begun by asking.
async fn probed(session: &Session, tables: impl Iterator<Item = &TableId>) -> Result<Vec<Orphan>> {
    let reached = session.progress.reached(&session.cluster, &session.pipeline).await?;
    let gap = session.cluster.config.flush_queue_size;
    let mut found = Vec::new();
    for table in tables {
        let known = reached.get(table);
        let first =
            known.map_or(1, |r| r.incarnation).max(session.incarnation.saturating_sub(RUNS));
        let writers = known.and_then(|r| r.next_parts.keys().max()).map_or(1, |w| w + 1);
        for incarnation in first.max(1)..session.incarnation {
            let labels = session.labels.of_run(incarnation);
            for writer in 0..writers.max(gap) {
                let committed = known.filter(|r| r.incarnation == incarnation);
                let mut part =
                    committed.and_then(|r| r.next_parts.get(&writer)).copied().unwrap_or(0);
                let mut unknown = 0;
                while unknown <= gap {
                    let label = labels.of_part(table, writer, part);
                    let state = session.cluster.label_state(&table.namespace, &label).await?;
                    match state {
                        LabelState::Unknown => unknown += 1,
                        LabelState::Prepare | LabelState::Precommitted => {
                            unknown = 0;
                            let database = table.namespace.to_string();
                            found.push(Orphan { database, label, txn_id: None });
                        }
                        _ => unknown = 0,
                    }
                    part += 1;
                }
            }
        }
    }
    Ok(found)
}
