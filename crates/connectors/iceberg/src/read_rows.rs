//! Reads rows back from data files: some columns of all rows, or some rows by their positions.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use arrow_select::concat::concat_batches;
use futures::{Stream, StreamExt, TryStreamExt};
use iceberg::arrow::ArrowFileReader;
use iceberg::io::{FileIO, FileMetadata};
use iceberg::spec::NestedFieldRef;
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, RowSelection, RowSelector};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::schema::types::SchemaDescriptor;

use crate::store_error::StoreResultExt;
use crate::types;

/// A data file, and its size where it is known.
#[derive(Debug, Clone)]
pub(crate) struct FileToRead {
    pub(crate) path: Arc<str>,
    pub(crate) size_bytes: Option<u64>,
}

const BATCH_ROWS: usize = 8192;

/// Reads the columns of `fields`, in their order and with their types, and tells the position of each batch's first row.
/// With `positions` (ascending) only those rows are read, and the number counts among them. A column that the file does
/// not have is null.
pub(crate) async fn read_columns(
    file_io: &FileIO,
    file: &FileToRead,
    fields: &[NestedFieldRef],
    positions: Option<&[u32]>,
) -> Result<impl Stream<Item = Result<(u32, RecordBatch)>> + Send + Unpin + use<>> {
    let path = file.path.clone();
    let builder = open(file_io, file).await?;
    let (mask, binding) = bind(builder.parquet_schema(), fields);
    let schema = projected(fields)?;
    let mut builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
    if let Some(positions) = positions {
        let rows = builder.metadata().file_metadata().num_rows();
        builder = builder.with_row_selection(selection(positions, rows, &path)?);
    }
    let rows = builder.build().map_err(|e| read_error(e, &path))?;
    let mut next = 0u32;
    Ok(rows.map(move |batch| {
        let batch = batch.map_err(|e| read_error(e, &path))?;
        let first = next;
        next = u32::try_from(batch.num_rows())
            .ok()
            .and_then(|n| next.checked_add(n))
            .ok_or_else(|| Error::bug("a data file has more than 2^32 rows"))?;
        let columns = binding
            .iter()
            .zip(schema.fields())
            .map(|(place, field)| match place {
                Some(place) => {
                    types::cast_exactly(batch.column(*place), field.data_type(), field.name())
                }
                None => Ok(new_null_array(field.data_type(), batch.num_rows())),
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)
            .or_err(ErrorKind::Bug, "the columns of a data file do not fit together")?;
        Ok((first, batch))
    }))
}

/// Reads the rows at these positions (ascending, without repeats) as one batch.
pub(crate) async fn read_positions(
    file_io: &FileIO,
    file: &FileToRead,
    fields: &[NestedFieldRef],
    positions: &[u32],
) -> Result<RecordBatch> {
    let rows = read_columns(file_io, file, fields, Some(positions)).await?;
    let batches: Vec<RecordBatch> = rows.map_ok(|(_, batch)| batch).try_collect().await?;
    let batch = concat_batches(&projected(fields)?, &batches)
        .or_err(ErrorKind::Bug, "could not put batches together")?;
    if batch.num_rows() != positions.len() {
        return Err(short(&file.path));
    }
    Ok(batch)
}

async fn open(
    file_io: &FileIO,
    file: &FileToRead,
) -> Result<ParquetRecordBatchStreamBuilder<ArrowFileReader>> {
    let lost = "could not open a data file of the table";
    let with_path = |e: Error| e.with("file", &file.path);
    let input = file_io.new_input(&*file.path).or_store(lost).map_err(with_path)?;
    let size = match file.size_bytes {
        Some(size) => size,
        None => input.metadata().await.or_store(lost).map_err(with_path)?.size,
    };
    let reader = input.reader().await.or_store(lost).map_err(with_path)?;
    let reader = ArrowFileReader::new(FileMetadata { size }, reader);
    // What the columns hold follows from their Parquet types; a foreign writer's arrow schema is of no use here.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ParquetRecordBatchStreamBuilder::new_with_options(reader, options)
        .await
        .map_err(|e| read_error(e, &file.path))
}

/// Finds the fields' columns by id, or by name in a file that carries no ids (one that was imported into the table).
/// Gives the columns to read, and per field its place among them.
fn bind(
    schema: &SchemaDescriptor,
    fields: &[NestedFieldRef],
) -> (ProjectionMask, Vec<Option<usize>>) {
    let roots = schema.root_schema().get_fields();
    let has_ids = roots.iter().any(|root| root.get_basic_info().has_id());
    let found: Vec<Option<usize>> = fields
        .iter()
        .map(|field| {
            roots.iter().position(|root| {
                let info = root.get_basic_info();
                match has_ids {
                    true => info.has_id() && info.id() == field.id,
                    false => info.name() == field.name,
                }
            })
        })
        .collect();
    let mut chosen: Vec<usize> = found.iter().flatten().copied().collect();
    chosen.sort_unstable();
    chosen.dedup();
    let binding = found
        .iter()
        .map(|root| root.map(|root| chosen.partition_point(|other| *other < root)))
        .collect();
    (ProjectionMask::roots(schema, chosen), binding)
}

fn projected(fields: &[NestedFieldRef]) -> Result<ArrowSchemaRef> {
    let fields = fields
        .iter()
        .map(|field| Ok(types::arrow_field(field)?.with_nullable(true)))
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ArrowSchema::new(fields)))
}

fn selection(positions: &[u32], rows: i64, path: &str) -> Result<RowSelection> {
    let mut selectors = Vec::with_capacity(positions.len() * 2 + 1);
    let mut next = 0usize;
    for position in positions {
        let position = *position as usize;
        if position as i64 >= rows || position < next {
            return Err(short(path));
        }
        if position > next {
            selectors.push(RowSelector::skip(position - next));
        }
        selectors.push(RowSelector::select(1));
        next = position + 1;
    }
    if (next as i64) < rows {
        selectors.push(RowSelector::skip(rows as usize - next));
    }
    Ok(selectors.into())
}

fn short(path: &str) -> Error {
    Error::bug("a data file does not have the rows that were looked up in it").with("file", path)
}

fn read_error(error: ParquetError, path: &str) -> Error {
    Error::transient("could not read a data file of the table")
        .with("file", path)
        .with_source(error)
}
