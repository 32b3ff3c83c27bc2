//! Where a source is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Names an independently ordered part of a source: the one log of a database, a Kafka partition.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct SplitId(pub Arc<str>);

/// A place in a split from which reading can resume, in the source's own text form (JSON by convention). Only the source
/// that wrote it reads or compares it: [`crate::Source::covers`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Offset(pub Arc<str>);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One offset for each split of a source: a consistent place in all of it.
pub type Offsets = BTreeMap<SplitId, Offset>;

/// A row's place in its split's order, for ordering rows of one table: (log file number, byte) of MySQL, (LSN, 0) of
/// Postgres, (partition, offset) of Kafka. Compared as a pair. It orders; it is not a place to resume from.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Position {
    pub hi: u64,
    pub lo: u64,
}
