//! Stays with a job: tells its states, stops it with a savepoint.

use std::time::{Duration, Instant};

use lakeward_core::Result;
use lakeward_pipeline::pipeline_file::PipelineFile;
use serde_json::Value;

use super::FlinkArguments;
use super::last_job::LastJob;
use super::rest::{Rest, text};
use crate::exit::Failure;

const PAUSE: Duration = Duration::from_millis(500);
/// How long a job that is between two attempts is asked for a savepoint.
const STOP_PATIENCE: Duration = Duration::from_secs(120);
/// Questions in a row that may fail before the job is left alone: a JobManager may be restarted.
const FAILURES_MAX: u32 = 240;

pub async fn follow(
    rest: &Rest,
    job: &mut LastJob,
    file: &PipelineFile,
    arguments: &FlinkArguments,
    is_fresh: bool,
    stop: impl Future<Output = ()>,
) -> std::result::Result<(), Failure> {
    let mut stop = std::pin::pin!(stop);
    let mut seen = Seen { asks_for_first: is_fresh, ..Seen::default() };
    let mut failures = 0;
    loop {
        match rest.job(&job.id).await {
            Ok(answer) => {
                failures = 0;
                match seen.tell(rest, job, &answer).await.as_str() {
                    "FINISHED" => return Ok(()),
                    "FAILED" => {
                        let cause = rest.cause(&job.id).await;
                        return Err(Failure::runtime(
                            cause.unwrap_or_else(|| "the job failed".to_string()),
                        ));
                    }
                    "CANCELED" => return Err(Failure::runtime("the job was cancelled on Flink")),
                    "RUNNING" if arguments.detached && seen.is_underway() => return Ok(()),
                    _ => {}
                }
            }
            Err(e) if failures < FAILURES_MAX => {
                if failures == 0 {
                    tracing::warn!("{e}");
                }
                failures += 1;
            }
            Err(e) => return Err(e.into()),
        }
        tokio::select! {
            biased;
            () = &mut stop => return stop_with_savepoint(rest, job, file, arguments).await,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// What has been told already.
#[derive(Default)]
struct Seen {
    state: String,
    checkpoint: u64,
    restarts: u64,
    /// A fresh pipeline reads nothing before its first checkpoint.
    asks_for_first: bool,
}

impl Seen {
    fn is_underway(&self) -> bool {
        !self.asks_for_first
    }

    async fn tell(&mut self, rest: &Rest, job: &LastJob, answer: &Value) -> String {
        let state = text(answer, "state");
        if state != self.state {
            tracing::info!("job {} is {state}", job.id);
            self.state.clone_from(&state);
        }
        if state != "RUNNING" && state != "RESTARTING" {
            return state;
        }
        let running = answer["vertices"]
            .as_array()
            .is_some_and(|all| all.iter().all(|vertex| vertex["status"] == "RUNNING"));
        if self.asks_for_first && running {
            self.asks_for_first = false;
            if let Err(e) = rest.trigger_checkpoint(&job.id).await {
                tracing::debug!("the first rows wait for the next checkpoint: {e}");
            }
        }
        if let Ok(checkpoints) = rest.checkpoints(&job.id).await {
            let counts = &checkpoints["counts"];
            let restarts = counts["restored"].as_u64().unwrap_or(0);
            if restarts > self.restarts && self.restarts > 0 {
                let cause = rest.cause(&job.id).await.unwrap_or_default();
                tracing::warn!("the job was restarted: {cause}");
            }
            self.restarts = self.restarts.max(restarts);
            let newest = &checkpoints["latest"]["completed"];
            let id = newest["id"].as_u64().unwrap_or(0);
            if id > self.checkpoint {
                self.checkpoint = id;
                tracing::debug!(
                    "checkpoint {id} is complete ({} bytes, {} ms)",
                    newest["state_size"],
                    newest["end_to_end_duration"]
                );
            }
        }
        state
    }
}

async fn stop_with_savepoint(
    rest: &Rest,
    job: &mut LastJob,
    file: &PipelineFile,
    arguments: &FlinkArguments,
) -> std::result::Result<(), Failure> {
    tracing::info!("stopping job {} with a savepoint", job.id);
    let started = Instant::now();
    loop {
        match savepoint(rest, &job.id, arguments).await {
            Ok(path) => {
                tracing::info!("stopped; the next start goes on from {path}");
                job.savepoint = Some(path);
                return Ok(job.write(file)?);
            }
            // Between two attempts there is nothing that a savepoint could be taken of.
            Err(e) if started.elapsed() < STOP_PATIENCE && rest.is_running(&job.id).await => {
                tracing::warn!("the savepoint did not come about, trying again: {e}");
                tokio::time::sleep(PAUSE).await;
            }
            Err(e) => return Err(e.into()),
        }
    }
}

async fn savepoint(rest: &Rest, job: &str, arguments: &FlinkArguments) -> Result<String> {
    let request = rest.stop(job, arguments.savepoint_dir.as_deref()).await?;
    loop {
        if let Some(path) = rest.savepoint(job, &request).await? {
            return Ok(path);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
