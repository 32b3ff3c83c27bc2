//! `cargo xtask bench`: a release build measured against its limits, each beside what it is compared with, in one run.

mod commits;
mod doris;
mod flink;
mod freshness;
mod idle;
mod kafka;
mod log;
mod raw_reader;
mod snapshot;
mod workload;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::mariadb;
use lakeward_testkit::server::{Options, Server};

use crate::BenchOptions;
use crate::build::{self, Profile};
use crate::setup;

/// A measured figure and its limit.
pub struct Figure {
    pub what: String,
    pub measured: String,
    pub compared_with: String,
    pub limit: String,
    pub holds: bool,
}

impl Figure {
    /// `measured` may be at most `limit` times `reference`.
    fn ratio(what: &str, measured: f64, reference: f64, unit: &str, limit: f64) -> Self {
        let ratio = measured / reference;
        Self {
            what: what.into(),
            measured: format!("{measured:.2} {unit}"),
            compared_with: format!("{reference:.2} {unit} = {ratio:.2}×"),
            limit: format!("{limit}×"),
            holds: ratio <= limit,
        }
    }

    fn at_most(what: &str, measured: f64, unit: &str, limit: f64) -> Self {
        Self {
            what: what.into(),
            measured: format!("{measured:.2} {unit}"),
            compared_with: String::new(),
            limit: format!("{limit} {unit}"),
            holds: measured <= limit,
        }
    }
}

/// What every measurement needs.
pub struct Bench {
    binary: PathBuf,
    scale: f64,
}

impl Bench {
    /// A row count of the full benchmark, scaled.
    fn rows(&self, full: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(1_000)
    }

    fn server(&self) -> Result<Server> {
        mariadb::start(
            &Options::default().set("innodb_buffer_pool_size=1G").set("max_binlog_size=1G"),
        )
    }

    fn pipeline(&self, server: &Server, folder: &Path, database: &str) -> Result<Lakeward> {
        let pipeline = Pipeline::new("bench", server, &format!(r"{database}.\.*"), folder);
        self.pipeline_of(folder, &pipeline)
    }

    fn pipeline_of(&self, folder: &Path, pipeline: &Pipeline) -> Result<Lakeward> {
        Lakeward::of_binary(self.binary.clone(), folder, pipeline)
    }
}

type Measurement = fn(&Bench) -> Result<Vec<Figure>>;

const MEASUREMENTS: &[(&str, Measurement)] = &[
    ("log", log::measure),
    ("snapshot", snapshot::measure),
    ("freshness", freshness::measure),
    ("commits", commits::measure),
    ("idle", idle::measure),
    ("kafka", kafka::measure),
    ("doris", doris::measure),
    ("flink", flink::measure),
];

pub fn run(options: &BenchOptions) -> Result<()> {
    setup::build_libraries()?;
    setup::mariadb_server()?;
    setup::mariadb_client()?;
    setup::readers()?;
    setup::kafka_broker()?;
    setup::flink_releases()?;
    println!("building with --release");
    let bench = Bench { binary: build::lakeward(Profile::Release)?, scale: options.scale };
    let mut figures = Vec::new();
    for (name, measure) in MEASUREMENTS {
        if options.only.is_empty() || options.only.iter().any(|o| o == name) {
            println!("measuring: {name}");
            figures.extend(measure(&bench).with_context(|| format!("measurement `{name}`"))?);
        }
    }
    print(&figures);
    let broken = figures.iter().filter(|f| !f.holds).count();
    if broken > 0 {
        bail!("{broken} limits do not hold");
    }
    Ok(())
}

fn print(figures: &[Figure]) {
    println!("\n{:<46} {:>14}  {:<24} {:>10}", "", "measured", "compared with", "limit");
    for f in figures {
        let verdict = if f.holds { "ok" } else { "TOO MUCH" };
        println!(
            "{:<46} {:>14}  {:<24} {:>10}  {verdict}",
            f.what, f.measured, f.compared_with, f.limit
        );
    }
}

/// What a process took from start to end.
pub struct Cost {
    pub wall: Duration,
    pub cpu: Duration,
    pub peak_memory_bytes: u64,
}

/// Runs a pipeline until it has caught up, and looks at it all the time.
pub fn catch_up(lakeward: &mut Lakeward) -> Result<Cost> {
    let begun = Instant::now();
    lakeward.start_with(&["--until", "caught-up"])?;
    let mut cost = Cost { wall: Duration::ZERO, cpu: Duration::ZERO, peak_memory_bytes: 0 };
    while lakeward.is_running() {
        if let Some(process) = lakeward.process() {
            cost.cpu = process.cpu_time().unwrap_or(cost.cpu);
            let peak = process.peak_memory_bytes().unwrap_or(0);
            cost.peak_memory_bytes = cost.peak_memory_bytes.max(peak);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    cost.wall = begun.elapsed();
    let code = lakeward.exit_within(Duration::from_secs(5))?;
    if code != 0 {
        bail!("the run ended with {code}: {}", lakeward.tail(10));
    }
    Ok(cost)
}

pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
