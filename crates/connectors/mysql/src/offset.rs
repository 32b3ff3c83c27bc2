//! Where in the log a reader is, and how two such places compare.

use std::fmt;
use std::sync::Arc;

use lakeward_core::{Error, Offset, Position, Result, SplitId};
use serde::{Deserialize, Serialize};

use crate::binlog::{MariaDbGtid, MariaDbGtidSet, MySqlGtid, MySqlGtidSet};

/// The one split of this source.
pub fn split() -> SplitId {
    SplitId("binlog".into())
}

/// A transaction's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gtid {
    MySql(MySqlGtid),
    MariaDb(MariaDbGtid),
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gtid::MySql(g) => g.fmt(f),
            Gtid::MariaDb(g) => g.fmt(f),
        }
    }
}

/// Transactions that were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GtidSet {
    MySql(MySqlGtidSet),
    MariaDb(MariaDbGtidSet),
}

impl GtidSet {
    pub fn add(&mut self, gtid: &Gtid) {
        match (self, gtid) {
            (GtidSet::MySql(set), Gtid::MySql(g)) => set.add(g),
            (GtidSet::MariaDb(set), Gtid::MariaDb(g)) => set.add(*g),
            _ => {}
        }
    }

    pub fn contains(&self, gtid: &Gtid) -> bool {
        match (self, gtid) {
            (GtidSet::MySql(set), Gtid::MySql(g)) => set.contains(g),
            (GtidSet::MariaDb(set), Gtid::MariaDb(g)) => set.contains(*g),
            _ => false,
        }
    }

    /// `None` where the two are of different kinds of servers.
    pub fn contains_set(&self, other: &GtidSet) -> Option<bool> {
        match (self, other) {
            (GtidSet::MySql(a), GtidSet::MySql(b)) => Some(a.contains_set(b)),
            (GtidSet::MariaDb(a), GtidSet::MariaDb(b)) => Some(a.contains_set(b)),
            _ => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            GtidSet::MySql(set) => set.is_empty(),
            GtidSet::MariaDb(set) => set.is_empty(),
        }
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GtidSet::MySql(set) => set.fmt(f),
            GtidSet::MariaDb(set) => set.fmt(f),
        }
    }
}

/// A byte in a log file of one server. Files are ordered by the number that their names end with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePosition {
    pub file: Arc<str>,
    pub pos: u64,
}

impl FilePosition {
    pub fn new(file: impl Into<Arc<str>>, pos: u64) -> Self {
        Self { file: file.into(), pos }
    }

    pub fn file_number(&self) -> u64 {
        self.file.rsplit('.').next().and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// The place in the order of this server's log.
    pub fn order(&self) -> (u64, u64) {
        (self.file_number(), self.pos)
    }
}

impl PartialOrd for FilePosition {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.order().cmp(&other.order()))
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.pos)
    }
}

/// A place between two transactions, complete enough to go on from it on this server or, by its GTIDs, on another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogOffset {
    /// [`crate::client::ServerFacts::identity`] of the server whose file and byte these are.
    pub server: Arc<str>,
    #[serde(flatten)]
    pub at: FilePosition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtids: Option<GtidSet>,
    /// How often the pipeline has moved to another server, whose files count anew.
    #[serde(default)]
    pub era: u32,
}

impl LogOffset {
    pub fn encode(&self) -> Result<Offset> {
        let text = serde_json::to_string(self)
            .map_err(|e| Error::bug("could not encode a log offset").with_source(e))?;
        Ok(Offset(text.into()))
    }

    pub fn decode(offset: &Offset) -> Result<Self> {
        serde_json::from_str(&offset.0)
            .map_err(|e| Error::config("a stored offset is not one of a MySQL log").with_source(e))
    }

    /// The order of a byte of this offset's server among all that this pipeline reads.
    pub fn position_of(&self, at: &FilePosition) -> Position {
        position(self.era, at)
    }

    /// True when everything up to `other` is also up to here.
    pub fn covers(&self, other: &LogOffset) -> Result<bool> {
        if self.server == other.server {
            return Ok(self.at >= other.at);
        }
        let by_gtid = self.gtids.as_ref().zip(other.gtids.as_ref());
        by_gtid.and_then(|(a, b)| a.contains_set(b)).ok_or_else(|| {
            Error::offset_lost(
                "two log positions are of different servers and have no GTIDs in common, so they cannot be compared; \
                 start over with a new snapshot (--resnapshot)",
            )
            .with("position", self)
            .with("other", other)
        })
    }
}

/// Files have numbers below 2^40 and are shorter than 2^48 bytes. The low 16 bits are for events that stand in no log.
pub fn position(era: u32, at: &FilePosition) -> Position {
    Position { hi: u64::from(era) << 40 | at.file_number(), lo: at.pos << 16 }
}

impl fmt::Display for LogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)?;
        if let Some(gtids) = &self.gtids {
            write!(f, " gtids {gtids}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(server: &str, file: &str, pos: u64, gtids: Option<&str>) -> LogOffset {
        LogOffset {
            server: server.into(),
            at: FilePosition::new(file, pos),
            gtids: gtids.map(|g| GtidSet::MariaDb(g.parse().unwrap())),
            era: 0,
        }
    }

    #[test]
    fn one_servers_files_are_in_order() {
        let a = offset("s", "bin.000009", 900, None);
        let b = offset("s", "bin.000010", 4, None);
        assert!(b.covers(&a).unwrap() && !a.covers(&b).unwrap());
        assert!(a.covers(&a).unwrap());
        assert!(b.position_of(&b.at) > a.position_of(&a.at));
    }

    #[test]
    fn other_servers_need_gtids() {
        let a = offset("s", "bin.000009", 900, Some("0-1-5"));
        let b = offset("t", "bin.000001", 4, Some("0-1-5,1-2-3"));
        assert!(b.covers(&a).unwrap() && !a.covers(&b).unwrap());
        let c = offset("t", "bin.000001", 4, None);
        assert!(a.covers(&c).is_err());
    }

    #[test]
    fn text_form_round_trips() {
        let a = offset("s", "bin.000009", u64::from(u32::MAX) + 7, Some("0-1-5"));
        assert_eq!(LogOffset::decode(&a.encode().unwrap()).unwrap(), a);
        assert!(LogOffset::decode(&Offset("{}".into())).is_err());
    }
}
