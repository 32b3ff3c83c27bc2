//! Any DDL and rows of a few names, tables moving between the names, marks that come late, crashes: every table gets what
//! the source did to it, in that order, and no table is said to be further than it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use lakeward_core::*;
use lakeward_operators::ddl_handler::StreamDdlHandler;
use proptest::prelude::*;

use crate::scene::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What the source does, or what happens meanwhile.
#[derive(Debug, Clone)]
enum Step {
    Rows(usize),
    Comment(usize),
    Truncate(usize),
    /// Of a name that has no table.
    Create(usize),
    Drop(usize),
    /// To a name that has no table.
    Rename(usize, usize),
    /// Marks of some of the DDL that was asked for them arrive: one bit each.
    Marks(u64),
    Checkpoint,
    /// The process ends and begins again at the last checkpoint.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        6 => name().prop_map(Step::Rows),
        2 => name().prop_map(Step::Comment),
        1 => name().prop_map(Step::Truncate),
        2 => name().prop_map(Step::Create),
        1 => name().prop_map(Step::Drop),
        4 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        4 => any::<u64>().prop_map(Step::Marks),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Crash),
    ]
}

/// Tables by what created them, with everything that was done to each, and the names they have now.
#[derive(Debug, Default, Clone, PartialEq)]
struct Tables {
    by_name: BTreeMap<String, u64>,
    done: BTreeMap<u64, Vec<String>>,
}

impl Tables {
    fn apply(&mut self, record: &StreamRecord) {
        match record {
            StreamRecord::Data(change) => {
                let id = change.rows.column(0).as_primitive::<Int32Type>().value(0);
                let table = self.by_name.get(&*change.table.name).copied();
                let table = table.unwrap_or_else(|| panic!("rows {id} of no table"));
                self.done.entry(table).or_default().push(format!("rows {id}"));
            }
            StreamRecord::Schema(event) => {
                let (name, at) = (event.table.name.to_string(), event.position.lo);
                if event.changes == [SchemaChange::CreateTable] {
                    self.by_name.insert(name.clone(), at);
                }
                let table = self.by_name.get(&name).copied();
                let table = table.unwrap_or_else(|| panic!("ddl {at} of no table"));
                self.done.entry(table).or_default().push(format!("ddl {at}"));
                match &event.changes[0] {
                    SchemaChange::DropTable => {
                        self.by_name.remove(&name);
                    }
                    SchemaChange::RenameTable { to } => {
                        self.by_name.remove(&name);
                        self.by_name.insert(to.name.to_string(), table);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// A record of the source with its place, and the table name it is of.
fn record_of(step: &Step, at: u64, source: &Tables) -> Option<(String, StreamRecord)> {
    let has = |i: usize| source.by_name.contains_key(NAMES[i]);
    let (name, record) = match *step {
        Step::Rows(i) if has(i) => (i, rows(NAMES[i], at as i32..at as i32 + 1)),
        Step::Comment(i) if has(i) => (i, ddl(NAMES[i], at, comment())),
        Step::Truncate(i) if has(i) => (i, ddl(NAMES[i], at, SchemaChange::TruncateTable)),
        Step::Create(i) if !has(i) => (i, ddl(NAMES[i], at, SchemaChange::CreateTable)),
        Step::Drop(i) if has(i) => {
            let StreamRecord::Schema(event) = ddl(NAMES[i], at, SchemaChange::DropTable) else {
                return None;
            };
            (i, StreamRecord::Schema(SchemaEvent { after: None, ..event }))
        }
        Step::Rename(i, to) if has(i) && !has(to) => {
            let to = TableId::new("d", NAMES[to]);
            (i, ddl(NAMES[i], at, SchemaChange::RenameTable { to }))
        }
        _ => return None,
    };
    Some((NAMES[name].to_string(), record))
}

struct Run {
    world: Arc<World>,
    handler: StreamDdlHandler,
    out: Collector,
    attempt: u64,
    /// Everything the source has done, and how much of it was handed over.
    log: Vec<(u64, Step)>,
    read: usize,
    source: Tables,
    lake: Tables,
    /// Rows by name that were handed over and did not come out.
    inside: BTreeMap<String, BTreeSet<u64>>,
    asked: Vec<DdlId>,
    saved: Option<Saved>,
}

#[derive(Clone)]
struct Saved {
    state: State,
    read: usize,
    source: Tables,
    lake: Tables,
    inside: BTreeMap<String, BTreeSet<u64>>,
}

impl Run {
    async fn new() -> Self {
        let world = Arc::new(World::default());
        *world.tables.lock().unwrap() = Some(BTreeSet::new());
        let (handler, out) = handler(&world, 1, 1, None).await;
        Self {
            world,
            handler,
            out,
            attempt: 1,
            log: Vec::new(),
            read: 0,
            source: Tables::default(),
            lake: Tables::default(),
            inside: BTreeMap::new(),
            asked: Vec::new(),
            saved: None,
        }
    }

    /// Hands over what the log has beyond the reader.
    async fn read_on(&mut self) {
        while let Some((at, step)) = self.log.get(self.read).cloned() {
            self.read += 1;
            let Some((name, record)) = record_of(&step, at, &self.source) else { continue };
            self.source.apply(&record);
            if let StreamRecord::Data(_) = record {
                self.inside.entry(name).or_default().insert(at);
            } else {
                let before = progress(&format!("{at:06}"));
                self.handler.process(before, &mut self.out).await.unwrap();
            }
            self.handler.process(record, &mut self.out).await.unwrap();
            self.take_out().await;
        }
    }

    async fn take_out(&mut self) -> BTreeMap<String, u64> {
        let mut only_up_to = BTreeMap::new();
        loop {
            for (_, record) in self.out.drain().collect::<Vec<_>>() {
                self.lake.apply(&record);
                match record {
                    StreamRecord::Data(change) => {
                        let id = change.rows.column(0).as_primitive::<Int32Type>().value(0) as u64;
                        let inside = self.inside.get_mut(&*change.table.name);
                        assert!(inside.is_some_and(|i| i.remove(&id)), "rows {id} come twice");
                    }
                    StreamRecord::Mark(mark) => self.asked.push(mark.ddl),
                    StreamRecord::Progress(Progress { table: Some(table), offset, .. }) => {
                        let at = offset.0.parse().unwrap();
                        only_up_to.insert(table.name.to_string(), at);
                    }
                    _ => {}
                }
            }
            if !self.handler.has_more() {
                return only_up_to;
            }
            self.handler.emit_more(&mut self.out).await.unwrap();
        }
    }

    async fn marks(&mut self, which: u64) {
        for (i, id) in self.asked.iter().enumerate() {
            if which >> (i % 64) & 1 == 1 {
                for stage in [MarkStage::FilesComplete, MarkStage::RowsCommitted] {
                    self.world.leave(id, self.attempt, stage, 0).unwrap();
                }
            }
        }
        self.handler.tick(&mut self.out).await.unwrap();
        self.take_out().await;
    }

    async fn checkpoint(&mut self) {
        self.handler.prepare_snapshot(CheckpointId(1), &mut self.out).await.unwrap();
        let only_up_to = self.take_out().await;
        for (name, inside) in &self.inside {
            let Some(first) = inside.first() else { continue };
            let said = only_up_to.get(name);
            assert!(
                said.is_some_and(|said| said < first),
                "rows {first} of {name} wait, and it is said to be let through up to {said:?}"
            );
        }
        let state = self.handler.snapshot_state(CheckpointId(1)).await.unwrap();
        self.saved = Some(Saved {
            state,
            read: self.read,
            source: self.source.clone(),
            lake: self.lake.clone(),
            inside: self.inside.clone(),
        });
    }

    async fn crash(&mut self) {
        let Some(saved) = self.saved.clone() else { return };
        self.attempt += 1;
        let Saved { state, read, source, lake, inside } = saved;
        (self.read, self.source, self.lake, self.inside) = (read, source, lake, inside);
        self.asked.clear();
        (self.handler, self.out) = handler(&self.world, 1, self.attempt, Some(state)).await;
        self.take_out().await;
        self.read_on().await;
    }
}

async fn run(steps: Vec<Step>) {
    let mut run = Run::new().await;
    for (at, step) in steps.into_iter().enumerate() {
        match step {
            Step::Marks(which) => run.marks(which).await,
            Step::Checkpoint => run.checkpoint().await,
            Step::Crash => run.crash().await,
            step => {
                run.log.push((at as u64 + 1, step));
                run.read_on().await;
            }
        }
    }
    for _ in 0..200 {
        if !run.handler.holds() {
            break;
        }
        run.marks(u64::MAX).await;
    }
    assert!(!run.handler.holds(), "something waits for ever");
    assert_eq!(run.lake, run.source);
}

/// What went wrong once.
#[tokio::test]
async fn names_that_change_hands_while_ddl_waits() {
    use Step::*;
    for steps in [
        vec![Create(1), Rows(0), Rename(1, 3), Rows(3), Drop(3), Create(2), Rename(2, 3)],
        vec![
            Create(3),
            Create(0),
            Rows(0),
            Rename(3, 1),
            Rename(0, 3),
            Rename(3, 0),
            Rename(1, 3),
            Rename(3, 1),
        ],
        vec![
            Create(2),
            Create(0),
            Rows(0),
            Comment(0),
            Rename(2, 1),
            Rows(1),
            Drop(1),
            Rename(0, 1),
            Checkpoint,
        ],
    ] {
        run(steps).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn every_table_gets_its_own_in_order(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}
