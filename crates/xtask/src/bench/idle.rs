//! A thousand tables in which nothing happens.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Bench, Figure, megabytes};

const DATABASE: &str = "idle_bench";

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let server = bench.server()?;
    let mut session = server.session(None)?;
    let tables = ((1000.0 * bench.scale) as u64).max(100);
    session.run(&format!("CREATE DATABASE {DATABASE}"))?;
    session.run(&format!("USE {DATABASE}"))?;
    for t in 0..tables {
        session.run(&format!(
            "CREATE TABLE t{t}(id INT PRIMARY KEY, v VARCHAR(20)) AS SELECT {t} id"
        ))?;
    }
    let folder = tempfile::tempdir()?;
    let mut lakeward = bench.pipeline(&server, folder.path(), DATABASE)?;
    lakeward.start()?;
    lakeward.wait("streaming", Duration::from_secs(600))?;
    lakeward.wait("caught-up", Duration::from_secs(600))?;

    let snapshots = || -> Result<Vec<Option<i64>>> {
        Ok(lakeward.lake().tables()?.iter().map(|t| t.snapshot).collect())
    };
    let before = snapshots()?;
    // Many checkpoints of one second each.
    std::thread::sleep(Duration::from_secs(20));
    let after = snapshots()?;
    let commits = before.iter().zip(&after).filter(|(b, a)| b != a).count();
    let memory = lakeward.process().and_then(|p| p.resident_memory_bytes());
    let memory = megabytes(memory.context("the run has no memory figure")?);
    lakeward.stop()?;
    Ok(vec![
        Figure::at_most(&format!("{tables} idle tables, commits in 20 s"), commits as f64, "", 0.0),
        Figure::at_most(&format!("{tables} idle tables, memory"), memory, "MB", 200.0),
    ])
}
