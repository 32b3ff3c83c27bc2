//! A defect of ours in the middle of a call costs a restart and nothing else.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use lakeward_testkit::flink::{Flink, Options, VERSIONS, jars};

use crate::scene::Scene;

const OPERATORS: [&str; 5] = [
    "Source",
    "StreamDdlHandler",
    "DynamicStreamWriter",
    "DynamicFilesCommitter",
    "CheckCommitSink",
];
const MOMENTS: [&str; 2] = ["before", "after"];
/// Each of them at each moment, while rows and DDL are under way.
const ROUNDS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_panic_in_each_operator() {
    let Some(mut scene) = Scene::with("panics", VERSIONS[VERSIONS.len() - 1], |pipeline| {
        pipeline
            .set("pipeline", "restart-strategy.type", "fixed-delay")
            .set("pipeline", "restart-strategy.fixed-delay.attempts", 1000)
            .set("pipeline", "restart-strategy.fixed-delay.delay", "200 ms")
            .set("pipeline", "parallelism", 2)
    }) else {
        return;
    };
    let wishes = tempfile::tempdir().unwrap();
    let options = Options::new(VERSIONS[VERSIONS.len() - 1], 2, 3)
        .jar(&jars().unwrap().native)
        .env("LAKEWARD_PANICS", &wishes.path().display().to_string());
    scene.flink = Flink::with(&options).unwrap();
    scene.run(&[
        "CREATE TABLE orders(id INT PRIMARY KEY, item VARCHAR(40))",
        "CREATE TABLE bare(v INT)",
        "INSERT INTO orders SELECT seq, CONCAT('item ', seq) FROM seq_1_to_2000",
        "INSERT INTO bare SELECT seq % 7 FROM seq_1_to_200",
    ]);
    scene.start(&[]);
    scene.wait_checkpoints(2);
    let job = scene.flink.job_of(&scene.lakeward).unwrap();
    let mut planted = 0;
    for round in 0..ROUNDS {
        for operator in OPERATORS {
            for moment in MOMENTS {
                let n = planted;
                scene.run(&[
                    &format!("INSERT INTO orders(id, item) VALUES ({}, 'n')", 10_000 + n),
                    &format!("INSERT INTO bare VALUES ({n})"),
                    &format!("ALTER TABLE orders ADD c{n} INT NOT NULL DEFAULT {n}"),
                    &format!("UPDATE orders SET item = CONCAT(item, '!') WHERE id % 20 = {n}"),
                    &format!("DELETE FROM orders WHERE id % 100 = {n}"),
                ]);
                let wish = wishes.path().join(format!("{operator}.{moment}"));
                let restored = job.restored_checkpoints().unwrap();
                fs::write(&wish, "").unwrap();
                let what = format!("a restart after round {round}, {operator} {moment} a call");
                job.wait(PATIENCE, &what, |job| {
                    Ok(!wish.exists() && job.restored_checkpoints()? > restored)
                })
                .unwrap();
                job.wait_checkpoints(1, PATIENCE).unwrap();
                planted += 1;
            }
        }
    }
    assert!(planted >= 20);
    let exceptions = job.exceptions().unwrap().join("\n");
    assert!(exceptions.contains("planted at"), "{exceptions}");
    // As many restarts leave one mapping of the library.
    for (number, process) in scene.flink.cluster().task_managers() {
        let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid())).unwrap();
        let files: HashSet<&str> = maps
            .lines()
            .filter(|line| line.contains("lakeward-native"))
            .filter_map(|line| line.split_whitespace().nth(5))
            .collect();
        assert_eq!(files.len(), 1, "TaskManager {number} maps {files:?}");
    }
    scene.expect_equal();
}
