//! Position delete files: one per data file, sorted, with whole paths as bounds.

use std::collections::HashMap;
use std::sync::Arc;

use crate::store_error::StoreResultExt;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use iceberg::io::FileIO;
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Struct};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use roaring::RoaringTreemap;

/// Field ids that the Iceberg format reserves for position delete files.
const FILE_PATH_ID: i32 = i32::MAX - 101;
const POS_ID: i32 = i32::MAX - 102;

const BATCH_ROWS: usize = 32 * 1024;

/// A position delete file's bytes. Every row names `data_file`; positions ascend.
pub(crate) fn encode(data_file: &str, positions: &RoaringTreemap) -> Result<Bytes> {
    let failed = "could not encode a position delete file";
    let field = |name: &str, data_type: DataType, id: i32| {
        let id = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_string(), id.to_string())]);
        Field::new(name, data_type, false).with_metadata(id)
    };
    let schema = Arc::new(Schema::new(vec![
        field("file_path", DataType::Utf8, FILE_PATH_ID),
        field("pos", DataType::Int64, POS_ID),
    ]));
    // Readers match deletes to data files by the bounds of `file_path`, so these must not be cut.
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_truncate_length(None)
        .set_column_index_truncate_length(None)
        .set_created_by(concat!("lakeward ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    let mut out = Vec::with_capacity(4096);
    let mut writer = ArrowWriter::try_new(&mut out, schema.clone(), Some(properties))
        .or_err(ErrorKind::Bug, failed)?;
    let mut rest = positions.iter();
    loop {
        let batch: Vec<i64> = rest.by_ref().take(BATCH_ROWS).map(|p| p as i64).collect();
        if batch.is_empty() {
            break;
        }
        let paths = StringArray::from_iter_values(std::iter::repeat_n(data_file, batch.len()));
        let columns: Vec<ArrayRef> = vec![Arc::new(paths), Arc::new(Int64Array::from(batch))];
        let batch = RecordBatch::try_new(schema.clone(), columns).or_err(ErrorKind::Bug, failed)?;
        writer.write(&batch).or_err(ErrorKind::Bug, failed)?;
    }
    writer.close().or_err(ErrorKind::Bug, failed)?;
    Ok(out.into())
}

/// The manifest entry of a delete file that [`encode`] made.
pub(crate) fn entry(
    path: &str,
    rows: u64,
    size_bytes: u64,
    data_file: &str,
    spec_id: i32,
    partition: &Struct,
) -> Result<DataFile> {
    let bound = HashMap::from([(FILE_PATH_ID, Datum::string(data_file))]);
    DataFileBuilder::default()
        .content(DataContentType::PositionDeletes)
        .file_path(path.to_string())
        .file_format(DataFileFormat::Parquet)
        .partition(partition.clone())
        .partition_spec_id(spec_id)
        .record_count(rows)
        .file_size_in_bytes(size_bytes)
        .value_counts(HashMap::from([(FILE_PATH_ID, rows), (POS_ID, rows)]))
        .null_value_counts(HashMap::from([(FILE_PATH_ID, 0), (POS_ID, 0)]))
        .lower_bounds(bound.clone())
        .upper_bounds(bound)
        .referenced_data_file(Some(data_file.to_string()))
        .build()
        .or_err(ErrorKind::Bug, "a delete file's entry is incomplete")
}

/// The one data file that a delete file's entry is about, if it is about one.
pub(crate) fn only_data_file(entry: &DataFile) -> Option<String> {
    if let Some(path) = entry.referenced_data_file() {
        return Some(path);
    }
    let lower = entry.lower_bounds().get(&FILE_PATH_ID)?;
    let upper = entry.upper_bounds().get(&FILE_PATH_ID)?;
    // A cut bound ends before the path does; a path that long does not end in `.parquet`.
    let text = match lower.literal() {
        iceberg::spec::PrimitiveLiteral::String(text) if lower == upper => text,
        _ => return None,
    };
    text.ends_with(".parquet").then(|| text.clone())
}

/// Reads a position delete file of any writer: data file path → positions.
pub(crate) async fn read_position_deletes(
    file_io: &FileIO,
    path: &str,
) -> Result<HashMap<Arc<str>, RoaringTreemap>> {
    let failed = || format!("could not read the delete file {path}");
    let input = file_io.new_input(path).or_store(failed())?;
    let bytes = input.read().await.or_store(failed())?;
    decode(bytes).map_err(|e| e.with("file", path))
}

fn decode(bytes: Bytes) -> Result<HashMap<Arc<str>, RoaringTreemap>> {
    let damaged = "a position delete file cannot be read";
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)
        .and_then(|builder| builder.with_batch_size(BATCH_ROWS).build())
        .or_err(ErrorKind::DataInvalid, damaged)?;
    let mut found: HashMap<Arc<str>, RoaringTreemap> = HashMap::new();
    for batch in reader {
        let batch = batch.or_err(ErrorKind::DataInvalid, damaged)?;
        let column = |name: &str, data_type: DataType| -> Result<ArrayRef> {
            let array = batch.column_by_name(name).ok_or_else(|| {
                Error::data_invalid("a position delete file lacks a column").with("column", name)
            })?;
            arrow_cast::cast(array, &data_type).or_err(ErrorKind::DataInvalid, damaged)
        };
        let paths = column("file_path", DataType::Utf8)?;
        let positions = column("pos", DataType::Int64)?;
        let (paths, positions) = (paths.as_string::<i32>(), positions.as_primitive::<Int64Type>());
        if paths.null_count() + positions.null_count() > 0 {
            return Err(Error::data_invalid("a position delete file holds nulls"));
        }
        let mut current: Option<(&str, &mut RoaringTreemap)> = None;
        for (row, position) in positions.values().iter().enumerate() {
            let path = paths.value(row);
            let position = u64::try_from(*position)
                .or_err(ErrorKind::DataInvalid, "a delete position is negative")?;
            match &mut current {
                Some((same, set)) if *same == path => {
                    set.insert(position);
                }
                _ => {
                    let set = found.entry(Arc::from(path)).or_default();
                    set.insert(position);
                    current = Some((path, set));
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_come_back(positions in proptest::collection::btree_set(0u64..1 << 40, 1..500)) {
            let path = format!("file:///lake/{}/data.parquet", "x".repeat(200));
            let positions: RoaringTreemap = positions.into_iter().collect();
            let read = decode(encode(&path, &positions).expect("encodes")).expect("decodes");
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(&read[path.as_str()], &positions);
        }
    }

    #[test]
    fn path_bounds_are_whole() {
        let path = format!("file:///lake/{}/data.parquet", "x".repeat(300));
        let bytes = encode(&path, &[1u64, 5].into_iter().collect()).expect("encodes");
        let reader = SerializedFileReader::new(bytes).expect("parquet");
        let column = reader.metadata().row_group(0).column(0);
        let statistics = column.statistics().expect("has statistics");
        assert_eq!(statistics.min_bytes_opt(), Some(path.as_bytes()));
        assert_eq!(statistics.max_bytes_opt(), Some(path.as_bytes()));
        assert_eq!(column.column_descr().self_type().get_basic_info().id(), FILE_PATH_ID);
    }

    #[test]
    fn an_entry_tells_its_data_file() {
        let made = entry("d.parquet", 2, 10, "file:///a.parquet", 0, &Struct::empty()).expect("ok");
        assert_eq!(only_data_file(&made).as_deref(), Some("file:///a.parquet"));
    }
}
