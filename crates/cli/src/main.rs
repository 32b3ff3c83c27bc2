//! The `lakeward` program: reads a pipeline file and runs it, answers questions about a run, queries the lake.

mod command;
mod console;
mod exit;
mod flink;
mod http;
mod job;
mod log;

use std::process::ExitCode;

use clap::Parser;

use command::Cli;
use exit::Failure;

/// jemalloc returns pages that were freed to the system from a thread of its own, also while the process is idle; with
/// glibc's allocator a pipeline stays at the size of its snapshot for the rest of its life.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Few arenas, since each keeps free pages of its own, and freed pages go back within a second.
#[allow(unsafe_code, reason = "jemalloc reads its settings from a symbol of this name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 71] =
    b"background_thread:true,narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0\0\0";

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn start(cli: Cli) -> Result<(), Failure> {
    // Two providers are in the tree; without a choice the first TLS connection would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(4))
        .enable_all()
        .build()
        .map_err(|e| Failure::runtime(format!("the program's threads cannot be started: {e}")))?;
    let result = runtime.block_on(command::run(cli));
    // Threads that are stuck in a blocking call must not keep the process from ending.
    runtime.shutdown_background();
    result
}
