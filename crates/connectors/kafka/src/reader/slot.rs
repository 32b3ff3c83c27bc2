//! A partition as the reader holds it: what has arrived of it, and how far it is done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use lakeward_core::{Error, Result, TableId};

use super::watermark::Watermark;
use crate::declared::DeclaredCache;
use crate::decode::{DecodeSettings, Job, Stop};
use crate::fetch::Backlog;
use crate::format::Reason;
use crate::offset::TopicPartition;
use crate::partition::Chunk;
use crate::shape::{Order, Shapes};

pub struct Slot {
    pub id: TopicPartition,
    /// The topic's number.
    pub ordinal: u32,
    /// The first record that is not emitted.
    pub position: i64,
    /// The position of the last progress that was emitted.
    pub told: Option<i64>,
    pub chunks: VecDeque<Arc<Chunk>>,
    /// The first record of the first chunk that is not done.
    pub at: usize,
    /// A worker decodes the first chunk.
    pub busy: bool,
    pub stop: Option<Stop>,
    /// The record that stopped it fits nothing.
    pub refused: Option<Reason>,
    pub cache: DeclaredCache,
    pub floors: Arc<HashMap<TableId, i64>>,
    pub backlog: Arc<Backlog>,
    /// The last change's place in the source's order.
    pub order: Option<Order>,
    /// Where the partition ended when it was asked last.
    pub end: Option<i64>,
    /// When that question was asked.
    pub asked_ms: i64,
    pub probed_ms: i64,
    pub heard_ms: i64,
    /// It has had DDL: see [`super::watermark`].
    pub has_statements: bool,
    /// Records of it have arrived.
    pub has_arrived: bool,
}

impl Slot {
    pub fn new(id: TopicPartition, ordinal: u32, position: i64, now_ms: i64) -> Self {
        Self {
            id,
            ordinal,
            position,
            told: None,
            chunks: VecDeque::new(),
            at: 0,
            busy: false,
            stop: None,
            refused: None,
            cache: DeclaredCache::default(),
            floors: Arc::default(),
            backlog: Arc::default(),
            order: None,
            end: None,
            asked_ms: 0,
            probed_ms: 0,
            heard_ms: now_ms,
            has_statements: false,
            has_arrived: false,
        }
    }

    /// Nothing has arrived that is not done.
    pub fn is_idle(&self) -> bool {
        self.chunks.is_empty() && !self.busy
    }

    /// Work for a worker, if there is some and nothing is in the way.
    pub fn job(
        &mut self,
        shapes: &Arc<Shapes>,
        settings: &Arc<DecodeSettings>,
        watermark: Watermark,
    ) -> Option<Job> {
        if self.busy || self.stop.is_some() {
            return None;
        }
        let chunk = self.chunks.front()?.clone();
        self.busy = true;
        Some(Job {
            chunk,
            from: self.at,
            shapes: shapes.clone(),
            settings: settings.clone(),
            cache: std::mem::take(&mut self.cache),
            topic: self.id.topic.clone(),
            ordinal: self.ordinal,
            partition: self.id.partition,
            floors: self.floors.clone(),
            refused: self.refused.clone(),
            watermark,
        })
    }

    /// Records up to `until` of the first chunk are done.
    pub fn advance(&mut self, until: usize) {
        let Some(chunk) = self.chunks.front() else { return };
        if let Some(last) = until.checked_sub(1).and_then(|at| chunk.records.get(at)) {
            self.position = self.position.max(last.offset + 1);
        }
        if until > self.at {
            self.refused = None;
        }
        self.at = until;
        if until >= chunk.records.len() {
            self.backlog.bytes.fetch_sub(chunk.size_bytes(), Ordering::AcqRel);
            self.chunks.pop_front();
            self.at = 0;
        }
    }

    /// The record that stopped decoding is done without a row.
    pub fn pass_record(&mut self) {
        if let Some(Stop::Ddl(_, order, _)) = self.stop.take() {
            self.order = self.order.max(Some(order));
        }
        self.advance(self.at + 1);
    }

    /// The offset of the record that decoding stopped at.
    pub fn stopped_at(&self) -> i64 {
        let record = self.chunks.front().and_then(|chunk| chunk.records.get(self.at));
        record.map_or(self.position, |record| record.offset)
    }

    pub fn bad_record(&self, reason: &Reason) -> Error {
        Error::data_invalid(format!(
            "a record cannot be decoded: {reason}; mend the topic or the options, or set `pipeline: bad-record`"
        ))
        .with("topic", &self.id.topic)
        .with("partition", self.id.partition)
        .with("offset", self.stopped_at())
    }

    /// True once the partition is known to have nothing before a change at `order`: it has shown a later one, or waits
    /// with one, or had nothing left when it was asked at `known_ms` or later.
    pub fn has_passed(&self, order: Order, known_ms: i64) -> bool {
        match &self.stop {
            Some(Stop::Ddl(_, own, _)) => return *own >= order,
            Some(Stop::Held(own) | Stop::Ahead(own, _)) => return *own > order,
            Some(Stop::Evolve | Stop::Bad(_)) => return false,
            None => {}
        }
        let is_later = self.order.is_some_and(|own| own > order);
        is_later || (self.has_ended() && self.asked_ms >= known_ms)
    }
}

/// Which topic has which number. Numbers stay.
pub fn ordinal(topics: &mut Vec<Arc<str>>, topic: &Arc<str>) -> Result<u32> {
    let at = topics.iter().position(|known| known == topic).unwrap_or_else(|| {
        topics.push(topic.clone());
        topics.len() - 1
    });
    u32::try_from(at).map_err(|_| Error::config("there are too many topics"))
}
