//! The pipeline's progress, kept in Doris itself: who runs it, how far each table is, which DDL it has.
//!
//! ```text
//! kind      incarnation         checkpoint_id   content
//! run       counted at starts   attempt         {"token": …}
//! progress  of the commit       of the epoch    {"offsets": …, "incarnation": …, "next_parts": …}
//! ddl       of the change       0               [{"hi": …, "lo": …, "version": …, "renames": …, "added": …}]
//! ```
//!
//! One row per pipeline, kind and table. The incarnation is the sequence column: an older run's row never replaces a newer
//! one's. The rows are written after the commits that they tell of, which Doris cannot do in one step: after a crash in
//! between, an epoch is committed again, which changes nothing.

use std::collections::BTreeMap;

use lakeward_core::{
    CheckpointId, Error, ErrorKind, Offsets, PipelineId, Position, Result, ResultExt, TableId,
    TableProgress,
};
use serde::{Deserialize, Serialize};

use crate::client::{Backoff, Cluster, SqlRow, literal, quoted};

/// Doris takes no table name that begins with an underscore.
const TABLE: &str = "lakeward_progress";
const RUN: &str = "run";
const PROGRESS: &str = "progress";
const DDL: &str = "ddl";
/// DDL that is remembered per table: more than fit between two checkpoints.
const KEPT_DDL: usize = 100;
/// How often a run looks for its own entry before it gives up.
const MAX_LOOKS: usize = 6;

/// Who runs the pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    token: String,
}

/// How far a table is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reached {
    pub(crate) offsets: Offsets,
    /// The run whose writers' next part numbers these are.
    pub(crate) incarnation: u64,
    #[serde(default)]
    pub(crate) next_parts: BTreeMap<usize, u64>,
}

/// A DDL that the table has, and what it means for rows of versions before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppliedDdl {
    pub(crate) hi: u64,
    pub(crate) lo: u64,
    /// The schema version after it.
    pub(crate) version: u32,
    /// Simultaneous, old name first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) renames: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dropped: Vec<String>,
    /// Columns that it added, and the text of what rows before it hold there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) added: Vec<(String, Option<String>)>,
}

impl AppliedDdl {
    pub(crate) fn position(&self) -> Position {
        Position { hi: self.hi, lo: self.lo }
    }

    /// The table starts over after it: no rows of versions before come any more, and versions may count anew.
    pub(crate) fn without_effect(self) -> Self {
        let (hi, lo) = (self.hi, self.lo);
        Self { hi, lo, version: 0, renames: vec![], dropped: vec![], added: vec![] }
    }
}

/// The table of all that.
#[derive(Debug, Clone)]
pub(crate) struct ProgressTable {
    database: String,
    replication: Vec<(String, String)>,
}

impl ProgressTable {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let config = &cluster.config;
        let replication = config
            .create_properties
            .iter()
            .filter(|(key, _)| key.starts_with("replication_"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Self { database: config.progress_database.clone(), replication }
    }

    fn name(&self) -> String {
        format!("{}.{}", quoted(&self.database), quoted(TABLE))
    }

    /// The statements that make it.
    pub(crate) fn create_statements(&self) -> [String; 2] {
        let mut properties = vec![
            ("enable_unique_key_merge_on_write".to_string(), "true".to_string()),
            ("function_column.sequence_col".to_string(), "incarnation".to_string()),
        ];
        properties.extend(self.replication.iter().cloned());
        [
            format!("CREATE DATABASE IF NOT EXISTS {}", quoted(&self.database)),
            format!(
                "CREATE TABLE IF NOT EXISTS {} (`pipeline` VARCHAR(1020) NOT NULL, `kind` VARCHAR(16) NOT NULL, \
                 `table_namespace` VARCHAR(1020) NOT NULL, `table_name` VARCHAR(1020) NOT NULL, \
                 `incarnation` BIGINT NOT NULL, `checkpoint_id` BIGINT NOT NULL, `content` STRING NOT NULL) \
                 UNIQUE KEY(`pipeline`, `kind`, `table_namespace`, `table_name`) \
                 DISTRIBUTED BY HASH(`pipeline`) BUCKETS 1 PROPERTIES ({})",
                self.name(),
                crate::ddl::properties(&properties),
            ),
        ]
    }

    pub(crate) async fn ensure(&self, cluster: &Cluster) -> Result<()> {
        for statement in self.create_statements() {
            cluster
                .sql
                .execute(&statement)
                .await
                .map_err(|e| e.with("table", format!("{}.{TABLE}", self.database)))?;
        }
        Ok(())
    }

    /// Counts this run. From now on what an older one writes here has no effect.
    pub(crate) async fn begin_run(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
        attempt: u64,
        token: &str,
    ) -> Result<u64> {
        let last = self.run(cluster, pipeline).await?.map_or(0, |(incarnation, _)| incarnation);
        let incarnation = last + 1;
        let run = Run { token: token.to_string() };
        let row = Record::new(pipeline, RUN, None, incarnation, attempt, &run)?;
        self.write(cluster, &[row]).await?;
        // What is committed may take a moment to be seen.
        let mut backoff = Backoff::default();
        for _ in 0..MAX_LOOKS {
            match self.check_owner(cluster, pipeline, incarnation, token).await {
                Err(e) if e.kind() == ErrorKind::Transient => backoff.wait().await,
                looked => return looked.map(|()| incarnation),
            }
        }
        self.check_owner(cluster, pipeline, incarnation, token).await.map(|()| incarnation)
    }

    async fn run(&self, cluster: &Cluster, pipeline: &PipelineId) -> Result<Option<(u64, Run)>> {
        let rows = self.select(cluster, pipeline, Some(RUN), None).await?;
        rows.first().map(|row| Ok((number(row, "incarnation")?, content(row)?))).transpose()
    }

    /// # Errors
    /// `Fenced` when another run has begun since.
    pub(crate) async fn check_owner(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
        incarnation: u64,
        token: &str,
    ) -> Result<()> {
        match self.run(cluster, pipeline).await? {
            Some((found, run)) if found == incarnation && run.token == token => Ok(()),
            Some((found, _)) if found >= incarnation => Err(Error::fenced(
                "another run of this pipeline has taken over; only one may write to its tables",
            )
            .with("pipeline", pipeline)),
            _ => Err(Error::transient(
                "the pipeline's own entry is not in doris; was the progress table emptied?",
            )
            .with("table", format!("{}.{TABLE}", self.database))),
        }
    }

    pub(crate) async fn all(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
    ) -> Result<Vec<TableProgress>> {
        let mut tables: BTreeMap<TableId, TableProgress> = BTreeMap::new();
        for row in self.select(cluster, pipeline, None, None).await? {
            let kind = text(&row, "kind")?;
            if kind == RUN {
                continue;
            }
            let table = table_of(&row)?;
            let entry = tables.entry(table.clone()).or_insert_with(|| TableProgress {
                table,
                checkpoint: CheckpointId(0),
                offsets: Offsets::new(),
                ddl: None,
            });
            match kind {
                PROGRESS => {
                    entry.checkpoint = CheckpointId(number(&row, "checkpoint_id")?);
                    entry.offsets = content::<Reached>(&row)?.offsets;
                }
                DDL => {
                    let applied: Vec<AppliedDdl> = content(&row)?;
                    entry.ddl = applied.last().map(AppliedDdl::position);
                }
                _ => {}
            }
        }
        Ok(tables.into_values().collect())
    }

    pub(crate) async fn reached(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
    ) -> Result<BTreeMap<TableId, Reached>> {
        let rows = self.select(cluster, pipeline, Some(PROGRESS), None).await?;
        rows.iter().map(|row| Ok((table_of(row)?, content(row)?))).collect()
    }

    pub(crate) async fn write_reached(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
        checkpoint: CheckpointId,
        tables: &[(TableId, Reached)],
    ) -> Result<()> {
        let rows: Vec<Record> = tables
            .iter()
            .map(|(table, reached)| {
                let incarnation = reached.incarnation;
                Record::new(pipeline, PROGRESS, Some(table), incarnation, checkpoint.0, reached)
            })
            .collect::<Result<_>>()?;
        self.write(cluster, &rows).await
    }

    /// The DDL of a table, oldest first.
    pub(crate) async fn ddl(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
        table: &TableId,
    ) -> Result<Vec<AppliedDdl>> {
        let rows = self.select(cluster, pipeline, Some(DDL), Some(table)).await?;
        rows.first().map_or(Ok(Vec::new()), content)
    }

    pub(crate) async fn write_ddl(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
        table: &TableId,
        incarnation: u64,
        mut applied: Vec<AppliedDdl>,
    ) -> Result<()> {
        applied.drain(..applied.len().saturating_sub(KEPT_DDL));
        let row = Record::new(pipeline, DDL, Some(table), incarnation, 0, &applied)?;
        self.write(cluster, &[row]).await
    }

    /// The table starts over: what was reached before says nothing any more.
    pub(crate) async fn forget_reached(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
        table: &TableId,
        incarnation: u64,
    ) -> Result<()> {
        let nothing = Reached { offsets: Offsets::new(), incarnation, next_parts: BTreeMap::new() };
        self.write_reached(cluster, pipeline, CheckpointId(0), &[(table.clone(), nothing)]).await
    }

    async fn select(
        &self,
        cluster: &Cluster,
        pipeline: &PipelineId,
        kind: Option<&str>,
        table: Option<&TableId>,
    ) -> Result<Vec<SqlRow>> {
        let mut sql = format!(
            "SELECT kind, table_namespace, table_name, incarnation, checkpoint_id, content FROM {} WHERE pipeline = {}",
            self.name(),
            literal(&pipeline.0)
        );
        if let Some(kind) = kind {
            sql.push_str(&format!(" AND kind = {}", literal(kind)));
        }
        if let Some(table) = table {
            let (namespace, name) = (literal(&table.namespace), literal(&table.name));
            sql.push_str(&format!(" AND table_namespace = {namespace} AND table_name = {name}"));
        }
        cluster.sql.rows(&sql).await
    }

    async fn write(&self, cluster: &Cluster, rows: &[Record]) -> Result<()> {
        /// Statements stay far below what a server takes in one packet.
        const ROWS_PER_STATEMENT: usize = 200;
        for rows in rows.chunks(ROWS_PER_STATEMENT) {
            let values: Vec<String> = rows.iter().map(Record::values).collect();
            let sql = format!(
                "INSERT INTO {} (pipeline, kind, table_namespace, table_name, incarnation, checkpoint_id, content) VALUES {}",
                self.name(),
                values.join(", ")
            );
            cluster.sql.execute(&sql).await?;
        }
        Ok(())
    }
}

/// One row of the table.
struct Record {
    pipeline: String,
    kind: &'static str,
    table: Option<TableId>,
    incarnation: u64,
    checkpoint: u64,
    content: String,
}

impl Record {
    fn new<T: Serialize>(
        pipeline: &PipelineId,
        kind: &'static str,
        table: Option<&TableId>,
        incarnation: u64,
        checkpoint: u64,
        content: &T,
    ) -> Result<Self> {
        let content = serde_json::to_string(content)
            .or_err(ErrorKind::Bug, "could not encode an entry of the progress table")?;
        let pipeline = pipeline.to_string();
        Ok(Self { pipeline, kind, table: table.cloned(), incarnation, checkpoint, content })
    }

    fn values(&self) -> String {
        let (namespace, name) = self.table.as_ref().map_or(("", ""), |t| (&*t.namespace, &*t.name));
        format!(
            "({}, {}, {}, {}, {}, {}, {})",
            literal(&self.pipeline),
            literal(self.kind),
            literal(namespace),
            literal(name),
            self.incarnation,
            self.checkpoint,
            literal(&self.content)
        )
    }
}

fn text<'a>(row: &'a SqlRow, column: &'static str) -> Result<&'a str> {
    row.get(column).ok_or_else(|| {
        Error::config("the progress table in doris does not have the columns it should have; drop it to start over")
            .with("column", column)
    })
}

fn number(row: &SqlRow, column: &'static str) -> Result<u64> {
    text(row, column)?.parse().map_err(|_| {
        Error::config("the progress table in doris holds something that is not ours")
            .with("column", column)
    })
}

fn content<T: serde::de::DeserializeOwned>(row: &SqlRow) -> Result<T> {
    serde_json::from_str(text(row, "content")?).or_err(
        ErrorKind::Config,
        "an entry of the progress table in doris cannot be read by this version of lakeward",
    )
}

fn table_of(row: &SqlRow) -> Result<TableId> {
    Ok(TableId::new(text(row, "table_namespace")?, text(row, "table_name")?))
}

#[cfg(test)]
mod tests {
    use lakeward_core::{Offset, SplitId};

    use super::*;

    #[test]
    fn entries_are_literals_that_cannot_be_left() {
        let reached = Reached {
            offsets: [(SplitId("log".into()), Offset(r#"{"file":"it's \\ x"}"#.into()))].into(),
            incarnation: 3,
            next_parts: [(0, 7)].into(),
        };
        let pipeline = PipelineId("o'brien".into());
        let table = TableId::new("d", "t");
        let record =
            Record::new(&pipeline, PROGRESS, Some(&table), 3, 9, &reached).expect("encodes");
        let values = record.values();
        assert!(values.starts_with("('o''brien', 'progress', 'd', 't', 3, 9, '"), "{values}");
        let row = SqlRow::of([("content", &record.content)]);
        assert_eq!(content::<Reached>(&row).expect("reads"), reached);
    }
}
