//! What the parts of the sink share: for good, and within one attempt.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use iceberg::spec::SnapshotRef;
use lakeward_core::{Error, Result, TableId};

use crate::catalog::{Catalog, LoadedTable};
use crate::commit::snapshot::Workshop;
use crate::commit::{expiry, live};
use crate::config::IcebergConfig;
use crate::faults::FaultPoints;
use crate::names::{FileNames, Incarnation};
use crate::storage::Lake;
use crate::table_state::{CommitGuard, TableHandle};

/// What outlives attempts.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    pub(crate) config: Arc<IcebergConfig>,
    pub(crate) lake: Lake,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) faults: FaultPoints,
}

/// One attempt: who we are, and the tables that we have seen.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) env: Environment,
    pub(crate) incarnation: Incarnation,
    /// Names of the files that are written at commits.
    pub(crate) names: FileNames,
    tables: Mutex<HashMap<TableId, Arc<TableHandle>>>,
    /// Writers that were opened, so that one that is opened again for a table does not use a name twice.
    writers: AtomicU64,
    /// All parts of the attempt share this session. Otherwise each part has one of its own, and learns what the others did
    /// from the catalog alone.
    alone: bool,
}

impl Session {
    pub(crate) fn alone(env: Environment, incarnation: Incarnation) -> Self {
        let names = FileNames::new(&incarnation, "c");
        Self::of(env, incarnation, names, true)
    }

    /// Of one part among others. `member` is unlike the others' in the attempt.
    pub(crate) fn joined(env: Environment, incarnation: Incarnation, member: &str) -> Self {
        let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let author: String = member.chars().map(safe).collect();
        let names = FileNames::new(&incarnation, format!("c.{author}"));
        Self::of(env, incarnation, names, false)
    }

    fn of(env: Environment, incarnation: Incarnation, names: FileNames, alone: bool) -> Self {
        let (tables, writers) = (Mutex::default(), AtomicU64::new(0));
        Self { env, incarnation, names, tables, writers, alone }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Names a writer's files within the incarnation.
    pub(crate) fn author(&self, index: usize) -> String {
        format!("w{index}.{}", self.writers.fetch_add(1, Ordering::Relaxed))
    }

    /// The table's handle, loaded if the table exists; as it is in the catalog now, where others may have changed it.
    pub(crate) async fn handle(&self, table: &TableId) -> Result<Arc<TableHandle>> {
        let handle = self.unloaded(table);
        if !self.alone {
            self.refresh(&handle).await?;
        } else if handle.state().is_err() {
            let commit = handle.lock_for_commit().await;
            if handle.state().is_err() {
                self.reload(&handle, &commit).await?;
            }
        }
        Ok(handle)
    }

    /// Takes over what other parts of the attempt have done to the table.
    pub(crate) async fn refresh(&self, handle: &TableHandle) -> Result<()> {
        let commit = handle.lock_for_commit().await;
        self.take(handle, &commit).await.map(drop)
    }

    /// The handle of a table that has to exist.
    pub(crate) async fn existing(&self, table: &TableId) -> Result<Arc<TableHandle>> {
        let handle = self.handle(table).await?;
        handle.state()?;
        Ok(handle)
    }

    fn unloaded(&self, table: &TableId) -> Arc<TableHandle> {
        let mut tables = self.tables.lock().unwrap_or_else(|e| e.into_inner());
        let (file_io, alone) = (self.env.lake.file_io(), self.alone);
        let new = || Arc::new(TableHandle::of_session(table.clone(), file_io.clone(), alone));
        tables.entry(table.clone()).or_insert_with(new).clone()
    }

    /// Takes the table as the catalog has it now, after a look at it. Returns what was loaded, `None` when the table does
    /// not exist.
    ///
    /// # Errors
    /// `DataInvalid` when another program left the table in a state that cannot be followed.
    pub(crate) async fn reload(
        &self,
        handle: &TableHandle,
        commit: &CommitGuard,
    ) -> Result<Option<LoadedTable>> {
        let (loaded, same_rows) = self.take(handle, commit).await?;
        if !same_rows && self.alone {
            tracing::warn!(table = %handle.table(),
                "another program changed the table's rows or files; following it");
        }
        Ok(loaded)
    }

    /// The same after a change of our own, which may have put another table there, or none.
    pub(crate) async fn reload_changed(
        &self,
        handle: &TableHandle,
        commit: &CommitGuard,
    ) -> Result<()> {
        self.take(handle, commit).await.map(drop)
    }

    /// What was loaded, and whether its rows are as we knew them: only then are locators kept.
    async fn take(
        &self,
        handle: &TableHandle,
        _commit: &CommitGuard,
    ) -> Result<(Option<LoadedTable>, bool)> {
        let loaded = self.env.catalog.load(handle.table()).await?;
        let before = handle.state().ok();
        let state = match &loaded {
            None => None,
            Some(loaded) => {
                if before.as_ref().is_some_and(|b| b.metadata_location == loaded.location) {
                    return Ok((Some(loaded.clone()), true));
                }
                Some(live::load_state(handle, &self.env.lake, loaded).await?)
            }
        };
        let same_rows = match (&before, &state) {
            (Some(before), Some(after)) => live::same_rows(before, after),
            // Nobody has built a locator yet.
            (None, _) => true,
            (Some(_), None) => false,
        };
        let guard = handle.lock().await;
        handle.install(&guard, state);
        if !same_rows {
            handle.invalidate_locators(&guard);
        }
        Ok((loaded, same_rows))
    }

    /// Removes what only expired snapshots needed, after the commit that expired them.
    pub(crate) async fn clean_up(
        &self,
        table: &LoadedTable,
        expired: Vec<SnapshotRef>,
        mut files: Vec<String>,
    ) {
        let key = "write.metadata.delete-after-commit.enabled";
        if table.metadata.properties().get(key).is_none_or(|v| v != "true") {
            files.clear();
        }
        if !expired.is_empty() {
            match expiry::garbage(&self.env.lake, &table.metadata, &expired).await {
                Ok(garbage) => files.extend(garbage),
                Err(error) => tracing::warn!(%error, "files of expired snapshots stay behind"),
            }
        }
        self.env.lake.delete_all(files).await;
    }

    pub(crate) fn workshop(&self, now_ms: i64) -> Workshop<'_> {
        Workshop {
            lake: &self.env.lake,
            names: &self.names,
            faults: &self.env.faults,
            keep_snapshots: self.env.config.snapshots_keep as usize,
            now_ms,
        }
    }
}

/// Of a sink: the attempt that owns it now.
#[derive(Debug, Default)]
pub(crate) struct CurrentSession(Mutex<Option<Arc<Session>>>);

impl CurrentSession {
    pub(crate) fn set(&self, session: Arc<Session>) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(session);
    }

    pub(crate) fn get(&self) -> Result<Arc<Session>> {
        let session = self.0.lock().unwrap_or_else(|e| e.into_inner());
        session.clone().ok_or_else(|| Error::bug("the sink is used before it was acquired"))
    }
}
