//! One table fails: alone with `table-error: pause`, and it can be taken in again.

use std::time::Duration;

use crate::scene::{Scene, eventually, own_server, shared_server};

const TWO_TABLES: &[&str] = &[
    "CREATE TABLE bad(id INT PRIMARY KEY, v INT)",
    "CREATE TABLE good(id INT PRIMARY KEY, v INT)",
    "INSERT INTO bad VALUES(1, 1), (2, 2)",
    "INSERT INTO good VALUES(1, 1)",
];

fn paused(scene: &Scene) -> bool {
    let (_, status) = scene.lakeward.command(&["status", "pipeline.yaml", "--json"]).unwrap();
    status.replace(' ', "").contains("\"state\":\"paused\"")
}

fn expect_paused(scene: &Scene) {
    eventually("the table is paused", Duration::from_secs(30), || paused(scene));
}

/// Waits until the lake has everything but the paused table, which is said.
fn others_catch_up(scene: &mut Scene) {
    let said = scene.lakeward.wait_caught_up().unwrap_err().to_string();
    assert!(said.contains("paused") && said.contains(".bad"), "{said}");
}

/// The table that failed is left out, also by a run that was killed; the other goes on; read anew, both are whole.
fn fails_alone_and_comes_back(mut scene: Scene, failing: &[&str]) {
    scene.start_streaming();
    scene.catch_up();
    scene.session.run_all(failing.iter().copied()).unwrap();
    expect_paused(&scene);
    scene.session.run("INSERT INTO bad(id) VALUES(10)").unwrap();
    scene.session.run("INSERT INTO good VALUES(2, 2)").unwrap();
    others_catch_up(&mut scene);
    assert_eq!(scene.ids("good"), [1, 2]);
    assert_eq!(scene.ids("bad"), [1, 2]);

    scene.lakeward.kill().unwrap();
    scene.start_streaming();
    scene.session.run("INSERT INTO good VALUES(3, 3)").unwrap();
    others_catch_up(&mut scene);
    expect_paused(&scene);
    assert_eq!(scene.ids("good"), [1, 2, 3]);
    scene.lakeward.stop().unwrap();

    let anew = format!("--resnapshot={}.bad", scene.database);
    scene.lakeward.start_with(&[&anew]).unwrap();
    scene.lakeward.wait_streaming().unwrap();
    scene.session.run("INSERT INTO bad(id) VALUES(11)").unwrap();
    scene.catch_up();
    assert!(!paused(&scene));
    scene.assert_equal();
    // And what it is after another start does not depend on the past.
    scene.lakeward.stop().unwrap();
    scene.start_streaming();
    scene.session.run("INSERT INTO bad(id) VALUES(12)").unwrap();
    scene.catch_up();
    assert!(!paused(&scene));
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

#[test]
fn a_table_that_the_source_cannot_read_fails_alone() {
    let Some(server) = shared_server() else { return };
    let scene = Scene::with(server, "pause_source", TWO_TABLES, |pipeline| {
        pipeline.set("pipeline", "table-error", "pause")
    });
    fails_alone_and_comes_back(
        scene,
        &[
            "SET SESSION binlog_format = STATEMENT",
            "UPDATE bad SET v = v + 1",
            "SET SESSION binlog_format = ROW",
        ],
    );
}

#[test]
fn a_table_whose_change_the_policy_refuses_fails_alone() {
    let Some(server) = shared_server() else { return };
    let scene = Scene::with(server, "pause_policy", TWO_TABLES, |pipeline| {
        pipeline
            .set("pipeline", "table-error", "pause")
            .set("pipeline", "schema.change.behavior", "exception")
            .set("pipeline", "parallelism", "2")
    });
    fails_alone_and_comes_back(scene, &["ALTER TABLE bad DROP COLUMN v"]);
}

#[test]
fn without_pause_a_table_that_cannot_be_read_stops_the_pipeline() {
    let Some(server) = own_server() else { return };
    let mut scene = Scene::new(&server, "no_pause", TWO_TABLES);
    scene.start_streaming();
    scene.catch_up();
    scene
        .session
        .run_all(["SET SESSION binlog_format = STATEMENT", "UPDATE bad SET v = v + 1"])
        .unwrap();
    scene.expect_loud(&["statement"]);
    let log = scene.lakeward.log();
    assert!(log.contains("no_pause.bad"), "the table is not named: {log}");
    // What stands in the log does not matter to a table that is read anew after it.
    scene
        .session
        .run_all(["SET SESSION binlog_format = ROW", "INSERT INTO good VALUES(2, 2)"])
        .unwrap();
    scene.lakeward.start_with(&["--resnapshot=no_pause.bad"]).unwrap();
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// A paused table that is dropped at the source is dropped; another one of its name is a table like any other.
#[test]
fn a_paused_table_can_be_dropped_and_made_again() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::with(server, "pause_drop", TWO_TABLES, |pipeline| {
        pipeline.set("pipeline", "table-error", "pause")
    });
    scene.start_streaming();
    scene.catch_up();
    scene
        .session
        .run_all([
            "SET SESSION binlog_format = STATEMENT",
            "UPDATE bad SET v = v + 1",
            "SET SESSION binlog_format = ROW",
        ])
        .unwrap();
    expect_paused(&scene);
    scene
        .session
        .run_all([
            "DROP TABLE bad",
            "CREATE TABLE bad(id INT PRIMARY KEY, name VARCHAR(10))",
            "INSERT INTO bad VALUES(7, 'seven')",
        ])
        .unwrap();
    scene.catch_up();
    assert!(!paused(&scene));
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// Nothing may be in the lake that a restart does not know of: also when the first checkpoint has not come yet.
#[test]
fn a_table_made_and_dropped_around_an_early_crash_leaves_nothing() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::with(server, "early_crash", TWO_TABLES, |pipeline| {
        pipeline.set("pipeline", "checkpoint.interval", "1h")
    });
    scene.start_streaming();
    scene.session.run("CREATE TABLE brief(id INT PRIMARY KEY)").unwrap();
    let lake = scene.lake();
    eventually("the table is in the lake", Duration::from_secs(30), || {
        lake.table("early_crash", "brief").is_ok()
    });
    scene.lakeward.kill().unwrap();
    scene.session.run("DROP TABLE brief").unwrap();
    scene.start_streaming();
    scene.catch_up();
    assert!(lake.table("early_crash", "brief").is_err(), "a table that is gone is in the lake");
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// Its hidden columns and the rows of its past would look like rows of today.
#[test]
fn a_table_that_begins_to_keep_its_history_is_refused() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::with(server, "versioned", TWO_TABLES, |pipeline| {
        pipeline.set("pipeline", "table-error", "pause")
    });
    scene.start_streaming();
    scene.catch_up();
    scene
        .session
        .run_all(["ALTER TABLE bad ADD SYSTEM VERSIONING", "UPDATE bad SET id = 8 WHERE id = 2"])
        .unwrap();
    expect_paused(&scene);
    scene.session.run("INSERT INTO good VALUES(2, 2)").unwrap();
    others_catch_up(&mut scene);
    assert_eq!((scene.ids("good"), scene.ids("bad")), (vec![1, 2], vec![1, 2]));
    scene.lakeward.stop().unwrap();
}

/// Idle tables are listed, also by a run that has seen no change of them; names that are gone are not.
#[test]
fn status_lists_the_tables_that_are_copied() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::new(server, "listed", TWO_TABLES);
    let names = |scene: &Scene| -> Vec<String> {
        let status = scene.lakeward.status().unwrap();
        let tables = status["tables"].as_array().unwrap().iter();
        tables.map(|t| t["table"].as_str().unwrap().to_owned()).collect()
    };
    scene.start_streaming();
    scene.catch_up();
    scene.lakeward.stop().unwrap();
    scene.start_streaming();
    assert_eq!(names(&scene), ["listed.bad", "listed.good"]);
    scene.session.run("RENAME TABLE bad TO better").unwrap();
    scene.catch_up();
    assert_eq!(names(&scene), ["listed.better", "listed.good"]);
    scene.session.run_all(["INSERT INTO good VALUES(5, 5)", "DROP TABLE good"]).unwrap();
    scene.catch_up();
    assert_eq!(names(&scene), ["listed.better"]);
    scene.lakeward.stop().unwrap();
}

/// A scheduled run must do what it was asked for before it ends, or say that it cannot.
#[test]
fn a_bounded_run_reads_anew_what_it_was_told_to() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::new(server, "bounded_anew", TWO_TABLES);
    let run = |scene: &mut Scene, more: &[&str]| {
        let mut arguments = vec!["--until", "caught-up"];
        arguments.extend(more);
        scene.lakeward.start_with(&arguments).unwrap();
        let code = scene.lakeward.exit_within(Duration::from_secs(60)).unwrap();
        scene.lakeward.kill().unwrap();
        code
    };
    assert_eq!(run(&mut scene, &[]), 0);
    // What only a new snapshot can bring.
    scene
        .session
        .run_all([
            "SET SESSION sql_log_bin = 0",
            "INSERT INTO bad VALUES(3, 3)",
            "SET SESSION sql_log_bin = 1",
        ])
        .unwrap();
    assert_eq!(run(&mut scene, &[]), 0);
    assert_eq!(scene.ids("bad"), [1, 2]);
    assert_eq!(run(&mut scene, &["--resnapshot=bounded_anew.bad"]), 0);
    scene.assert_equal();
    assert_ne!(run(&mut scene, &["--resnapshot=bounded_anew.nope"]), 0);
    assert!(scene.lakeward.log().contains("bounded_anew.nope"));
    scene.assert_equal();
}

/// A snapshot is in the middle of a table when the order of its keys changes: where it has come to means nothing then.
#[test]
fn another_collation_of_the_key_during_the_snapshot() {
    let Some(server) = shared_server() else { return };
    let setup = [
        "CREATE TABLE t(a VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT CONCAT(CHAR(65 + seq % 26 + IF(seq % 2, 32, 0)), LPAD(seq, 7, '0')), seq FROM seq_1_to_60000",
    ];
    let mut scene = Scene::with(server, "recollated", &setup, |pipeline| {
        pipeline.set("source", "scan.incremental.snapshot.chunk.size", 20).set(
            "source",
            "connection.pool.size",
            1,
        )
    });
    scene.lakeward.start().unwrap();
    let read = |scene: &Scene| {
        let status = scene.lakeward.status();
        status.ok().and_then(|status| status["rows_read"].as_u64()).unwrap_or(0)
    };
    eventually("rows are read", Duration::from_secs(30), || read(&scene) > 10_000);
    scene.session.run("ALTER TABLE t MODIFY a VARCHAR(20) COLLATE utf8mb4_bin NOT NULL").unwrap();
    scene.lakeward.wait_streaming().unwrap();
    scene.catch_up();
    let log = scene.lakeward.log();
    assert!(log.contains("sorted in another order"), "it came too late: {log}");
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// The columns of a key change places and back, while only some rows are touched: each key stays with its writer.
#[test]
fn the_columns_of_a_key_change_places() {
    let Some(server) = shared_server() else { return };
    let setup = [
        "CREATE TABLE t(a INT, b INT, n INT, PRIMARY KEY(a, b))",
        "INSERT INTO t SELECT seq % 37, seq, 0 FROM seq_1_to_3000",
    ];
    let mut scene = Scene::with(server, "swapped_key", &setup, |pipeline| {
        pipeline.set("pipeline", "parallelism", 3)
    });
    scene.start_streaming();
    for sql in [
        "UPDATE t SET n = n + 1",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY(b, a)",
        "UPDATE t SET n = n + 1 WHERE b % 1000 = 1",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY(a, b)",
        "UPDATE t SET n = n + 1",
    ] {
        scene.session.run(sql).unwrap();
        scene.catch_up();
    }
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}
