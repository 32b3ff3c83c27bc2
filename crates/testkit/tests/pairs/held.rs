//! What the sinks hold after a run, against what a scenario expects.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, bail};
use lakeward_testkit::form::Form;
use serde_json::Value;

use crate::doris::Doris;
use crate::iceberg::Iceberg;
use crate::run::{Content, TextRow};
use crate::scenario::{Expected, Scenario};
use crate::tables::{Shape, Tables};

/// The tables of all scenarios as they are in the end.
fn shapes(scenarios: &[&Scenario]) -> Result<BTreeMap<String, Tables>> {
    let mut all = BTreeMap::new();
    for scenario in scenarios {
        let mut tables = Tables::default();
        for step in scenario.setup.iter().chain(&scenario.live) {
            tables.apply(step)?;
        }
        all.insert(scenario.name.clone(), tables);
    }
    Ok(all)
}

/// What each sink holds, by its name, and what the source's tables are in the end.
pub struct Held {
    sinks: Vec<(&'static str, Content)>,
    tables: BTreeMap<String, Tables>,
}

impl Held {
    pub fn read(
        scenarios: &[&Scenario],
        iceberg: Option<&Iceberg>,
        doris: Option<&Doris>,
    ) -> Result<Self> {
        let tables = shapes(scenarios)?;
        let kind = |database: &str, table: &str, column: &str| {
            let shape = tables.get(database).and_then(|tables| tables.shape(table).ok());
            shape.and_then(|s| Some(&s.columns[s.place(column).ok()?].kind))
        };
        let form = |database: &str, table: &str, column: &str| {
            kind(database, table, column).map_or(Form::Text, |kind| kind.form())
        };
        let binary = |database: &str, table: &str, column: &str| {
            kind(database, table, column).is_some_and(|kind| kind.is_binary())
        };
        let mut sinks = Vec::new();
        if let Some(iceberg) = iceberg {
            sinks.push(("iceberg", iceberg.read(&form)?));
        }
        if let Some(doris) = doris {
            sinks.push(("doris", doris.read(&form, &binary)?));
        }
        Ok(Self { sinks, tables })
    }
}

/// Everything that is wrong with a scenario, in one error.
pub fn check(scenario: &Scenario, ends: &[&str], held: &Held) -> Result<()> {
    let expected = scenario.expected(ends);
    let mut problems = Vec::new();
    for (sink, content) in &held.sinks {
        let of_scenario = |(database, _): &&(String, String)| *database == scenario.name;
        for (_, table) in content.keys().filter(of_scenario) {
            if !expected.contains_key(table) {
                problems.push(format!("{sink} has the table {table}"));
            }
        }
        for (table, expected) in &expected {
            let found = content.get(&(scenario.name.clone(), table.clone()));
            let Some(found) = found else {
                problems.push(format!("{sink} has no table {table}"));
                continue;
            };
            let shape = held.tables.get(&scenario.name).and_then(|t| t.shape(table).ok());
            if let Err(error) = check_table(expected, shape.map(|s| &**s), found) {
                problems.push(format!("{table} in {sink}: {error:#}"));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n  ")) }
}

fn check_table(
    expected: &Expected,
    shape: Option<&Shape>,
    (columns, rows): &(Vec<String>, Vec<TextRow>),
) -> Result<()> {
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    if sorted(columns) != sorted(&expected.columns) {
        bail!("the columns are {columns:?}, not {:?}", expected.columns);
    }
    let place = |name: &String| columns.iter().position(|c| c == name).context("just compared");
    let places: Vec<usize> = expected.columns.iter().map(place).collect::<Result<_>>()?;
    let mut found: Vec<TextRow> =
        rows.iter().map(|row| places.iter().map(|&p| row[p].clone()).collect()).collect();
    let form = |name: &String| {
        shape.and_then(|s| Some(s.columns[s.place(name).ok()?].kind.form())).unwrap_or(Form::Text)
    };
    let forms: Vec<Form> = expected.columns.iter().map(form).collect();
    let text = |(value, form): (&Value, &Form)| match value {
        Value::Null => Ok(None),
        Value::String(text) => form.of_source(text),
        other => form.of_source(&other.to_string()),
    };
    let mut wanted = Vec::new();
    for row in expected.all_rows() {
        wanted.push(row.iter().zip(&forms).map(text).collect::<Result<TextRow>>()?);
    }
    wanted.sort();
    found.sort();
    if wanted == found {
        return Ok(());
    }
    let missing: Vec<_> = minus(&wanted, &found);
    let extra: Vec<_> = minus(&found, &wanted);
    bail!(
        "{} rows, not {}: {columns:?}\n    missing {:?}\n    too many {:?}",
        found.len(),
        wanted.len(),
        &missing[..missing.len().min(4)],
        &extra[..extra.len().min(4)]
    )
}

/// The rows of a sorted list that another one does not have, each as often as it is missing.
fn minus<'r>(of: &'r [TextRow], less: &[TextRow]) -> Vec<&'r TextRow> {
    let mut left: HashMap<&[Option<String>], usize> = HashMap::new();
    for row in less {
        *left.entry(row).or_default() += 1;
    }
    let mut missing = Vec::new();
    for row in of {
        match left.get_mut(row.as_slice()) {
            Some(count) if *count > 0 => *count -= 1,
            _ => missing.push(row),
        }
    }
    missing
}
