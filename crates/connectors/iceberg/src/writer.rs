//! Writes one table's rows: collapses them by key, finds the rows that they replace, and puts them into data files.

mod work;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use iceberg::spec::TableMetadata;
use lakeward_core::{
    Committable, Counter, DataChange, Error, Gauge, MetricGroup, Result, RowKind, SinkWriter,
    TableSchema,
};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::buffer::{Buffer, Missing};
use crate::collapse::{Outcome, select_rows};
use crate::committable::{CommittableId, TableCommittable};
use crate::data_files::{DataFileOptions, DataFiles};
use crate::locator::{KeyPlan, Keys, Locator, Place, Share, rebuild};
use crate::names::FileNames;
use crate::table_state::{TableGuard, TableHandle};
use crate::types::Conform;
use crate::unavailable;
use work::Work;

/// How a writer works.
#[derive(Debug)]
pub struct WriterOptions {
    /// This writer among those of the table: it holds the keys that fall to it by `lakeward_core::keys::row_hashes`.
    pub share: Share,
    pub attempt: u64,
    pub names: FileNames,
    /// Rows are written to files once they take this much memory.
    pub buffer_bytes: usize,
    pub files: DataFileOptions,
    /// A delete or keyless update that finds no row stops the table instead of being counted.
    pub fail_on_missing: bool,
    pub metrics: MetricGroup,
}

/// A writer that keeps the table equal to its source, with position deletes.
pub struct TableWriter {
    handle: Arc<TableHandle>,
    options: WriterOptions,
    metrics: WriterMetrics,
    bound: Option<Bound>,
    buffer: Buffer,
    locator: Option<Located>,
    work: Work,
    sequence: u64,
}

struct WriterMetrics {
    missed: Counter,
    rebuilds: Counter,
    keys: Gauge,
    locator_bytes: Gauge,
}

/// What follows from the schema version of the rows that are being written.
struct Bound {
    version: u32,
    table_uuid: Uuid,
    conform: Conform,
    plan: KeyPlan,
    /// The columns of the plan's fields.
    key_columns: Vec<usize>,
    files: DataFiles,
}

struct Located {
    locator: Locator,
    generation: u64,
}

impl TableWriter {
    pub fn new(handle: Arc<TableHandle>, options: WriterOptions) -> Self {
        let metrics = WriterMetrics {
            missed: options.metrics.counter("missed_rows_total"),
            rebuilds: options.metrics.counter("locator_rebuilds_total"),
            keys: options.metrics.gauge("locator_keys"),
            locator_bytes: options.metrics.gauge("locator_bytes"),
        };
        Self {
            handle,
            options,
            metrics,
            bound: None,
            buffer: Buffer::default(),
            locator: None,
            work: Work::default(),
            sequence: 0,
        }
    }

    async fn take(&mut self, change: DataChange) -> Result<()> {
        if change.kinds.is_empty() {
            return Ok(());
        }
        let version = change.schema.version;
        if self.bound.as_ref().is_none_or(|bound| bound.version != version) {
            self.write_out().await?;
            self.close_files().await?;
            let bound = self.bind(&change.schema)?;
            if !self.work.is_empty() && self.work.table_uuid != bound.table_uuid {
                return Err(Error::transient(
                    "the table was replaced in the catalog while rows of it were on the way",
                ));
            }
            self.work.table_uuid = bound.table_uuid;
            self.bound = Some(bound);
        }
        let bound = self.bound.as_ref().expect("bound above");
        let missing = missing(&change, &bound.conform);
        if missing.is_some() && !bound.plan.unique {
            return Err(Error::data_invalid(
                "the source did not send whole rows of a table without a primary key; let it log whole rows (MySQL: \
                 binlog_row_image=FULL), or give the table a primary key",
            ));
        }
        let rows = bound.conform.conform(&change.rows)?;
        self.work.count(&change);
        self.buffer.push(rows, &change.kinds, missing);
        // A delete may be the first half of a key change, whose second half needs the old row.
        let halfway = change.kinds.last() == Some(&RowKind::Delete);
        if self.buffer.bytes() >= self.options.buffer_bytes && !halfway {
            self.write_out().await?;
        }
        Ok(())
    }

    /// Binds a schema version of the source to its schema in the lake.
    fn bind(&self, source: &TableSchema) -> Result<Bound> {
        let metadata = self.handle.metadata()?;
        let schema = self.handle.schema_of_version(source.version)?.ok_or_else(|| {
            Error::bug("rows came before the lake had their schema; where the state directory is a copy from before a --resnapshot, read the \
                 table anew with --resnapshot")
                .with("schema version", source.version)
        })?;
        let conform = Conform::new(source, schema.clone())?;
        let key_columns = conform.key_columns(source);
        let fields = schema.as_struct().fields();
        let key: Vec<i32> = key_columns.iter().map(|column| fields[*column].id).collect();
        let plan = KeyPlan::new(&schema, &key, xxh3_64(metadata.uuid().as_bytes()))?;
        let key_columns = match plan.unique {
            true => key_columns,
            false => (0..fields.len()).collect(),
        };
        let files = DataFiles::new(
            self.handle.file_io().clone(),
            data_folder(&metadata),
            schema,
            metadata.default_partition_spec().clone(),
            self.options.files.clone().with_table_properties(metadata.properties())?,
        )?;
        let (version, table_uuid) = (source.version, metadata.uuid());
        Ok(Bound { version, table_uuid, conform, plan, key_columns, files })
    }

    /// Writes the buffered rows to data files, which stay open, and records which rows they replace.
    async fn write_out(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let handle = self.handle.clone();
        let guard = handle.lock().await;
        self.locate(&guard).await?;
        let buffer = std::mem::take(&mut self.buffer);
        let keys = self.encode_keys(&buffer)?;
        let bound = self.bound.as_ref().expect("rows were bound");
        let outcome = bound.plan.collapse(&keys, &buffer.kinds, buffer.has_missing());
        let batches = match buffer.has_missing() {
            true => self.fill_missing(&buffer, &keys, &outcome).await?,
            false => buffer.batches,
        };
        let places = self.append(batches, &outcome).await?;
        let located = self.locator.as_mut().expect("located above");
        let gone = located.locator.apply(&keys, &outcome, &places)?;
        if gone.missed > 0 && self.options.fail_on_missing {
            return Err(Error::data_invalid(
                "a delete or an update found no row in the lake; make a new snapshot of the table with --resnapshot",
            )
            .with("rows", gone.missed));
        }
        self.metrics.missed.add(gone.missed);
        self.work.rows.missed += gone.missed;
        self.work.delete(&self.handle, gone.places)?;
        self.collect_done();
        self.handle.add_pending(&guard, Arc::new(self.committable()));
        Ok(())
    }

    /// Has a locator that agrees with the table.
    async fn locate(&mut self, guard: &TableGuard<'_>) -> Result<()> {
        let bound = self.bound.as_ref().expect("rows were bound");
        let generation = self.handle.generation();
        let agrees = |located: &Located| {
            located.generation == generation && *located.locator.plan() == bound.plan
        };
        if self.locator.as_ref().is_some_and(agrees) {
            return Ok(());
        }
        let (plan, schema) = (bound.plan.clone(), bound.conform.schema.clone());
        self.locator = None;
        // What is on the way must be readable.
        self.close_files().await?;
        if !self.work.is_empty() {
            self.handle.add_pending(guard, Arc::new(self.committable()));
        }
        let locator = rebuild(&self.handle, plan, &schema, &self.options.share).await?;
        tracing::debug!(
            table = %self.handle.table(),
            keys = locator.len(),
            bytes = locator.memory_bytes(),
            "row locator built"
        );
        self.metrics.rebuilds.add(1);
        self.locator = Some(Located { locator, generation });
        Ok(())
    }

    fn encode_keys(&self, buffer: &Buffer) -> Result<Keys> {
        let bound = self.bound.as_ref().expect("rows were bound");
        let mut keys = bound.plan.no_keys(buffer.rows());
        for batch in &buffer.batches {
            keys.append(bound.plan.encode(batch, &bound.key_columns)?)?;
        }
        Ok(keys)
    }

    async fn fill_missing(
        &mut self,
        buffer: &Buffer,
        keys: &Keys,
        outcome: &Outcome,
    ) -> Result<Vec<RecordBatch>> {
        let wanted = unavailable::find_wanted(buffer, outcome, self.options.share.parallelism > 1)?;
        let located = self.locator.as_ref().expect("located before");
        let mut places = located.locator.find(keys, &wanted.lookups)?;
        for place in &mut places {
            *place = place.and_then(|p| {
                let (file, row) = self.handle.translate(p.file, p.row)?;
                Some(Place { file, row })
            });
        }
        let bound = self.bound.as_ref().expect("rows were bound");
        let in_open_file = places.iter().flatten().any(|place| {
            self.handle.path_of(place.file).is_some_and(|path| bound.files.is_open(&path))
        });
        if in_open_file {
            self.close_files().await?;
        }
        let schema = self.bound.as_ref().expect("rows were bound").conform.schema.clone();
        let lake = unavailable::read_lake(&self.handle, &schema, &wanted, &places).await?;
        unavailable::fill(buffer, &wanted, &lake)
    }

    /// Appends the rows that are left to the open files; gives the places of `outcome.puts`.
    async fn append(&mut self, batches: Vec<RecordBatch>, outcome: &Outcome) -> Result<Vec<Place>> {
        let bound = self.bound.as_mut().expect("rows were bound");
        let mut places = Vec::with_capacity(outcome.puts.len());
        let Some(layout) = batches.first().map(RecordBatch::schema) else { return Ok(places) };
        let chosen = select_rows(&layout, &batches, &outcome.puts)?;
        drop(batches);
        for rows in chosen {
            // Encoding is long work for one turn of a task.
            tokio::task::yield_now().await;
            let rows = bound.conform.strict(&rows)?;
            let start = places.len();
            places.resize(start + rows.num_rows(), Place { file: 0, row: 0 });
            for written in bound.files.write(&rows, &self.options.names).await? {
                let file = self.handle.ordinal_of(&written.path);
                let in_file = (written.first_row..).map(|row| Place { file, row });
                match &written.rows {
                    None => places[start..].iter_mut().zip(in_file).for_each(|(p, q)| *p = q),
                    Some(rows) => {
                        for (row, place) in rows.values().iter().zip(in_file) {
                            places[start + *row as usize] = place;
                        }
                    }
                }
            }
        }
        Ok(places)
    }

    /// Completes the open files.
    async fn close_files(&mut self) -> Result<()> {
        if let Some(bound) = &mut self.bound {
            bound.files.finish().await?;
        }
        self.collect_done();
        Ok(())
    }

    fn collect_done(&mut self) {
        if let Some(bound) = &mut self.bound {
            self.work.files.append(&mut bound.files.take_done());
        }
    }

    fn committable(&self) -> TableCommittable {
        self.work.committable(CommittableId {
            attempt: self.options.attempt,
            writer: self.options.share.index as u32,
            sequence: self.sequence,
        })
    }

    async fn complete(&mut self) -> Result<Vec<Committable>> {
        self.write_out().await?;
        self.close_files().await?;
        if self.work.is_empty() {
            return Ok(Vec::new());
        }
        let done = self.committable();
        let committable = done.encode(self.handle.table())?;
        let guard = self.handle.lock().await;
        self.handle.add_pending(&guard, Arc::new(done));
        drop(guard);
        self.work = Work { table_uuid: self.work.table_uuid, ..Work::default() };
        self.sequence += 1;
        if let Some(located) = &mut self.locator {
            located.locator.shrink();
            self.metrics.keys.set(located.locator.len() as i64);
            self.metrics.locator_bytes.set(located.locator.memory_bytes() as i64);
        }
        Ok(vec![committable])
    }

    fn in_table(&self, error: Error) -> Error {
        match error.context().iter().any(|(key, _)| *key == "table") {
            true => error,
            false => error.with("table", self.handle.table()),
        }
    }
}

#[async_trait]
impl SinkWriter for TableWriter {
    async fn write(&mut self, change: DataChange) -> Result<()> {
        self.take(change).await.map_err(|e| self.in_table(e))
    }

    fn buffered_bytes(&self) -> usize {
        self.buffer.bytes() + self.bound.as_ref().map_or(0, |bound| bound.files.memory_bytes())
    }

    async fn flush(&mut self) -> Result<()> {
        self.write_out().await.map_err(|e| self.in_table(e))?;
        if let Some(bound) = &mut self.bound {
            bound.files.release_memory().await.map_err(|e| e.with("table", self.handle.table()))?;
        }
        Ok(())
    }

    async fn complete_files(&mut self) -> Result<Vec<Committable>> {
        self.complete().await.map_err(|e| self.in_table(e))
    }

    async fn table_changed(&mut self) -> Result<()> {
        // Rows on the way keep the schema that they were written under; the next ones are bound anew.
        if self.buffer.is_empty() && self.work.is_empty() && self.buffered_bytes() == 0 {
            self.bound = None;
        }
        Ok(())
    }
}

/// The cells that the source did not send, by the lake's columns.
fn missing(change: &DataChange, conform: &Conform) -> Option<Missing> {
    let unavailable = change.unavailable.as_ref()?;
    let columns: Missing = conform
        .source_columns()
        .iter()
        .map(|source| {
            let bits = unavailable.0.get((*source)?)?.as_ref()?;
            (bits.count_set_bits() > 0).then(|| bits.clone())
        })
        .collect();
    columns.iter().any(Option::is_some).then_some(columns)
}

/// Where the table keeps its data files.
pub(crate) fn data_folder(metadata: &TableMetadata) -> String {
    let properties: &HashMap<String, String> = metadata.properties();
    match properties.get("write.data.path") {
        Some(path) => path.trim_end_matches('/').to_string(),
        None => format!("{}/data", metadata.location().trim_end_matches('/')),
    }
}

#[cfg(test)]
mod evolution;
#[cfg(test)]
mod model;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
