//! Values of every type, in partitions of every kind, against what a reader that is not ours finds.

#![allow(clippy::unwrap_used)]

mod lake;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use lake::*;
use lakeward_core::*;

fn columns() -> Vec<(&'static str, DataType)> {
    vec![
        ("id", DataType::Int),
        ("flag", DataType::Boolean),
        ("tiny", DataType::TinyInt),
        ("small", DataType::SmallInt),
        ("big", DataType::BigInt),
        ("single", DataType::Float),
        ("double", DataType::Double),
        ("d9", DataType::Decimal { precision: 9, scale: 2 }),
        ("d18", DataType::Decimal { precision: 18, scale: 0 }),
        ("d20", DataType::Decimal { precision: 20, scale: 0 }),
        ("d38", DataType::Decimal { precision: 38, scale: 10 }),
        ("day", DataType::Date),
        ("span", DataType::Time { precision: 6 }),
        ("wall", DataType::Timestamp { precision: 6 }),
        ("instant", DataType::TimestampLtz { precision: 6 }),
        ("c", DataType::Char { length: 3 }),
        ("v", DataType::Varchar { length: 300 }),
        ("json", DataType::Json),
        ("b16", DataType::Binary { length: 16 }),
        ("blob", DataType::Bytes),
    ]
}

fn all_types() -> TableSchema {
    let columns = columns().into_iter().map(|(name, t)| Column::new(name, t, name != "id"));
    TableSchema::new(1, columns.collect(), vec!["id".into()])
}

/// Rows with low, high, odd and absent values.
fn values(ids: &[i32]) -> Vec<ArrayRef> {
    fn of<T: Clone>(ids: &[i32], cases: [Option<T>; 4]) -> Vec<Option<T>> {
        ids.iter().map(|id| cases[(*id % 4) as usize].clone()).collect()
    }
    let decimal = |cases: [Option<i128>; 4], precision, scale| -> ArrayRef {
        let array = Decimal128Array::from(of(ids, cases));
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    };
    let text =
        |cases: [Option<&str>; 4]| -> ArrayRef { Arc::new(StringArray::from(of(ids, cases))) };
    let bytes = |cases: [Option<&[u8]>; 4]| -> ArrayRef {
        let mut builder = BinaryBuilder::new();
        of(ids, cases).into_iter().for_each(|v| builder.append_option(v));
        Arc::new(builder.finish())
    };
    let long = format!("{}é", "長".repeat(90));
    let micros = [Some(-62_135_596_800_000_000), Some(253_402_300_799_999_999), Some(1), None];
    vec![
        Arc::new(Int32Array::from(ids.to_vec())),
        Arc::new(BooleanArray::from(of(ids, [Some(true), Some(false), Some(true), None]))),
        Arc::new(Int8Array::from(of(ids, [Some(i8::MIN), Some(i8::MAX), Some(0), None]))),
        Arc::new(Int16Array::from(of(ids, [Some(i16::MIN), Some(i16::MAX), Some(255), None]))),
        Arc::new(Int64Array::from(of(ids, [Some(i64::MIN), Some(i64::MAX), Some(-1), None]))),
        Arc::new(Float32Array::from(of(ids, [Some(0.07), Some(f32::MAX), Some(-0.0), None]))),
        Arc::new(Float64Array::from(of(ids, [Some(4.9e-324), Some(1e308), Some(0.1), None]))),
        decimal([Some(-999_999_999), Some(999_999_999), Some(5), None], 9, 2),
        decimal([Some(-(10i128.pow(18) - 1)), Some(10i128.pow(18) - 1), Some(0), None], 18, 0),
        decimal([Some(0), Some(u64::MAX.into()), Some(1 << 63), None], 20, 0),
        decimal([Some(-(10i128.pow(38) - 1)), Some(10i128.pow(38) - 1), Some(7), None], 38, 10),
        Arc::new(Date32Array::from(of(ids, [Some(-354_285), Some(2_932_896), Some(0), None]))),
        Arc::new(Int64Array::from(of(
            ids,
            [Some(-3_020_399_000_000), Some(3_020_399_000_000), Some(-1), None],
        ))),
        Arc::new(TimestampMicrosecondArray::from(of(ids, micros))),
        Arc::new(TimestampMicrosecondArray::from(of(ids, micros)).with_timezone("+00:00")),
        text([Some("a"), Some("é文😀"), Some(""), None]),
        text([Some(&long), Some("NULL"), Some(" x "), None]),
        text([Some("{\"b\":1,  \"a\":1.10}"), Some("null"), Some("[]"), None]),
        bytes([
            Some(&[0; 16]),
            Some(&[255; 16]),
            Some(b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
            None,
        ]),
        bytes([Some(&[0, 255, 0]), Some(&[7; 100]), Some(&[]), None]),
    ]
}

fn create_all() -> SchemaEvent {
    event(1, vec![SchemaChange::CreateTable], None, Some(all_types()))
}

/// Every row that was read, by its id, as a batch of one row.
fn by_id(batches: &[RecordBatch]) -> BTreeMap<i32, RecordBatch> {
    let mut rows = BTreeMap::new();
    for batch in batches {
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int32Type>().clone();
        for row in 0..batch.num_rows() {
            let old = rows.insert(ids.value(row), batch.slice(row, 1));
            assert!(old.is_none(), "a row is there twice");
        }
    }
    rows
}

async fn check(lake: &Lake, expected: &[i32]) {
    let found = by_id(&lake.batches(&table()).await);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), expected);
    for (id, row) in found {
        for ((name, _), value) in columns().into_iter().zip(values(&[id])) {
            if name == "id" {
                continue;
            }
            let read = row.column_by_name(name).unwrap();
            // Narrow integers and binary values have another layout in the reader; the values must be the same.
            let value = arrow_cast::cast(&value, read.data_type()).unwrap();
            assert_eq!(read.to_data(), value.to_data(), "column {name} of row {id}");
        }
    }
}

#[tokio::test]
async fn every_type_is_read_back() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create_all()).await.unwrap();
    let ids: Vec<i32> = (0..40).collect();
    let rows = change(&all_types(), vec![RowKind::Insert; 40], values(&ids));
    run.write(rows).await.unwrap();
    run.epoch(1).await.unwrap();
    check(&lake, &ids).await;
    // Each row becomes the same again, and a few go.
    let rows = change(&all_types(), vec![RowKind::UpdateAfter; 40], values(&ids));
    run.write(rows).await.unwrap();
    run.write(change(&all_types(), vec![RowKind::Delete; 5], values(&ids[..5]))).await.unwrap();
    run.epoch(2).await.unwrap();
    check(&lake, &ids[5..]).await;
}

#[tokio::test]
async fn rows_move_between_partitions_of_every_kind() {
    for fields in [
        "v",
        "truncate[2](v)",
        "bucket[4](v)",
        "tiny",
        "flag",
        "d20",
        "truncate[10](d9)",
        "bucket[8](id)",
        "year(wall)",
        "month(instant)",
        "day(day)",
        "hour(instant)",
        "c,day(day)",
    ] {
        let lake = Lake::new(&[("partition.key", format!("d.t:{fields}").into())]);
        let mut run = lake.attempt().await;
        run.ddl(&create_all()).await.unwrap();
        let ids: Vec<i32> = (0..12).collect();
        // First with the values of another row, so that the update moves it.
        let mut first = values(&ids.iter().map(|id| (id + 1) % 12).collect::<Vec<_>>());
        first[0] = Arc::new(Int32Array::from(ids.clone()));
        run.write(change(&all_types(), vec![RowKind::Insert; 12], first)).await.unwrap();
        run.epoch(1).await.unwrap();
        let rows = change(&all_types(), vec![RowKind::UpdateAfter; 12], values(&ids));
        run.write(rows).await.unwrap();
        run.epoch(2).await.unwrap();
        check(&lake, &ids).await;
        let deletes = change(&all_types(), vec![RowKind::Delete; 6], values(&ids[..6]));
        run.write(deletes).await.unwrap();
        run.epoch(3).await.unwrap();
        check(&lake, &ids[6..]).await;
    }
}
