//! `cargo xtask demo`: a shop database becomes a lake, stays one under live traffic, and is compared row by row.

mod engine;
mod shop;
mod traffic;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lakeward_testkit::compare;
use lakeward_testkit::lake::{Lake, Reader};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::server::{Options, Server};
use lakeward_testkit::{cache, mariadb};

use crate::DemoOptions;
use crate::build::{self, Profile};
use crate::setup;
use engine::Engine;
use shop::DATABASE;
use traffic::{Done, SCHEMA_CHANGES};

const CLIENTS: u64 = 3;

pub fn run(options: &DemoOptions) -> Result<()> {
    step("Getting ready: MariaDB, the lake's readers, the binary");
    setup::build_libraries()?;
    setup::mariadb_server()?;
    setup::readers()?;
    let binary = build::lakeward(Profile::Dev)?;
    let mut engine = Engine::start(options.on)?;
    let server = mariadb::start(&Options::default().set("innodb_buffer_pool_size=512M"))?;
    let mut session = server.session(None)?;
    let version = session.one("SELECT version()")?.unwrap_or_default();
    note(&format!("MariaDB {version} on port {}", server.port()));

    step("Filling a shop");
    let (rows, took) = timed(|| shop::fill(&mut session, options.thousand_rows))?;
    note(&format!("{} rows in {} tables, {took:.1} s", grouped(rows), shop::tables()));

    step("lakeward run pipeline.yaml: the whole database into the lake");
    let folder = cache::folder()?.join("demo");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let tables = format!(r"{DATABASE}.\.*");
    let pipeline = Pipeline::new("shop to the lake", &server, &tables, &folder);
    let mut lakeward = Lakeward::of_binary(binary.clone(), &folder, &pipeline)?;
    let (_, took) = timed(|| engine.begin(&mut lakeward))?;
    let rate = rows as f64 / took;
    note(&format!("all of it committed after {took:.1} s: {} rows/s", grouped(rate as u64)));

    step("Live traffic, changes of the schema, and a kill -9 in the middle of it");
    live(&server, &mut engine, &mut lakeward, options.seconds)?;

    step("Every row of every table, source against lake");
    let (total, took) = timed(|| compare_all(&server, &lakeward.lake()))?;
    note(&format!("{} rows are the same in both, {took:.1} s", grouped(total)));

    step("The lake is open to every engine");
    show_query(&lakeward)?;
    tell(&folder, &binary, &lakeward.lake());
    if options.stay {
        println!("\nThe source listens on port {}. Enter ends the demo.", server.port());
        std::io::stdin().read_line(&mut String::new())?;
    }
    engine.end(&mut lakeward)
}

/// Traffic for some seconds, with everything that may happen to a pipeline in between; ends caught up.
fn live(server: &Server, engine: &mut Engine, lakeward: &mut Lakeward, seconds: u64) -> Result<()> {
    let (stop, done) = (AtomicBool::new(false), Done::default());
    let pause = Duration::from_secs_f64(seconds as f64 / (SCHEMA_CHANGES.len() + 2) as f64);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|n| {
                let (stop, done) = (&stop, &done);
                scope.spawn(move || traffic::client(server, n, stop, done))
            })
            .collect();
        let mut events = || -> Result<()> {
            let mut session = server.session(Some(DATABASE))?;
            for (i, (what, sql)) in SCHEMA_CHANGES.iter().enumerate() {
                std::thread::sleep(pause);
                session.run(sql)?;
                note(&format!("{what}: {}", sql.split_whitespace().collect::<Vec<_>>().join(" ")));
                if i == SCHEMA_CHANGES.len() / 2 {
                    note(engine.kill(lakeward)?);
                }
            }
            std::thread::sleep(pause * 2);
            Ok(())
        };
        let outcome = events();
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().ok().context("a client panicked")??;
        }
        outcome
    })?;
    let (_, took) = timed(|| engine.catch_up(lakeward))?;
    note(&format!(
        "{} transactions changed {} rows; {took:.1} s after the last one the lake has them all",
        grouped(done.transactions.into_inner()),
        grouped(done.rows.into_inner())
    ));
    Ok(())
}

fn compare_all(server: &Server, lake: &Lake) -> Result<u64> {
    let mut session = server.session(None)?;
    let tables = lake.tables()?;
    let (mut total, mut different) = (0, 0);
    println!("    {:<14} {:>10}   read back by DuckDB", "table", "rows");
    for name in compare::source_tables(&mut session, DATABASE)? {
        let found = tables.iter().find(|t| t.namespace == DATABASE && t.name == name);
        let found = found.with_context(|| format!("the lake has no table {name}"))?;
        let compared = compare::table(&mut session, DATABASE, &name, lake, found, Reader::DuckDb)?;
        let verdict = if compared.differences.is_empty() { "equal" } else { "DIFFERENT" };
        println!("    {name:<14} {:>10}   {verdict}", grouped(compared.rows));
        for difference in &compared.differences {
            println!("      {difference}");
            different += 1;
        }
        total += compared.rows;
    }
    if different > 0 {
        bail!("the lake is not what the source is");
    }
    Ok(total)
}

fn show_query(lakeward: &Lakeward) -> Result<()> {
    let sql = "SELECT r.name AS region, count(*) AS orders, sum(o.total) AS total \
               FROM shop.orders o JOIN shop.customers c ON c.id = o.customer \
               JOIN shop.regions r ON r.id = c.region \
               GROUP BY r.name ORDER BY total DESC LIMIT 5";
    println!(
        "  lakeward query pipeline.yaml \"{}\"\n",
        sql.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    let (code, said) = lakeward.command(&["query", "pipeline.yaml", sql])?;
    if code != 0 {
        bail!("the query failed: {said}");
    }
    said.lines().for_each(|line| println!("    {line}"));
    Ok(())
}

fn tell(folder: &Path, binary: &Path, lake: &Lake) {
    let orders = lake.table(DATABASE, "orders").map(|t| t.metadata).unwrap_or_default();
    println!(
        "\n  The lake stays in {0}. Ask it yourself:\n\n    \
         {1} query {0}/pipeline.yaml 'show tables'\n    \
         duckdb -c \"INSTALL iceberg; LOAD iceberg; SELECT state, count(*) FROM iceberg_scan('{orders}') GROUP BY 1\"",
        folder.display(),
        binary.display(),
    );
}

fn step(what: &str) {
    println!("\n▶ {what}");
}

fn note(what: &str) {
    println!("  {what}");
}

fn timed<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let begun = Instant::now();
    let value = f()?;
    Ok((value, begun.elapsed().as_secs_f64()))
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
