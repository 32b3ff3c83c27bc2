//! What is set wrong is said, and no restart is tried where none can help.

use crate::scene::Scene;

#[test]
fn a_wrong_password_ends_the_job_with_its_cause() {
    let wrong = |pipeline: lakeward_testkit::lakeward::Pipeline| {
        pipeline.set("source", "password", "not it")
    };
    let Some(mut scene) = Scene::with("denied", "2.3.0", wrong) else { return };
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
    let code = scene.lakeward.exit_within(std::time::Duration::from_secs(120)).unwrap();
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
