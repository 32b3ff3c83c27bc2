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

    /// A hash that is the same in every process and version: which operator instance owns the table. FNV-1a, 64 bits.
    pub fn stable_hash(&self) -> u64 {
        let parts = [self.namespace.as_bytes(), &[0], self.name.as_bytes()];
        parts.iter().flat_map(|p| p.iter()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}
