//! Epochs of rows against what the lake then holds.

#![allow(clippy::unwrap_used)]

mod lake;

use lake::*;
use lakeward_core::*;

#[tokio::test]
async fn rows_arrive_change_and_go() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    run.write(puts(&[(1, Some("a")), (2, Some("b")), (3, Some("c"))])).await.unwrap();
    run.epoch(1).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "a"), (2, "b"), (3, "c")]));

    run.write(puts(&[(1, Some("A")), (2, None), (4, Some("d"))])).await.unwrap();
    run.epoch(2).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "A"), (3, "c"), (4, "d")]));
    lake.check_totals(&table()).await;

    let metadata = lake.metadata(&table()).await;
    let summary = &metadata.current_snapshot().unwrap().summary().additional_properties;
    assert_eq!(summary["added-data-files"], "1");
    assert_eq!(summary["added-records"], "2");
    assert_eq!(summary["added-position-deletes"], "2");
    assert_eq!(summary["total-delete-files"], "1");
    assert_eq!(summary["lakeward.checkpoint-id"], "2");
    assert_eq!(metadata.properties()["lakeward.p.max-committed-checkpoint-id"], "2");
    assert_eq!(metadata.current_schema().identifier_field_ids().count(), 1);
}

#[tokio::test]
async fn there_is_one_delete_file_per_data_file_and_whole_files_go() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    run.write(puts(&[(1, Some("a")), (2, Some("b")), (3, Some("c"))])).await.unwrap();
    run.epoch(1).await.unwrap();
    for (n, id) in [(2, 1), (3, 2)] {
        run.write(puts(&[(id, None)])).await.unwrap();
        run.epoch(n).await.unwrap();
        let metadata = lake.metadata(&table()).await;
        let summary = &metadata.current_snapshot().unwrap().summary().additional_properties;
        assert_eq!(summary["total-delete-files"], "1");
        assert_eq!(summary["total-position-deletes"], (n - 1).to_string());
    }
    run.write(puts(&[(3, None)])).await.unwrap();
    run.epoch(4).await.unwrap();
    let metadata = lake.metadata(&table()).await;
    let summary = &metadata.current_snapshot().unwrap().summary().additional_properties;
    assert_eq!(summary["total-data-files"], "0");
    assert_eq!(summary["total-delete-files"], "0");
    assert_eq!(summary["removed-position-deletes"], "2");
    assert!(lake.rows(&table()).await.is_empty());
}

/// A small generator, so that a run is the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % sides
    }
}

/// Random epochs, with restarts, several writers, flushes within epochs and maintenance, against a map.
async fn random_epochs(seed: u64, parallelism: usize, epochs: u64) {
    let lake =
        Lake::new(&[("sink.compaction.commit.interval", 4.into()), ("snapshots.keep", 10.into())]);
    let mut dice = Dice(seed);
    let mut model = Rows::new();
    let mut run = lake.attempt_with(Default::default(), parallelism).await;
    run.ddl(&create(1)).await.unwrap();
    for n in 1..=epochs {
        for _ in 0..1 + dice.roll(3) {
            let mut rows = Vec::new();
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..1 + dice.roll(20) {
                let id = dice.roll(60) as i64;
                if !seen.insert(id) {
                    continue;
                }
                let value = (dice.roll(4) > 0).then(|| format!("{n}.{}", dice.roll(1000)));
                match &value {
                    Some(v) => model.insert(id, Some(v.clone())),
                    None => model.remove(&id),
                };
                rows.push((id, value));
            }
            let rows: Vec<_> = rows.iter().map(|(id, v)| (*id, v.as_deref())).collect();
            run.write(puts(&rows)).await.unwrap();
            if dice.roll(4) == 0 {
                run.flush().await.unwrap();
            }
        }
        run.epoch(n).await.unwrap();
        if dice.roll(3) == 0 || n == epochs {
            assert_eq!(lake.rows(&table()).await, model, "seed {seed}, epoch {n}");
            lake.check_totals(&table()).await;
        }
        if dice.roll(10) == 0 {
            run = lake.attempt_with(Default::default(), parallelism).await;
        }
    }
    let metadata = lake.metadata(&table()).await;
    assert!(metadata.snapshots().len() <= 12, "{} snapshots", metadata.snapshots().len());
    assert!(metadata.metadata_log().len() <= 20);
    let files = std::fs::read_dir(lake.path().join("warehouse/d/t/metadata")).unwrap().count();
    assert!(files < 150, "{files} metadata files are left");
}

#[tokio::test]
async fn random_epochs_equal_a_map() {
    for seed in 1..=3 {
        random_epochs(seed, 1, 40).await;
    }
}

#[tokio::test]
async fn random_epochs_of_three_writers_equal_a_map() {
    random_epochs(11, 3, 30).await;
}

#[tokio::test]
async fn an_epoch_is_committed_once() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    run.write(puts(&[(1, Some("a"))])).await.unwrap();
    let work = run.complete().await.unwrap();
    run.commit(1, work.clone()).await.unwrap();
    for _ in 0..2 {
        let again = run.commit(1, work.clone()).await.unwrap();
        assert!(again[&table()].as_ref().unwrap().already);
        run = lake.attempt().await;
    }
    // Also after later epochs, while a snapshot of it is left.
    run.write(puts(&[(2, Some("b"))])).await.unwrap();
    run.epoch(2).await.unwrap();
    let again = run.commit(1, work).await.unwrap();
    assert!(again[&table()].as_ref().unwrap().already);
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "a"), (2, "b")]));
}

/// While a snapshot is read from an idle source, the offsets of epoch after epoch are the same.
#[tokio::test]
async fn epochs_of_equal_offsets_are_not_taken_for_each_other() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    for n in 1..=3u64 {
        run.write(puts(&[(n as i64, Some("x"))])).await.unwrap();
        let work = run.complete().await.unwrap();
        let same_place = Epoch { checkpoint: CheckpointId(n), ..epoch(1) };
        let outcome = run.committer.commit(&same_place, work).await.unwrap();
        assert!(!outcome[0].1.as_ref().unwrap().already);
    }
    assert_eq!(lake.rows(&table()).await.len(), 3);
}

#[tokio::test]
async fn an_older_attempt_is_fenced() {
    let lake = Lake::new(&[]);
    let mut old = lake.attempt().await;
    old.ddl(&create(1)).await.unwrap();
    old.write(puts(&[(1, Some("a"))])).await.unwrap();
    let mut new = lake.attempt().await;
    let work = old.complete().await.unwrap();
    assert_eq!(old.commit(1, work).await.unwrap_err().kind(), ErrorKind::Fenced);
    new.write(puts(&[(2, Some("b"))])).await.unwrap();
    new.epoch(1).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(2, "b")]));
}

#[tokio::test]
async fn progress_is_read_from_the_tables() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create(7)).await.unwrap();
    run.write(puts(&[(1, Some("a"))])).await.unwrap();
    run.epoch(5).await.unwrap();
    let progress = run.sink.progress(&lake.pipeline).await.unwrap();
    assert_eq!(progress.len(), 1);
    assert_eq!(progress[0].checkpoint, CheckpointId(5));
    assert_eq!(progress[0].offsets, epoch(5).offsets);
    assert_eq!(progress[0].ddl, Some(Position { hi: 1, lo: 7 }));
    assert!(run.sink.progress(&PipelineId("q".into())).await.unwrap().is_empty());
}

#[tokio::test]
async fn epochs_are_published_once_each() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    let mut publisher = run.sink.epoch_publisher(&run.context).await.unwrap().unwrap();
    let committed = |n: u64| EpochCommitted {
        checkpoint: CheckpointId(n),
        committer: (0, 1),
        offsets: epoch(n).offsets,
        commit_ms: 1,
        tables: [("d.t".to_string(), "42".to_string())].into(),
        rows: 3,
        held: false,
    };
    for n in [1, 1, 2, 3] {
        publisher.publish(&committed(n)).await.unwrap();
    }
    let epochs = lakeward_iceberg::epochs::table();
    let count = |batches: Vec<arrow_array::RecordBatch>| -> usize {
        batches.iter().map(|b| b.num_rows()).sum()
    };
    assert_eq!(count(lake.batches(&epochs).await), 3);
    run = lake.attempt().await;
    let mut publisher = run.sink.epoch_publisher(&run.context).await.unwrap().unwrap();
    publisher.publish(&committed(3)).await.unwrap();
    publisher.publish(&committed(4)).await.unwrap();
    assert_eq!(count(lake.batches(&epochs).await), 4);
    let metadata = lake.metadata(&epochs).await;
    let summary = &metadata.current_snapshot().unwrap().summary().additional_properties;
    assert_eq!(summary["total-data-files"], "2");
}

/// A table that another program holds the catalog's lock for only waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_catalog_stalls_and_does_not_fail() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    run.write(puts(&[(1, Some("a"))])).await.unwrap();
    let url = format!("sqlite://{}/catalog.db", lake.path().display());
    let other = sqlx::SqlitePool::connect(&url).await.unwrap();
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    let held = tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        lock.rollback().await.unwrap();
    });
    // Reading goes on meanwhile.
    run.sink.progress(&lake.pipeline).await.unwrap();
    run.epoch(1).await.unwrap();
    assert!(held.is_finished(), "the commit did not wait");
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "a")]));
}

/// Rows that came and went within the epoch leave a table as it was, while others of the epoch change.
#[tokio::test]
async fn a_table_without_an_outcome_beside_one_that_changes() {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    let other = TableId::new("d", "u");
    let of_other = |mut change: DataChange| {
        change.table = other.clone();
        change
    };
    run.ddl(&create(1)).await.unwrap();
    let mut event = create(1);
    event.table = other.clone();
    event.id.table = other.clone();
    run.ddl(&event).await.unwrap();
    run.write(puts(&[(1, Some("a"))])).await.unwrap();
    run.write(of_other(puts(&[(1, Some("a"))]))).await.unwrap();
    run.write(of_other(puts(&[(1, None)]))).await.unwrap();
    run.epoch(1).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(1, "a")]));
    run.write(of_other(puts(&[(2, Some("b"))]))).await.unwrap();
    run.epoch(2).await.unwrap();
    assert_eq!(lake.rows(&other).await, expect(&[(2, "b")]));
}
