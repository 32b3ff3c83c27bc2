//! Writes rows to Parquet data files: one open file per partition, closed at its target size.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType as ArrowType;
use arrow_select::take::take_record_batch;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use iceberg::io::{FileIO, FileWrite};
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, PartitionSpecRef, SchemaRef, Struct,
};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use parquet::arrow::AsyncArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::async_writer::AsyncFileWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::NewDataFile;
use crate::file_metrics::FileMetrics;
use crate::names::FileNames;
use crate::partition::Partitioner;
use crate::types;

/// How data files are written.
#[derive(Debug, Clone)]
pub struct DataFileOptions {
    /// A file is closed once it is about this large.
    pub target_size_bytes: u64,
    /// Row groups are kept in memory until they are this large.
    pub row_group_bytes: usize,
    pub compression: Compression,
    /// What all open files together may hold in memory; beyond it the fullest ones are closed.
    pub memory_bytes: usize,
}

impl Default for DataFileOptions {
    fn default() -> Self {
        Self {
            target_size_bytes: 256 << 20,
            row_group_bytes: 64 << 20,
            compression: Compression::ZSTD(ZstdLevel::default()),
            memory_bytes: 64 << 20,
        }
    }
}

impl DataFileOptions {
    /// Takes over what the table's properties say. Row groups stay within `memory_bytes` all the same.
    ///
    /// # Errors
    /// `Config` for a property that cannot be read.
    pub fn with_table_properties(mut self, properties: &HashMap<String, String>) -> Result<Self> {
        let number = |name: &'static str| -> Result<Option<u64>> {
            let Some(text) = properties.get(name) else { return Ok(None) };
            match text.parse() {
                Ok(number) if number > 0 => Ok(Some(number)),
                _ => Err(Error::config("a table property is not a positive number")
                    .with("property", name)),
            }
        };
        if let Some(size) = number("write.target-file-size-bytes")? {
            self.target_size_bytes = size;
        }
        if let Some(size) = number("write.parquet.row-group-size-bytes")? {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            self.row_group_bytes = self.row_group_bytes.min(size);
        }
        if let Some(codec) = properties.get("write.parquet.compression-codec") {
            let level = number("write.parquet.compression-level")?;
            self.compression = compression(codec, level)?;
        }
        Ok(self)
    }

    fn writer_properties(&self) -> WriterProperties {
        WriterProperties::builder()
            .set_compression(self.compression)
            .set_max_row_group_row_count(None)
            .set_max_row_group_bytes(Some(self.row_group_bytes.max(1)))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by(concat!("lakeward ", env!("CARGO_PKG_VERSION")).to_string())
            .build()
    }
}

fn compression(codec: &str, level: Option<u64>) -> Result<Compression> {
    let wrong = || {
        Error::config(
            "the table's Parquet compression is not known; use zstd, snappy, gzip, lz4_raw or none",
        )
        .with("codec", codec)
    };
    let level = level.map(|l| u32::try_from(l).map_err(|_| wrong())).transpose()?;
    Ok(match codec.to_ascii_lowercase().as_str() {
        "zstd" => Compression::ZSTD(match level {
            Some(level) => ZstdLevel::try_new(level as i32).map_err(|_| wrong())?,
            None => ZstdLevel::default(),
        }),
        "gzip" => Compression::GZIP(match level {
            Some(level) => GzipLevel::try_new(level).map_err(|_| wrong())?,
            None => GzipLevel::default(),
        }),
        "snappy" => Compression::SNAPPY,
        "lz4" | "lz4_raw" => Compression::LZ4_RAW,
        "none" | "uncompressed" => Compression::UNCOMPRESSED,
        _ => return Err(wrong()),
    })
}

/// Where rows went: a file, by its path, and the position of the first of them.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) path: Arc<str>,
    pub(crate) first_row: u32,
    /// The rows of the batch, in the order in which they stand in the file; `None` for all of them.
    pub(crate) rows: Option<arrow_array::UInt32Array>,
}

/// The handles that a process has are few, whatever number of tables and partitions it writes.
const MAX_OPEN_FILES: usize = 512;
static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);

/// Below this, row groups would cost more than the memory that they save.
const MIN_ROW_GROUP_BYTES: usize = 1 << 20;

/// The data files of one schema and one partition spec that are being written.
pub(crate) struct DataFiles {
    file_io: FileIO,
    folder: String,
    schema: SchemaRef,
    partitioner: Partitioner,
    options: DataFileOptions,
    open: HashMap<Struct, OpenFile>,
    done: Vec<NewDataFile>,
}

impl DataFiles {
    /// `folder` is where the table keeps its data files.
    pub(crate) fn new(
        file_io: FileIO,
        folder: String,
        schema: SchemaRef,
        spec: PartitionSpecRef,
        options: DataFileOptions,
    ) -> Result<Self> {
        let partitioner = Partitioner::new(spec, &schema)?;
        let most = (options.memory_bytes / 2).max(MIN_ROW_GROUP_BYTES);
        let options =
            DataFileOptions { row_group_bytes: options.row_group_bytes.min(most), ..options };
        let (open, done) = (HashMap::new(), Vec::new());
        Ok(Self { file_io, folder, schema, partitioner, options, open, done })
    }

    /// Encodes a batch that has the columns of the schema. Rows of one partition keep their order.
    pub(crate) async fn write(
        &mut self,
        batch: &RecordBatch,
        names: &FileNames,
    ) -> Result<Vec<Written>> {
        let mut written = Vec::new();
        if batch.num_rows() == 0 {
            return Ok(written);
        }
        if self.partitioner.is_unpartitioned() {
            let (path, first_row) = self.append(Struct::empty(), batch, names).await?;
            written.push(Written { path, first_row, rows: None });
        } else {
            for part in self.partitioner.split(batch)? {
                let rows = take_record_batch(batch, &part.rows)
                    .or_err(ErrorKind::Bug, "could not pick the rows of a partition")?;
                let (path, first_row) = self.append(part.partition, &rows, names).await?;
                written.push(Written { path, first_row, rows: Some(part.rows) });
            }
        }
        self.bound_memory().await?;
        Ok(written)
    }

    /// What open files hold in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.open.values().map(|file| file.writer.memory_size()).sum()
    }

    /// Gives back what open files hold in memory. The files stay open, unless the process has too many of them.
    pub(crate) async fn release_memory(&mut self) -> Result<()> {
        if OPEN_FILES.load(Ordering::Relaxed) > MAX_OPEN_FILES / 2 {
            return self.finish().await;
        }
        for file in self.open.values_mut() {
            file.writer.flush().await.map_err(|e| write_error(e, &file.path))?;
        }
        Ok(())
    }

    /// Files that are complete, with what was closed so far.
    pub(crate) fn take_done(&mut self) -> Vec<NewDataFile> {
        std::mem::take(&mut self.done)
    }

    /// Whether this file is still being written.
    pub(crate) fn is_open(&self, path: &str) -> bool {
        self.open.values().any(|file| *file.path == *path)
    }

    /// Completes all open files.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        // In the order of their names, so that the same input always gives the same outcome.
        let mut open: Vec<OpenFile> = self.open.drain().map(|(_, file)| file).collect();
        open.sort_by(|a, b| a.path.cmp(&b.path));
        let (schema, spec_id) = (&self.schema, self.partitioner.spec_id());
        // Closing sends the footer and waits for the store: all at once.
        let closing = open.into_iter().map(|file| file.close(schema, spec_id));
        for file in futures::future::join_all(closing).await {
            self.done.push(file?);
        }
        Ok(())
    }

    async fn append(
        &mut self,
        partition: Struct,
        batch: &RecordBatch,
        names: &FileNames,
    ) -> Result<(Arc<str>, u32)> {
        if !self.open.contains_key(&partition) {
            let path = self.new_path(&partition, names);
            let (file_io, schema, options) = (&self.file_io, &self.schema, &self.options);
            let file = OpenFile::create(file_io, path, partition.clone(), schema, options).await?;
            self.open.insert(partition.clone(), file);
        }
        let file = self.open.get_mut(&partition).expect("was just opened");
        let place = (file.path.clone(), file.rows);
        file.write(batch).await?;
        if file.size_bytes() >= self.options.target_size_bytes {
            self.close(&partition).await?;
        }
        Ok(place)
    }

    fn new_path(&self, partition: &Struct, names: &FileNames) -> String {
        let name = names.next(".parquet");
        match self.partitioner.is_unpartitioned() {
            true => format!("{}/{name}", self.folder),
            false => format!("{}/{}/{name}", self.folder, self.partitioner.folder(partition)),
        }
    }

    async fn close(&mut self, partition: &Struct) -> Result<()> {
        if let Some(file) = self.open.remove(partition) {
            let spec_id = self.partitioner.spec_id();
            self.done.push(file.close(&self.schema, spec_id).await?);
        }
        Ok(())
    }

    async fn bound_memory(&mut self) -> Result<()> {
        let too_many = || OPEN_FILES.load(Ordering::Relaxed) > MAX_OPEN_FILES;
        while self.open.len() > 1 && (too_many() || self.memory_bytes() > self.options.memory_bytes)
        {
            let fullest = self.open.iter().max_by_key(|(_, file)| file.writer.memory_size());
            let Some(partition) = fullest.map(|(partition, _)| partition.clone()) else { break };
            self.close(&partition).await?;
        }
        Ok(())
    }
}

/// One data file that is being written.
pub(crate) struct OpenFile {
    path: Arc<str>,
    partition: Struct,
    writer: AsyncArrowWriter<Upload>,
    rows: u32,
    /// Field ids and places of float columns, with their numbers of NaN.
    nan_counts: Vec<(i32, usize, u64)>,
}

impl OpenFile {
    pub(crate) async fn create(
        file_io: &FileIO,
        path: String,
        partition: Struct,
        schema: &SchemaRef,
        options: &DataFileOptions,
    ) -> Result<Self> {
        let output = match file_io.new_output(&path) {
            Ok(output) => output.writer().await,
            Err(e) => Err(e),
        };
        let upload =
            Upload::new(output.or_err(ErrorKind::Transient, "could not create a data file")?);
        let layout = types::arrow_schema(schema)?;
        let nan_counts = schema
            .as_struct()
            .fields()
            .iter()
            .zip(layout.fields())
            .enumerate()
            .filter(|(_, (_, f))| matches!(f.data_type(), ArrowType::Float32 | ArrowType::Float64))
            .map(|(place, (field, _))| (field.id, place, 0))
            .collect();
        let writer_options = ArrowWriterOptions::new()
            .with_properties(options.writer_properties())
            // Iceberg's schema is the truth; an arrow schema in the footer would only bind readers to our layouts.
            .with_skip_arrow_metadata(true);
        let writer = AsyncArrowWriter::try_new_with_options(upload, layout, writer_options)
            .or_err(ErrorKind::Bug, "could not set up the Parquet writer")?;
        Ok(Self { path: path.into(), partition, writer, rows: 0, nan_counts })
    }

    pub(crate) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        for (_, place, count) in &mut self.nan_counts {
            *count += count_nan(batch.column(*place));
        }
        self.writer.write(batch).await.map_err(|e| write_error(e, &self.path))?;
        let rows = u32::try_from(batch.num_rows()).ok().and_then(|n| self.rows.checked_add(n));
        self.rows = rows.ok_or_else(|| Error::bug("a data file has more than 2^32 rows"))?;
        Ok(())
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    fn size_bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    pub(crate) async fn close(mut self, schema: &SchemaRef, spec_id: i32) -> Result<NewDataFile> {
        let footer = self.writer.finish().await.map_err(|e| write_error(e, &self.path))?;
        let metrics = FileMetrics::of(&footer, schema)?;
        let nan_counts = self.nan_counts.iter().map(|(id, _, count)| (*id, *count)).collect();
        let file = DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(self.path.to_string())
            .file_format(DataFileFormat::Parquet)
            .partition(self.partition)
            .partition_spec_id(spec_id)
            .record_count(u64::from(self.rows))
            .file_size_in_bytes(self.writer.bytes_written() as u64)
            .column_sizes(metrics.column_sizes)
            .value_counts(metrics.value_counts)
            .null_value_counts(metrics.null_counts)
            .nan_value_counts(nan_counts)
            .lower_bounds(metrics.lower)
            .upper_bounds(metrics.upper)
            .split_offsets(Some(metrics.split_offsets))
            .build()
            .or_err(ErrorKind::Bug, "a data file's description is incomplete")?;
        Ok(NewDataFile { file, spec_id, schema_id: schema.schema_id() })
    }
}

fn count_nan(array: &dyn Array) -> u64 {
    let count = match array.data_type() {
        ArrowType::Float32 => {
            array.as_primitive::<Float32Type>().iter().flatten().filter(|v| v.is_nan()).count()
        }
        _ => array.as_primitive::<Float64Type>().iter().flatten().filter(|v| v.is_nan()).count(),
    };
    count as u64
}

fn write_error(error: ParquetError, path: &str) -> Error {
    // Only the store's own errors come as external ones; the rest is about the batch.
    let kind = match &error {
        ParquetError::External(_) => ErrorKind::Transient,
        _ => ErrorKind::Bug,
    };
    Error::new(kind, "could not write a data file").with("file", path).with_source(error)
}

/// A file of the store as the Parquet writer wants it.
struct Upload(Box<dyn FileWrite>);

impl Upload {
    fn new(file: Box<dyn FileWrite>) -> Self {
        OPEN_FILES.fetch_add(1, Ordering::Relaxed);
        Self(file)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncFileWriter for Upload {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, parquet::errors::Result<()>> {
        self.0.write(bytes).map(|r| r.map_err(|e| ParquetError::External(Box::new(e)))).boxed()
    }

    fn complete(&mut self) -> BoxFuture<'_, parquet::errors::Result<()>> {
        self.0.close().map(|r| r.map_err(|e| ParquetError::External(Box::new(e)))).boxed()
    }
}
