//! The files of `cases/kafka`, each in every mode, against the same expected tables.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use lakeward_testkit::cache;
use lakeward_testkit::kafka::Broker;
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::topics::Topics;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::scene::{check_table, shared_broker};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(skip)]
    name: String,
    #[allow(dead_code)]
    title: String,
    /// Public reports of the fault.
    #[serde(default)]
    #[allow(dead_code)]
    seen: Vec<String>,
    format: String,
    /// One record a line: `{"k":…,"v":…}` for Debezium, the bare value for the others. To one partition, in this order.
    records: String,
    #[serde(default = "one")]
    partitions: i32,
    #[serde(default)]
    source: Map<String, Value>,
    #[serde(default)]
    pipeline: Map<String, Value>,
    #[serde(default)]
    expect: BTreeMap<String, Expected>,
    /// Iceberg types of columns.
    #[serde(default)]
    types: BTreeMap<String, BTreeMap<String, String>>,
    /// The run must stop, with a log that has this.
    stops: Option<String>,
    #[serde(default)]
    absent: Vec<String>,
}

fn one() -> i32 {
    1
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// Everything is in the topic before the pipeline starts.
    Before,
    /// Each record arrives while the pipeline streams.
    Live,
    /// `kill -9` and a new start at several moments while records arrive.
    Killed,
}

fn load() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(cache::workspace().join("crates/testkit/cases/kafka"))? {
        let path = entry?.path();
        let mut case: Case = serde_saphyr::from_str(&fs::read_to_string(&path)?)
            .with_context(|| format!("case {}", path.display()))?;
        case.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if case.expect.is_empty() && case.stops.is_none() {
            bail!("{} expects nothing", case.name);
        }
        cases.push(case);
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// Key and value of a line.
fn record(case: &Case, line: &str) -> Result<(Option<String>, Option<String>)> {
    if case.format != "debezium-json" {
        return Ok((None, Some(line.to_owned())));
    }
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        k: &'a serde_json::value::RawValue,
        #[serde(borrow)]
        v: &'a serde_json::value::RawValue,
    }
    let line: Line<'_> = serde_json::from_str(line).with_context(|| format!("in {line}"))?;
    let text =
        |raw: &serde_json::value::RawValue| (raw.get() != "null").then(|| raw.get().to_owned());
    Ok((text(line.k), text(line.v)))
}

fn run(case: &Case, mode: Mode, broker: &Broker) -> Result<()> {
    let topic = format!("{}-{mode:?}", case.name).to_lowercase();
    let topics = Topics::new(broker)?;
    topics.create(&topic, case.partitions)?;
    let mut lakeward = Lakeward::in_temporary_folder(|folder| {
        Pipeline::of_kafka(&topic, &broker.address(), &topic, &case.format, folder)
            .set_all("source", &case.source)
            .set_all("pipeline", &case.pipeline)
    })?;
    let outcome = drive(case, mode, &topics, &topic, &mut lakeward);
    let _ = lakeward.kill();
    outcome.map_err(|error| {
        let kept = lakeward.keep_folder();
        anyhow!("{} {mode:?}: {error:#}\n  kept: {}", case.name, kept.display())
    })
}

fn drive(
    case: &Case,
    mode: Mode,
    topics: &Topics,
    topic: &str,
    lakeward: &mut Lakeward,
) -> Result<()> {
    let lines: Vec<_> = case.records.lines().filter(|l| !l.trim().is_empty()).collect();
    let records: Vec<_> = lines.iter().map(|line| record(case, line)).collect::<Result<_>>()?;
    let produce = |at: usize| {
        let (key, value) = &records[at];
        let bytes = |text: &Option<String>| text.as_ref().map(|t| t.clone().into_bytes());
        let (key, value) = (bytes(key), bytes(value));
        topics.produce(topic, 0, &[(key.as_deref(), value.as_deref())])
    };
    match mode {
        Mode::Before => {
            (0..records.len()).try_for_each(produce)?;
            lakeward.start()?;
        }
        Mode::Live => {
            lakeward.start()?;
            lakeward.wait_streaming()?;
            for at in 0..records.len() {
                produce(at)?;
                std::thread::sleep(Duration::from_millis(120));
            }
        }
        Mode::Killed => {
            lakeward.start()?;
            for at in 0..records.len() {
                produce(at)?;
                std::thread::sleep(Duration::from_millis(250 + 370 * (at as u64 % 4)));
                lakeward.kill()?;
                lakeward.start()?;
            }
        }
    }
    if let Some(words) = &case.stops {
        let code = lakeward.exit_within(Duration::from_secs(60))?;
        let tail = lakeward.tail(6);
        if code == 0 || !tail.contains(words.as_str()) {
            bail!("it was to stop with `{words}`, and ended with {code}: {tail}");
        }
    } else {
        if !lakeward.is_up_within(Duration::from_secs(60))? {
            bail!("the run ended by itself: {}", lakeward.tail(8));
        }
        lakeward.wait_caught_up()?;
        lakeward.stop()?;
    }
    if let Some(line) = lakeward.log().lines().find(|line| line.contains("panicked at")) {
        bail!("a panic: {line}");
    }
    check(case, lakeward)
}

fn check(case: &Case, lakeward: &Lakeward) -> Result<()> {
    for (name, expected) in &case.expect {
        check_table(lakeward, name, &expected.columns, &expected.rows)?;
    }
    for (name, columns) in &case.types {
        let (namespace, short) = name.split_once('.').context("a table is namespace.name")?;
        let table = lakeward.lake().table(namespace, short)?;
        for (column, kind) in columns {
            let found = table.columns.iter().find(|c| c.name == *column);
            let found = found.with_context(|| format!("{name} has no column {column}"))?;
            if found.kind != *kind {
                bail!("{name}.{column} is {}, not {kind}", found.kind);
            }
        }
    }
    for name in &case.absent {
        let (namespace, short) = name.split_once('.').context("a table is namespace.name")?;
        if lakeward.lake().table(namespace, short).is_ok() {
            bail!("{name} must not be in the lake");
        }
    }
    Ok(())
}

fn run_all(mode: Mode) {
    let Some(broker) = shared_broker() else { return };
    let cases = load().expect("the case files are readable");
    assert!(cases.len() >= 6, "{}", cases.len());
    let wanted = std::env::var("LAKEWARD_KAFKA_CASE").unwrap_or_default();
    let failed: Vec<String> = cases
        .iter()
        .filter(|case| case.name.contains(&wanted))
        .filter_map(|case| run(case, mode, broker).err().map(|e| format!("{e:#}")))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn cases_before() {
    run_all(Mode::Before);
}

#[test]
fn cases_live() {
    run_all(Mode::Live);
}

#[test]
fn cases_killed() {
    run_all(Mode::Killed);
}
