//! Schema changes against what the lake's table then looks like and holds.

#![allow(clippy::unwrap_used)]

mod lake;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use lake::*;
use lakeward_core::*;

fn add(name: &str, data_type: DataType, existing_rows: Literal) -> SchemaChange {
    let column = Column::new(name, data_type, true);
    SchemaChange::AddColumn { column, place: ColumnPlace::Last, existing_rows }
}

fn with_columns(version: u32, columns: &[(&str, DataType)], key: &[&str]) -> TableSchema {
    let columns = columns.iter().map(|(n, t)| Column::new(*n, *t, true)).collect();
    TableSchema::new(version, columns, key.iter().map(|k| Arc::from(*k)).collect())
}

fn ids(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

async fn started(extra: &[(&str, serde_json::Value)]) -> (Lake, Attempt) {
    let lake = Lake::new(extra);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    run.write(puts(&[(1, Some("a")), (2, Some("b")), (3, Some("c"))])).await.unwrap();
    run.epoch(1).await.unwrap();
    run.write(puts(&[(2, None)])).await.unwrap();
    run.epoch(2).await.unwrap();
    (lake, run)
}

#[tokio::test]
async fn a_new_column_with_a_default_is_filled_in_where_the_rows_are() {
    let (lake, mut run) = started(&[]).await;
    let after = with_columns(
        2,
        &[("id", DataType::BigInt), ("v", DataType::String), ("n", DataType::Int)],
        &["id"],
    );
    let ddl = event(
        2,
        vec![add("n", DataType::Int, Literal::Long(17))],
        Some(schema(1)),
        Some(after.clone()),
    );
    assert_eq!(run.applier.needs(&ddl), DdlNeeds::RowsCommitted);
    run.ddl(&ddl).await.unwrap();
    assert_eq!(int_column(&lake.batches(&table()).await, "n"), [Some(17), Some(17)]);
    lake.check_totals(&table()).await;
    // Positions hold: an update finds its row, also with a locator that is as old as the attempt.
    run.write(change(
        &after,
        vec![RowKind::UpdateAfter],
        vec![ids(&[3]), texts(&["C"]), ints(&[33])],
    ))
    .await
    .unwrap();
    run.epoch(3).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "a"), (3, "C")]));
    let mut n = int_column(&lake.batches(&table()).await, "n");
    n.sort();
    assert_eq!(n, [Some(17), Some(33)]);
    // The same DDL again changes nothing.
    assert!(run.applier.is_applied(&ddl.id).await.unwrap());
}

#[tokio::test]
async fn rows_of_an_older_version_still_land_in_their_columns() {
    let (lake, mut run) = started(&[]).await;
    let after = with_columns(2, &[("id", DataType::BigInt), ("w", DataType::String)], &["id"]);
    let rename = SchemaChange::RenameColumn { from: "v".into(), to: "w".into() };
    run.ddl(&event(2, vec![rename], Some(schema(1)), Some(after.clone()))).await.unwrap();
    // A restart replays rows that were read before the rename.
    run = lake.attempt().await;
    run.write(puts(&[(1, Some("old name"))])).await.unwrap();
    run.write(change(&after, vec![RowKind::Insert], vec![ids(&[9]), texts(&["new name"])]))
        .await
        .unwrap();
    run.epoch(3).await.unwrap();
    let batches = lake.batches(&table()).await;
    let mut found: Vec<(i64, String)> = Vec::new();
    for b in &batches {
        use arrow_array::cast::AsArray;
        let ids = b.column_by_name("id").unwrap().as_primitive::<arrow_array::types::Int64Type>();
        let w = b.column_by_name("w").unwrap().as_string::<i32>();
        found.extend(ids.values().iter().zip(w.iter()).map(|(i, v)| (*i, v.unwrap().to_string())));
    }
    found.sort();
    let expected = [(1, "old name"), (3, "c"), (9, "new name")];
    assert_eq!(found, expected.map(|(i, v)| (i, v.to_string())));
}

#[tokio::test]
async fn key_and_partition_columns_widen() {
    let lake = Lake::new(&[("partition.key", "d.t:bucket[4](id),p".into())]);
    let mut run = lake.attempt().await;
    let narrow = with_columns(
        1,
        &[("id", DataType::Int), ("v", DataType::String), ("p", DataType::Int)],
        &["id"],
    );
    run.ddl(&event(1, vec![SchemaChange::CreateTable], None, Some(narrow.clone()))).await.unwrap();
    let rows = |s: &TableSchema, id: ArrayRef, v: &[&str], p: ArrayRef| {
        change(s, vec![RowKind::UpdateAfter; v.len()], vec![id, texts(v), p])
    };
    run.write(rows(&narrow, ints(&[1, 2, 3]), &["a", "b", "c"], ints(&[7, 7, 8]))).await.unwrap();
    run.epoch(1).await.unwrap();
    // Completed under the old schema, committed under the new one.
    run.write(rows(&narrow, ints(&[4]), &["d"], ints(&[8]))).await.unwrap();
    let work = run.complete().await.unwrap();
    let wide = with_columns(
        2,
        &[("id", DataType::BigInt), ("v", DataType::String), ("p", DataType::BigInt)],
        &["id"],
    );
    let widen = |name: &str| SchemaChange::AlterColumnType {
        name: name.into(),
        from: DataType::Int,
        to: DataType::BigInt,
    };
    run.ddl(&event(2, vec![widen("id"), widen("p")], Some(narrow), Some(wide.clone())))
        .await
        .unwrap();
    run.commit(2, work).await.unwrap().remove(&table()).unwrap().unwrap();
    let big = 1 << 40;
    run.write(rows(&wide, ids(&[1, 5]), &["A", "e"], ids(&[7, big]))).await.unwrap();
    run.epoch(3).await.unwrap();
    let all = expect(&[(1, "A"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]);
    assert_eq!(lake.rows(&table()).await, all);
    // Another process finds the rows by their widened keys, and manifests are rewritten with widened tuples.
    run = lake.attempt().await;
    run.write(change(
        &wide,
        vec![RowKind::Delete; 4],
        vec![ids(&[2, 3, 4, 5]), texts(&["", "", "", ""]), ids(&[7, 8, 8, big])],
    ))
    .await
    .unwrap();
    run.epoch(4).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "A")]));
    lake.check_totals(&table()).await;
}

#[tokio::test]
async fn a_dropped_partition_column_leaves_old_files_readable() {
    let lake = Lake::new(&[("partition.key", "d.t:v".into())]);
    let mut run = lake.attempt().await;
    let before = with_columns(
        1,
        &[("id", DataType::BigInt), ("v", DataType::String), ("w", DataType::Int)],
        &["id"],
    );
    run.ddl(&event(1, vec![SchemaChange::CreateTable], None, Some(before.clone()))).await.unwrap();
    run.write(change(
        &before,
        vec![RowKind::Insert; 2],
        vec![ids(&[1, 2]), texts(&["x", "y"]), ints(&[1, 2])],
    ))
    .await
    .unwrap();
    run.epoch(1).await.unwrap();
    let after = with_columns(2, &[("id", DataType::BigInt), ("w", DataType::Int)], &["id"]);
    let drop = SchemaChange::DropColumn { name: "v".into() };
    run.ddl(&event(2, vec![drop], Some(before), Some(after.clone()))).await.unwrap();
    run.write(change(&after, vec![RowKind::UpdateAfter], vec![ids(&[2]), ints(&[22])]))
        .await
        .unwrap();
    run.epoch(2).await.unwrap();
    let mut w = int_column(&lake.batches(&table()).await, "w");
    w.sort();
    assert_eq!(w, [Some(1), Some(22)]);
    assert!(lake.metadata(&table()).await.default_partition_spec().is_unpartitioned());
}

#[tokio::test]
async fn another_primary_key_finds_the_rows() {
    let (lake, mut run) = started(&[]).await;
    let after = with_columns(2, &[("id", DataType::BigInt), ("v", DataType::String)], &["v"]);
    let key = SchemaChange::SetPrimaryKey { columns: vec!["v".into()] };
    run.ddl(&event(2, vec![key], Some(schema(1)), Some(after.clone()))).await.unwrap();
    run.write(change(&after, vec![RowKind::UpdateAfter], vec![ids(&[30]), texts(&["c"])]))
        .await
        .unwrap();
    run.epoch(3).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "a"), (30, "c")]));
}

#[tokio::test]
async fn truncate_and_reset_empty_the_table() {
    let (lake, mut run) = started(&[]).await;
    let truncate = event(2, vec![SchemaChange::TruncateTable], Some(schema(1)), Some(schema(1)));
    run.ddl(&truncate).await.unwrap();
    assert!(lake.rows(&table()).await.is_empty());
    let metadata = lake.metadata(&table()).await;
    let summary = metadata.current_snapshot().unwrap().summary();
    assert_eq!(summary.operation.as_str(), "delete");
    assert_eq!(summary.additional_properties["deleted-data-files"], "1");
    assert_eq!(summary.additional_properties["total-delete-files"], "0");
    run.write(puts(&[(1, Some("again"))])).await.unwrap();
    run.epoch(3).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "again")]));

    let after = with_columns(
        5,
        &[("id", DataType::BigInt), ("v", DataType::String), ("x", DataType::Int)],
        &["id"],
    );
    let reset = event(3, vec![SchemaChange::ResetTable], None, Some(after.clone()));
    run.ddl(&reset).await.unwrap();
    assert!(lake.rows(&table()).await.is_empty());
    // Progress starts over, so an epoch of before does not count as held.
    let rows = change(&after, vec![RowKind::Insert], vec![ids(&[1]), texts(&["new"]), ints(&[5])]);
    run.write(rows).await.unwrap();
    run.epoch(3).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "new")]));
    let metadata = lake.metadata(&table()).await;
    assert_eq!(metadata.current_schema().field_id_by_name("v"), Some(2));
    assert_eq!(metadata.current_schema().field_id_by_name("x"), Some(3));
}

#[tokio::test]
async fn a_dropped_table_that_comes_back_is_another_one() {
    let (lake, mut run) = started(&[]).await;
    run.write(puts(&[(7, Some("never committed"))])).await.unwrap();
    let stale = run.complete().await.unwrap();
    run.ddl(&event(2, vec![SchemaChange::DropTable], Some(schema(1)), None)).await.unwrap();
    run.forget_writers(&table());
    assert_eq!(lake.metadata_location(&table()).await, None);
    assert!(lake.path().join("warehouse/d/t/data").exists());
    // A second time it is gone already.
    run.ddl(&event(2, vec![SchemaChange::DropTable], Some(schema(1)), None)).await.unwrap();
    assert!(run.commit(3, stale.clone()).await.unwrap()[&table()].as_ref().unwrap().already);
    run.ddl(&create(3)).await.unwrap();
    assert!(run.commit(3, stale).await.unwrap()[&table()].as_ref().is_ok());
    assert!(lake.rows(&table()).await.is_empty());
    run.write(puts(&[(1, Some("fresh"))])).await.unwrap();
    run.epoch(4).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "fresh")]));
    assert!(lake.metadata(&table()).await.location().ends_with("/d/t-2"));
}

#[tokio::test]
async fn a_renamed_table_keeps_its_rows_and_place() {
    let (lake, mut run) = started(&[]).await;
    let to = TableId::new("d", "u");
    let rename = event(
        2,
        vec![SchemaChange::RenameTable { to: to.clone() }],
        Some(schema(1)),
        Some(schema(1)),
    );
    run.ddl(&rename).await.unwrap();
    assert!(run.applier.is_applied(&rename.id).await.unwrap());
    assert_eq!(lake.metadata_location(&table()).await, None);
    assert_eq!(lake.rows(&to).await, expect(&[(1, "a"), (3, "c")]));
    let mut rows = puts(&[(3, Some("C"))]);
    rows.table = to.clone();
    run.forget_writers(&table());
    run.write(rows).await.unwrap();
    run.epoch(3).await.unwrap();
    assert_eq!(lake.rows(&to).await, expect(&[(1, "a"), (3, "C")]));
}

#[tokio::test]
async fn what_iceberg_cannot_express_changes_nothing() {
    let (lake, mut run) = started(&[]).await;
    let before = lake.metadata_location(&table()).await;
    let after = with_columns(2, &[("id", DataType::BigInt), ("v", DataType::Int)], &["id"]);
    let alter = SchemaChange::AlterColumnType {
        name: "v".into(),
        from: DataType::String,
        to: DataType::Int,
    };
    let error = run.ddl(&event(2, vec![alter], Some(schema(1)), Some(after))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaIncompatible);
    assert_eq!(lake.metadata_location(&table()).await, before);
}

#[tokio::test]
async fn a_table_of_another_is_not_written_to() {
    let (lake, _) = started(&[]).await;
    let other = Lake { pipeline: PipelineId("q".into()), ..lake };
    let mut run = other.attempt().await;
    let error = run.ddl(&create(9)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[tokio::test]
async fn a_table_that_an_earlier_attempt_left_without_rows_takes_the_columns_of_now() {
    let lake = Lake::new(&[]);
    lake.attempt().await.ddl(&create(1)).await.unwrap();
    let mut run = lake.attempt().await;
    let now = with_columns(0, &[("id", DataType::BigInt), ("n", DataType::Int)], &["id"]);
    run.ddl(&event(7, vec![SchemaChange::CreateTable], None, Some(now.clone()))).await.unwrap();
    run.write(change(&now, vec![RowKind::Insert], vec![ids(&[1]), ints(&[5])])).await.unwrap();
    run.epoch(1).await.unwrap();
    assert_eq!(int_column(&lake.batches(&table()).await, "n"), [Some(5)]);
    // Once it holds rows, other columns are not taken over in silence.
    let other = with_columns(0, &[("id", DataType::BigInt), ("v", DataType::String)], &["id"]);
    let again = event(9, vec![SchemaChange::CreateTable], None, Some(other));
    assert_eq!(lake.attempt().await.ddl(&again).await.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn ddl_behind_a_reset_is_applied_again() {
    let (_lake, mut run) = started(&[]).await;
    let wide = with_columns(
        2,
        &[("id", DataType::BigInt), ("v", DataType::String), ("n", DataType::Int)],
        &["id"],
    );
    let add = event(5, vec![add("n", DataType::Int, Literal::Null)], Some(schema(1)), Some(wide));
    run.ddl(&add).await.unwrap();
    assert!(run.applier.is_applied(&add.id).await.unwrap());
    run.ddl(&event(3, vec![SchemaChange::ResetTable], None, Some(schema(1)))).await.unwrap();
    assert!(!run.applier.is_applied(&add.id).await.unwrap());
    assert!(run.applier.is_applied(&create(1).id).await.unwrap());
}

#[tokio::test]
async fn comments_and_nullability_reach_the_schema() {
    let (lake, mut run) = started(&[]).await;
    let mut after = schema(2);
    after.columns[1].comment = Some("what it is called".into());
    after.comment = Some("all of them".into());
    let changes = vec![
        SchemaChange::CommentColumn { name: "v".into(), comment: after.columns[1].comment.clone() },
        SchemaChange::CommentTable { comment: after.comment.clone() },
    ];
    let ddl = event(2, changes, Some(schema(1)), Some(after));
    assert_eq!(run.applier.needs(&ddl), DdlNeeds::Nothing);
    run.ddl(&ddl).await.unwrap();
    let metadata = lake.metadata(&table()).await;
    let field = metadata.current_schema().field_by_name("v").unwrap().clone();
    assert_eq!(field.doc.as_deref(), Some("what it is called"));
    assert_eq!(metadata.properties()["comment"], "all of them");
}
