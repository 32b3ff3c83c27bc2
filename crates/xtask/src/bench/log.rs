//! Catching up with a log, beside the server's own log reader that throws everything away.

use std::process::Command;

use anyhow::{Context, Result, bail};
use lakeward_testkit::server::{PASSWORD, Server, USER};

use super::{Bench, Figure, catch_up, megabytes, workload};

const TABLES: u64 = 10;
const DATABASE: &str = "log_bench";

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let server = bench.server()?;
    let mut session = server.session(None)?;
    workload::create(&mut session, DATABASE, TABLES)?;
    let folder = tempfile::tempdir()?;
    let mut lakeward = bench.pipeline(&server, folder.path(), DATABASE)?;
    lakeward.start()?;
    lakeward.wait_streaming()?;
    lakeward.wait_caught_up()?;
    lakeward.stop()?;

    session.run("FLUSH BINARY LOGS")?;
    let file = session.one("SHOW MASTER STATUS")?.context("the server writes no log")?;
    let (inserts, updates, deletes) =
        (bench.rows(1_000_000), bench.rows(600_000), bench.rows(200_000));
    for t in 0..TABLES {
        workload::insert(&mut session, t, inserts / TABLES)?;
    }
    for t in 0..TABLES {
        workload::update(&mut session, t, updates / TABLES)?;
        workload::delete(&mut session, t, deletes / TABLES)?;
    }

    // The reader first: whatever it leaves in the page cache helps the pipeline as much as it helped the reader.
    read_log(&server, &file)?;
    let (reader_wall, reader_cpu) = read_log(&server, &file)?;
    let cost = catch_up(&mut lakeward)?;
    let events = inserts + updates + deletes;
    let rate = events as f64 / cost.wall.as_secs_f64();
    println!("  {events} row changes at {rate:.0} per second");
    Ok(vec![
        Figure::ratio("log catch-up, wall", cost.wall.as_secs_f64(), reader_wall, "s", 5.0),
        Figure::ratio("log catch-up, CPU", cost.cpu.as_secs_f64(), reader_cpu, "s", 6.0),
        Figure::at_most(
            "log catch-up, peak memory",
            megabytes(cost.peak_memory_bytes),
            "MB",
            400.0,
        ),
    ])
}

/// Wall and CPU seconds of `mariadb-binlog` over the log from a file on.
fn read_log(server: &Server, file: &str) -> Result<(f64, f64)> {
    let done = Command::new("bash")
        .arg("-c")
        .arg(
            "TIMEFORMAT='%R %U %S'; time mariadb-binlog --no-defaults --read-from-remote-server \
             --host=127.0.0.1 --port=\"$1\" --user=\"$2\" --to-last-log \"$3\" > /dev/null",
        )
        .args(["bash", &server.port().to_string(), USER, file])
        .env("MYSQL_PWD", PASSWORD)
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        bail!("mariadb-binlog failed: {said}");
    }
    let times: Vec<f64> = said
        .lines()
        .last()
        .context("no times")?
        .split(' ')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .context("no times")?;
    match times[..] {
        [wall, user, system] => Ok((wall, user + system)),
        _ => bail!("no times: {said}"),
    }
}
