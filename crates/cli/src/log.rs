//! Log lines on standard error, out of the way of what else is drawn there.

use std::io::{self, Write};

use indicatif::MultiProgress;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::exit::Failure;

const DEFAULT_FILTER: &str = "warn,lakeward=info";

/// `filter` is the command line's, which goes before `RUST_LOG`.
pub fn start(filter: Option<&str>, screen: &MultiProgress) -> Result<(), Failure> {
    let from_env = std::env::var("RUST_LOG").ok().filter(|f| !f.trim().is_empty());
    let filter = filter.or(from_env.as_deref()).unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::try_new(filter)
        .map_err(|e| Failure::usage(format!("the log filter is not valid: {e}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .with_target(false)
        .with_writer(Lines { screen: screen.clone() })
        .try_init()
        .map_err(|e| Failure::runtime(format!("the log cannot be started: {e}")))
}

/// Writes each line above the progress bars.
struct Lines {
    screen: MultiProgress,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { screen: self.screen.clone() }
    }
}

struct Line {
    screen: MultiProgress,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.screen.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
