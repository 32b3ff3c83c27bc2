//! The golden scenarios: each plainly, in one burst, in parallel, killed at each checkpoint and restored, and killed at
//! every step. The expected content is the same every time.
#![cfg(feature = "sim")]

use std::path::{Path, PathBuf};

use lakeward_testkit::sim::{Failure, Golden, Outcome, Scenario, run_with};
use lakeward_values::Fault;

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
}

fn each(run: impl Fn(&Golden, &dyn Fn(&Scenario) -> Outcome)) {
    let scratch = tempfile::tempdir().unwrap();
    let files = files();
    assert!(files.len() >= 8, "the scenarios are where they should be");
    for path in files {
        let golden = Golden::read(&path).unwrap();
        let compared = |scenario: &Scenario| -> Result<Outcome, Failure> {
            let outcome = run_with(scenario, scratch.path())?;
            golden.compare(&outcome).map(|()| outcome)
        };
        run(&golden, &|scenario| {
            compared(scenario).unwrap_or_else(|failure| {
                panic!("{} with {:?}: {failure}", path.display(), scenario.faults)
            })
        });
    }
}

#[test]
fn plainly() {
    each(|golden, run| {
        for seed in 0..5 {
            run(&golden.scenario(seed));
        }
    });
}

#[test]
fn in_one_burst_and_in_parallel() {
    each(|golden, run| {
        for parallelism in [1, 4] {
            let mut scenario = golden.scenario(1);
            scenario.phases[0] = scenario.phases[0].clone().in_one_burst().parallel(parallelism);
            run(&scenario);
        }
    });
}

#[test]
fn killed_at_each_checkpoint_and_restored() {
    each(|golden, run| {
        for parallelism in [1, 3] {
            let mut scenario = golden.scenario(2);
            scenario.phases[0].parallelism = parallelism;
            for step in run(&scenario).steps_named("store:save") {
                run(&scenario.clone().with_fault(step, Fault::Crash));
            }
        }
    });
}

#[test]
fn killed_at_every_step() {
    each(|golden, run| {
        let scenario = golden.scenario(3);
        for step in 1..=run(&scenario).steps() {
            run(&scenario.clone().with_fault(step, Fault::Crash));
        }
    });
}
