//! Cuts work off at chosen steps: errors, panics, slowness, and the death of the whole process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use lakeward_core::{Error, ErrorKind, Result};

use crate::Random;

/// How to wait: given by whoever owns the time.
pub type Pause = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// For tests without time: every wait is over at once.
pub fn no_pause() -> Pause {
    Arc::new(|_| Box::pin(std::future::ready(())))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The call fails. At a `…:before` step nothing has happened; at an `…:after` step all has, and the answer is lost.
    Error(ErrorKind),
    Panic,
    Slow(Duration),
    /// The process is gone: this step and every later one fail and have no effect, until [`Faults::revive`].
    Crash,
}

/// Every step of source, sink and store comes by here, in every incarnation of the process. Clones are one thing.
#[derive(Clone)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
    pause: Pause,
}

#[derive(Default)]
struct Plan {
    steps: u64,
    faults: BTreeMap<u64, Fault>,
    dead: bool,
    trace: Vec<String>,
    latency: Option<(Random, u64)>,
}

impl Faults {
    pub fn new(pause: Pause) -> Self {
        Self { plan: Arc::default(), pause }
    }

    /// Lets each step take up to `max_ms` of time.
    pub fn with_latency(self, seed: u64, max_ms: u64) -> Self {
        self.plan().latency = Some((Random::new(seed), max_ms));
        self
    }

    /// The fault happens at the n-th step, counted from 1 over all incarnations.
    pub fn plan_at(&self, step: u64, fault: Fault) {
        self.plan().faults.insert(step, fault);
    }

    pub fn steps(&self) -> u64 {
        self.plan().steps
    }

    pub fn is_dead(&self) -> bool {
        self.plan().dead
    }

    /// A new process.
    pub fn revive(&self) {
        self.plan().dead = false;
    }

    /// The steps so far, in order: two runs that took the same ones went the same way.
    pub fn trace(&self) -> Vec<String> {
        self.plan().trace.clone()
    }

    /// # Errors
    /// That the process is dead.
    pub fn alive(&self) -> Result<()> {
        if self.is_dead() { Err(dead()) } else { Ok(()) }
    }

    /// One step.
    ///
    /// # Errors
    /// The planned one; that the process is dead.
    pub async fn step(&self, name: impl Into<String>) -> Result<()> {
        let (fault, latency_ms) = {
            let mut plan = self.plan();
            if plan.dead {
                return Err(dead());
            }
            plan.steps += 1;
            plan.trace.push(name.into());
            let steps = plan.steps;
            let fault = plan.faults.get(&steps).cloned();
            let latency =
                plan.latency.as_mut().map_or(0, |(random, max_ms)| random.below(*max_ms + 1));
            (fault, latency)
        };
        if latency_ms > 0 {
            (self.pause)(Duration::from_millis(latency_ms)).await;
        }
        match fault {
            None => {}
            Some(Fault::Error(kind)) => return Err(Error::new(kind, "a planned fault")),
            Some(Fault::Panic) => panic!("a planned panic"),
            Some(Fault::Slow(duration)) => (self.pause)(duration).await,
            Some(Fault::Crash) => self.plan().dead = true,
        }
        // Someone else may have ended the process while this waited.
        self.alive()
    }

    pub(crate) fn pause(&self) -> &Pause {
        &self.pause
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn dead() -> Error {
    Error::transient("the process is dead, by plan")
}
