//! Time as the runtime uses it: the system's, or a simulated one that makes a run repeatable.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use lakeward_core::Clock;

/// Waits. All waiting of a job goes through it.
pub trait Timer: Send + Sync {
    /// Never goes backwards; counts from an arbitrary start.
    fn now(&self) -> Duration;

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()>;

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(self.now() + duration)
    }
}

/// The future's result, or `None` when the time is up first.
pub(crate) async fn timeout<T>(
    timer: &dyn Timer,
    duration: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        result = future => Some(result),
        () = timer.sleep(duration) => None,
    }
}

/// The system's time.
#[derive(Debug, Clone, Copy)]
pub struct SystemTimer {
    start: tokio::time::Instant,
}

impl Default for SystemTimer {
    fn default() -> Self {
        Self { start: tokio::time::Instant::now() }
    }
}

impl Timer for SystemTimer {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.start + at))
    }
}

/// Simulated time: stands still while any task can go on, then jumps to the next moment that someone waits for. With one
/// thread, and no work outside of it, the same program takes the same steps every time.
#[derive(Debug, Clone, Default)]
pub struct VirtualTime {
    shared: Arc<Mutex<Timeline>>,
}

#[derive(Debug, Default)]
struct Timeline {
    now: Duration,
    /// Grows with each sleep, so that those that end at one moment wake in the order in which they began.
    next: u64,
    due: BinaryHeap<Reverse<(Duration, u64)>>,
    wakers: BTreeMap<u64, Waker>,
}

impl VirtualTime {
    /// Runs the future on this thread, for at most `limit` of simulated time: `None` when that was not enough, which is
    /// how a hang shows.
    pub fn block_on<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let timeline = self.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || timeline.jump())
            .build()
            .expect("a single-threaded runtime needs nothing that could be missing");
        let result = runtime.block_on(timeout(self, limit, future));
        // Tasks that are left hold sleeps, which unregister here and not in a later run.
        drop(runtime);
        result
    }

    /// To the next moment that someone waits for.
    fn jump(&self) {
        let waker = {
            let mut timeline = self.timeline();
            loop {
                let Some(Reverse((at, id))) = timeline.due.pop() else { return };
                // Without a waker it was given up.
                if let Some(waker) = timeline.wakers.remove(&id) {
                    timeline.now = timeline.now.max(at);
                    break waker;
                }
            }
        };
        waker.wake();
    }

    fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.shared.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Timer for VirtualTime {
    fn now(&self) -> Duration {
        self.timeline().now
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        Box::pin(VirtualSleep { time: self.clone(), at, id: None })
    }
}

impl Clock for VirtualTime {
    /// Starts in November 2023, so that times look like times.
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + self.now().as_millis() as i64
    }
}

struct VirtualSleep {
    time: VirtualTime,
    at: Duration,
    id: Option<u64>,
}

impl Future for VirtualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        let time = self.time.clone();
        let mut timeline = time.timeline();
        if timeline.now >= at {
            return Poll::Ready(());
        }
        let id = match self.id {
            // Woken, or never registered, when its waker is not there.
            Some(id) if timeline.wakers.contains_key(&id) => id,
            _ => {
                let id = timeline.next;
                timeline.next += 1;
                timeline.due.push(Reverse((at, id)));
                self.id = Some(id);
                id
            }
        };
        timeline.wakers.insert(id, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for VirtualSleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.time.timeline().wakers.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_jumps_to_the_next_sleep_and_keeps_their_order() {
        let time = VirtualTime::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let real = std::time::Instant::now();
        time.block_on(Duration::from_secs(7200), async {
            let tasks: Vec<_> = [3600, 10, 10, 1]
                .into_iter()
                .enumerate()
                .map(|(i, seconds)| {
                    let (time, log) = (time.clone(), log.clone());
                    tokio::spawn(async move {
                        time.sleep(Duration::from_secs(seconds)).await;
                        log.lock().unwrap().push((i, time.now().as_secs()));
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("ends");
            }
        })
        .expect("in time");
        assert_eq!(*log.lock().unwrap(), [(3, 1), (1, 10), (2, 10), (0, 3600)]);
        assert!(real.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_hang_shows() {
        let time = VirtualTime::default();
        let hung = time.block_on(Duration::from_secs(60), std::future::pending::<()>());
        assert!(hung.is_none());
        assert_eq!(time.now(), Duration::from_secs(60));
    }
}
