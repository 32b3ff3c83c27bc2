//! The options of `source: { type: kafka }`. Names and meanings are those of Flink's Kafka connector and its CDC formats.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lakeward_core::options::Interval;
use lakeward_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How changes are written in the topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Debezium's envelopes, with or without the schema beside them, and its schema-change topic.
    DebeziumJson,
    /// Canal's flat messages.
    CanalJson,
    /// Maxwell's rows, bootstrap rows and DDL.
    MaxwellJson,
    /// The JSON of Oracle GoldenGate for Big Data.
    OggJson,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::DebeziumJson => "debezium-json",
            Format::CanalJson => "canal-json",
            Format::MaxwellJson => "maxwell-json",
            Format::OggJson => "ogg-json",
        }
    }
}

/// Where reading starts when there is no checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StartupMode {
    /// At the first record that the brokers still have.
    #[default]
    EarliestOffset,
    /// Behind the last record that is there now.
    LatestOffset,
    /// At what the consumer group `properties.group.id` has committed.
    GroupOffsets,
    /// At the first record whose timestamp is `scan.startup.timestamp-millis` or later.
    Timestamp,
    /// At `scan.startup.specific-offsets`.
    SpecificOffsets,
}

/// How a decimal is written that Debezium sends without a schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecimalEncoding {
    /// Digits are a number, other text is base64, and what could be either is a bad record.
    #[default]
    Auto,
    /// `decimal.handling.mode=precise`: the unscaled number's bytes in base64.
    Base64,
    /// `decimal.handling.mode=string`, or JSON numbers.
    Text,
}

/// Options of the Kafka source.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// Options of the client, as librdkafka and Java's client name them: `properties.bootstrap.servers` is needed,
    /// `properties.group.id` names the group under which progress is shown, `properties.security.protocol`,
    /// `properties.sasl.*` and `properties.ssl.*` are for SASL and TLS.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// The topics to read, separated by commas.
    #[serde(default)]
    pub topic: Vec<String>,
    /// The topics to read, as a regular expression of the whole name.
    #[serde(rename = "topic-pattern", default, skip_serializing_if = "Option::is_none")]
    pub topic_pattern: Option<String>,
    /// How changes are written in the topics.
    #[serde(rename = "value.format")]
    pub format: Format,
    /// The tables to copy: `db.table` patterns as in the MySQL source, separated by commas. Without it, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<String>,
    /// Tables to leave out, in the same form.
    #[serde(rename = "tables.exclude", default, skip_serializing_if = "Option::is_none")]
    pub tables_exclude: Option<String>,
    /// Where reading starts when there is no checkpoint. Unlike in Flink, the default is `earliest-offset`.
    #[serde(rename = "scan.startup.mode", default)]
    pub startup_mode: StartupMode,
    /// For `timestamp`: milliseconds since the epoch.
    #[serde(
        rename = "scan.startup.timestamp-millis",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub startup_timestamp_millis: Option<i64>,
    /// For `specific-offsets`: `partition:0,offset:42;partition:1,offset:300`. With several topics each part begins with
    /// `topic:name,`.
    #[serde(
        rename = "scan.startup.specific-offsets",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub startup_specific_offsets: Option<String>,
    /// How often new topics and partitions are looked for. They are read from their first record on.
    #[serde(rename = "scan.topic-partition-discovery.interval", default = "ten_seconds")]
    #[schemars(extend("default" = "10s"))]
    pub discovery_interval: Interval,
    /// Primary keys that the messages do not name: `db.table:column,column;db.table:column`. The part before `:` is a
    /// pattern as in `tables`. It wins over what the messages say.
    #[serde(rename = "primary-keys", default, skip_serializing_if = "Option::is_none")]
    pub primary_keys: Option<String>,
    /// Types that the messages do not name: `db.table:column TYPE,column TYPE;…`, with TINYINT, INT, BIGINT, DECIMAL(p, s),
    /// DOUBLE, DATE, TIMESTAMP(p), TIMESTAMP_LTZ(p), VARCHAR(n), STRING and so on. A value that does not fit is a bad
    /// record.
    #[serde(rename = "column-types", default, skip_serializing_if = "Option::is_none")]
    pub column_types: Option<String>,
    /// How `debezium-json` writes decimals where no schema comes with the message.
    #[serde(rename = "debezium-json.decimal-encoding", default)]
    pub decimal_encoding: DecimalEncoding,
    /// Debezium's `unavailable.value.placeholder`: what stands for a value that the database did not send.
    #[serde(rename = "debezium-json.unavailable-value-placeholder", default = "placeholder")]
    pub unavailable_placeholder: String,
    /// The offset from UTC of MySQL TIMESTAMP values that arrive as text (`canal-json`, `maxwell-json`): `+08:00` or `UTC`.
    #[serde(rename = "server-time-zone", default = "utc")]
    pub server_time_zone: String,
    /// Accepted for compatibility. A message with a schema is recognised by itself.
    #[serde(
        rename = "debezium-json.schema-include",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub schema_include: Option<bool>,
}

fn ten_seconds() -> Interval {
    Interval(Duration::from_secs(10))
}

fn placeholder() -> String {
    "__debezium_unavailable_value".to_string()
}

fn utc() -> String {
    "UTC".to_string()
}

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Passwords are among the client's options.
        f.debug_struct("KafkaConfig")
            .field("topic", &self.topic)
            .field("topic_pattern", &self.topic_pattern)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl KafkaConfig {
    /// # Errors
    /// `Config` for options that contradict each other.
    pub fn validate(&self) -> Result<()> {
        if self.topic.is_empty() == self.topic_pattern.is_none() {
            return Err(Error::config("give either `topic` or `topic-pattern`"));
        }
        if !self.properties.contains_key("bootstrap.servers") {
            return Err(Error::config("`source` needs the option `properties.bootstrap.servers`"));
        }
        let needs = |set: bool, mode, option| match self.startup_mode == mode && !set {
            true => Err(Error::config(format!("this `scan.startup.mode` needs `{option}`"))),
            false => Ok(()),
        };
        let millis = self.startup_timestamp_millis.is_some();
        needs(millis, StartupMode::Timestamp, "scan.startup.timestamp-millis")?;
        let offsets = self.startup_specific_offsets.is_some();
        needs(offsets, StartupMode::SpecificOffsets, "scan.startup.specific-offsets")?;
        let group = self.properties.contains_key("group.id");
        needs(group, StartupMode::GroupOffsets, "properties.group.id")?;
        self.offset_secs().map(drop)
    }

    /// Options that are accepted and change nothing, in full, for one warning.
    pub fn without_effect(&self) -> Vec<String> {
        crate::client::Client::without_effect(self)
    }

    /// How decimals stand in texts. Only Debezium packs them: elsewhere `1234` is never base64.
    pub fn decimals(&self) -> DecimalEncoding {
        match self.format {
            Format::DebeziumJson => self.decimal_encoding,
            Format::CanalJson | Format::MaxwellJson | Format::OggJson => DecimalEncoding::Text,
        }
    }

    /// Seconds that MySQL TIMESTAMP texts are ahead of UTC.
    pub fn offset_secs(&self) -> Result<i32> {
        let zone = self.server_time_zone.trim();
        if matches!(zone, "UTC" | "utc" | "Z" | "GMT") {
            return Ok(0);
        }
        crate::temporal::zone_offset_secs(zone).ok_or_else(|| {
            Error::config(format!(
                "`server-time-zone`: `{zone}` must be UTC or an offset such as +08:00"
            ))
        })
    }
}
