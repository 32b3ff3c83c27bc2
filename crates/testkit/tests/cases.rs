//! Runs every case of `cases/` on every server and in every mode. `cargo test -p lakeward-testkit --test cases -- floats`
//! runs those whose name has the word.
//!
//! A runner of its own, because the runs share servers: each of a few workers has one of each kind, so that a case may
//! change global settings.

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use lakeward_testkit::case_run::CaseRun;
use lakeward_testkit::cases::{self, Mode};
use lakeward_testkit::require::or_skip;
use lakeward_testkit::server::{Kind, Options, Server};
use lakeward_testkit::{mariadb, mysql9, venv};

/// Cases at a time: much of a run is waiting for checkpoints.
const WORKERS: usize = 4;

fn main() {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let listing = std::env::args().any(|a| a == "--list");
    let runs = select(&filters);
    if listing {
        runs.iter().for_each(|run| println!("{}: test", run.name()));
        return;
    }
    if or_skip(venv::NAME, venv::find()).is_none() {
        return;
    }
    println!("\nrunning {} case runs", runs.len());
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let ignored = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(runs.len()) {
            scope.spawn(|| {
                let mut servers: HashMap<Kind, Server> = HashMap::new();
                while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !has(run.kind) {
                        ignored.fetch_add(1, Ordering::Relaxed);
                        println!("test {} ... ignored", run.name());
                        continue;
                    }
                    let begun = Instant::now();
                    let outcome = server_of(&mut servers, run.kind).and_then(|s| run.run(s));
                    match outcome {
                        Ok(()) => {
                            let seconds = begun.elapsed().as_secs_f32();
                            println!("test {} ... ok ({seconds:.1} s)", run.name());
                        }
                        Err(error) => {
                            println!("test {} ... FAILED", run.name());
                            let mut failed = failed.lock().expect("no holder panics");
                            failed.push((run.name(), format!("{error:#}")));
                        }
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("no holder panics");
    failed.sort();
    for (name, error) in &failed {
        println!("\n---- {name}\n{error}");
    }
    let ignored = ignored.into_inner();
    println!(
        "\ntest result: {}. {} passed; {} failed; {ignored} ignored; finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        runs.len() - failed.len() - ignored,
        failed.len(),
        begun.elapsed().as_secs_f64()
    );
    if !failed.is_empty() {
        std::process::exit(101);
    }
}

/// One server kind after the other, so that at most one of each is busy per worker.
fn select(filters: &[String]) -> Vec<CaseRun> {
    let mut runs = Vec::new();
    let cases = cases::load().expect("the case files are readable");
    for kind in [Kind::MariaDb, Kind::MySql9] {
        for case in cases.iter().filter(|c| c.runs_on(kind)) {
            for mode in case.modes() {
                runs.push(CaseRun { case: case.clone(), mode, variant: None, kind });
            }
            for variant in &case.variants {
                let variant = Some(variant.clone());
                runs.push(CaseRun { case: case.clone(), mode: Mode::Plain, variant, kind });
            }
        }
    }
    runs.retain(|run| filters.is_empty() || filters.iter().any(|f| run.name().contains(f)));
    runs
}

/// Whether a server can be started here; the answer is found, and reported, once.
fn has(kind: Kind) -> bool {
    static MARIADB: OnceLock<bool> = OnceLock::new();
    static MYSQL9: OnceLock<bool> = OnceLock::new();
    *match kind {
        Kind::MariaDb => MARIADB.get_or_init(|| or_skip(kind.name(), mariadb::find()).is_some()),
        Kind::MySql9 => MYSQL9.get_or_init(|| or_skip(kind.name(), mysql9::find()).is_some()),
    }
}

fn server_of(servers: &mut HashMap<Kind, Server>, kind: Kind) -> anyhow::Result<&Server> {
    Ok(match servers.entry(kind) {
        Entry::Occupied(running) => running.into_mut(),
        Entry::Vacant(place) => place.insert(match kind {
            Kind::MariaDb => mariadb::start(&Options::default())?,
            Kind::MySql9 => mysql9::start(&Options::default())?,
        }),
    })
}
