//! The native library in processes that live long.

use std::collections::HashSet;

use lakeward_testkit::flink::{Flink, Options, VERSIONS};

use crate::scene::Scene;

const JOBS: u32 = 20;

/// Twenty jobs and as many restarts leave one mapping of the library in each process.
#[test]
fn many_jobs_map_it_once() {
    let Some(mut scene) = Scene::new("mapped") else { return };
    scene.run(&["CREATE TABLE t(id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]);
    for n in 0..JOBS {
        scene.run(&[&format!("INSERT INTO t VALUES ({})", n + 2)]);
        scene.flink.catch_up(&mut scene.lakeward).unwrap();
    }
    for (number, process) in scene.flink.cluster().task_managers() {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.pid())).unwrap();
        let files: HashSet<&str> = maps
            .lines()
            .filter(|line| line.contains("lakeward-native"))
            .filter_map(|line| line.split_whitespace().nth(5))
            .collect();
        assert!(files.len() <= 1, "TaskManager {number} maps {files:?}");
    }
    scene.expect_equal();
}

/// A job whose jar is all there is: the library comes out of it.
#[test]
fn the_jar_alone_is_enough() {
    let Some(mut scene) = Scene::new("alone") else { return };
    scene.flink = Flink::with(&Options::new(VERSIONS[0], 1, 3)).unwrap();
    scene.run(&["CREATE TABLE t(id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]);
    scene.expect_equal();
    scene.run(&["INSERT INTO t VALUES (2)"]);
    scene.expect_equal();
}
