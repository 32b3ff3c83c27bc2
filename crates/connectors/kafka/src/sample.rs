//! A look into the topics for `check`: which tables the first records are of.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lakeward_core::Result;
use rdkafka::Message;
use rdkafka::consumer::Consumer;

use crate::client::{Client, failed, list, watermarks};
use crate::declared::DeclaredCache;
use crate::decode::DecodeSettings;
use crate::evolve::Survey;
use crate::partition::Chunk;
use crate::reader::Watermark;
use crate::shape::{ShapeState, Shapes};

const RECORDS: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(3);

/// The brokers in a word, the tables, and warnings.
pub fn look(
    client: &Client,
    settings: &DecodeSettings,
) -> Result<(String, Vec<ShapeState>, Vec<String>)> {
    let prober = client.prober()?;
    let partitions = client.partitions(&prober)?;
    let mut starts = Vec::new();
    let mut records = 0;
    for partition in &partitions {
        let (low, end) = watermarks(&prober, partition)?;
        records += end - low;
        if end > low {
            starts.push((partition, low));
        }
    }
    let failing = |e| failed(e, "could not look into the topics");
    let mut warnings = Vec::new();
    if partitions.is_empty() {
        warnings.push("no topic matches `topic-pattern` yet".to_string());
    }
    prober.assign(&list(starts.iter().copied())?).map_err(failing)?;
    let mut chunks: HashMap<(String, i32), Chunk> = HashMap::new();
    let (until, mut seen) = (Instant::now() + PATIENCE, 0);
    let mut ended = 0;
    while seen < RECORDS && ended < starts.len() && Instant::now() < until {
        match prober.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                seen += 1;
                let id = (message.topic().to_owned(), message.partition());
                let chunk = chunks.entry(id).or_insert_with(|| Chunk::new(0));
                chunk.push(message.offset(), 0, message.key(), message.payload());
            }
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(e)) => warnings.push(format!("the client reports {e}")),
            None => {}
        }
    }
    prober.unassign().map_err(failing)?;
    let mut survey = Survey::default();
    let mut cache = DeclaredCache::default();
    for chunk in chunks.values() {
        survey.of_chunk(chunk, 0, &Shapes::default(), settings, Watermark::MAX, &mut cache);
    }
    let tables = survey.plans().into_iter().filter_map(|plan| plan.after).collect();
    let topics: std::collections::BTreeSet<_> = partitions.iter().map(|p| &p.topic).collect();
    let server = format!(
        "Kafka, {} topics with {} partitions and about {records} records, as {}",
        topics.len(),
        partitions.len(),
        settings.format.name()
    );
    Ok((server, tables, warnings))
}
