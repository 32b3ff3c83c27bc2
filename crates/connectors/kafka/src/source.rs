//! Kafka as a [`Source`]: opening a reader anew or from its state.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{
    Error, Offset, Offsets, Position, Result, Source, SourceCheck, SourceOpen, SourceReader,
    SourceTable,
};

use crate::bad_records::{self, BadRecordPolicy, BadRecords};
use crate::cell::Dialect;
use crate::client::{Client, watermarks};
use crate::config::{Format, KafkaConfig};
use crate::decode::DecodeSettings;
use crate::evolve::Plan;
use crate::fetch::Fetcher;
use crate::metrics::SourceMetrics;
use crate::offset::{self, TopicPartition};
use crate::reader::{KafkaReader, ReaderParts};
use crate::row::RowSettings;
use crate::sample;
use crate::selector::TableRules;
use crate::startup;
use crate::state::{PartitionState, ReaderState};

/// The source of a pipeline.
pub struct KafkaSource {
    config: KafkaConfig,
    client: Client,
    settings: Arc<DecodeSettings>,
}

impl KafkaSource {
    pub fn new(config: KafkaConfig, bad_records: BadRecords) -> Result<Self> {
        config.validate()?;
        let client = Client::new(&config)?;
        let dialect = Dialect {
            latin1_bytes: config.format == Format::CanalJson,
            decimals: config.decimals(),
            offset_secs: config.offset_secs()?,
        };
        let placeholders = match config.format {
            Format::DebeziumJson => placeholders(&config.unavailable_placeholder),
            _ => Vec::new(),
        };
        let rows = RowSettings { dialect, placeholders };
        let (format, rules) = (config.format, TableRules::new(&config)?);
        let settings = Arc::new(DecodeSettings { format, rules, rows, bad_records });
        Ok(Self { config, client, settings })
    }

    /// What of the source the state belongs to.
    pub fn identity(&self) -> String {
        "kafka".to_string()
    }

    /// A state to begin with.
    async fn fresh(
        &self,
        last_step: Position,
        topics: Vec<Arc<str>>,
        resets: bool,
    ) -> Result<ReaderState> {
        let (client, config) = (self.client.clone(), self.config.clone());
        let starts = blocking(move || startup::fresh(&client, &client.prober()?, &config)).await?;
        let partition =
            |(partition, offset)| PartitionState { partition, offset, has_statements: false };
        Ok(ReaderState {
            last_step,
            topics,
            partitions: starts.into_iter().map(partition).collect(),
            tables: Vec::new(),
            decided: Vec::new(),
            statements: Vec::new(),
            resets,
            commit_ms: 0,
        })
    }

    async fn state(&self, open: &SourceOpen) -> Result<ReaderState> {
        let wants_all = open.resnapshot.iter().any(|wanted| wanted == "*");
        if !wants_all && !open.resnapshot.is_empty() {
            return Err(Error::config(
                "topics hold several tables and are read as a whole: give --resnapshot without names",
            ));
        }
        let restored = open.restored.as_ref().map(|state| state.to_json::<ReaderState>());
        let restored = restored.transpose()?;
        // Places of steps are compared with those that the sink knows from before: they must be later.
        let era = open.clock.now_ms().unsigned_abs();
        match restored {
            Some(state) if !wants_all => {
                let client = self.client.clone();
                let starts: BTreeMap<TopicPartition, i64> =
                    state.partitions.iter().map(|p| (p.partition.clone(), p.offset)).collect();
                blocking(move || {
                    let prober = client.prober()?;
                    client.partitions(&prober)?;
                    startup::check(&prober, &starts)
                })
                .await?;
                Ok(state)
            }
            Some(state) => {
                let hi = era.max(state.last_step.hi + 1);
                self.fresh(Position { hi, lo: 0 }, state.topics, true).await
            }
            None => self.fresh(Position { hi: era, lo: 0 }, Vec::new(), wants_all).await,
        }
    }
}

/// The placeholder as it stands in JSON: as a text, in a list, and as bytes.
fn placeholders(placeholder: &str) -> Vec<Box<str>> {
    use base64::Engine;
    let text = serde_json::Value::from(placeholder).to_string();
    let bytes = base64::engine::general_purpose::STANDARD.encode(placeholder);
    vec![format!("[{text}]").into(), format!("\"{bytes}\"").into(), text.into()]
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(Error::bug("a task of the source ended badly").with_source(e)),
    }
}

#[async_trait]
impl Source for KafkaSource {
    async fn check(&self) -> Result<SourceCheck> {
        let (client, settings) = (self.client.clone(), self.settings.clone());
        let (server, tables, mut warnings) =
            blocking(move || sample::look(&client, &settings)).await?;
        if tables.is_empty() {
            warnings.push(
                "no change of a selected table was found in the topics' first records".into(),
            );
        }
        let tables = tables
            .into_iter()
            .map(|state| SourceTable { table: state.table, schema: state.schema, rows: None })
            .collect();
        Ok(SourceCheck { server, tables, warnings, errors: Vec::new() })
    }

    async fn open(&self, open: SourceOpen) -> Result<Box<dyn SourceReader>> {
        let state = self.state(&open).await?;
        // Half of the memory for what the client has fetched, a quarter for what waits to be decoded.
        let queue_kbytes = (open.memory_bytes / 2 / 1024).clamp(1024, 65_536);
        let partitions = state.partitions.len().max(1);
        let limit_bytes = (open.memory_bytes / 4 / partitions).clamp(256 << 10, 16 << 20);
        let (client, pipeline) = (self.client.clone(), open.pipeline.clone());
        let (fetcher, prober) = blocking(move || {
            let reader = client.reader(&pipeline, queue_kbytes)?;
            Ok((Fetcher::start(reader, limit_bytes)?, client.prober()?))
        })
        .await?;
        let parts = ReaderParts {
            client: self.client.clone(),
            fetcher,
            prober,
            settings: self.settings.clone(),
            discovery_interval: self.config.discovery_interval.0,
            committed: if state.resets { Default::default() } else { open.committed },
            clock: open.clock,
            checkpoints: open.checkpoints,
            metrics: SourceMetrics::new(&open.metrics),
        };
        let mut reader = KafkaReader::new(parts, state)?;
        let bad = &self.settings.bad_records;
        if bad.policy == BadRecordPolicy::DeadLetter {
            reader.decide_first(vec![Plan::create(bad.table.clone(), bad_records::columns())]);
        }
        Ok(Box::new(reader))
    }

    async fn current_offsets(&self) -> Result<Offsets> {
        let client = self.client.clone();
        blocking(move || {
            let prober = client.prober()?;
            let mut offsets = Offsets::new();
            for partition in client.partitions(&prober)? {
                let (_, end) = watermarks(&prober, &partition)?;
                offsets.insert(partition.split(), offset::encode(end));
            }
            Ok(offsets)
        })
        .await
    }

    fn covers(&self, reached: &Offset, offset: &Offset) -> Result<bool> {
        Ok(offset::decode(reached)? >= offset::decode(offset)?)
    }
}
