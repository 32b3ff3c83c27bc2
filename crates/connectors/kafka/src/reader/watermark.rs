//! How far rows may go before the statements in other partitions.
//!
//! Capture systems often write DDL into a topic of its own. A row that is read before a statement that came first would meet
//! a table that it does not fit, or be wiped out by a TRUNCATE that was carried out before it. So where a partition has
//! statements, rows of the others go no further than that partition is known to have come: to the statement at which it
//! stands, to the last place that it has shown, or, where it has nothing left, to what was written by then.

use super::KafkaReader;
use super::slot::Slot;
use crate::decode::{GRACE_MS, Stop};
use crate::format::{self, Message};
use crate::partition::Chunk;
use crate::shape::Order;

/// Rows wait so long at the start for the first look at every partition.
const ACQUAINTANCE_MS: i64 = 5_000;

/// Which rows may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// Changes up to here.
    pub order: Order,
    /// Records that were there by then, in milliseconds since the epoch.
    pub until_ms: i64,
}

impl Watermark {
    /// Everything.
    pub const MAX: Watermark = Watermark { order: Order::LAST, until_ms: i64::MAX };

    /// True for a row that must wait.
    pub fn is_before(&self, order: Order, there_ms: i64) -> bool {
        order > self.order || there_ms > self.until_ms
    }

    fn min(self, other: Watermark) -> Watermark {
        Watermark {
            order: self.order.min(other.order),
            until_ms: self.until_ms.min(other.until_ms),
        }
    }
}

impl Slot {
    /// How far the partition's own statements are known.
    fn shown(&self) -> Watermark {
        let up_to = |order| Watermark { order, ..Watermark::MAX };
        match &self.stop {
            Some(Stop::Ddl(_, own, _) | Stop::Held(own) | Stop::Ahead(own, _)) => up_to(*own),
            None if self.has_ended() => {
                Watermark { until_ms: self.asked_ms - GRACE_MS, ..Watermark::MAX }
            }
            _ => up_to(self.order.unwrap_or(Order::FIRST)),
        }
    }

    /// Nothing was left when the partition was asked last.
    pub fn has_ended(&self) -> bool {
        self.is_idle() && self.end.is_some_and(|end| self.position >= end)
    }
}

impl KafkaReader {
    /// How far the rows of a partition may go.
    pub(super) fn watermark(&self, at: usize) -> Watermark {
        let others = self.slots.iter().enumerate().filter(|(i, s)| *i != at && s.has_statements);
        others.fold(Watermark::MAX, |least, (_, slot)| least.min(slot.shown()))
    }

    /// Lets those go on that waited long enough.
    pub(super) fn release(&mut self) {
        for at in 0..self.slots.len() {
            if let Some(Stop::Ahead(order, there_ms)) = self.slots[at].stop
                && !self.watermark(at).is_before(order, there_ms)
            {
                self.slots[at].stop = None;
            }
        }
    }

    /// True once it is known of every partition whether it begins with statements.
    pub(super) fn is_acquainted(&mut self) -> bool {
        let late = self.clock.now_ms() - self.started_ms >= ACQUAINTANCE_MS;
        let is_known = |slot: &Slot| slot.has_arrived || slot.has_ended();
        if !self.acquainted {
            self.acquainted = late || self.slots.len() < 2 || self.slots.iter().all(is_known);
        }
        self.acquainted
    }

    /// Notes whether a partition has statements, by the first records that arrive of it.
    pub(super) fn get_acquainted(&mut self, chunk: &Chunk) {
        let slot = &mut self.slots[chunk.slot];
        if slot.has_arrived || slot.has_statements {
            slot.has_arrived = true;
            return;
        }
        slot.has_arrived = true;
        let settings = &self.settings;
        slot.has_statements = chunk.records.iter().any(|record| {
            let (key, value) = (chunk.key(record), chunk.value(record));
            match format::read(settings.format, key, value, &mut self.survey_cache) {
                Ok(Message::Ddl(all)) => all.iter().any(|d| settings.rules.is_selected(&d.table)),
                _ => false,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str) -> Slot {
        Slot::new(crate::offset::TopicPartition::new(name, 0), 0, 5, 0)
    }

    fn order(commit_ms: i64) -> Order {
        Order { commit_ms, record_ms: 0 }
    }

    #[test]
    fn what_a_partition_has_shown() {
        let mut statements = slot("s");
        assert_eq!(statements.shown().order, Order::FIRST);
        statements.order = Some(order(7));
        assert!(statements.shown().is_before(order(8), 0));
        assert!(!statements.shown().is_before(order(7), i64::MAX));
        statements.stop = Some(Stop::Ddl(Vec::new(), order(9), 0));
        assert!(!statements.shown().is_before(order(9), i64::MAX));
        statements.stop = None;
        // Asked at 20 s, it had nothing left.
        (statements.end, statements.asked_ms) = (Some(5), 20_000);
        assert!(!statements.shown().is_before(order(i64::MAX), 19_000));
        assert!(statements.shown().is_before(order(1), 19_001));
        statements.end = Some(6);
        assert!(statements.shown().is_before(order(8), 0));
    }
}
