//! A handler with a sink and marks that the test controls.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use async_trait::async_trait;
use lakeward_core::*;
use lakeward_operators::ddl_handler::StreamDdlHandler;
use lakeward_operators::{SchemaPolicy, TableErrorPolicy};

pub const INTERVAL_MS: u64 = 1000;

#[derive(Default)]
pub struct World {
    pub now_ms: AtomicI64,
    pub requests: AtomicU64,
    pub marks: Mutex<BTreeSet<(String, u64, bool, usize)>>,
    pub applied: Mutex<Vec<DdlId>>,
    /// The tables that the sink has, where the test wants it to be as strict as a real one.
    pub tables: Mutex<Option<BTreeSet<TableId>>>,
}

impl Clock for World {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::Relaxed)
    }
}

impl CheckpointRequester for World {
    fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl SuccessMarks for World {
    fn leave(&self, ddl: &DdlId, attempt: u64, stage: MarkStage, instance: usize) -> Result<()> {
        let committed = stage == MarkStage::RowsCommitted;
        self.marks.lock().unwrap().insert((ddl.to_string(), attempt, committed, instance));
        Ok(())
    }
    fn count(&self, ddl: &DdlId, attempt: u64, stage: MarkStage) -> Result<usize> {
        let committed = stage == MarkStage::RowsCommitted;
        let marks = self.marks.lock().unwrap();
        Ok(marks
            .iter()
            .filter(|m| m.0 == ddl.to_string() && m.1 == attempt && m.2 == committed)
            .count())
    }
    fn clear(&self, ddl: &DdlId) {
        self.marks.lock().unwrap().retain(|m| m.0 != ddl.to_string());
    }
}

impl JobListener for World {
    fn epoch_committed(&self, _: &EpochCommitted) {}
    fn table_paused(&self, _: &TableId, _: &Error) {}
    fn table_resumed(&self, _: &TableId) {}
    fn schema_changed(&self, _: &TableId, _: &str) {}
}

pub struct FakeSink(pub Arc<World>);

#[async_trait]
impl Sink for FakeSink {
    async fn check(&self, _: &PipelineId, _: &[(TableId, Arc<TableSchema>)]) -> Result<SinkCheck> {
        Ok(SinkCheck::default())
    }
    async fn join(&self, _: &PipelineId, _: &lakeward_core::Member<'_>) -> Result<()> {
        Ok(())
    }

    async fn acquire(&self, _: &PipelineId, _: u64) -> Result<lakeward_core::Ownership> {
        Ok(lakeward_core::Ownership(String::new()))
    }
    async fn progress(&self, _: &PipelineId) -> Result<Vec<TableProgress>> {
        Ok(Vec::new())
    }
    async fn writer(&self, _: &TableId, _: &OperatorContext) -> Result<Box<dyn SinkWriter>> {
        Err(Error::bug("not in this test"))
    }
    async fn committer(&self, _: &OperatorContext) -> Result<Box<dyn Committer>> {
        Err(Error::bug("not in this test"))
    }
    async fn metadata_applier(&self, _: &OperatorContext) -> Result<Box<dyn MetadataApplier>> {
        Ok(Box::new(FakeApplier(self.0.clone())))
    }
    async fn epoch_publisher(
        &self,
        _: &OperatorContext,
    ) -> Result<Option<Box<dyn EpochPublisher>>> {
        Ok(None)
    }
}

pub struct FakeApplier(Arc<World>);

#[async_trait]
impl MetadataApplier for FakeApplier {
    fn needs(&self, event: &SchemaEvent) -> DdlNeeds {
        match event.changes[0] {
            SchemaChange::CreateTable => DdlNeeds::Nothing,
            _ => DdlNeeds::FilesComplete,
        }
    }
    async fn is_applied(&mut self, ddl: &DdlId) -> Result<bool> {
        Ok(self.0.applied.lock().unwrap().contains(ddl))
    }
    async fn apply(&mut self, event: &SchemaEvent) -> Result<()> {
        if let Some(tables) = &mut *self.0.tables.lock().unwrap() {
            let fits = match &event.changes[0] {
                SchemaChange::CreateTable => tables.insert(event.table.clone()),
                SchemaChange::DropTable => tables.remove(&event.table),
                SchemaChange::RenameTable { to } => {
                    tables.remove(&event.table) && tables.insert(to.clone())
                }
                _ => tables.contains(&event.table),
            };
            assert!(fits, "{:?} of {} does not fit {tables:?}", event.changes, event.id);
        }
        self.0.applied.lock().unwrap().push(event.id.clone());
        Ok(())
    }
}

pub fn context(world: &Arc<World>, writers: usize, attempt: u64) -> OperatorContext {
    OperatorContext {
        operator: "StreamDdlHandler".into(),
        index: 0,
        parallelism: 1,
        downstream_parallelism: writers,
        pipeline: PipelineId("p".into()),
        attempt,
        checkpoint_interval_ms: INTERVAL_MS,
        clock: world.clone(),
        metrics: MetricGroup::default(),
        marks: world.clone(),
        checkpoints: world.clone(),
        listener: world.clone(),
        scratch_dir: std::env::temp_dir(),
        memory_bytes: 1 << 20,
    }
}

pub async fn handler(
    world: &Arc<World>,
    writers: usize,
    attempt: u64,
    state: Option<State>,
) -> (StreamDdlHandler, Collector) {
    let sink = Arc::new(FakeSink(world.clone()));
    let context = context(world, writers, attempt);
    let mut handler =
        StreamDdlHandler::new(context, sink, SchemaPolicy::default(), TableErrorPolicy::Fail);
    let mut out = Collector::default();
    handler.open(state, &mut out).await.unwrap();
    (handler, out)
}

pub fn schema(version: u32) -> Arc<TableSchema> {
    Arc::new(TableSchema::new(
        version,
        vec![Column::new("id", DataType::Int, false)],
        vec!["id".into()],
    ))
}

pub fn ddl(name: &str, at: u64, change: SchemaChange) -> StreamRecord {
    let table = TableId::new("d", name);
    let position = Position { hi: 1, lo: at };
    StreamRecord::Schema(SchemaEvent {
        id: DdlId { table: table.clone(), position },
        table,
        changes: vec![change],
        before: Some(schema(0)),
        after: Some(schema(at as u32)),
        position,
        commit_ms: 0,
    })
}

pub fn rows(name: &str, ids: std::ops::Range<i32>) -> StreamRecord {
    let schema = schema(0);
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values(ids.clone()));
    StreamRecord::Data(DataChange {
        table: TableId::new("d", name),
        rows: RecordBatch::try_new(schema.arrow_schema(), vec![values]).unwrap(),
        schema,
        kinds: vec![RowKind::Insert; ids.len()],
        unavailable: None,
        segments: vec![Segment {
            end: ids.len() as u32,
            position: Position::default(),
            commit_ms: 0,
        }],
        snapshot: false,
    })
}

pub fn progress(offset: &str) -> StreamRecord {
    StreamRecord::Progress(Progress {
        table: None,
        split: SplitId("log".into()),
        offset: Offset(offset.into()),
        commit_ms: 0,
    })
}

/// What came out, in short.
pub fn said(out: &mut Collector) -> Vec<String> {
    out.drain()
        .map(|(_, record)| match record {
            StreamRecord::Data(c) => format!("{} rows of {}", c.kinds.len(), c.table.name),
            StreamRecord::Schema(e) => format!("ddl {} of {}", e.position.lo, e.table.name),
            StreamRecord::Mark(m) => format!("mark {}", m.table.name),
            StreamRecord::Progress(p) => match p.table {
                Some(t) => format!("{} only up to {}", t.name, p.offset),
                None => format!("at {}", p.offset),
            },
            other => format!("{other:?}"),
        })
        .collect()
}

pub fn comment() -> SchemaChange {
    SchemaChange::CommentTable { comment: None }
}
