//! What goes right.

use anyhow::{Context, Result};
use lakeward_testkit::doris::Settings;

use crate::scene::Scene;

const SETUP: &[&str] = &[
    "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(12,2), at DATETIME(3), \
     big BIGINT UNSIGNED, note TEXT) COMMENT 'things'",
    "CREATE TABLE pairs (a VARCHAR(10), b INT, v INT, PRIMARY KEY (b, a))",
    "CREATE TABLE log (at DATETIME, text VARCHAR(100))",
    "INSERT INTO items SELECT seq, CONCAT('naïve \"', seq, '\" \\\\ \\n 日本'), seq / 7, \
     '2024-02-29 12:34:56.789' + INTERVAL seq MINUTE, 18446744073709551615 - seq, NULL FROM seq_1_to_3000",
    "INSERT INTO pairs VALUES ('x', 1, 1), ('y', 1, 2), ('', 2, NULL)",
    "INSERT INTO log VALUES ('2024-01-01', 'one'), ('2024-01-01', 'one')",
];

fn same(scene: &Scene) -> Result<()> {
    scene.assert_same("id, name, price, at, big, note", "items")?;
    scene.assert_same("a, b, v", "pairs")?;
    scene.assert_same("at, text", "log")
}

fn live(format: &str, database: &'static str) -> Result<()> {
    let format = format.to_string();
    let made = Scene::anywhere(database, SETUP, |pipeline| {
        pipeline
            .set("sink", "sink.properties.format", format)
            .set("sink", "sink.buffer-flush.max-rows", 700)
            .set("pipeline", "parallelism", 2)
    })?;
    let Some(mut scene) = made else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    same(&scene)?;
    scene.follow(&[
        "UPDATE items SET name = CONCAT(name, '!'), note = REPEAT('x', id) WHERE id <= 500",
        "DELETE FROM items WHERE id BETWEEN 400 AND 600",
        "INSERT INTO items (id, name) VALUES (450, 'back'), (9001, 'new')",
        "UPDATE items SET id = id + 10000 WHERE id < 10",
        "UPDATE pairs SET v = 7 WHERE b = 1",
        "DELETE FROM pairs WHERE a = ''",
        "INSERT INTO log SELECT '2024-01-02', seq FROM seq_1_to_50",
    ])?;
    same(&scene)?;
    scene.follow(&[
        "BEGIN",
        "UPDATE items SET note = 'first' WHERE id = 20",
        "DELETE FROM items WHERE id = 20",
        "INSERT INTO items (id, note) VALUES (20, 'second')",
        "UPDATE items SET note = 'third' WHERE id = 20",
        "COMMIT",
    ])?;
    same(&scene)?;
    scene.lakeward.stop()
}

#[test]
fn rows_follow_as_json() -> Result<()> {
    live("json", "lakeward_json")
}

#[test]
fn rows_follow_as_csv() -> Result<()> {
    live("csv", "lakeward_csv")
}

#[test]
fn rows_follow_as_arrow() -> Result<()> {
    live("arrow", "lakeward_arrow")
}

#[test]
fn columns_follow() -> Result<()> {
    let made = Scene::anywhere("lakeward_ddl", SETUP, |pipeline| pipeline)?;
    let Some(mut scene) = made else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.follow(&[
        "INSERT INTO items (id, name) VALUES (5001, 'before')",
        "ALTER TABLE items ADD COLUMN stock INT NOT NULL DEFAULT 5 AFTER name",
        "INSERT INTO items (id, name, stock) VALUES (5002, 'after', 6)",
        "ALTER TABLE items RENAME COLUMN note TO remark",
        "UPDATE items SET remark = 'r' WHERE id < 5",
        "ALTER TABLE items DROP COLUMN price",
        "ALTER TABLE items MODIFY COLUMN name VARCHAR(80)",
        "UPDATE items SET name = REPEAT('é', 80) WHERE id = 7",
        "ALTER TABLE items MODIFY COLUMN stock BIGINT NOT NULL DEFAULT 5",
        "UPDATE items SET stock = 5000000000 WHERE id = 8",
        "ALTER TABLE items COMMENT 'other things'",
    ])?;
    scene.assert_same("id, name, stock, at, big, remark", "items")?;
    scene.follow(&[
        "CREATE TABLE later (id INT PRIMARY KEY, c1 INT, c2 INT)",
        "INSERT INTO later VALUES (1, 2, 3)",
        "ALTER TABLE later RENAME COLUMN c1 TO c2, RENAME COLUMN c2 TO c1",
        "INSERT INTO later (id, c1, c2) VALUES (2, 8, 9)",
        "TRUNCATE TABLE pairs",
        "INSERT INTO pairs VALUES ('z', 9, 9)",
        "RENAME TABLE later TO latest",
        "INSERT INTO latest (id, c1) VALUES (3, 4)",
        "DROP TABLE log",
    ])?;
    scene.assert_same("id, c1, c2", "latest")?;
    scene.assert_same("a, b, v", "pairs")?;
    let tables = scene.in_doris("SHOW TABLES")?;
    let tables: Vec<&str> = tables.iter().filter_map(|r| r[0].as_deref()).collect();
    assert_eq!(tables, ["items", "latest", "pairs"]);
    scene.lakeward.stop()
}

/// The loads of a table must not be taken for those of an earlier one of its name.
#[test]
fn a_table_that_is_made_again() -> Result<()> {
    let made = Scene::anywhere("lakeward_remade", SETUP, |pipeline| pipeline)?;
    let Some(mut scene) = made else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.follow(&[
        "DROP TABLE pairs",
        "CREATE TABLE pairs (a VARCHAR(10) PRIMARY KEY, b INT, v INT)",
        "INSERT INTO pairs VALUES ('x', 8, 8), ('y', 9, NULL)",
    ])?;
    scene.assert_same("a, b, v", "pairs")?;
    scene.follow(&[
        "RENAME TABLE pairs TO aside",
        "CREATE TABLE pairs (a VARCHAR(10) PRIMARY KEY, b INT, v INT)",
        "INSERT INTO pairs VALUES ('z', 1, 1)",
        "INSERT INTO aside VALUES ('z', 2, 2)",
    ])?;
    scene.assert_same("a, b, v", "pairs")?;
    scene.assert_same("a, b, v", "aside")
}

/// A table that Doris rewrites holds up nobody else.
#[test]
fn other_tables_go_on_while_one_is_rewritten() -> Result<()> {
    let made = Scene::new("lakeward_rewrite", Settings::default(), SETUP, |pipeline| pipeline)?;
    let Some(mut scene) = made else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.doris.stand_in().context("a stand-in")?.hold_schema_changes(true);
    scene.source()?.run_all([
        "UPDATE pairs SET v = 5",
        "ALTER TABLE pairs MODIFY COLUMN v BIGINT",
        "UPDATE pairs SET v = 5000000000 WHERE b = 2",
    ])?;
    scene.wait_until("the rewriting", |scene| {
        let sql = "SHOW ALTER TABLE COLUMN WHERE TableName = 'pairs'";
        Ok(!scene.in_doris(sql)?.is_empty())
    })?;
    for n in 0..3 {
        scene.source()?.run(&format!("INSERT INTO log VALUES ('2024-03-03', 'meanwhile {n}')"))?;
        scene.wait_until("a row of another table", |scene| {
            Ok(scene.assert_same("at, text", "log").is_ok())
        })?;
    }
    scene.doris.stand_in().context("a stand-in")?.hold_schema_changes(false);
    scene.lakeward.wait_caught_up()?;
    same(&scene)
}

#[test]
fn values_that_were_not_sent_are_left_as_they_are() -> Result<()> {
    let made = Scene::anywhere("lakeward_minimal", SETUP, |pipeline| pipeline)?;
    let Some(mut scene) = made else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.follow(&[
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE items SET note = 'n' WHERE id < 20",
        "UPDATE items SET price = 1 WHERE id BETWEEN 10 AND 30",
        "DELETE FROM items WHERE id = 15",
        "UPDATE items SET name = 'm' WHERE id = 29",
    ])?;
    scene.assert_same("id, name, price, at, big, note", "items")
}

/// Rows are put and changed in loads of one epoch, none of which is visible yet.
#[test]
fn values_that_were_not_sent_of_rows_that_are_not_visible_yet() -> Result<()> {
    let made = Scene::anywhere("lakeward_partial", SETUP, |pipeline| {
        pipeline.set("sink", "sink.buffer-flush.max-rows", 150)
    })?;
    let Some(mut scene) = made else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.follow(&[
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "BEGIN",
        "INSERT INTO items (id, name, big) SELECT seq, 'new', seq FROM seq_20001_to_20700",
        "UPDATE items SET note = 'n' WHERE id > 20000",
        "UPDATE items SET price = 1 WHERE id > 20300",
        "DELETE FROM items WHERE id > 20600",
        "COMMIT",
    ])?;
    scene.assert_same("id, name, price, at, big, note", "items")
}

fn at_least_once(database: &'static str, key: &str, value: &str) -> Result<()> {
    let made = Scene::new(database, Settings::default(), SETUP, |pipeline| {
        pipeline.set("sink", key, value).set("sink", "sink.buffer-flush.max-rows", 500)
    })?;
    let Some(mut scene) = made else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.follow(&[
        "UPDATE items SET note = 'n' WHERE id < 2000",
        "DELETE FROM items WHERE id < 100",
        "ALTER TABLE items ADD COLUMN w INT",
        "UPDATE items SET w = 1 WHERE id < 500",
    ])?;
    scene.assert_same("id, name, price, at, big, note, w", "items")?;
    let received = scene.doris.stand_in().context("a stand-in")?.received();
    let loads = received.iter().filter(|r| r.path.contains("_stream_load") && r.node == "be0");
    assert!(loads.clone().count() > 0);
    for load in loads {
        assert_ne!(load.headers.get("two_phase_commit").map(String::as_str), Some("true"));
    }
    Ok(())
}

#[test]
fn loads_that_are_visible_at_once() -> Result<()> {
    at_least_once("lakeward_batch", "sink.enable.batch-mode", "true")
}

#[test]
fn loads_that_the_cluster_gathers() -> Result<()> {
    at_least_once("lakeward_group", "sink.group-commit", "sync")
}

#[test]
fn a_second_start_goes_on() -> Result<()> {
    let made = Scene::anywhere("lakeward_again", SETUP, |pipeline| pipeline)?;
    let Some(mut scene) = made else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.lakeward.stop()?;
    scene.source()?.run("UPDATE items SET note = 'meanwhile' WHERE id < 100")?;
    scene.source()?.run("INSERT INTO log VALUES (NOW(), 'meanwhile')")?;
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    same(&scene)
}
