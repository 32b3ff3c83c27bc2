//! The tables as the reader knows them where it stands. Immutable: a change makes a new one.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use lakeward_core::{TableId, TableSchema};
use serde::{Deserialize, Serialize};

/// Where a column's type comes from, which decides what a value is that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// From values that were seen: another value may widen it.
    Inferred,
    /// From what messages declare: another declaration may widen it, a value that does not fit is a bad one.
    Message,
    /// From a DDL message, which knows the type as it was declared: schemas of messages, which are less exact, do not
    /// change it, and a value that does not fit is a bad one.
    Statement,
    /// From the pipeline file: it stays.
    Option,
}

/// One table.
#[derive(Debug, Clone)]
pub struct Shape {
    pub table: TableId,
    pub schema: Arc<TableSchema>,
    pub origins: Vec<Origin>,
    /// A statement has changed the columns in a way that only the next row shows: columns that a declaration at or behind
    /// this place does not have are gone.
    pub altered: Option<Order>,
    /// Names that columns had, for changes that are read late.
    pub past: Vec<Past>,
    /// Positions of the key columns.
    pub key: Vec<usize>,
    index: HashMap<Arc<str>, usize>,
}

/// What a checkpoint keeps of a [`Shape`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShapeState {
    pub table: TableId,
    pub schema: Arc<TableSchema>,
    pub origins: Vec<Origin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<Order>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<Past>,
}

/// A name that no column has any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Past {
    pub name: Arc<str>,
    /// The column that has the values; `None` where it was dropped.
    pub now: Option<Arc<str>>,
    /// The statement that changed it: only earlier changes mean this column.
    pub until: Order,
}

impl ShapeState {
    pub fn new(table: TableId, schema: Arc<TableSchema>, origins: Vec<Origin>) -> Self {
        Self { table, schema, origins, altered: None, past: Vec::new() }
    }
}

impl Shape {
    pub fn new(state: ShapeState) -> Self {
        let ShapeState { table, schema, mut origins, altered, past } = state;
        origins.resize(schema.columns.len(), Origin::Inferred);
        let key = schema.key_indices();
        let index = schema.columns.iter().enumerate().map(|(i, c)| (c.name.clone(), i)).collect();
        Self { table, schema, origins, altered, past, key, index }
    }

    pub fn state(&self) -> ShapeState {
        ShapeState {
            table: self.table.clone(),
            schema: self.schema.clone(),
            origins: self.origins.clone(),
            altered: self.altered,
            past: self.past.clone(),
        }
    }

    /// The column of a field; `at` is where it probably is.
    pub fn find(&self, name: &str, at: usize) -> Option<usize> {
        match self.schema.columns.get(at) {
            Some(column) if *column.name == *name => Some(at),
            _ => self.index.get(name).copied(),
        }
    }
}

impl Shape {
    /// What became of a column that a change at `order` still has under this name.
    pub fn past(&self, name: &str, order: Order) -> Option<&Past> {
        self.past.iter().find(|past| *past.name == *name && order <= past.until)
    }
}

/// A record's place in the order in which the source made changes: its own time, and among equals the record's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Order {
    pub commit_ms: i64,
    pub record_ms: i64,
}

impl Order {
    /// Before every change.
    pub const FIRST: Order = Order { commit_ms: i64::MIN, record_ms: i64::MIN };
    /// Behind every change.
    pub const LAST: Order = Order { commit_ms: i64::MAX, record_ms: i64::MAX };
}

/// All tables, and the DDL that some of them wait for.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    pub tables: HashMap<TableId, Arc<Shape>>,
    /// Rows of these tables that are behind the place must wait: a DDL is to come first.
    pub holds: HashMap<TableId, Order>,
}

impl Shapes {
    pub fn hold(&self, namespace: &str, name: &str) -> Option<Order> {
        if self.holds.is_empty() {
            return None;
        }
        self.holds.get(&TableRef { namespace, name }).copied()
    }
}

/// A table's name for looking it up without a copy. Hashes as [`TableId`] does.
struct TableRef<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Hash for TableRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.namespace.hash(state);
        self.name.hash(state);
    }
}

impl Equivalent<TableId> for TableRef<'_> {
    fn equivalent(&self, key: &TableId) -> bool {
        *key.namespace == *self.namespace && *key.name == *self.name
    }
}

#[cfg(test)]
mod tests {
    use lakeward_core::{Column, DataType};

    use super::*;

    #[test]
    fn tables_are_found_by_their_parts() {
        let table = TableId::new("d", "t");
        let columns =
            vec![Column::new("id", DataType::Int, false), Column::new("n", DataType::String, true)];
        let schema = Arc::new(TableSchema::new(1, columns, vec!["id".into()]));
        let state = ShapeState::new(table.clone(), schema, vec![]);
        let shape = Arc::new(Shape::new(state));
        let mut shapes = Shapes::default();
        shapes.tables.insert(table, shape.clone());
        let order = Order { commit_ms: 1, record_ms: 1 };
        shapes.holds.insert(TableId::new("d", "t"), order);
        assert_eq!((shapes.hold("d", "t"), shapes.hold("d", "u")), (Some(order), None));
        assert_eq!(
            (shape.find("n", 1), shape.find("n", 0), shape.find("x", 0)),
            (Some(1), Some(1), None)
        );
        assert_eq!((shape.key.as_slice(), shape.origins.len()), (&[0][..], 2));
    }
}
