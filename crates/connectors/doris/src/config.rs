//! The options of `sink: {type: doris}`. Names are Flink CDC's; where a default differs, its comment says so.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lakeward_core::options::Interval;
use lakeward_core::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::client::{Endpoint, Scheme};
use crate::encode::{BodyFormat, Compression};

/// Writes every table to Apache Doris by Stream Load.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DorisConfig {
    /// `doris`.
    #[serde(rename = "type", default)]
    pub connector: String,
    /// A free text that names the sink.
    #[serde(default)]
    pub name: Option<String>,
    /// HTTP addresses of the frontends, separated by commas: `fe1:8030,fe2:8030`, or `https://fe1:8050`. They take over
    /// from each other.
    pub fenodes: String,
    /// HTTP addresses of the backends, `be1:8040,be2:8040`. Without it they are asked of the cluster. Credentials are sent
    /// to no other host.
    #[serde(default)]
    pub benodes: Option<String>,
    /// Where SQL goes: `jdbc:mysql://fe1:9030,fe2:9030`, with `?sslMode=VERIFY_IDENTITY` for TLS. Without it: the hosts of
    /// `fenodes` at `query-port`.
    #[serde(rename = "jdbc-url", default)]
    pub jdbc_url: Option<String>,
    /// The frontends' MySQL port. Not used with `jdbc-url`.
    #[serde(rename = "query-port", default = "default_query_port")]
    pub query_port: u16,
    /// An account that may create and alter the target databases' tables and load into them.
    pub username: String,
    /// The account's password.
    #[serde(default)]
    pub password: String,
    /// True (Flink CDC: false): loads go to a frontend, which names a backend for each. False: to the backends in turn.
    #[serde(rename = "auto-redirect", default = "yes")]
    pub auto_redirect: bool,
    /// Accepted for compatibility: everything is UTF-8.
    #[serde(rename = "charset-encoding", default)]
    pub charset_encoding: bool,
    /// A PEM file of the authorities that the cluster's certificates come from; the public ones where there is none.
    #[serde(rename = "doris.tls.ca-certificate-path", default)]
    pub tls_ca: Option<String>,
    /// False (Flink CDC: true): rows become visible exactly once, by two-phase commit, when their checkpoint is complete.
    /// True: each load is visible at once and may be repeated after a failure (at least once).
    #[serde(rename = "sink.enable.batch-mode", default)]
    pub batch_mode: bool,
    /// Whether deletes are passed on. False: rows that the source deletes stay.
    #[serde(rename = "sink.enable-delete", default = "yes")]
    pub enable_delete: bool,
    /// How often a request that failed for no reason of its own is repeated.
    #[serde(rename = "sink.max-retries", default = "three")]
    pub max_retries: u32,
    /// Loads of one table that are on the way at the same time, per writer.
    #[serde(rename = "sink.flush.queue-size", default = "two")]
    pub flush_queue_size: usize,
    /// Rows after which a load is sent (Flink CDC: 50000). A checkpoint sends what there is.
    #[serde(rename = "sink.buffer-flush.max-rows", default = "default_max_rows")]
    pub max_rows: usize,
    /// Bytes, before encoding, after which a load is sent (Flink CDC: 10 MB). The pipeline's memory is a bound too.
    #[serde(rename = "sink.buffer-flush.max-bytes", default = "default_max_bytes")]
    pub max_bytes: usize,
    /// Accepted for compatibility: rows are sent at every checkpoint, whose interval is the pipeline's.
    #[serde(rename = "sink.buffer-flush.interval", default)]
    pub flush_interval: Option<String>,
    /// Accepted for compatibility: of an update of a keyed table only the new row is written.
    #[serde(rename = "sink.ignore.update-before", default = "yes")]
    pub ignore_update_before: bool,
    /// `off` (default), `sync` or `async`: let the cluster gather loads (Doris' group commit). At least once, without
    /// labels; `async` answers before the rows are in a tablet.
    #[serde(rename = "sink.group-commit", default)]
    pub group_commit: GroupCommit,
    /// How long the cluster keeps a precommitted transaction (the frontends'
    /// `stream_load_default_precommit_timeout_second`, an hour). Must be longer than several checkpoint intervals.
    #[serde(rename = "sink.transaction-timeout", default = "default_transaction_timeout")]
    pub transaction_timeout: Interval,
    /// How long one load may take.
    #[serde(rename = "sink.load-timeout", default = "default_load_timeout")]
    pub load_timeout: Interval,
    /// How long a load is held back while the cluster says that it has too many versions or transactions.
    #[serde(rename = "sink.throttle-timeout", default = "default_throttle_timeout")]
    pub throttle_timeout: Interval,
    /// New tables with a key get a hidden sequence column that orders a key's rows by their place in the source's log, so
    /// that a replay never brings back an older row.
    #[serde(rename = "sink.sequence-column", default = "yes")]
    pub sequence_column: bool,
    /// The zone, as `+08:00`, in whose wall clock instants are stored; Doris has no type for them. UTC by default.
    #[serde(rename = "sink.timezone", default = "utc")]
    pub timezone: String,
    /// The database of the table in which the pipeline's progress is kept.
    #[serde(rename = "sink.progress-database", default = "default_progress_database")]
    pub progress_database: String,
    /// `sink.properties.*`: headers of each load. `format` is `json` (default), `csv` or `arrow`; `compress_type` is `gz`,
    /// `lz4` or `zstd`.
    #[serde(rename = "sink.properties", default)]
    pub load_properties: BTreeMap<String, String>,
    /// `table.create.properties.*`: properties of tables that are created, such as `replication_num`; `buckets` is the
    /// number of buckets (`AUTO` by default).
    #[serde(rename = "table.create.properties", default)]
    pub create_properties: BTreeMap<String, String>,
    /// `table.create.auto-partition.properties.*`: partition new tables by time. `default-partition-key` names the column,
    /// `default-partition-unit` is `year`, `month`, `day` or `hour`; `DATABASE.TABLE.partition-key` and
    /// `DATABASE.TABLE.partition-unit` are for one table; `include` and `exclude` are lists of tables.
    #[serde(rename = "table.create.auto-partition.properties", default)]
    pub auto_partition: BTreeMap<String, String>,
}

/// The cluster gathers loads of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupCommit {
    #[default]
    Off,
    Sync,
    Async,
}

fn yes() -> bool {
    true
}

fn two() -> usize {
    2
}

fn three() -> u32 {
    3
}

fn default_query_port() -> u16 {
    9030
}

fn default_max_rows() -> usize {
    500_000
}

fn default_max_bytes() -> usize {
    64 << 20
}

fn default_transaction_timeout() -> Interval {
    Interval(Duration::from_secs(3600))
}

fn default_load_timeout() -> Interval {
    Interval(Duration::from_secs(600))
}

fn default_throttle_timeout() -> Interval {
    Interval(Duration::from_secs(600))
}

fn utc() -> String {
    "+00:00".to_string()
}

fn default_progress_database() -> String {
    "lakeward".to_string()
}

/// Headers that the sink sets by itself.
const RESERVED: [&str; 16] = [
    "label",
    "two_phase_commit",
    "columns",
    "hidden_columns",
    "partial_columns",
    "unique_key_update_mode",
    "merge_type",
    "delete",
    "function_column.sequence_col",
    "strip_outer_array",
    "read_json_by_line",
    "max_filter_ratio",
    "strict_mode",
    "group_commit",
    "timezone",
    "jsonpaths",
];

impl DorisConfig {
    /// # Errors
    /// `Config` for what a single option cannot tell.
    pub fn validate(&self) -> Result<()> {
        self.frontends()?;
        self.backends()?;
        self.sql_endpoints()?;
        self.zone_offset_seconds()?;
        let format = self.format()?;
        let compression = self.compression()?;
        if format == BodyFormat::Arrow && compression != Compression::None {
            return Err(Error::config(
                "sink.properties.compress_type does not go with the format arrow; leave it out",
            ));
        }
        if let Some(key) = self.load_properties.keys().find(|k| RESERVED.contains(&k.as_str())) {
            return Err(Error::config("the sink sets this header by itself; leave it out")
                .with("option", format!("sink.properties.{key}")));
        }
        if self.flush_queue_size == 0 || self.max_rows == 0 || self.max_bytes == 0 {
            return Err(Error::config(
                "sink.flush.queue-size, sink.buffer-flush.max-rows and sink.buffer-flush.max-bytes must be at least 1",
            ));
        }
        Ok(())
    }

    /// What is understood but has no effect, and what weakens the guarantees.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.flush_interval.is_some() {
            warnings.push(
                "sink.buffer-flush.interval has no effect: rows are sent at every checkpoint"
                    .into(),
            );
        }
        if !self.two_phase() {
            warnings.push(
                "loads without two-phase commit may be repeated after a failure (at least once)"
                    .into(),
            );
        }
        if !self.enable_delete {
            warnings.push("sink.enable-delete is false: deleted rows stay in doris".into());
        }
        warnings
    }

    pub fn two_phase(&self) -> bool {
        !self.batch_mode && self.group_commit == GroupCommit::Off
    }

    pub(crate) fn frontends(&self) -> Result<Vec<Endpoint>> {
        let nodes = endpoints("fenodes", &self.fenodes, 8030)?;
        if nodes.is_empty() {
            return Err(Error::config("fenodes names no frontend; write it as host:8030"));
        }
        Ok(nodes)
    }

    pub(crate) fn backends(&self) -> Result<Vec<Endpoint>> {
        self.benodes.as_deref().map_or(Ok(Vec::new()), |nodes| endpoints("benodes", nodes, 8040))
    }

    /// Hosts and ports of the MySQL protocol, and whether to speak TLS there.
    pub(crate) fn sql_endpoints(&self) -> Result<(Vec<(String, u16)>, SqlTls)> {
        let Some(text) = &self.jdbc_url else {
            let hosts = self.frontends()?.into_iter().map(|e| (e.host, self.query_port));
            return Ok((hosts.collect(), SqlTls::Off));
        };
        let wrong = || {
            Error::config(
                "jdbc-url cannot be read; write it as jdbc:mysql://fe1:9030,fe2:9030/?sslMode=VERIFY_IDENTITY",
            )
        };
        let rest = text.trim().strip_prefix("jdbc:mysql://").ok_or_else(wrong)?;
        let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let hosts = address.split('/').next().unwrap_or_default();
        let nodes = endpoints("jdbc-url", hosts, 9030)?;
        if nodes.is_empty() {
            return Err(wrong());
        }
        let mut tls = SqlTls::Off;
        for parameter in parameters.split('&') {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match (key.to_ascii_lowercase().as_str(), value.to_ascii_uppercase().as_str()) {
                ("sslmode", "DISABLED" | "PREFERRED") | ("usessl", "FALSE") => {}
                ("sslmode", "VERIFY_CA") => tls = SqlTls::Authority,
                ("sslmode", _) | ("usessl", "TRUE") => tls = SqlTls::Identity,
                _ => {}
            }
        }
        Ok((nodes.into_iter().map(|e| (e.host, e.port)).collect(), tls))
    }

    pub(crate) fn format(&self) -> Result<BodyFormat> {
        match self.load_properties.get("format").map(String::as_str) {
            None | Some("json") => Ok(BodyFormat::Json),
            Some("csv") => Ok(BodyFormat::Csv),
            Some("arrow") => Ok(BodyFormat::Arrow),
            Some(other) => Err(Error::config("sink.properties.format must be json, csv or arrow")
                .with("format", other)),
        }
    }

    pub(crate) fn compression(&self) -> Result<Compression> {
        match self.load_properties.get("compress_type").map(|c| c.to_ascii_lowercase()).as_deref() {
            None => Ok(Compression::None),
            Some("gz") => Ok(Compression::Gzip),
            Some("lz4") => Ok(Compression::Lz4),
            Some("zstd") => Ok(Compression::Zstd),
            Some(other) => {
                Err(Error::config("sink.properties.compress_type must be gz, lz4 or zstd")
                    .with("compress_type", other))
            }
        }
    }

    /// The zone as a load's header has it.
    pub(crate) fn timezone_header(&self) -> Result<String> {
        let seconds = self.zone_offset_seconds()?;
        let sign = if seconds < 0 { '-' } else { '+' };
        let minutes = seconds.abs() / 60;
        Ok(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
    }

    /// Seconds east of Greenwich.
    pub(crate) fn zone_offset_seconds(&self) -> Result<i32> {
        let wrong = || {
            Error::config("sink.timezone must be UTC or an offset such as +08:00")
                .with("sink.timezone", &self.timezone)
        };
        let text = self.timezone.trim();
        if matches!(text, "UTC" | "Z" | "Etc/UTC") {
            return Ok(0);
        }
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(wrong()),
        };
        let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
        let hours: i32 = hours.parse().map_err(|_| wrong())?;
        let minutes: i32 = minutes.parse().map_err(|_| wrong())?;
        if !(0..=14).contains(&hours) || !(0..60).contains(&minutes) {
            return Err(wrong());
        }
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

/// How much of the MySQL port's certificate is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlTls {
    Off,
    /// The authority only.
    Authority,
    /// The authority and the host's name.
    Identity,
}

fn endpoints(option: &str, text: &str, default_port: u16) -> Result<Vec<Endpoint>> {
    let wrong = |node: &str| {
        Error::config("an address must be host:port").with("option", option).with("address", node)
    };
    let nodes = text.split(',').map(str::trim).filter(|node| !node.is_empty());
    nodes
        .map(|node| {
            let (scheme, rest) = match node.split_once("://") {
                Some(("https", rest)) => (Scheme::Https, rest),
                Some(("http", rest)) => (Scheme::Http, rest),
                Some(_) => return Err(wrong(node)),
                None => (Scheme::Http, node),
            };
            let rest = rest.trim_end_matches('/');
            let (host, port) = match rest.rsplit_once(':') {
                Some((host, port))
                    if !host.is_empty() && (!host.contains(':') || host.ends_with(']')) =>
                {
                    (host, port.parse().map_err(|_| wrong(node))?)
                }
                _ => (rest, default_port),
            };
            let host = host.trim_start_matches('[').trim_end_matches(']');
            if host.is_empty() || host.contains(['/', '@', ' ']) {
                return Err(wrong(node));
            }
            Ok(Endpoint { scheme, host: host.to_string(), port })
        })
        .collect()
}

impl fmt::Debug for DorisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DorisConfig")
            .field("fenodes", &self.fenodes)
            .field("benodes", &self.benodes)
            .field("username", &self.username)
            .field("batch_mode", &self.batch_mode)
            .field("group_commit", &self.group_commit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "config/tests.rs"]
pub(crate) mod tests;
