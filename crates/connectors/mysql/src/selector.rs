//! Which tables are copied: the grammar of `tables` and `tables.exclude`.

use std::sync::Arc;

use lakeward_core::{Error, Result, TableId};
use regex::Regex;

/// Patterns of the two options, compiled.
#[derive(Debug, Clone)]
pub struct TableSelector {
    include: Arc<[Pattern]>,
    exclude: Arc<[Pattern]>,
}

#[derive(Debug)]
struct Pattern {
    database: Regex,
    table: Regex,
}

/// Databases that belong to the server.
const SYSTEM: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];

impl TableSelector {
    pub fn new(tables: &str, exclude: Option<&str>) -> Result<Self> {
        let include = patterns("tables", tables)?;
        if include.is_empty() {
            return Err(Error::config("`tables` names no table"));
        }
        let exclude = patterns("tables.exclude", exclude.unwrap_or(""))?;
        Ok(Self { include: include.into(), exclude: exclude.into() })
    }

    pub fn is_selected(&self, table: &TableId) -> bool {
        let hit = |list: &[Pattern]| {
            list.iter()
                .any(|p| p.database.is_match(&table.namespace) && p.table.is_match(&table.name))
        };
        !is_system(&table.namespace) && hit(&self.include) && !hit(&self.exclude)
    }

    /// True where tables of this database may be selected.
    pub fn may_select_in(&self, database: &str) -> bool {
        !is_system(database) && self.include.iter().any(|p| p.database.is_match(database))
    }
}

fn is_system(database: &str) -> bool {
    SYSTEM.iter().any(|s| s.eq_ignore_ascii_case(database))
}

/// The table of an online schema change tool (gh-ost, pt-online-schema-change), recognised by its name.
pub fn is_ghost(table: &TableId) -> bool {
    let Some(inner) = table.name.strip_prefix('_') else { return false };
    ["_gho", "_ghc", "_del", "_new", "_old"]
        .iter()
        .any(|s| inner.len() > s.len() && inner.ends_with(s))
}

fn patterns(option: &'static str, text: &str) -> Result<Vec<Pattern>> {
    split(text, ',')
        .iter()
        .map(|item| item.trim())
        .filter(|item| !item.is_empty())
        .map(|item| pattern(option, item))
        .collect()
}

fn pattern(option: &'static str, item: &str) -> Result<Pattern> {
    let parts = split_at_dots(item);
    let [database, table] = parts.as_slice() else {
        return Err(Error::config(format!(
            "`{option}`: {item} must be a database and a table with one `.` between; a dot of a regular expression is \
             written `\\.`"
        )));
    };
    let compile = |part: &str| {
        Regex::new(&format!("^(?:{part})$")).map_err(|e| {
            Error::config(format!("`{option}`: {item} is not a regular expression")).with_source(e)
        })
    };
    Ok(Pattern { database: compile(database)?, table: compile(table)? })
}

/// Splits at a character that stands outside of brackets, braces and parentheses.
fn split(text: &str, at: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0usize;
    let mut escaped = false;
    for c in text.chars() {
        if c == at && depth == 0 && !escaped {
            parts.push(String::new());
            continue;
        }
        match c {
            _ if escaped => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

/// `.` separates; `\.` is a dot of the expression (any character).
fn split_at_dots(item: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = item.chars().peekable();
    while let Some(c) = chars.next() {
        let Some(last) = parts.last_mut() else { break };
        match c {
            '\\' if chars.peek() == Some(&'.') => {
                chars.next();
                last.push('.');
            }
            '\\' => {
                last.push(c);
                last.extend(chars.next());
            }
            '.' => parts.push(String::new()),
            _ => last.push(c),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(tables: &str, exclude: Option<&str>, db: &str, table: &str) -> bool {
        TableSelector::new(tables, exclude).unwrap().is_selected(&TableId::new(db, table))
    }

    #[test]
    fn the_documented_forms() {
        let tables = r"adb.\.*, bdb.user_table_[0-9]+, [app|web].order_\.*";
        assert!(selected(tables, None, "adb", "anything"));
        assert!(selected(tables, None, "bdb", "user_table_17"));
        assert!(!selected(tables, None, "bdb", "user_table_x"));
        assert!(selected(tables, None, "a", "order_9"));
        assert!(!selected(tables, None, "bdb", "xuser_table_1"));
        assert!(!selected(tables, Some(r"adb.tmp_\.*"), "adb", "tmp_1"));
        assert!(selected("d.t{1,2}", None, "d", "tt"));
        assert!(!selected(r"\.*.\.*", None, "mysql", "user"));
        assert!(selected("a44-x y.my-table 1", None, "a44-x y", "my-table 1"));
    }

    #[test]
    fn what_is_not_a_table_is_refused() {
        for bad in ["", "orders", "a.b.c", "a.(b"] {
            assert!(TableSelector::new(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn ghosts_are_known_by_name() {
        for name in ["_ord_gho", "_ord_ghc", "_ord_del", "_ord_new", "_ord_old"] {
            assert!(is_ghost(&TableId::new("d", name)), "{name}");
        }
        assert!(!is_ghost(&TableId::new("d", "ord")) && !is_ghost(&TableId::new("d", "_gho")));
    }
}
