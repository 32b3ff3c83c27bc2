//! Reading a table into the lake, beside reading the same rows and throwing them away.

use anyhow::Result;

use super::{Bench, Figure, catch_up, megabytes, raw_reader, workload};

const DATABASE: &str = "snapshot_bench";

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let server = bench.server()?;
    let mut session = server.session(None)?;
    let rows = bench.rows(2_000_000);
    workload::create(&mut session, DATABASE, 1)?;
    workload::insert(&mut session, 0, rows)?;

    let sql = format!("SELECT * FROM {DATABASE}.t0");
    let reader_wall = raw_reader::seconds(&server, &sql, rows)?;

    let folder = tempfile::tempdir()?;
    let mut lakeward = bench.pipeline(&server, folder.path(), DATABASE)?;
    let cost = catch_up(&mut lakeward)?;
    println!("  {rows} rows at {:.0} per second", rows as f64 / cost.wall.as_secs_f64());
    Ok(vec![
        Figure::ratio("snapshot, wall", cost.wall.as_secs_f64(), reader_wall, "s", 1.5),
        Figure::at_most("snapshot, peak memory", megabytes(cost.peak_memory_bytes), "MB", 400.0),
    ])
}
