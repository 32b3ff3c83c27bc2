//! Looks at the brokers while records are being read: for new partitions, and for where partitions end.
//!
//! The end of a partition may be behind its last record, because a transaction ends with a record that no reader sees, and
//! an aborted one is nothing but such records. A client says nothing about having passed them. So for a partition in which
//! nothing comes any more a second client starts where the reader is: when it is told of the end of the partition before
//! any record, there is none up to the end that was asked for before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lakeward_core::Result;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Message;

use crate::client::{Client, ClientConsumer, failed, list, watermarks};
use crate::offset::TopicPartition;

/// How long a look into one topic may take.
const LOOK: Duration = Duration::from_secs(5);

/// What a look brought.
#[derive(Debug, Default)]
pub struct Probed {
    /// Partitions that were not known, with their first offsets.
    pub new: Vec<(TopicPartition, i64)>,
    /// Partitions that were known and are not there.
    pub gone: Vec<TopicPartition>,
    /// For each partition asked about: where it ends.
    pub ends: BTreeMap<TopicPartition, i64>,
    /// Partitions that have no record from where the reader is up to here.
    pub empty_until: BTreeMap<TopicPartition, i64>,
}

/// What to look at.
pub struct Question {
    /// The partitions that are known, where new ones are to be looked for.
    pub known: Option<Vec<TopicPartition>>,
    /// Partitions, and where the reader is.
    pub positions: Vec<(TopicPartition, i64)>,
}

/// Blocks until all is answered.
pub fn ask(client: &Client, consumer: &ClientConsumer, question: Question) -> Result<Probed> {
    let mut probed = Probed::default();
    if let Some(known) = question.known {
        let found = client.partitions(consumer)?;
        for partition in found.iter().filter(|p| !known.contains(p)) {
            let (low, _) = watermarks(consumer, partition)?;
            probed.new.push((partition.clone(), low));
        }
        probed.gone = known.into_iter().filter(|p| !found.contains(p)).collect();
    }
    let mut behind: BTreeMap<_, Vec<(TopicPartition, i64)>> = BTreeMap::new();
    for (partition, position) in question.positions {
        let (_, end) = watermarks(consumer, &partition)?;
        if end > position {
            behind.entry(partition.topic.clone()).or_default().push((partition.clone(), position));
        }
        probed.ends.insert(partition, end);
    }
    // The client names the partition that ends, and not its topic: one topic at a time.
    for partitions in behind.into_values() {
        look(consumer, &partitions, &mut probed)?;
    }
    Ok(probed)
}

fn look(
    consumer: &ClientConsumer,
    partitions: &[(TopicPartition, i64)],
    probed: &mut Probed,
) -> Result<()> {
    let assigned = list(partitions.iter().map(|(p, at)| (p, *at)))?;
    let failing = |e| failed(e, "could not look for the end of partitions");
    consumer.assign(&assigned).map_err(failing)?;
    let until = Instant::now() + LOOK;
    let mut open: BTreeMap<i32, &TopicPartition> =
        partitions.iter().map(|(p, _)| (p.partition, p)).collect();
    while !open.is_empty() && Instant::now() < until {
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            // A record: the reader will see it as well.
            Some(Ok(message)) => drop(open.remove(&message.partition())),
            Some(Err(KafkaError::PartitionEOF(number))) => {
                if let Some(partition) = open.remove(&number)
                    && let Some(end) = probed.ends.get(partition)
                {
                    probed.empty_until.insert(partition.clone(), *end);
                }
            }
            Some(Err(e)) => {
                tracing::debug!("the kafka client reports {e}");
                break;
            }
        }
    }
    consumer.unassign().map_err(failing)
}
