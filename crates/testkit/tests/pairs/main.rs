//! The same scenarios from every source into every sink, in every mode, against one expected output.
//! `cargo test -p lakeward-testkit --test pairs -- "debezium to doris, killed"` runs those whose name has the words; a
//! word that names a scenario runs that one alone.
//!
//! A run takes all scenarios at once, each in a database of its own, so that tables with different fates share a
//! pipeline, its checkpoints and its crashes.

#![allow(clippy::print_stdout)]

mod doris;
mod held;
mod iceberg;
mod kafka;
mod mariadb;
mod run;
mod scenario;
mod tables;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use lakeward_testkit::require::or_skip;
use lakeward_testkit::server::{Options, Server};
use lakeward_testkit::{flink as cluster, kafka as broker, mariadb as database, venv};

use crate::kafka::Dialect;
use crate::run::{Engine, Mode, Run, Servers, SinkKind, SourceKind};
use crate::scenario::Scenario;

/// Runs at a time: much of a run is waiting for checkpoints.
const WORKERS: usize = 4;

static CLUSTERS: Mutex<()> = Mutex::new(());

fn runs() -> Vec<Run> {
    const DEBEZIUM: SourceKind = SourceKind::Kafka(Dialect::Debezium { schemas: false });
    const WITH_SCHEMAS: SourceKind = SourceKind::Kafka(Dialect::Debezium { schemas: true });
    const CANAL: SourceKind = SourceKind::Kafka(Dialect::Canal);
    let engine = Engine::Here;
    let mut runs = Vec::new();
    for mode in [Mode::Plain, Mode::Restarted, Mode::Killed, Mode::Parallel] {
        for source in [SourceKind::MariaDb, DEBEZIUM] {
            for sink in [SinkKind::Iceberg, SinkKind::Doris] {
                runs.push(Run { source, sink, mode, engine });
            }
        }
    }
    for source in [SourceKind::MariaDb, DEBEZIUM] {
        runs.push(Run { source, sink: SinkKind::Both, mode: Mode::Killed, engine });
    }
    for source in [WITH_SCHEMAS, CANAL] {
        for (sink, mode) in [(SinkKind::Iceberg, Mode::Killed), (SinkKind::Doris, Mode::Parallel)] {
            runs.push(Run { source, sink, mode, engine });
        }
    }
    runs.extend(on_flink().map(|(source, sink, mode, version)| Run {
        source,
        sink,
        mode,
        engine: Engine::Flink(version),
    }));
    runs
}

fn on_flink() -> impl Iterator<Item = (SourceKind, SinkKind, Mode, &'static str)> {
    const DEBEZIUM: SourceKind = SourceKind::Kafka(Dialect::Debezium { schemas: false });
    let [oldest, newest] = cluster::VERSIONS;
    let (mariadb, iceberg, doris) = (SourceKind::MariaDb, SinkKind::Iceberg, SinkKind::Doris);
    [
        (mariadb, iceberg, Mode::Plain, newest),
        (mariadb, iceberg, Mode::Killed, newest),
        (mariadb, iceberg, Mode::Restarted, newest),
        (mariadb, iceberg, Mode::Parallel, newest),
        (mariadb, iceberg, Mode::Moved, newest),
        (mariadb, iceberg, Mode::Killed, oldest),
        (mariadb, doris, Mode::Killed, newest),
        (DEBEZIUM, iceberg, Mode::Killed, newest),
        (DEBEZIUM, doris, Mode::Parallel, oldest),
        (DEBEZIUM, doris, Mode::Moved, newest),
    ]
    .into_iter()
}

/// A run and the scenarios that are wanted of it.
type Selected<'s> = (Run, Vec<&'s Scenario>);

/// A filter chooses runs, or scenarios, or one scenario of one run: `pair_keys from mariadb to doris, killed`.
fn select<'s>(scenarios: &'s [Scenario], filters: &[String]) -> Vec<Selected<'s>> {
    let wanted = |run: &Run, scenario: &Scenario| {
        let name = name_of(run, scenario);
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter))
    };
    let of_run = |run: Run| {
        let of_it: Vec<_> = scenarios.iter().filter(|s| wanted(&run, s)).collect();
        (!of_it.is_empty()).then_some((run, of_it))
    };
    runs().into_iter().filter_map(of_run).collect()
}

fn name_of(run: &Run, scenario: &Scenario) -> String {
    format!("{} from {}", scenario.name, run.name())
}

fn main() {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let scenarios = scenario::load().expect("the scenario files are readable");
    let mut selected = select(&scenarios, &filters);
    if std::env::args().any(|a| a == "--list") {
        for (run, scenarios) in &selected {
            scenarios.iter().for_each(|s| println!("{}: test", name_of(run, s)));
        }
        return;
    }
    let there = or_skip(venv::NAME, venv::find()).is_some()
        && or_skip("mariadb", database::find()).is_some();
    let flink = cluster::VERSIONS.iter().try_for_each(|version| cluster::find(version).map(drop));
    if or_skip(cluster::NAME, flink).is_none() {
        selected.retain(|(run, _)| run.engine == Engine::Here);
    }
    let Some(broker) = there.then(broker::start_or_skip).flatten() else { return };
    let count: usize = selected.iter().map(|(_, scenarios)| scenarios.len()).sum();
    println!("\nrunning {count} scenarios in {} runs", selected.len());
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let results = Results::default();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(selected.len()) {
            scope.spawn(|| {
                let mut mariadb: Option<Server> = None;
                while let Some((run, scenarios)) =
                    selected.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let mariadb = mariadb.get_or_insert_with(|| {
                        database::start(&Options::default()).expect("the installed MariaDB starts")
                    });
                    one(run, scenarios, &Servers { mariadb, broker: &broker }, &results);
                }
            });
        }
    });
    results.finish(begun);
}

fn one(run: &Run, scenarios: &[&Scenario], servers: &Servers<'_>, results: &Results) {
    let ends = run.ends();
    let (left_out, wanted): (Vec<&Scenario>, Vec<&Scenario>) =
        scenarios.iter().partition(|s| s.reason_not_to(&ends).is_some());
    for scenario in left_out {
        let because = scenario.reason_not_to(&ends).unwrap_or_default();
        println!("test {} ... ignored ({because})", name_of(run, scenario));
        results.ignored.fetch_add(1, Ordering::Relaxed);
    }
    if wanted.is_empty() {
        return;
    }
    // A cluster is several processes that want the machine for themselves.
    let _alone =
        (run.engine != Engine::Here).then(|| CLUSTERS.lock().unwrap_or_else(|e| e.into_inner()));
    let begun = Instant::now();
    let outcomes = match run.run(&wanted, servers) {
        Ok(outcomes) => outcomes,
        Err(error) => {
            results.fail(run.name(), format!("{error:#}"));
            let failed = |_: &&Scenario| Err(anyhow::anyhow!("the run failed"));
            wanted.iter().map(failed).collect()
        }
    };
    let seconds = begun.elapsed().as_secs_f32();
    for (scenario, outcome) in wanted.iter().zip(outcomes) {
        let name = name_of(run, scenario);
        match outcome {
            Ok(()) => {
                println!("test {name} ... ok ({seconds:.1} s the run)");
                results.passed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                println!("test {name} ... FAILED");
                results.count.fetch_add(1, Ordering::Relaxed);
                if error.to_string() != "the run failed" {
                    results.fail(name, format!("{error:#}"));
                }
            }
        }
    }
}

#[derive(Default)]
struct Results {
    passed: AtomicUsize,
    ignored: AtomicUsize,
    count: AtomicUsize,
    errors: Mutex<Vec<(String, String)>>,
}

impl Results {
    fn fail(&self, name: String, error: String) {
        self.errors.lock().expect("no holder panics").push((name, error));
    }

    fn finish(self, begun: Instant) {
        let mut errors = self.errors.into_inner().expect("no holder panics");
        errors.sort();
        for (name, error) in &errors {
            println!("\n---- {name}\n{error}");
        }
        let failed = self.count.into_inner();
        println!(
            "\ntest result: {}. {} passed; {failed} failed; {} ignored; finished in {:.2}s\n",
            if failed == 0 { "ok" } else { "FAILED" },
            self.passed.into_inner(),
            self.ignored.into_inner(),
            begun.elapsed().as_secs_f64()
        );
        if failed > 0 {
            std::process::exit(101);
        }
    }
}
