//! The options of the file's `pipeline` section.

use lakeward_core::options::Interval;
use lakeward_operators::{RouteMode, SchemaChangeBehavior, TableErrorPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::typed::WithoutEffect;
use super::value::ByteSize;

/// Flink CDC's options that have nothing to act on here.
pub const WITHOUT_EFFECT: WithoutEffect<'static> = &[
    "execution.runtime-mode",
    "local-time-zone",
    "operator.uid.prefix",
    "schema-operator.rpc-timeout",
    "schema.operator.uid",
    "sink.partitioning.strategy",
    "transform.decimal.precision.mode",
];

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineConfig {
    /// The pipeline's name. Sinks store it with their progress, so it must stay the same for the life of the target
    /// tables, and two pipelines that write to one catalog must not share it.
    #[serde(default = "default_name")]
    pub name: String,

    /// How many writers work side by side.
    #[serde(default = "default_parallelism")]
    pub parallelism: u16,

    /// How often a checkpoint is taken. Changes become visible in the sink once per checkpoint.
    #[serde(rename = "checkpoint.interval", default = "default_checkpoint_interval")]
    #[schemars(extend("default" = "10s"))]
    pub checkpoint_interval: Interval,

    /// The folder of checkpoints. A relative path starts at the pipeline file's folder. Defaults to
    /// `lakeward-state/<name>`.
    #[serde(rename = "state.dir", default)]
    pub state_dir: Option<String>,

    /// Where the HTTP API listens. Port 0 takes a free port.
    #[serde(rename = "http.address", default = "default_http_address")]
    pub http_address: String,

    /// What happens on a schema change of a source table.
    #[serde(rename = "schema.change.behavior", default)]
    pub schema_change_behavior: SchemaChangeOption,

    /// Whether a table matches all routes that fit it or only the first.
    #[serde(rename = "route-mode", default)]
    pub route_mode: RouteModeOption,

    /// What happens when one table cannot go on (a value or a schema change that the sink cannot hold).
    #[serde(rename = "table-error", default)]
    pub table_error: TableErrorOption,

    /// What happens to a record that cannot be decoded, where the source reads records that others write (kafka).
    #[serde(rename = "bad-record", default)]
    pub bad_record: BadRecordOption,

    /// The table of `bad-record: dead-letter`, as the source names it. It has the record's bytes, its topic, partition,
    /// offset and time, and the reason.
    #[serde(rename = "bad-record.table", default = "default_bad_record_table")]
    pub bad_record_table: String,

    /// What rows on their way and in unfinished files may take. Lookup structures of large tables come on top.
    #[serde(default = "default_memory")]
    #[schemars(extend("default" = "128mb"))]
    pub memory: ByteSize,

    /// What happens after a failure that another attempt may cure.
    #[serde(rename = "restart-strategy.type", default)]
    pub restart_strategy: RestartStrategyOption,

    /// Wait before the first restart.
    #[serde(
        rename = "restart-strategy.exponential-delay.initial-backoff",
        default = "default_initial_backoff"
    )]
    #[schemars(extend("default" = "1s"))]
    pub initial_backoff: Interval,

    /// Longest wait before a restart.
    #[serde(
        rename = "restart-strategy.exponential-delay.max-backoff",
        default = "default_max_backoff"
    )]
    #[schemars(extend("default" = "1min"))]
    pub max_backoff: Interval,

    /// How many times as long as the one before each wait is.
    #[serde(
        rename = "restart-strategy.exponential-delay.backoff-multiplier",
        default = "default_multiplier"
    )]
    pub backoff_multiplier: f64,

    /// By what part of itself a wait varies.
    #[serde(
        rename = "restart-strategy.exponential-delay.jitter-factor",
        default = "default_jitter"
    )]
    pub jitter_factor: f64,

    /// A run of this length counts as healthy: the next wait is the first one again.
    #[serde(
        rename = "restart-strategy.exponential-delay.reset-backoff-threshold",
        default = "default_reset"
    )]
    #[schemars(extend("default" = "5min"))]
    pub reset_backoff_threshold: Interval,

    /// Wait before each restart.
    #[serde(rename = "restart-strategy.fixed-delay.delay", default = "default_initial_backoff")]
    #[schemars(extend("default" = "1s"))]
    pub fixed_delay: Interval,

    /// Restarts, without a healthy run between them, after which the job gives up.
    #[serde(rename = "restart-strategy.fixed-delay.attempts", default = "default_attempts")]
    pub fixed_delay_attempts: u32,

    /// On Flink: whether the writers share slots with the other operators or have slots of their own.
    #[serde(rename = "flink.writer-slots", default)]
    pub flink_writer_slots: FlinkWriterSlots,

    /// On Flink: a folder that all TaskManagers see, for success marks and copies of states. Defaults to
    /// `lakeward-marks` beside the job's checkpoints.
    #[serde(rename = "flink.marks-dir", default)]
    pub flink_marks_dir: Option<String>,

    /// On Flink: keep a copy of the newest checkpoint's states from which `lakeward run --from-flink` can go on.
    #[serde(rename = "flink.state-copies", default = "default_true")]
    pub flink_state_copies: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SchemaChangeOption {
    /// The sink follows the source in everything; what it cannot express fails the table.
    #[default]
    Evolve,
    /// As `evolve`, but rows are fitted to the old columns where the sink cannot follow.
    TryEvolve,
    /// The sink never loses data: dropped columns stay, a changed type becomes a new column beside the renamed old one,
    /// TRUNCATE and DROP are not passed on.
    Lenient,
    /// Any change of an existing table fails the table.
    Exception,
    /// The sink keeps the columns it was created with.
    Ignore,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RouteModeOption {
    #[default]
    #[serde(rename = "ALL_MATCH")]
    AllMatch,
    #[serde(rename = "FIRST_MATCH")]
    FirstMatch,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TableErrorOption {
    /// Stop the pipeline.
    #[default]
    Fail,
    /// Leave the table out from then on; the others go on.
    Pause,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BadRecordOption {
    /// The pipeline stops before it.
    #[default]
    Fail,
    /// It is left out: counted, and named in the log.
    Skip,
    /// It goes into the table that `bad-record.table` names.
    DeadLetter,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestartStrategyOption {
    /// Restart, waiting twice as long each time.
    #[default]
    ExponentialDelay,
    /// Restart a limited number of times.
    FixedDelay,
    /// Stop at the first failure.
    None,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlinkWriterSlots {
    /// Every slot has one instance of each operator.
    #[default]
    Shared,
    /// As many slots more as there are writers.
    Own,
}

fn default_true() -> bool {
    true
}

fn default_name() -> String {
    "lakeward".to_string()
}

fn default_bad_record_table() -> String {
    "lakeward.bad_records".to_string()
}

fn default_parallelism() -> u16 {
    1
}

fn default_checkpoint_interval() -> Interval {
    Interval(std::time::Duration::from_secs(10))
}

fn default_http_address() -> String {
    "127.0.0.1:8083".to_string()
}

fn default_memory() -> ByteSize {
    ByteSize(128 << 20)
}

fn default_initial_backoff() -> Interval {
    Interval(std::time::Duration::from_secs(1))
}

fn default_max_backoff() -> Interval {
    Interval(std::time::Duration::from_secs(60))
}

fn default_multiplier() -> f64 {
    2.0
}

fn default_jitter() -> f64 {
    0.1
}

fn default_reset() -> Interval {
    Interval(std::time::Duration::from_secs(300))
}

fn default_attempts() -> u32 {
    3
}

impl From<SchemaChangeOption> for SchemaChangeBehavior {
    fn from(option: SchemaChangeOption) -> Self {
        match option {
            SchemaChangeOption::Evolve => SchemaChangeBehavior::Evolve,
            SchemaChangeOption::TryEvolve => SchemaChangeBehavior::TryEvolve,
            SchemaChangeOption::Lenient => SchemaChangeBehavior::Lenient,
            SchemaChangeOption::Exception => SchemaChangeBehavior::Exception,
            SchemaChangeOption::Ignore => SchemaChangeBehavior::Ignore,
        }
    }
}

impl From<RouteModeOption> for RouteMode {
    fn from(option: RouteModeOption) -> Self {
        match option {
            RouteModeOption::AllMatch => RouteMode::AllMatch,
            RouteModeOption::FirstMatch => RouteMode::FirstMatch,
        }
    }
}

impl From<TableErrorOption> for TableErrorPolicy {
    fn from(option: TableErrorOption) -> Self {
        match option {
            TableErrorOption::Fail => TableErrorPolicy::Fail,
            TableErrorOption::Pause => TableErrorPolicy::Pause,
        }
    }
}
