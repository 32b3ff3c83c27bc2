//! `append-changelog` mode: every change is a row of its own, nothing is ever deleted.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use async_trait::async_trait;
use iceberg::spec::PrimitiveType;
use lakeward_core::{Committable, DataChange, Error, ErrorKind, Result, ResultExt, SinkWriter};
use uuid::Uuid;

use crate::NewDataFile;
use crate::committable::{CommittableId, RowCounts, TableCommittable};
use crate::data_files::DataFiles;
use crate::table_state::TableHandle;
use crate::types::Conform;
use crate::writer::{WriterOptions, data_folder};

/// What happened to the row: `+I`, `-U`, `+U` or `-D`.
pub const OP: &str = "__op";
/// The source transaction's position, as text that sorts in the source's order.
pub const POSITION: &str = "__position";
/// When the source committed it.
pub const COMMIT_TS: &str = "__commit_ts";

/// The columns that a changelog table has behind those of its source; all are optional.
pub const COLUMNS: [(&str, PrimitiveType); 3] = [
    (OP, PrimitiveType::String),
    (POSITION, PrimitiveType::String),
    (COMMIT_TS, PrimitiveType::Timestamptz),
];

/// A writer that appends what it gets.
pub struct ChangelogWriter {
    handle: Arc<TableHandle>,
    options: WriterOptions,
    bound: Option<Bound>,
    table_uuid: Uuid,
    files: Vec<NewDataFile>,
    rows: RowCounts,
    commit_ms: i64,
    sequence: u64,
}

struct Bound {
    version: u32,
    conform: Conform,
    files: DataFiles,
}

impl ChangelogWriter {
    pub fn new(handle: Arc<TableHandle>, options: WriterOptions) -> Self {
        Self {
            handle,
            options,
            bound: None,
            table_uuid: Uuid::nil(),
            files: Vec::new(),
            rows: RowCounts::default(),
            commit_ms: 0,
            sequence: 0,
        }
    }

    async fn append(&mut self, change: &DataChange) -> Result<()> {
        if change.kinds.is_empty() {
            return Ok(());
        }
        refuse_partial_rows(change)?;
        if self.bound.as_ref().is_none_or(|bound| bound.version != change.schema.version) {
            self.close_files().await?;
            self.table_uuid = self.handle.metadata()?.uuid();
            self.bound = Some(self.bind(change)?);
        }
        let bound = self.bound.as_mut().expect("bound above");
        let rows = with_changelog_columns(bound.conform.conform(&change.rows)?, change)?;
        let rows = bound.conform.strict(&rows)?;
        bound.files.write(&rows, &self.options.names).await?;
        self.rows.count(&change.kinds);
        let newest = change.segments.iter().map(|segment| segment.commit_ms).max();
        self.commit_ms = self.commit_ms.max(newest.unwrap_or(0));
        if bound.files.memory_bytes() > self.options.buffer_bytes {
            bound.files.release_memory().await?;
        }
        Ok(())
    }

    fn bind(&self, change: &DataChange) -> Result<Bound> {
        let metadata = self.handle.metadata()?;
        let version = change.schema.version;
        let schema = self.handle.schema_of_version(version)?.ok_or_else(|| {
            Error::bug("rows came before the lake had their schema; where the state directory is a copy from before a --resnapshot, read the \
                 table anew with --resnapshot").with("schema version", version)
        })?;
        let conform = Conform::new(&change.schema, schema.clone())?;
        let files = DataFiles::new(
            self.handle.file_io().clone(),
            data_folder(&metadata),
            schema,
            metadata.default_partition_spec().clone(),
            self.options.files.clone().with_table_properties(metadata.properties())?,
        )?;
        Ok(Bound { version, conform, files })
    }

    async fn close_files(&mut self) -> Result<()> {
        if let Some(bound) = &mut self.bound {
            bound.files.finish().await?;
            self.files.append(&mut bound.files.take_done());
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<Vec<Committable>> {
        self.close_files().await?;
        if self.rows.total() == 0 && self.files.is_empty() {
            return Ok(Vec::new());
        }
        let done = TableCommittable {
            id: CommittableId {
                attempt: self.options.attempt,
                writer: self.options.share.index as u32,
                sequence: self.sequence,
            },
            table_uuid: self.table_uuid,
            files: std::mem::take(&mut self.files),
            deletes: Default::default(),
            rows: std::mem::take(&mut self.rows),
            commit_ms: std::mem::take(&mut self.commit_ms),
        };
        self.sequence += 1;
        let committable = done.encode(self.handle.table())?;
        let guard = self.handle.lock().await;
        self.handle.add_pending(&guard, Arc::new(done));
        Ok(vec![committable])
    }
}

#[async_trait]
impl SinkWriter for ChangelogWriter {
    async fn write(&mut self, change: DataChange) -> Result<()> {
        self.append(&change).await.map_err(|e| e.with("table", self.handle.table()))
    }

    fn buffered_bytes(&self) -> usize {
        self.bound.as_ref().map_or(0, |bound| bound.files.memory_bytes())
    }

    async fn flush(&mut self) -> Result<()> {
        match &mut self.bound {
            Some(bound) => bound.files.release_memory().await,
            None => Ok(()),
        }
    }

    async fn complete_files(&mut self) -> Result<Vec<Committable>> {
        self.complete().await.map_err(|e| e.with("table", self.handle.table()))
    }

    async fn table_changed(&mut self) -> Result<()> {
        // Rows on the way keep the schema that they were written under; the next ones are bound anew.
        self.close_files().await?;
        self.bound = None;
        Ok(())
    }
}

/// A cell that was not sent would look like a null, which it is not.
fn refuse_partial_rows(change: &DataChange) -> Result<()> {
    let Some(unavailable) = &change.unavailable else { return Ok(()) };
    let partial = unavailable.0.iter().flatten().any(|bits| {
        bits.set_indices().any(|row| change.kinds.get(row).is_some_and(|kind| kind.is_put()))
    });
    match partial {
        false => Ok(()),
        true => Err(Error::data_invalid(
            "an update did not carry all columns, which a changelog table cannot show; let the source log whole rows \
             (MySQL: binlog_row_image=FULL)",
        )),
    }
}

fn with_changelog_columns(rows: RecordBatch, change: &DataChange) -> Result<RecordBatch> {
    let layout = rows.schema();
    let mut columns = rows.columns().to_vec();
    let place = |name: &str| {
        layout.index_of(name).map_err(|_| {
            Error::config(
                "the table in the lake is not a changelog table; choose another table, or write.mode: v2-position",
            )
            .with("column", name)
        })
    };
    let mut segments = change.segments.iter().peekable();
    let mut positions = Vec::with_capacity(change.kinds.len());
    let mut times = Vec::with_capacity(change.kinds.len());
    for row in 0..change.kinds.len() as u32 {
        while segments.next_if(|segment| segment.end <= row).is_some() {}
        let segment =
            segments.peek().ok_or_else(|| Error::bug("the rows of a batch have no position"))?;
        positions.push(format!("{:020}:{:020}", segment.position.hi, segment.position.lo));
        times.push(segment.commit_ms.saturating_mul(1000));
    }
    let ops: StringArray = change.kinds.iter().map(|kind| Some(kind.short())).collect();
    columns[place(OP)?] = Arc::new(ops);
    columns[place(POSITION)?] = Arc::new(StringArray::from(positions));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(times).with_timezone("+00:00"));
    columns[place(COMMIT_TS)?] = times;
    RecordBatch::try_new(layout, columns)
        .or_err(ErrorKind::SchemaIncompatible, "the changelog columns in the lake have other types")
}
