//! What must hold in the end.

use std::fmt;

use lakeward_values::{Contents, Faults, ValuesSource};

use super::Scenario;
use super::run::World;

/// Steps of the trace that a failure shows.
const SHOWN: usize = 40;

/// What is wrong.
pub struct Failure {
    message: String,
    trace: Vec<String>,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), trace: Vec::new() }
    }

    pub(super) fn of(error: impl fmt::Display) -> Self {
        Self::new(error.to_string())
    }

    pub(super) fn with_trace(mut self, faults: &Faults) -> Self {
        self.trace = faults.trace();
        self
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let skipped = self.trace.len().saturating_sub(SHOWN);
        for (number, step) in self.trace.iter().enumerate().skip(skipped) {
            write!(f, "\n  step {}: {step}", number + 1)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The lake equals the source, nothing impossible was seen on the way, and every published epoch was one moment of the
/// source in all tables.
pub(super) fn check(scenario: &Scenario, world: &World) -> Result<(), Failure> {
    let failed = |message: String| Err(Failure::new(message).with_trace(&world.faults));
    let violations = world.lake.violations();
    if !violations.is_empty() {
        return failed(format!("violations: {}", violations.join("; ")));
    }
    let (lake, source) = (lake_contents(world), world.database.contents());
    if let Some(difference) = difference(&source, &lake) {
        return failed(difference);
    }
    let ddl = |s: &String| {
        ["alter", "truncate", "rename", "drop", "create"].iter().any(|verb| s.contains(verb))
    };
    if !scenario.phases.iter().flat_map(|p| &p.statements).any(ddl)
        && let Some(message) = inconsistent_epoch(world)?
    {
        return failed(message);
    }
    Ok(())
}

/// What the lake holds, but for empty tables that a life left which ended before its first checkpoint, and that the source
/// had dropped by the next one: nobody knows of them.
pub(super) fn lake_contents(world: &World) -> Contents {
    let (source, untouched) = (world.database.contents(), world.lake.untouched());
    let mut lake = world.lake.contents();
    lake.retain(|name, _| source.contains_key(name) || !untouched.contains(name));
    lake
}

/// A DDL reaches the lake ahead of its epoch and holds its table back, so this is asked only where there is none.
fn inconsistent_epoch(world: &World) -> Result<Option<String>, Failure> {
    let mut last = 0;
    for (epoch, contents) in world.lake.epochs() {
        let Some(reached) = ValuesSource::transactions(&epoch.offsets).map_err(Failure::of)? else {
            continue;
        };
        if reached < last {
            return Ok(Some(format!("epoch {} goes back to {reached}", epoch.checkpoint)));
        }
        last = reached;
        if let Some(difference) = difference(&world.database.contents_at(reached), &contents) {
            let checkpoint = epoch.checkpoint;
            return Ok(Some(format!(
                "epoch {checkpoint} is no moment of the source: {difference}"
            )));
        }
    }
    Ok(None)
}

/// Names the first table that differs, with what it has too much and too little.
pub(super) fn difference(source: &Contents, lake: &Contents) -> Option<String> {
    let names = source.keys().chain(lake.keys());
    for name in names {
        match (source.get(name), lake.get(name)) {
            (Some(source), Some(lake)) if source == lake => {}
            (Some(source), Some(lake)) => {
                let missing: Vec<_> = source.iter().filter(|r| !lake.contains(r)).collect();
                let extra: Vec<_> = lake.iter().filter(|r| !source.contains(r)).collect();
                let (is, should) = (lake.len(), source.len());
                return Some(format!(
                    "{name} has {is} rows and should have {should}; missing {missing:?}, extra {extra:?}"
                ));
            }
            (Some(_), None) => return Some(format!("{name} is not in the lake")),
            (None, _) => return Some(format!("{name} should no longer be in the lake")),
        }
    }
    None
}
