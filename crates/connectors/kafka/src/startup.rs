//! Where reading starts: from the options, or from a checkpoint that is compared with what the brokers still have.

use std::collections::BTreeMap;

use lakeward_core::{Error, Result};
use rdkafka::consumer::Consumer;
use rdkafka::{Offset, TopicPartitionList};

use crate::client::{ANSWER, Client, ClientConsumer, failed, list, watermarks};
use crate::config::{KafkaConfig, StartupMode};
use crate::offset::TopicPartition;

/// The start of each partition of a pipeline that has no checkpoint.
pub fn fresh(
    client: &Client,
    consumer: &ClientConsumer,
    config: &KafkaConfig,
) -> Result<BTreeMap<TopicPartition, i64>> {
    let partitions = client.partitions(consumer)?;
    let mut starts = BTreeMap::new();
    match config.startup_mode {
        StartupMode::EarliestOffset => {
            for partition in partitions {
                let (low, _) = watermarks(consumer, &partition)?;
                starts.insert(partition, low);
            }
        }
        StartupMode::LatestOffset => {
            for partition in partitions {
                let (_, end) = watermarks(consumer, &partition)?;
                starts.insert(partition, end);
            }
        }
        StartupMode::Timestamp => {
            let millis = config.startup_timestamp_millis.unwrap_or(0);
            let asked = list(partitions.iter().map(|p| (p, millis)))?;
            let found = consumer
                .offsets_for_times(asked, ANSWER)
                .map_err(|e| failed(e, "could not ask for offsets by time"))?;
            for partition in partitions {
                let offset = match offset_in(&found, &partition) {
                    Some(offset) => offset,
                    // Nothing is that new yet.
                    None => watermarks(consumer, &partition)?.1,
                };
                starts.insert(partition, offset);
            }
        }
        StartupMode::GroupOffsets => {
            let asked = list(partitions.iter().map(|p| (p, 0)))?;
            let found = consumer
                .committed_offsets(asked, ANSWER)
                .map_err(|e| failed(e, "could not ask for the consumer group's offsets"))?;
            let reset = config.properties.get("auto.offset.reset").map(String::as_str);
            for partition in partitions {
                let offset = match (offset_in(&found, &partition), reset) {
                    (Some(offset), _) => offset,
                    (None, Some("earliest" | "smallest" | "beginning")) => {
                        watermarks(consumer, &partition)?.0
                    }
                    (None, Some("latest" | "largest" | "end")) => {
                        watermarks(consumer, &partition)?.1
                    }
                    (None, _) => {
                        return Err(Error::config(
                            "the consumer group has no offset for a partition; choose another `scan.startup.mode`, or \
                             say by `properties.auto.offset.reset` where to start then",
                        )
                        .with("partition", &partition));
                    }
                };
                starts.insert(partition, offset);
            }
        }
        StartupMode::SpecificOffsets => {
            let text = config.startup_specific_offsets.as_deref().unwrap_or_default();
            let wanted = specific_offsets(text, &config.topic)?;
            for partition in partitions {
                let offset = match wanted.get(&partition) {
                    Some(offset) => *offset,
                    None => watermarks(consumer, &partition)?.0,
                };
                starts.insert(partition, offset);
            }
            if let Some(unknown) = wanted.keys().find(|p| !starts.contains_key(*p)) {
                return Err(Error::config(
                    "`scan.startup.specific-offsets` names a partition that is not there",
                )
                .with("partition", unknown));
            }
        }
    }
    check(consumer, &starts)?;
    Ok(starts)
}

fn offset_in(found: &TopicPartitionList, partition: &TopicPartition) -> Option<i64> {
    match found.find_partition(&partition.topic, partition.partition)?.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

/// `partition:0,offset:42;topic:t,partition:1,offset:300`.
fn specific_offsets(text: &str, topics: &[String]) -> Result<BTreeMap<TopicPartition, i64>> {
    let wrong = |part: &str| {
        Error::config(format!(
            "`scan.startup.specific-offsets`: `{part}` must be `partition:…,offset:…`, with `topic:…,` before it where \
             there are several topics"
        ))
    };
    let mut wanted = BTreeMap::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let mut topic = match topics {
            [one] => Some(one.clone()),
            _ => None,
        };
        let (mut partition, mut offset) = (None, None);
        for pair in part.split(',') {
            match pair.trim().split_once(':') {
                Some(("topic", name)) => topic = Some(name.to_owned()),
                Some(("partition", number)) => partition = number.parse::<i32>().ok(),
                Some(("offset", number)) => offset = number.parse::<i64>().ok(),
                _ => return Err(wrong(part)),
            }
        }
        let (Some(topic), Some(partition), Some(offset)) = (topic, partition, offset) else {
            return Err(wrong(part));
        };
        wanted.insert(TopicPartition::new(topic, partition), offset);
    }
    Ok(wanted)
}

/// Every offset must still be there.
///
/// # Errors
/// `OffsetLost`, naming the partition and what it has.
pub fn check(consumer: &ClientConsumer, starts: &BTreeMap<TopicPartition, i64>) -> Result<()> {
    for (partition, offset) in starts {
        let (low, end) = watermarks(consumer, partition)?;
        if *offset < low || *offset > end {
            return Err(lost(partition, *offset, low, end));
        }
    }
    Ok(())
}

pub fn lost(partition: &TopicPartition, offset: i64, low: i64, end: i64) -> Error {
    let what = if offset < low {
        "records that were not read yet are gone from the topic, by its retention; start over with --resnapshot"
    } else {
        "the topic ends before what was read of it: it was made anew or truncated; start over with --resnapshot"
    };
    Error::offset_lost(what)
        .with("partition", partition)
        .with("offset", offset)
        .with("first", low)
        .with("end", end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_by_hand() {
        let one = ["t".to_owned()];
        let found =
            specific_offsets("partition:0,offset:42; partition:1,offset:300", &one).unwrap();
        assert_eq!(found[&TopicPartition::new("t", 0)], 42);
        assert_eq!(found[&TopicPartition::new("t", 1)], 300);
        let two = ["t".to_owned(), "u".to_owned()];
        let found = specific_offsets("topic:u,partition:0,offset:1", &two).unwrap();
        assert_eq!(found[&TopicPartition::new("u", 0)], 1);
        for bad in ["partition:0", "partition:x,offset:1", "p:0,offset:1", "0:1"] {
            assert!(specific_offsets(bad, &one).is_err(), "{bad}");
        }
        assert!(specific_offsets("partition:0,offset:1", &two).is_err());
    }
}
