//! The thread that fetches: polls the client and hands on runs of records, partition by partition. A partition of which the
//! reader has enough is paused, so that the others go on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lakeward_core::{Error, Result};
use rdkafka::Message;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::client::{ClientConsumer, kind_of, list};
use crate::offset::TopicPartition;
use crate::partition::Chunk;

/// A run is handed on when it has this many bytes or records, or this age.
const RUN_BYTES: usize = 512 << 10;
const RUN_RECORDS: usize = 4096;
const RUN_AGE: Duration = Duration::from_millis(10);

/// What the thread has to say.
pub enum Fetched {
    Chunk(Chunk),
    /// The client asks for a record that the brokers do not have.
    OffsetLost,
    /// No broker answers; the client keeps trying.
    Disconnected,
    Failed(Error),
}

/// What the reader and the thread know together of one partition.
#[derive(Default)]
pub struct Backlog {
    /// Bytes that were handed on and are not done.
    pub bytes: AtomicUsize,
}

/// A running fetch thread. It ends when this is dropped.
pub struct Fetcher {
    pub received: UnboundedReceiver<Fetched>,
    pub consumer: Arc<ClientConsumer>,
    commands: std::sync::mpsc::Sender<Command>,
    stop: Arc<AtomicBool>,
}

enum Command {
    Assign(Vec<Assignment>),
}

/// A partition to read, from where, under which number.
pub struct Assignment {
    pub partition: TopicPartition,
    pub offset: i64,
    pub slot: usize,
    pub backlog: Arc<Backlog>,
}

impl Fetcher {
    /// `limit_bytes` is what one partition may have waiting.
    pub fn start(consumer: ClientConsumer, limit_bytes: usize) -> Result<Self> {
        let consumer = Arc::new(consumer);
        let (sender, received) = mpsc::unbounded_channel();
        let (commands, commands_received) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = Thread {
            consumer: consumer.clone(),
            commands: commands_received,
            sender,
            stop: stop.clone(),
            limit_bytes,
            slots: Vec::new(),
            by_name: HashMap::new(),
        };
        std::thread::Builder::new()
            .name("kafka-fetch".into())
            .spawn(move || thread.run())
            .map_err(|e| Error::transient("could not start a thread").with_source(e))?;
        Ok(Self { received, consumer, commands, stop })
    }

    /// Reads these partitions too. Their numbers follow those that are assigned already.
    pub fn assign(&self, more: Vec<Assignment>) -> Result<()> {
        self.commands
            .send(Command::Assign(more))
            .map_err(|_| Error::transient("the thread that fetches has ended"))
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

struct Slot {
    partition: TopicPartition,
    backlog: Arc<Backlog>,
    paused: bool,
    run: Option<(Chunk, Instant)>,
}

struct Thread {
    consumer: Arc<ClientConsumer>,
    commands: std::sync::mpsc::Receiver<Command>,
    sender: UnboundedSender<Fetched>,
    stop: Arc<AtomicBool>,
    limit_bytes: usize,
    slots: Vec<Slot>,
    by_name: HashMap<Arc<str>, HashMap<i32, usize>>,
}

impl Thread {
    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            if let Err(e) = self.round() {
                let _ = self.sender.send(Fetched::Failed(e));
                return;
            }
            if self.sender.is_closed() {
                return;
            }
        }
    }

    fn round(&mut self) -> Result<()> {
        while let Ok(Command::Assign(more)) = self.commands.try_recv() {
            self.assign(more)?;
        }
        self.resume()?;
        let waiting = self.slots.iter().any(|slot| slot.run.is_some());
        let patience = if waiting { RUN_AGE } else { Duration::from_millis(50) };
        let polled = self.consumer.clone();
        // Many records lie ready at a time: they are taken without a look at anything else.
        for turn in 0..RUN_RECORDS {
            let wait = if turn == 0 { patience } else { Duration::ZERO };
            match polled.poll(wait) {
                None => break,
                Some(Ok(message)) => self.take(&message),
                Some(Err(e)) => self.on_error(e)?,
            }
        }
        self.hand_on_old()?;
        Ok(())
    }

    fn assign(&mut self, more: Vec<Assignment>) -> Result<()> {
        let partitions = list(more.iter().map(|a| (&a.partition, a.offset)))?;
        self.consumer.incremental_assign(&partitions).map_err(|e| {
            Error::transient("the kafka client does not take partitions").with_source(e)
        })?;
        for Assignment { partition, slot, backlog, .. } in more {
            if slot != self.slots.len() {
                return Err(Error::bug("partitions are assigned out of turn"));
            }
            let by_number = self.by_name.entry(partition.topic.clone()).or_default();
            by_number.insert(partition.partition, slot);
            self.slots.push(Slot { partition, backlog, paused: false, run: None });
        }
        Ok(())
    }

    fn take(&mut self, message: &rdkafka::message::BorrowedMessage<'_>) {
        let by_number = self.by_name.get(message.topic());
        let Some(at) = by_number.and_then(|m| m.get(&message.partition())).copied() else { return };
        let slot = &mut self.slots[at];
        let (run, _) = slot.run.get_or_insert_with(|| (Chunk::new(at), Instant::now()));
        let timestamp_ms = message.timestamp().to_millis().unwrap_or(0);
        run.push(message.offset(), timestamp_ms, message.key(), message.payload());
        if run.payload_bytes() >= RUN_BYTES || run.records.len() >= RUN_RECORDS {
            self.hand_on(at);
        }
    }

    fn hand_on(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if let Some((run, _)) = slot.run.take() {
            slot.backlog.bytes.fetch_add(run.size_bytes(), Ordering::AcqRel);
            let _ = self.sender.send(Fetched::Chunk(run));
        }
    }

    fn hand_on_old(&mut self) -> Result<()> {
        for at in 0..self.slots.len() {
            if self.slots[at].run.as_ref().is_some_and(|(_, since)| since.elapsed() >= RUN_AGE) {
                self.hand_on(at);
            }
            let slot = &mut self.slots[at];
            if !slot.paused && slot.backlog.bytes.load(Ordering::Acquire) > self.limit_bytes {
                self.consumer.pause(&list([(&slot.partition, 0)])?).map_err(pausing)?;
                slot.paused = true;
            }
        }
        Ok(())
    }

    fn resume(&mut self) -> Result<()> {
        for slot in self.slots.iter_mut().filter(|slot| slot.paused) {
            if slot.backlog.bytes.load(Ordering::Acquire) <= self.limit_bytes / 2 {
                self.consumer.resume(&list([(&slot.partition, 0)])?).map_err(pausing)?;
                slot.paused = false;
            }
        }
        Ok(())
    }

    fn on_error(&mut self, error: KafkaError) -> Result<()> {
        use RDKafkaErrorCode::*;
        let code = error.rdkafka_error_code();
        let said = match code {
            Some(OffsetOutOfRange | AutoOffsetReset) => Fetched::OffsetLost,
            Some(AllBrokersDown | Resolve) => Fetched::Disconnected,
            _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => Fetched::Failed(
                Error::transient("the kafka client cannot go on").with_source(error),
            ),
            _ if kind_of(code) == lakeward_core::ErrorKind::Config => {
                let refusal = self.consumer.context().refusal();
                let refusal =
                    refusal.unwrap_or_else(|| Error::config("the brokers refuse this account"));
                Fetched::Failed(refusal.with_source(error))
            }
            // The client deals with the rest by itself, and the search for partitions sees topics that are gone.
            _ => {
                tracing::debug!("the kafka client reports {error}");
                return Ok(());
            }
        };
        let _ = self.sender.send(said);
        Ok(())
    }
}

fn pausing(error: KafkaError) -> Error {
    Error::transient("the kafka client does not pause a partition").with_source(error)
}
