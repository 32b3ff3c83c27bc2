//! The DDL handler alone, with a sink and marks that the test controls.

mod order;
mod scene;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::Int32Array;
use lakeward_core::*;
use lakeward_operators::ddl_handler::StreamDdlHandler;
use lakeward_operators::{SchemaChangeBehavior, SchemaPolicy, TableErrorPolicy};
use scene::*;

#[tokio::test]
async fn a_ddl_holds_its_table_alone_until_all_writers_have_left_their_marks() {
    let world = Arc::new(World::default());
    let (mut h, mut out) = handler(&world, 2, 1, None).await;
    for record in [
        ddl("t", 1, SchemaChange::CreateTable),
        rows("t", 0..9),
        progress("o5"),
        ddl("t", 5, comment()),
        rows("t", 9..12),
        rows("u", 0..1),
    ] {
        h.process(record, &mut out).await.unwrap();
    }
    let before = said(&mut out);
    assert_eq!(before[0], "ddl 1 of t");
    assert_eq!(before[before.len() - 2..], ["mark t", "1 rows of u"]);
    assert!(h.holds());

    let id = DdlId { table: TableId::new("d", "t"), position: Position { hi: 1, lo: 5 } };
    world.leave(&id, 1, MarkStage::FilesComplete, 0).unwrap();
    // A mark of another attempt does not count.
    world.leave(&id, 0, MarkStage::FilesComplete, 1).unwrap();
    h.tick(&mut out).await.unwrap();
    assert!(out.is_empty());
    h.prepare_snapshot(CheckpointId(1), &mut out).await.unwrap();
    assert_eq!(said(&mut out), ["t only up to o5"]);
    world.leave(&id, 1, MarkStage::FilesComplete, 1).unwrap();
    h.tick(&mut out).await.unwrap();
    let after = said(&mut out);
    assert_eq!(after[0], "ddl 5 of t");
    let held: usize =
        after[1..].iter().map(|s| s.split(' ').next().unwrap().parse::<usize>().unwrap()).sum();
    assert_eq!(held, 3);
    assert!(!h.holds());
}

#[tokio::test]
async fn a_hold_survives_a_restart_with_its_rows() {
    let world = Arc::new(World::default());
    let (mut h, mut out) = handler(&world, 1, 1, None).await;
    for record in [
        rows("t", 0..1),
        progress("o4"),
        ddl("t", 5, SchemaChange::TruncateTable),
        rows("t", 1..3),
        progress("o7"),
        ddl("t", 8, comment()),
        rows("t", 3..4),
    ] {
        h.process(record, &mut out).await.unwrap();
    }
    assert_eq!(said(&mut out), ["1 rows of t", "at o4", "mark t", "at o7"]);
    assert_eq!(world.requests.load(Ordering::Relaxed), 1, "an early checkpoint is asked for");
    h.prepare_snapshot(CheckpointId(1), &mut out).await.unwrap();
    let state = h.snapshot_state(CheckpointId(1)).await.unwrap();

    let (mut h, mut out) = handler(&world, 1, 2, Some(state)).await;
    assert_eq!(said(&mut out), ["mark t"]);
    let id = DdlId { table: TableId::new("d", "t"), position: Position { hi: 1, lo: 5 } };
    world.now_ms.store(100 * INTERVAL_MS as i64, Ordering::Relaxed);
    world.leave(&id, 2, MarkStage::FilesComplete, 0).unwrap();
    h.tick(&mut out).await.unwrap();
    assert!(out.is_empty(), "a TRUNCATE waits for the commit however long it takes");
    world.leave(&id, 2, MarkStage::RowsCommitted, 0).unwrap();
    h.tick(&mut out).await.unwrap();
    assert_eq!(said(&mut out), ["ddl 5 of t", "2 rows of t", "mark t"]);
    h.prepare_snapshot(CheckpointId(2), &mut out).await.unwrap();
    assert_eq!(said(&mut out), ["t only up to o7"]);
}

#[tokio::test]
async fn three_intervals_release_what_needs_files_only() {
    let world = Arc::new(World::default());
    let (mut h, mut out) = handler(&world, 1, 1, None).await;
    for record in [rows("t", 0..1), ddl("t", 5, comment()), rows("t", 1..2)] {
        h.process(record, &mut out).await.unwrap();
    }
    said(&mut out);
    world.now_ms.store(3 * INTERVAL_MS as i64, Ordering::Relaxed);
    h.tick(&mut out).await.unwrap();
    assert!(out.is_empty());
    world.now_ms.store(3 * INTERVAL_MS as i64 + 1, Ordering::Relaxed);
    h.tick(&mut out).await.unwrap();
    assert_eq!(said(&mut out), ["ddl 5 of t", "1 rows of t"]);
}

#[tokio::test]
async fn repeated_ddl_is_dropped_and_ddl_of_untouched_tables_runs_at_once() {
    let world = Arc::new(World::default());
    let (mut h, mut out) = handler(&world, 1, 1, None).await;
    for record in [ddl("t", 5, comment()), ddl("t", 5, comment()), rows("t", 0..1)] {
        h.process(record, &mut out).await.unwrap();
    }
    assert_eq!(said(&mut out), ["ddl 5 of t", "1 rows of t"]);
    // Covered by a complete checkpoint, the rows' files are complete: again at once.
    h.prepare_snapshot(CheckpointId(1), &mut out).await.unwrap();
    h.checkpoint_complete(CheckpointId(1), &mut out).await.unwrap();
    h.process(ddl("t", 9, comment()), &mut out).await.unwrap();
    assert_eq!(said(&mut out), ["ddl 9 of t"]);
    assert_eq!(world.applied.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_long_queue_is_let_go_in_parts_and_nothing_of_it_is_overtaken() {
    let world = Arc::new(World::default());
    let (mut h, mut out) = handler(&world, 1, 1, None).await;
    h.process(rows("t", 0..1), &mut out).await.unwrap();
    h.process(ddl("t", 5, comment()), &mut out).await.unwrap();
    const BATCH: i32 = 1 << 20;
    const BATCHES: i32 = 12;
    for n in 0..BATCHES {
        h.process(rows("t", n * BATCH..(n + 1) * BATCH), &mut out).await.unwrap();
    }
    said(&mut out);
    let id = DdlId { table: TableId::new("d", "t"), position: Position { hi: 1, lo: 5 } };
    world.leave(&id, 1, MarkStage::FilesComplete, 0).unwrap();
    h.tick(&mut out).await.unwrap();
    let mut parts = Vec::new();
    loop {
        let part: Vec<i32> = out
            .drain()
            .filter_map(|(_, record)| match record {
                StreamRecord::Data(c) => {
                    let ids = c.rows.column(0).as_any().downcast_ref::<Int32Array>().unwrap();
                    Some(ids.value(0) / BATCH)
                }
                _ => None,
            })
            .collect();
        assert!(part.len() <= 3, "{} batches of 4 MB at once", part.len());
        parts.extend(part);
        if !h.has_more() {
            break;
        }
        h.emit_more(&mut out).await.unwrap();
    }
    assert_eq!(parts, (0..BATCHES).collect::<Vec<_>>());
    assert!(!h.holds());
}

/// The rows that come under the new name belong to no table of the sink, or to another one.
#[tokio::test]
async fn a_rename_that_is_refused_leaves_both_names_out() {
    let world = Arc::new(World::default());
    let policy =
        SchemaPolicy { behavior: SchemaChangeBehavior::Exception, ..SchemaPolicy::default() };
    let sink = Arc::new(FakeSink(world.clone()));
    let context = context(&world, 1, 1);
    let mut h = StreamDdlHandler::new(context, sink, policy, TableErrorPolicy::Pause);
    let mut out = Collector::default();
    h.open(None, &mut out).await.unwrap();
    let to = TableId::new("d", "u");
    for record in [
        ddl("t", 1, SchemaChange::CreateTable),
        rows("t", 0..1),
        ddl("t", 5, SchemaChange::RenameTable { to }),
        rows("u", 0..2),
        rows("t", 0..3),
    ] {
        h.process(record, &mut out).await.unwrap();
    }
    let said = said(&mut out);
    assert_eq!(said[..2], ["ddl 1 of t", "1 rows of t"]);
    assert!(said[2].contains("Failure") && said[2].contains("\"t\""), "{said:?}");
    assert!(said[3].contains("Failure") && said[3].contains("\"u\""), "{said:?}");
    assert_eq!(said.len(), 4, "{said:?}");
}

/// A table is swapped for another one twice, as tools do that change schemas: names move on while DDL of them waits.
#[tokio::test]
async fn rows_of_a_name_that_moves_twice_keep_their_order() {
    swapped_twice(false).await;
    swapped_twice(true).await;
}

async fn swapped_twice(restarted: bool) {
    let world = Arc::new(World::default());
    let (mut h, mut out) = handler(&world, 1, 1, None).await;
    let rename = |from: &str, to: &str, at| {
        let to = TableId::new("d", to);
        ddl(from, at, SchemaChange::RenameTable { to })
    };
    let leave_all = |world: &World, attempt| {
        for name in ["t", "g", "h"] {
            for lo in 1..30 {
                let id = DdlId { table: TableId::new("d", name), position: Position { hi: 1, lo } };
                world.leave(&id, attempt, MarkStage::RowsCommitted, 0).unwrap();
            }
        }
    };
    let mut seen = Vec::new();
    let dropped = || ddl("h", 6, SchemaChange::DropTable);
    for record in [rows("t", 0..1), rows("g", 0..2), rename("t", "h", 5), rename("g", "t", 5)] {
        h.process(record, &mut out).await.unwrap();
    }
    for record in [rows("t", 0..3), dropped(), rows("t", 0..4)] {
        h.process(record, &mut out).await.unwrap();
    }
    if !restarted {
        // The first rename alone is ready: what waits for the second one goes on waiting.
        let first = DdlId { table: TableId::new("d", "t"), position: Position { hi: 1, lo: 5 } };
        world.leave(&first, 1, MarkStage::RowsCommitted, 0).unwrap();
        h.tick(&mut out).await.unwrap();
    }
    for record in [
        rows("t", 0..5),
        ddl("g", 9, SchemaChange::CreateTable),
        rows("g", 0..6),
        rename("t", "h", 11),
        rename("g", "t", 11),
        rows("t", 0..7),
    ] {
        h.process(record, &mut out).await.unwrap();
    }
    seen.extend(said(&mut out));
    let mut attempt = 1;
    if restarted {
        h.prepare_snapshot(CheckpointId(1), &mut out).await.unwrap();
        said(&mut out);
        let state = h.snapshot_state(CheckpointId(1)).await.unwrap();
        attempt = 2;
        (h, out) = handler(&world, 1, attempt, Some(state)).await;
    }
    for record in [ddl("h", 12, SchemaChange::DropTable), rows("t", 0..8)] {
        h.process(record, &mut out).await.unwrap();
    }
    for _ in 0..12 {
        leave_all(&world, attempt);
        h.tick(&mut out).await.unwrap();
    }
    assert!(!h.holds());
    seen.extend(said(&mut out));
    let order: Vec<&str> =
        seen.iter().map(String::as_str).filter(|s| !s.starts_with("mark")).collect();
    let places_of = |wanted: &[&str]| -> Vec<usize> {
        let place = |what: &&str| order.iter().position(|s| s == what);
        wanted
            .iter()
            .map(|what| place(what).unwrap_or_else(|| panic!("{what}: {order:?}")))
            .collect()
    };
    for in_order in [
        &[
            "1 rows of t",
            "ddl 5 of t",
            "ddl 5 of g",
            "3 rows of t",
            "4 rows of t",
            "5 rows of t",
            "ddl 11 of t",
            "ddl 11 of g",
            "7 rows of t",
            "8 rows of t",
        ][..],
        &["ddl 5 of t", "ddl 6 of h", "ddl 11 of t", "ddl 12 of h"],
        &["ddl 5 of g", "ddl 9 of g", "6 rows of g", "ddl 11 of g"],
    ] {
        assert!(places_of(in_order).is_sorted(), "restarted: {restarted}, {order:?}");
    }
}
