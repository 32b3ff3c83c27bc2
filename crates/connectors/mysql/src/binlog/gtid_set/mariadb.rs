//! MariaDB: `domain-server-sequence`, a position in each domain.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use lakeward_core::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MariaDbGtid {
    pub domain: u32,
    pub server: u32,
    pub sequence: u64,
}

impl fmt::Display for MariaDbGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

impl FromStr for MariaDbGtid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.trim().split('-');
        let mut next = || parts.next().filter(|p| p.bytes().all(|b| b.is_ascii_digit()));
        let gtid = match (next(), next(), next()) {
            (Some(d), Some(s), Some(n)) => d
                .parse()
                .ok()
                .zip(s.parse().ok())
                .zip(n.parse().ok())
                .map(|((domain, server), sequence)| Self { domain, server, sequence }),
            _ => None,
        };
        gtid.filter(|_| parts.next().is_none()).ok_or_else(|| {
            Error::config(
                "this is not a MariaDB GTID; write domain-server-sequence, such as 0-1-42",
            )
            .with("text", text.trim())
        })
    }
}

/// The last transaction of each domain (and, within a domain, of each server that wrote to it, as
/// GTID_LIST has it). In a domain the order of arrival counts: a position covers all that its
/// domain logged before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MariaDbGtidSet {
    /// By domain: the newest transaction of each server; the last one of the list is the domain's
    /// newest.
    domains: BTreeMap<u32, Vec<MariaDbGtid>>,
}

impl MariaDbGtidSet {
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// Takes the next transaction of the stream: it becomes its domain's newest, whatever its number.
    pub fn add(&mut self, gtid: MariaDbGtid) {
        let domain = self.domains.entry(gtid.domain).or_default();
        domain.retain(|g| g.server != gtid.server);
        domain.push(gtid);
    }

    /// Takes the larger position of each domain.
    pub fn union(&mut self, other: &Self) {
        for gtid in other.domains.values().flatten() {
            if !self.contains(*gtid) {
                self.add(*gtid);
            }
        }
    }

    /// The newest transaction of a domain.
    pub fn newest(&self, domain: u32) -> Option<MariaDbGtid> {
        self.domains.get(&domain)?.last().copied()
    }

    /// The newest transaction of each domain.
    pub fn iter(&self) -> impl Iterator<Item = MariaDbGtid> + '_ {
        self.domains.values().filter_map(|d| d.last().copied())
    }

    /// True when the position of its domain is at or behind this transaction. Sequence numbers grow
    /// within a domain across servers where `gtid_strict_mode` is kept, which a pipeline relies on.
    pub fn contains(&self, gtid: MariaDbGtid) -> bool {
        self.newest(gtid.domain).is_some_and(|newest| newest.sequence >= gtid.sequence)
    }

    /// True when every position of `other` is covered by this one.
    pub fn contains_set(&self, other: &Self) -> bool {
        other.iter().all(|gtid| self.contains(gtid))
    }
}

impl fmt::Display for MariaDbGtidSet {
    /// One GTID for each domain: the form of `@@gtid_current_pos` and `@slave_connect_state`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, gtid) in self.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{gtid}")?;
        }
        Ok(())
    }
}

impl FromStr for MariaDbGtidSet {
    type Err = Error;

    /// Several servers of one domain, as `@@gtid_binlog_state` has them, are taken by growing
    /// sequence number.
    fn from_str(text: &str) -> Result<Self> {
        let mut gtids = Vec::new();
        for part in text.split(',').filter(|p| !p.trim().is_empty()) {
            gtids.push(part.parse::<MariaDbGtid>()?);
        }
        gtids.sort_by_key(|g| (g.domain, g.sequence));
        let mut set = Self::default();
        gtids.into_iter().for_each(|g| set.add(g));
        Ok(set)
    }
}

impl serde::Serialize for MariaDbGtidSet {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for MariaDbGtidSet {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        <std::borrow::Cow<'de, str>>::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}
