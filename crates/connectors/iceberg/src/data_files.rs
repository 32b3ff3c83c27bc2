//! Writes rows to Parquet data files: one open file per partition, closed at its target size.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::take::take_record_batch;
use iceberg::io::FileIO;
use iceberg::spec::{PartitionSpecRef, SchemaRef, Struct};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::NewDataFile;
use crate::names::FileNames;
use crate::open_file::{MAX_OPEN_FILES, OpenFile, open_files};
use crate::partition::Partitioner;

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

    /// `without_dictionary`: columns whose values hardly repeat, so that building a dictionary would only cost time.
    pub(crate) fn writer_properties(&self, without_dictionary: &[ColumnPath]) -> WriterProperties {
        let builder = without_dictionary.iter().fold(WriterProperties::builder(), |b, column| {
            b.set_column_dictionary_enabled(column.clone(), false)
        });
        builder
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
        self.open.values().map(|file| file.memory_bytes()).sum()
    }

    /// Gives back what open files hold in memory. The files stay open, unless the process has too many of them.
    pub(crate) async fn release_memory(&mut self) -> Result<()> {
        if open_files() > MAX_OPEN_FILES / 2 {
            return self.finish().await;
        }
        for file in self.open.values_mut() {
            file.release_memory().await?;
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
            let file =
                OpenFile::create(file_io, path, partition.clone(), schema, options, Some(batch))
                    .await?;
            self.open.insert(partition.clone(), file);
        }
        let file = self.open.get_mut(&partition).expect("was just opened");
        let place = (file.path.clone(), file.rows());
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
        let too_many = || open_files() > MAX_OPEN_FILES;
        while self.open.len() > 1 && (too_many() || self.memory_bytes() > self.options.memory_bytes)
        {
            let fullest = self.open.iter().max_by_key(|(_, file)| file.memory_bytes());
            let Some(partition) = fullest.map(|(partition, _)| partition.clone()) else { break };
            self.close(&partition).await?;
        }
        Ok(())
    }
}
