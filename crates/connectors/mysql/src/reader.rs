//! The reader: one ordered stream out of the log, the snapshots and the catalog.
//!
//! Tasks own the sockets; everything that changes state happens in [`MysqlReader::next`], between two waits. So a future
//! of it that is dropped loses nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lakeward_core::{
    CheckpointId, Clock, Collector, Error, ErrorKind, ReadStatus, Result, SourceReader, State,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backfill::Backfill;
use crate::binlog::DecoderState;
use crate::client::{Backoff, Client, ServerFacts};
use crate::dump::{DumpStream, EventBatch, Replica};
use crate::establish::{Established, ReplicaIds, StreamRequest, establish};
use crate::log::LogCore;
use crate::offset::{FilePosition, LogOffset};
use crate::shapes::{Shapes, read_some};
use crate::snapshot::{Answer, SnapshotPool};
use crate::state::{ReaderState, STATE_VERSION, TableState};

/// The longest that [`SourceReader::next`] waits.
const WAIT: Duration = Duration::from_millis(30);
/// How long rows wait for company when the log is quiet.
const LINGER_MS: i64 = 100;
/// How often the position is told when there are no rows.
const PROGRESS_MS: i64 = 1_000;
/// Records that one call emits before it returns.
const RECORDS: usize = 4;

mod connection;

/// The log stream, or the way to it.
enum Stream {
    Connecting(JoinHandle<Result<Established>>),
    On { dump: DumpStream, replica: Replica },
}

/// A prepared XA transaction being read from the log again.
struct Detour {
    opening: Option<JoinHandle<Result<DumpStream>>>,
    dump: Option<DumpStream>,
    decoder: DecoderState,
    at: FilePosition,
    until: FilePosition,
}

pub struct MysqlReader {
    pub core: LogCore,
    pub backfill: Backfill,
    client: Client,
    facts: ServerFacts,
    ids: ReplicaIds,
    ahead_bytes: usize,
    /// The log is read only as long as snapshots need it.
    snapshot_only: bool,
    clock: Arc<dyn Clock>,
    stream: Stream,
    batch: Option<EventBatch>,
    next_event: usize,
    pool: Option<SnapshotPool>,
    shapes: Option<JoinHandle<Result<Shapes>>>,
    detour: Option<Detour>,
    /// From where the stream was asked for last.
    resumed: LogOffset,
    heard_ms: i64,
    connected_ms: i64,
    /// Losses of the stream soon after it was there.
    losses: Backoff,
    progress_ms: i64,
    rows_since_ms: Option<i64>,
}

/// What a wait brought.
enum Arrival {
    Events(Result<EventBatch>),
    Connected(Result<Established>),
    Rows(Answer),
    Shapes(Result<Shapes>),
    DetourOpen(Result<DumpStream>),
    DetourEvents(Result<EventBatch>),
    Nothing,
}

impl MysqlReader {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        core: LogCore,
        backfill: Backfill,
        client: Client,
        facts: ServerFacts,
        ids: ReplicaIds,
        ahead_bytes: usize,
        snapshot_only: bool,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let now_ms = clock.now_ms();
        let resumed = core.boundary.clone();
        let request = StreamRequest {
            client: client.clone(),
            resume: core.boundary.clone(),
            ids: ids.clone(),
            ahead_bytes,
            mid_transaction: false,
        };
        Self {
            core,
            backfill,
            client,
            facts,
            ids,
            ahead_bytes,
            snapshot_only,
            clock,
            stream: Stream::Connecting(tokio::spawn(establish(request))),
            batch: None,
            next_event: 0,
            pool: None,
            shapes: None,
            detour: None,
            resumed,
            heard_ms: now_ms,
            connected_ms: now_ms,
            losses: Backoff::default(),
            progress_ms: now_ms,
            rows_since_ms: None,
        }
    }

    /// Works through what has arrived, up to a handful of records.
    fn work(&mut self) -> Result<()> {
        loop {
            if self.core.out.len() >= RECORDS || self.detour.is_some() {
                return Ok(());
            }
            if self.core.reread.is_some() {
                return self.begin_detour();
            }
            if self.core.is_at_boundary() {
                self.at_boundary()?;
            }
            if self.pauses_log() {
                return Ok(());
            }
            let Some(raw) = self.next_event() else { return Ok(()) };
            self.core.on_event(&raw)?;
        }
    }

    fn next_event(&mut self) -> Option<Bytes> {
        let batch = self.batch.as_ref()?;
        match batch.events.get(self.next_event) {
            Some(raw) => {
                self.next_event += 1;
                Some(raw.clone())
            }
            None => {
                self.batch = None;
                self.next_event = 0;
                None
            }
        }
    }

    fn at_boundary(&mut self) -> Result<()> {
        if self.shapes.is_none() && !self.core.asked.is_empty() {
            let wanted = std::mem::take(&mut self.core.asked);
            let (client, facts) = (self.client.clone(), self.facts.clone());
            self.shapes = Some(tokio::spawn(read_some(client, facts, wanted)));
        }
        // Without the stream nothing says that the server is still the one whose positions these are.
        if !matches!(self.stream, Stream::On { .. }) {
            return Ok(());
        }
        let (client, facts) = (&self.client, &self.facts);
        let (pool, workers) = (&mut self.pool, self.backfill.options.workers);
        let mut submit = |job| {
            pool.get_or_insert_with(|| SnapshotPool::start(client, facts, workers)).submit(job);
        };
        self.backfill.step(&mut self.core, self.clock.now_ms(), &mut submit)?;
        if self.pool.is_some() && self.backfill.jobs_out == 0 && self.is_streaming() {
            // The workers' connections are not needed any more.
            self.pool = None;
        }
        Ok(())
    }

    fn pauses_log(&self) -> bool {
        let finished = || self.snapshot_only && self.core.is_at_boundary() && self.is_streaming();
        self.backfill.pauses_log() || finished()
    }

    fn is_streaming(&self) -> bool {
        self.core.tables.slots.iter().all(|s| s.is_done())
    }

    async fn wait(&mut self, deadline: Instant) -> Arrival {
        let wants_events = self.batch.is_none() && self.detour.is_none() && !self.pauses_log();
        let stream = async {
            match &mut self.stream {
                Stream::Connecting(task) => Arrival::Connected(joined(task).await),
                Stream::On { dump, .. } if wants_events => Arrival::Events(dump.next().await),
                Stream::On { .. } => std::future::pending().await,
            }
        };
        let rows = async {
            match &mut self.pool {
                Some(pool) => match pool.next().await {
                    Some(answer) => Arrival::Rows(answer),
                    None => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        let shapes = async {
            match &mut self.shapes {
                Some(task) => Arrival::Shapes(joined(task).await),
                None => std::future::pending().await,
            }
        };
        let detour = async {
            match &mut self.detour {
                Some(Detour { opening: Some(task), .. }) => Arrival::DetourOpen(joined(task).await),
                Some(Detour { dump: Some(dump), .. }) => Arrival::DetourEvents(dump.next().await),
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            arrival = stream => arrival,
            arrival = rows => arrival,
            arrival = shapes => arrival,
            arrival = detour => arrival,
            _ = tokio::time::sleep_until(deadline) => Arrival::Nothing,
        }
    }

    fn on_arrival(&mut self, arrival: Arrival) -> Result<()> {
        match arrival {
            Arrival::Nothing => Ok(()),
            Arrival::Events(Ok(batch)) => {
                self.heard_ms = self.clock.now_ms();
                self.batch = Some(batch);
                self.next_event = 0;
                Ok(())
            }
            Arrival::Events(Err(e)) => self.on_lost(e),
            Arrival::Connected(result) => self.on_connected(result?),
            Arrival::Rows(answer) => {
                self.backfill.on_answer(&mut self.core, answer, self.clock.now_ms())
            }
            Arrival::Shapes(result) => {
                self.shapes = None;
                self.on_shapes(result?);
                Ok(())
            }
            Arrival::DetourOpen(result) => {
                let dump = result?;
                if let Some(detour) = &mut self.detour {
                    detour.opening = None;
                    detour.dump = Some(dump);
                }
                Ok(())
            }
            Arrival::DetourEvents(result) => self.on_detour_events(result?),
        }
    }

    /// Hands on what has waited long enough, and tells where we are.
    fn linger(&mut self) -> Result<()> {
        let now_ms = self.clock.now_ms();
        if self.core.has_waiting_rows() {
            let since = *self.rows_since_ms.get_or_insert(now_ms);
            let quiet = self.batch.is_none();
            if quiet && now_ms - since >= LINGER_MS {
                self.core.flush_all()?;
                self.rows_since_ms = None;
            }
        } else {
            self.rows_since_ms = None;
        }
        if now_ms - self.progress_ms >= PROGRESS_MS && self.core.is_at_boundary() {
            self.progress_ms = now_ms;
            self.core.flush_all()?;
            self.core.emit_progress()?;
        }
        self.tell_lag(now_ms);
        Ok(())
    }

    fn tell_lag(&self, now_ms: i64) {
        let lag_ms = match &self.stream {
            // Nothing is known of what happens there.
            Stream::Connecting(_) => now_ms - self.heard_ms,
            Stream::On { .. } if self.batch.is_some() || self.backfill.pauses_log() => {
                let newest = self.core.group.as_ref().map_or(self.core.commit_ms, |g| g.commit_ms);
                now_ms - newest.max(1)
            }
            Stream::On { .. } => 0,
        };
        self.core.metrics.lag_ms.set(lag_ms.max(0));
    }
}

#[async_trait]
impl SourceReader for MysqlReader {
    /// Without a snapshot, the shapes that were read at the start are needed for the first rows, and are not state yet.
    fn begins_at_boundary(&self) -> bool {
        self.core.tables.slots.iter().all(|slot| slot.intent.snapshot)
    }

    async fn next(&mut self, out: &mut Collector) -> Result<ReadStatus> {
        let deadline = Instant::now() + WAIT;
        loop {
            let worked = self.work();
            // What was made before the error is in order and may go out.
            let done = !self.core.out.is_empty();
            for (target, record) in self.core.out.drain(..) {
                out.emit(target, record);
            }
            worked?;
            if done || Instant::now() >= deadline {
                break;
            }
            let arrival = self.wait(deadline).await;
            self.on_arrival(arrival)?;
        }
        self.linger()?;
        for (target, record) in self.core.out.drain(..) {
            out.emit(target, record);
        }
        Ok(ReadStatus { at_boundary: self.core.is_at_boundary(), streaming: self.is_streaming() })
    }

    async fn prepare_snapshot(&mut self, _: CheckpointId, out: &mut Collector) -> Result<()> {
        if !self.core.is_at_boundary() {
            return Err(Error::bug("a barrier was asked for inside a transaction"));
        }
        self.core.flush_all()?;
        self.core.emit_progress()?;
        for (target, record) in self.core.out.drain(..) {
            out.emit(target, record);
        }
        Ok(())
    }

    async fn snapshot_state(&mut self, _: CheckpointId) -> Result<State> {
        let tables = self
            .core
            .tables
            .slots
            .iter()
            .map(|slot| TableState {
                table: slot.id.clone(),
                snapshot: slot.snapshot_state(),
                rows_from: slot.rows_from,
                announced: slot.announced,
            })
            .collect();
        let state = ReaderState {
            offset: self.core.boundary.clone(),
            commit_ms: self.core.commit_ms,
            history: self.core.history.clone(),
            tables,
            prepared: self.core.prepared.iter().map(|p| p.state()).collect(),
        };
        State::from_json(STATE_VERSION, &state)
    }

    async fn checkpoint_complete(&mut self, _: CheckpointId) -> Result<()> {
        // The server keeps its log by time and size and takes no acknowledgement.
        Ok(())
    }

    async fn close(&mut self) {
        self.pool = None;
        self.detour = None;
        if let Some(task) = self.shapes.take() {
            task.abort();
        }
        if let Stream::Connecting(task) = &self.stream {
            task.abort();
        }
        self.stream = Stream::Connecting(tokio::spawn(async {
            Err(Error::transient("the reader is closed"))
        }));
        self.core.metrics.connected.set(0);
    }
}

async fn joined<T>(task: &mut JoinHandle<Result<T>>) -> Result<T> {
    match task.await {
        Ok(result) => result,
        Err(e) => {
            Err(Error::new(ErrorKind::Bug, "a task of the reader ended badly").with_source(e))
        }
    }
}
