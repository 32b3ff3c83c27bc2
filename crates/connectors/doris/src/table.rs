//! What is known of a table in Doris: its columns, its model, and the DDL that it has.

use lakeward_core::{Error, Result, TableId, TableSchema};

use crate::client::{Cluster, literal, quoted};
use crate::progress::AppliedDdl;
use crate::session::Session;
use crate::types::DorisType;

/// A column as Doris shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    /// `None` for a type that the sink never makes.
    pub(crate) data_type: Option<DorisType>,
    pub(crate) is_key: bool,
    pub(crate) nullable: bool,
    pub(crate) default: Option<String>,
}

/// The columns of a table, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableShape(pub(crate) Vec<TableColumn>);

impl TableShape {
    /// `None` when there is no such table.
    pub(crate) async fn read(cluster: &Cluster, table: &TableId) -> Result<Option<Self>> {
        let there = format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            literal(&table.namespace),
            literal(&table.name)
        );
        if cluster.sql.rows(&there).await?.is_empty() {
            return Ok(None);
        }
        let rows = cluster.sql.rows(&format!("DESC {}", name_of(table))).await?;
        let columns = rows.iter().map(|row| {
            let yes = |column: &str| {
                row.get(column).is_some_and(|v| {
                    ["yes", "true"].iter().any(|word| v.eq_ignore_ascii_case(word))
                })
            };
            let text = |column: &str| {
                row.get(column).ok_or_else(|| {
                    Error::transient("doris describes a table in a way that is not known")
                        .with("table", table)
                        .with("column", column)
                })
            };
            Ok(TableColumn {
                name: text("Field")?.to_string(),
                data_type: DorisType::parse(text("Type")?),
                is_key: yes("Key"),
                nullable: yes("Null"),
                default: row.get("Default").filter(|d| *d != "NULL").map(str::to_string),
            })
        });
        columns.collect::<Result<_>>().map(|columns| Some(Self(columns)))
    }

    /// Names of columns do not care about case in Doris.
    pub(crate) fn find(&self, name: &str) -> Option<&TableColumn> {
        self.0.iter().find(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// Whether it can take the rows of `schema`: its columns with these types and this key. It may have more, if they can
    /// be null.
    pub(crate) fn agrees(&self, schema: &TableSchema) -> Result<bool> {
        for column in &schema.columns {
            let is_key = schema.primary_key.contains(&column.name);
            let wanted = DorisType::of(column, is_key)?;
            match self.find(&column.name) {
                Some(found) if found.data_type == Some(wanted) => {}
                _ => return Ok(false),
            }
        }
        let more =
            |c: &TableColumn| schema.columns.iter().all(|s| !s.name.eq_ignore_ascii_case(&c.name));
        if self.0.iter().any(|c| more(c) && !c.nullable) {
            return Ok(false);
        }
        if schema.primary_key.is_empty() {
            return Ok(true);
        }
        let keys: Vec<&str> = self.0.iter().filter(|c| c.is_key).map(|c| c.name.as_str()).collect();
        Ok(keys.len() == schema.primary_key.len()
            && keys.iter().zip(&schema.primary_key).all(|(a, b)| a.eq_ignore_ascii_case(b)))
    }
}

/// A table as the writers need to know it.
#[derive(Debug, Clone)]
pub(crate) struct TableFacts {
    /// Rows of one key replace each other, and can be deleted.
    pub(crate) unique: bool,
    pub(crate) merge_on_write: bool,
    pub(crate) has_sequence: bool,
    ddl: Vec<AppliedDdl>,
}

/// Where the cells of rows of one schema version go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// For each column of the schema its name in Doris; `None` where the table no longer has it.
    pub(crate) names: Vec<Option<String>>,
    /// Columns that the table has since, and the text of what these rows hold there.
    pub(crate) constants: Vec<(String, Option<String>)>,
}

impl TableFacts {
    pub(crate) async fn read(session: &Session, table: &TableId) -> Result<Self> {
        let cluster = &session.cluster;
        let rows = cluster.sql.rows(&format!("SHOW CREATE TABLE {}", name_of(table))).await?;
        let text = rows.first().and_then(|row| row.get("Create Table")).ok_or_else(|| {
            Error::transient("doris does not show how a table was created").with("table", table)
        })?;
        let ddl = session.progress.ddl(cluster, &session.pipeline, table).await?;
        Ok(Self::of_statement(text, ddl))
    }

    fn of_statement(create: &str, ddl: Vec<AppliedDdl>) -> Self {
        let has = |text: &str| create.contains(text);
        let unique = has("\nUNIQUE KEY(") || has(" UNIQUE KEY(");
        let off = ["\"enable_unique_key_merge_on_write\" = \"false\""].iter().any(|t| has(t));
        Self {
            unique,
            merge_on_write: unique && !off,
            has_sequence: has("\"function_column.sequence_type\""),
            ddl,
        }
    }

    /// Rows may be older than the table: a restart reads again what came before a DDL that the table has already.
    pub(crate) fn bind(&self, schema: &TableSchema) -> Binding {
        let mut names: Vec<Option<String>> =
            schema.columns.iter().map(|c| Some(c.name.to_string())).collect();
        let mut constants: Vec<(String, Option<String>)> = Vec::new();
        for ddl in self.ddl.iter().filter(|d| d.version > schema.version) {
            let all = names.iter_mut();
            all.filter(|n| n.as_ref().is_some_and(|n| ddl.dropped.contains(n)))
                .for_each(|n| *n = None);
            constants.retain(|(name, _)| !ddl.dropped.contains(name));
            let renamed = |name: &String| {
                ddl.renames.iter().find(|(from, _)| from == name).map(|(_, to)| to.clone())
            };
            for name in names.iter_mut().flatten() {
                if let Some(to) = renamed(name) {
                    *name = to;
                }
            }
            for (name, _) in &mut constants {
                if let Some(to) = renamed(name) {
                    *name = to;
                }
            }
            constants.extend(ddl.added.iter().cloned());
        }
        Binding { names, constants }
    }
}

/// `` `db`.`table` ``.
pub(crate) fn name_of(table: &TableId) -> String {
    format!("{}.{}", quoted(&table.namespace), quoted(&table.name))
}

#[cfg(test)]
mod tests {
    use lakeward_core::{Column, DataType};

    use super::*;

    fn column(name: &str, data_type: DorisType, is_key: bool) -> TableColumn {
        let (name, nullable) = (name.to_string(), !is_key);
        TableColumn { name, data_type: Some(data_type), is_key, nullable, default: None }
    }

    fn schema() -> TableSchema {
        TableSchema::new(
            3,
            vec![
                Column::new("id", DataType::Int, false),
                Column::new("a", DataType::Varchar { length: 5 }, true),
                Column::new("b", DataType::Int, true),
            ],
            vec!["id".into()],
        )
    }

    #[test]
    fn shapes_are_compared() {
        let mut shape = TableShape(vec![
            column("ID", DorisType::Int, true),
            column("b", DorisType::Int, false),
            column("a", DorisType::Varchar { bytes: 20 }, false),
        ]);
        assert!(shape.agrees(&schema()).expect("compared"));
        shape.0.push(column("more", DorisType::Int, false));
        assert!(shape.agrees(&schema()).expect("compared"));
        shape.0[3].nullable = false;
        assert!(!shape.agrees(&schema()).expect("compared"));
        shape.0.pop();
        shape.0[1].data_type = Some(DorisType::BigInt);
        assert!(!shape.agrees(&schema()).expect("compared"));
    }

    #[test]
    fn older_rows_follow_the_ddl_that_came_after_them() {
        let ddl = |version, renames: &[(&str, &str)], dropped: &[&str], added: &[(&str, &str)]| {
            let pair = |(a, b): &(&str, &str)| (a.to_string(), b.to_string());
            AppliedDdl {
                hi: 0,
                lo: u64::from(version),
                version,
                renames: renames.iter().map(pair).collect(),
                dropped: dropped.iter().map(|d| d.to_string()).collect(),
                added: added.iter().map(|(n, v)| (n.to_string(), Some(v.to_string()))).collect(),
            }
        };
        let facts = TableFacts::of_statement(
            "CREATE TABLE `t` (\n) ENGINE=OLAP\nUNIQUE KEY(`id`)\nPROPERTIES (\n\"function_column.sequence_type\" = \"LARGEINT\"\n);",
            vec![
                ddl(3, &[("id", "wrong")], &[], &[]),
                ddl(4, &[("a", "b"), ("b", "a")], &[], &[("c", "1"), ("d", "2")]),
                ddl(5, &[("c", "e")], &["a", "d"], &[]),
            ],
        );
        assert!(facts.unique && facts.merge_on_write && facts.has_sequence);
        let bound = facts.bind(&schema());
        assert_eq!(bound.names, [Some("id".into()), Some("b".into()), None]);
        assert_eq!(bound.constants, [("e".to_string(), Some("1".to_string()))]);
    }
}
