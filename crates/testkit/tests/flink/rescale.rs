//! A job is resumed with more writers, then with fewer.

use lakeward_testkit::flink::VERSIONS;
use lakeward_testkit::lakeward::Pipeline;

use crate::scene::Scene;

const SETUP: &[&str] = &[
    "CREATE TABLE keyed(id INT PRIMARY KEY, n INT)",
    "CREATE TABLE bare(v INT)",
    "INSERT INTO keyed SELECT seq, seq * 7 FROM seq_1_to_5000",
    "INSERT INTO bare SELECT seq % 7 FROM seq_1_to_500",
];

const CHANGES: &[&str] = &[
    "UPDATE keyed SET n = n + 1 WHERE id % 9 = 0",
    "DELETE FROM keyed WHERE id % 11 = 3 LIMIT 20",
    "INSERT INTO bare VALUES (100),(100)",
    "DELETE FROM bare WHERE v = 3 LIMIT 5",
];

fn with_other_parallelism(database: &'static str, version: &str) {
    let mut first = None;
    let keep = |pipeline: Pipeline| {
        let pipeline = pipeline.set("pipeline", "parallelism", 2);
        first = Some(pipeline.clone());
        pipeline
    };
    let Some(mut scene) = Scene::with(database, version, keep) else { return };
    let pipeline = first.expect("the scene has asked for it");
    scene.run(SETUP);
    scene.start(&[]);
    scene.wait_checkpoints(2);
    for parallelism in [3, 1] {
        scene.run(CHANGES);
        scene.lakeward.stop().unwrap();
        scene.run(CHANGES);
        let other = pipeline.clone().set("pipeline", "parallelism", parallelism);
        scene.lakeward.configure(&other).unwrap();
        scene.start(&[]);
        scene.wait_checkpoints(2);
    }
    scene.run(CHANGES);
    scene.expect_equal();
}

#[test]
fn on_the_oldest_release() {
    with_other_parallelism("rescaled", VERSIONS[0]);
}

#[test]
fn on_the_newest_release() {
    with_other_parallelism("rescaled", VERSIONS[1]);
}
