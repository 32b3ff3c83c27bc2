//! How long after its commit at the source a row is in a committed snapshot, under steady traffic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use lakeward_testkit::lakeward::Lakeward;
use lakeward_testkit::server::Server;

use super::{Bench, Figure};

const ROWS_PER_SECOND: u64 = 2_000;
const ROWS_PER_TRANSACTION: u64 = 20;
const DATABASE: &str = "fresh_bench";

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let server = bench.server()?;
    let mut session = server.session(None)?;
    session.run(&format!("CREATE DATABASE {DATABASE}"))?;
    session
        .run(&format!("CREATE TABLE {DATABASE}.t(id BIGINT PRIMARY KEY, n INT, s VARCHAR(40))"))?;
    let folder = tempfile::tempdir()?;
    let mut lakeward = bench.pipeline(&server, folder.path(), DATABASE)?;
    lakeward.start()?;
    lakeward.wait_streaming()?;

    let seconds = (30.0 * bench.scale).max(8.0) as u64;
    let total = ROWS_PER_SECOND * seconds;
    let stop = AtomicBool::new(false);
    let (committed, seen) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&lakeward, total, &stop));
        let committed = write(&server, total);
        if committed.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let seen = watcher.join().ok().context("the watcher panicked")?;
        anyhow::Ok((committed?, seen?))
    })?;
    lakeward.stop()?;
    let mut delays: Vec<f64> = Vec::new();
    for (rows, at_ms) in &committed {
        let first = seen.iter().find(|(visible, _)| visible >= rows);
        let (_, visible_ms) = first.context("a row never became visible")?;
        delays.push((visible_ms - at_ms).max(0) as f64 / 1000.0);
    }
    if let Some(((_, from), (rows, to))) = committed.first().zip(committed.last()) {
        println!("  {:.0} rows per second", *rows as f64 * 1000.0 / (to - from).max(1) as f64);
    }
    delays.sort_by(f64::total_cmp);
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    println!("  median {:.2} s, p99 {:.2} s, worst {:.2} s", at(0.5), at(0.99), at(1.0));
    Ok(vec![Figure::at_most("freshness at 2,000 rows/s, p99", at(0.99), "s", 2.0)])
}

/// Rows committed so far, and when, in milliseconds since the epoch.
type Moments = Vec<(u64, i64)>;

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

fn write(server: &Server, total: u64) -> Result<Moments> {
    let mut session = server.session(Some(DATABASE))?;
    let begun = Instant::now();
    let mut moments = Vec::new();
    let mut rows = 0;
    while rows < total {
        let due = begun + Duration::from_secs_f64(rows as f64 / ROWS_PER_SECOND as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let (from, to) = (rows + 1, rows + ROWS_PER_TRANSACTION);
        session.run(&format!(
            "INSERT INTO t SELECT seq, seq % 1000, CONCAT('row ', seq) FROM seq_{from}_to_{to}"
        ))?;
        rows = to;
        moments.push((rows, now_ms()));
    }
    Ok(moments)
}

/// Asks the run how many rows are in committed snapshots, and since when, until all are.
fn watch(lakeward: &Lakeward, total: u64, stop: &AtomicBool) -> Result<Moments> {
    let mut moments: Moments = Vec::new();
    let end = Instant::now() + Duration::from_secs(total / ROWS_PER_SECOND + 60);
    loop {
        let status = lakeward.status()?;
        let rows = status["rows_committed"].as_u64().unwrap_or(0);
        let at_ms = status["committed"]["at_ms"].as_i64().unwrap_or(0);
        if moments.last().is_none_or(|(before, _)| *before < rows) {
            moments.push((rows, at_ms));
        }
        if rows >= total || stop.load(Ordering::Relaxed) {
            return Ok(moments);
        }
        if Instant::now() > end {
            bail!("{rows} of {total} rows are committed a minute after the last one");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
