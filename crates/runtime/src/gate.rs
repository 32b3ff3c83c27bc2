//! The channel between stages: one gate per receiving instance, with one bounded queue per sending instance.
//!
//! A queue is bounded by count and by bytes; a record larger than the bound passes alone. A blocked input keeps its
//! elements, which is how barriers are aligned: its sender then feels the back-pressure.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use lakeward_core::{CheckpointId, StreamRecord};
use tokio::sync::Notify;

/// What travels between tasks: records and the runtime's own signals.
#[derive(Debug)]
pub(crate) enum Element {
    Record(StreamRecord),
    Barrier(CheckpointId),
    /// The input has ended; a last barrier still follows.
    End,
}

impl Element {
    fn size_bytes(&self) -> usize {
        match self {
            Element::Record(record) => record.size_bytes(),
            Element::Barrier(_) | Element::End => 0,
        }
    }
}

/// Bounds of one queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateLimit {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
}

#[derive(Default)]
struct Queue {
    elements: VecDeque<(Element, usize)>,
    bytes: usize,
}

struct Shared {
    queues: Mutex<Vec<Queue>>,
    limit: GateLimit,
    readable: Notify,
    /// One per sender: each waits for room in its own queue only.
    writable: Vec<Notify>,
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.queues.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A gate with as many inputs as there are senders.
pub(crate) fn gate(inputs: usize, limit: GateLimit) -> (Vec<GateSender>, InputGate) {
    let shared = Arc::new(Shared {
        queues: Mutex::new((0..inputs).map(|_| Queue::default()).collect()),
        limit,
        readable: Notify::new(),
        writable: (0..inputs).map(|_| Notify::new()).collect(),
    });
    let senders = (0..inputs).map(|input| GateSender { shared: shared.clone(), input }).collect();
    (senders, InputGate { shared, blocked: vec![false; inputs], next: 0 })
}

pub(crate) struct GateSender {
    shared: Arc<Shared>,
    input: usize,
}

impl GateSender {
    /// Waits for room. There is one sender per input, so that elements arrive in the order in which they were sent.
    pub(crate) async fn send(&self, element: Element) {
        let size = element.size_bytes();
        loop {
            {
                let mut queues = self.shared.queues();
                let queue = &mut queues[self.input];
                let limit = self.shared.limit;
                let room =
                    queue.elements.len() < limit.records && queue.bytes + size <= limit.bytes;
                if room || queue.elements.is_empty() {
                    queue.bytes += size;
                    queue.elements.push_back((element, size));
                    self.shared.readable.notify_one();
                    return;
                }
            }
            // The one permit that `notify_one` leaves closes the gap between the look and the wait.
            self.shared.writable[self.input].notified().await;
        }
    }
}

pub(crate) struct InputGate {
    shared: Arc<Shared>,
    blocked: Vec<bool>,
    next: usize,
}

impl InputGate {
    pub(crate) fn inputs(&self) -> usize {
        self.blocked.len()
    }

    /// The next element of an input that is not blocked, inputs taking turns. Cancel-safe.
    pub(crate) async fn recv(&mut self) -> (usize, Element) {
        loop {
            if let Some(found) = self.take() {
                return found;
            }
            self.shared.readable.notified().await;
        }
    }

    fn take(&mut self) -> Option<(usize, Element)> {
        let inputs = self.blocked.len();
        let mut queues = self.shared.queues();
        for step in 0..inputs {
            let input = (self.next + step) % inputs;
            if self.blocked[input] {
                continue;
            }
            if let Some((element, size)) = queues[input].elements.pop_front() {
                queues[input].bytes -= size;
                self.next = (input + 1) % inputs;
                self.shared.writable[input].notify_one();
                return Some((input, element));
            }
        }
        None
    }

    pub(crate) fn block(&mut self, input: usize) {
        self.blocked[input] = true;
    }

    pub(crate) fn all_blocked(&self) -> bool {
        self.blocked.iter().all(|b| *b)
    }

    pub(crate) fn unblock_all(&mut self) {
        self.blocked.fill(false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::VirtualTime;
    use crate::time::timeout;
    use lakeward_core::{Committable, TableId};

    fn committable(bytes: usize) -> Element {
        Element::Record(StreamRecord::Committable(Committable {
            table: TableId::new("a", "b"),
            version: 1,
            payload: vec![0; bytes],
            rows: 0,
            size_bytes: 0,
            commit_ms: 0,
        }))
    }

    const SOON: Duration = Duration::from_millis(50);

    fn run(test: impl AsyncFnOnce(VirtualTime)) {
        let time = VirtualTime::default();
        time.block_on(Duration::from_secs(60), test(time.clone())).expect("does not hang");
    }

    #[test]
    fn a_queue_is_bounded_by_count_and_by_bytes() {
        run(async |time| {
            let (senders, mut inputs) = gate(1, GateLimit { records: 2, bytes: 10_000 });
            senders[0].send(committable(10)).await;
            senders[0].send(committable(10)).await;
            assert!(
                timeout(&time, SOON, senders[0].send(committable(10))).await.is_none(),
                "count"
            );
            inputs.recv().await;
            inputs.recv().await;
            senders[0].send(committable(50_000)).await;
            assert!(
                timeout(&time, SOON, senders[0].send(committable(10))).await.is_none(),
                "bytes"
            );
            inputs.recv().await;
            senders[0].send(committable(10)).await;
        });
    }

    #[test]
    fn a_waiting_sender_goes_on_when_there_is_room() {
        run(async |time| {
            let (senders, mut inputs) = gate(1, GateLimit { records: 1, bytes: 10_000 });
            let sender = tokio::spawn(async move {
                for _ in 0..100 {
                    senders[0].send(committable(10)).await;
                }
            });
            for _ in 0..100 {
                timeout(&time, SOON, inputs.recv()).await.expect("an element");
            }
            sender.await.expect("ends");
        });
    }

    #[test]
    fn a_blocked_input_keeps_its_elements_and_others_take_turns() {
        run(async |time| {
            let limit = GateLimit { records: 8, bytes: 10_000 };
            let (senders, mut inputs) = gate(3, limit);
            for sender in &senders {
                sender.send(Element::Barrier(CheckpointId(1))).await;
                sender.send(Element::End).await;
            }
            let mut order = Vec::new();
            for _ in 0..3 {
                let (input, element) = inputs.recv().await;
                assert!(matches!(element, Element::Barrier(_)));
                inputs.block(input);
                order.push(input);
            }
            assert_eq!(order, [0, 1, 2]);
            assert!(inputs.all_blocked());
            assert!(timeout(&time, SOON, inputs.recv()).await.is_none());
            inputs.unblock_all();
            assert!(matches!(inputs.recv().await, (0, Element::End)));
        });
    }
}
