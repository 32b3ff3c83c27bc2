//! One Parquet data file that is being written.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType as ArrowType;
use bytes::Bytes;
use iceberg::io::{FileIO, FileWrite};
use iceberg::spec::{DataContentType, DataFileBuilder, DataFileFormat, SchemaRef, Struct};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::errors::ParquetError;

use crate::NewDataFile;
use crate::data_files::DataFileOptions;
use crate::distinct::distinct_columns;
use crate::file_metrics::FileMetrics;
use crate::store_error::StoreResultExt;
use crate::types;

/// The handles that a process has are few, whatever number of tables and partitions it writes.
pub(crate) const MAX_OPEN_FILES: usize = 512;
static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);

/// Data files that this process has open.
pub(crate) fn open_files() -> usize {
    OPEN_FILES.load(Ordering::Relaxed)
}

/// One data file that is being written.
pub(crate) struct OpenFile {
    pub(crate) path: Arc<str>,
    partition: Struct,
    writer: ArrowWriter<Pieces>,
    upload: Upload,
    rows: u32,
    /// Field ids and places of float columns, with their numbers of NaN.
    nan_counts: Vec<(i32, usize, u64)>,
}

impl OpenFile {
    /// `first`, the first rows that will be written, decide how columns are encoded; without them all get a dictionary.
    pub(crate) async fn create(
        file_io: &FileIO,
        path: String,
        partition: Struct,
        schema: &SchemaRef,
        options: &DataFileOptions,
        first: Option<&RecordBatch>,
    ) -> Result<Self> {
        let output = match file_io.new_output(&path) {
            Ok(output) => output.writer().await,
            Err(e) => Err(e),
        };
        let upload = Upload::new(output.or_store("could not create a data file")?);
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
            .with_properties(
                options.writer_properties(&first.map(distinct_columns).unwrap_or_default()),
            )
            // Iceberg's schema is the truth; an arrow schema in the footer would only bind readers to our layouts.
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Pieces::default(), layout, writer_options)
            .or_err(ErrorKind::Bug, "could not set up the Parquet writer")?;
        Ok(Self { path: path.into(), partition, writer, upload, rows: 0, nan_counts })
    }

    pub(crate) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        for (_, place, count) in &mut self.nan_counts {
            *count += count_nan(batch.column(*place));
        }
        self.writer.write(batch).map_err(|e| write_error(e, &self.path))?;
        self.send(false).await?;
        let rows = u32::try_from(batch.num_rows()).ok().and_then(|n| self.rows.checked_add(n));
        self.rows = rows.ok_or_else(|| Error::bug("a data file has more than 2^32 rows"))?;
        Ok(())
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// What it holds in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.writer.memory_size() + self.writer.inner().last.capacity()
    }

    /// Writes the rows in memory as a row group.
    pub(crate) async fn release_memory(&mut self) -> Result<()> {
        self.writer.flush().map_err(|e| write_error(e, &self.path))?;
        self.send(true).await
    }

    /// Sends what is complete, or everything.
    async fn send(&mut self, everything: bool) -> Result<()> {
        for piece in self.writer.inner_mut().take(everything) {
            let sent = self.upload.0.write(piece).await;
            sent.or_store("could not write a data file").map_err(|e| e.with("file", &self.path))?;
        }
        Ok(())
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    pub(crate) async fn close(mut self, schema: &SchemaRef, spec_id: i32) -> Result<NewDataFile> {
        let footer = self.writer.finish().map_err(|e| write_error(e, &self.path))?;
        self.send(true).await?;
        let closed = self.upload.0.close().await;
        closed
            .or_store("could not complete a data file")
            .map_err(|e| e.with("file", &self.path))?;
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

/// What the store says comes apart from this: the rest is about the batch.
fn write_error(error: ParquetError, path: &str) -> Error {
    Error::bug("could not write a data file").with("file", path).with_source(error)
}

/// What the Parquet writer has put out, in pieces: one growing buffer would be copied again and again, each time into
/// memory that the system has to clear first.
#[derive(Default)]
struct Pieces {
    full: Vec<Bytes>,
    last: Vec<u8>,
    /// The file is large enough for whole pieces.
    is_large: bool,
}

const PIECE_BYTES: usize = 1 << 20;

impl Pieces {
    fn take(&mut self, everything: bool) -> Vec<Bytes> {
        if everything && !self.last.is_empty() {
            self.full.push(std::mem::take(&mut self.last).into());
        }
        std::mem::take(&mut self.full)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.is_large && self.last.capacity() == 0 {
            self.last.reserve_exact(PIECE_BYTES);
        }
        let taken = bytes.len().min(PIECE_BYTES - self.last.len());
        self.last.extend_from_slice(&bytes[..taken]);
        if self.last.len() == PIECE_BYTES {
            self.is_large = true;
            self.full.push(std::mem::take(&mut self.last).into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file of the store that is being written.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_bytes_in_order() {
        let mut pieces = Pieces::default();
        let bytes: Vec<u8> = (0..5 * PIECE_BYTES / 2).map(|n| (n % 251) as u8).collect();
        let mut seen = Vec::new();
        for part in bytes.chunks(7_777) {
            pieces.write_all(part).expect("takes all");
            pieces.take(false).iter().for_each(|piece| {
                assert_eq!(piece.len(), PIECE_BYTES);
                seen.extend_from_slice(piece);
            });
        }
        pieces.take(true).iter().for_each(|piece| seen.extend_from_slice(piece));
        assert!(seen == bytes);
        assert!(pieces.take(true).is_empty());
    }
}
