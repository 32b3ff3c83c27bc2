//! The jar as Flink's own tools start it, without the program that follows a job.

use std::fs;
use std::time::Duration;

use lakeward_testkit::flink::{Job, Run, jars};

use crate::scene::Scene;

const PATIENCE: Duration = Duration::from_secs(120);

fn start(scene: &Scene, jar: &str, options: &[&str], restore: Option<&str>) -> Job {
    let file = scene.lakeward.folder().join("pipeline.yaml");
    let file = file.display().to_string();
    let words: Vec<&str> = options.iter().copied().chain([file.as_str()]).collect();
    let mut run = Run::new(&words);
    run.restore = restore.map(str::to_owned);
    scene.flink.cluster().run(jar, &run).unwrap()
}

/// A TaskManager is killed, then the JobManager; the last job is bounded and begins from a retained checkpoint.
#[test]
fn a_retained_checkpoint() {
    let Some(mut scene) = Scene::new("retained") else { return };
    scene.run(&[
        "CREATE TABLE t(id INT PRIMARY KEY, n INT)",
        "INSERT INTO t SELECT seq, 0 FROM seq_1_to_2000",
    ]);
    let jar = scene.flink.cluster().upload(&jars().unwrap().job).unwrap();
    let job = start(&scene, &jar, &[], None);
    job.wait_running(PATIENCE).unwrap();
    job.wait_checkpoints(2, PATIENCE).unwrap();
    scene.run(&["UPDATE t SET n = 1 WHERE id < 500", "INSERT INTO t VALUES (9001, 1)"]);
    scene.flink.kill_a_task_manager(0).unwrap();
    scene.run(&["UPDATE t SET n = n + 1 WHERE id < 700", "DELETE FROM t WHERE id = 3"]);
    let restarted = |job: &Job| Ok(!job.exceptions()?.is_empty() && job.status()? == "RUNNING");
    job.wait(PATIENCE, "the job restarts", restarted).unwrap();
    job.wait_running(PATIENCE).unwrap();
    job.wait_checkpoints(1, PATIENCE).unwrap();
    scene.run(&["UPDATE t SET n = n + 1 WHERE id < 900", "INSERT INTO t VALUES (9002, 1)"]);
    scene.flink.replace_job_manager().unwrap();
    let checkpoint = scene.flink.cluster().retained_checkpoint(&job.id).unwrap();
    // What was uploaded is gone with it.
    let jar = scene.flink.cluster().upload(&jars().unwrap().job).unwrap();
    let job = start(&scene, &jar, &["--until", "caught-up"], Some(&checkpoint));
    job.wait_status("FINISHED", PATIENCE).unwrap();
    scene.compare();
    let left = fs::read_dir(scene.flink.cluster().folder().join("tmp")).unwrap();
    let scratch = left.filter_map(Result::ok).map(|e| e.file_name().to_string_lossy().into_owned());
    // The TaskManager that was killed could not tidy up.
    assert!(scratch.filter(|name| name.starts_with("lakeward-scratch-")).count() <= 6);
}

/// What the main method refuses, it says.
#[test]
fn wrong_words() {
    let Some(scene) = Scene::new("words") else { return };
    let jar = scene.flink.cluster().upload(&jars().unwrap().job).unwrap();
    for (words, said) in [
        (&["--unknown"][..], "usage:"),
        (&[], "no pipeline was given"),
        (&["--pipeline-base64", "e30="], "source"),
    ] {
        let refused = scene.flink.cluster().run(&jar, &Run::new(words)).unwrap_err();
        assert!(format!("{refused:#}").contains(said), "{words:?}: {refused:#}");
    }
}
