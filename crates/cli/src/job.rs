//! Puts a pipeline file's source, sink and operators together and starts the job.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use lakeward_core::{
    EpochCommitted, Error, JobListener, MetricGroup, Offsets, PipelineId, Result, Sink, Source,
    SourceTable, TableId, TableProgress, TableSchema,
};
use lakeward_operators::{PipelineDefinition, Routes, SchemaPolicy, ShardKey, plan_of};
use lakeward_runtime::{BeforeAttempt, DirStore, Hooks, Identity, Job, JobHandle, JobOptions};

use crate::pipeline_file::PipelineFile;
use crate::registry::Connectors;

/// A job that was started, and what others need to tell about it.
#[derive(Clone)]
pub struct Running {
    pub handle: JobHandle,
    pub source: Arc<dyn Source>,
    pub metrics: MetricGroup,
    pub checkpoint_interval_ms: u64,
}

/// `resnapshot` names tables to be read anew, `*` for all.
pub fn start(
    file: &PipelineFile,
    connectors: Connectors,
    resnapshot: Vec<String>,
) -> Result<Running> {
    for warning in &connectors.warnings {
        tracing::warn!("{warning}");
    }
    let config = &file.pipeline;
    let identity = identity_of(file, &connectors);
    let id = identity.pipeline.clone();
    let store = Arc::new(DirStore::open(file.state_dir(), identity)?);
    let (source, sink) = (connectors.source, connectors.sink);
    let routes = Arc::new(file.routes.clone());
    let definition = PipelineDefinition {
        id: id.clone(),
        source: source.clone(),
        sink: sink.clone(),
        routes: routes.clone(),
        policy: SchemaPolicy {
            behavior: config.schema_change_behavior.into(),
            include: file.schema_changes.include.clone(),
            exclude: file.schema_changes.exclude.clone(),
        },
        table_errors: config.table_error.into(),
        parallelism: config.parallelism.into(),
    };
    let metrics = MetricGroup::default();
    let mut options = JobOptions::new(store, file.state_dir().join("scratch"));
    options.checkpoint_interval = config.checkpoint_interval.0;
    options.restart = config.restart();
    options.source_parallelism = config.parallelism.into();
    options.memory_bytes = usize::try_from(config.memory.0).unwrap_or(usize::MAX);
    options.resnapshot = resnapshot.clone();
    options.metrics = metrics.clone();
    let read_anew = Arc::new(ReadAnew { tables: resnapshot, done: AtomicBool::new(false) });
    let floors = Floors { id, source: source.clone(), sink, routes, read_anew: read_anew.clone() };
    let hooks = Hooks { before_attempt: Some(floors.hook()), listener: Some(read_anew) };
    let handle = Job::start(plan_of(&definition), options, hooks)?;
    let checkpoint_interval_ms = config.checkpoint_interval.as_millis();
    Ok(Running { handle, source, metrics, checkpoint_interval_ms })
}

/// What a state directory of the pipeline says whose it is.
pub fn identity_of(file: &PipelineFile, connectors: &Connectors) -> Identity {
    Identity {
        pipeline: PipelineId(file.pipeline.name.as_str().into()),
        source: connectors.source_identity.clone(),
        sink: connectors.sink_identity.clone(),
    }
}

/// The sink tables of the source's tables, each once.
pub fn targets_of(
    routes: &Routes,
    tables: &[SourceTable],
) -> Result<Vec<(TableId, Arc<TableSchema>)>> {
    let mut targets: BTreeMap<TableId, Arc<TableSchema>> = BTreeMap::new();
    for table in tables {
        for target in routes.targets(&table.table)? {
            targets.entry(target.table).or_insert_with(|| table.schema.clone());
        }
    }
    Ok(targets.into_iter().collect())
}

/// What keeps source tables from sharing their sink table.
pub fn merge_errors(routes: &Routes, tables: &[SourceTable]) -> Result<Vec<String>> {
    let mut merged: BTreeMap<TableId, Vec<&TableId>> = BTreeMap::new();
    for table in tables {
        for target in routes.targets(&table.table)? {
            if target.shard_key == ShardKey::Unspecified {
                merged.entry(target.table).or_default().push(&table.table);
            }
        }
    }
    merged.retain(|_, sources| sources.len() > 1);
    Ok(merged
        .into_iter()
        .map(|(target, sources)| {
            let sources: Vec<String> = sources.into_iter().map(TableId::to_string).collect();
            format!(
                "{} would share the sink table {target}, where rows of equal key overwrite each other; set `shard-key: \
                 source-table` on the route, or `shard-key: none` if keys are unique across the tables",
                sources.join(", ")
            )
        })
        .collect())
}

/// The user's wish to read tables anew, in force until an epoch is committed.
struct ReadAnew {
    tables: Vec<String>,
    done: AtomicBool,
}

impl ReadAnew {
    fn holds(&self, table: &TableId) -> bool {
        !self.done.load(Ordering::Acquire)
            && self.tables.iter().any(|t| t == "*" || *t == table.to_string())
    }
}

impl JobListener for ReadAnew {
    fn epoch_committed(&self, _: &EpochCommitted) {
        self.done.store(true, Ordering::Release);
    }

    fn table_paused(&self, _: &TableId, _: &Error) {}
    fn table_resumed(&self, _: &TableId) {}

    fn schema_changed(&self, _: &TableId, _: &str) {}
}

/// Finds, before each attempt, how far the sink already holds each source table.
#[derive(Clone)]
struct Floors {
    id: PipelineId,
    source: Arc<dyn Source>,
    sink: Arc<dyn Sink>,
    routes: Arc<Routes>,
    read_anew: Arc<ReadAnew>,
}

impl Floors {
    fn hook(self) -> BeforeAttempt {
        Arc::new(move |attempt| {
            let floors = self.clone();
            async move { floors.of_attempt(attempt).await }.boxed()
        })
    }

    async fn of_attempt(&self, attempt: u64) -> Result<HashMap<TableId, Offsets>> {
        self.sink.acquire(&self.id, attempt).await?;
        let progress = self.sink.progress(&self.id).await?;
        // A table that was created and never committed to has no offsets.
        let reached = progress.into_iter().filter(|p| !p.offsets.is_empty());
        let reached: HashMap<TableId, TableProgress> =
            reached.map(|p| (p.table.clone(), p)).collect();
        let mut floors = self.of_source_tables(reached).await?;
        floors.retain(|table, _| !self.read_anew.holds(table));
        Ok(floors)
    }

    async fn of_source_tables(
        &self,
        reached: HashMap<TableId, TableProgress>,
    ) -> Result<HashMap<TableId, Offsets>> {
        if self.routes.is_empty() || reached.is_empty() {
            return Ok(reached.into_iter().map(|(table, p)| (table, p.offsets)).collect());
        }
        let tables = self.source.check().await?.tables;
        let mut floors = HashMap::new();
        for SourceTable { table, .. } in tables {
            let targets = self.routes.targets(&table)?;
            let offsets = targets.iter().map(|t| reached.get(&t.table).map(|p| &p.offsets));
            // A target that has nothing yet needs all of it.
            let Some(offsets) = offsets.collect::<Option<Vec<&Offsets>>>() else { continue };
            let floor = lowest(&*self.source, &offsets)?;
            if !floor.is_empty() {
                floors.insert(table, floor);
            }
        }
        Ok(floors)
    }
}

/// What all of the offsets cover.
fn lowest(source: &dyn Source, offsets: &[&Offsets]) -> Result<Offsets> {
    let Some((first, rest)) = offsets.split_first() else { return Ok(Offsets::new()) };
    let mut floor = (*first).clone();
    for other in rest {
        floor.retain(|split, _| other.contains_key(split));
        for (split, offset) in &mut floor {
            if !source.covers(&other[split], offset)? {
                *offset = other[split].clone();
            }
        }
    }
    Ok(floor)
}
