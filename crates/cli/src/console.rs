//! Shows how a run goes: bars and a live line on a terminal, a log line per change of state elsewhere.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lakeward_core::Clock;
use lakeward_runtime::{JobState, SystemClock};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::http::status::{SourceValues, commit_stalled_ms, state_word, status_of};
use crate::job::Running;

const DRAW: Duration = Duration::from_millis(250);
/// From one line about a stalled commit to the next.
const STALL_LINES_MS: i64 = 15_000;
/// Bars that are shown at once.
const BARS_MAX: usize = 12;

pub struct Console {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Console {
    pub fn start(running: &Running, screen: MultiProgress) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(follow(running.clone(), screen, stopped));
        Self { stop, task }
    }

    pub async fn finish(self) {
        let _ = self.stop.send(());
        if let Err(e) = self.task.await {
            tracing::debug!("the progress display has ended: {e}");
        }
    }
}

async fn follow(running: Running, screen: MultiProgress, mut stopped: oneshot::Receiver<()>) {
    let mut display = std::io::stderr().is_terminal().then(|| Display::new(screen));
    let mut lines = Lines { state: None, stalled_ms: 0 };
    let mut watch = running.handle.watch();
    let mut timer = tokio::time::interval(DRAW);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut job_lives = true;
    loop {
        lines.print(&running);
        if let Some(display) = &mut display {
            display.draw(&running);
        }
        tokio::select! {
            _ = &mut stopped => break,
            _ = timer.tick() => {}
            changed = watch.changed(), if job_lives => job_lives = changed.is_ok(),
        }
    }
    lines.print(&running);
    if let Some(display) = display {
        display.clear();
    }
}

/// What is said in the log.
struct Lines {
    state: Option<JobState>,
    stalled_ms: i64,
}

impl Lines {
    fn print(&mut self, running: &Running) {
        let job = running.handle.status();
        if self.state != Some(job.state) {
            self.state = Some(job.state);
            let (attempt, rows) = (job.attempt, job.rows_committed);
            tracing::info!(attempt, rows_committed = rows, "pipeline is {}", state_word(job.state));
        }
        let now_ms = SystemClock.now_ms();
        match commit_stalled_ms(&job, running.checkpoint_interval_ms, now_ms) {
            None => self.stalled_ms = 0,
            Some(ms) if ms - self.stalled_ms >= STALL_LINES_MS => {
                self.stalled_ms = ms;
                let checkpoint = job.checkpoint.as_ref().map_or(0, |c| c.id);
                let seconds = ms / 1000;
                tracing::warn!(
                    checkpoint,
                    seconds,
                    "a commit is stalled: reading goes on until memory is full"
                );
            }
            Some(_) => {}
        }
    }
}

/// What is drawn on a terminal.
struct Display {
    screen: MultiProgress,
    bars: HashMap<String, ProgressBar>,
    line: ProgressBar,
    rows: u64,
    at_ms: i64,
    rows_per_s: f64,
}

impl Display {
    fn new(screen: MultiProgress) -> Self {
        let line = screen.add(ProgressBar::new_spinner());
        let style = ProgressStyle::with_template("{spinner} {msg}");
        line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { screen, bars: HashMap::new(), line, rows: 0, at_ms: 0, rows_per_s: 0.0 }
    }

    fn draw(&mut self, running: &Running) {
        let status = status_of(running);
        self.measure(status.rows_read, status.now_ms);
        for (table, done, total) in SourceValues::read(&running.metrics).snapshots() {
            if done < total {
                if let Some(bar) = self.bar(table) {
                    bar.set_length(total);
                    bar.set_position(done);
                }
            } else if let Some(bar) = self.bars.remove(table) {
                bar.finish_and_clear();
            }
        }
        let lag = status.lag_ms.map_or("?".to_string(), |ms| format!("{:.1} s", ms as f64 / 1e3));
        let commit = match &status.committed {
            Some(c) => format!("{:.0} s ago", (status.now_ms - c.at_ms).max(0) as f64 / 1e3),
            None => "none yet".to_string(),
        };
        self.line.set_message(format!(
            "{} · {:.0} rows/s · {} rows committed · {lag} behind · last commit {commit}",
            status.state, self.rows_per_s, status.rows_committed
        ));
        self.line.tick();
    }

    /// Rows per second, smoothed over about two seconds.
    fn measure(&mut self, rows: u64, now_ms: i64) {
        let passed_ms = now_ms - self.at_ms;
        if self.at_ms > 0 && passed_ms > 0 {
            let rate = rows.saturating_sub(self.rows) as f64 * 1000.0 / passed_ms as f64;
            let weight = (passed_ms as f64 / 2000.0).min(1.0);
            self.rows_per_s += (rate - self.rows_per_s) * weight;
        }
        (self.rows, self.at_ms) = (rows, now_ms);
    }

    fn bar(&mut self, table: &str) -> Option<&ProgressBar> {
        if !self.bars.contains_key(table) {
            if self.bars.len() >= BARS_MAX {
                return None;
            }
            let bar = self.screen.insert_before(&self.line, ProgressBar::new(0));
            let template =
                "{prefix:30!} {bar:30} {human_pos}/{human_len} rows  {per_sec}  {eta} left";
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(table.to_string());
            self.bars.insert(table.to_string(), bar);
        }
        self.bars.get(table)
    }

    fn clear(self) {
        for bar in self.bars.values() {
            bar.finish_and_clear();
        }
        self.line.finish_and_clear();
    }
}
