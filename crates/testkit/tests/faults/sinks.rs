//! Several sinks behind one source.

use std::time::Duration;

use lakeward_testkit::compare;
use lakeward_testkit::lake::{Lake, Reader};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use serde_json::json;

use crate::scene::{Scene, eventually, shared_server};

/// The same source into two lakes: `first`, which the scene knows, and one in the folder `second`.
fn two_lakes(mut pipeline: Pipeline, scene_folder: &std::path::Path) -> Pipeline {
    let folder = scene_folder.join("second");
    std::fs::create_dir_all(&folder).unwrap();
    let lake = Lake::in_folder(&folder);
    let mut first = pipeline.0["sink"].take();
    first["name"] = json!("first");
    let mut second = first.clone();
    second["name"] = json!("second");
    second["catalog.properties.uri"] = json!(format!("sqlite:///{}", lake.catalog.display()));
    second["catalog.properties.warehouse"] = json!(format!("file://{}", lake.warehouse.display()));
    pipeline.0["sink"] = json!([first, second]);
    pipeline
}

fn assert_both_equal(scene: &mut Scene) {
    scene.assert_equal();
    let lake = Lake::in_folder(&scene.lakeward.folder().join("second"));
    for name in compare::source_tables(&mut scene.session, scene.database).unwrap() {
        let table = lake.table(scene.database, &name).unwrap();
        let reader = Reader::DuckDb;
        let compared =
            compare::table(&mut scene.session, scene.database, &name, &lake, &table, reader)
                .unwrap();
        assert!(compared.differences.is_empty(), "{name}: {:#?}", compared.differences);
    }
}

#[test]
fn two_lakes_are_fed_from_one_log_each_exactly_once() {
    let Some(server) = shared_server() else { return };
    let setup = [
        "CREATE TABLE keyed(id INT PRIMARY KEY, v INT)",
        "CREATE TABLE keyless(v INT)",
        "INSERT INTO keyed SELECT seq, seq FROM seq_1_to_2000",
        "INSERT INTO keyless SELECT seq % 7 FROM seq_1_to_500",
    ];
    let mut scene = Scene::with(server, "two_lakes", &setup, |pipeline| {
        let catalog = pipeline.0["sink"]["catalog.properties.uri"].as_str().unwrap().to_string();
        let folder = std::path::Path::new(catalog.strip_prefix("sqlite:///").unwrap()).parent();
        let folder = folder.unwrap().to_path_buf();
        two_lakes(pipeline, &folder)
    });
    scene.start_streaming();
    for round in 0..6 {
        let (from, to) = (10_000 + round * 1_000, 10_400 + round * 1_000);
        scene
            .session
            .run_all([
                format!("INSERT INTO keyed(id, v) SELECT seq, 0 FROM seq_{from}_to_{to}").as_str(),
                "UPDATE keyed SET v = v + 1 WHERE id % 3 = 0",
                "INSERT INTO keyless SELECT seq FROM seq_1_to_40",
                "DELETE FROM keyless WHERE v = 3 LIMIT 5",
            ])
            .unwrap();
        if round == 3 {
            scene.session.run("ALTER TABLE keyed ADD COLUMN more INT NOT NULL DEFAULT 4").unwrap();
        }
        // In the middle of whatever it is at: further into a checkpoint each time.
        std::thread::sleep(Duration::from_millis(170 * (round + 1)));
        scene.lakeward.kill().unwrap();
        scene.lakeward.start().unwrap();
        scene.lakeward.wait_streaming().unwrap();
    }
    scene.catch_up();
    assert_both_equal(&mut scene);
    scene.lakeward.stop().unwrap();
}

#[test]
fn sinks_need_names_of_their_own() {
    let Some(server) = shared_server() else { return };
    let setup = ["CREATE TABLE t(id INT PRIMARY KEY)"];
    let mut scene = Scene::with(server, "same_names", &setup, |mut pipeline| {
        let sink = pipeline.0["sink"].take();
        pipeline.0["sink"] = json!([sink.clone(), sink]);
        pipeline
    });
    scene.lakeward.start().unwrap();
    scene.expect_loud(&["two sinks are called `iceberg`"]);
}

/// A table `t` of a hundred rows is in the lake, and the pipeline does not run.
fn filled_and_stopped(database: &'static str) -> Option<Scene> {
    let setup =
        ["CREATE TABLE t(id INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_100"];
    let mut scene = Scene::new(shared_server()?, database, &setup);
    scene.start_streaming();
    scene.catch_up();
    scene.lakeward.stop().unwrap();
    Some(scene)
}

/// Nothing of what the state directory says is in the lake is there any more.
#[test]
fn a_lake_that_was_deleted_is_not_taken_for_an_empty_one() {
    let Some(mut scene) = filled_and_stopped("deleted_lake") else { return };
    let lake = scene.lake();
    std::fs::remove_file(&lake.catalog).unwrap();
    std::fs::remove_dir_all(&lake.warehouse).unwrap();
    scene.lakeward.start_with(&["--until", "caught-up"]).unwrap();
    scene.expect_loud(&["never heard of it"]);
    scene.lakeward.start_with(&["--until", "caught-up", "--resnapshot"]).unwrap();
    assert_eq!(scene.lakeward.exit_within(Duration::from_secs(60)).unwrap(), 0);
    scene.assert_equal();
}

/// A table that someone has taken out of the catalog ends the run at its next change.
#[test]
fn a_table_that_someone_dropped_is_missed_aloud() {
    let Some(mut scene) = filled_and_stopped("dropped_in_lake") else { return };
    scene.lake().drop("dropped_in_lake.t").unwrap();
    scene.session.run("INSERT INTO t VALUES (1000)").unwrap();
    scene.lakeward.start().unwrap();
    scene.expect_loud(&["read anew with --resnapshot"]);
    scene.lakeward.start_with(&["--until", "caught-up", "--resnapshot=dropped_in_lake.t"]).unwrap();
    assert_eq!(scene.lakeward.exit_within(Duration::from_secs(60)).unwrap(), 0);
    scene.assert_equal();
}

/// Two pipelines that start at the same moment and mean the same table: one of them gets it.
#[test]
fn a_table_has_one_pipeline() {
    let Some(server) = shared_server() else { return };
    let setup =
        ["CREATE TABLE t(id INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_2000"];
    let mut scene = Scene::new(server, "two_owners", &setup);
    let tables = r"two_owners.\.*";
    let other = Pipeline::new("another", server, tables, scene.lakeward.folder()).set(
        "pipeline",
        "state.dir",
        scene.lakeward.folder().join("other").to_str().unwrap(),
    );
    let folder = tempfile::tempdir().unwrap();
    let mut other = Lakeward::in_folder(folder.path(), &other).unwrap();
    scene.lakeward.start().unwrap();
    other.start().unwrap();
    eventually("one of them ends", Duration::from_secs(60), || {
        !scene.lakeward.is_running() || !other.is_running()
    });
    let refused = if other.is_running() { &scene.lakeward } else { &other };
    let log = refused.log();
    assert!(log.contains("another pipeline's") || log.contains("of another origin"), "{log}");
    let first_won = other.is_running();
    match first_won {
        true => other.wait_caught_up().unwrap(),
        false => scene.catch_up(),
    }
    scene.assert_equal();
    // Nor is it taken by reading it anew.
    let loser = if first_won { &mut scene.lakeward } else { &mut other };
    loser.start_with(&["--resnapshot"]).unwrap();
    assert_ne!(loser.exit_within(Duration::from_secs(60)).unwrap(), 0);
    scene.assert_equal();
}
