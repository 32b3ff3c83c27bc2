//! What a job promises, on a toy pipeline in simulated time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lakeward_core::{Clock, ErrorKind, TableId};
use lakeward_runtime::{JobOptions, JobState, RestartStrategy, Timer, Until};

mod toy;
use toy::{Failure, World, offsets, simulate, start};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn all(n: u64) -> Vec<u64> {
    (1..=n).collect()
}

#[test]
fn everything_arrives_once_through_errors_and_panics() {
    for parallelism in [1, 3] {
        let (world, scratch) = (World::new(500), scratch());
        for (n, failure) in [
            (7, Failure::Kind(ErrorKind::Transient)),
            (200, Failure::Panic),
            (201, Failure::Kind(ErrorKind::Bug)),
            (499, Failure::Kind(ErrorKind::Transient)),
        ] {
            world.failures.lock().unwrap().insert(n, failure);
        }
        simulate(&world, async {
            let job = start(&world, world.options(&scratch), parallelism);
            job.run_until(Until::CaughtUp).await.unwrap();
            let status = job.status();
            assert_eq!(status.state, JobState::Finished);
            assert_eq!((status.attempt, status.restarts), (5, 4));
            assert_eq!(status.complete, offsets(500));
            assert!(status.tables["toy.numbers"].rows_written >= 500);
        });
        assert_eq!(world.committed(), all(500));
        assert_eq!(world.alive.load(Ordering::Relaxed), 0, "every task has ended");
        let last = world.store.ids().last().copied();
        assert_eq!(last, Some(world.acknowledged.load(Ordering::Relaxed)), "the source knows");
    }
}

#[test]
fn a_stop_commits_and_a_start_goes_on() {
    let (world, scratch) = (World::new(300), scratch());
    simulate(&world, async {
        for _ in 0..50 {
            let job = start(&world, world.options(&scratch), 2);
            world.time.sleep(Duration::from_millis(30)).await;
            let emitted = world.emitted.load(Ordering::Relaxed);
            job.stop().await.unwrap();
            assert_eq!(job.status().state, JobState::Finished);
            assert!(world.committed().len() as u64 >= emitted, "nothing read is left behind");
            assert_eq!(world.alive.load(Ordering::Relaxed), 0);
        }
    });
    assert_eq!(world.committed(), all(300));
    assert_eq!(world.emitted.load(Ordering::Relaxed), 300, "nothing was read again");
}

#[test]
fn completion_is_told_before_the_next_barrier_and_the_end_before_the_last() {
    let (world, scratch) = (World::new(200), scratch());
    simulate(&world, async {
        let job = start(&world, world.options(&scratch), 2);
        job.run_until(Until::CaughtUp).await.unwrap();
    });
    let order = world.order.lock().unwrap();
    for index in ["0", "1"] {
        let of_one: Vec<&str> = order.iter().filter_map(|l| l.strip_prefix(index)).collect();
        let ids = world.store.ids();
        let last = ids.last().unwrap();
        let mut expected = Vec::new();
        for id in 1..*last {
            expected.extend([format!(" prepare {id}"), format!(" complete {id}")]);
        }
        expected.extend([" finish".into(), format!(" prepare {last}")]);
        assert_eq!(of_one[..expected.len()], expected);
    }
}

#[test]
fn what_the_user_must_fix_is_not_tried_again() {
    let (world, scratch) = (World::new(100), scratch());
    world.failures.lock().unwrap().insert(10, Failure::Kind(ErrorKind::Config));
    simulate(&world, async {
        let job = start(&world, world.options(&scratch), 1);
        let error = job.wait().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("Work#0"), "{error}");
        assert_eq!(job.status().state, JobState::Failed);
        assert_eq!(job.status().attempt, 1);
        assert!(job.wait_streaming().await.is_err(), "a wait does not outlive the job");
    });
    assert_eq!(world.alive.load(Ordering::Relaxed), 0);
}

#[test]
fn what_the_sink_lost_is_read_again_from_the_checkpoint_before() {
    let read_with = |kind| {
        let (world, scratch) = (World::new(400), scratch());
        world.failures.lock().unwrap().insert(300, Failure::Kind(kind));
        simulate(&world, async {
            let job = start(&world, world.options(&scratch), 1);
            job.run_until(Until::CaughtUp).await.unwrap();
            assert_eq!(job.status().attempt, 2);
        });
        assert_eq!(world.committed(), all(400));
        world.emitted.load(Ordering::Relaxed)
    };
    let from_the_newest = read_with(ErrorKind::Transient);
    let from_the_one_before = read_with(ErrorKind::EpochLost);
    assert!(from_the_one_before > from_the_newest, "{from_the_one_before} > {from_the_newest}");
}

#[test]
fn without_a_checkpoint_before_it_a_loss_needs_the_user() {
    let (world, scratch) = (World::new(100), scratch());
    world.failures.lock().unwrap().insert(1, Failure::Kind(ErrorKind::EpochLost));
    simulate(&world, async {
        let error = start(&world, world.options(&scratch), 1).wait().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("--resnapshot"), "{error}");
    });
}

#[test]
fn a_panic_is_a_bug_and_the_strategy_decides() {
    let (world, scratch) = (World::new(100), scratch());
    world.failures.lock().unwrap().insert(10, Failure::Panic);
    simulate(&world, async {
        let options = JobOptions { restart: RestartStrategy::None, ..world.options(&scratch) };
        let error = start(&world, options, 1).wait().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
        assert!(error.to_string().contains("told to panic"), "{error}");
    });
}

#[test]
fn requests_become_one_checkpoint_and_keep_the_pause() {
    let (world, scratch) = (World::new(10_000), scratch());
    simulate(&world, async {
        let options = JobOptions {
            checkpoint_interval: Duration::from_secs(1000),
            checkpoint_min_pause: Duration::from_millis(500),
            ..world.options(&scratch)
        };
        let job = start(&world, options, 2);
        job.wait_streaming().await.unwrap();
        for _ in 0..100 {
            job.request_checkpoint();
            world.time.sleep(Duration::from_millis(20)).await;
        }
        // 100 requests in 2 s, half a second apart at least.
        let taken = job.status().checkpoint.unwrap().id;
        assert!((3..=5).contains(&taken), "{taken} checkpoints");
        job.abort();
    });
}

#[test]
fn a_late_checkpoint_is_reported_and_a_stop_still_ends() {
    let (world, scratch) = (World::new(10_000), scratch());
    world.never_at_boundary.store(true, Ordering::Relaxed);
    simulate(&world, async {
        let options = JobOptions {
            checkpoint_report_after: Duration::from_secs(1),
            stop_timeout: Duration::from_secs(30),
            ..world.options(&scratch)
        };
        let job = start(&world, options, 1);
        world.time.sleep(Duration::from_secs(3)).await;
        let in_flight = job.status().checkpoint_in_flight.unwrap();
        assert!(in_flight.waiting_for.contains(&"Source#0".to_string()), "{in_flight:?}");
        let before_ms = world.time.now_ms();
        let error = job.stop().await.unwrap_err();
        assert!(error.to_string().contains("did not complete in time"), "{error}");
        assert!(world.time.now_ms() - before_ms <= 31_000);
        job.wait().await.unwrap_err();
    });
    assert_eq!(world.alive.load(Ordering::Relaxed), 0);
}

#[test]
fn a_slow_sink_slows_the_source_down() {
    let (world, scratch) = (World::new(100_000), scratch());
    world.sink_delay_ms.store(50, Ordering::Relaxed);
    simulate(&world, async {
        let job = start(&world, world.options(&scratch), 2);
        for _ in 0..200 {
            world.time.sleep(Duration::from_millis(200)).await;
            let emitted = world.emitted.load(Ordering::Relaxed);
            let waiting = emitted - world.received.load(Ordering::Relaxed);
            // Four queues of 32, and one record in each task's hands.
            assert!(waiting <= 4 * 32 + 8, "{waiting} records wait");
        }
        assert!(world.received.load(Ordering::Relaxed) > 500);
        job.stop().await.unwrap();
    });
}

#[test]
fn a_stop_between_attempts_ends_at_once_with_the_error() {
    let (world, scratch) = (World::new(100), scratch());
    world.failures.lock().unwrap().insert(10, Failure::Kind(ErrorKind::Transient));
    simulate(&world, async {
        let delay = Duration::from_secs(600);
        let restart = RestartStrategy::FixedDelay { attempts: None, delay };
        let job = start(&world, JobOptions { restart, ..world.options(&scratch) }, 1);
        while job.status().state != JobState::Restarting {
            world.time.sleep(Duration::from_millis(1)).await;
        }
        assert!(job.status().next_attempt_ms.unwrap() > world.time.now_ms());
        let error = job.stop().await.unwrap_err();
        assert!(error.to_string().contains("told to fail"), "{error}");
        assert!(world.time.now() < Duration::from_secs(60));
    });
}

#[test]
fn an_abort_ends_every_task_and_loses_nothing() {
    let (world, scratch) = (World::new(300), scratch());
    simulate(&world, async {
        for _ in 0..20 {
            let job = start(&world, world.options(&scratch), 3);
            world.time.sleep(Duration::from_millis(170)).await;
            job.abort();
            job.wait().await.unwrap_err();
            // Aborted tasks are dropped when they are next looked at.
            world.time.sleep(Duration::from_millis(1)).await;
            assert_eq!(world.alive.load(Ordering::Relaxed), 0);
        }
        start(&world, world.options(&scratch), 3).run_until(Until::CaughtUp).await.unwrap();
    });
    assert_eq!(world.committed(), all(300));
}

#[test]
fn another_parallelism_goes_on_with_redistributed_state() {
    let (world, scratch) = (World::new(600), scratch());
    simulate(&world, async {
        for parallelism in [1, 4, 2] {
            let job = start(&world, world.options(&scratch), parallelism);
            world.time.sleep(Duration::from_millis(300)).await;
            job.stop().await.unwrap();
        }
        start(&world, world.options(&scratch), 3).run_until(Until::CaughtUp).await.unwrap();
    });
    assert_eq!(world.committed(), all(600));
}

#[test]
fn rows_on_top_of_a_lost_state_are_refused() {
    let (world, scratch) = (World::new(10), scratch());
    let table = TableId::new("toy", "numbers");
    world.progress.lock().unwrap().insert(table, offsets(5));
    simulate(&world, async {
        let error = start(&world, world.options(&scratch), 1).wait().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("--resnapshot"), "{error}");
        world.failures.lock().unwrap().insert(3, Failure::Kind(ErrorKind::Transient));
        let resnapshot = vec!["*".to_string()];
        let job = start(&world, JobOptions { resnapshot, ..world.options(&scratch) }, 1);
        job.run_until(Until::CaughtUp).await.unwrap();
    });
    // Again in the second attempt, since no checkpoint had been taken in the first.
    assert_eq!(*world.resnapshots.lock().unwrap(), [["*"], ["*"]]);
}

#[test]
fn caught_up_waits_for_what_an_operator_holds() {
    let (world, scratch) = (World::new(30), scratch());
    world.holds.store(true, Ordering::Relaxed);
    simulate(&world, async {
        let job = start(&world, world.options(&scratch), 1);
        let run = tokio::spawn({
            let job = job.clone();
            async move { job.run_until(Until::CaughtUp).await }
        });
        world.time.sleep(Duration::from_secs(5)).await;
        assert!(!run.is_finished());
        let status = job.status();
        assert_eq!(status.committed.unwrap().offsets, offsets(30));
        assert!(status.complete.is_empty());
        world.holds.store(false, Ordering::Relaxed);
        run.await.unwrap().unwrap();
    });
}

#[test]
fn the_same_job_takes_the_same_steps() {
    let trace = || {
        let (world, scratch) = (World::new(400), scratch());
        for n in [5, 100, 250] {
            world.failures.lock().unwrap().insert(n, Failure::Kind(ErrorKind::Transient));
        }
        simulate(&world, async {
            start(&world, world.options(&scratch), 3).run_until(Until::CaughtUp).await.unwrap();
        });
        let order = world.order.lock().unwrap().clone();
        (order, world.time.now(), Arc::try_unwrap(world).map(|w| w.lake.into_inner().unwrap()).ok())
    };
    let first = trace();
    assert!(first.0.len() > 20);
    assert_eq!(first, trace());
}

#[test]
fn a_bounded_run_survives_a_failure_of_its_last_checkpoint() {
    let (world, scratch) = (World::new(30), scratch());
    world.fails_when_finished.store(true, Ordering::Relaxed);
    simulate(&world, async {
        let job = start(&world, world.options(&scratch), 2);
        job.run_until(Until::CaughtUp).await.unwrap();
        assert_eq!((job.status().state, job.status().attempt), (JobState::Finished, 2));
    });
    assert_eq!(world.committed(), all(30));
}

/// In real time, on several threads, with a state directory.
#[test]
fn a_state_directory_carries_a_job_over_processes() {
    use lakeward_runtime::{DirStore, Identity, SystemTimer};
    let (dir, scratch) = (scratch(), scratch());
    let world = World::new(0);
    let identity = Identity {
        pipeline: lakeward_core::PipelineId("toy".into()),
        source: "toy".into(),
        sink: "toy".into(),
    };
    let timer: Arc<dyn Timer> = Arc::new(SystemTimer::default());
    world.timer.set(timer.clone()).ok().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for n in 1..=4 {
        world.end.store(6 + n * 3, Ordering::Relaxed);
        let store = DirStore::open(dir.path(), identity.clone()).unwrap();
        let options =
            JobOptions { store: Arc::new(store), timer: timer.clone(), ..world.options(&scratch) };
        runtime.block_on(async {
            let job = start(&world, options, 2);
            job.run_until(Until::CaughtUp).await.unwrap();
            assert_eq!(job.status().attempt, n);
        });
        assert_eq!(world.committed(), all(6 + n * 3));
    }
}
