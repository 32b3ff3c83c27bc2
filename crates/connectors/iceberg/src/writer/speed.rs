//! How fast the writer is. Run one with `cargo test -p lakeward-iceberg speed -- --ignored --nocapture --test-threads 1`;
//! times are those on the processor, so a busy machine matters little.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use iceberg::io::FileIO;
use lakeward_core::{
    Column, DataChange, DataType, MetricGroup, PipelineId, Position, RowKind, Segment, SinkWriter,
    TableSchema,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::tests::{commit, table_handle};
use super::*;
use crate::locator::Key;
use crate::names::Incarnation;

const BATCH: usize = 8192;

fn wide_schema() -> TableSchema {
    let types = [
        DataType::BigInt,
        DataType::Int,
        DataType::Int,
        DataType::Int,
        DataType::SmallInt,
        DataType::BigInt,
        DataType::BigInt,
        DataType::Double,
        DataType::Decimal { precision: 12, scale: 2 },
        DataType::Decimal { precision: 20, scale: 0 },
        DataType::Date,
        DataType::Timestamp { precision: 6 },
        DataType::TimestampLtz { precision: 6 },
        DataType::Varchar { length: 20 },
        DataType::Varchar { length: 20 },
        DataType::Varchar { length: 64 },
        DataType::Char { length: 2 },
        DataType::Int,
        DataType::BigInt,
        DataType::String,
    ];
    let columns = types
        .into_iter()
        .enumerate()
        .map(|(i, data_type)| Column::new(format!("c{i}"), data_type, i > 0))
        .collect();
    TableSchema::new(1, columns, vec!["c0".into()])
}

fn batch(schema: &TableSchema, ids: &[i64], salt: u64) -> RecordBatch {
    let mixed: Vec<u64> = ids.iter().map(|id| (*id as u64 ^ salt).mix()).collect();
    let columns: Vec<ArrayRef> = schema
        .columns
        .iter()
        .enumerate()
        .map(|(i, column)| -> ArrayRef {
            let spread = |m: &u64| m.rotate_left(i as u32 * 3);
            match column.data_type {
                DataType::BigInt if i == 0 => Arc::new(Int64Array::from(ids.to_vec())),
                DataType::BigInt => Arc::new(Int64Array::from_iter_values(
                    mixed.iter().map(|m| (spread(m) % 1_000_000) as i64),
                )),
                DataType::SmallInt => Arc::new(arrow_array::Int16Array::from_iter_values(
                    mixed.iter().map(|m| (spread(m) % 20) as i16),
                )),
                DataType::Int => Arc::new(Int32Array::from_iter_values(
                    mixed.iter().map(|m| (spread(m) % 5000) as i32),
                )),
                DataType::Double => Arc::new(Float64Array::from_iter_values(
                    mixed.iter().map(|m| (spread(m) % 100_000) as f64 / 7.0),
                )),
                DataType::Decimal { precision, scale } => Arc::new(
                    Decimal128Array::from_iter_values(
                        mixed.iter().map(|m| i128::from(spread(m) % 10_000_000)),
                    )
                    .with_precision_and_scale(precision, scale)
                    .unwrap(),
                ),
                DataType::Date => Arc::new(Date32Array::from_iter_values(
                    mixed.iter().map(|m| (spread(m) % 9000) as i32),
                )),
                DataType::Timestamp { .. } => {
                    Arc::new(TimestampMicrosecondArray::from_iter_values(
                        ids.iter().map(|id| 1_700_000_000_000_000 + id * 1000),
                    ))
                }
                DataType::TimestampLtz { .. } => Arc::new(
                    TimestampMicrosecondArray::from_iter_values(
                        mixed.iter().map(|m| 1_700_000_000_000_000 + (m % (1 << 40)) as i64),
                    )
                    .with_timezone("+00:00"),
                ),
                _ => Arc::new(StringArray::from_iter_values(
                    mixed.iter().map(|m| format!("text {:06}", spread(m) % 200_000)),
                )),
            }
        })
        .collect();
    RecordBatch::try_new(schema.arrow_schema(), columns).unwrap()
}

fn change(
    schema: &Arc<TableSchema>,
    handle: &TableHandle,
    kind: RowKind,
    rows: RecordBatch,
) -> DataChange {
    DataChange {
        table: handle.table().clone(),
        schema: schema.clone(),
        kinds: vec![kind; rows.num_rows()],
        segments: vec![Segment {
            end: rows.num_rows() as u32,
            position: Position::default(),
            commit_ms: 1,
        }],
        rows,
        unavailable: None,
        snapshot: false,
    }
}

fn writer(handle: &Arc<TableHandle>, buffer_bytes: usize) -> TableWriter {
    let incarnation =
        Incarnation { pipeline: PipelineId("p".into()), attempt: 1, token: "t".into() };
    let options = WriterOptions {
        share: Share { index: 0, parallelism: 1 },
        attempt: 1,
        names: FileNames::new(&incarnation, "w0"),
        buffer_bytes,
        files: DataFileOptions::default(),
        fail_on_missing: true,
        metrics: MetricGroup::default(),
    };
    TableWriter::new(handle.clone(), options)
}

async fn local_table(schema: &TableSchema, folder: &Path) -> Arc<TableHandle> {
    let root = format!("file://{}", folder.display());
    table_handle(schema, None, FileIO::new_with_fs(), &root).await
}

/// Nanoseconds that this thread has been on a processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn memory_mib(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[allow(clippy::print_stdout)]
fn report(what: &str, rows: usize, ns: u64) {
    let rate = rows as f64 * 1e3 / ns as f64;
    println!("{what:<40} {rate:.2} M rows/s  (peak {} MiB)", memory_mib("VmHWM"));
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
#[ignore = "a measurement"]
fn wide_rows() {
    const ROWS: usize = 1 << 20;
    let schema = Arc::new(wide_schema());
    let ordered: Vec<RecordBatch> = (0..ROWS / BATCH)
        .map(|b| {
            let ids: Vec<i64> = (0..BATCH).map(|i| (b * BATCH + i) as i64).collect();
            batch(&schema, &ids, 0)
        })
        .collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let start = cpu_ns();
    let mut plain =
        ArrowWriter::try_new(std::io::sink(), schema.arrow_schema(), Some(properties)).unwrap();
    for rows in &ordered {
        plain.write(rows).unwrap();
    }
    plain.close().unwrap();
    report("plain ArrowWriter", ROWS, cpu_ns() - start);
    wait(async {
        let folder = tempfile::tempdir().unwrap();
        let handle = local_table(&schema, folder.path()).await;
        let mut writer = writer(&handle, 64 << 20);
        let start = cpu_ns();
        for rows in &ordered {
            writer.write(change(&schema, &handle, RowKind::Insert, rows.clone())).await.unwrap();
        }
        writer.complete_files().await.unwrap();
        report("inserts in key order", ROWS, cpu_ns() - start);
        commit(&handle).await;
        drop(ordered);
        let updates: Vec<RecordBatch> = (0..ROWS / BATCH)
            .map(|b| {
                let id = |i: usize| ((b * BATCH + i) * 7919 % ROWS) as i64;
                batch(&schema, &(0..BATCH).map(id).collect::<Vec<_>>(), 1)
            })
            .collect();
        let start = cpu_ns();
        for rows in &updates {
            writer
                .write(change(&schema, &handle, RowKind::UpdateAfter, rows.clone()))
                .await
                .unwrap();
        }
        writer.complete_files().await.unwrap();
        report("updates of scattered keys", ROWS, cpu_ns() - start);
        commit(&handle).await;
        let mut again = self::writer(&handle, 64 << 20);
        let start = cpu_ns();
        again
            .write(change(&schema, &handle, RowKind::UpdateAfter, updates[0].clone()))
            .await
            .unwrap();
        again.complete_files().await.unwrap();
        report("rebuild of the locator", ROWS, cpu_ns() - start);
        let located = again.locator.as_ref().unwrap();
        assert_eq!(located.locator.len(), ROWS);
    });
}

#[test]
#[ignore = "a measurement"]
fn memory_of_long_rows() {
    // 300,000 rows of about 1 KB, all updated, half deleted: one transaction each.
    const ROWS: usize = 300_000;
    let schema = Arc::new(TableSchema::new(
        1,
        vec![Column::new("id", DataType::Int, false), Column::new("t", DataType::String, true)],
        vec!["id".into()],
    ));
    let rows = |from: usize, to: usize, salt: u64| {
        let ids = Int32Array::from_iter_values((from..to).map(|i| i as i32));
        let text = |i: usize| format!("{:016x}", (i as u64 ^ salt).mix()).repeat(60);
        let text = StringArray::from_iter_values((from..to).map(text));
        RecordBatch::try_new(schema.arrow_schema(), vec![Arc::new(ids), Arc::new(text)]).unwrap()
    };
    wait(async {
        let folder = tempfile::tempdir().unwrap();
        let handle = local_table(&schema, folder.path()).await;
        let mut writer = writer(&handle, 32 << 20);
        let start = cpu_ns();
        for (kind, count, salt) in [
            (RowKind::Insert, ROWS, 0),
            (RowKind::UpdateAfter, ROWS, 1),
            (RowKind::Delete, ROWS / 2, 1),
        ] {
            for from in (0..count).step_by(1000) {
                let rows = rows(from, (from + 1000).min(count), salt);
                writer.write(change(&schema, &handle, kind, rows)).await.unwrap();
            }
        }
        writer.complete_files().await.unwrap();
        report("long rows", ROWS * 5 / 2, cpu_ns() - start);
        commit(&handle).await;
        let live: u64 =
            handle.live_files().unwrap().iter().map(|file| file.rows - file.deleted_rows()).sum();
        assert_eq!(live, ROWS as u64 / 2);
        assert!(memory_mib("VmHWM") < 400);
    });
}
