//! A reader under test and a model of the lake that takes its records in the order of emission.

#![allow(dead_code)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use lakeward_core::{
    CheckpointId, CheckpointRequester, Clock, Collector, DataChange, DataType, DdlId, Error,
    ErrorKind, Literal, MetricGroup, Offset, Offsets, PipelineId, ReadStatus, Result, RowKind,
    SchemaChange, SchemaEvent, Source, SourceOpen, SourceReader, State, StreamRecord, TableFailure,
    TableId,
};
use lakeward_mysql::{MysqlConfig, MysqlSource};
use lakeward_testkit::server::{PASSWORD, Server, USER};
use tokio::runtime::Runtime;

pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as i64)
    }
}

/// Checkpoints are taken by the test.
struct NoCheckpoints;

impl CheckpointRequester for NoCheckpoints {
    fn request(&self) {}
}

pub type Row = BTreeMap<String, Option<String>>;

/// One table as a sink would hold it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelTable {
    pub columns: Vec<String>,
    pub key: Vec<String>,
    /// Keyed tables: by the key's text. Others: every row, by its number.
    pub rows: BTreeMap<String, Row>,
    next_row: u64,
    pub deletes_of_missing: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub tables: BTreeMap<String, ModelTable>,
    pub resets: BTreeMap<String, u64>,
    pub creates: BTreeMap<String, u64>,
    pub events: Vec<(String, Vec<&'static str>)>,
    pub offset: Option<Offset>,
    pub snapshot_rows: u64,
    pub log_rows: u64,
    pub largest_batch: usize,
    /// A second event of an id is passed over as repeated.
    ddl: HashSet<DdlId>,
    pub failures: Vec<(TableId, ErrorKind, String)>,
    versions: BTreeMap<String, u32>,
}

impl Model {
    pub fn apply(&mut self, record: StreamRecord) {
        match record {
            StreamRecord::Data(change) => self.data(change),
            StreamRecord::Schema(event) => self.schema(event),
            StreamRecord::Progress(progress) => self.offset = Some(progress.offset),
            StreamRecord::Failure(failure) => {
                let TableFailure { table, error } = failure;
                self.failures.push((table, error.kind(), error.to_string()));
            }
            other => panic!("a source does not emit {other:?}"),
        }
    }

    fn data(&mut self, change: DataChange) {
        let name = change.table.to_string();
        let table = self
            .tables
            .get_mut(&name)
            .unwrap_or_else(|| panic!("rows of {name} before it was created"));
        let version = self.versions[&name];
        assert_eq!(change.schema.version, version, "{name}: rows of another version");
        assert_eq!(change.kinds.len(), change.rows.num_rows());
        let last = change.segments.last().expect("segments");
        assert_eq!(last.end as usize, change.kinds.len(), "{name}: segments cover the rows");
        self.largest_batch = self.largest_batch.max(change.kinds.len());
        match change.snapshot {
            true => self.snapshot_rows += change.kinds.len() as u64,
            false => self.log_rows += change.kinds.len() as u64,
        }
        let rows = texts(&change.rows, &change.schema);
        for (i, (kind, row)) in change.kinds.iter().zip(rows).enumerate() {
            let row: Row = row
                .into_iter()
                .enumerate()
                .filter(|(c, _)| {
                    let missing = change.unavailable.as_ref().and_then(|u| u.0[*c].as_ref());
                    !missing.is_some_and(|bits| bits.value(i))
                })
                .map(|(_, cell)| cell)
                .collect();
            table.change(*kind, row, change.snapshot);
        }
    }

    fn schema(&mut self, event: SchemaEvent) {
        let name = event.table.to_string();
        assert!(self.ddl.insert(event.id.clone()), "{name}: a second event of the id {}", event.id);
        self.events.push((name.clone(), event.changes.iter().map(SchemaChange::kind).collect()));
        if let Some(after) = &event.after {
            self.versions.insert(name.clone(), after.version);
        }
        for change in &event.changes {
            match change {
                SchemaChange::CreateTable => {
                    *self.creates.entry(name.clone()).or_default() += 1;
                    self.tables.entry(name.clone()).or_default();
                }
                SchemaChange::ResetTable => {
                    *self.resets.entry(name.clone()).or_default() += 1;
                    self.tables.insert(name.clone(), ModelTable::default());
                }
                SchemaChange::DropTable => {
                    self.tables.remove(&name);
                    self.versions.remove(&name);
                }
                SchemaChange::TruncateTable => self.table(&name).rows.clear(),
                SchemaChange::RenameTable { to } => {
                    let table = self.tables.remove(&name).expect("a table that is renamed");
                    self.tables.insert(to.to_string(), table);
                    if let Some(v) = self.versions.get(&name).copied() {
                        self.versions.insert(to.to_string(), v);
                    }
                }
                SchemaChange::AddColumn { column, existing_rows, .. } => {
                    let value = literal(existing_rows, &column.data_type);
                    for row in self.table(&name).rows.values_mut() {
                        row.insert(column.name.to_string(), value.clone());
                    }
                }
                SchemaChange::DropColumn { name: column } => {
                    for row in self.table(&name).rows.values_mut() {
                        row.remove(&**column);
                    }
                }
                _ => {}
            }
        }
        let renames: HashMap<&str, &str> = event
            .changes
            .iter()
            .filter_map(|c| match c {
                SchemaChange::RenameColumn { from, to } => Some((&**from, &**to)),
                _ => None,
            })
            .collect();
        if !renames.is_empty() {
            for row in self.table(&name).rows.values_mut() {
                *row = std::mem::take(row)
                    .into_iter()
                    .map(|(c, v)| (renames.get(&*c).map_or(c, |to| to.to_string()), v))
                    .collect();
            }
        }
        let place = event
            .changes
            .iter()
            .find_map(|c| match c {
                SchemaChange::RenameTable { to } => Some(to.to_string()),
                _ => None,
            })
            .unwrap_or(name);
        if let (Some(after), Some(table)) = (&event.after, self.tables.get_mut(&place)) {
            table.columns = after.columns.iter().map(|c| c.name.to_string()).collect();
            table.key = after.primary_key.iter().map(|k| k.to_string()).collect();
        }
    }

    fn table(&mut self, name: &str) -> &mut ModelTable {
        self.tables.get_mut(name).unwrap_or_else(|| panic!("{name} was never created"))
    }

    /// Rows of a table with the named columns, sorted.
    pub fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Option<String>>> {
        let Some(table) = self.tables.get(table) else { return Vec::new() };
        let mut rows: Vec<Vec<Option<String>>> = table
            .rows
            .values()
            .map(|r| columns.iter().map(|c| r.get(*c).cloned().flatten()).collect())
            .collect();
        rows.sort();
        rows
    }
}

impl ModelTable {
    fn change(&mut self, kind: RowKind, row: Row, snapshot: bool) {
        if self.key.is_empty() {
            match kind {
                RowKind::Insert | RowKind::UpdateAfter => {
                    self.next_row += 1;
                    self.rows.insert(format!("{:020}", self.next_row), row);
                }
                RowKind::UpdateBefore | RowKind::Delete => {
                    let found = self.rows.iter().find(|(_, r)| **r == row).map(|(k, _)| k.clone());
                    let found = found.unwrap_or_else(|| {
                        panic!("an old row that the table does not have: {row:?}")
                    });
                    self.rows.remove(&found);
                }
            }
            return;
        }
        let key: Vec<String> =
            self.key.iter().map(|k| row[k].clone().unwrap_or_default()).collect();
        let key = key.join("\u{1}");
        if kind.is_put() {
            match self.rows.get_mut(&key) {
                // A cell that was not sent keeps its value.
                Some(old) if !snapshot => old.extend(row),
                _ => {
                    self.rows.insert(key, row);
                }
            }
        } else if self.rows.remove(&key).is_none() {
            self.deletes_of_missing += 1;
        }
    }
}

fn literal(value: &Literal, data_type: &DataType) -> Option<String> {
    if matches!(value, Literal::Null) {
        return None;
    }
    let array = value.to_array(data_type, 1).expect("a literal of its type");
    Some(text(&*array, 0))
}

fn texts(
    batch: &RecordBatch,
    schema: &lakeward_core::TableSchema,
) -> Vec<Vec<(String, Option<String>)>> {
    (0..batch.num_rows())
        .map(|row| {
            schema
                .columns
                .iter()
                .zip(batch.columns())
                .map(|(c, array)| {
                    let value = array.is_valid(row).then(|| text(&**array, row));
                    (c.name.to_string(), value)
                })
                .collect()
        })
        .collect()
}

fn text(array: &dyn Array, row: usize) -> String {
    let options = FormatOptions::default();
    ArrayFormatter::try_new(array, &options).expect("printable").value(row).to_string()
}

/// A source, its reader when it runs, and what came out of it.
pub struct Harness {
    pub runtime: Runtime,
    pub port: u16,
    pub options: Vec<(String, String)>,
    pub model: Model,
    pub status: ReadStatus,
    reader: Option<Box<dyn SourceReader>>,
    source: Option<Arc<MysqlSource>>,
    attempt: u64,
    checkpoint: u64,
    pub metrics: MetricGroup,
    pub saved: Option<(State, Model)>,
    pub committed: HashMap<TableId, Offsets>,
    pub ahead: HashSet<TableId>,
    pub resnapshot: Vec<String>,
    pub pipeline: String,
}

impl Harness {
    pub fn new(server: &Server, tables: &str) -> Self {
        let _ = tracing_subscriber::fmt()
            .with_test_writer()
            .with_env_filter("lakeward=info")
            .try_init();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        Self {
            runtime,
            port: server.port(),
            options: vec![("tables".into(), tables.into())],
            model: Model::default(),
            status: ReadStatus { at_boundary: true, streaming: false },
            reader: None,
            source: None,
            attempt: 0,
            checkpoint: 0,
            metrics: MetricGroup::default(),
            saved: None,
            committed: HashMap::new(),
            ahead: HashSet::new(),
            resnapshot: Vec::new(),
            pipeline: format!("test-{tables}"),
        }
    }

    pub fn option(mut self, key: &str, value: &str) -> Self {
        self.set(key, value);
        self
    }

    pub fn set(&mut self, key: &str, value: &str) {
        self.options.retain(|(k, _)| k != key);
        self.options.push((key.into(), value.into()));
    }

    pub fn source(&self) -> Result<MysqlSource> {
        let mut map = serde_json::Map::new();
        for (key, value) in &self.options {
            let value = match value.parse::<u64>() {
                Ok(n) if key != "server-id" => n.into(),
                _ => serde_json::Value::from(value.clone()),
            };
            map.insert(key.clone(), value);
        }
        map.entry("hostname").or_insert("127.0.0.1".into());
        map.entry("port").or_insert(self.port.into());
        map.entry("username").or_insert(USER.into());
        map.entry("password").or_insert(PASSWORD.into());
        map.entry("heartbeat.interval").or_insert("1s".into());
        let config: MysqlConfig = serde_json::from_value(map.into()).expect("valid options");
        MysqlSource::new(config)
    }

    /// Opens a reader from what was saved last.
    pub fn try_open(&mut self) -> Result<()> {
        self.attempt += 1;
        self.status = ReadStatus { at_boundary: true, streaming: false };
        let source = Arc::new(self.source()?);
        if let Some((_, model)) = &self.saved {
            self.model = model.clone();
        }
        let open = SourceOpen {
            pipeline: PipelineId(self.pipeline.as_str().into()),
            attempt: self.attempt,
            index: 0,
            parallelism: 1,
            restored: self.saved.as_ref().map(|(s, _)| s.clone()),
            committed: self.committed.clone(),
            ahead: self.ahead.clone(),
            resnapshot: self.resnapshot.clone(),
            clock: Arc::new(SystemClock),
            checkpoints: Arc::new(NoCheckpoints),
            metrics: self.metrics.clone(),
            memory_bytes: 64 << 20,
        };
        self.reader = Some(self.runtime.block_on(source.open(open))?);
        self.source = Some(source);
        Ok(())
    }

    pub fn open(&mut self) {
        self.try_open().expect("the reader opens");
    }

    /// Ends the reader without a checkpoint, as a crash does.
    pub fn crash(&mut self) {
        let _guard = self.runtime.enter();
        self.reader = None;
    }

    pub fn step(&mut self) -> Result<()> {
        let mut out = Collector::default();
        let reader = self.reader.as_mut().expect("a reader");
        let result = self.runtime.block_on(reader.next(&mut out));
        for (_, record) in out.drain() {
            self.model.apply(record);
        }
        self.status = result?;
        Ok(())
    }

    /// Runs until the reader has everything that the server had at the call.
    pub fn catch_up(&mut self) {
        self.try_catch_up().expect("the reader goes on");
    }

    pub fn try_catch_up(&mut self) -> Result<()> {
        let source = self.source.clone().expect("a source");
        let goal = self.runtime.block_on(source.current_offsets())?;
        let goal = goal.values().next().expect("one split").clone();
        self.run_until(Duration::from_secs(90), |h| {
            h.status.streaming
                && h.model.offset.as_ref().is_some_and(|o| source.covers(o, &goal).unwrap_or(false))
        })
    }

    pub fn run_until(&mut self, patience: Duration, done: impl Fn(&Self) -> bool) -> Result<()> {
        let end = Instant::now() + patience;
        while !done(self) {
            assert!(
                Instant::now() < end,
                "not done in {patience:?}; offset {:?}",
                self.model.offset
            );
            self.step()?;
        }
        Ok(())
    }

    pub fn run_for(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step()?;
        }
        Ok(())
    }

    /// Takes a checkpoint where the reader allows it.
    pub fn checkpoint(&mut self) {
        while !self.status.at_boundary {
            self.step().expect("the reader goes on");
        }
        self.checkpoint += 1;
        let checkpoint = CheckpointId(self.checkpoint);
        let mut out = Collector::default();
        let reader = self.reader.as_mut().expect("a reader");
        let state = self.runtime.block_on(async {
            reader.prepare_snapshot(checkpoint, &mut out).await?;
            reader.snapshot_state(checkpoint).await
        });
        for (_, record) in out.drain() {
            self.model.apply(record);
        }
        self.saved = Some((state.expect("a state"), self.model.clone()));
    }

    pub fn restart(&mut self) {
        self.crash();
        self.open();
    }

    pub fn gauge(&self, name: &str) -> i64 {
        self.metrics.gauge(name).get()
    }

    /// The next table that the reader leaves out.
    pub fn expect_failure(&mut self, patience: Duration) -> (TableId, ErrorKind, String) {
        let known = self.model.failures.len();
        self.run_until(patience, |h| h.model.failures.len() > known).expect("the reader goes on");
        self.model.failures[known].clone()
    }

    pub fn expect_error(&mut self, patience: Duration) -> Error {
        let end = Instant::now() + patience;
        loop {
            assert!(Instant::now() < end, "no error in {patience:?}");
            if let Err(e) = self.step() {
                return e;
            }
        }
    }
}

/// Text rows for comparison.
pub fn rows(rows: &[&[&str]]) -> Vec<Vec<Option<String>>> {
    rows.iter().map(|r| r.iter().map(|v| (*v != "NULL").then(|| v.to_string())).collect()).collect()
}

/// The source's own answer, sorted as the model's rows are.
pub fn truth(server: &Server, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut session = server.session(None).expect("a session");
    let mut rows = session.rows(sql).expect("rows");
    rows.sort();
    rows
}

/// Waits for something that the server does in its own time.
pub fn eventually(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "it did not happen in 30 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}
