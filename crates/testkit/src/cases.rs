//! Cases as data: statements before and during the run, and what the lake must hold in the end.
//!
//! One file of `cases/` is one case, and its name the name of the database. `setup` runs before the pipeline starts, so
//! the snapshot reads it; `live` runs while it streams. Whatever else a case expects, each table of the lake must equal
//! its source.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cache;
use crate::server::Kind;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// Public reports of the fault.
    #[serde(default)]
    pub seen: Vec<String>,
    /// Servers; all by default.
    #[serde(default)]
    pub on: Vec<String>,
    /// Further databases, which the pipeline watches too.
    #[serde(default)]
    pub databases: Vec<String>,
    /// Tables to watch; all by default.
    #[serde(default)]
    pub watch: Vec<String>,
    #[serde(default)]
    pub setup: Vec<Statement>,
    #[serde(default)]
    pub live: Vec<Statement>,
    /// Options of the sections, over those that every case has.
    #[serde(default)]
    pub source: Map<String, Value>,
    #[serde(default)]
    pub sink: Map<String, Value>,
    #[serde(default)]
    pub route: Vec<Value>,
    #[serde(default)]
    pub transform: Vec<Value>,
    /// Ways to run it; all by default.
    #[serde(default)]
    pub modes: Vec<Mode>,
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// The run may stop instead, with a log line that matches one of these words (separated by `|`).
    pub may_stop: Option<String>,
    /// Whether each table is compared with the source; false where routes make other tables.
    #[serde(default = "yes")]
    pub compared: bool,
    /// Exact contents, by table of the case's database or by `database.table`.
    #[serde(default)]
    pub expect: BTreeMap<String, Expected>,
    /// Row counts.
    #[serde(default)]
    pub counts: BTreeMap<String, usize>,
    /// Iceberg types of columns.
    #[serde(default)]
    pub types: BTreeMap<String, BTreeMap<String, String>>,
    /// Columns whose field id is that of a column of the table's first schema.
    #[serde(default)]
    pub same_ids: BTreeMap<String, BTreeMap<String, String>>,
    /// Identifier fields.
    #[serde(default)]
    pub identifier: BTreeMap<String, Vec<String>>,
    /// Source columns of the partition fields.
    #[serde(default)]
    pub partition: BTreeMap<String, Vec<String>>,
    /// Tables that must not be in the lake.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Limit of the run's resident memory.
    pub peak_memory_mb: Option<u64>,
}

fn yes() -> bool {
    true
}

/// A statement, perhaps of a second session, perhaps worded differently for each server; none for a server not named.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Statement {
    Plain(String),
    Detailed(Detailed),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detailed {
    #[serde(default)]
    session: String,
    sql: Option<String>,
    mariadb: Option<String>,
    mysql9: Option<String>,
}

impl Statement {
    /// Name of the session and text for a server.
    pub fn for_server(&self, kind: Kind) -> Option<(&str, &str)> {
        match self {
            Statement::Plain(sql) => Some(("", sql)),
            Statement::Detailed(d) => {
                let own = match kind {
                    Kind::MariaDb => &d.mariadb,
                    Kind::MySql9 => &d.mysql9,
                };
                own.as_ref().or(d.sql.as_ref()).map(|sql| (d.session.as_str(), sql.as_str()))
            }
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// Statements of root before the setup.
    pub before: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

/// How a case is run. The outcome must be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Changes arrive while the pipeline streams.
    Plain,
    /// The pipeline is stopped in order, and started when all changes are in the log.
    Restarted,
    /// `kill -9` and a new start at random moments, from the snapshot on.
    Killed,
    /// As `Plain`, with two writers.
    Parallel,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Plain, Mode::Restarted, Mode::Killed, Mode::Parallel];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Plain => "plain",
            Mode::Restarted => "restarted",
            Mode::Killed => "killed",
            Mode::Parallel => "parallel",
        }
    }
}

impl Case {
    pub fn runs_on(&self, kind: Kind) -> bool {
        self.on.is_empty() || self.on.iter().any(|name| name == kind.name())
    }

    pub fn modes(&self) -> Vec<Mode> {
        if self.modes.is_empty() { Mode::ALL.to_vec() } else { self.modes.clone() }
    }

    /// The pattern of the option `tables`.
    pub fn tables(&self) -> String {
        let all = |database: &str| format!(r"{}.\.*", database.replace('.', r"\."));
        if !self.watch.is_empty() {
            let names: Vec<_> = self.watch.iter().map(|t| format!("{}.{t}", self.name)).collect();
            return names.join(",");
        }
        let databases = std::iter::once(&self.name).chain(&self.databases);
        databases.map(|d| all(d)).collect::<Vec<_>>().join(",")
    }
}

/// All cases, by name.
pub fn load() -> Result<Vec<Case>> {
    load_folder(&cache::workspace().join("crates/testkit/cases"))
}

fn load_folder(folder: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "yaml") {
            cases.push(read(&path).with_context(|| format!("case {}", path.display()))?);
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

fn read(path: &Path) -> Result<Case> {
    let mut case: Case = serde_saphyr::from_str(&fs::read_to_string(path)?)?;
    case.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for (table, expected) in &case.expect {
        if let Some(row) = expected.rows.iter().find(|r| r.len() != expected.columns.len()) {
            bail!("a row of {table} has {} values: {row:?}", row.len());
        }
    }
    if case.expect.is_empty() && case.counts.is_empty() {
        bail!("the case expects nothing");
    }
    for name in &case.on {
        if ![Kind::MariaDb, Kind::MySql9].iter().any(|kind| kind.name() == name) {
            bail!("there is no server {name}");
        }
    }
    Ok(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_read() {
        let cases = load().unwrap();
        assert!(cases.len() > 40, "{}", cases.len());
        let odd = cases.iter().find(|c| c.name == "odd_names").unwrap();
        assert_eq!(odd.tables(), r"odd_names.\.*,odd-names x.\.*");
    }

    #[test]
    fn statements_by_server() {
        let text = "[SELECT 1, {mysql9: SELECT 9}, {session: b, sql: SELECT 2, mariadb: SELECT 3}]";
        let statements: Vec<Statement> = serde_saphyr::from_str(text).unwrap();
        let of = |kind| statements.iter().map(|s| s.for_server(kind)).collect::<Vec<_>>();
        assert_eq!(of(Kind::MariaDb), [Some(("", "SELECT 1")), None, Some(("b", "SELECT 3"))]);
        assert_eq!(
            of(Kind::MySql9),
            [Some(("", "SELECT 1")), Some(("", "SELECT 9")), Some(("b", "SELECT 2"))]
        );
    }
}
