//! A running pipeline: attempts one after the other, and the handle that others hold.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use lakeward_core::{CheckpointRequester, Error, ErrorKind, Offsets, Plan, Result, Source};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::attempt;
use crate::checkpoint::{Requests, suspended};
use crate::restart::Restarts;
use crate::signal::Signal;
use crate::status::{JobState, JobStatus, StatusCell};
use crate::time::timeout;
use crate::{Hooks, JobOptions};

/// How a job is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    No,
    /// Between two transactions, to go on from there another time.
    Suspend,
    /// The same, but the operators are told that their input has ended, and a failure is followed by another attempt.
    Finish,
}

/// Where a bounded run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// All that was committed in the source when the run was told so is in the sink.
    CaughtUp,
    /// Every snapshot is in the sink.
    Streaming,
}

/// What the supervisor, the attempts and the handles share.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) options: JobOptions,
    pub(crate) hooks: Hooks,
    pub(crate) status: Arc<StatusCell>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) stop: Signal<Stop>,
    abort: CancellationToken,
}

impl Shared {
    /// The user's wish, until a checkpoint holds that it was fulfilled or begun.
    pub(crate) fn resnapshot(&self) -> Vec<String> {
        match self.status.get().checkpoint {
            Some(_) => Vec::new(),
            None => self.options.resnapshot.clone(),
        }
    }
}

pub struct Job;

impl Job {
    /// Starts the pipeline in the background. The handle tells how it goes; the job goes on when handles are dropped.
    ///
    /// # Errors
    /// `Bug` when the plan has no stage.
    pub fn start(plan: Plan, options: JobOptions, hooks: Hooks) -> Result<JobHandle> {
        if plan.stages.is_empty() {
            return Err(Error::bug("the plan has no stage"));
        }
        let status = StatusCell::new(plan.pipeline.clone(), options.clock.now_ms());
        let shared = Arc::new(Shared {
            plan,
            options,
            hooks,
            status: Arc::new(status),
            requests: Arc::default(),
            stop: Signal::new(Stop::No),
            abort: CancellationToken::new(),
        });
        tokio::spawn(supervise(shared.clone()));
        Ok(JobHandle { shared })
    }
}

async fn supervise(shared: Arc<Shared>) {
    let abort = shared.abort.clone();
    let attempts = AssertUnwindSafe(attempts(&shared)).catch_unwind();
    let result = tokio::select! {
        biased;
        () = abort.cancelled() => Err(Error::transient("the job was aborted")),
        result = attempts => result.unwrap_or_else(|panic| Err(attempt::panicked(&*panic))),
    };
    let (status, clock) = (shared.status.clone(), shared.options.clock.clone());
    // Whoever learns of the end finds the state directory unlocked, once the handles are gone too.
    drop(shared);
    match result {
        Ok(()) => status.update(|status| status.state = JobState::Finished),
        Err(e) => {
            tracing::error!("pipeline stops: {e}");
            status.failed(&e, clock.now_ms());
            status.update(|status| status.state = JobState::Failed);
        }
    }
}

async fn attempts(shared: &Shared) -> Result<()> {
    let options = &shared.options;
    let mut restarts = Restarts::new(options.restart.clone(), options.seed);
    let mut stop = shared.stop.watch();
    loop {
        let started = options.timer.now();
        let attempt = AssertUnwindSafe(one_attempt(shared)).catch_unwind().await;
        let error = match attempt.unwrap_or_else(|panic| Err(attempt::panicked(&*panic))) {
            Ok(()) => return Ok(()),
            Err(e) => e,
        };
        let now_ms = options.clock.now_ms();
        shared.status.failed(&error, now_ms);
        if !error.kind().is_retryable() || stop.get() == Stop::Suspend {
            return Err(error);
        }
        go_back(shared, &error).await?;
        let Some(delay) = restarts.after_failure(options.timer.now() - started) else {
            return Err(error);
        };
        tracing::warn!(
            delay_ms = delay.as_millis() as u64,
            "attempt failed, another follows: {error}"
        );
        shared.status.update(|status| {
            status.state = JobState::Restarting;
            status.restarts += 1;
            status.next_attempt_ms = Some(now_ms + delay.as_millis() as i64);
        });
        tokio::select! {
            biased;
            () = suspended(&mut stop) => return Err(error),
            () = options.timer.sleep(delay) => {}
        }
    }
}

/// What the sink has lost is read again from the checkpoint before.
async fn go_back(shared: &Shared, error: &Error) -> Result<()> {
    if error.kind() != ErrorKind::EpochLost {
        return Ok(());
    }
    let why = "the sink lost what it had handed over";
    match shared.options.store.set_newest_aside(why).await? {
        true => Ok(()),
        false => Err(Error::config(format!(
            "{}; there is no checkpoint before it, so read the tables anew with --resnapshot",
            error.message()
        ))),
    }
}

async fn one_attempt(shared: &Shared) -> Result<()> {
    let attempt = shared.options.store.begin_attempt().await?;
    let now_ms = shared.options.clock.now_ms();
    shared.status.update(|status| attempt::starting(status, attempt, now_ms));
    attempt::run(shared, attempt).await
}

/// Tells of a job and steers it. Clones are of the same job.
#[derive(Clone)]
pub struct JobHandle {
    shared: Arc<Shared>,
}

impl JobHandle {
    pub fn status(&self) -> JobStatus {
        self.shared.status.get()
    }

    /// Changes with the job's state, checkpoints, commits and progress; row counts alone do not wake.
    pub fn watch(&self) -> watch::Receiver<JobStatus> {
        self.shared.status.subscribe()
    }

    /// Soon, once for all requests until then.
    pub fn request_checkpoint(&self) {
        self.shared.requests.request();
    }

    /// Ends between two source transactions with a last checkpoint, and returns when its epoch is committed. A later start
    /// goes on from there. A job that fails meanwhile is not restarted; nothing is lost then.
    pub async fn stop(&self) -> Result<()> {
        self.end(Stop::Suspend).await
    }

    /// Ends at once, as a crash would.
    pub fn abort(&self) {
        self.shared.abort.cancel();
    }

    /// Waits for the job's end, and gives back what it failed with.
    pub async fn wait(&self) -> Result<()> {
        let ended = self.until_status(|status| Ok(status.state.has_ended())).await?;
        match (ended.state, ended.last_error) {
            (JobState::Finished, _) | (_, None) => Ok(()),
            (_, Some(e)) => Err(Error::new(e.kind, e.message)),
        }
    }

    /// Waits until every snapshot has been read.
    ///
    /// # Errors
    /// What the job failed with before that; so for all waits.
    pub async fn wait_streaming(&self) -> Result<()> {
        self.reaches(|status| Ok(status.state == JobState::Streaming)).await.map(drop)
    }

    /// Waits until the sink has all that `covers` asks for, taking checkpoints as needed.
    pub async fn wait_committed(
        &self,
        covers: impl Fn(&Offsets) -> Result<bool> + Send + Sync,
    ) -> Result<()> {
        let mut asked = None;
        self.reaches(|status| {
            if covers(&status.complete)? {
                return Ok(true);
            }
            // A checkpoint is worth its files once there is something new in it: when all that is waited for has been
            // read, and again when it then turned out that an operator held some of it.
            let now = status.committed.as_ref().map(|c| c.checkpoint);
            let streaming = status.state == JobState::Streaming;
            if streaming && asked != Some((status.attempt, now)) && covers(&status.read)? {
                asked = Some((status.attempt, now));
                self.request_checkpoint();
            }
            Ok(false)
        })
        .await
        .map(drop)
    }

    /// Goes on until then, and stops.
    pub async fn run_until(&self, until: Until) -> Result<()> {
        if until == Until::Streaming {
            self.wait_streaming().await?;
        }
        let end = self.current_offsets().await?;
        let source = self.shared.plan.source.clone();
        self.wait_committed(|reached| covers_all(&*source, reached, &end)).await?;
        self.end(Stop::Finish).await
    }

    /// Asks the source, as often as the job itself would.
    async fn current_offsets(&self) -> Result<Offsets> {
        const PAUSE: Duration = Duration::from_secs(1);
        loop {
            let error = match self.shared.plan.source.current_offsets().await {
                Ok(offsets) => return Ok(offsets),
                Err(e) if e.kind().is_retryable() => e,
                Err(e) => return Err(e),
            };
            let status = self.status();
            if status.state.has_ended() {
                return Err(early_end(status));
            }
            tracing::warn!("could not ask the source where it ends, will ask again: {error}");
            self.shared.options.timer.sleep(PAUSE).await;
        }
    }

    async fn end(&self, how: Stop) -> Result<()> {
        self.shared.stop.set(how);
        self.shared.status.update(|status| {
            if !status.state.has_ended() {
                status.state = JobState::Stopping;
            }
        });
        let options = &self.shared.options;
        match timeout(&*options.timer, options.stop_timeout, self.wait()).await {
            Some(result) => result,
            None => {
                self.abort();
                Err(Error::transient(
                    "the last checkpoint did not complete in time; the next start goes on from the one before",
                )
                .with("seconds", options.stop_timeout.as_secs()))
            }
        }
    }

    /// Waits for a condition that only a job that runs can fulfil.
    async fn reaches(
        &self,
        mut condition: impl FnMut(&JobStatus) -> Result<bool> + Send,
    ) -> Result<JobStatus> {
        let mut reached = false;
        let status = self
            .until_status(|status| {
                reached = condition(status)?;
                Ok(reached || status.state.has_ended())
            })
            .await?;
        if reached { Ok(status) } else { Err(early_end(status)) }
    }

    async fn until_status(
        &self,
        mut condition: impl FnMut(&JobStatus) -> Result<bool> + Send,
    ) -> Result<JobStatus> {
        let mut watch = self.watch();
        loop {
            {
                let status = watch.borrow_and_update();
                if condition(&status)? {
                    return Ok(status.clone());
                }
            }
            if watch.changed().await.is_err() {
                return Err(Error::bug("the job has vanished"));
            }
        }
    }
}

fn early_end(status: JobStatus) -> Error {
    match status.last_error {
        Some(e) if status.state == JobState::Failed => Error::new(e.kind, e.message),
        _ => Error::transient("the job was stopped before that"),
    }
}

fn covers_all(source: &dyn Source, reached: &Offsets, end: &Offsets) -> Result<bool> {
    for (split, offset) in end {
        match reached.get(split) {
            Some(reached) if source.covers(reached, offset)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
