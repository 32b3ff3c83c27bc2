//! Which sink tables a source table goes to.

use lakeward_core::options::table_pattern::split_at_dots;
use lakeward_core::{Error, Result, TableId};
use regex::Regex;

/// What happens when several rules match one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouteMode {
    /// The table goes to the target of each.
    #[default]
    AllMatch,
    /// The first one wins.
    FirstMatch,
}

/// What tells rows of different source tables apart where several are merged into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShardKey {
    /// Nothing was said: a second table that would join is refused, since equal keys would overwrite each other.
    #[default]
    Unspecified,
    /// The user states that keys are unique across the tables.
    None,
    /// A column `__source_table` is added and becomes the first key column.
    SourceTable,
}

/// A route as the pipeline file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRule {
    /// `namespace.table`; each part is a regular expression in which `\.` stands for any character.
    pub source_table: String,
    /// `namespace.table`, with `$1` for the pattern's groups.
    pub sink_table: String,
    /// A text within `sink_table` that the source table's name replaces.
    pub replace_symbol: Option<String>,
    pub shard_key: ShardKey,
}

/// All routes of a pipeline.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    rules: Vec<Compiled>,
    mode: RouteMode,
}

#[derive(Debug, Clone)]
struct Compiled {
    pattern: Regex,
    rule: RouteRule,
}

/// Where a source table goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub table: TableId,
    pub shard_key: ShardKey,
}

impl Routes {
    /// # Errors
    /// `Config` for a pattern that is no regular expression or has not two parts.
    pub fn new(rules: Vec<RouteRule>, mode: RouteMode) -> Result<Self> {
        let rules = rules
            .into_iter()
            .map(|rule| Ok(Compiled { pattern: compile(&rule.source_table)?, rule }))
            .collect::<Result<_>>()?;
        Ok(Self { rules, mode })
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The sink tables of `table`: itself where no rule matches.
    ///
    /// # Errors
    /// `Config` when a rule's target is not `namespace.table`.
    pub fn targets(&self, table: &TableId) -> Result<Vec<Target>> {
        let name = format!("{}\0{}", table.namespace, table.name);
        let mut targets: Vec<Target> = Vec::new();
        for compiled in &self.rules {
            let Some(captures) = compiled.pattern.captures(&name) else { continue };
            let rule = &compiled.rule;
            let mut target = String::new();
            captures.expand(&braced(&rule.sink_table), &mut target);
            if let Some(symbol) = rule.replace_symbol.as_deref().filter(|s| !s.is_empty()) {
                target = target.replace(symbol, &table.name);
            }
            let (namespace, name) = target.split_once('.').ok_or_else(|| {
                Error::config("a route's sink-table must be of the form database.table")
                    .with("sink-table", &rule.sink_table)
            })?;
            let table = TableId::new(namespace, name);
            if !targets.iter().any(|t| t.table == table) {
                targets.push(Target { table, shard_key: rule.shard_key });
            }
            if self.mode == RouteMode::FirstMatch {
                break;
            }
        }
        if targets.is_empty() {
            targets.push(Target { table: table.clone(), shard_key: ShardKey::Unspecified });
        }
        Ok(targets)
    }
}

/// A Flink CDC table pattern as a regular expression over `namespace NUL table`: a plain `.` separates the two, `\.` is the
/// regular expression's dot.
fn compile(pattern: &str) -> Result<Regex> {
    let parts = split_at_dots(pattern);
    let [namespace, table] = parts.as_slice() else {
        return Err(Error::config(
            "a route's source-table must be of the form database.table; write \\. for the dot of a regular expression",
        )
        .with("source-table", pattern));
    };
    Regex::new(&format!("^(?s:{namespace})\0(?s:{table})$")).map_err(|e| {
        Error::config("a route's source-table is not a valid regular expression")
            .with("source-table", pattern)
            .with_source(e)
    })
}

/// `$1_x` means group 1 followed by `_x`, not a group named `1_x`.
fn braced(target: &str) -> String {
    let mut out = String::new();
    let mut chars = target.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        if c == '$' && chars.peek().is_some_and(char::is_ascii_digit) {
            out.push('{');
            while let Some(d) = chars.next_if(char::is_ascii_digit) {
                out.push(d);
            }
            out.push('}');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(source: &str, sink: &str, symbol: Option<&str>) -> RouteRule {
        RouteRule {
            source_table: source.into(),
            sink_table: sink.into(),
            replace_symbol: symbol.map(Into::into),
            shard_key: ShardKey::None,
        }
    }

    fn names(routes: &Routes, namespace: &str, name: &str) -> Vec<String> {
        let targets = routes.targets(&TableId::new(namespace, name)).unwrap();
        targets.iter().map(|t| t.table.to_string()).collect()
    }

    #[test]
    fn groups_symbols_and_no_match() {
        let routes = Routes::new(
            vec![
                rule(r"db_(\.*).(\.*)_tbl", "ods_$1.t_$2", None),
                rule(r"shop.\.*", "ods.ods_<>", Some("<>")),
                rule(r"m.s_\d+", "m.s", None),
            ],
            RouteMode::AllMatch,
        )
        .unwrap();
        assert_eq!(names(&routes, "db_eu", "orders_tbl"), ["ods_eu.t_orders"]);
        assert_eq!(names(&routes, "shop", "a.b"), ["ods.ods_a.b"]);
        assert_eq!(names(&routes, "m", "s_07"), ["m.s"]);
        assert_eq!(names(&routes, "m", "s_x"), ["m.s_x"]);
    }

    #[test]
    fn modes() {
        let rules = vec![rule(r"a.\.*", "x.all", None), rule("a.t", "y.t", None)];
        let all = Routes::new(rules.clone(), RouteMode::AllMatch).unwrap();
        assert_eq!(names(&all, "a", "t"), ["x.all", "y.t"]);
        let first = Routes::new(rules, RouteMode::FirstMatch).unwrap();
        assert_eq!(names(&first, "a", "t"), ["x.all"]);
    }

    #[test]
    fn bad_patterns_are_config_errors() {
        for bad in ["nodot", "a.b.c", "a.("] {
            assert!(
                Routes::new(vec![rule(bad, "a.b", None)], RouteMode::AllMatch).is_err(),
                "{bad}"
            );
        }
    }
}
