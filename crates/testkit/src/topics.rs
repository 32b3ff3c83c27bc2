//! Topics of a test's broker: made, filled, cut off.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;

use crate::kafka::Broker;

const PATIENCE: Duration = Duration::from_secs(60);

/// A client of one broker.
pub struct Topics {
    config: ClientConfig,
    admin: AdminClient<DefaultClientContext>,
    producer: BaseProducer,
    runtime: Runtime,
}

/// A record to produce: key and value, each of which may be missing.
pub type Record<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl Topics {
    pub fn new(broker: &Broker) -> Result<Self> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", broker.address());
        config.set("linger.ms", "0");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { admin: config.create()?, producer: config.create()?, config, runtime })
    }

    /// Makes a topic and waits until it has its leaders.
    pub fn create(&self, topic: &str, partitions: i32) -> Result<()> {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let made = self.admin.create_topics([&new], &AdminOptions::new());
        let made = self.runtime.block_on(made)?;
        for result in made {
            result.map_err(|(topic, code)| anyhow!("topic {topic} was not made: {code}"))?;
        }
        self.wait_for(topic, partitions)
    }

    /// Gives a topic more partitions.
    pub fn grow(&self, topic: &str, partitions: usize) -> Result<()> {
        let more = NewPartitions::new(topic, partitions);
        let done = self.admin.create_partitions([&more], &AdminOptions::new());
        for result in self.runtime.block_on(done)? {
            result.map_err(|(topic, code)| anyhow!("topic {topic} did not grow: {code}"))?;
        }
        self.wait_for(topic, i32::try_from(partitions)?)
    }

    fn wait_for(&self, topic: &str, partitions: i32) -> Result<()> {
        let consumer: BaseConsumer = self.config.create()?;
        let end = Instant::now() + PATIENCE;
        loop {
            let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10))?;
            let found = metadata.topics().first().context("the broker says nothing")?;
            let led = found.partitions().iter().filter(|p| p.leader() >= 0).count();
            if led == usize::try_from(partitions)? {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(anyhow!("topic {topic} has {led} partitions with a leader"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Produces records in their order, and waits until the broker has them.
    pub fn produce(&self, topic: &str, partition: i32, records: &[Record<'_>]) -> Result<()> {
        use rdkafka::error::RDKafkaErrorCode::UnknownPartition;
        let sent = send(&self.producer, topic, partition, records);
        let is_new = |e: &anyhow::Error| {
            let code = e.downcast_ref::<KafkaError>().and_then(KafkaError::rdkafka_error_code);
            code == Some(UnknownPartition)
        };
        match sent {
            // What a producer knows of a topic may be from before it grew.
            Err(e) if is_new(&e) => send(&self.config.create()?, topic, partition, records),
            sent => sent,
        }
    }

    /// The same in a transaction that is committed or aborted.
    pub fn transaction(
        &self,
        topic: &str,
        partition: i32,
        records: &[Record<'_>],
        commit: bool,
    ) -> Result<()> {
        let mut config = self.config.clone();
        config.set("transactional.id", format!("test-{topic}-{partition}"));
        let producer: BaseProducer = config.create()?;
        producer.init_transactions(PATIENCE)?;
        producer.begin_transaction()?;
        send(&producer, topic, partition, records)?;
        match commit {
            true => producer.commit_transaction(PATIENCE)?,
            false => producer.abort_transaction(PATIENCE)?,
        }
        Ok(())
    }

    /// The broker forgets the records before an offset, as by retention.
    pub fn forget(&self, topic: &str, partition: i32, before: i64) -> Result<()> {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, partition, Offset::Offset(before))?;
        self.runtime.block_on(self.admin.delete_records(&offsets, &AdminOptions::new()))?;
        Ok(())
    }

    /// Reads all that a topic has into nothing, as fast as the client can: records and the bytes of their values.
    pub fn read_all(&self, topic: &str, partitions: i32) -> Result<(u64, u64)> {
        let mut config = self.config.clone();
        config.set("group.id", "read-all").set("enable.partition.eof", "true");
        let consumer: BaseConsumer = config.create()?;
        let mut all = TopicPartitionList::new();
        for partition in 0..partitions {
            all.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&all)?;
        let (mut records, mut bytes, mut ended) = (0, 0, 0);
        while ended < partitions {
            match consumer.poll(PATIENCE).context("the broker sends nothing")? {
                Ok(message) => {
                    records += 1;
                    bytes += message.payload_len() as u64;
                }
                Err(KafkaError::PartitionEOF(_)) => ended += 1,
                Err(e) => return Err(e.into()),
            }
        }
        Ok((records, bytes))
    }

    /// What a consumer group has committed for a partition.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Result<Option<i64>> {
        let mut config = self.config.clone();
        config.set("group.id", group);
        let consumer: BaseConsumer = config.create()?;
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, partition);
        let found = consumer.committed_offsets(asked, Duration::from_secs(10))?;
        Ok(match found.find_partition(topic, partition).map(|p| p.offset()) {
            Some(Offset::Offset(offset)) => Some(offset),
            _ => None,
        })
    }
}

fn send(
    producer: &BaseProducer,
    topic: &str,
    partition: i32,
    records: &[Record<'_>],
) -> Result<()> {
    for (key, value) in records {
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(partition);
        if let Some(key) = key {
            record = record.key(key);
        }
        if let Some(value) = value {
            record = record.payload(value);
        }
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((e, again)) => {
                    if e.rdkafka_error_code() != Some(rdkafka::error::RDKafkaErrorCode::QueueFull) {
                        return Err(e.into());
                    }
                    producer.poll(Duration::from_millis(10));
                    record = again;
                }
            }
        }
    }
    producer.flush(PATIENCE)?;
    Ok(())
}
