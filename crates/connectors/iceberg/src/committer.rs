//! Makes epochs visible: every changed table of an epoch in one catalog transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use lakeward_core::{
    Clock, Committable, CommittedTable, Committer, Epoch, Error, ErrorKind, Result, TableId,
};

use crate::catalog::{CatalogChange, CommitOutcome, LoadedTable};
use crate::commit::snapshot::{Prepared, Start};
use crate::commit::work::{Work, holds_epoch, mark_progress};
use crate::committable::TableCommittable;
use crate::maintenance::Maintenance;
use crate::metrics::CommitMetrics;
use crate::session::Session;
use crate::table_state::{CommitGuard, TableHandle, TableState};

/// Tables that are prepared at the same time.
const TABLE_CONCURRENCY: usize = 16;
/// How often an epoch is built anew before the attempt is given up. Each round follows one foreign commit.
const MAX_ROUNDS: usize = 100;
/// How often an unknown outcome is looked into.
const MAX_UNKNOWN: usize = 3;

/// Commits the epochs of the tables that it owns. See the module.
pub struct IcebergCommitter {
    session: Arc<Session>,
    clock: Arc<dyn Clock>,
    metrics: CommitMetrics,
    maintenance: Maintenance,
}

/// One table on its way through the commit of an epoch.
struct Job {
    table: TableId,
    handle: Arc<TableHandle>,
    commit: CommitGuard,
    parts: Vec<TableCommittable>,
    step: Step,
}

enum Step {
    /// To be built on what the handle knows.
    Build,
    /// The catalog has moved on: to be loaded, and built on that.
    Reload,
    Ready(Box<Ready>),
    Done(Result<CommittedTable>),
}

struct Ready {
    base: LoadedTable,
    new: LoadedTable,
    prepared: Prepared,
    work: Work,
}

impl IcebergCommitter {
    pub(crate) fn new(
        session: Arc<Session>,
        clock: Arc<dyn Clock>,
        metrics: CommitMetrics,
        maintenance: Maintenance,
    ) -> Self {
        Self { session, clock, metrics, maintenance }
    }

    async fn jobs(&self, tables: BTreeMap<TableId, Vec<Committable>>) -> Result<Vec<Job>> {
        futures::stream::iter(tables)
            .map(|(table, committables)| async move {
                let handle = self.session.handle(&table).await;
                let decoded: Result<Vec<_>> =
                    committables.iter().map(TableCommittable::decode).collect();
                let (handle, parts, step) = match (handle, decoded) {
                    (Ok(handle), Ok(parts)) => (handle, parts, Step::Build),
                    (Ok(handle), Err(e)) => (handle, Vec::new(), Step::Done(Err(e))),
                    (Err(e), _) if e.kind().is_of_table() => {
                        let io = self.session.env.lake.file_io().clone();
                        let handle = Arc::new(TableHandle::new(table.clone(), io));
                        (handle, Vec::new(), Step::Done(Err(e)))
                    }
                    (Err(e), _) => return Err(e),
                };
                let commit = handle.lock_for_commit().await;
                Ok(Job { table, handle, commit, parts, step })
            })
            .buffered(TABLE_CONCURRENCY)
            .try_collect()
            .await
    }

    /// Brings a table to `Ready` or `Done`. An error that belongs to the table stays with it.
    async fn advance(&self, job: &mut Job, epoch: &Epoch) -> Result<()> {
        let reload = match job.step {
            Step::Build => false,
            Step::Reload => true,
            Step::Ready(_) | Step::Done(_) => return Ok(()),
        };
        match self.build(job, epoch, reload).await {
            Ok(step) => job.step = step,
            Err(e) if e.kind().is_of_table() => job.step = Step::Done(Err(e)),
            Err(e) => return Err(e.with("table", &job.table)),
        }
        Ok(())
    }

    async fn build(&self, job: &Job, epoch: &Epoch, reload: bool) -> Result<Step> {
        if reload {
            self.session.reload(&job.handle, &job.commit).await?;
        }
        let state = job.handle.state().ok();
        let work = Work::merge(job.parts.clone(), state.as_deref());
        if work.stale_rows > 0 {
            tracing::info!(table = %job.table, rows = work.stale_rows,
                "rows of a table that was dropped since are left uncommitted");
        }
        let Some(state) = state else {
            self.settle(job, &work).await;
            return Ok(already("", 0));
        };
        if holds_epoch(&state, &self.session.incarnation, epoch)? {
            self.settle(job, &work).await;
            return Ok(already(&version(&state), work.rows.total()));
        }
        if work.is_empty() {
            self.settle(job, &work).await;
            let (version, rows) = (version(&state), work.rows.total());
            return Ok(Step::Done(Ok(CommittedTable { version, rows, already: false })));
        }
        let (mut changes, missed) = work.changes(&job.handle, &state).await?;
        self.metrics.missed.add(missed);
        mark_progress(&mut changes, &self.session.incarnation, epoch, &work)?;
        let workshop = self.session.workshop(self.clock.now_ms());
        let prepared = workshop.prepare(&job.handle, &state, Start::of(&state), changes).await?;
        let ready = stage(&self.session, &state, prepared, work).await?;
        Ok(Step::Ready(Box::new(ready)))
    }

    /// Sends what is ready to the catalog. Returns false when something is to be built anew.
    async fn send(&self, jobs: &mut [Job], unknown: &mut usize) -> Result<bool> {
        let changes: Vec<CatalogChange> = jobs.iter().filter_map(Job::change).collect();
        if changes.is_empty() {
            return Ok(true);
        }
        let env = &self.session.env;
        let written = jobs.iter().filter_map(Job::ready).flat_map(|r| &r.prepared.written);
        env.lake.make_durable(written).await?;
        env.faults.at("before-catalog-commit")?;
        let sent = env.catalog.commit(&self.session.incarnation, &changes).await;
        let outcome = match sent {
            Ok(CommitOutcome::Done) => {
                env.faults.at("catalog-answer-lost").map(|()| CommitOutcome::Done)
            }
            other => other,
        };
        match outcome {
            Ok(CommitOutcome::Done) => {
                env.faults.at("after-catalog-commit")?;
                self.install(jobs).await;
                Ok(true)
            }
            Ok(CommitOutcome::Conflict(tables)) => {
                for job in jobs.iter_mut().filter(|j| tables.contains(&j.table)) {
                    tracing::info!(table = %job.table,
                        "another program committed to the table; building the commit anew");
                    self.metrics.conflicts.add(1);
                    job.step = Step::Reload;
                }
                Ok(false)
            }
            Err(e) if e.kind() == ErrorKind::Transient && *unknown < MAX_UNKNOWN => {
                // Whether it landed is written in the tables: each is loaded again and asked for its progress.
                *unknown += 1;
                tracing::warn!(error = %e, "the outcome of a commit is unknown; looking at the tables");
                for job in jobs.iter_mut().filter(|j| matches!(j.step, Step::Ready(_))) {
                    job.step = Step::Reload;
                }
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    async fn install(&self, jobs: &mut [Job]) {
        for job in jobs.iter_mut().filter(|job| job.ready().is_some()) {
            let Step::Ready(ready) = std::mem::replace(&mut job.step, Step::Build) else {
                continue;
            };
            let Ready { new, prepared, work, .. } = *ready;
            self.metrics.snapshots.add(1);
            self.metrics.data_files.add(work.files.len() as u64);
            let mut state = prepared.state;
            state.metadata = new.metadata.clone();
            state.metadata_location = new.location.clone();
            let version = version(&state);
            {
                let guard = job.handle.lock().await;
                job.handle.install(&guard, Some(state));
                job.handle.settle(&guard, work.ids.iter().copied());
            }
            let rows = work.rows.total();
            job.step = Step::Done(Ok(CommittedTable { version, rows, already: false }));
            self.session.clean_up(&new, prepared.expired, prepared.expired_metadata).await;
        }
    }

    async fn settle(&self, job: &Job, work: &Work) {
        let guard = job.handle.lock().await;
        job.handle.settle(&guard, work.ids.iter().copied());
    }
}

impl Job {
    fn ready(&self) -> Option<&Ready> {
        match &self.step {
            Step::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    fn change(&self) -> Option<CatalogChange> {
        let ready = self.ready()?;
        Some(CatalogChange::Update {
            table: self.table.clone(),
            base: ready.base.clone(),
            new: ready.new.clone(),
            updates: ready.prepared.updates.clone(),
        })
    }
}

/// Puts a prepared commit's metadata where the catalog can take it over.
async fn stage(
    session: &Session,
    state: &TableState,
    mut prepared: Prepared,
    work: Work,
) -> Result<Ready> {
    let base =
        LoadedTable { metadata: state.metadata.clone(), location: state.metadata_location.clone() };
    let env = &session.env;
    let metadata = prepared.metadata.clone();
    let new = env.catalog.stage(Some(&base), metadata).await?;
    env.faults.at("after-metadata")?;
    prepared.written.push(new.location.to_string());
    prepared.written.extend(work.files.iter().map(|f| f.file.file_path().to_string()));
    Ok(Ready { base, new, prepared, work })
}

fn version(state: &TableState) -> String {
    state.metadata.current_snapshot_id().map(|id| id.to_string()).unwrap_or_default()
}

fn already(version: &str, rows: u64) -> Step {
    Step::Done(Ok(CommittedTable { version: version.to_string(), rows, already: true }))
}

#[async_trait]
impl Committer for IcebergCommitter {
    async fn commit(
        &mut self,
        epoch: &Epoch,
        tables: BTreeMap<TableId, Vec<Committable>>,
    ) -> Result<Vec<(TableId, Result<CommittedTable, Error>)>> {
        let started_ms = self.clock.now_ms();
        let mut jobs = self.jobs(tables).await?;
        let mut unknown = 0;
        let mut rounds = 0;
        loop {
            let this = &*self;
            futures::stream::iter(jobs.iter_mut().map(Ok))
                .try_for_each_concurrent(TABLE_CONCURRENCY, |job| this.advance(job, epoch))
                .await?;
            if self.send(&mut jobs, &mut unknown).await? {
                break;
            }
            rounds += 1;
            if rounds >= MAX_ROUNDS {
                return Err(Error::transient(
                    "other programs commit to the tables faster than this pipeline can",
                ));
            }
        }
        let mut outcomes = Vec::with_capacity(jobs.len());
        let mut changed = Vec::new();
        for job in jobs {
            let Step::Done(outcome) = job.step else {
                return Err(Error::bug("a table's commit came to no end").with("table", &job.table));
            };
            if outcome.as_ref().is_ok_and(|c| !c.already) {
                changed.push(job.handle.clone());
            }
            outcomes.push((job.table, outcome));
        }
        self.metrics.last_commit_ms.set(self.clock.now_ms() - started_ms);
        self.maintenance.after_commit(&self.session, &changed, self.clock.now_ms()).await;
        Ok(outcomes)
    }
}
