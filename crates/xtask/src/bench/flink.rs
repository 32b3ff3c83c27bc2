//! The same log caught up with in one process and on Flink; what a checkpoint of many tables and a killed TaskManager cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lakeward_testkit::flink::{Flink, Options, VERSIONS, jars_of};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::server::Server;

use super::{Bench, Figure, catch_up, workload};
use crate::build;
use crate::flink as build_flink;

const TABLES: u64 = 10;
const MANY_TABLES: u64 = 50;
const DATABASE: &str = "flink_bench";
const MANY: &str = "flink_many";
/// CPU on Flink against CPU in one process.
const CPU_LIMIT: f64 = 2.5;
const PATIENCE: Duration = Duration::from_secs(120);

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    build_flink::build(&build_flink::Options::of_release())?;
    let jars = jars_of(&build::target_folder()?.join("flink"))?;
    let options = Options::new(VERSIONS[1], 1, 4).jar(&jars.native);
    let mut flink = Flink::with_jar(&options, &jars.job)?;
    let server = bench.server()?;
    let mut figures = throughput(bench, &server, &flink)?;
    figures.extend(checkpoints_and_recovery(bench, &server, &mut flink)?);
    Ok(figures)
}

fn throughput(bench: &Bench, server: &Server, flink: &Flink) -> Result<Vec<Figure>> {
    let mut session = server.session(None)?;
    workload::create(&mut session, DATABASE, TABLES)?;
    let (here_folder, there_folder) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut here = bench.pipeline(server, here_folder.path(), DATABASE)?;
    let tables = format!(r"{DATABASE}.\.*");
    let pipeline = Pipeline::new("bench on flink", server, &tables, there_folder.path());
    let mut there = bench.pipeline_of(there_folder.path(), &pipeline)?;
    // Empty tables first: what follows is the log alone.
    catch_up(&mut here)?;
    flink.catch_up(&mut there)?;
    let (inserts, updates) = (bench.rows(1_000_000), bench.rows(400_000));
    for t in 0..TABLES {
        workload::insert(&mut session, t, inserts / TABLES)?;
        workload::update(&mut session, t, updates / TABLES)?;
    }
    let cost = catch_up(&mut here)?;
    let before = cpu(flink)?;
    let begun = Instant::now();
    flink.catch_up(&mut there)?;
    let wall = begun.elapsed().as_secs_f64();
    let cpu = (cpu(flink)? - before).as_secs_f64();
    let events = (inserts + updates) as f64;
    println!(
        "  {events} row changes: {:.0} per second here, {:.0} on Flink with the job's start and end",
        events / cost.wall.as_secs_f64(),
        events / wall
    );
    Ok(vec![Figure::ratio(
        "log on Flink, CPU against one process",
        cpu,
        cost.cpu.as_secs_f64(),
        "s",
        CPU_LIMIT,
    )])
}

/// CPU time of all TaskManagers so far.
fn cpu(flink: &Flink) -> Result<Duration> {
    let times = flink.cluster().task_managers().map(|(_, process)| process.cpu_time());
    times.sum::<Option<Duration>>().context("a TaskManager has no CPU time")
}

fn checkpoints_and_recovery(
    bench: &Bench,
    server: &Server,
    flink: &mut Flink,
) -> Result<Vec<Figure>> {
    let mut session = server.session(None)?;
    workload::create(&mut session, MANY, MANY_TABLES)?;
    (0..MANY_TABLES).try_for_each(|t| workload::insert(&mut session, t, 20))?;
    let folder = tempfile::tempdir()?;
    let pipeline = Pipeline::new("many on flink", server, &format!(r"{MANY}.\.*"), folder.path());
    let mut run: Lakeward = bench.pipeline_of(folder.path(), &pipeline)?;
    flink.start_run(&mut run, &[])?;
    flink.wait_checkpoints(&mut run, 3)?;
    let job = flink.job_of(&run)?;
    let mut slowest = 0.0f64;
    for _ in 0..5 {
        for t in 0..MANY_TABLES {
            workload::update(&mut session, t, 20)?;
        }
        job.wait_checkpoints(1, PATIENCE)?;
        slowest = slowest.max(job.last_checkpoint_ms()? as f64);
    }
    let begun = Instant::now();
    flink.kill_a_task_manager(0)?;
    let restored = job.restored_checkpoints()?;
    job.wait(PATIENCE, "a restart", |job| Ok(job.restored_checkpoints()? > restored))?;
    job.wait_checkpoints(1, PATIENCE)?;
    let recovery = begun.elapsed().as_secs_f64();
    run.stop()?;
    Ok(vec![
        Figure::at_most("a checkpoint of 50 changed tables, slowest", slowest, "ms", 2_000.0),
        Figure::at_most("from kill -9 to the next checkpoint", recovery, "s", 30.0),
    ])
}
