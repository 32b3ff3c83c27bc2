//! The project's own commands. `cargo xtask help` lists them.

#![allow(clippy::print_stdout)]

mod build;
mod check;
mod flink;
mod setup;
mod test;

#[cfg(feature = "servers")]
mod bench;
#[cfg(feature = "servers")]
mod demo;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Commands for those who work on Lakeward")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A shop database, live traffic, and the lake beside it: see Lakeward work.
    Demo(DemoOptions),
    /// Installs what the tests need where it is missing, builds everything, and runs every test.
    Test {
        /// Passed on to `cargo test`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Format, lints, and the rules about who may depend on whom.
    Check,
    /// Builds the job for Apache Flink: the library and the Java around it, as two jars.
    Flink(flink::Options),
    /// Measures a release build against its limits.
    Bench(BenchOptions),
    /// Only installs what the tests need: MariaDB, MySQL 9, and the lake's other readers.
    Setup,
}

#[derive(clap::Args)]
#[cfg_attr(not(feature = "servers"), allow(dead_code))]
struct DemoOptions {
    /// Rows in the shop, in thousands.
    #[arg(long, default_value_t = 1000)]
    thousand_rows: u64,
    /// Seconds of live traffic.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Where the pipeline runs: `here` in one process, or on a Flink cluster that is started for it.
    #[arg(long, value_enum, default_value_t = Engine::Here)]
    on: Engine,
    /// Keeps running until Enter is pressed, with the source and the lake open to questions.
    #[arg(long)]
    stay: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    Here,
    Flink,
}

#[derive(clap::Args)]
#[cfg_attr(not(feature = "servers"), allow(dead_code))]
struct BenchOptions {
    /// Share of the full row counts, for a quick run: 0.1 is a tenth.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Measurements to make, by name: log, snapshot, freshness, commits, idle, kafka, doris, flink. All by default.
    only: Vec<String>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.command {
        Command::Test { arguments } => test::run(&arguments),
        Command::Check => check::run(),
        Command::Flink(options) => flink::run_command(&options),
        Command::Setup => setup::everything().map(drop),
        #[cfg(feature = "servers")]
        Command::Demo(options) => demo::run(&options),
        #[cfg(feature = "servers")]
        Command::Bench(options) => bench::run(&options),
        #[cfg(not(feature = "servers"))]
        Command::Demo(_) | Command::Bench(_) => build::again_with_servers(),
    }
}
