//! `lakeward run`: runs a pipeline until it is told to stop.

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::MultiProgress;
use lakeward_core::{Error, Result};
use lakeward_runtime::{JobHandle, Until};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{FileArgument, load};
use crate::console::Console;
use crate::exit::Failure;
use crate::flink::{self, FlinkArguments};
use crate::http::server::Server;
use crate::job::{self, Running, TakeOver};
use lakeward_pipeline::pipeline_file::Use;
use lakeward_pipeline::registry::Connectors;

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    file: FileArgument,
    /// End by itself once all that is committed in the source at the start of the run is in the sink
    #[arg(long, value_enum)]
    until: Option<End>,
    /// Read tables anew: all, or those named (db.table, separated by commas)
    #[arg(long, value_name = "TABLES", num_args = 0..=1, default_missing_value = "*", require_equals = true, value_delimiter = ',')]
    resnapshot: Vec<String>,
    /// Where the pipeline runs: in this process, or as a job of a Flink cluster
    #[arg(long, value_enum, default_value_t = Engine::Here)]
    on: Engine,
    #[command(flatten)]
    flink: FlinkArguments,
    /// Go on from the state that a job on Flink left, in DIR or where the last job kept it
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    from_flink: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Here,
    Flink,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum End {
    CaughtUp,
}

pub async fn run(arguments: Arguments, screen: MultiProgress) -> Result<(), Failure> {
    if arguments.on == Engine::Flink {
        return on_flink(arguments).await;
    }
    let file = load(&arguments.file.file, Use::All)?;
    let mut signals = Signals::new()?;
    // A port that is taken is found out before anything else is touched.
    let server = Server::bind(&file).await.map_err(Failure::usage)?;
    let connectors = Connectors::of(&file).await.map_err(Failure::usage)?;
    let until = match arguments.until {
        Some(End::CaughtUp) => Some(Until::CaughtUp),
        None => connectors.bounded.then_some(Until::Streaming),
    };
    if until.is_some()
        && let Ok(check) = connectors.source.check().await
        && check.tables.is_empty()
        && let Some(why) = check.errors.first()
    {
        // A run without an end would wait for tables to come.
        return Err(Failure::usage(Error::config(format!("there is nothing to copy: {why}"))));
    }
    let take_over = match arguments.from_flink {
        None => TakeOver::Nothing,
        Some(folder) if folder.is_empty() => TakeOver::Flink(None),
        Some(folder) => TakeOver::Flink(Some(folder.into())),
    };
    let running = job::start(&file, connectors, arguments.resnapshot, take_over).await?;
    let server = server.serve(&file, &running)?;
    let console = Console::start(&running, screen);
    let result = until_the_end(&running, until, &mut signals).await;
    console.finish().await;
    server.finish().await;
    result
}

async fn on_flink(arguments: Arguments) -> Result<(), Failure> {
    // Secrets are looked up where the operators run.
    let file = load(&arguments.file.file, Use::Pipeline)?;
    if !arguments.resnapshot.is_empty() || arguments.from_flink.is_some() {
        return Err(Failure::usage("--resnapshot and --from-flink are for runs in this process"));
    }
    let mut signals = Signals::new()?;
    let until = arguments.until.is_some();
    let path = &arguments.file.file;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let run = flink::run(path, &file, until, &arguments.flink, async {
        // The other end is dropped only with all of this.
        let _ = stopped.await;
    });
    let twice = async {
        signals.next().await;
        let _ = stop.send(());
        signals.next().await;
    };
    tokio::select! {
        result = run => result,
        () = twice => Err(Failure::runtime(
            "left at once by a second signal; look in Flink's web UI whether the job goes on",
        )),
    }
}

async fn until_the_end(
    running: &Running,
    until: Option<Until>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let handle = &running.handle;
    tokio::select! {
        ended = end(handle, until) => Ok(ended?),
        () = signals.next() => {
            tracing::info!("stopping: one more checkpoint, then the end; another signal ends at once");
            let was_running = handle.status().state.is_running();
            tokio::select! {
                stopped = handle.stop() => match stopped {
                    // It was between two attempts: there is nothing that a checkpoint could save.
                    Err(e) if !was_running && e.kind().is_retryable() => {
                        tracing::warn!("stopped while it was not running, after the error: {e}");
                        Ok(())
                    }
                    stopped => Ok(stopped?),
                },
                () = signals.next() => {
                    handle.abort();
                    Err(Failure::runtime("ended at once by a second signal; the next start goes on from the last checkpoint"))
                }
            }
        }
    }
}

async fn end(handle: &JobHandle, until: Option<Until>) -> Result<()> {
    let Some(until) = until else { return handle.wait().await };
    handle.run_until(until).await?;
    let status = handle.status();
    let paused = status.tables.iter().filter(|(_, table)| table.paused.is_some());
    let paused: Vec<&str> = paused.map(|(name, _)| name.as_str()).collect();
    match paused.is_empty() {
        true => Ok(()),
        false => Err(Error::data_invalid(
            "all other tables are up to date, but some are paused; read them anew with --resnapshot=…",
        )
        .with("tables", paused.join(", "))),
    }
}

/// One wish to stop may arrive several times: a shell, `timeout` and a container's init send a signal to a process and to
/// its group.
const ONE_WISH: Duration = Duration::from_secs(1);

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    last: Option<Instant>,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let watch = |kind| {
            signal(kind).map_err(|e| Failure::runtime(format!("signals cannot be received: {e}")))
        };
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: watch(terminate)?, interrupt: watch(interrupt)?, last: None })
    }

    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if self.last.replace(Instant::now()).is_none_or(|last| last.elapsed() > ONE_WISH) {
                return;
            }
        }
    }
}
