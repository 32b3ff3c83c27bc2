//! The commit path stopped at each of its points, once and twice, and the epoch committed again from its committables.

#![allow(clippy::unwrap_used)]

mod lake;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lake::*;
use lakeward_core::*;
use lakeward_iceberg::faults::{FAULT_POINTS, FaultPoints};

/// A process that dies at the nth pass of a point: nothing of it works from then on.
fn dies_at(point: &'static str, pass: usize) -> (FaultPoints, Arc<AtomicBool>) {
    let dead = Arc::new(AtomicBool::new(false));
    let passes = AtomicUsize::new(0);
    let flag = dead.clone();
    let hook = move |at: &'static str| {
        if at == point && passes.fetch_add(1, Ordering::SeqCst) + 1 == pass {
            flag.store(true, Ordering::SeqCst);
        }
        match flag.load(Ordering::SeqCst) {
            true => Err(Error::bug("died here, as the test wants it").with("point", at)),
            false => Ok(()),
        }
    };
    (FaultPoints::new(hook), dead)
}

async fn crash_at(point: &'static str, deaths: usize) {
    let lake = Lake::new(&[]);
    let mut run = lake.attempt().await;
    run.ddl(&create(1)).await.unwrap();
    run.write(puts(&[(1, Some("a")), (2, Some("b")), (3, Some("c"))])).await.unwrap();
    run.epoch(1).await.unwrap();

    run.write(puts(&[(1, Some("A")), (2, None), (4, Some("d"))])).await.unwrap();
    // The checkpoint is durable: these survive every death.
    let work = run.complete().await.unwrap();
    for _ in 0..deaths {
        let (faults, dead) = dies_at(point, 1);
        let mut run = lake.attempt_with(faults, 1).await;
        let outcome = run.commit(2, work.clone()).await;
        assert!(outcome.is_err() || !dead.load(Ordering::SeqCst), "{point}");
    }
    let mut run = lake.attempt().await;
    run.commit(2, work).await.unwrap().remove(&table()).unwrap().unwrap();
    let after = expect(&[(1, "A"), (3, "c"), (4, "d")]);
    assert_eq!(lake.rows(&table()).await, after, "after dying {point} {deaths} times");

    run.write(puts(&[(4, Some("D")), (1, None), (5, Some("e"))])).await.unwrap();
    run.epoch(3).await.unwrap();
    assert_eq!(lake.rows(&table()).await, expect(&[(3, "c"), (4, "D"), (5, "e")]), "{point}");
    lake.check_totals(&table()).await;
    // What the dead left behind is removed with the second commit of an attempt.
    run.write(puts(&[(6, Some("f"))])).await.unwrap();
    run.epoch(4).await.unwrap();
    no_orphans(&lake).await;
}

/// Every file of ours that is there is named by some snapshot, or by the metadata log.
async fn no_orphans(lake: &Lake) {
    let metadata = lake.metadata(&table()).await;
    let io = iceberg::io::FileIO::new_with_fs();
    let mut named = std::collections::HashSet::new();
    for snapshot in metadata.snapshots() {
        named.insert(snapshot.manifest_list().to_string());
        let bytes = io.new_input(snapshot.manifest_list()).unwrap().read().await.unwrap();
        let list = iceberg::spec::ManifestList::parse_with_version(
            &bytes,
            iceberg::spec::FormatVersion::V2,
        )
        .unwrap();
        for manifest in list.entries() {
            named.insert(manifest.manifest_path.clone());
            for entry in manifest.load_manifest(&io).await.unwrap().entries() {
                named.insert(entry.file_path().to_string());
            }
        }
    }
    for folder in ["data", "metadata"] {
        for file in std::fs::read_dir(lake.path().join("warehouse/d/t").join(folder)).unwrap() {
            let path = format!("file://{}", file.unwrap().path().display());
            let name = path.rsplit('/').next().unwrap();
            assert!(!name.starts_with("lw-") || named.contains(&path), "{path} is an orphan");
        }
    }
}

#[tokio::test]
async fn no_row_is_lost_or_doubled_wherever_a_commit_stops() {
    for point in FAULT_POINTS {
        for deaths in 1..=2 {
            crash_at(point, deaths).await;
        }
    }
}

/// The commit lands, its answer does not come, and the same process goes on.
#[tokio::test]
async fn a_lost_answer_is_looked_up() {
    let lake = Lake::new(&[]);
    let lost = Arc::new(AtomicUsize::new(0));
    let count = lost.clone();
    let faults = FaultPoints::new(move |at| {
        if at == "catalog-answer-lost" && count.fetch_add(1, Ordering::SeqCst) % 2 == 0 {
            return Err(Error::transient("the connection was lost"));
        }
        Ok(())
    });
    let mut run = lake.attempt_with(faults, 1).await;
    run.ddl(&create(1)).await.unwrap();
    run.write(puts(&[(1, Some("a")), (2, Some("b"))])).await.unwrap();
    run.epoch(1).await.unwrap();
    run.write(puts(&[(1, None), (2, Some("B"))])).await.unwrap();
    run.epoch(2).await.unwrap();
    run.write(puts(&[(3, Some("c")), (2, Some("BB"))])).await.unwrap();
    run.epoch(3).await.unwrap();
    assert!(lost.load(Ordering::SeqCst) >= 2);
    assert_eq!(lake.rows(&table()).await, expect(&[(2, "BB"), (3, "c")]));
    lake.check_totals(&table()).await;
    assert_eq!(lake.metadata(&table()).await.snapshots().len(), 3);
}
