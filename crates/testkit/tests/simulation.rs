//! Random scenarios through crashes, errors and restarts.
#![cfg(feature = "sim")]

use std::path::Path;

use lakeward_core::ErrorKind;
use lakeward_testkit::sim::{Outcome, Sabotage, Scenario, run_with};
use lakeward_values::{Fault, Mix, Random};

fn holds(scenario: &Scenario, scratch: &Path) -> Outcome {
    run_with(scenario, scratch).unwrap_or_else(|failure| {
        panic!("seed {} with {:?}: {failure}", scenario.seed, scenario.faults)
    })
}

fn parallel(mut scenario: Scenario, parallelism: usize) -> Scenario {
    scenario.phases.iter_mut().for_each(|p| p.parallelism = parallelism);
    scenario
}

/// Every table operation, at one writer and at three, with nothing going wrong.
#[test]
fn random_statements_arrive() {
    let scratch = tempfile::tempdir().unwrap();
    for seed in 0..20u64 {
        for parallelism in [1, 3] {
            for mix in [Mix::ROWS, Mix::ALL] {
                let scenario = Scenario::random(seed, mix, 10, &[30, 10]);
                holds(&parallel(scenario, parallelism), scratch.path());
            }
        }
    }
}

/// Names that change hands while DDL of them waits, and a crash in the middle of it.
#[test]
fn names_change_hands() {
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random::new(3);
    for seed in 0..30u64 {
        let scenario = Scenario::random(seed, Mix::NAMES, 8, &[30, 10]);
        for parallelism in [1, 3] {
            let mut plain = parallel(scenario.clone(), parallelism);
            plain.phases[0].pause_ms = if seed % 2 == 0 { 0 } else { 25 };
            let steps = holds(&plain, scratch.path()).steps();
            for _ in 0..5 {
                let step = 1 + random.below(steps);
                holds(&plain.clone().with_fault(step, Fault::Crash), scratch.path());
            }
        }
    }
}

#[test]
fn the_same_seed_takes_the_same_steps() {
    let scratch = tempfile::tempdir().unwrap();
    for seed in 0..5u64 {
        let plain = parallel(Scenario::random(seed, Mix::ALL, 10, &[30]), 3);
        let steps = holds(&plain, scratch.path()).steps();
        let crashing = plain.with_fault(steps / 2, Fault::Crash);
        let (first, second) = (holds(&crashing, scratch.path()), holds(&crashing, scratch.path()));
        assert!(first.lives == 2, "the fault has struck");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

/// The process dies at every single step of a run.
#[test]
fn a_crash_at_every_step() {
    let scratch = tempfile::tempdir().unwrap();
    for (seed, parallelism) in [(1, 1), (2, 3)] {
        let plain = parallel(Scenario::random(seed, Mix::ALL, 8, &[20]), parallelism);
        for step in 1..=holds(&plain, scratch.path()).steps() {
            holds(&plain.clone().with_fault(step, Fault::Crash), scratch.path());
        }
    }
}

/// It dies again soon after it came back: in the middle of mending.
#[test]
fn two_crashes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    for seed in 0..6u64 {
        let plain = parallel(Scenario::random(seed, Mix::ALL, 8, &[20]), 1 + seed as usize % 3);
        let steps = holds(&plain, scratch.path()).steps();
        for _ in 0..25 {
            let first = 1 + random.below(steps);
            let second = first + 1 + random.below(30);
            let twice = plain.clone().with_fault(first, Fault::Crash);
            holds(&twice.with_fault(second, Fault::Crash), scratch.path());
        }
    }
}

/// Calls fail, answers get lost, code panics, and the runtime restarts by itself.
#[test]
fn failing_calls() {
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random::new(11);
    for seed in 0..6u64 {
        let plain = parallel(Scenario::random(seed, Mix::ALL, 8, &[20]), 1 + seed as usize % 3);
        let steps = holds(&plain, scratch.path()).steps();
        for _ in 0..20 {
            let mut failing = plain.clone();
            for _ in 0..1 + random.below(4) {
                let fault = match random.below(4) {
                    0 => Fault::Panic,
                    1 => Fault::Slow(std::time::Duration::from_secs(random.below(20))),
                    _ => Fault::Error(ErrorKind::Transient),
                };
                failing = failing.with_fault(1 + random.below(steps), fault);
            }
            holds(&failing, scratch.path());
        }
    }
}

/// A store that is given back from a backup: the lake is ahead of the state, and at another parallelism.
#[test]
fn an_older_checkpoint() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = Mix { columns: 6, ..Mix::ROWS };
    for seed in 0..20u64 {
        let mut scenario = Scenario::random(seed, rows, 10, &[25, 10, 10]);
        scenario.phases[1] = scenario.phases[1].clone().rewound(1).parallel(3);
        scenario.phases[2] = scenario.phases[2].clone().rewound(2);
        holds(&scenario, scratch.path());
    }
}

/// Another owner stops the pipeline for good, and one clear error says so.
#[test]
fn a_fenced_pipeline_stops() {
    let scratch = tempfile::tempdir().unwrap();
    let plain = Scenario::random(3, Mix::ROWS, 8, &[20]);
    let commits = holds(&plain, scratch.path()).steps_named("commit");
    let fenced = plain.with_fault(commits[2], Fault::Error(ErrorKind::Fenced));
    let failure = run_with(&fenced, scratch.path()).unwrap_err();
    assert!(failure.message().contains("a planned fault"), "{failure}");
}

/// The harness finds what it is there to find. Each planted defect must show in some scenario; without it the very same
/// scenarios pass.
#[test]
fn planted_defects_are_found() {
    let scratch = tempfile::tempdir().unwrap();
    let scenarios = || {
        let columns = Mix { columns: 30, ..Mix::ROWS };
        (0..6).map(move |seed| {
            let mix = if seed < 3 { Mix::ROWS } else { columns };
            Scenario::random(seed, mix, 8, &[25])
        })
    };
    let found = |sabotage: Option<Sabotage>, crash: bool| {
        scenarios().any(|mut scenario| {
            scenario.sabotage = sabotage;
            let plain = run_with(&scenario, scratch.path());
            let Ok(plain) = plain else { return true };
            crash
                && (1..=plain.steps()).step_by(3).any(|step| {
                    let crashing = scenario.clone().with_fault(step, Fault::Crash);
                    run_with(&crashing, scratch.path()).is_err()
                })
        })
    };
    assert!(!found(None, true), "without a defect there is nothing to find");
    for sabotage in [
        Sabotage::CommitsTwice,
        Sabotage::LosesFiles,
        Sabotage::DdlDoesNotWait,
        Sabotage::ForgetsHeldRows,
    ] {
        assert!(found(Some(sabotage), false), "{sabotage:?} was not found");
    }
    // These are harmless until something goes wrong.
    for sabotage in [
        Sabotage::ForgetsProgress,
        Sabotage::ForgetfulStore,
        Sabotage::SkipsOne,
        Sabotage::RepeatsOne,
    ] {
        assert!(!found(Some(sabotage), false), "{sabotage:?} shows without a crash");
        assert!(found(Some(sabotage), true), "{sabotage:?} was not found");
    }
}
