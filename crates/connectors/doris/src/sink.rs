//! The sink: opens the parts that write, commit and change tables, and says how far tables have come.

use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{
    Committer, EpochPublisher, Error, Member, MetadataApplier, OperatorContext, Ownership,
    PipelineId, Result, Sink, SinkCheck, SinkWriter, TableId, TableProgress, TableSchema,
};

use crate::client::Cluster;
use crate::committer::DorisCommitter;
use crate::config::DorisConfig;
use crate::ddl;
use crate::metadata_applier::DorisMetadataApplier;
use crate::metrics::SinkMetrics;
use crate::progress::ProgressTable;
use crate::session::{CurrentSession, Session};
use crate::table::TableShape;
use crate::writer::DorisWriter;

/// Checkpoint intervals that a load must be able to wait.
const LEAST_INTERVALS: u128 = 3;

/// Tables of an Apache Doris cluster. See [`Sink`].
pub struct DorisSink {
    cluster: Arc<Cluster>,
    current: CurrentSession,
}

impl DorisSink {
    /// Connects to nothing yet.
    pub fn new(config: DorisConfig) -> Result<Self> {
        config.validate()?;
        let cluster = Arc::new(Cluster::new(Arc::new(config))?);
        Ok(Self { cluster, current: CurrentSession::default() })
    }

    /// How long the cluster keeps a precommitted load, where the account may ask.
    async fn check_timeout(&self, check: &mut SinkCheck) {
        const NAME: &str = "stream_load_default_precommit_timeout_second";
        let config = &self.cluster.config;
        let sql = format!("ADMIN SHOW FRONTEND CONFIG LIKE '{NAME}'");
        let Ok(rows) = self.cluster.sql.rows(&sql).await else { return };
        let seconds = rows.first().and_then(|row| row.get("Value")?.parse::<u64>().ok());
        let Some(seconds) = seconds.filter(|_| config.two_phase()) else { return };
        if seconds < config.transaction_timeout.0.as_secs() {
            check.warnings.push(format!(
                "the cluster keeps a load that waits for its commit for {seconds} s ({NAME}), which is less than \
                 sink.transaction-timeout"
            ));
        }
    }

    async fn check_table(
        &self,
        table: &TableId,
        schema: &TableSchema,
        check: &mut SinkCheck,
    ) -> Result<()> {
        if let Err(e) = ddl::create_table(table, schema, &self.cluster.config) {
            check.errors.push(e.with("table", table).to_string());
            return Ok(());
        }
        if schema.primary_key.is_empty() {
            check.warnings.push(format!(
                "{table} has no primary key: its rows are appended, and the first update or delete of one stops it"
            ));
        }
        let Some(shape) = TableShape::read(&self.cluster, table).await? else { return Ok(()) };
        if !shape.agrees(schema)? {
            check.errors.push(format!(
                "{table} exists in doris with other columns; drop it, or route the source's table to another name"
            ));
        } else {
            check.warnings.push(format!("{table} exists in doris already and would be filled"));
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for DorisSink {
    async fn check(
        &self,
        _: &PipelineId,
        tables: &[(TableId, Arc<TableSchema>)],
    ) -> Result<SinkCheck> {
        let version = self.cluster.sql.rows("SELECT version() AS version").await?;
        let version = version.first().and_then(|r| r.get("version")).unwrap_or_default();
        let target = format!("Apache Doris at {} ({version})", self.cluster.config.fenodes);
        let mut check =
            SinkCheck { target, warnings: self.cluster.config.warnings(), errors: Vec::new() };
        self.cluster.check_nodes().await?;
        self.check_timeout(&mut check).await;
        for (table, schema) in tables {
            self.check_table(table, schema, &mut check).await?;
        }
        Ok(check)
    }

    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<Ownership> {
        let session = Session::begin(self.cluster.clone(), pipeline, attempt).await?;
        let ownership = session.ownership()?;
        self.current.set(Arc::new(session));
        Ok(ownership)
    }

    async fn join(&self, pipeline: &PipelineId, member: &Member<'_>) -> Result<()> {
        let session = Session::join(self.cluster.clone(), pipeline, member.ownership)?;
        self.current.set(Arc::new(session));
        Ok(())
    }

    async fn progress(&self, pipeline: &PipelineId) -> Result<Vec<TableProgress>> {
        ProgressTable::new(&self.cluster).all(&self.cluster, pipeline).await
    }

    async fn writer(
        &self,
        table: &TableId,
        context: &OperatorContext,
    ) -> Result<Box<dyn SinkWriter>> {
        let metrics = SinkMetrics::new(&context.metrics);
        let session = self.current.get()?;
        // A table of that name may have been made anew since, also in another process.
        session.forget(table);
        Ok(Box::new(DorisWriter::new(
            session,
            table.clone(),
            context.index,
            context.memory_bytes,
            metrics,
        )))
    }

    async fn committer(&self, context: &OperatorContext) -> Result<Box<dyn Committer>> {
        let timeout_ms = self.cluster.config.transaction_timeout.0.as_millis();
        let least_ms = u128::from(context.checkpoint_interval_ms) * LEAST_INTERVALS;
        if self.cluster.config.two_phase() && timeout_ms < least_ms {
            return Err(Error::config(
                "sink.transaction-timeout must be at least three checkpoint intervals: a load waits for its checkpoint, and \
                 the cluster aborts it after that time",
            )
            .with("sink.transaction-timeout in ms", timeout_ms)
            .with("checkpoint.interval in ms", context.checkpoint_interval_ms));
        }
        Ok(Box::new(DorisCommitter::new(self.current.get()?, context)))
    }

    async fn metadata_applier(
        &self,
        _context: &OperatorContext,
    ) -> Result<Box<dyn MetadataApplier>> {
        Ok(Box::new(DorisMetadataApplier::new(self.current.get()?)?))
    }

    async fn epoch_publisher(
        &self,
        _context: &OperatorContext,
    ) -> Result<Option<Box<dyn EpochPublisher>>> {
        Ok(None)
    }
}
