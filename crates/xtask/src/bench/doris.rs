//! Reading a table into Doris, beside reading the same rows and throwing them away. The Doris is the stand-in of the tests:
//! it runs in this process, and takes its share of the processors.

use anyhow::Result;
use lakeward_testkit::doris::{DorisServer, Settings};
use lakeward_testkit::lakeward::Pipeline;
use serde_json::json;

use super::{Bench, Figure, catch_up, megabytes, raw_reader, workload};

const DATABASE: &str = "doris_bench";

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let server = bench.server()?;
    let doris = DorisServer::stand_in_with(Settings::default())?;
    let mut session = server.session(None)?;
    let rows = bench.rows(500_000);
    workload::create(&mut session, DATABASE, 1)?;
    workload::insert(&mut session, 0, rows)?;

    let sql = format!("SELECT * FROM {DATABASE}.t0");
    let reader_wall = raw_reader::seconds(&server, &sql, rows)?;

    let folder = tempfile::tempdir()?;
    let sink = json!({
        "type": "doris", "fenodes": doris.fenodes(), "jdbc-url": doris.jdbc_url(),
        "username": doris.user(), "password": doris.password(),
        "table.create.properties.replication_num": "1",
    });
    let pipeline = Pipeline::new("bench", &server, &format!(r"{DATABASE}.\.*"), folder.path());
    let pipeline = pipeline.set("sink", "", sink);
    let mut lakeward = bench.pipeline_of(folder.path(), &pipeline)?;
    let cost = catch_up(&mut lakeward)?;
    let wall = cost.wall.as_secs_f64();
    println!("  {rows} rows at {:.0} per second, the stand-in's work included", rows as f64 / wall);
    let there = doris.session(Some(DATABASE))?.one("SELECT COUNT(*) FROM t0")?;
    anyhow::ensure!(there == Some(rows.to_string()), "doris has {there:?} rows of {rows}");
    Ok(vec![
        Figure::ratio("mysql to doris stand-in, wall", wall, reader_wall, "s", 60.0),
        Figure::at_most("doris, peak memory", megabytes(cost.peak_memory_bytes), "MB", 600.0),
    ])
}
