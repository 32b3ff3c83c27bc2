//! Which tables are copied: the grammar of `tables` and `tables.exclude`.

use std::sync::Arc;

use lakeward_core::options::TablePattern;
use lakeward_core::{Error, Result, TableId};

/// Patterns of the two options, compiled.
#[derive(Debug, Clone)]
pub struct TableSelector {
    include: Arc<[TablePattern]>,
    exclude: Arc<[TablePattern]>,
}

/// Databases that belong to the server.
const SYSTEM: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];

impl TableSelector {
    pub fn new(tables: &str, exclude: Option<&str>) -> Result<Self> {
        let include = TablePattern::parse_list("tables", tables)?;
        if include.is_empty() {
            return Err(Error::config("`tables` names no table"));
        }
        let exclude = TablePattern::parse_list("tables.exclude", exclude.unwrap_or(""))?;
        Ok(Self { include: include.into(), exclude: exclude.into() })
    }

    pub fn is_selected(&self, table: &TableId) -> bool {
        let hit = |list: &[TablePattern]| list.iter().any(|p| p.matches(table));
        !is_system(&table.namespace) && hit(&self.include) && !hit(&self.exclude)
    }

    /// Warnings about patterns that none of these tables matches, where others do: one of them may be misspelled.
    pub fn without_table<'a>(
        &self,
        tables: impl Iterator<Item = &'a TableId> + Clone,
    ) -> Vec<String> {
        let idle = self.include.iter().filter(|p| !tables.clone().any(|t| p.matches(t)));
        let idle: Vec<&TablePattern> = idle.collect();
        if idle.len() == self.include.len() {
            return Vec::new();
        }
        let warning = |p: &&TablePattern| {
            format!("`tables`: no table matches {} yet; is it spelled right?", p.text())
        };
        idle.iter().map(warning).collect()
    }

    /// True where tables of this database may be selected.
    pub fn may_select_in(&self, database: &str) -> bool {
        !is_system(database) && self.include.iter().any(|p| p.matches_namespace(database))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(tables: &str, exclude: Option<&str>, db: &str, table: &str) -> bool {
        TableSelector::new(tables, exclude).unwrap().is_selected(&TableId::new(db, table))
    }

    #[test]
    fn included_less_excluded_less_the_servers_own() {
        let tables = r"adb.\.*, bdb.user_table_[0-9]+";
        assert!(selected(tables, None, "adb", "anything"));
        assert!(!selected(tables, None, "bdb", "user_table_x"));
        assert!(!selected(tables, Some(r"adb.tmp_\.*"), "adb", "tmp_1"));
        assert!(!selected(r"\.*.\.*", None, "mysql", "user"));
    }

    #[test]
    fn a_pattern_without_a_table_is_named() {
        let selector = TableSelector::new(r"shop.\.*, shop.ordrs", None).unwrap();
        let tables = [TableId::new("shop", "orders")];
        let warnings = selector.without_table(tables.iter());
        assert_eq!(warnings, ["`tables`: no table matches shop.ordrs yet; is it spelled right?"]);
        assert!(selector.without_table([].iter()).is_empty(), "another message says that");
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
