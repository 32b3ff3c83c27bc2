//! Golden scenarios: statements in, table contents out, as YAML files.

use std::collections::BTreeMap;
use std::path::Path;

use lakeward_values::Contents;
use serde::Deserialize;

use super::check::difference;
use super::{Failure, Outcome, Phase, Scenario};

/// One file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// What it is about, in one sentence.
    pub about: String,
    /// SQL before the pipeline starts.
    pub setup: String,
    /// SQL while it runs.
    pub live: String,
    /// Rows by table in the end, in any order.
    pub expect: BTreeMap<String, Vec<BTreeMap<String, Value>>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Null(()),
    Boolean(bool),
    Long(i64),
    Double(f64),
    Text(String),
}

impl Value {
    fn show(&self) -> String {
        match self {
            Value::Null(()) => "NULL".into(),
            Value::Boolean(v) => v.to_string(),
            Value::Long(v) => v.to_string(),
            Value::Double(v) => v.to_string(),
            Value::Text(v) => format!("'{v}'"),
        }
    }
}

impl Golden {
    /// # Errors
    /// A file that is not there or not a scenario.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let named = |e: String| Failure::new(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| named(e.to_string()))?;
        serde_saphyr::from_str(&text).map_err(|e| named(e.to_string()))
    }

    pub fn scenario(&self, seed: u64) -> Scenario {
        Scenario::new(seed, statements(&self.setup)).with_phase(Phase::new(statements(&self.live)))
    }

    /// # Errors
    /// Where the outcome is not what the file expects.
    pub fn compare(&self, outcome: &Outcome) -> Result<(), Failure> {
        let expected: Contents = self
            .expect
            .iter()
            .map(|(table, rows)| {
                let row = |row: &BTreeMap<String, Value>| {
                    row.iter().map(|(name, value)| (name.clone(), value.show())).collect()
                };
                let mut rows: Vec<BTreeMap<String, String>> = rows.iter().map(row).collect();
                rows.sort();
                (table.clone(), rows)
            })
            .collect();
        difference(&expected, &outcome.contents).map_or(Ok(()), |d| Err(Failure::new(d)))
    }
}

/// Statements end with a semicolon at the end of a line.
fn statements(text: &str) -> Vec<String> {
    let statements = text.split(";\n").map(|s| s.trim().trim_end_matches(';'));
    statements.filter(|s| !s.is_empty()).map(String::from).collect()
}
