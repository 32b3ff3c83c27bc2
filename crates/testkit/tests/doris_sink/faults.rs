//! What goes wrong.

use std::time::Duration;

use anyhow::{Context, Result};
use lakeward_testkit::doris::{Fault, Moment, Settings};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};

use crate::scene::Scene;

const SETUP: &[&str] = &[
    "CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(50))",
    "CREATE TABLE log (n INT, s VARCHAR(50))",
    "INSERT INTO t SELECT seq, 0, CONCAT('row ', seq) FROM seq_1_to_2000",
    "INSERT INTO log SELECT seq, 'first' FROM seq_1_to_500",
];

fn same(scene: &Scene) -> Result<()> {
    scene.assert_same("id, v, s", "t")?;
    scene.assert_same("n, s", "log")
}

fn scene(database: &'static str, settings: Settings) -> Result<Option<Scene>> {
    Scene::new(database, settings, SETUP, |pipeline| {
        pipeline.set("sink", "sink.buffer-flush.max-rows", 300).set(
            "pipeline",
            "restart-strategy.exponential-delay.initial-backoff",
            "100ms",
        )
    })
}

/// Kills the run again and again, in whatever it is doing.
#[test]
fn killed_again_and_again() -> Result<()> {
    let Some(mut scene) = scene("lakeward_killed", Settings::default())? else { return Ok(()) };
    for round in 0..12 {
        scene.lakeward.start()?;
        let mut source = scene.source()?;
        for step in 0..4 {
            let n = round * 10 + step;
            source.run(&format!("UPDATE t SET v = {n} WHERE id % 7 = {}", n % 7))?;
            source.run(&format!("DELETE FROM t WHERE id = {}", n + 1))?;
            source.run(&format!("INSERT INTO log SELECT seq, 'round {n}' FROM seq_1_to_40"))?;
            std::thread::sleep(Duration::from_millis(120 + 70 * (round % 5)));
        }
        if round == 6 {
            source.run("ALTER TABLE t ADD COLUMN w INT DEFAULT 3")?;
            source.run("ALTER TABLE t RENAME COLUMN s TO text")?;
            source.run("UPDATE t SET w = 4, text = 'renamed' WHERE id % 5 = 0")?;
        }
        scene.lakeward.kill()?;
    }
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.assert_same("id, v, text, w", "t")?;
    scene.assert_same("n, s", "log")?;
    let open: Vec<_> =
        scene.transactions()?.into_iter().filter(|t| t.2 == "PRECOMMITTED").collect();
    assert!(open.is_empty(), "left behind: {open:?}");
    Ok(())
}

#[test]
fn answers_are_lost() -> Result<()> {
    let Some(mut scene) = scene("lakeward_lost", Settings::default())? else { return Ok(()) };
    {
        let stand_in = scene.doris.stand_in().context("a stand-in")?;
        for moment in [Moment::Load, Moment::Commit] {
            stand_in.fail(moment, Fault::LoseAnswer, 2);
            stand_in.fail(moment, Fault::Cut, 2);
            stand_in.fail(moment, Fault::HttpStatus(500), 1);
        }
        stand_in.fail(Moment::Redirect, Fault::Cut, 2);
        stand_in.fail(Moment::LabelState, Fault::Cut, 1);
        stand_in.fail(Moment::Load, Fault::TooManyVersions, 2);
        stand_in.fail(Moment::Load, Fault::PublishTimeout, 1);
        stand_in.fail(Moment::Statement, Fault::LoseAnswer, 1);
    }
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    for _ in 0..20 {
        if scene.doris.stand_in().context("a stand-in")?.pending_faults() == 0 {
            break;
        }
        scene.follow(&["UPDATE t SET v = v + 1", "INSERT INTO log VALUES (1, 'x')"])?;
    }
    let stand_in = scene.doris.stand_in().context("a stand-in")?;
    assert_eq!(stand_in.pending_faults(), 0);
    stand_in.publish_pending();
    scene.follow(&["UPDATE t SET v = 1", "INSERT INTO log VALUES (2, 'y')"])?;
    same(&scene)?;
    let log = scene.lakeward.log();
    assert!(!log.to_lowercase().contains("label already exists"), "{log}");
    Ok(())
}

/// Statements of which nobody knows whether they were done.
#[test]
fn answers_to_ddl_are_lost() -> Result<()> {
    let Some(mut scene) = scene("lakeward_lost_ddl", Settings::default())? else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    for (n, ddl) in [
        "ALTER TABLE t ADD COLUMN w INT DEFAULT 3",
        "ALTER TABLE t RENAME COLUMN s TO text",
        "ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN w TO v",
        "ALTER TABLE t MODIFY COLUMN w BIGINT",
        "ALTER TABLE t DROP COLUMN v",
    ]
    .into_iter()
    .enumerate()
    {
        for skip in 0..3 {
            let stand_in = scene.doris.stand_in().context("a stand-in")?;
            stand_in.fail(Moment::Statement, Fault::Delay(Duration::ZERO), n + 2 * skip);
            stand_in.fail(Moment::Statement, Fault::LoseAnswer, 1);
        }
        scene
            .source()?
            .run("UPDATE t SET text = 'again' WHERE id % 9 = 0")
            .or_else(|_| scene.source()?.run("UPDATE t SET s = 'again' WHERE id % 9 = 0"))?;
        scene.follow(&[ddl, "INSERT INTO log VALUES (3, 'after')"])?;
    }
    scene.assert_same("id, text, w", "t")?;
    scene.assert_same("n, s", "log")
}

/// Transactions of a durable checkpoint that the cluster aborts: their rows are read again.
#[test]
fn precommitted_transactions_expire() -> Result<()> {
    let Some(mut scene) = scene("lakeward_expired", Settings::default())? else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.doris.stand_in().context("a stand-in")?.fail(Moment::Commit, Fault::Cut, 1000);
    scene.source()?.run("UPDATE t SET v = v + 1")?;
    scene.source()?.run("INSERT INTO log SELECT seq, 'more' FROM seq_1_to_1000")?;
    scene.wait_until("a failing commit", |scene| {
        Ok(scene.lakeward.log().contains("a commit is tried again"))
    })?;
    {
        let stand_in = scene.doris.stand_in().context("a stand-in")?;
        stand_in.expire_transactions();
        stand_in.clear_faults();
    }
    scene.lakeward.wait_caught_up()?;
    same(&scene)?;
    let log = scene.lakeward.log();
    assert!(log.contains("aborted a load that waited for its commit"), "{log}");
    Ok(())
}

/// As after a long stop: the transactions of the newest checkpoint are gone when the run comes back.
#[test]
fn transactions_expire_while_nothing_runs() -> Result<()> {
    let Some(mut scene) = scene("lakeward_late", Settings::default())? else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.doris.stand_in().context("a stand-in")?.fail(Moment::Commit, Fault::Cut, 1000);
    scene.source()?.run("UPDATE t SET v = v + 1")?;
    scene.wait_until("a failing commit", |scene| {
        Ok(scene.lakeward.log().contains("a commit is tried again"))
    })?;
    scene.lakeward.kill()?;
    let stand_in = scene.doris.stand_in().context("a stand-in")?;
    stand_in.expire_transactions();
    stand_in.clear_faults();
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    same(&scene)
}

#[test]
fn a_frontend_goes_away() -> Result<()> {
    let settings = Settings { frontends: 2, backends: 2, ..Settings::default() };
    let Some(mut scene) = scene("lakeward_frontends", settings)? else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    scene.doris.stand_in().context("a stand-in")?.stop_frontend(0);
    scene.follow(&["UPDATE t SET v = 2", "INSERT INTO log VALUES (2, 'y')"])?;
    {
        let stand_in = scene.doris.stand_in().context("a stand-in")?;
        stand_in.start_frontend(0)?;
        stand_in.stop_frontend(1);
        stand_in.stop_backend(0, true);
    }
    scene.follow(&["UPDATE t SET v = 3", "INSERT INTO log VALUES (3, 'z')"])?;
    same(&scene)
}

/// Credentials go to the cluster's nodes only.
#[test]
fn a_redirect_to_a_stranger_is_not_followed() -> Result<()> {
    let Some(mut scene) = scene("lakeward_stranger", Settings::default())? else { return Ok(()) };
    let stranger = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = stranger.local_addr()?.to_string();
    stranger.set_nonblocking(true)?;
    let stand_in = scene.doris.stand_in().context("a stand-in")?;
    stand_in.fail(Moment::Redirect, Fault::RedirectTo(address), 1);
    scene.lakeward.start()?;
    let code = scene.lakeward.exit_within(Duration::from_secs(60))?;
    assert_ne!(code, 0);
    assert!(scene.lakeward.log().contains("not a node of the cluster"), "{}", scene.lakeward.log());
    assert!(stranger.accept().is_err(), "the stranger was asked");
    Ok(())
}

/// The later run takes over; the earlier one must not commit any more.
#[test]
fn an_earlier_run_is_fenced_off() -> Result<()> {
    let Some(mut scene) = scene("lakeward_fenced", Settings::default())? else { return Ok(()) };
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    let pipeline = std::fs::read_to_string(scene.lakeward.folder().join("pipeline.yaml"))?;
    let mut pipeline = Pipeline(serde_json::from_str(&pipeline)?);
    let folder = scene.lakeward.folder().join("second");
    std::fs::create_dir(&folder)?;
    pipeline = pipeline.set("pipeline", "state.dir", folder.join("state").display().to_string());
    let mut second = Lakeward::in_folder(&folder, &pipeline)?;
    // It has no state, so it refuses to go on, but it has taken over.
    second.start()?;
    assert_ne!(second.exit_within(Duration::from_secs(60))?, 0);
    assert!(second.log().contains("--resnapshot"), "{}", second.log());
    scene.source()?.run("UPDATE t SET v = 77")?;
    assert_ne!(scene.lakeward.exit_within(Duration::from_secs(60))?, 0);
    let log = scene.lakeward.log();
    assert!(log.contains("another run of this pipeline has taken over"), "{log}");
    let changed = scene.in_doris("SELECT COUNT(*) FROM t WHERE v = 77")?;
    assert_eq!(changed, [vec![Some("0".to_string())]]);
    // Back on its own state it goes on, and what the fenced run had loaded is taken back.
    scene.lakeward.start()?;
    scene.lakeward.wait_caught_up()?;
    same(&scene)
}
