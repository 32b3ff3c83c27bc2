//! The reader: one ordered stream out of all partitions.
//!
//! A thread fetches, workers decode partitions side by side, and what they made is taken here, between two waits. This is
//! the only place where tables change. So a future of [`KafkaReader::next`] that is dropped loses nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lakeward_core::{
    CheckpointId, CheckpointRequester, Clock, Collector, Error, Offsets, Position, ReadStatus,
    Result, SourceReader, State, StreamRecord, TableId, Target,
};
use rdkafka::consumer::{CommitMode, Consumer};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Client, ClientConsumer, list};
use crate::declared::DeclaredCache;
use crate::decode::{DecodeSettings, Decoded, Stop, decode};
use crate::fetch::{Fetched, Fetcher};
use crate::metrics::SourceMetrics;
use crate::offset::TopicPartition;
use crate::probe::Probed;
use crate::shape::Shapes;
use crate::state::{Decision, PartitionState, ReaderState, STATE_VERSION};

mod slot;
mod steps;
mod upkeep;
mod watermark;

use slot::Slot;
use steps::Barrier;
use upkeep::Look;
pub use watermark::Watermark;

/// The longest that [`SourceReader::next`] waits.
const WAIT: Duration = Duration::from_millis(30);
/// Records that one call emits before it returns.
const RECORDS: usize = 16;

/// What a reader is made of.
pub struct ReaderParts {
    pub client: Client,
    pub fetcher: Fetcher,
    pub prober: ClientConsumer,
    pub settings: Arc<DecodeSettings>,
    pub discovery_interval: Duration,
    pub committed: HashMap<TableId, Offsets>,
    pub clock: Arc<dyn Clock>,
    pub checkpoints: Arc<dyn CheckpointRequester>,
    pub metrics: SourceMetrics,
}

pub struct KafkaReader {
    client: Client,
    fetcher: Fetcher,
    prober: Option<ClientConsumer>,
    settings: Arc<DecodeSettings>,
    discovery_interval: Duration,
    committed: HashMap<TableId, Offsets>,
    clock: Arc<dyn Clock>,
    checkpoints: Arc<dyn CheckpointRequester>,
    metrics: SourceMetrics,
    workers: usize,
    jobs: JoinSet<(usize, Result<Decoded>)>,
    shapes: Arc<Shapes>,
    slots: Vec<Slot>,
    topics: Vec<Arc<str>>,
    last_step: Position,
    decided: Vec<Decision>,
    /// The checkpoint that has what is decided.
    decided_in: Option<CheckpointId>,
    /// That checkpoint is complete.
    ready: bool,
    statements: VecDeque<u64>,
    /// The sink's tables hold rows of an earlier reading.
    resets: bool,
    barrier: Option<Barrier>,
    survey_cache: DeclaredCache,
    commit_ms: i64,
    out: Vec<(Target, StreamRecord)>,
    /// Offsets of checkpoints that are not complete.
    to_commit: VecDeque<(CheckpointId, Vec<(TopicPartition, i64)>)>,
    look: Option<Look>,
    look_ms: i64,
    discovered_ms: i64,
    failed_looks: u32,
    missed_looks: u32,
    progress_ms: i64,
    disconnected_ms: Option<i64>,
    started_ms: i64,
    /// It is known of every partition whether it begins with statements.
    acquainted: bool,
}

/// What a wait brought.
enum Arrival {
    Fetched(Option<Fetched>),
    Decoded(usize, Result<Decoded>),
    Looked(ClientConsumer, Result<Probed>),
    Broken(Error),
    Nothing,
}

impl KafkaReader {
    /// Goes on from a state, which a fresh pipeline has too.
    pub fn new(parts: ReaderParts, state: ReaderState) -> Result<Self> {
        let now_ms = parts.clock.now_ms();
        let workers = std::thread::available_parallelism().map_or(2, |n| n.get()).clamp(1, 8);
        let mut shapes = Shapes::default();
        for table in state.tables {
            let shape = crate::shape::Shape::new(table);
            shapes.tables.insert(shape.table.clone(), Arc::new(shape));
        }
        let mut reader = Self {
            client: parts.client,
            fetcher: parts.fetcher,
            prober: Some(parts.prober),
            settings: parts.settings,
            discovery_interval: parts.discovery_interval,
            committed: parts.committed,
            clock: parts.clock,
            checkpoints: parts.checkpoints,
            metrics: parts.metrics,
            workers,
            jobs: JoinSet::new(),
            shapes: Arc::new(shapes),
            slots: Vec::new(),
            topics: state.topics,
            last_step: state.last_step,
            // They are in the checkpoint that this comes from.
            ready: !state.decided.is_empty(),
            decided: state.decided,
            decided_in: None,
            statements: state.statements.into(),
            resets: state.resets,
            barrier: None,
            survey_cache: DeclaredCache::default(),
            commit_ms: state.commit_ms,
            out: Vec::new(),
            to_commit: VecDeque::new(),
            look: None,
            look_ms: 0,
            discovered_ms: now_ms,
            failed_looks: 0,
            missed_looks: 0,
            progress_ms: now_ms,
            disconnected_ms: None,
            started_ms: now_ms,
            acquainted: false,
        };
        let statements: Vec<bool> = state.partitions.iter().map(|p| p.has_statements).collect();
        let partitions = state.partitions.into_iter().map(|p| (p.partition, p.offset)).collect();
        reader.add_partitions(partitions)?;
        for (slot, has_statements) in reader.slots.iter_mut().zip(statements) {
            slot.has_statements = has_statements;
        }
        reader.metrics.connected.set(1);
        Ok(reader)
    }

    /// Decides on steps of tables that no record has asked for.
    pub fn decide_first(&mut self, plans: Vec<crate::evolve::Plan>) {
        let now_ms = self.clock.now_ms();
        for plan in plans {
            if !self.shapes.tables.contains_key(&plan.table) {
                self.push_decision(plan, now_ms);
                self.checkpoints.request();
            }
        }
    }

    fn work(&mut self) -> Result<()> {
        if self.ready {
            self.take_steps();
        }
        self.release();
        self.decide()?;
        if !self.is_acquainted() {
            return Ok(());
        }
        for at in 0..self.slots.len() {
            if self.jobs.len() >= self.workers {
                break;
            }
            let watermark = self.watermark(at);
            if let Some(job) = self.slots[at].job(&self.shapes, &self.settings, watermark) {
                self.jobs.spawn_blocking(move || (at, decode(job)));
            }
        }
        Ok(())
    }

    async fn wait(&mut self, deadline: Instant) -> Arrival {
        let decoded = async {
            match self.jobs.join_next().await {
                Some(Ok((at, decoded))) => Arrival::Decoded(at, decoded),
                Some(Err(e)) => {
                    Arrival::Broken(Error::bug("a worker of the reader ended badly").with_source(e))
                }
                None => std::future::pending().await,
            }
        };
        let looked = async {
            match &mut self.look {
                Some(look) => match (&mut look.task).await {
                    Ok((prober, probed)) => Arrival::Looked(prober, probed),
                    Err(e) => Arrival::Broken(
                        Error::bug("a task of the reader ended badly").with_source(e),
                    ),
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            arrival = decoded => arrival,
            fetched = self.fetcher.received.recv() => Arrival::Fetched(fetched),
            arrival = looked => arrival,
            () = tokio::time::sleep_until(deadline) => Arrival::Nothing,
        }
    }

    async fn on_arrival(&mut self, arrival: Arrival) -> Result<()> {
        match arrival {
            Arrival::Nothing => Ok(()),
            Arrival::Broken(e) => Err(e),
            Arrival::Decoded(at, decoded) => self.on_decoded(at, decoded?),
            Arrival::Looked(prober, probed) => self.on_look(prober, probed),
            Arrival::Fetched(None) => Err(Error::transient("the thread that fetches has ended")),
            Arrival::Fetched(Some(Fetched::Failed(e))) => Err(e),
            Arrival::Fetched(Some(Fetched::OffsetLost)) => Err(self.lost_offset().await),
            Arrival::Fetched(Some(Fetched::Disconnected)) => {
                if self.disconnected_ms.is_none() {
                    tracing::warn!("no broker answers; the client keeps trying");
                    self.disconnected_ms = Some(self.clock.now_ms());
                }
                self.metrics.connected.set(0);
                Ok(())
            }
            Arrival::Fetched(Some(Fetched::Chunk(mut chunk))) => {
                chunk.arrived_ms = self.clock.now_ms();
                self.get_acquainted(&chunk);
                if self.disconnected_ms.take().is_some() {
                    tracing::info!("the brokers answer again");
                }
                self.metrics.connected.set(1);
                self.metrics.bytes_read.add(chunk.payload_bytes() as u64);
                let slot = &mut self.slots[chunk.slot];
                slot.heard_ms = chunk.arrived_ms;
                slot.chunks.push_back(Arc::new(chunk));
                Ok(())
            }
        }
    }

    fn on_decoded(&mut self, at: usize, decoded: Decoded) -> Result<()> {
        let tables: Vec<TableId> = decoded.rows.iter().map(|(s, _)| s.table.clone()).collect();
        let is_current = self.is_current(&decoded.shapes, &tables);
        let slot = &mut self.slots[at];
        slot.busy = false;
        slot.cache = decoded.cache;
        let is_front = slot.chunks.front().is_some_and(|front| Arc::ptr_eq(front, &decoded.chunk));
        if !is_current || !is_front || slot.at != decoded.from {
            // Tables have changed meanwhile: once more.
            return Ok(());
        }
        slot.advance(decoded.until);
        slot.has_statements |= matches!(decoded.stop, Some(Stop::Ddl(..)));
        slot.stop = decoded.stop;
        slot.order = slot.order.max(decoded.order);
        self.commit_ms = self.commit_ms.max(decoded.commit_ms);
        self.metrics.records_read.add((decoded.until - decoded.from) as u64);
        self.metrics.markers.add(decoded.markers);
        self.metrics.bad_records.add(decoded.bad_records);
        for (_, change) in decoded.rows {
            self.metrics.rows_read.add(change.kinds.len() as u64);
            let target = Target::Hash(change.table.stable_hash());
            self.out.push((target, StreamRecord::Data(change)));
        }
        Ok(())
    }
}

#[async_trait]
impl SourceReader for KafkaReader {
    async fn next(&mut self, out: &mut Collector) -> Result<ReadStatus> {
        let deadline = Instant::now() + WAIT;
        loop {
            self.work()?;
            if self.out.len() >= RECORDS || Instant::now() >= deadline {
                break;
            }
            let emitted = !self.out.is_empty();
            let wait_until = if emitted { Instant::now() } else { deadline };
            let arrival = self.wait(wait_until).await;
            let nothing = matches!(arrival, Arrival::Nothing);
            self.on_arrival(arrival).await?;
            if nothing && emitted {
                break;
            }
        }
        self.upkeep()?;
        for (target, record) in self.out.drain(..) {
            out.emit(target, record);
        }
        Ok(ReadStatus { at_boundary: true, streaming: true })
    }

    async fn prepare_snapshot(&mut self, _: CheckpointId, out: &mut Collector) -> Result<()> {
        self.tell_progress();
        for (target, record) in self.out.drain(..) {
            out.emit(target, record);
        }
        Ok(())
    }

    async fn snapshot_state(&mut self, checkpoint: CheckpointId) -> Result<State> {
        let offsets: Vec<(TopicPartition, i64)> =
            self.slots.iter().map(|s| (s.id.clone(), s.position)).collect();
        let partition = |slot: &Slot| PartitionState {
            partition: slot.id.clone(),
            offset: slot.position,
            has_statements: slot.has_statements,
        };
        let mut tables: Vec<_> = self.shapes.tables.values().map(|shape| shape.state()).collect();
        tables.sort_by(|a, b| a.table.cmp(&b.table));
        let state = ReaderState {
            last_step: self.last_step,
            topics: self.topics.clone(),
            partitions: self.slots.iter().map(partition).collect(),
            tables,
            decided: self.decided.clone(),
            statements: self.statements.iter().copied().collect(),
            resets: self.resets,
            commit_ms: self.commit_ms,
        };
        if !self.decided.is_empty() && !self.ready {
            self.decided_in.get_or_insert(checkpoint);
        }
        self.to_commit.push_back((checkpoint, offsets));
        State::from_json(STATE_VERSION, &state)
    }

    async fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        if self.decided_in.is_some_and(|stored| stored <= checkpoint) {
            self.ready = true;
        }
        let mut newest = None;
        while self.to_commit.front().is_some_and(|(id, _)| *id <= checkpoint) {
            newest = self.to_commit.pop_front();
        }
        if let Some((_, offsets)) = newest.filter(|(_, offsets)| !offsets.is_empty()) {
            // For those who watch the group; nothing here depends on it.
            let offsets = list(offsets.iter().map(|(p, at)| (p, *at)))?;
            if let Err(e) = self.fetcher.consumer.commit(&offsets, CommitMode::Async) {
                tracing::debug!(
                    "progress could not be shown as offsets of the consumer group: {e}"
                );
            }
        }
        Ok(())
    }

    async fn close(&mut self) {
        self.metrics.connected.set(0);
        self.jobs.abort_all();
        while self.jobs.join_next().await.is_some() {}
    }
}
