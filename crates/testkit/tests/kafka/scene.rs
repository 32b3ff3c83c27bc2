//! A broker, topics, and a pipeline that brings them into a lake.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lakeward_testkit::form::{of_expected, of_lake_kind};
use lakeward_testkit::kafka::{self, Broker};
use lakeward_testkit::lake::Reader;
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::require::or_skip;
use lakeward_testkit::topics::Topics;
use lakeward_testkit::venv;
use serde_json::Value;

/// A broker for the tests that leave it running.
pub fn shared_broker() -> Option<&'static Broker> {
    static SHARED: OnceLock<Option<Broker>> = OnceLock::new();
    or_skip(kafka::NAME, kafka::find())?;
    or_skip(venv::NAME, venv::find())?;
    SHARED.get_or_init(kafka::start_or_skip).as_ref()
}

pub struct Scene {
    pub topics: Topics,
    pub topic: String,
    pub lakeward: Lakeward,
    pub pipeline: Pipeline,
}

impl Scene {
    pub fn new(broker: &Broker, topic: &str, partitions: i32, format: &str) -> Self {
        Self::with(broker, topic, partitions, format, |pipeline| pipeline)
    }

    pub fn with(
        broker: &Broker,
        topic: &str,
        partitions: i32,
        format: &str,
        options: impl FnOnce(Pipeline) -> Pipeline,
    ) -> Self {
        let topics = Topics::new(broker).unwrap();
        topics.create(topic, partitions).unwrap();
        let mut made = None;
        let lakeward = Lakeward::in_temporary_folder(|folder| {
            let pipeline = Pipeline::of_kafka(topic, &broker.address(), topic, format, folder);
            made.insert(options(pipeline)).clone()
        })
        .unwrap();
        let pipeline = made.expect("the folder was asked for");
        Self { topics, topic: topic.to_owned(), lakeward, pipeline }
    }

    pub fn start_streaming(&mut self) {
        self.lakeward.start().unwrap();
        self.lakeward.wait_streaming().unwrap();
    }

    pub fn catch_up(&mut self) {
        self.lakeward.wait_caught_up().unwrap();
    }

    /// Produces one envelope of Debezium for each `(op, id, n)` to table `d.t`, keyed by `id`.
    pub fn changes(&self, partition: i32, changes: &[(&str, i64, &str)]) {
        let lines: Vec<(String, String)> = changes.iter().map(|c| envelope(*c)).collect();
        let records: Vec<_> =
            lines.iter().map(|(k, v)| (Some(k.as_bytes()), Some(v.as_bytes()))).collect();
        self.topics.produce(&self.topic, partition, &records).unwrap();
    }

    /// The run must end by itself, with an error that has one of the words.
    pub fn expect_loud(&mut self, words: &[&str]) {
        let code = self.lakeward.exit_within(Duration::from_secs(90)).unwrap();
        assert_ne!(code, 0, "an error was expected: {}", self.lakeward.tail(5));
        let tail = self.lakeward.tail(6).to_lowercase();
        assert!(words.iter().any(|w| tail.contains(w)), "none of {words:?} in: {tail}");
        self.lakeward.kill().unwrap();
    }

    /// The rows of `d.t`, as both readers see it.
    pub fn assert_rows(&self, columns: &[&str], rows: Value) {
        self.assert_table("d.t", columns, rows);
    }

    pub fn assert_table(&self, table: &str, columns: &[&str], rows: Value) {
        let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
        let rows: Vec<Vec<Value>> = serde_json::from_value(rows).unwrap();
        check_table(&self.lakeward, table, &columns, &rows).unwrap();
    }
}

pub fn envelope((op, id, n): (&str, i64, &str)) -> (String, String) {
    let row = serde_json::json!({"id": id, "n": n});
    let (before, after) = match op {
        "d" => (row, Value::Null),
        _ => (Value::Null, row),
    };
    let source = serde_json::json!({"db": "d", "table": "t", "ts_ms": 1});
    let value = serde_json::json!({"op": op, "before": before, "after": after, "source": source});
    (format!("{{\"id\":{id}}}"), value.to_string())
}

/// Compares a table of the lake with rows, as each reader sees it.
pub fn check_table(
    lakeward: &Lakeward,
    name: &str,
    columns: &[String],
    rows: &[Vec<Value>],
) -> Result<()> {
    let lake = lakeward.lake();
    let (namespace, short) = name.split_once('.').context("a table is namespace.name")?;
    let table = lake.table(namespace, short)?;
    let place = |column: &String| {
        let found = table.columns.iter().position(|c| c.name == *column);
        found.with_context(|| format!("{name} has no column {column}: {:?}", table.columns))
    };
    let places: Vec<usize> = columns.iter().map(place).collect::<Result<_>>()?;
    let mut wanted = Vec::new();
    for row in rows {
        let forms = row.iter().zip(&places);
        wanted.push(
            forms
                .map(|(value, &p)| of_expected(&table.columns[p].kind, value))
                .collect::<Result<Vec<_>>>()?,
        );
    }
    wanted.sort();
    for reader in Reader::ALL {
        let mut found = Vec::new();
        for row in lake.rows(&table, reader)? {
            let forms = places.iter().map(|&p| match &row[p] {
                Some(text) => of_lake_kind(&table.columns[p].kind, text).map(Some),
                None => Ok(None),
            });
            found.push(forms.collect::<Result<Vec<_>>>()?);
        }
        found.sort();
        if wanted != found {
            bail!("{name} as {} reads it: expected {wanted:?}, found {found:?}", reader.name());
        }
    }
    Ok(())
}

/// Polls until it holds; fails with the description after a while.
pub fn eventually(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < end, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
