//! A value that changes, and tasks that wait for its changes.
//!
//! As tokio's `watch`, but waiting tasks wake in the order in which they began to wait; there it is random, and a simulated
//! run could not be repeated.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

struct Shared<T> {
    /// The value, and how often it was set.
    state: Mutex<(T, u64)>,
    changed: Notify,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, (T, u64)> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

pub(crate) struct Signal<T>(Arc<Shared<T>>);

impl<T: Copy> Signal<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Shared { state: Mutex::new((value, 0)), changed: Notify::new() }))
    }

    pub(crate) fn get(&self) -> T {
        self.0.state().0
    }

    pub(crate) fn set(&self, value: T) {
        {
            let mut state = self.0.state();
            *state = (value, state.1 + 1);
        }
        self.0.changed.notify_waiters();
    }

    pub(crate) fn watch(&self) -> Watcher<T> {
        Watcher { shared: self.0.clone(), seen: self.0.state().1 }
    }
}

impl<T: Copy + Default> Default for Signal<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[derive(Clone)]
pub(crate) struct Watcher<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T: Copy> Watcher<T> {
    pub(crate) fn get(&self) -> T {
        self.shared.state().0
    }

    /// The value, if it was set since it was last given back.
    pub(crate) fn take_change(&mut self) -> Option<T> {
        let (value, version) = *self.shared.state();
        let new = version != std::mem::replace(&mut self.seen, version);
        new.then_some(value)
    }

    /// The value at its next change, or at once if it has changed. Cancel-safe. Waits for ever when nobody sets it.
    pub(crate) async fn changed(&mut self) -> T {
        loop {
            // Made before the look, so that no change between look and wait is missed.
            let shared = self.shared.clone();
            let changed = shared.changed.notified();
            if let Some(value) = self.take_change() {
                return value;
            }
            changed.await;
        }
    }

    pub(crate) async fn wait_for(&mut self, mut condition: impl FnMut(T) -> bool) -> T {
        loop {
            let shared = self.shared.clone();
            let changed = shared.changed.notified();
            let value = self.get();
            if condition(value) {
                self.take_change();
                return value;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::VirtualTime;

    #[test]
    fn every_watcher_sees_the_last_value_in_its_turn() {
        let order = Arc::new(Mutex::new(Vec::new()));
        VirtualTime::default().block_on(Duration::from_secs(1), async {
            let signal = Signal::new(0);
            for task in 0..20 {
                let (mut watcher, order) = (signal.watch(), order.clone());
                tokio::spawn(async move {
                    let value = watcher.changed().await;
                    order.lock().unwrap().push((task, value));
                    watcher.wait_for(|v| v == 5).await;
                    order.lock().unwrap().push((task, 5));
                });
            }
            tokio::task::yield_now().await;
            signal.set(1);
            signal.set(2);
            tokio::task::yield_now().await;
            signal.set(5);
            tokio::task::yield_now().await;
            assert!(signal.watch().take_change().is_none());
        });
        let expected: Vec<_> = (0..20).map(|t| (t, 2)).chain((0..20).map(|t| (t, 5))).collect();
        assert_eq!(*order.lock().unwrap(), expected);
    }
}
