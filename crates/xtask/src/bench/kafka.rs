//! Reading a topic of row changes into the lake, beside reading it into nothing with the same client library.

use std::time::Instant;

use anyhow::Result;
use lakeward_testkit::kafka::Broker;
use lakeward_testkit::lakeward::Pipeline;
use lakeward_testkit::topics::{Record, Topics};

use super::{Bench, Figure, catch_up, megabytes};

const TOPIC: &str = "bench";
const PARTITIONS: i32 = 4;
/// Records that are produced at a time.
const BATCH: u64 = 10_000;

pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let broker = Broker::start_new()?;
    let topics = Topics::new(&broker)?;
    topics.create(TOPIC, PARTITIONS)?;
    let rows = bench.rows(1_000_000);
    produce(&topics, rows)?;

    // Once for the system's cache.
    topics.read_all(TOPIC, PARTITIONS)?;
    let begun = Instant::now();
    let (read, bytes) = topics.read_all(TOPIC, PARTITIONS)?;
    let reader_wall = begun.elapsed().as_secs_f64();
    anyhow::ensure!(read == rows, "the reader saw {read} records of {rows}");

    let folder = tempfile::tempdir()?;
    let address = broker.address();
    let pipeline = Pipeline::of_kafka("bench", &address, TOPIC, "debezium-json", folder.path());
    let mut lakeward = bench.pipeline_of(folder.path(), &pipeline)?;
    let cost = catch_up(&mut lakeward)?;
    let per_second = |wall: f64| rows as f64 / wall;
    println!(
        "  {rows} rows of {} bytes at {:.0} per second, into nothing at {:.0}",
        bytes / rows,
        per_second(cost.wall.as_secs_f64()),
        per_second(reader_wall)
    );
    Ok(vec![
        Figure::ratio("kafka to iceberg, wall", cost.wall.as_secs_f64(), reader_wall, "s", 15.0),
        Figure::at_most("kafka, peak memory", megabytes(cost.peak_memory_bytes), "MB", 600.0),
    ])
}

/// Inserts as Debezium writes them without schemas, one row a key.
fn produce(topics: &Topics, rows: u64) -> Result<()> {
    for partition in 0..PARTITIONS {
        let of_partition = (0..rows).filter(|n| n % PARTITIONS as u64 == partition as u64);
        let mut batch = Vec::new();
        for n in of_partition {
            batch.push((format!("{{\"id\":{n}}}"), envelope(n)));
            if batch.len() as u64 == BATCH {
                send(topics, partition, &std::mem::take(&mut batch))?;
            }
        }
        send(topics, partition, &batch)?;
    }
    Ok(())
}

fn envelope(n: u64) -> String {
    format!(
        "{{\"before\":null,\"after\":{{\"id\":{n},\"a\":{},\"b\":{},\"price\":\"{}.25\",\"name\":\"name {n}\",\
         \"text\":\"a somewhat longer text with a number, {n}\",\"at\":\"2024-02-29T12:34:56.{:03}Z\",\"f\":{}.5,\
         \"flag\":{},\"none\":null}},\"source\":{{\"version\":\"3.3.0.Final\",\"connector\":\"mysql\",\"name\":\"bench\",\
         \"ts_ms\":1700000000000,\"snapshot\":\"false\",\"db\":\"bench\",\"table\":\"t\",\"server_id\":1,\
         \"file\":\"mysql-bin.000001\",\"pos\":{n}}},\"op\":\"c\",\"ts_ms\":1700000000001}}",
        n * 7,
        n % 1000,
        n % 10_000,
        n % 1000,
        n % 100,
        n % 2 == 0,
    )
}

fn send(topics: &Topics, partition: i32, batch: &[(String, String)]) -> Result<()> {
    let records: Vec<Record<'_>> =
        batch.iter().map(|(k, v)| (Some(k.as_bytes()), Some(v.as_bytes()))).collect();
    topics.produce(TOPIC, partition, &records)
}
