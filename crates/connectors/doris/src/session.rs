//! One attempt's hold on the sink: its number among the runs, and what is known of the tables.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use lakeward_core::{Error, Ownership, PipelineId, Result, TableId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::client::Cluster;
use crate::label::Labels;
use crate::progress::ProgressTable;
use crate::table::TableFacts;

/// What a run is known by in the cluster.
#[derive(Serialize, Deserialize)]
struct Hold {
    incarnation: u64,
    token: String,
}

pub(crate) struct Session {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) progress: ProgressTable,
    pub(crate) pipeline: PipelineId,
    pub(crate) incarnation: u64,
    pub(crate) labels: Labels,
    token: String,
    tables: Mutex<HashMap<TableId, Arc<TableFacts>>>,
    /// The next part of each table and writer. A table that is dropped and made again gets new writers, whose labels must
    /// not be those of the old ones.
    parts: Mutex<HashMap<(TableId, usize), u64>>,
}

impl Session {
    pub(crate) async fn begin(
        cluster: Arc<Cluster>,
        pipeline: &PipelineId,
        attempt: u64,
    ) -> Result<Self> {
        let progress = ProgressTable::new(&cluster);
        progress.ensure(&cluster).await?;
        let token = Uuid::new_v4().simple().to_string();
        let incarnation = progress.begin_run(&cluster, pipeline, attempt, &token).await?;
        Ok(Self::of(cluster, progress, pipeline, Hold { incarnation, token }))
    }

    /// Takes part in a run that another session has begun, and is fenced off with it.
    pub(crate) fn join(
        cluster: Arc<Cluster>,
        pipeline: &PipelineId,
        ownership: &Ownership,
    ) -> Result<Self> {
        let hold: Hold = serde_json::from_str(&ownership.0)
            .map_err(|e| Error::bug("the hold on the doris sink is damaged").with_source(e))?;
        let progress = ProgressTable::new(&cluster);
        Ok(Self::of(cluster, progress, pipeline, hold))
    }

    fn of(
        cluster: Arc<Cluster>,
        progress: ProgressTable,
        pipeline: &PipelineId,
        hold: Hold,
    ) -> Self {
        let Hold { incarnation, token } = hold;
        Self {
            labels: Labels::new(pipeline, incarnation),
            cluster,
            progress,
            pipeline: pipeline.clone(),
            incarnation,
            token,
            tables: Mutex::default(),
            parts: Mutex::default(),
        }
    }

    /// For those who join.
    pub(crate) fn ownership(&self) -> Result<Ownership> {
        let hold = Hold { incarnation: self.incarnation, token: self.token.clone() };
        let hold = serde_json::to_string(&hold).map_err(|e| {
            Error::bug("could not encode the hold on the doris sink").with_source(e)
        })?;
        Ok(Ownership(hold))
    }

    /// # Errors
    /// `Fenced` when another run has begun since.
    pub(crate) async fn check_owner(&self) -> Result<()> {
        self.progress
            .check_owner(&self.cluster, &self.pipeline, self.incarnation, &self.token)
            .await
    }

    /// What is known of a table, asked once until [`Session::forget`].
    pub(crate) async fn table(&self, table: &TableId) -> Result<Arc<TableFacts>> {
        let known = self.tables.lock().unwrap_or_else(|e| e.into_inner()).get(table).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let facts = Arc::new(TableFacts::read(self, table).await?);
        let mut tables = self.tables.lock().unwrap_or_else(|e| e.into_inner());
        tables.insert(table.clone(), facts.clone());
        Ok(facts)
    }

    /// The label of the next part, which no other part of this attempt has.
    pub(crate) fn next_label(&self, table: &TableId, writer: usize) -> String {
        let mut parts = self.parts.lock().unwrap_or_else(|e| e.into_inner());
        let next = parts.entry((table.clone(), writer)).or_insert(0);
        *next += 1;
        self.labels.of_part(table, writer, *next - 1)
    }

    /// How many labels [`Session::next_label`] has given.
    pub(crate) fn next_part(&self, table: &TableId, writer: usize) -> u64 {
        let parts = self.parts.lock().unwrap_or_else(|e| e.into_inner());
        parts.get(&(table.clone(), writer)).copied().unwrap_or(0)
    }

    pub(crate) fn forget(&self, table: &TableId) {
        self.tables.lock().unwrap_or_else(|e| e.into_inner()).remove(table);
    }
}

/// The session of the attempt that runs.
#[derive(Default)]
pub(crate) struct CurrentSession(RwLock<Option<Arc<Session>>>);

impl CurrentSession {
    pub(crate) fn set(&self, session: Arc<Session>) {
        *self.0.write().unwrap_or_else(|e| e.into_inner()) = Some(session);
    }

    pub(crate) fn get(&self) -> Result<Arc<Session>> {
        self.0
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
            .ok_or_else(|| Error::bug("the doris sink is used before it was acquired"))
    }
}
