//! What runs on a cluster: jars are started as jobs, watched, stopped and asked, through the REST interface.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::rest::Rest;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
const STARTING: &[&str] = &["CREATED", "SCHEDULED", "INITIALIZING", "DEPLOYING"];

/// How to start a job.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub arguments: Vec<String>,
    /// A savepoint or a retained checkpoint to begin from.
    pub restore: Option<String>,
    pub allow_non_restored_state: bool,
}

impl Run {
    pub fn new(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
        Self { arguments, ..Self::default() }
    }

    pub fn restore(mut self, path: &str) -> Self {
        self.restore = Some(path.to_owned());
        self
    }
}

/// One stage of a job, as Flink's web interface shows it.
#[derive(Debug, Clone)]
pub struct Vertex {
    pub id: String,
    pub name: String,
    pub parallelism: u64,
    pub status: String,
}

/// A job on a cluster, by its id.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: String,
    rest: Rest,
}

impl Cluster {
    /// Uploads a jar; the id is for [`Cluster::run`].
    pub fn upload(&self, jar: &Path) -> Result<String> {
        self.rest.upload(jar)
    }

    /// Starts the main class of an uploaded jar. The error has what it threw.
    pub fn run(&self, jar: &str, run: &Run) -> Result<Job> {
        let mut body = json!({
            "programArgsList": run.arguments,
            "allowNonRestoredState": run.allow_non_restored_state,
        });
        if let Some(path) = &run.restore {
            body["savepointPath"] = json!(path);
        }
        let answer = self.rest.post(&format!("/jars/{jar}/run"), &body)?;
        let id = answer["jobid"].as_str().context("the job has no id")?.to_owned();
        Ok(Job { id, rest: self.rest })
    }
}

impl Cluster {
    /// A job that someone else has started.
    pub fn job(&self, id: &str) -> Job {
        Job { id: id.to_owned(), rest: self.rest }
    }
}

impl Job {
    fn ask(&self, below: &str) -> Result<Value> {
        self.rest.get(&format!("/jobs/{}{below}", self.id))
    }

    /// `RUNNING`, `RESTARTING`, `FINISHED`, `FAILED`, `CANCELED` and so on.
    pub fn status(&self) -> Result<String> {
        Ok(self.ask("")?["state"].as_str().unwrap_or_default().to_owned())
    }

    pub fn vertices(&self) -> Result<Vec<Vertex>> {
        let job = self.ask("")?;
        let text = |vertex: &Value, key: &str| vertex[key].as_str().unwrap_or_default().to_owned();
        Ok(job["vertices"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|vertex| Vertex {
                id: text(vertex, "id"),
                name: text(vertex, "name"),
                parallelism: vertex["parallelism"].as_u64().unwrap_or_default(),
                status: text(vertex, "status"),
            })
            .collect())
    }

    /// What has made the job fail or restart, the latest first, each with its stack.
    pub fn exceptions(&self) -> Result<Vec<String>> {
        let answer = self.ask("/exceptions")?;
        let entries = answer["exceptionHistory"]["entries"].as_array();
        Ok(entries
            .into_iter()
            .flatten()
            .map(|entry| entry["stacktrace"].as_str().unwrap_or_default().to_owned())
            .collect())
    }

    /// Waits until all tasks run, and fails when the job ends instead.
    pub fn wait_running(&self, patience: Duration) -> Result<()> {
        self.wait(patience, "all tasks run", |job| {
            let status = job.status()?;
            let vertices = job.vertices()?;
            let runs = |vertex: &Vertex| vertex.status == "RUNNING" || vertex.status == "FINISHED";
            Ok(status == "FINISHED" || status == "RUNNING" && vertices.iter().all(runs))
        })
    }

    /// Waits for a status; another one that is final is an error.
    pub fn wait_status(&self, wanted: &str, patience: Duration) -> Result<()> {
        self.wait(patience, wanted, |job| Ok(job.status()? == wanted))
    }

    /// Waits until something is true, and fails when the job ends before.
    pub fn wait(
        &self,
        patience: Duration,
        what: &str,
        mut is_so: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let end = Instant::now() + patience;
        loop {
            let status = self.status()?;
            if is_so(self)? {
                return Ok(());
            }
            let is_over = ["FINISHED", "FAILED", "CANCELED"].contains(&status.as_str());
            if is_over || Instant::now() > end {
                let why = self.exceptions().unwrap_or_default();
                let vertices = self.vertices().unwrap_or_default();
                let waiting = vertices.iter().filter(|v| STARTING.contains(&v.status.as_str()));
                let waiting: Vec<_> = waiting.map(|v| v.name.as_str()).collect();
                bail!(
                    "the job is {status}, not yet: {what} (starting: {waiting:?}): {}",
                    why.first().map_or("", String::as_str)
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// How many checkpoints have completed since the job was started.
    pub fn completed_checkpoints(&self) -> Result<u64> {
        Ok(self.ask("/checkpoints")?["counts"]["completed"].as_u64().unwrap_or_default())
    }

    /// How long the newest completed checkpoint took.
    pub fn last_checkpoint_ms(&self) -> Result<u64> {
        let answer = self.ask("/checkpoints")?;
        let took = answer["latest"]["completed"]["end_to_end_duration"].as_u64();
        took.context("no checkpoint has completed yet")
    }

    /// How often the job was restored.
    pub fn restored_checkpoints(&self) -> Result<u64> {
        Ok(self.ask("/checkpoints")?["counts"]["restored"].as_u64().unwrap_or_default())
    }

    /// How many checkpoints have failed.
    pub fn failed_checkpoints(&self) -> Result<u64> {
        Ok(self.ask("/checkpoints")?["counts"]["failed"].as_u64().unwrap_or_default())
    }

    /// Waits for some more checkpoints.
    pub fn wait_checkpoints(&self, more: u64, patience: Duration) -> Result<()> {
        let wanted = self.completed_checkpoints()? + more;
        self.wait(patience, "checkpoints", |job| Ok(job.completed_checkpoints()? >= wanted))
    }

    /// Where the latest completed checkpoint is: a path for [`Run::restore`].
    pub fn latest_checkpoint(&self) -> Result<String> {
        let answer = self.ask("/checkpoints")?;
        let path = answer["latest"]["completed"]["external_path"].as_str();
        Ok(path.context("no checkpoint has completed yet")?.to_owned())
    }

    /// Makes a savepoint and returns its path; the job goes on.
    pub fn savepoint(&self, patience: Duration) -> Result<String> {
        let answer = self.rest.post(&format!("/jobs/{}/savepoints", self.id), &json!({}))?;
        self.savepoint_made(&answer, patience)
    }

    /// Makes a savepoint, ends the job, and returns the savepoint's path.
    pub fn stop(&self, patience: Duration) -> Result<String> {
        let body = json!({ "drain": false });
        let answer = self.rest.post(&format!("/jobs/{}/stop", self.id), &body)?;
        let path = self.savepoint_made(&answer, patience)?;
        self.wait_status("FINISHED", patience)?;
        Ok(path)
    }

    fn savepoint_made(&self, triggered: &Value, patience: Duration) -> Result<String> {
        let request = triggered["request-id"].as_str().context("no id of the savepoint")?;
        let end = Instant::now() + patience;
        loop {
            let answer = self.ask(&format!("/savepoints/{request}"))?;
            if answer["status"]["id"] == "COMPLETED" {
                let made = answer["operation"]["location"].as_str().map(str::to_owned);
                return made.with_context(|| {
                    format!("the savepoint failed: {}", answer["operation"]["failure-cause"])
                });
            }
            if Instant::now() > end {
                bail!("no savepoint within {patience:?}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Cancels the job and waits until it is gone.
    pub fn cancel(&self, patience: Duration) -> Result<()> {
        self.rest.patch(&format!("/jobs/{}?mode=cancel", self.id))?;
        self.wait_status("CANCELED", patience)
    }

    /// The values of a stage's metrics whose names end so: one of each instance that has it.
    pub fn metrics(&self, vertex: &str, ending: &str) -> Result<Vec<f64>> {
        let vertices = self.vertices()?;
        let vertex = vertices
            .iter()
            .find(|v| v.name.trim_start_matches("Source: ").starts_with(vertex))
            .with_context(|| format!("no stage {vertex}"))?;
        let metrics = format!("/vertices/{}/metrics", vertex.id);
        let mut values = Vec::new();
        for metric in self.ask(&metrics)?.as_array().into_iter().flatten() {
            let name = metric["id"].as_str().unwrap_or_default();
            if name.ends_with(ending) {
                let found = self.ask(&format!("{metrics}?get={}", name.replace(' ', "%20")))?;
                let value = found[0]["value"].as_str().unwrap_or_default();
                values.push(value.parse().with_context(|| format!("{name} is {value}"))?);
            }
        }
        Ok(values)
    }
}
