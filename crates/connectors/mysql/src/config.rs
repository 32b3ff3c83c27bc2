//! The options of `source: { type: mysql }`. Names, defaults and meanings are Flink CDC's; `ssl.*` are ours.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lakeward_core::options::Interval;
use lakeward_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::{SslMode, TlsOptions};

/// Where reading starts when there is no checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StartupMode {
    /// A snapshot of every table, then the log.
    #[default]
    Initial,
    /// The log from now on, without a snapshot.
    LatestOffset,
    /// The log from the oldest file that the server still has, without a snapshot.
    EarliestOffset,
    /// The log from `scan.startup.specific-offset.*`, without a snapshot.
    SpecificOffset,
    /// The log from the first event at or after `scan.startup.timestamp-millis`, without a snapshot.
    Timestamp,
    /// A snapshot of every table, and the log only as far as the snapshot needs it.
    Snapshot,
}

/// Options of the MySQL and MariaDB source.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MysqlConfig {
    /// The server's name or address.
    pub hostname: String,
    /// The server's port.
    #[serde(default = "default_port")]
    pub port: u16,
    /// An account with SELECT, REPLICATION SLAVE and REPLICATION CLIENT.
    pub username: String,
    /// The account's password.
    pub password: String,
    /// The tables to copy: `db.table` patterns, separated by commas. Each part is a regular expression; `.` separates
    /// database and table, a dot of the expression is written `\.`. `shop.\.*` is every table of `shop`.
    pub tables: String,
    /// Tables to leave out, in the same form.
    #[serde(rename = "tables.exclude", default, skip_serializing_if = "Option::is_none")]
    pub tables_exclude: Option<String>,
    /// False: rows only; a DDL statement on a copied table stops the pipeline instead of being carried over.
    #[serde(rename = "schema-change.enabled", default = "yes")]
    pub schema_change_enabled: bool,
    /// Accepted for compatibility. TIMESTAMP is read as an instant, which no time zone can change.
    #[serde(rename = "server-time-zone", default, skip_serializing_if = "Option::is_none")]
    pub server_time_zone: Option<String>,
    /// The id, or a range such as `5401-5404`, under which the pipeline shows to the server as a replica. Without it one is
    /// derived from the pipeline's name. Of a range, and of derived ids, one that is in use is passed over.
    #[serde(rename = "server-id", default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// Rows of a snapshot chunk. When it is left out, chunks are larger than Flink CDC's 8096 rows: up to 16,384 rows or
    /// 16 MB, whichever is less.
    #[serde(
        rename = "scan.incremental.snapshot.chunk.size",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub chunk_size: Option<u32>,
    /// Accepted for compatibility. Chunks are cut along the primary key.
    #[serde(
        rename = "scan.incremental.snapshot.chunk.key-column",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub chunk_key_column: Option<String>,
    /// Accepted for compatibility. Rows are streamed as the server sends them.
    #[serde(rename = "scan.snapshot.fetch.size", default, skip_serializing_if = "Option::is_none")]
    pub snapshot_fetch_size: Option<u32>,
    /// Where reading starts when there is no checkpoint.
    #[serde(rename = "scan.startup.mode", default)]
    pub startup_mode: StartupMode,
    /// For `specific-offset`: the log file.
    #[serde(
        rename = "scan.startup.specific-offset.file",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub startup_file: Option<String>,
    /// For `specific-offset`: the byte in it.
    #[serde(
        rename = "scan.startup.specific-offset.pos",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub startup_pos: Option<u64>,
    /// For `specific-offset`: the transactions that are already known.
    #[serde(
        rename = "scan.startup.specific-offset.gtid-set",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub startup_gtid_set: Option<String>,
    /// For `timestamp`: milliseconds since the epoch.
    #[serde(
        rename = "scan.startup.timestamp-millis",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub startup_timestamp_millis: Option<i64>,
    /// Not supported: give the position behind the events.
    #[serde(
        rename = "scan.startup.specific-offset.skip-events",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub startup_skip_events: Option<u64>,
    /// Not supported: give the position behind the rows.
    #[serde(
        rename = "scan.startup.specific-offset.skip-rows",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub startup_skip_rows: Option<u64>,
    /// How long connecting and logging in may take.
    #[serde(rename = "connect.timeout", default = "thirty_seconds")]
    pub connect_timeout: Interval,
    /// How often a first connection is tried before the attempt fails. A connection lost later is tried again until it is
    /// back.
    #[serde(rename = "connect.max-retries", default = "default_retries")]
    pub connect_max_retries: u32,
    /// The most connections that a snapshot uses side by side. Without it, one for each of the machine's cores, at most 8.
    #[serde(rename = "connection.pool.size", default, skip_serializing_if = "Option::is_none")]
    pub connection_pool_size: Option<u32>,
    /// How often the server says that it is alive when nothing happens. Silence of three times this is a lost connection.
    #[serde(rename = "heartbeat.interval", default = "thirty_seconds")]
    pub heartbeat_interval: Interval,
    /// Accepted for compatibility. One reader reads the log; there are no idle ones to close.
    #[serde(rename = "scan.incremental.close-idle-reader.enabled", default)]
    pub close_idle_reader_enabled: bool,
    /// Accepted for compatibility. Tables that the filter takes in at a restart are always read.
    #[serde(rename = "scan.newly-added-table.enabled", default)]
    pub newly_added_table_enabled: bool,
    /// Accepted for compatibility. Tables that are created while the pipeline runs are always read.
    #[serde(rename = "scan.binlog.newly-added-table.enabled", default)]
    pub binlog_newly_added_table_enabled: bool,
    /// Accepted for compatibility. gh-ost and pt-online-schema-change are always understood.
    #[serde(rename = "scan.parse.online.schema.changes.enabled", default)]
    pub parse_online_schema_changes_enabled: bool,
    /// Accepted for compatibility. Comments of tables and columns are always carried.
    #[serde(rename = "include-comments.enabled", default)]
    pub include_comments_enabled: bool,
    /// True: TINYINT(1) is a boolean. Off by default, unlike in Flink CDC: the column may hold other numbers.
    #[serde(rename = "treat-tinyint1-as-boolean.enabled", default)]
    pub treat_tinyint1_as_boolean_enabled: bool,
    /// Accepted for compatibility. JSON is written as the server prints it.
    #[serde(rename = "use.legacy.json.format", default = "yes")]
    pub use_legacy_json_format: bool,
    /// Accepted for compatibility. A table's last chunk needs no special treatment here.
    #[serde(rename = "scan.incremental.snapshot.unbounded-chunk-first.enabled", default)]
    pub unbounded_chunk_first_enabled: bool,
    /// Accepted for compatibility. A snapshot's chunks are always reconciled with the log.
    #[serde(rename = "scan.incremental.snapshot.backfill.skip", default)]
    pub backfill_skip: bool,
    /// Accepted for compatibility, and named in a warning: there are no metadata columns.
    #[serde(rename = "metadata.list", default, skip_serializing_if = "Option::is_none")]
    pub metadata_list: Option<String>,
    /// `disabled`, `preferred`, `required`, `verify-ca` or `verify-identity`. Without it: `verify-identity` when `ssl.ca` is
    /// given, else `preferred`.
    #[serde(rename = "ssl.mode", default, skip_serializing_if = "Option::is_none")]
    pub ssl_mode: Option<SslMode>,
    /// A PEM file with the authorities whose certificates are believed. Without it, the public ones.
    #[serde(rename = "ssl.ca", default, skip_serializing_if = "Option::is_none")]
    pub ssl_ca: Option<String>,
    /// A PEM file with the client's own certificate.
    #[serde(rename = "ssl.cert", default, skip_serializing_if = "Option::is_none")]
    pub ssl_cert: Option<String>,
    /// A PEM file with the key of `ssl.cert`.
    #[serde(rename = "ssl.key", default, skip_serializing_if = "Option::is_none")]
    pub ssl_key: Option<String>,
    /// Options of the JDBC driver. `sslMode`, `useSSL`, `requireSSL` and `verifyServerCertificate` are understood, the rest
    /// is named in a warning.
    #[serde(rename = "jdbc.properties", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub jdbc_properties: BTreeMap<String, String>,
    /// Options of Debezium. `database.ssl.mode` is understood, the rest is named in a warning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub debezium: BTreeMap<String, String>,
}

fn default_port() -> u16 {
    3306
}

fn yes() -> bool {
    true
}

fn default_retries() -> u32 {
    3
}

fn thirty_seconds() -> Interval {
    Interval(Duration::from_secs(30))
}

impl fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password and the pass-through options, which may hold others, never show.
        f.debug_struct("MysqlConfig")
            .field("hostname", &self.hostname)
            .field("port", &self.port)
            .field("username", &self.username)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

/// Keys of `jdbc.properties` that [`MysqlConfig::tls`] reads.
const JDBC_KNOWN: [&str; 4] = ["sslMode", "useSSL", "requireSSL", "verifyServerCertificate"];
/// JDBC options whose purpose is met here anyway.
const JDBC_MET: [&str; 8] = [
    "allowPublicKeyRetrieval",
    "useUnicode",
    "characterEncoding",
    "serverTimezone",
    "connectTimeout",
    "useCursorFetch",
    "tinyInt1isBit",
    "zeroDateTimeBehavior",
];
const DEBEZIUM_KNOWN: [&str; 1] = ["database.ssl.mode"];

impl MysqlConfig {
    /// Pass-through options that have no counterpart, in full, for one warning.
    pub fn without_effect(&self) -> Vec<String> {
        let jdbc = self
            .jdbc_properties
            .keys()
            .filter(|k| !JDBC_KNOWN.contains(&k.as_str()) && !JDBC_MET.contains(&k.as_str()))
            .map(|k| format!("jdbc.properties.{k}"));
        let debezium = self
            .debezium
            .keys()
            .filter(|k| !DEBEZIUM_KNOWN.contains(&k.as_str()))
            .map(|k| format!("debezium.{k}"));
        let metadata = self.metadata_list.iter().map(|_| "metadata.list".to_string());
        jdbc.chain(debezium).chain(metadata).collect()
    }

    pub fn tls(&self) -> Result<TlsOptions> {
        let mode = match self.ssl_mode {
            Some(mode) => mode,
            None => self.passed_through_mode()?.unwrap_or(if self.ssl_ca.is_some() {
                SslMode::VerifyIdentity
            } else {
                SslMode::Preferred
            }),
        };
        let identity = match (&self.ssl_cert, &self.ssl_key) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(Error::config("`ssl.cert` and `ssl.key` belong together; give both")),
        };
        Ok(TlsOptions { mode, ca: self.ssl_ca.clone(), identity })
    }

    /// What the JDBC driver or Debezium would have been told.
    fn passed_through_mode(&self) -> Result<Option<SslMode>> {
        let jdbc = |key: &str| self.jdbc_properties.get(key).map(|v| v.trim().to_lowercase());
        let named = jdbc("sslMode").map(|v| ("jdbc.properties.sslMode", v)).or_else(|| {
            let v = self.debezium.get("database.ssl.mode")?;
            Some(("debezium.database.ssl.mode", v.trim().to_lowercase()))
        });
        if let Some((option, value)) = named {
            return match value.replace('-', "_").as_str() {
                "disabled" => Ok(Some(SslMode::Disabled)),
                "preferred" => Ok(Some(SslMode::Preferred)),
                "required" => Ok(Some(SslMode::Required)),
                "verify_ca" => Ok(Some(SslMode::VerifyCa)),
                "verify_identity" => Ok(Some(SslMode::VerifyIdentity)),
                _ => Err(Error::config(format!(
                    "`{option}` must be one of disabled, preferred, required, verify_ca, verify_identity"
                ))),
            };
        }
        let is = |key: &str, wanted: &str| jdbc(key).as_deref() == Some(wanted);
        if is("useSSL", "false") {
            return Ok(Some(SslMode::Disabled));
        }
        if is("verifyServerCertificate", "true") {
            return Ok(Some(SslMode::VerifyCa));
        }
        if is("requireSSL", "true") {
            return Ok(Some(SslMode::Required));
        }
        Ok(None)
    }

    /// The ids that `server-id` allows.
    pub fn server_ids(&self) -> Result<Option<std::ops::RangeInclusive<u32>>> {
        let Some(text) = &self.server_id else { return Ok(None) };
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        match (low.trim().parse::<u32>(), high.trim().parse::<u32>()) {
            (Ok(low), Ok(high)) if low > 0 && low <= high => Ok(Some(low..=high)),
            _ => Err(Error::config(
                "`server-id` must be a number above 0 or a range of two such as 5401-5404",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(extra: &str) -> serde_json::Result<MysqlConfig> {
        serde_json::from_str(&format!(
            r#"{{"hostname":"h","username":"u","password":"secret","tables":"a.b"{extra}}}"#
        ))
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let c = read("").unwrap();
        assert_eq!(c.port, 3306);
        assert_eq!(c.startup_mode, StartupMode::Initial);
        assert_eq!(c.heartbeat_interval.0, Duration::from_secs(30));
        assert_eq!(c.tls().unwrap().mode, SslMode::Preferred);
        assert!(!format!("{c:?}").contains("secret"));
        assert!(read(r#","prot":1"#).is_err());
    }

    #[test]
    fn pass_through_options_are_mapped_or_named() {
        let c = read(
            r#","jdbc.properties":{"useSSL":"false","cachePrepStmts":"true"},"debezium":{"max.queue.size":"9"}"#,
        )
        .unwrap();
        assert_eq!(c.tls().unwrap().mode, SslMode::Disabled);
        assert_eq!(
            c.without_effect(),
            ["jdbc.properties.cachePrepStmts", "debezium.max.queue.size"]
        );
        let c = read(r#","jdbc.properties":{"sslMode":"VERIFY_IDENTITY"}"#).unwrap();
        assert_eq!(c.tls().unwrap().mode, SslMode::VerifyIdentity);
        let c = read(r#","ssl.ca":"/x.pem""#).unwrap();
        assert_eq!(c.tls().unwrap().mode, SslMode::VerifyIdentity);
        assert!(read(r#","ssl.cert":"/x.pem""#).unwrap().tls().is_err());
    }

    #[test]
    fn intervals_and_ids() {
        for (text, ms) in [("30s", 30_000), ("500", 500), ("3 min", 180_000), ("PT30S", 30_000)] {
            assert_eq!(Interval::parse(text).unwrap().0.as_millis(), ms);
        }
        assert!(Interval::parse("soon").is_err());
        let ids = |s: &str| read(&format!(r#","server-id":"{s}""#)).unwrap().server_ids();
        assert_eq!(ids("5401-5404").unwrap(), Some(5401..=5404));
        assert_eq!(ids("7").unwrap(), Some(7..=7));
        assert!(ids("9-7").is_err() && ids("0").is_err() && ids("x").is_err());
    }
}
