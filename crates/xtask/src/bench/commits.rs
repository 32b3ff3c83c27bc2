//! Whether the ten-thousandth commit of a table costs more than the hundredth.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lakeward_testkit::lake::{Lake, LakeTable};
use lakeward_testkit::lakeward::Pipeline;

use super::{Bench, Figure};

const DATABASE: &str = "commit_bench";

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let server = bench.server()?;
    let mut session = server.session(None)?;
    session.run(&format!("CREATE DATABASE {DATABASE}"))?;
    session.run(&format!("CREATE TABLE {DATABASE}.t(id INT PRIMARY KEY, n INT)"))?;
    session.run(&format!("INSERT INTO {DATABASE}.t VALUES(1, 0)"))?;
    let folder = tempfile::tempdir()?;
    let pipeline = Pipeline::new("bench", &server, &format!(r"{DATABASE}.\.*"), folder.path()).set(
        "pipeline",
        "checkpoint.interval",
        "1ms",
    );
    let mut lakeward = bench.pipeline_of(folder.path(), &pipeline)?;
    lakeward.start()?;
    lakeward.wait_streaming()?;

    let last = bench.rows(10_000);
    let lake = lakeward.lake();
    let stop = AtomicBool::new(false);
    let (early, late) = std::thread::scope(|scope| {
        let client = scope.spawn(|| -> Result<()> {
            let mut session = server.session(Some(DATABASE))?;
            while !stop.load(Ordering::Relaxed) {
                session.run("UPDATE t SET n = n + 1")?;
            }
            Ok(())
        });
        let both = (|| Ok((cycle_ms(&lake, 100)?, cycle_ms(&lake, last)?)))();
        stop.store(true, Ordering::Relaxed);
        client.join().ok().context("the client panicked")??;
        both as Result<(f64, f64)>
    })?;
    lakeward.stop()?;
    Ok(vec![Figure::ratio(&format!("commit {last} beside commit 100"), late, early, "ms", 1.5)])
}

/// Milliseconds from one commit to the next around the n-th, over the snapshots that the table still has.
fn cycle_ms(lake: &Lake, n: u64) -> Result<f64> {
    let end = Instant::now() + Duration::from_secs(1800);
    loop {
        let table = lake.table(DATABASE, "t").ok();
        if let Some(table) = table.filter(|t| commits(t) >= n) {
            let newest: Vec<i64> = table.committed_ms.iter().rev().take(90).copied().collect();
            let (Some(last), Some(first)) = (newest.first(), newest.last()) else {
                bail!("the table has no snapshots");
            };
            if newest.len() < 50 {
                bail!("the table keeps only {} snapshots", newest.len());
            }
            return Ok((last - first) as f64 / (newest.len() - 1) as f64);
        }
        if Instant::now() > end {
            bail!("the table did not get {n} commits in half an hour");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Commits so far: each has the next sequence number.
fn commits(table: &LakeTable) -> u64 {
    table.last_sequence_number
}
