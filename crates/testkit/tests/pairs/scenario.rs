//! The files of `cases/pairs`: steps on tables that name neither a source nor a sink, and what every sink must hold in the
//! end.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use lakeward_testkit::cache;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One file. Its name is the name of the database.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    #[serde(skip)]
    pub name: String,
    #[allow(dead_code)]
    pub title: String,
    /// Before the pipeline starts: a snapshot's rows, or records that are in the topic already.
    #[serde(default)]
    pub setup: Vec<Step>,
    /// While it runs, or while it is away.
    pub live: Vec<Step>,
    /// Every table that the sink must have, and no other.
    pub expect: BTreeMap<String, Expected>,
    /// Ends that cannot do it by a documented rule.
    #[serde(default)]
    pub not_with: Vec<NotWith>,
    /// Tables that look otherwise with an end, by a documented rule.
    #[serde(default)]
    pub instead: Vec<Instead>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotWith {
    pub end: String,
    pub because: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instead {
    pub end: String,
    #[allow(dead_code)]
    pub because: String,
    pub expect: BTreeMap<String, Expected>,
}

/// Rows of a table, by the columns that it has.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub columns: Vec<String>,
    #[serde(default)]
    pub rows: Vec<Vec<Value>>,
    /// Rows that differ by a number.
    #[serde(default)]
    pub series: Vec<Series>,
}

/// A row for each number of a range; `{n}` in a text stands for the number.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub from: i64,
    pub to: i64,
    pub row: Vec<Value>,
}

/// What happens to a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// A column is `name type`, as MySQL spells types, with `not null` or `default …` behind it.
    Create {
        table: String,
        columns: Vec<String>,
        #[serde(default)]
        key: Vec<String>,
    },
    Insert {
        table: String,
        #[serde(default)]
        rows: Vec<Vec<Value>>,
        #[serde(default)]
        series: Vec<Series>,
    },
    /// The row with this key, or with these values where there is no key. May change the key.
    Update {
        table: String,
        at: Vec<Value>,
        set: Map<String, Value>,
    },
    Delete {
        table: String,
        at: Vec<Value>,
    },
    /// All rows whose first column is in the range, each for itself.
    UpdateSeries {
        table: String,
        from: i64,
        to: i64,
        set: Map<String, Value>,
    },
    DeleteSeries {
        table: String,
        from: i64,
        to: i64,
    },
    AddColumn {
        table: String,
        column: String,
    },
    DropColumn {
        table: String,
        column: String,
    },
    RenameColumn {
        table: String,
        from: String,
        to: String,
    },
    /// A wider type.
    Widen {
        table: String,
        column: String,
    },
    Truncate {
        table: String,
    },
    DropTable {
        table: String,
    },
    RenameTable {
        table: String,
        to: String,
    },
    /// Rows that change together.
    Transaction(Vec<Step>),
}

impl Scenario {
    /// Why it cannot run between two ends.
    pub fn reason_not_to(&self, ends: &[&str]) -> Option<&str> {
        let found = self.not_with.iter().find(|not| ends.contains(&not.end.as_str()));
        found.map(|not| not.because.as_str())
    }

    /// What an end must hold.
    pub fn expected(&self, ends: &[&str]) -> BTreeMap<String, Expected> {
        let mut expected = self.expect.clone();
        for instead in self.instead.iter().filter(|i| ends.contains(&i.end.as_str())) {
            expected.extend(instead.expect.clone());
        }
        expected
    }
}

impl Expected {
    pub fn all_rows(&self) -> Vec<Vec<Value>> {
        let mut rows = self.rows.clone();
        rows.extend(self.series.iter().flat_map(Series::rows));
        rows
    }
}

impl Series {
    pub fn rows(&self) -> impl Iterator<Item = Vec<Value>> {
        (self.from..=self.to).map(|n| self.row.iter().map(|value| numbered(value, n)).collect())
    }
}

/// A value with the number in the place of `{n}`.
pub fn numbered(value: &Value, n: i64) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{n}", &n.to_string())),
        other => other.clone(),
    }
}

pub fn load() -> Result<Vec<Scenario>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(cache::workspace().join("crates/testkit/cases/pairs"))? {
        let path = entry?.path();
        let mut scenario: Scenario = serde_saphyr::from_str(&fs::read_to_string(&path)?)
            .with_context(|| format!("scenario {}", path.display()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        scenario.name = stem;
        all.push(scenario);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    if all.len() < 10 {
        bail!("there are only {} scenarios", all.len());
    }
    Ok(all)
}
