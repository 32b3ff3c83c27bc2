//! Commits the loads of an epoch, then notes in Doris how far its tables are.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use lakeward_core::{
    Committable, CommittedTable, Committer, Epoch, Error, OperatorContext, Result, TableId,
};

use crate::client::Loaded;
use crate::client::answer::LabelState;
use crate::committable::TableCommittable;
use crate::metrics::SinkMetrics;
use crate::orphans;
use crate::progress::Reached;
use crate::session::Session;

/// Tables whose loads are committed at the same time.
const TABLE_CONCURRENCY: usize = 8;

pub(crate) struct DorisCommitter {
    session: Arc<Session>,
    /// This committer among all: it owns the tables whose hash falls to it.
    share: (usize, usize),
    metrics: SinkMetrics,
}

/// What became of one table's loads.
enum Outcome {
    Committed {
        reached: Reached,
        committed: CommittedTable,
    },
    /// The cluster no longer has a load that the checkpoint counts on, and nothing of the table's epoch was committed.
    Lost(Error),
}

impl DorisCommitter {
    pub(crate) fn new(session: Arc<Session>, context: &OperatorContext) -> Self {
        let share = (context.index, context.parallelism);
        Self { session, share, metrics: SinkMetrics::new(&context.metrics) }
    }

    async fn commit_table(
        &self,
        table: &TableId,
        committables: &[Committable],
        epoch: &Epoch,
    ) -> Result<Outcome> {
        let parts: Vec<TableCommittable> =
            committables.iter().map(TableCommittable::decode).collect::<Result<_>>()?;
        let loads: Vec<&Loaded> = parts.iter().flat_map(|p| &p.loads).collect();
        let keyed = parts.iter().all(|p| p.keyed);
        let database = &*table.namespace;
        // Rows of a table that only grows cannot be loaded again once some of them are visible.
        if !keyed && loads.len() > 1 {
            for load in &loads {
                let Some(label) = &load.label else { continue };
                let state = self.session.cluster.label_state(database, label).await?;
                if matches!(state, LabelState::Aborted | LabelState::Unknown) {
                    return self.lost(database, &loads, 0, keyed, state).await;
                }
            }
        }
        let mut already = !loads.is_empty();
        for (done, load) in loads.iter().enumerate() {
            let Some(label) = &load.label else { continue };
            use crate::client::End;
            match self.session.cluster.commit(database, label, load.txn_id).await? {
                End::Committed => {
                    already = false;
                    self.metrics.commits.add(1);
                }
                End::Already => {}
                End::Lost(state) => return self.lost(database, &loads, done, keyed, state).await,
            }
        }
        let newest = parts.iter().map(|p| p.incarnation).max().unwrap_or(self.session.incarnation);
        let mut next_parts = BTreeMap::new();
        for part in parts.iter().filter(|p| p.incarnation == newest) {
            let next = next_parts.entry(part.writer).or_insert(0);
            *next = part.next_part.max(*next);
        }
        let version = loads.last().and_then(|l| l.txn_id).map(|id| id.to_string());
        Ok(Outcome::Committed {
            reached: Reached { offsets: epoch.offsets.clone(), incarnation: newest, next_parts },
            committed: CommittedTable {
                version: version.unwrap_or_else(|| epoch.checkpoint.to_string()),
                rows: committables.iter().map(|c| c.rows).sum(),
                already,
            },
        })
    }

    /// `done` loads of the table's epoch are committed; the next one is gone.
    async fn lost(
        &self,
        database: &str,
        loads: &[&Loaded],
        done: usize,
        keyed: bool,
        state: LabelState,
    ) -> Result<Outcome> {
        let label = loads.get(done).and_then(|l| l.label.clone()).unwrap_or_default();
        let why = match state {
            LabelState::Aborted => "doris has aborted a load that waited for its commit",
            _ => "doris no longer knows a load that waited for its commit",
        };
        // What is left of the epoch would be in the way of its being loaded anew.
        for load in &loads[done..] {
            let Some(label) = &load.label else { continue };
            let state = self.session.cluster.label_state(database, label).await?;
            if matches!(state, LabelState::Precommitted | LabelState::Prepare) {
                self.session.cluster.abort(database, label, load.txn_id).await?;
            }
        }
        if done > 0 && !keyed {
            return Err(Error::data_invalid(format!(
                "{why}, and other rows of the same epoch are visible already; a table without a primary key cannot take \
                 them again. Read it anew with --resnapshot"
            ))
            .with("label", label));
        }
        Ok(Outcome::Lost(
            Error::epoch_lost(format!(
                "{why}; its rows are read again from the checkpoint before. If it took longer than the timeout: checkpoints \
                 must be more frequent, or stream_load_default_precommit_timeout_second larger"
            ))
            .with("label", label),
        ))
    }
}

#[async_trait]
impl Committer for DorisCommitter {
    async fn commit(
        &mut self,
        epoch: &Epoch,
        tables: BTreeMap<TableId, Vec<Committable>>,
    ) -> Result<Vec<(TableId, Result<CommittedTable, Error>)>> {
        self.session.check_owner().await?;
        let this = &*self;
        let mut work = Vec::with_capacity(tables.len());
        for (table, committables) in tables {
            work.push(async move {
                let outcome = this.commit_table(&table, &committables, epoch).await;
                let outcome = outcome.map_err(|e| e.with("table", &table));
                (table, outcome)
            });
        }
        let outcomes: Vec<(TableId, Result<Outcome>)> =
            futures::stream::iter(work).buffered(TABLE_CONCURRENCY).collect().await;
        let mut reached = Vec::new();
        let mut reports = Vec::new();
        let mut failure = None;
        for (table, outcome) in outcomes {
            match outcome {
                Ok(Outcome::Committed { reached: r, committed }) => {
                    reached.push((table.clone(), r));
                    reports.push((table, Ok(committed)));
                }
                Ok(Outcome::Lost(e)) => failure = Some(e.with("table", table)),
                Err(e) if e.kind().is_of_table() => reports.push((table, Err(e))),
                Err(e) => failure = Some(failure.unwrap_or(e)),
            }
        }
        // Also when others failed: what is committed must not be loaded again.
        if !reached.is_empty() {
            let Session { progress, cluster, pipeline, .. } = &*self.session;
            progress.write_reached(cluster, pipeline, epoch.checkpoint, &reached).await?;
        }
        self.metrics.oldest_precommitted_ms.set(0);
        match failure {
            Some(e) => Err(e),
            None => Ok(reports),
        }
    }

    async fn restored(&mut self) -> Result<()> {
        for orphan in orphans::find(&self.session, self.share).await? {
            let orphans::Orphan { database, label, txn_id } = orphan;
            tracing::info!(%database, %label, "taking back a load that an earlier run left behind");
            self.session.cluster.abort(&database, &label, txn_id).await?;
            self.metrics.aborted.add(1);
        }
        Ok(())
    }
}
