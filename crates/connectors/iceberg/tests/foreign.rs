//! Another program that writes to the same tables: a second pipeline plays it, which merges files after each commit.

#![allow(clippy::unwrap_used)]

mod lake;

use lake::*;
use lakeward_core::*;

/// The other program's view of the lake.
async fn other_program(lake: &Lake) -> Attempt {
    let mut options = lake.options.clone();
    options.insert("sink.compaction.commit.interval".into(), 1.into());
    let config = lakeward_iceberg::IcebergConfig::from_options(&options).unwrap();
    let sink = lakeward_iceberg::IcebergSink::open(config).await.unwrap();
    lake.attempt_of(sink, PipelineId("other".into())).await
}

#[tokio::test]
async fn a_foreign_rewrite_is_followed_by_key() {
    let lake = Lake::new(&[("sink.compaction.enabled", false.into())]);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    for n in 1..=9i64 {
        run.write(puts(&[(n, Some("a")), (n + 10, Some("b"))])).await.unwrap();
        run.epoch(n as u64).await.unwrap();
    }
    let mut model = lake.rows(&table()).await;
    for n in 10..=25u64 {
        // The other one rewrites every file, with some rows of its own, after our rows were resolved.
        let update = (n % 9) as i64 + 1;
        let delete = (n % 9) as i64 + 11;
        let value = format!("u{n}");
        run.write(puts(&[(update, Some(&value)), (delete, None)])).await.unwrap();
        let work = run.complete().await.unwrap();
        let mut other = other_program(&lake).await;
        other.write(puts(&[(1000 + n as i64, Some("theirs"))])).await.unwrap();
        other.epoch(n).await.unwrap();
        run.commit(n, work).await.unwrap().remove(&table()).unwrap().unwrap();
        model.insert(update, Some(value));
        model.remove(&delete);
        model.insert(1000 + n as i64, Some("theirs".into()));
        assert_eq!(lake.rows(&table()).await, model, "after round {n}");
        lake.check_totals(&table()).await;
    }
}

#[tokio::test]
async fn a_table_of_another_origin_is_not_dropped() {
    let lake = Lake::new(&[]);
    let mut other = other_program(&lake).await;
    other.ddl(&create(1)).await.unwrap();
    other.write(puts(&[(1, Some("theirs"))])).await.unwrap();
    other.epoch(1).await.unwrap();
    let mut run = lake.attempt().await;
    let drop = |n, before| event(n, vec![SchemaChange::DropTable], before, None);
    run.ddl(&drop(2, None)).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "theirs")]));
    // One that an attempt made which this one knows nothing of is ours.
    let own = Lake::new(&[]);
    own.attempt().await.ddl(&create(1)).await.unwrap();
    own.attempt().await.ddl(&drop(2, None)).await.unwrap();
    assert_eq!(own.metadata_location(&table()).await, None);
}

#[tokio::test]
async fn foreign_rows_are_seen_by_later_updates() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    run.write(puts(&[(1, Some("a"))])).await.unwrap();
    run.epoch(1).await.unwrap();
    let mut other = other_program(&lake).await;
    other.write(puts(&[(2, Some("theirs"))])).await.unwrap();
    other.epoch(1).await.unwrap();
    // The first commit meets the other's, and the locator learns of its row.
    run.write(puts(&[(1, Some("b"))])).await.unwrap();
    run.epoch(2).await.unwrap();
    run.write(puts(&[(2, Some("ours"))])).await.unwrap();
    run.epoch(3).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "b"), (2, "ours")]));
}
