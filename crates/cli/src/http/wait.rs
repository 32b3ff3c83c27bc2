//! `GET /api/v1/wait`: answers once a point is reached, or with the reason why it is not.

use std::time::Duration;

use lakeward_core::{Offsets, Result, Source};
use lakeward_runtime::{JobState, JobStatus};
use tokio::sync::watch;

use super::shape::Point;
use super::status::{SOURCE_CONNECTED, SourceValues, state_word};
use crate::job::Running;

/// Why a point was not reached.
pub enum NotReached {
    /// The time was up.
    TimedOut(String),
    /// The job has ended, or will not come there.
    Ended(String),
}

pub async fn wait(running: &Running, point: Point, timeout: Duration) -> Result<(), NotReached> {
    let (told, target) = watch::channel(None);
    let reach = async {
        match point {
            Point::Streaming => running.handle.wait_streaming().await,
            Point::CaughtUp => caught_up(running, &told).await,
        }
    };
    match tokio::time::timeout(timeout, reach).await {
        Ok(Ok(())) => match (point, paused(&running.handle.status())) {
            (Point::CaughtUp, Some(why)) => Err(NotReached::Ended(why)),
            _ => Ok(()),
        },
        Ok(Err(e)) => {
            let status = running.handle.status();
            let what = match status.state {
                JobState::Failed => "the pipeline has failed",
                _ => "it cannot be reached",
            };
            Err(NotReached::Ended(format!("{what}: {e}")))
        }
        Err(_) => {
            let mut far = how_far(&running.handle.status(), target.borrow().as_ref());
            if SourceValues::read(&running.metrics).get(SOURCE_CONNECTED) == Some(0) {
                far.push_str("; the source cannot be reached");
            }
            let seconds = timeout.as_secs_f64();
            Err(NotReached::TimedOut(format!("not reached within {seconds:.1} s: {far}")))
        }
    }
}

/// Tables that are left out never catch up.
fn paused(status: &JobStatus) -> Option<String> {
    let paused = status.tables.iter().filter(|(_, table)| table.paused.is_some());
    let names: Vec<&str> = paused.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!("all other tables have caught up, but these are paused: {}", names.join(", "))
    })
}

async fn caught_up(running: &Running, told: &watch::Sender<Option<Offsets>>) -> Result<()> {
    let end = end_of_source(running).await?;
    told.send_replace(Some(end.clone()));
    let source = running.source.clone();
    running.handle.wait_committed(|reached| covers_all(&*source, reached, &end)).await
}

/// Asked for now, so that what was committed in the source before the request is waited for.
async fn end_of_source(running: &Running) -> Result<Offsets> {
    const PAUSE: Duration = Duration::from_millis(500);
    loop {
        match running.source.current_offsets().await {
            Ok(offsets) => return Ok(offsets),
            // The job tries to get the source back as well, and knows when to give up.
            Err(e) if e.kind().is_retryable() && !running.handle.status().state.has_ended() => {
                tracing::debug!("the source cannot be asked where it ends: {e}");
                tokio::time::sleep(PAUSE).await;
            }
            Err(e) => {
                let ended = running.handle.status().state.has_ended();
                return if ended { running.handle.wait().await.and(Err(e)) } else { Err(e) };
            }
        }
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

fn how_far(status: &JobStatus, target: Option<&Offsets>) -> String {
    let mut far = format!("the pipeline is {}", state_word(status.state));
    if let Some(error) = status.last_error.as_ref().filter(|_| !status.state.is_running()) {
        far.push_str(&format!(" after the error: {}", error.message));
    }
    if let Some(waiting) = status.checkpoint_in_flight.as_ref().map(|c| &c.waiting_for)
        && !waiting.is_empty()
    {
        far.push_str(&format!("; a checkpoint waits for {}", waiting.join(", ")));
    }
    if let Some(target) = target {
        far.push_str(&format!(
            "; the sink has {}, the source was at {}",
            text(&status.complete),
            text(target)
        ));
    }
    far
}

fn text(offsets: &Offsets) -> String {
    if offsets.is_empty() {
        return "nothing".to_string();
    }
    let texts: Vec<&str> = offsets.values().map(|offset| &*offset.0).collect();
    texts.join(", ")
}
