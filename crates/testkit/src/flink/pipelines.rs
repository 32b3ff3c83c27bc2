//! Pipelines on a cluster: handed over and stopped by the real program, their TaskManagers killed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Cluster, Job, Options, jars};
use crate::lakeward::Lakeward;
use crate::server::PASSWORD;
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Long enough for a TaskManager that has to be replaced first.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster of two TaskManagers.
#[derive(Debug)]
pub struct Flink {
    cluster: Cluster,
    jar: PathBuf,
}

impl Flink {
    pub fn start(version: &str) -> Result<Self> {
        let options = Options::new(version, 2, 3).jar(&jars()?.native);
        Self::with(&options)
    }

    pub fn with(options: &Options) -> Result<Self> {
        Self::with_jar(options, &jars()?.job)
    }

    /// The same with a job that was built elsewhere.
    pub fn with_jar(options: &Options, jar: &Path) -> Result<Self> {
        Ok(Self { cluster: Cluster::start(options)?, jar: jar.to_owned() })
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The words behind `lakeward run pipeline.yaml`.
    pub fn words(&self) -> Vec<String> {
        let (address, jar) = (self.cluster.address(), self.jar.display().to_string());
        ["--on", "flink", "--flink.address", &address, "--flink.jar", &jar].map(String::from).into()
    }

    pub fn start_run(&self, lakeward: &mut Lakeward, more: &[&str]) -> Result<()> {
        let words = self.words();
        let words: Vec<&str> =
            words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        lakeward.start_with(&words)
    }

    /// Waits until a job of this run has completed some checkpoints.
    pub fn wait_checkpoints(&self, lakeward: &mut Lakeward, wanted: u64) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Ok(job) = self.job_of(lakeward)
                && job.completed_checkpoints().unwrap_or(0) >= wanted
            {
                return Ok(());
            }
            if !lakeward.is_running() {
                bail!("the run ended by itself: {}", lakeward.tail(8));
            }
            if Instant::now() > end {
                bail!("no checkpoint within {PATIENCE:?}: {}", self.cluster.tail());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The job that the run has started and not stopped.
    pub fn job_of(&self, lakeward: &Lakeward) -> Result<Job> {
        let text = std::fs::read(lakeward.folder().join("state/flink.json"))?;
        let job: Value = serde_json::from_slice(&text)?;
        let id = job["id"].as_str().filter(|_| job["savepoint"].is_null());
        Ok(self.cluster.job(id.context("no job of the run goes on")?))
    }

    /// `kill -9` of a TaskManager that has tasks; another one takes its place.
    pub fn kill_a_task_manager(&mut self, which: usize) -> Result<()> {
        // A small job may be on one of them alone. While it starts, on none.
        let mut numbers = self.cluster.busy_task_managers()?;
        if numbers.is_empty() {
            numbers = self.cluster.task_managers().map(|(number, _)| number).collect();
        }
        let number = numbers.get(which % numbers.len().max(1)).context("no TaskManager is left")?;
        self.cluster.kill_task_manager(*number)?;
        self.cluster.start_task_manager().map(drop)
    }

    /// `kill -9` of the JobManager; a new one takes its place, which knows of no job.
    pub fn replace_job_manager(&mut self) -> Result<()> {
        self.cluster.replace_job_manager()
    }

    /// Runs the pipeline until it has all that is in its source now.
    pub fn catch_up(&self, lakeward: &mut Lakeward) -> Result<()> {
        self.start_run(lakeward, &["--until", "caught-up"])?;
        let code = lakeward.exit_within(PATIENCE * 5).with_context(|| self.cluster.tail())?;
        if code != 0 {
            bail!("the bounded run ended with {code}: {}", lakeward.tail(8));
        }
        Ok(())
    }

    pub fn check_log(&self) -> Result<()> {
        let log = self.cluster.logs();
        if log.contains(PASSWORD) {
            bail!("the password stands in Flink's log");
        }
        match log.lines().find(|line| line.contains("panicked at")) {
            Some(line) => bail!("a panic: {line}"),
            None => Ok(()),
        }
    }
}
