//! The options of `sink: {type: iceberg}`.

use std::collections::BTreeMap;

use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::partition_key::PartitionKeys;

/// Prefixes whose keys are passed through, and the field that gathers them.
const PASS_THROUGH: [&str; 3] = ["catalog.properties", "table.properties", "hadoop.conf"];

/// Writes every table to Apache Iceberg.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IcebergConfig {
    /// `iceberg`.
    #[serde(rename = "type", default)]
    pub connector: String,
    /// A free text that names the sink.
    #[serde(default)]
    pub name: Option<String>,
    /// `catalog.properties.*`: where the tables are. `type` (`sql`; `jdbc` is understood too), `uri`
    /// (`sqlite:///path`, `postgresql://user:password@host/db`, `mysql://…`), `warehouse` (`file:///path` or
    /// `s3://bucket/path`), `name` (the catalog's name, `lakeward` by default), and the keys of the object store:
    /// `s3.endpoint`, `s3.region` or `client.region`, `s3.access-key-id`, `s3.secret-access-key`, `s3.session-token`,
    /// `s3.path-style-access`.
    #[serde(rename = "catalog.properties", default)]
    pub catalog: BTreeMap<String, String>,
    /// `table.properties.*`: properties of tables that are created, such as `write.target-file-size-bytes`,
    /// `write.parquet.compression-codec` or `format-version` (2).
    #[serde(rename = "table.properties", default)]
    pub table: BTreeMap<String, String>,
    /// `hadoop.conf.*`: only meaningful on the JVM; ignored with a warning.
    #[serde(rename = "hadoop.conf", default)]
    pub hadoop: BTreeMap<String, String>,
    /// Partition fields of tables that are created: tables separated by `;`, fields by `,`, as in
    /// `db.t1:truncate[10](id);db.t2:day(create_time)`. Transforms: `identity`, `year`, `month`, `day`, `hour`,
    /// `bucket[n]`, `truncate[n]`.
    #[serde(rename = "partition.key", default)]
    pub partition_key: Option<String>,
    /// How updates and deletes are written. `v2-position` (default): position delete files, read by every engine that
    /// reads Iceberg v2. `append-changelog`: every change is appended with its kind and position, nothing is deleted.
    #[serde(rename = "write.mode", default)]
    pub write_mode: WriteMode,
    /// Small files and files with many deleted rows are rewritten beside the ingestion. On by default.
    #[serde(rename = "sink.compaction.enabled", default = "yes", deserialize_with = "flag")]
    pub compaction_enabled: bool,
    /// Every how many commits of a table its recent small files are merged. 16 by default.
    #[serde(
        rename = "sink.compaction.commit.interval",
        default = "sixteen",
        deserialize_with = "number"
    )]
    pub compaction_commit_interval: u64,
    /// Snapshots that a table keeps. 100 by default.
    #[serde(rename = "snapshots.keep", default = "hundred", deserialize_with = "number")]
    pub snapshots_keep: u64,
    /// Publish one row per committed epoch in `lakeward.__lakeward_epochs`. On by default.
    #[serde(rename = "epochs.enabled", default = "yes", deserialize_with = "flag")]
    pub epochs_enabled: bool,
    /// Delete the files of a table that was dropped at the source. Off by default: only the catalog entry goes.
    #[serde(rename = "drop-table.purge", default, deserialize_with = "flag")]
    pub drop_table_purge: bool,
    /// A delete or update of a row that the table does not hold stops the table instead of being counted. Off by default.
    #[serde(rename = "missing-rows.fail", default, deserialize_with = "flag")]
    pub missing_rows_fail: bool,
}

/// How updates and deletes reach the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    #[default]
    V2Position,
    AppendChangelog,
}

impl IcebergConfig {
    /// Reads the options of the sink section: dotted keys, scalar values. Keys below a pass-through prefix are gathered.
    pub fn from_options(options: &serde_json::Map<String, serde_json::Value>) -> Result<Self> {
        let mut nested = serde_json::Map::new();
        for (key, value) in options {
            let inner = PASS_THROUGH
                .iter()
                .find_map(|p| Some((*p, key.strip_prefix(p)?.strip_prefix('.')?)));
            match inner {
                None => {
                    nested.insert(key.clone(), value.clone());
                }
                Some((prefix, rest)) => {
                    let text = scalar_text(value).ok_or_else(|| {
                        Error::config("an option of the iceberg sink must be a single value")
                            .with("option", key)
                    })?;
                    let group = nested
                        .entry(prefix)
                        .or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
                    if let Some(group) = group.as_object_mut() {
                        group.insert(rest.to_string(), serde_json::Value::String(text));
                    }
                }
            }
        }
        let config: Self = serde_json::from_value(serde_json::Value::Object(nested))
            .or_err(ErrorKind::Config, "the options of the iceberg sink cannot be used")?;
        config.validate()?;
        Ok(config)
    }

    /// What is understood but has no effect.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.hadoop.is_empty() {
            warnings.push("hadoop.conf.* options have no counterpart and are ignored".to_string());
        }
        for key in ["io-impl", "glue.id", "glue.skip-archive", "glue.skip-name-validation"] {
            if self.catalog.contains_key(key) {
                warnings
                    .push(format!("catalog.properties.{key} has no counterpart and is ignored"));
            }
        }
        warnings
    }

    pub fn partition_keys(&self) -> Result<PartitionKeys> {
        self.partition_key
            .as_deref()
            .map_or_else(|| Ok(PartitionKeys::default()), PartitionKeys::parse)
    }

    /// The name that the catalog's rows are under.
    pub fn catalog_name(&self) -> &str {
        self.catalog.get("name").map_or("lakeward", String::as_str)
    }

    pub fn warehouse(&self) -> Result<&str> {
        self.catalog.get("warehouse").map(|w| w.trim_end_matches('/')).ok_or_else(|| {
            Error::config(
                "the iceberg sink needs catalog.properties.warehouse, such as file:///data/lake or s3://bucket/lake",
            )
        })
    }

    pub fn target_file_size_bytes(&self) -> u64 {
        const KEY: &str = "write.target-file-size-bytes";
        self.table.get(KEY).and_then(|v| v.parse().ok()).unwrap_or(128 * 1024 * 1024)
    }

    /// # Errors
    /// `Config` for what a single option cannot tell.
    pub fn validate(&self) -> Result<()> {
        self.warehouse()?;
        self.partition_keys()?;
        if let Some(version) = self.table.get("format-version").filter(|v| *v != "2") {
            return Err(Error::config(
                "table.properties.format-version must be 2: position delete files belong to that version",
            )
            .with("format-version", version));
        }
        if let Some(size) = self.table.get("write.target-file-size-bytes")
            && size.parse::<u64>().is_err()
        {
            return Err(Error::config(
                "table.properties.write.target-file-size-bytes must be a number of bytes",
            ));
        }
        if self.compaction_commit_interval == 0 || self.snapshots_keep == 0 {
            return Err(Error::config(
                "sink.compaction.commit.interval and snapshots.keep must be at least 1",
            ));
        }
        Ok(())
    }
}

impl std::fmt::Debug for IcebergConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The catalog's properties hold secrets.
        f.debug_struct("IcebergConfig")
            .field("catalog", &self.catalog.keys().collect::<Vec<_>>())
            .field("table", &self.table)
            .field("partition_key", &self.partition_key)
            .field("write_mode", &self.write_mode)
            .finish_non_exhaustive()
    }
}

fn scalar_text(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(v) => Some(v.clone()),
        serde_json::Value::Bool(v) => Some(v.to_string()),
        serde_json::Value::Number(v) => Some(v.to_string()),
        _ => None,
    }
}

fn yes() -> bool {
    true
}

fn sixteen() -> u64 {
    16
}

fn hundred() -> u64 {
    100
}

/// YAML values may come quoted.
fn flag<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match scalar_text(&serde_json::Value::deserialize(deserializer)?).as_deref() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        _ => Err(serde::de::Error::custom("expected true or false")),
    }
}

fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    scalar_text(&serde_json::Value::deserialize(deserializer)?)
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| serde::de::Error::custom("expected a whole number"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Result<IcebergConfig> {
        IcebergConfig::from_options(value.as_object().expect("an object"))
    }

    #[test]
    fn dotted_keys_are_gathered_and_defaults_hold() {
        let config = read(json!({
            "type": "iceberg",
            "catalog.properties.type": "sql",
            "catalog.properties.uri": "sqlite:////lake/catalog.db",
            "catalog.properties.warehouse": "file:///lake/",
            "catalog.properties.s3.path-style-access": true,
            "table.properties.write.target-file-size-bytes": 1048576,
            "partition.key": "db.t:day(created)",
            "sink.compaction.commit.interval": "8",
        }))
        .expect("valid");
        assert_eq!(config.warehouse().expect("given"), "file:///lake");
        assert_eq!(config.catalog["s3.path-style-access"], "true");
        assert_eq!(config.target_file_size_bytes(), 1 << 20);
        assert_eq!(config.compaction_commit_interval, 8);
        assert_eq!(config.write_mode, WriteMode::V2Position);
        assert!(config.compaction_enabled && config.epochs_enabled && !config.drop_table_purge);
        assert_eq!(config.catalog_name(), "lakeward");
    }

    #[test]
    fn mistakes_are_named() {
        let base = json!({"catalog.properties.warehouse": "file:///lake"});
        let with = |key: &str, value: serde_json::Value| {
            let mut options = base.clone();
            options[key] = value;
            read(options).expect_err("refused").to_string()
        };
        assert!(with("write.mod", json!("x")).contains("write.mod"));
        assert!(with("write.mode", json!("fast")).contains("v2-position"));
        assert!(with("table.properties.format-version", json!(3)).contains("format-version"));
        assert!(with("partition.key", json!("t:day")).contains("partition.key"));
        assert!(
            read(json!({"type": "iceberg"}))
                .expect_err("no warehouse")
                .to_string()
                .contains("warehouse")
        );
    }

    #[test]
    fn secrets_do_not_reach_the_log() {
        let config = read(json!({
            "catalog.properties.warehouse": "s3://lake",
            "catalog.properties.s3.secret-access-key": "hunter2",
        }))
        .expect("valid");
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
