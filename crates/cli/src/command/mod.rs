//! The commands, one module each.

mod check;
mod init;
mod query;
pub mod reference;
mod run;
mod status;
mod wait;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use indicatif::MultiProgress;

use crate::exit::Failure;
use crate::log;
use lakeward_pipeline::pipeline_file::{PipelineFile, Use};

/// Whole databases, live in the lake.
#[derive(Debug, Parser)]
#[command(name = "lakeward", version, max_term_width = 100)]
pub struct Cli {
    /// Which log lines are shown, as in RUST_LOG: `debug`, `warn,lakeward_mysql=debug`
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look at a pipeline's file, source and sink without changing anything
    Check(check::Arguments),
    /// Run a pipeline
    Run(run::Arguments),
    /// Wait until a running pipeline has come to a point
    Wait(wait::Arguments),
    /// Show what a running pipeline is doing
    Status(status::Arguments),
    /// Ask the lake in SQL
    Query(query::Arguments),
    /// Print a pipeline file to begin with
    Init(init::Arguments),
    /// Print the reference of all options as Markdown
    #[command(hide = true)]
    Reference,
}

pub async fn run(cli: Cli) -> Result<(), Failure> {
    let screen = MultiProgress::new();
    log::start(cli.log.as_deref(), &screen)?;
    match cli.command {
        Command::Check(arguments) => check::run(arguments).await,
        Command::Run(arguments) => run::run(arguments, screen).await,
        Command::Wait(arguments) => wait::run(arguments).await,
        Command::Status(arguments) => status::run(arguments).await,
        Command::Query(arguments) => query::run(arguments).await,
        Command::Init(arguments) => init::run(arguments),
        Command::Reference => print(&reference::markdown()),
    }
}

/// The file that a command is about. What is wrong with it is wrong usage.
fn load(path: &Path, used: Use) -> Result<PipelineFile, Failure> {
    PipelineFile::load(path, used).map_err(Failure::usage)
}

/// The argument that all commands on a pipeline have.
#[derive(Debug, clap::Args)]
struct FileArgument {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Writes to standard output; a reader that has gone away is no error.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format!("the output cannot be written: {e}")))
        }
        _ => Ok(()),
    }
}
