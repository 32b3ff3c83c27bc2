//! A pipeline in miniature around the sink: rows in, epochs committed, and the table read back with a reader that is
//! not ours.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use iceberg::TableIdent;
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;
use iceberg::table::StaticTable;
use lakeward_core::*;
use lakeward_iceberg::faults::FaultPoints;
use lakeward_iceberg::{IcebergConfig, IcebergSink};

pub type Rows = BTreeMap<i64, Option<String>>;

/// Counts on by a second with each look.
pub struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }
}

struct Nobody;

impl SuccessMarks for Nobody {
    fn leave(&self, _: &DdlId, _: u64, _: MarkStage, _: usize) -> Result<()> {
        Ok(())
    }
    fn count(&self, _: &DdlId, _: u64, _: MarkStage) -> Result<usize> {
        Ok(0)
    }
    fn clear(&self, _: &DdlId) {}
}

impl CheckpointRequester for Nobody {
    fn request(&self) {}
}

impl JobListener for Nobody {
    fn epoch_committed(&self, _: &EpochCommitted) {}
    fn table_paused(&self, _: &TableId, _: &Error) {}
    fn table_resumed(&self, _: &TableId) {}
    fn schema_changed(&self, _: &TableId, _: &str) {}
}

/// One attempt of a pipeline over one lake.
pub struct Attempt {
    pub sink: IcebergSink,
    pub context: OperatorContext,
    pub committer: Box<dyn Committer>,
    pub applier: Box<dyn MetadataApplier>,
    writers: BTreeMap<TableId, Vec<Box<dyn SinkWriter>>>,
    parallelism: usize,
}

pub struct Lake {
    pub dir: tempfile::TempDir,
    pub options: serde_json::Map<String, serde_json::Value>,
    pub pipeline: PipelineId,
    pub clock: Arc<TestClock>,
    pub attempts: std::cell::Cell<u64>,
}

impl Lake {
    pub fn new(extra: &[(&str, serde_json::Value)]) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().display().to_string();
        let mut options = serde_json::json!({
            "type": "iceberg",
            "catalog.properties.type": "sql",
            "catalog.properties.uri": format!("sqlite:///{path}/catalog.db"),
            "catalog.properties.warehouse": format!("file://{path}/warehouse"),
        })
        .as_object()
        .cloned()
        .expect("object");
        options.extend(extra.iter().map(|(k, v)| (k.to_string(), v.clone())));
        Self {
            dir,
            options,
            pipeline: PipelineId("p".into()),
            clock: Arc::new(TestClock(AtomicI64::new(1_700_000_000_000))),
            attempts: std::cell::Cell::new(0),
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub async fn attempt(&self) -> Attempt {
        self.attempt_with(FaultPoints::default(), 1).await
    }

    pub async fn attempt_with(&self, faults: FaultPoints, parallelism: usize) -> Attempt {
        let config = IcebergConfig::from_options(&self.options).expect("options");
        let sink = IcebergSink::open_with_faults(config, faults).await.expect("opens");
        self.begin(sink, self.pipeline.clone(), parallelism).await
    }

    /// An attempt of another pipeline in the same lake.
    pub async fn attempt_of(&self, sink: IcebergSink, pipeline: PipelineId) -> Attempt {
        self.begin(sink, pipeline, 1).await
    }

    async fn begin(&self, sink: IcebergSink, pipeline: PipelineId, parallelism: usize) -> Attempt {
        let attempt = self.attempts.get() + 1;
        self.attempts.set(attempt);
        sink.acquire(&pipeline, attempt).await.expect("acquires");
        let context = OperatorContext {
            operator: "test".into(),
            index: 0,
            parallelism,
            downstream_parallelism: 1,
            pipeline,
            attempt,
            checkpoint_interval_ms: 1000,
            clock: self.clock.clone(),
            metrics: MetricGroup::default(),
            marks: Arc::new(Nobody),
            checkpoints: Arc::new(Nobody),
            listener: Arc::new(Nobody),
            scratch_dir: PathBuf::new(),
            memory_bytes: 64 << 20,
        };
        let committer = sink.committer(&context).await.expect("committer");
        let applier = sink.metadata_applier(&context).await.expect("applier");
        Attempt { sink, context, committer, applier, writers: BTreeMap::new(), parallelism }
    }

    /// The current metadata file of a table, by the catalog.
    pub async fn metadata_location(&self, table: &TableId) -> Option<String> {
        let url = format!("sqlite://{}/catalog.db", self.path().display());
        let pool = sqlx::SqlitePool::connect(&url).await.expect("connects");
        let row: Option<(String,)> = sqlx::query_as(
            "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ? \
             AND catalog_name = 'lakeward'",
        )
        .bind(&*table.namespace)
        .bind(&*table.name)
        .fetch_optional(&pool)
        .await
        .expect("reads");
        pool.close().await;
        row.map(|r| r.0)
    }

    pub async fn metadata(&self, table: &TableId) -> TableMetadata {
        let location = self.metadata_location(table).await.expect("the table exists");
        TableMetadata::read_from(&FileIO::new_with_fs(), location).await.expect("reads")
    }

    /// All rows, by the iceberg crate's own scan.
    pub async fn batches(&self, table: &TableId) -> Vec<RecordBatch> {
        let location = self.metadata_location(table).await.expect("the table exists");
        let ident = TableIdent::from_strs([&*table.namespace, &*table.name]).expect("name");
        let table = StaticTable::from_metadata_file(&location, ident, FileIO::new_with_fs())
            .await
            .expect("loads");
        let scan = table.scan().build().expect("plans");
        scan.to_arrow().await.expect("scans").try_collect().await.expect("reads")
    }

    /// Rows of a table with the columns (id bigint, v string), failing on a doubled key.
    pub async fn rows(&self, table: &TableId) -> Rows {
        let mut rows = Rows::new();
        for batch in self.batches(table).await {
            let ids = batch.column_by_name("id").expect("id").as_primitive::<Int64Type>().clone();
            let values = batch.column_by_name("v").expect("v").as_string::<i32>().clone();
            for (id, value) in ids.values().iter().zip(values.iter()) {
                let old = rows.insert(*id, value.map(str::to_string));
                assert!(old.is_none(), "key {id} is in the lake twice");
            }
        }
        rows
    }

    /// Counters of the current snapshot must be what the table really holds.
    pub async fn check_totals(&self, table: &TableId) {
        let metadata = self.metadata(table).await;
        let Some(snapshot) = metadata.current_snapshot() else { return };
        let summary = &snapshot.summary().additional_properties;
        let total = |key: &str| summary[key].parse::<u64>().expect("a number");
        let live = self.rows(table).await.len() as u64;
        assert_eq!(total("total-records") - total("total-position-deletes"), live, "{summary:?}");
    }
}

impl Attempt {
    pub async fn write(&mut self, change: DataChange) -> Result<()> {
        let table = change.table.clone();
        if !self.writers.contains_key(&table) {
            let mut writers = Vec::new();
            for index in 0..self.parallelism {
                let context = OperatorContext { index, ..self.context.clone() };
                writers.push(self.sink.writer(&table, &context).await?);
            }
            self.writers.insert(table.clone(), writers);
        }
        let writers = self.writers.get_mut(&table).expect("opened above");
        if writers.len() == 1 {
            return writers[0].write(change).await;
        }
        // As DynamicStreamWriter's upstream does: by key hash.
        let keys = change.schema.key_indices();
        let hashes = keys::row_hashes(&table, &change.rows, &keys)?;
        let count = writers.len() as u64;
        for (index, writer) in writers.iter_mut().enumerate() {
            for row in 0..change.rows.num_rows() {
                if hashes[row] % count == index as u64 {
                    let mut part = change.clone();
                    part.rows = change.rows.slice(row, 1);
                    part.kinds = vec![change.kinds[row]];
                    part.segments = vec![Segment { end: 1, ..change.segments[0] }];
                    writer.write(part).await?;
                }
            }
        }
        Ok(())
    }

    pub async fn flush(&mut self) -> Result<()> {
        for writer in self.writers.values_mut().flatten() {
            writer.flush().await?;
        }
        Ok(())
    }

    pub async fn complete(&mut self) -> Result<BTreeMap<TableId, Vec<Committable>>> {
        let mut done = BTreeMap::new();
        for (table, writers) in &mut self.writers {
            for writer in writers {
                let committables = writer.complete_files().await?;
                if !committables.is_empty() {
                    done.entry(table.clone()).or_insert_with(Vec::new).extend(committables);
                }
            }
        }
        Ok(done)
    }

    pub async fn commit(
        &mut self,
        checkpoint: u64,
        work: BTreeMap<TableId, Vec<Committable>>,
    ) -> Result<BTreeMap<TableId, Result<CommittedTable>>> {
        let outcomes = self.committer.commit(&epoch(checkpoint), work).await?;
        for writer in self.writers.values_mut().flatten() {
            writer.table_changed().await?;
        }
        Ok(outcomes.into_iter().collect())
    }

    /// Completes and commits an epoch; every table must succeed.
    pub async fn epoch(&mut self, checkpoint: u64) -> Result<()> {
        let work = self.complete().await?;
        for (_, outcome) in self.commit(checkpoint, work).await? {
            outcome?;
        }
        Ok(())
    }

    pub async fn ddl(&mut self, event: &SchemaEvent) -> Result<()> {
        self.applier.apply(event).await?;
        for writer in self.writers.get_mut(&event.table).into_iter().flatten() {
            writer.table_changed().await?;
        }
        Ok(())
    }

    pub fn forget_writers(&mut self, table: &TableId) {
        self.writers.remove(table);
    }
}

pub fn epoch(checkpoint: u64) -> Epoch {
    let split = SplitId("log".into());
    let offset = Offset(format!("{{\"pos\":{checkpoint}}}").into());
    Epoch {
        checkpoint: CheckpointId(checkpoint),
        offsets: Offsets::from([(split, offset)]),
        commit_ms: checkpoint as i64,
    }
}

pub fn table() -> TableId {
    TableId::new("d", "t")
}

/// (id bigint primary key, v string)
pub fn schema(version: u32) -> TableSchema {
    let id = Column::new("id", DataType::BigInt, false);
    let v = Column::new("v", DataType::String, true);
    TableSchema::new(version, vec![id, v], vec!["id".into()])
}

pub fn event(
    position: u64,
    changes: Vec<SchemaChange>,
    before: Option<TableSchema>,
    after: Option<TableSchema>,
) -> SchemaEvent {
    let position = Position { hi: 1, lo: position };
    SchemaEvent {
        table: table(),
        id: DdlId { table: table(), position },
        changes,
        before: before.map(Arc::new),
        after: after.map(Arc::new),
        position,
        commit_ms: 0,
    }
}

pub fn create(position: u64) -> SchemaEvent {
    event(position, vec![SchemaChange::CreateTable], None, Some(schema(1)))
}

pub fn change(schema: &TableSchema, kinds: Vec<RowKind>, columns: Vec<ArrayRef>) -> DataChange {
    let rows = RecordBatch::try_new(schema.arrow_schema(), columns).expect("fits");
    let position = Position::default();
    DataChange {
        table: table(),
        schema: Arc::new(schema.clone()),
        segments: vec![Segment { end: kinds.len() as u32, position, commit_ms: 1 }],
        kinds,
        rows,
        unavailable: None,
        snapshot: false,
    }
}

/// Upserts (`Some`) and deletes (`None`) under [`schema`].
pub fn puts(rows: &[(i64, Option<&str>)]) -> DataChange {
    let kinds = rows
        .iter()
        .map(|(_, v)| if v.is_some() { RowKind::UpdateAfter } else { RowKind::Delete })
        .collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0)));
    let values: ArrayRef = Arc::new(StringArray::from_iter(rows.iter().map(|r| r.1)));
    change(&schema(1), kinds, vec![ids, values])
}

pub fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

pub fn int_column(batches: &[RecordBatch], name: &str) -> Vec<Option<i32>> {
    batches
        .iter()
        .flat_map(|b| {
            b.column_by_name(name)
                .expect(name)
                .as_primitive::<Int32Type>()
                .iter()
                .collect::<Vec<_>>()
        })
        .collect()
}

pub fn expect(rows: &[(i64, &str)]) -> Rows {
    rows.iter().map(|(id, v)| (*id, Some(v.to_string()))).collect()
}
