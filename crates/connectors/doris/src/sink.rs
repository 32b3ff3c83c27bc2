//! The sink: opens the parts that write, commit and change tables, and says how far tables have come.

use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{
    Committer, EpochPublisher, MetadataApplier, OperatorContext, PipelineId, Result, Sink,
    SinkCheck, SinkWriter, TableId, TableProgress, TableSchema,
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
    async fn check(&self, tables: &[(TableId, Arc<TableSchema>)]) -> Result<SinkCheck> {
        let version = self.cluster.sql.rows("SELECT version() AS version").await?;
        let version = version.first().and_then(|r| r.get("version")).unwrap_or_default();
        let target = format!("Apache Doris at {} ({version})", self.cluster.config.fenodes);
        let mut check =
            SinkCheck { target, warnings: self.cluster.config.warnings(), errors: Vec::new() };
        self.cluster.check_nodes().await?;
        for (table, schema) in tables {
            self.check_table(table, schema, &mut check).await?;
        }
        Ok(check)
    }

    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<()> {
        let session = Session::begin(self.cluster.clone(), pipeline, attempt).await?;
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
        Ok(Box::new(DorisWriter::new(
            self.current.get()?,
            table.clone(),
            context.index,
            context.memory_bytes,
            metrics,
        )))
    }

    async fn committer(&self, context: &OperatorContext) -> Result<Box<dyn Committer>> {
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
