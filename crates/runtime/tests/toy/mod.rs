//! A source that counts, operators that pass numbers on, and a sink that is a list: the smallest pipeline that needs all
//! that a runtime promises.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lakeward_core::*;
use lakeward_runtime::{Hooks, Job, JobHandle, JobOptions, MemoryStore, Timer, VirtualTime};

/// What outlives attempts, and the switches that tests turn.
#[derive(Default)]
pub struct World {
    pub time: VirtualTime,
    /// Set where the test is to run in real time.
    pub timer: OnceLock<Arc<dyn Timer>>,
    pub store: MemoryStore,
    /// Numbers in the order in which they were committed.
    pub lake: Mutex<Vec<u64>>,
    pub end: AtomicU64,
    pub emitted: AtomicU64,
    pub received: AtomicU64,
    pub acknowledged: AtomicU64,
    pub alive: AtomicUsize,
    pub never_at_boundary: AtomicBool,
    pub sink_delay_ms: AtomicU64,
    pub holds: AtomicBool,
    /// Once.
    pub fails_when_finished: AtomicBool,
    /// Work fails when it meets these numbers, once each.
    pub failures: Mutex<BTreeMap<u64, Failure>>,
    pub order: Mutex<Vec<String>>,
    pub progress: Mutex<HashMap<TableId, Offsets>>,
    pub resnapshots: Mutex<Vec<Vec<String>>>,
}

#[derive(Clone, Copy)]
pub enum Failure {
    Kind(ErrorKind),
    Panic,
}

impl World {
    pub fn new(end: u64) -> Arc<Self> {
        Arc::new(Self { end: end.into(), ..Self::default() })
    }

    pub fn options(&self, scratch: &tempfile::TempDir) -> JobOptions {
        JobOptions {
            checkpoint_interval: Duration::from_millis(100),
            checkpoint_min_pause: Duration::from_millis(20),
            clock: Arc::new(self.time.clone()),
            timer: Arc::new(self.time.clone()),
            seed: Some(1),
            ..JobOptions::new(Arc::new(self.store.clone()), scratch.path().join("scratch"))
        }
    }

    fn timer(&self) -> &dyn Timer {
        self.timer.get().map_or(&self.time as &dyn Timer, |t| &**t)
    }

    pub fn committed(&self) -> Vec<u64> {
        let mut numbers = self.lake.lock().unwrap().clone();
        numbers.sort_unstable();
        numbers
    }
}

/// Runs the test in simulated time; a hang fails it.
pub fn simulate(world: &Arc<World>, test: impl Future<Output = ()>) {
    let ended = world.time.block_on(Duration::from_secs(3600), test);
    assert!(ended.is_some(), "the test hangs");
}

pub fn start(world: &Arc<World>, options: JobOptions, parallelism: usize) -> JobHandle {
    let progress = world.clone();
    let hooks = Hooks {
        before_attempt: Some(Arc::new(move |_| {
            let progress = progress.progress.lock().unwrap().clone();
            let reached = |offsets| Reached { offsets, checkpoint: CheckpointId(0) };
            let progress = progress.into_iter().map(|(table, o)| (table, reached(o))).collect();
            Box::pin(async move { Ok(progress) })
        })),
        listener: None,
    };
    Job::start(plan(world, parallelism), options, hooks).expect("starts")
}

pub fn plan(world: &Arc<World>, parallelism: usize) -> Plan {
    let (work, commit) = (world.clone(), world.clone());
    Plan {
        pipeline: PipelineId("toy".into()),
        source: Arc::new(Counting(world.clone())),
        stages: vec![
            Stage::new("Work", parallelism, move |context| {
                work.alive.fetch_add(1, Ordering::Relaxed);
                Ok(Box::new(Work { world: work.clone(), context, seen: 0 }))
            })
            .with_redistribute(|states, parallelism| {
                let seen: u64 = states.iter().map(|s| s.to_json::<u64>()).sum::<Result<u64>>()?;
                let mut out = vec![State::from_json(1, &0u64)?; parallelism];
                out[0] = State::from_json(1, &seen)?;
                Ok(out)
            }),
            Stage::new("Commit", 1, move |context| {
                commit.alive.fetch_add(1, Ordering::Relaxed);
                let world = commit.clone();
                let (current, pending) = Default::default();
                Ok(Box::new(Commit { world, context, current, pending, offsets: Offsets::new() }))
            }),
        ],
    }
}

fn split() -> SplitId {
    SplitId("numbers".into())
}

pub fn offsets(n: u64) -> Offsets {
    [(split(), Offset(n.to_string().into()))].into()
}

fn number(offset: &Offset) -> u64 {
    offset.0.parse().expect("a number")
}

/// Numbers from 1, some each call; stands at a boundary after every third.
struct Counting(Arc<World>);

#[async_trait]
impl Source for Counting {
    async fn check(&self) -> Result<SourceCheck> {
        Ok(SourceCheck::default())
    }
    async fn open(&self, open: SourceOpen) -> Result<Box<dyn SourceReader>> {
        self.0.resnapshots.lock().unwrap().push(open.resnapshot);
        let at = open.restored.map_or(Ok(0), |s| s.to_json())?;
        Ok(Box::new(Reader { world: self.0.clone(), at, open: true }))
    }
    async fn current_offsets(&self) -> Result<Offsets> {
        Ok(offsets(self.0.end.load(Ordering::Relaxed)))
    }
    fn covers(&self, reached: &Offset, offset: &Offset) -> Result<bool> {
        Ok(number(reached) >= number(offset))
    }
}

struct Reader {
    world: Arc<World>,
    at: u64,
    open: bool,
}

#[async_trait]
impl SourceReader for Reader {
    async fn next(&mut self, out: &mut Collector) -> Result<ReadStatus> {
        self.world.timer().sleep(Duration::from_millis(2)).await;
        if self.at < self.world.end.load(Ordering::Relaxed) {
            self.at += 1;
            self.world.emitted.fetch_add(1, Ordering::Relaxed);
            out.emit(Target::Hash(self.at), record(self.at));
        }
        let at_boundary = !self.world.never_at_boundary.load(Ordering::Relaxed)
            && (self.at % 3 == 0 || self.at == self.world.end.load(Ordering::Relaxed));
        Ok(ReadStatus { at_boundary, streaming: self.at >= 6 })
    }
    async fn prepare_snapshot(&mut self, _: CheckpointId, out: &mut Collector) -> Result<()> {
        let offset = Offset(self.at.to_string().into());
        let progress = Progress { table: None, split: split(), offset, commit_ms: 0 };
        out.emit(Target::All, StreamRecord::Progress(progress));
        Ok(())
    }
    async fn snapshot_state(&mut self, _: CheckpointId) -> Result<State> {
        State::from_json(1, &self.at)
    }
    async fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.world.acknowledged.store(checkpoint.0, Ordering::Relaxed);
        Ok(())
    }
    async fn close(&mut self) {
        assert!(std::mem::take(&mut self.open), "closed once");
    }
}

fn record(n: u64) -> StreamRecord {
    StreamRecord::Committable(Committable {
        table: TableId::new("toy", "numbers"),
        version: 1,
        payload: n.to_le_bytes().to_vec(),
        rows: 1,
        size_bytes: 8,
        commit_ms: 0,
    })
}

/// Counts what it sees, as state, and passes it on.
struct Work {
    world: Arc<World>,
    context: OperatorContext,
    seen: u64,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.world.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Operator for Work {
    async fn open(&mut self, restored: Option<State>, _: &mut Collector) -> Result<()> {
        self.seen = restored.map_or(Ok(0), |s| s.to_json())?;
        assert!(self.context.scratch_dir.is_dir());
        Ok(())
    }
    async fn process(&mut self, record: StreamRecord, out: &mut Collector) -> Result<()> {
        let target = match &record {
            StreamRecord::Committable(c) => {
                self.seen += 1;
                let n = u64::from_le_bytes(c.payload[..].try_into().expect("eight bytes"));
                let failure = self.world.failures.lock().unwrap().remove(&n);
                match failure {
                    Some(Failure::Kind(kind)) => return Err(Error::new(kind, "told to fail")),
                    Some(Failure::Panic) => panic!("told to panic"),
                    None => Target::Index(0),
                }
            }
            _ => Target::All,
        };
        out.emit(target, record);
        Ok(())
    }
    async fn prepare_snapshot(&mut self, c: CheckpointId, _: &mut Collector) -> Result<()> {
        self.world.order.lock().unwrap().push(format!("{} prepare {c}", self.context.index));
        Ok(())
    }
    async fn snapshot_state(&mut self, _: CheckpointId) -> Result<State> {
        State::from_json(1, &self.seen)
    }
    fn holds(&self) -> bool {
        self.world.holds.load(Ordering::Relaxed)
    }
    async fn checkpoint_complete(&mut self, c: CheckpointId, _: &mut Collector) -> Result<()> {
        self.world.order.lock().unwrap().push(format!("{} complete {c}", self.context.index));
        Ok(())
    }
    async fn finish(&mut self, _: &mut Collector) -> Result<()> {
        self.world.order.lock().unwrap().push(format!("{} finish", self.context.index));
        match self.world.fails_when_finished.swap(false, Ordering::Relaxed) {
            true => Err(Error::transient("told to fail at the end")),
            false => Ok(()),
        }
    }
}

/// Commits epochs once, by their offsets, and reports them.
struct Commit {
    world: Arc<World>,
    context: OperatorContext,
    current: Vec<u64>,
    pending: BTreeMap<u64, (Vec<u64>, Offsets)>,
    offsets: Offsets,
}

impl Drop for Commit {
    fn drop(&mut self) {
        self.world.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Commit {
    fn commit(&mut self, checkpoint: u64) {
        while let Some(first) = self.pending.first_entry().filter(|e| *e.key() <= checkpoint) {
            let (id, (numbers, offsets)) = first.remove_entry();
            let mut lake = self.world.lake.lock().unwrap();
            let new: Vec<u64> = numbers.into_iter().filter(|n| !lake.contains(n)).collect();
            let rows = new.len() as u64;
            lake.extend(new);
            drop(lake);
            self.context.listener.epoch_committed(&EpochCommitted {
                checkpoint: CheckpointId(id),
                committer: (0, 1),
                offsets,
                commit_ms: 0,
                tables: BTreeMap::new(),
                rows,
                held: false,
            });
        }
    }
}

#[async_trait]
impl Operator for Commit {
    async fn open(&mut self, restored: Option<State>, _: &mut Collector) -> Result<()> {
        if let Some(restored) = restored {
            self.pending = restored.to_json()?;
            self.commit(u64::MAX);
        }
        Ok(())
    }
    async fn process(&mut self, record: StreamRecord, _: &mut Collector) -> Result<()> {
        match record {
            StreamRecord::Committable(c) => {
                self.world.received.fetch_add(1, Ordering::Relaxed);
                let delay_ms = self.world.sink_delay_ms.load(Ordering::Relaxed);
                if delay_ms > 0 {
                    self.world.timer().sleep(Duration::from_millis(delay_ms)).await;
                }
                self.current.push(u64::from_le_bytes(c.payload[..].try_into().expect("eight")));
            }
            StreamRecord::Progress(p) => {
                self.offsets.insert(p.split, p.offset);
            }
            _ => {}
        }
        Ok(())
    }
    async fn prepare_snapshot(&mut self, c: CheckpointId, _: &mut Collector) -> Result<()> {
        let numbers = std::mem::take(&mut self.current);
        let reached = number(&self.offsets[&split()]);
        assert!(numbers.iter().all(|n| *n <= reached), "a record overtook its barrier");
        self.pending.insert(c.0, (numbers, self.offsets.clone()));
        Ok(())
    }
    async fn snapshot_state(&mut self, _: CheckpointId) -> Result<State> {
        State::from_json(1, &self.pending)
    }
    async fn checkpoint_complete(&mut self, c: CheckpointId, _: &mut Collector) -> Result<()> {
        self.commit(c.0);
        Ok(())
    }
    async fn finish(&mut self, _: &mut Collector) -> Result<()> {
        Ok(())
    }
}
