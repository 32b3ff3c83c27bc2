//! What happens in a simulated run.

use std::time::Duration;

use lakeward_runtime::RestartStrategy;
use lakeward_values::{Database, Fault, Generator, Mix, Pace};

use super::Sabotage;

/// One life of a pipeline, until it has caught up. Crashes within it are followed by a new start with the same settings.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Run by a client while the pipeline runs, one after the other.
    pub statements: Vec<String>,
    /// Longest pause between two of them.
    pub pause_ms: u64,
    pub parallelism: usize,
    /// Before the start, this many of the newest checkpoints are lost.
    pub rewind: usize,
}

impl Phase {
    pub fn new(statements: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let statements = statements.into_iter().map(Into::into).collect();
        Self { statements, pause_ms: 25, parallelism: 1, rewind: 0 }
    }

    pub fn parallel(mut self, parallelism: usize) -> Self {
        self.parallelism = parallelism;
        self
    }

    pub fn rewound(mut self, checkpoints: usize) -> Self {
        self.rewind = checkpoints;
        self
    }

    pub fn in_one_burst(mut self) -> Self {
        self.pause_ms = 0;
        self
    }
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    /// Before the pipeline's first start: read by the snapshot.
    pub setup: Vec<String>,
    pub phases: Vec<Phase>,
    /// By step, counted over the whole run.
    pub faults: Vec<(u64, Fault)>,
    pub checkpoint_interval: Duration,
    pub pace: Pace,
    /// Longest time that a step of sink, store or source takes.
    pub latency_ms: u64,
    pub restart: RestartStrategy,
    pub sabotage: Option<Sabotage>,
}

impl Scenario {
    pub fn new(seed: u64, setup: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            seed,
            setup: setup.into_iter().map(Into::into).collect(),
            phases: Vec::new(),
            faults: Vec::new(),
            checkpoint_interval: Duration::from_millis(60),
            pace: Pace { seed, ..Pace::default() },
            latency_ms: 4,
            restart: RestartStrategy::FixedDelay {
                attempts: Some(20),
                delay: Duration::from_millis(15),
            },
            sabotage: None,
        }
    }

    /// Statements that a generator makes from the seed: some for the setup, some for each phase.
    pub fn random(seed: u64, mix: Mix, setup: usize, phases: &[usize]) -> Self {
        let database = Database::default();
        let mut tables = Generator::new(seed, Mix { columns: 0, renames: 0, truncates: 0, ..mix });
        let create = [
            "create table a (id int, v int, name varchar(20), primary key (id))",
            "create table b (id int, n int, w varchar(9), price decimal(9, 2), primary key (id, n))",
            "create table k (x int, y int)",
        ];
        let run = |generator: &mut Generator, statements| {
            generator.run(&database, statements).expect("a generator's statements run")
        };
        for statement in create {
            database.run(statement).expect("tables are made");
        }
        let setup = run(&mut tables, setup);
        let mut scenario = Self::new(seed, create.into_iter().map(String::from).chain(setup));
        // Keys and names go on where the setup's ended.
        tables.set_mix(mix);
        for statements in phases {
            scenario.phases.push(Phase::new(run(&mut tables, *statements)));
        }
        scenario
    }

    pub fn with_phase(mut self, phase: Phase) -> Self {
        self.phases.push(phase);
        self
    }

    pub fn with_fault(mut self, step: u64, fault: Fault) -> Self {
        self.faults.push((step, fault));
        self
    }

    pub fn with_sabotage(mut self, sabotage: Sabotage) -> Self {
        self.sabotage = Some(sabotage);
        self
    }
}
