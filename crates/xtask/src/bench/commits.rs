//! Whether the ten-thousandth commit of a table costs more than the hundredth.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};

use super::{Bench, Figure};

const DATABASE: &str = "commit_bench";
/// Epochs over which a commit is measured.
const EPOCHS: u64 = 100;

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let server = bench.server()?;
    let mut session = server.session(None)?;
    session.run(&format!("CREATE DATABASE {DATABASE}"))?;
    session.run(&format!("CREATE TABLE {DATABASE}.t(id INT PRIMARY KEY, n INT)"))?;
    session.run(&format!("INSERT INTO {DATABASE}.t VALUES(1, 0)"))?;
    let folder = in_memory()?;
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
        let both = (|| Ok((commit_ms(&lakeward, EPOCHS)?, commit_ms(&lakeward, last)?)))();
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

/// A folder in memory where the system has one: what is measured is the work, which may grow, and not the disk's answer to
/// each sync, which does not, and makes ten thousand commits take twenty minutes.
fn in_memory() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(match memory.is_dir() {
        true => tempfile::Builder::new().prefix("lakeward-bench-").tempdir_in(memory)?,
        false => tempfile::tempdir()?,
    })
}

/// Milliseconds from a complete checkpoint to its committed epoch, over the hundred after the n-th.
fn commit_ms(lakeward: &Lakeward, n: u64) -> Result<f64> {
    let mut taken = Vec::new();
    let end = Instant::now() + Duration::from_secs(1800);
    while Instant::now() < end {
        let status = lakeward.status()?;
        let number = |of: &str, what: &str| status[of][what].as_i64();
        let committed = number("committed", "checkpoint").unwrap_or(0);
        if committed as u64 >= n + EPOCHS {
            let sum: i64 = taken.iter().map(|(_, ms)| ms).sum();
            anyhow::ensure!(!taken.is_empty(), "no epoch after the {n}th was seen");
            return Ok(sum as f64 / taken.len() as f64);
        }
        // The two are of the same epoch whenever the next checkpoint is not complete yet.
        if committed as u64 >= n
            && number("checkpoint", "id") == Some(committed)
            && taken.last().is_none_or(|(epoch, _)| *epoch != committed)
            && let Some(done) = number("committed", "at_ms")
            && let Some(complete) = number("checkpoint", "completed_ms")
        {
            taken.push((committed, done - complete));
        }
        let near = committed as u64 + EPOCHS >= n;
        std::thread::sleep(Duration::from_millis(if near { 1 } else { 50 }));
    }
    bail!("there were no {n} epochs in half an hour")
}
