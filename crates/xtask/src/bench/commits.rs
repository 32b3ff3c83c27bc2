//! Whether the ten-thousandth commit of a table costs more than the hundredth.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};

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
    let stop = AtomicBool::new(false);
    let (early, late) = std::thread::scope(|scope| {
        let client = scope.spawn(|| -> Result<()> {
            let mut session = server.session(Some(DATABASE))?;
            while !stop.load(Ordering::Relaxed) {
                session.run("UPDATE t SET n = n + 1")?;
                // A row or a few for each commit: what is measured is the commit, not the log.
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        });
        let both = (|| Ok((cycle_ms(&lakeward, 100)?, cycle_ms(&lakeward, last)?)))();
        stop.store(true, Ordering::Relaxed);
        client.join().ok().context("the client panicked")??;
        both as Result<(f64, f64)>
    })?;
    lakeward.stop()?;
    let commits = lakeward.lake().table(DATABASE, "t")?.last_sequence_number;
    println!("  {commits} commits, {early:.1} ms each at first, {late:.1} ms in the end");
    if commits < last * 9 / 10 {
        bail!("{last} epochs made only {commits} commits");
    }
    Ok(vec![Figure::ratio(&format!("commit {last} beside commit 100"), late, early, "ms", 1.5)])
}

/// Milliseconds from one committed epoch to the next, over the hundred after the n-th.
fn cycle_ms(lakeward: &Lakeward, n: u64) -> Result<f64> {
    let (first, from_ms) = epoch_after(lakeward, n)?;
    let (last, to_ms) = epoch_after(lakeward, first + 100)?;
    Ok((to_ms - from_ms) as f64 / (last - first) as f64)
}

/// The newest committed epoch, once it is at least the n-th, and when it was committed.
fn epoch_after(lakeward: &Lakeward, n: u64) -> Result<(u64, i64)> {
    let end = Instant::now() + Duration::from_secs(1800);
    while Instant::now() < end {
        let committed = &lakeward.status()?["committed"];
        let epoch = committed["checkpoint"].as_u64().unwrap_or(0);
        if epoch >= n {
            return Ok((epoch, committed["at_ms"].as_i64().unwrap_or(0)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("there were no {n} epochs in half an hour")
}
