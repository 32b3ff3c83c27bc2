//! Who may depend on whom: the rules of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

use super::metadata::Metadata;

/// What a crate of this project that is no connector may be built with, of this project. Connectors see the core alone.
fn may_use(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "lakeward-core" => &[],
        "lakeward-operators" | "lakeward-runtime" => &["lakeward-core"],
        "lakeward-query" => &["lakeward-core", "lakeward-iceberg"],
        // And every connector.
        "lakeward-pipeline" => &["lakeward-core", "lakeward-operators"],
        "lakeward-flink" => {
            &["lakeward-core", "lakeward-operators", "lakeward-pipeline", "lakeward-runtime"]
        }
        "lakeward" => &[
            "lakeward-core",
            "lakeward-operators",
            "lakeward-pipeline",
            "lakeward-runtime",
            "lakeward-query",
        ],
        "lakeward-testkit" => {
            &["lakeward-core", "lakeward-operators", "lakeward-runtime", "lakeward-values"]
        }
        "xtask" => &["lakeward-testkit"],
        _ => return None,
    })
}

/// Libraries that only some crates may name.
const RESERVED: &[(&str, &[&str])] = &[
    ("tokio", &["lakeward-core", "lakeward-operators"]),
    ("serde-saphyr", &["lakeward-core", "lakeward-operators", "lakeward-runtime"]),
    ("clap", &["lakeward-core", "lakeward-operators", "lakeward-runtime"]),
    ("rdkafka", &["lakeward-core", "lakeward-operators", "lakeward-runtime", "lakeward"]),
    ("mysql_async", &["lakeward-core", "lakeward-operators", "lakeward-runtime", "lakeward"]),
    ("iceberg", &["lakeward-core", "lakeward-operators", "lakeward-runtime", "lakeward"]),
    ("datafusion", &["lakeward-core", "lakeward-operators", "lakeward-runtime", "lakeward"]),
    (
        "jni",
        &[
            "lakeward-core",
            "lakeward-operators",
            "lakeward-runtime",
            "lakeward-pipeline",
            "lakeward",
        ],
    ),
];

pub fn crates(metadata: &Metadata) -> Vec<String> {
    let ours: BTreeSet<&str> = metadata.members().map(|p| p.name.as_str()).collect();
    let connectors: BTreeSet<&str> =
        metadata.members().filter(|p| p.is_connector()).map(|p| p.name.as_str()).collect();
    let mut problems = Vec::new();
    for package in metadata.members() {
        let allowed = match package.is_connector() {
            true => Some(&["lakeward-core"][..]),
            false => may_use(&package.name),
        };
        let Some(allowed) = allowed else {
            problems.push(format!("no rule says what the crate {} may use", package.name));
            continue;
        };
        for used in package.built_with() {
            let is_allowed = allowed.contains(&used)
                || package.name == "lakeward-pipeline" && connectors.contains(used);
            if ours.contains(used) && !is_allowed {
                problems.push(format!("{} must not use {used}", package.name));
            }
            for (library, barred) in RESERVED {
                if used == *library && barred.contains(&package.name.as_str()) {
                    problems.push(format!("{} must not use {library}", package.name));
                }
            }
        }
    }
    problems
}

/// Two arrows in one tree cannot exchange batches.
pub fn one_arrow(metadata: &Metadata) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for library in metadata.libraries() {
        if library.name.starts_with("arrow-") || ["arrow", "parquet"].contains(&&*library.name) {
            versions.entry(&library.name).or_default().insert(&library.version);
        }
    }
    versions
        .into_iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| format!("{name} is there in several versions: {versions:?}"))
        .collect()
}
