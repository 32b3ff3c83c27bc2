//! What the writer makes of changed schemas, of changelog tables, and of a file's metrics.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{ArrayRef, Int32Array, Int64Array, StringArray};
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{Datum, NestedField, PrimitiveType, Schema, Type};
use lakeward_core::{Column, DataType, Position, Segment};

use super::tests::{Kind, Lake, commit, plain, source_schema, table_handle, wait};
use super::*;
use crate::changelog::{self, ChangelogWriter};
use crate::properties;
use crate::read_rows::{FileToRead, read_columns};
use crate::types::iceberg_type;

/// Gives the table another schema, as DDL of the source does.
async fn evolve(lake: &mut Lake, schema: TableSchema, fields: Vec<NestedField>) {
    let mut state = (*lake.handle.state().unwrap()).clone();
    let mut ids = properties::schema_ids(&state.metadata).unwrap();
    let id = ids.len() as i32;
    ids.insert(schema.version, id);
    let fields = fields.into_iter().map(Arc::new);
    let new = Schema::builder().with_schema_id(id).with_fields(fields).build().unwrap();
    let ids = properties::encode_schema_ids(&ids).unwrap();
    let built = (*state.metadata)
        .clone()
        .into_builder(None)
        .add_current_schema(new)
        .and_then(|b| b.set_properties(HashMap::from([(properties::SCHEMA_IDS.to_string(), ids)])))
        .and_then(|b| b.build());
    state.metadata = Arc::new(built.unwrap().metadata);
    let guard = lake.handle.lock().await;
    lake.handle.install(&guard, Some(state));
    drop(guard);
    lake.schema = Arc::new(schema);
    for writer in &mut lake.writers {
        writer.table_changed().await.unwrap();
    }
}

fn optional(id: i32, name: &str, data_type: DataType) -> NestedField {
    NestedField::optional(id, name, Type::Primitive(iceberg_type(&data_type)))
}

fn change(lake: &Lake, kinds: &[RowKind], columns: Vec<ArrayRef>) -> DataChange {
    let segment =
        Segment { end: kinds.len() as u32, position: Position { hi: 4, lo: 77 }, commit_ms: 1234 };
    DataChange {
        table: lake.handle.table().clone(),
        schema: lake.schema.clone(),
        kinds: kinds.to_vec(),
        rows: RecordBatch::try_new(lake.schema.arrow_schema(), columns).unwrap(),
        unavailable: None,
        segments: vec![segment],
        snapshot: false,
    }
}

fn live_rows(lake: &Lake) -> u64 {
    let files = lake.handle.live_files().unwrap();
    files.iter().map(|file| file.rows - file.deleted_rows()).sum()
}

#[test]
fn a_widened_key_still_finds_its_rows() {
    wait(async {
        let mut lake = Lake::new(plain(Kind::Narrow)).await;
        for id in [1, 2] {
            lake.rows.push((RowKind::Insert, (id, Some("x".into()), None), [false; 3]));
        }
        // Not committed: at the DDL the rows before it are in complete files.
        lake.barrier(false).await.unwrap();
        let mut wide = source_schema(Kind::Narrow);
        wide.version = 2;
        wide.columns[0].data_type = DataType::BigInt;
        let fields = vec![
            NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long)),
            optional(2, "s", DataType::String),
            optional(3, "n", DataType::BigInt),
        ];
        evolve(&mut lake, wide, fields).await;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![5_000_000_000, 1, 2])),
            Arc::new(StringArray::from(vec!["big", "y", ""])),
            Arc::new(Int64Array::from(vec![1, 2, 3])),
        ];
        let kinds = [RowKind::Insert, RowKind::UpdateAfter, RowKind::Delete];
        let rows = change(&lake, &kinds, columns);
        lake.writers[0].write(rows).await.unwrap();
        lake.barrier(true).await.unwrap();
        assert_eq!(live_rows(&lake), 2);
        assert_eq!(lake.writers[0].metrics.rebuilds.get(), 1);
        // Another attempt reads the keys of both widths.
        lake.restart();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![5_000_000_000, 1])),
            Arc::new(StringArray::from(vec!["", ""])),
            Arc::new(Int64Array::from(vec![1, 2])),
        ];
        let rows = change(&lake, &[RowKind::Delete; 2], columns);
        lake.writers[0].write(rows).await.unwrap();
        lake.barrier(true).await.unwrap();
        assert_eq!(live_rows(&lake), 0);
    });
}

#[test]
fn rows_without_a_key_are_found_behind_added_and_dropped_columns() {
    wait(async {
        let mut lake = Lake::new(plain(Kind::Keyless)).await;
        lake.rows.push((RowKind::Insert, (1, Some("x".into()), Some(1)), [false; 3]));
        lake.rows.push((RowKind::Insert, (2, None, Some(2)), [false; 3]));
        lake.barrier(false).await.unwrap();
        // `n` goes, `z` comes.
        let mut next = source_schema(Kind::Keyless);
        next.version = 2;
        next.columns[2] = Column::new("z", DataType::Int, true);
        let fields = vec![
            optional(1, "id", DataType::Int),
            optional(2, "s", DataType::String),
            optional(4, "z", DataType::Int),
        ];
        evolve(&mut lake, next, fields).await;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![1, 1, 2])),
            Arc::new(StringArray::from(vec![Some("x"), Some("x"), None])),
            Arc::new(Int32Array::from(vec![None, Some(9), None])),
        ];
        let kinds = [RowKind::UpdateBefore, RowKind::UpdateAfter, RowKind::Delete];
        let rows = change(&lake, &kinds, columns);
        lake.writers[0].write(rows).await.unwrap();
        lake.barrier(true).await.unwrap();
        assert_eq!(live_rows(&lake), 1);
    });
}

#[test]
fn rows_of_an_old_version_land_by_field_id() {
    wait(async {
        let mut lake = Lake::new(plain(Kind::Narrow)).await;
        let old = lake.schema.clone();
        // `s` and `n` swap their names.
        let mut next = source_schema(Kind::Narrow);
        next.version = 2;
        next.columns[1].name = "n".into();
        next.columns[2].name = "s".into();
        let fields = vec![
            NestedField::required(1, "id", Type::Primitive(PrimitiveType::Int)),
            optional(2, "n", DataType::String),
            optional(3, "s", DataType::BigInt),
        ];
        evolve(&mut lake, next, fields).await;
        // Replayed rows of before.
        lake.schema = old;
        lake.rows.push((RowKind::Insert, (1, Some("text".into()), Some(7)), [false; 3]));
        lake.barrier(true).await.unwrap();
        assert_eq!(lake.contents().await, vec![(1, Some("text".to_string()), Some(7))]);
    });
}

#[test]
fn rows_before_their_schema_are_a_defect_that_is_named() {
    wait(async {
        let mut lake = Lake::new(plain(Kind::Narrow)).await;
        let mut unknown = source_schema(Kind::Narrow);
        unknown.version = 9;
        lake.schema = Arc::new(unknown);
        lake.rows.push((RowKind::Insert, (1, None, None), [false; 3]));
        let error = lake.cut().await.expect_err("version 9");
        assert!(error.to_string().contains("schema version 9"), "{error}");
    });
}

#[test]
fn a_changelog_appends_what_happened() {
    wait(async {
        let mut columns = source_schema(Kind::Keyless).columns;
        for (name, data_type) in [
            (changelog::OP, DataType::String),
            (changelog::POSITION, DataType::String),
            (changelog::COMMIT_TS, DataType::TimestampLtz { precision: 6 }),
        ] {
            columns.push(Column::new(name, data_type, true));
        }
        let in_lake = TableSchema::new(1, columns, vec![]);
        let mut lake = Lake::new(plain(Kind::Keyless)).await;
        lake.handle = table_handle(&in_lake, None, FileIO::new_with_memory(), "memory://log").await;
        lake.restart();
        let options = lake.writers.pop().unwrap().options;
        let mut writer = ChangelogWriter::new(lake.handle.clone(), options);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![1, 1, 1])),
            Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("b")])),
            Arc::new(Int64Array::from(vec![None::<i64>; 3])),
        ];
        let kinds = [RowKind::Insert, RowKind::UpdateAfter, RowKind::Delete];
        let segment =
            |end, lo, commit_ms| Segment { end, position: Position { hi: 1, lo }, commit_ms };
        let rows = DataChange {
            segments: vec![segment(2, 5, 1000), segment(3, 9, 2000)],
            ..change(&lake, &kinds, columns)
        };
        writer.write(rows).await.unwrap();
        let done = writer.complete_files().await.unwrap();
        assert_eq!((done.len(), done[0].rows, done[0].commit_ms), (1, 3, 2000));
        assert!(writer.complete_files().await.unwrap().is_empty());
        commit(&lake.handle).await;
        let file = lake.handle.live_files().unwrap()[0].clone();
        let metadata = lake.handle.metadata().unwrap();
        let fields = metadata.current_schema().as_struct().fields();
        let to_read = FileToRead { path: file.path.clone(), size_bytes: None };
        let read = read_columns(lake.handle.file_io(), &to_read, fields, None).await.unwrap();
        let rows: Vec<(u32, RecordBatch)> = read.try_collect().await.unwrap();
        let rows = &rows[0].1;
        let text = |column: usize| -> Vec<String> {
            rows.column(column).as_string::<i32>().iter().flatten().map(String::from).collect()
        };
        assert_eq!(text(3), ["+I", "+U", "-D"]);
        assert_eq!(text(4)[2], "00000000000000000001:00000000000000000009");
        let times = rows.column(5).as_primitive::<TimestampMicrosecondType>();
        assert_eq!(times.values(), &[1_000_000, 1_000_000, 2_000_000]);
    });
}

#[test]
fn metrics_bound_what_the_file_holds() {
    wait(async {
        let mut lake = Lake::new(plain(Kind::Narrow)).await;
        let long = format!("{}tail", "z".repeat(70));
        for (id, s, n) in [(3, Some(long), Some(-5)), (-7, Some("é".into()), None)] {
            lake.rows.push((RowKind::Insert, (id, s, n), [false; 3]));
        }
        lake.cut().await.unwrap();
        let done = lake.writers[0].complete_files().await.unwrap();
        let work = TableCommittable::decode(&done[0]).unwrap();
        let file = &work.files[0].file;
        assert_eq!(file.record_count(), 2);
        assert_eq!(file.lower_bounds()[&1], Datum::int(-7));
        assert_eq!(file.upper_bounds()[&1], Datum::int(3));
        assert_eq!(file.lower_bounds()[&2], Datum::string("z".repeat(16)));
        assert_eq!(file.upper_bounds()[&2], Datum::string("é"));
        assert_eq!(file.lower_bounds()[&3], Datum::long(-5));
        assert_eq!(file.null_value_counts()[&3], 1);
        assert_eq!(file.value_counts()[&3], 2);
        assert_eq!(file.split_offsets(), Some(&[4i64][..]));
        assert!(file.column_sizes().values().all(|size| *size > 0));
        let input = lake.handle.file_io().new_input(file.file_path()).unwrap();
        assert_eq!(input.read().await.unwrap().len() as u64, file.file_size_in_bytes());
    });
}
