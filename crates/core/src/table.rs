//! The name of a table.

use std::fmt;
use std::sync::Arc;

/// A table's name: a namespace (MySQL database, Postgres schema, Iceberg namespace) and a name, both as the source
/// spells them. Displayed as `namespace.name`; parts are never parsed back out of that text.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct TableId {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl TableId {
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}
