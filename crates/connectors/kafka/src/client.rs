//! Connections to the brokers: options, metadata, watermarks. Everything here blocks; callers are on threads for that.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lakeward_core::{Error, ErrorKind, PipelineId, Result};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use regex::Regex;

use crate::config::KafkaConfig;
use crate::offset::TopicPartition;
use lakeward_core::options::table_pattern::whole;

/// How long one question may take.
pub const ANSWER: Duration = Duration::from_secs(20);

/// After this time without an answer it is looked whether the brokers refuse the connection.
const TURN: Duration = Duration::from_secs(4);

/// Options of Java's client that librdkafka has no use for, or that are ours to decide.
const WITHOUT_EFFECT: [&str; 12] = [
    "key.deserializer",
    "value.deserializer",
    "max.poll.records",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "isolation.level",
    "enable.auto.offset.store",
    "partition.assignment.strategy",
    "group.instance.id",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Sends librdkafka's log lines into ours, and keeps why brokers refuse connections: the calls that wait for an answer
/// only say that none came.
#[derive(Default)]
pub struct LogContext {
    refusal: Mutex<Option<(ErrorKind, &'static str)>>,
}

impl LogContext {
    /// Why the brokers refuse the connection, and what is to be done about it.
    pub fn refusal(&self) -> Option<Error> {
        let refusal = *self.refusal.lock().unwrap_or_else(|e| e.into_inner());
        refusal.map(|(kind, meaning)| Error::new(kind, meaning))
    }

    /// Only what is reported from now on counts.
    fn forget_refusals(&self) {
        *self.refusal.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }
}

/// What an error of a connection means, where more can be said than that no broker answers.
fn meaning(error: &KafkaError, reason: &str) -> Option<(ErrorKind, &'static str)> {
    use RDKafkaErrorCode::*;
    let meaning = match error.rdkafka_error_code()? {
        Authentication | SaslAuthenticationFailed => {
            "the brokers do not accept the account; look at `properties.sasl.username`, `properties.sasl.password` and \
             `properties.sasl.mechanism`"
        }
        UnsupportedSASLMechanism | IllegalSASLState => {
            "the brokers do not offer this way to log in; look at `properties.sasl.mechanism` and \
             `properties.security.protocol`"
        }
        SSL if reason.contains("certificate verify failed") => {
            "the broker's certificate is not signed by a known authority; name the authority's file (PEM) in \
             `properties.ssl.ca.location`"
        }
        SSL => {
            "no TLS connection to the brokers can be made; look at `properties.security.protocol`, the port in \
             `properties.bootstrap.servers` and `properties.ssl.*`"
        }
        // A broker that goes down does that too.
        BrokerTransportFailure if reason.contains("SSL handshake failed") => {
            let meaning = "the brokers end the TLS handshake; if that goes on, look whether the port in \
                 `properties.bootstrap.servers` is one with TLS";
            return Some((ErrorKind::Transient, meaning));
        }
        _ => return None,
    };
    Some((ErrorKind::Config, meaning))
}

impl ClientContext for LogContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::warn!(facility, "{message}"),
            RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice => {
                tracing::info!(facility, "{message}");
            }
            _ => tracing::debug!(facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("the kafka client reports {error}: {reason}");
        if let Some(meaning) = meaning(&error, reason) {
            *self.refusal.lock().unwrap_or_else(|e| e.into_inner()) = Some(meaning);
        }
    }
}

impl ConsumerContext for LogContext {
    fn commit_callback(&self, result: Result<(), KafkaError>, _: &TopicPartitionList) {
        if let Err(e) = result {
            tracing::debug!("progress could not be shown as offsets of the consumer group: {e}");
        }
    }
}

pub type ClientConsumer = BaseConsumer<LogContext>;

/// Makes consumers.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    topics: Arc<Topics>,
    pub group: Option<String>,
}

enum Topics {
    Named(Vec<String>),
    Pattern(Regex),
}

impl Client {
    pub fn new(config: &KafkaConfig) -> Result<Self> {
        let mut client = ClientConfig::new();
        for (key, value) in &config.properties {
            if !WITHOUT_EFFECT.contains(&key.as_str()) {
                client.set(key, value);
            }
        }
        // A topic that is asked about must not come into being.
        client.set("allow.auto.create.topics", "false");
        client.set("enable.auto.commit", "false");
        client.set("enable.auto.offset.store", "false");
        client.set("isolation.level", "read_committed");
        client.set("auto.offset.reset", "error");
        let topics = match &config.topic_pattern {
            Some(pattern) => Topics::Pattern(whole("topic-pattern", pattern)?),
            None => Topics::Named(config.topic.clone()),
        };
        let group = config.properties.get("group.id").cloned();
        Ok(Self { config: Arc::new(client), topics: Arc::new(topics), group })
    }

    /// Options that [`Client`] passes over, for one warning.
    pub fn without_effect(config: &KafkaConfig) -> Vec<String> {
        let keys = config.properties.keys().filter(|k| WITHOUT_EFFECT.contains(&k.as_str()));
        keys.map(|k| format!("properties.{k}")).collect()
    }

    fn consumer(&self, change: impl FnOnce(&mut ClientConfig)) -> Result<ClientConsumer> {
        let mut config = (*self.config).clone();
        change(&mut config);
        config.create_with_context(LogContext::default()).map_err(|e| {
            // The message names the option; a value that it quotes may be a secret.
            let what = match e {
                KafkaError::ClientConfig(_, description, key, _) => {
                    format!("`properties.{key}`: {}", description.replace('"', "`"))
                }
                other => other.to_string(),
            };
            Error::config(format!("the kafka client does not accept its options: {what}"))
        })
    }

    /// The consumer that reads, under a group that shows progress.
    pub fn reader(&self, pipeline: &PipelineId, queue_kbytes: usize) -> Result<ClientConsumer> {
        self.consumer(|config| {
            if self.group.is_none() {
                config.set("group.id", format!("lakeward-{pipeline}"));
            }
            if config.get("queued.max.messages.kbytes").is_none() {
                config.set("queued.max.messages.kbytes", queue_kbytes.to_string());
            }
            if config.get("fetch.wait.max.ms").is_none() {
                config.set("fetch.wait.max.ms", "100");
            }
        })
    }

    /// A consumer for questions, which also says where a partition ends.
    pub fn prober(&self) -> Result<ClientConsumer> {
        self.consumer(|config| {
            if self.group.is_none() {
                config.set("group.id", "lakeward-probe");
            }
            config.set("enable.partition.eof", "true");
            config.set("queued.max.messages.kbytes", "1024");
        })
    }

    /// All partitions of the wanted topics, in order.
    ///
    /// # Errors
    /// `Config` for a named topic that does not exist.
    pub fn partitions(&self, consumer: &ClientConsumer) -> Result<Vec<TopicPartition>> {
        let mut found = Vec::new();
        let fetch = |topic: Option<&str>| metadata(consumer, topic);
        match &*self.topics {
            Topics::Pattern(pattern) => {
                for topic in fetch(None)?.topics() {
                    let own = topic.name().starts_with("__");
                    if !own && pattern.is_match(topic.name()) && topic.error().is_none() {
                        found.extend(ids(topic));
                    }
                }
            }
            Topics::Named(names) => {
                for name in names {
                    let metadata = fetch(Some(name))?;
                    let topic = metadata.topics().iter().find(|t| t.name() == name);
                    let topic = topic.filter(|t| t.error().is_none() && !t.partitions().is_empty());
                    let topic = topic.ok_or_else(|| {
                        Error::config("the topic does not exist, or this account may not see it")
                            .with("topic", name)
                    })?;
                    found.extend(ids(topic));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// # Errors
/// `Config` where the brokers refuse the connection, `Transient` where none answers.
fn metadata(consumer: &ClientConsumer, topic: Option<&str>) -> Result<rdkafka::metadata::Metadata> {
    let until = Instant::now() + ANSWER;
    consumer.context().forget_refusals();
    loop {
        let error = match consumer.fetch_metadata(topic, TURN) {
            Ok(metadata) => return Ok(metadata),
            Err(error) => error,
        };
        // What the connections report is told while polling. Nothing is assigned yet. Reports of a broker that refuses may
        // come faster than they are taken, so one that says why is enough.
        while consumer.poll(Duration::from_millis(100)).is_some()
            && consumer.context().refusal().is_none()
            && Instant::now() < until
        {}
        if let Some(refusal) = consumer.context().refusal() {
            return Err(refusal);
        }
        if Instant::now() >= until {
            return Err(failed(
                error,
                "could not ask the brokers for their topics; is one of properties.bootstrap.servers there, and does it name \
                 addresses that can be reached from here?",
            ));
        }
    }
}

fn ids(topic: &rdkafka::metadata::MetadataTopic) -> Vec<TopicPartition> {
    let name: Arc<str> = topic.name().into();
    topic.partitions().iter().map(|p| TopicPartition::new(name.clone(), p.id())).collect()
}

/// The first offset that a partition still has, and the one behind the last record that is committed.
pub fn watermarks(consumer: &ClientConsumer, partition: &TopicPartition) -> Result<(i64, i64)> {
    consumer
        .fetch_watermarks(&partition.topic, partition.partition, ANSWER)
        .map_err(|e| failed(e, "could not ask where a partition ends").with("partition", partition))
}

/// Partitions with offsets, as the client wants them.
pub fn list<'a>(
    partitions: impl IntoIterator<Item = (&'a TopicPartition, i64)>,
) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in partitions {
        list.add_partition_offset(&partition.topic, partition.partition, Offset::Offset(offset))
            .map_err(|e| {
                Error::bug("an offset is out of its range")
                    .with("partition", partition)
                    .with_source(e)
            })?;
    }
    Ok(list)
}

/// An error of the client, by how the job is to react.
pub fn failed(error: KafkaError, what: &str) -> Error {
    let code = error.rdkafka_error_code();
    Error::new(kind_of(code), what).with_source(error)
}

pub fn kind_of(code: Option<RDKafkaErrorCode>) -> ErrorKind {
    use RDKafkaErrorCode::*;
    match code {
        Some(
            Authentication
            | SaslAuthenticationFailed
            | TopicAuthorizationFailed
            | GroupAuthorizationFailed
            | ClusterAuthorizationFailed
            | UnsupportedSASLMechanism
            | IllegalSASLState
            | SSL,
        ) => ErrorKind::Config,
        Some(OffsetOutOfRange | AutoOffsetReset) => ErrorKind::OffsetLost,
        _ => ErrorKind::Transient,
    }
}
