//! What is set wrong is said, and no restart is tried where none can help.

use std::time::Duration;

use lakeward_testkit::flink::{Flink, Job, Options, VERSIONS, jars};
use lakeward_testkit::lakeward::Pipeline;

use crate::scene::Scene;

#[test]
fn a_wrong_password_ends_the_job_with_its_cause() {
    let wrong = |pipeline: Pipeline| pipeline.set("source", "password", "not it");
    let Some(mut scene) = Scene::with("denied", VERSIONS[1], wrong) else { return };
    scene.run(&["CREATE TABLE t(id INT PRIMARY KEY)"]);
    scene.start(&[]);
    scene.expect_failure("ccess denied");
    assert!(!scene.flink.cluster().logs().contains("not it"), "the password is in a log");
}

#[test]
fn a_pipeline_runs_once() {
    let Some(mut scene) = Scene::new("once") else { return };
    scene.run(&["CREATE TABLE t(id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]);
    scene.start(&["--flink.detached"]);
    let code = scene.lakeward.exit_within(Duration::from_secs(120)).unwrap();
    assert_eq!(code, 0, "{}", scene.lakeward.log());
    let words = scene.flink.words();
    let words: Vec<&str> =
        ["run", "pipeline.yaml"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let (code, said) = scene.lakeward.command(&words).unwrap();
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("runs already"), "{said}");
    // Nor in a process beside it.
    let (code, said) = scene.lakeward.command(&["run", "pipeline.yaml"]).unwrap();
    assert_ne!(code, 0);
    assert!(said.contains("--from-flink"), "{said}");
}

#[test]
fn writers_in_slots_of_their_own_and_metrics() {
    let own = |pipeline: Pipeline| {
        pipeline.set("pipeline", "flink.writer-slots", "own").set("pipeline", "parallelism", 2)
    };
    let Some(mut scene) = Scene::with("slots", VERSIONS[1], own) else { return };
    scene.run(&[
        "CREATE TABLE t(id INT PRIMARY KEY)",
        "INSERT INTO t SELECT seq FROM seq_1_to_1000",
    ]);
    scene.start(&[]);
    scene.wait_checkpoints(2);
    let job = scene.flink.job_of(&scene.lakeward).unwrap();
    let all_rows = |job: &Job| {
        let rows = job.metrics("DynamicStreamWriter", "lakeward.rows_written_total")?;
        Ok(rows.len() == 2 && rows.iter().sum::<f64>() == 1000.0 && !rows.contains(&0.0))
    };
    job.wait(Duration::from_secs(60), "the rows that both writers wrote are shown", all_rows)
        .unwrap();
    scene.expect_equal();
}

#[test]
fn unaligned_checkpoints_are_refused() {
    let Some(mut scene) = Scene::new("unaligned") else { return };
    let options = Options::new(VERSIONS[1], 1, 1)
        .set("execution.checkpointing.unaligned.enabled", true)
        .jar(&jars().unwrap().native);
    scene.flink = Flink::with(&options).unwrap();
    scene.start(&[]);
    scene.expect_failure("unaligned");
}
