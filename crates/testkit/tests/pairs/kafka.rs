//! The source end of Kafka: a step is what a capture system would write about it, spread over topics and partitions.

mod canal;
mod debezium;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use lakeward_testkit::kafka::Broker;
use lakeward_testkit::topics::Topics;
use serde_json::{Value, json};

use crate::scenario::{Scenario, Step};
use crate::tables::Tables;

/// Partitions of a topic that has rows.
const PARTITIONS: i32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Rows by their key, statements in the schema-change topic. With schemas as the converter of Kafka Connect adds
    /// them, decimals are packed; without, they are texts.
    Debezium { schemas: bool },
    /// Rows by their table, statements in the first partition.
    Canal,
}

/// A record of a topic.
struct Record {
    topic: String,
    partition: i32,
    key: Option<String>,
    /// Nothing in a tombstone.
    value: Option<String>,
}

pub struct Kafka<'b> {
    dialect: Dialect,
    broker: &'b Broker,
    topics: Topics,
    /// What all topics of this run begin with.
    run: String,
    databases: HashMap<String, Tables>,
    /// The source's clock: it goes on with each statement and transaction, and never stands still.
    now_ms: i64,
}

impl Dialect {
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Debezium { schemas: true } => "debezium-schemas",
            Dialect::Debezium { schemas: false } => "debezium",
            Dialect::Canal => "canal",
        }
    }
}

impl<'b> Kafka<'b> {
    /// With topics of its own for each scenario.
    pub fn new(
        broker: &'b Broker,
        dialect: Dialect,
        run: &str,
        scenarios: &[&Scenario],
    ) -> Result<Self> {
        let topics = Topics::new(broker)?;
        topics.create(&schema_topic(run), 1)?;
        for scenario in scenarios {
            topics.create(&row_topic(run, &scenario.name), PARTITIONS)?;
        }
        let databases = scenarios.iter().map(|s| (s.name.clone(), Tables::default())).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let now_ms = i64::try_from(since.as_millis())? - 3_600_000;
        Ok(Self { dialect, broker, topics, run: run.to_owned(), databases, now_ms })
    }

    pub fn options(&self) -> Value {
        let (format, decimals) = match self.dialect {
            Dialect::Debezium { .. } => ("debezium-json", "text"),
            Dialect::Canal => ("canal-json", "auto"),
        };
        json!({
            "type": "kafka", "properties.bootstrap.servers": self.broker.address(),
            "topic-pattern": format!("{}\\..*", self.run), "value.format": format,
            "debezium-json.decimal-encoding": decimals,
        })
    }

    pub fn apply(&mut self, database: &str, step: &Step) -> Result<()> {
        let tables = self.databases.get_mut(database).context("an unknown database")?;
        let done = tables.apply(step)?;
        self.now_ms += 10;
        let mut records = Vec::new();
        let mut sql = "";
        for done in &done {
            if !done.sql.is_empty() {
                sql = &done.sql;
            }
            let of = Of { run: &self.run, database, now_ms: self.now_ms, sql };
            match self.dialect {
                Dialect::Debezium { schemas } => {
                    debezium::records(&of, &done.event, schemas, &mut records)?;
                }
                Dialect::Canal => canal::records(&of, &done.event, &mut records)?,
            }
        }
        // Partitions have no order among each other.
        records.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        for run in records.chunk_by(|a, b| (&a.topic, a.partition) == (&b.topic, b.partition)) {
            let pairs: Vec<_> = run
                .iter()
                .map(|r| {
                    (r.key.as_deref().map(str::as_bytes), r.value.as_deref().map(str::as_bytes))
                })
                .collect();
            self.topics.produce(&run[0].topic, run[0].partition, &pairs)?;
        }
        Ok(())
    }
}

/// What all records of a step have in common.
struct Of<'a> {
    run: &'a str,
    database: &'a str,
    now_ms: i64,
    sql: &'a str,
}

fn schema_topic(run: &str) -> String {
    format!("{run}.schema-changes")
}

fn row_topic(run: &str, database: &str) -> String {
    format!("{run}.{database}")
}

fn partition_of(what: &str) -> i32 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    (hasher.finish() % PARTITIONS as u64) as i32
}
