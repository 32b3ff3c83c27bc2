//! The sink: opens the parts that write, commit and change tables, and says how far tables have come.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::TableMetadata;
use lakeward_core::{
    CheckpointId, Committer, DataType, EpochPublisher, ErrorKind, Member, MetadataApplier, Offsets,
    OperatorContext, Ownership, PipelineId, Result, ResultExt, Sink, SinkCheck, SinkWriter,
    TableId, TableProgress, TableSchema,
};
use serde::Deserialize;

use crate::applied;
use crate::catalog;
use crate::changelog::ChangelogWriter;
use crate::committer::IcebergCommitter;
use crate::config::{IcebergConfig, WriteMode};
use crate::data_files::DataFileOptions;
use crate::epochs::{self, IcebergEpochPublisher};
use crate::faults::FaultPoints;
use crate::joined_writer::JoinedWriter;
use crate::locator::Share;
use crate::maintenance::Maintenance;
use crate::metadata_applier::IcebergMetadataApplier;
use crate::metrics::CommitMetrics;
use crate::names::{FileNames, Incarnation};
use crate::properties;
use crate::schema_change;
use crate::session::{CurrentSession, Environment, Session};
use crate::storage::{FILE_CONCURRENCY, Lake};
use crate::store_error::StoreResultExt;
use crate::writer::{TableWriter, WriterOptions};

/// Apache Iceberg tables of one catalog. See [`Sink`].
#[derive(Debug)]
pub struct IcebergSink {
    env: Environment,
    current: CurrentSession,
}

impl IcebergSink {
    /// Opens nothing yet: the catalog is connected to at first use.
    pub async fn open(config: IcebergConfig) -> Result<Self> {
        Self::open_with_faults(config, FaultPoints::default()).await
    }

    /// As [`IcebergSink::open`], with a hook that can stop commits at named points.
    pub async fn open_with_faults(config: IcebergConfig, faults: FaultPoints) -> Result<Self> {
        let lake = Lake::from_config(&config)?;
        let catalog = catalog::open(&config, &lake).await?;
        let env = Environment { config: Arc::new(config), lake, catalog, faults };
        Ok(Self { env, current: CurrentSession::default() })
    }

    async fn check_table(
        &self,
        pipeline: &PipelineId,
        table: &TableId,
        schema: &TableSchema,
        check: &mut SinkCheck,
    ) -> Result<()> {
        let extra: &schema_change::ExtraColumns = match self.env.config.write_mode {
            WriteMode::V2Position => &[],
            WriteMode::AppendChangelog => &crate::changelog::COLUMNS,
        };
        let partition = self.env.config.partition_keys()?;
        for field in partition.of(table) {
            if schema.index_of(&field.column).is_none() {
                check.errors.push(format!(
                    "partition.key names the column {} that {table} does not have",
                    field.column
                ));
            }
        }
        let float_key = schema
            .key_indices()
            .into_iter()
            .any(|i| matches!(schema.columns[i].data_type, DataType::Float | DataType::Double));
        if float_key {
            check.warnings.push(format!(
                "{table} has a floating point primary key, which Iceberg does not take as identifier fields"
            ));
        }
        if let Some(found) = self.env.catalog.load(table).await?
            && !applied::is_of(&found.metadata, pipeline)?
        {
            if let Some(creator) = found.metadata.properties().get(properties::CREATED_BY) {
                check.errors.push(format!(
                    "{table} exists in the lake and is the table of pipeline {creator}; drop it, or route the source's table \
                     to another name"
                ));
            } else if holds_rows(&found.metadata) {
                check.errors.push(format!(
                    "{table} exists in the lake and holds rows of another origin; drop it, or route the source's \
                     table to another name"
                ));
            } else if schema_change::agrees(found.metadata.current_schema(), schema, extra) {
                check
                    .warnings
                    .push(format!("{table} exists in the lake already and would be filled"));
            } else {
                check.errors.push(format!(
                    "{table} exists in the lake with other columns; drop it, or route the source's table to another name"
                ));
            }
        }
        Ok(())
    }
}

/// Files of earlier snapshots count as well, as long as nobody says how many rows there are.
fn holds_rows(metadata: &TableMetadata) -> bool {
    metadata.current_snapshot().is_some_and(|snapshot| {
        let total = snapshot.summary().additional_properties.get("total-records");
        total.is_none_or(|rows| rows != "0")
    })
}

/// As much of a metadata file as progress needs: files are many and may be large.
#[derive(Deserialize)]
struct OnlyProperties {
    #[serde(default)]
    properties: HashMap<String, String>,
}

async fn table_properties(lake: &Lake, location: &str) -> Result<HashMap<String, String>> {
    let bytes = lake.read(location).await?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let metadata = TableMetadata::read_from(lake.file_io(), location)
            .await
            .or_store(format!("could not read {location}"))?;
        return Ok(metadata.properties().clone());
    }
    let only: OnlyProperties = serde_json::from_slice(&bytes)
        .or_err(ErrorKind::DataInvalid, format!("{location} is not table metadata"))?;
    Ok(only.properties)
}

fn progress_of(
    table: TableId,
    found: &HashMap<String, String>,
    pipeline: &PipelineId,
) -> Result<Option<TableProgress>> {
    let ddl = found
        .get(&properties::applied_ddl(pipeline))
        .and_then(|text| text.rsplit(',').next())
        .and_then(properties::decode_position);
    let marker = properties::marker_in(found, pipeline).map_err(|e| e.with("table", &table))?;
    Ok(match (marker, ddl) {
        (Some(marker), ddl) => Some(TableProgress {
            table,
            checkpoint: marker.checkpoint,
            offsets: marker.offsets,
            ddl,
        }),
        (None, Some(ddl)) => Some(TableProgress {
            table,
            checkpoint: CheckpointId(0),
            offsets: Offsets::new(),
            ddl: Some(ddl),
        }),
        (None, None) => None,
    })
}

#[async_trait]
impl Sink for IcebergSink {
    async fn check(
        &self,
        pipeline: &PipelineId,
        tables: &[(TableId, Arc<TableSchema>)],
    ) -> Result<SinkCheck> {
        let warehouse = self.env.config.warehouse()?;
        let target =
            format!("Iceberg tables in {warehouse}, catalog {}", self.env.catalog.check().await?);
        self.env.lake.probe(warehouse).await?;
        let mut check =
            SinkCheck { target, warnings: self.env.config.warnings(), errors: Vec::new() };
        let partition = self.env.config.partition_keys()?;
        for name in partition.tables() {
            if !tables.iter().any(|(table, _)| table.to_string() == name) {
                check
                    .warnings
                    .push(format!("partition.key names {name}, which is not among the tables"));
            }
        }
        for (table, schema) in tables {
            self.check_table(pipeline, table, schema, &mut check).await?;
        }
        Ok(check)
    }

    async fn knows(&self, pipeline: &PipelineId) -> Result<bool> {
        self.env.catalog.knows(pipeline).await
    }

    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<Ownership> {
        let probed = self.env.lake.probe(self.env.config.warehouse()?).await;
        // What has been reached once is taken to come back.
        probed.map_err(|e| match self.current.get() {
            Ok(_) => e.with_kind(ErrorKind::Transient),
            Err(_) => e,
        })?;
        let incarnation = self.env.catalog.acquire(pipeline, attempt).await?;
        let ownership = Ownership(incarnation.token.to_string());
        self.current.set(Arc::new(Session::alone(self.env.clone(), incarnation)));
        Ok(ownership)
    }

    async fn join(&self, pipeline: &PipelineId, member: &Member<'_>) -> Result<()> {
        let incarnation = Incarnation {
            pipeline: pipeline.clone(),
            attempt: member.attempt,
            token: member.ownership.0.as_str().into(),
        };
        self.current.set(Arc::new(Session::joined(self.env.clone(), incarnation, member.name)));
        Ok(())
    }

    async fn progress(&self, pipeline: &PipelineId) -> Result<Vec<TableProgress>> {
        let tables = self.env.catalog.tables().await?;
        let found: Vec<Option<TableProgress>> = futures::stream::iter(tables)
            .filter(|(table, _)| std::future::ready(*table != epochs::table()))
            .map(|(table, location)| async move {
                let found = table_properties(&self.env.lake, &location).await;
                let found = found.map_err(|e| e.with("table", &table))?;
                progress_of(table, &found, pipeline)
            })
            .buffered(FILE_CONCURRENCY)
            .try_collect()
            .await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn writer(
        &self,
        table: &TableId,
        context: &OperatorContext,
    ) -> Result<Box<dyn SinkWriter>> {
        let session = self.current.get()?;
        let handle = session.existing(table).await?;
        let config = &self.env.config;
        let options = WriterOptions {
            share: Share { index: context.index, parallelism: context.parallelism },
            attempt: context.attempt,
            names: FileNames::new(&session.incarnation, session.author(context.index)),
            buffer_bytes: context.memory_bytes / 4,
            files: DataFileOptions {
                target_size_bytes: config.target_file_size_bytes(),
                memory_bytes: context.memory_bytes / 2,
                ..DataFileOptions::default()
            },
            fail_on_missing: config.missing_rows_fail,
            metrics: context.metrics.with("table", table),
        };
        let writer: Box<dyn SinkWriter> = match config.write_mode {
            WriteMode::V2Position => Box::new(TableWriter::new(handle.clone(), options)),
            WriteMode::AppendChangelog => Box::new(ChangelogWriter::new(handle.clone(), options)),
        };
        Ok(match session.is_alone() {
            true => writer,
            false => Box::new(JoinedWriter::new(writer, session, handle)),
        })
    }

    async fn committer(&self, context: &OperatorContext) -> Result<Box<dyn Committer>> {
        let session = self.current.get()?;
        let metrics = CommitMetrics::new(&context.metrics);
        let maintenance = Maintenance::new(&session, metrics.clone());
        Ok(Box::new(IcebergCommitter::new(session, context.clock.clone(), metrics, maintenance)))
    }

    async fn metadata_applier(
        &self,
        context: &OperatorContext,
    ) -> Result<Box<dyn MetadataApplier>> {
        let session = self.current.get()?;
        Ok(Box::new(IcebergMetadataApplier::new(session, context.clock.clone())))
    }

    async fn epoch_publisher(
        &self,
        context: &OperatorContext,
    ) -> Result<Option<Box<dyn EpochPublisher>>> {
        if !self.env.config.epochs_enabled {
            return Ok(None);
        }
        let session = self.current.get()?;
        Ok(Some(Box::new(IcebergEpochPublisher::new(session, context.clock.clone()))))
    }
}
