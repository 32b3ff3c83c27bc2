//! What is done now and then: telling progress, looking for new partitions and for the ends of those that are quiet.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use lakeward_core::{Error, ErrorKind, Progress, Result, StreamRecord, Target};
use tokio::task::JoinHandle;

use super::KafkaReader;
use super::slot::{Slot, ordinal};
use crate::client::ClientConsumer;
use crate::decode::Stop;
use crate::fetch::Assignment;
use crate::offset::{TopicPartition, encode};
use crate::probe::{self, Probed, Question};
use crate::startup;

/// How often the position is told while rows flow.
const PROGRESS_MS: i64 = 1_000;
/// Between two looks at the brokers.
const LOOK_MS: i64 = 300;
/// A partition that is quiet is looked at again after this time.
const QUIET_MS: i64 = 2_000;
/// Partitions of one look.
const LOOKED_AT: usize = 64;
/// Looks in a row that fail, or miss a partition, before it counts.
const PATIENCE: u32 = 3;

/// A look that is under way.
pub struct Look {
    pub task: JoinHandle<(ClientConsumer, Result<Probed>)>,
    asked: BTreeMap<TopicPartition, i64>,
    discovers: bool,
    started_ms: i64,
}

impl KafkaReader {
    /// One progress for each partition that has moved.
    pub(super) fn tell_progress(&mut self) {
        self.progress_ms = self.clock.now_ms();
        for slot in self.slots.iter_mut().filter(|s| s.told != Some(s.position)) {
            slot.told = Some(slot.position);
            let progress = Progress {
                table: None,
                split: slot.id.split(),
                offset: encode(slot.position),
                commit_ms: self.commit_ms,
            };
            self.out.push((Target::All, StreamRecord::Progress(progress)));
        }
    }

    pub(super) fn upkeep(&mut self) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let quiet = self.jobs.is_empty() && self.slots.iter().all(Slot::is_idle);
        if now_ms - self.progress_ms >= PROGRESS_MS || (quiet && now_ms - self.progress_ms >= 50) {
            self.tell_progress();
        }
        let lag_ms = match (self.disconnected_ms, quiet) {
            (Some(since), _) => now_ms - since,
            (None, true) => 0,
            (None, false) => now_ms - self.commit_ms.max(1),
        };
        self.metrics.lag_ms.set(lag_ms.max(0));
        self.start_look(now_ms);
        Ok(())
    }

    fn start_look(&mut self, now_ms: i64) {
        if self.look.is_some() || now_ms - self.look_ms < LOOK_MS {
            return;
        }
        let interval_ms = self.discovery_interval.as_millis() as i64;
        let discovers = now_ms - self.discovered_ms >= interval_ms;
        let is_ahead = |slot: &Slot| matches!(slot.stop, Some(Stop::Ahead(..)));
        let (waits, ahead) = (self.barrier.is_some(), self.slots.iter().any(is_ahead));
        let wants = |slot: &&mut Slot| {
            let since_heard = now_ms - slot.heard_ms;
            let since_probed = now_ms - slot.probed_ms;
            let is_new = slot.probed_ms <= slot.heard_ms && since_heard >= LOOK_MS;
            let is_awaited = waits || (ahead && slot.has_statements);
            slot.is_idle() && (is_new || since_probed >= QUIET_MS || is_awaited)
        };
        let mut wanted: Vec<&mut Slot> = self.slots.iter_mut().filter(wants).collect();
        // Those that others wait for, and then the ones that were not looked at for the longest time.
        wanted.sort_by_key(|slot| (!(ahead && slot.has_statements), slot.probed_ms));
        let mut asked = BTreeMap::new();
        for slot in wanted.into_iter().take(LOOKED_AT) {
            slot.probed_ms = now_ms;
            asked.insert(slot.id.clone(), slot.position);
        }
        if asked.is_empty() && !discovers {
            return;
        }
        let Some(prober) = self.prober.take() else { return };
        let known =
            if discovers { self.slots.iter().map(|s| s.id.clone()).collect() } else { vec![] };
        let positions = asked.iter().map(|(p, at)| (p.clone(), *at)).collect();
        let question = Question { known: discovers.then_some(known), positions };
        let client = self.client.clone();
        let task = tokio::task::spawn_blocking(move || {
            let probed = probe::ask(&client, &prober, question);
            (prober, probed)
        });
        self.look = Some(Look { task, asked, discovers, started_ms: now_ms });
    }

    /// A look has ended.
    pub(super) fn on_look(&mut self, prober: ClientConsumer, probed: Result<Probed>) -> Result<()> {
        let now_ms = self.clock.now_ms();
        self.prober = Some(prober);
        self.look_ms = now_ms;
        let Some(look) = self.look.take() else { return Ok(()) };
        if look.discovers {
            self.discovered_ms = now_ms;
        }
        let probed = match probed {
            Ok(probed) => probed,
            Err(e) => {
                // A broker that restarts does not know its topics at first.
                if e.kind() == ErrorKind::Config {
                    self.failed_looks += 1;
                    if self.failed_looks >= PATIENCE {
                        return Err(e);
                    }
                }
                tracing::debug!("a look at the brokers failed: {e}");
                return Ok(());
            }
        };
        self.failed_looks = 0;
        self.disconnected_ms = None;
        self.metrics.connected.set(1);
        for slot in &mut self.slots {
            if let Some(end) = probed.ends.get(&slot.id) {
                slot.end = Some(*end);
                slot.asked_ms = look.started_ms;
            }
            if let (Some(until), Some(at)) =
                (probed.empty_until.get(&slot.id), look.asked.get(&slot.id))
                && slot.is_idle()
                && slot.position == *at
            {
                slot.position = *until;
            }
        }
        let behind = self.slots.iter().filter_map(|s| Some((s.end? - s.position).max(0)));
        self.metrics.lag_records.set(behind.sum());
        if look.discovers {
            self.on_discovered(probed)?;
        }
        Ok(())
    }

    fn on_discovered(&mut self, probed: Probed) -> Result<()> {
        if let Some(gone) = probed.gone.first() {
            self.missed_looks += 1;
            if self.missed_looks >= PATIENCE {
                return Err(Error::offset_lost(
                    "the partition is gone: its topic was deleted or made anew; start over with --resnapshot",
                )
                .with("partition", gone));
            }
            return Ok(());
        }
        self.missed_looks = 0;
        let mut more = Vec::new();
        for (partition, low) in probed.new {
            tracing::info!(%partition, "a new partition is read from its first record on");
            more.push((partition, low));
        }
        self.add_partitions(more)
    }

    /// Reads partitions from these offsets on.
    pub(super) fn add_partitions(&mut self, more: Vec<(TopicPartition, i64)>) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let mut assignments = Vec::with_capacity(more.len());
        for (partition, offset) in more {
            let number = ordinal(&mut self.topics, &partition.topic)?;
            let mut slot = Slot::new(partition.clone(), number, offset, now_ms);
            slot.floors = Arc::new(self.floors_of(&partition, offset)?);
            let at = self.slots.len();
            let backlog = slot.backlog.clone();
            assignments.push(Assignment { partition, offset, slot: at, backlog });
            self.slots.push(slot);
        }
        self.metrics.partitions.set(self.slots.len() as i64);
        if assignments.is_empty() { Ok(()) } else { self.fetcher.assign(assignments) }
    }

    /// Tables that the sink holds beyond `position` of a partition.
    fn floors_of(
        &self,
        partition: &TopicPartition,
        position: i64,
    ) -> Result<HashMap<lakeward_core::TableId, i64>> {
        let split = partition.split();
        let mut floors = HashMap::new();
        for (table, offsets) in &self.committed {
            let Some(offset) = offsets.get(&split) else { continue };
            let floor = crate::offset::decode(offset)?;
            if floor > position {
                floors.insert(table.clone(), floor);
            }
        }
        Ok(floors)
    }

    /// The client was told that a record is gone: finds out which.
    pub(super) async fn lost_offset(&mut self) -> Error {
        let client = self.client.clone();
        let position = |slot: &Slot| {
            let last = slot.chunks.back().and_then(|chunk| chunk.records.last());
            (slot.id.clone(), last.map_or(slot.position, |record| record.offset + 1))
        };
        let positions: BTreeMap<_, _> = self.slots.iter().map(position).collect();
        let found = tokio::task::spawn_blocking(move || {
            let prober = client.prober()?;
            startup::check(&prober, &positions)
        });
        match found.await {
            Ok(Err(e)) => e,
            _ => Error::offset_lost(
                "a partition no longer has the record that comes next; start over with --resnapshot",
            ),
        }
    }
}
