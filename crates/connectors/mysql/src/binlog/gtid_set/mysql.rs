//! MySQL: `uuid[:tag]:first-last:…`, intervals of transaction numbers for each source and tag.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use lakeward_core::{Error, Result};

use crate::binlog::cursor::{Cursor, malformed};

/// A GTID's tag (MySQL 8.3 and later): up to 32 characters in lower case; empty for an untagged GTID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(Option<Arc<str>>);

impl Tag {
    /// `None` when the bytes are no tag.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let starts_well = bytes[0].is_ascii_alphabetic() || bytes[0] == b'_';
        let is_tag = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        if bytes.len() > 32 || !starts_well || !bytes.iter().all(is_tag) {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok()?;
        Some(Self(Some(text.to_ascii_lowercase().into())))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("")
    }
}

type Uuid = [u8; 16];

/// One transaction of MySQL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MySqlGtid {
    pub source: Uuid,
    pub tag: Tag,
    pub number: u64,
}

impl fmt::Display for MySqlGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_source(f, &self.source)?;
        if !self.tag.as_str().is_empty() {
            write!(f, ":{}", self.tag.as_str())?;
        }
        write!(f, ":{}", self.number)
    }
}

/// A set of MySQL transactions. Intervals are disjoint, not adjacent and in order, so that equal
/// sets are equal values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MySqlGtidSet {
    /// First and last number of each interval, both inside.
    sources: BTreeMap<(Uuid, Tag), Vec<(u64, u64)>>,
}

/// Numbers are positive 63-bit integers.
const LARGEST: u64 = i64::MAX as u64 - 1;

impl MySqlGtidSet {
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    pub fn add(&mut self, gtid: &MySqlGtid) {
        let key = (gtid.source, gtid.tag.clone());
        add_interval(self.sources.entry(key).or_default(), gtid.number, gtid.number);
    }

    pub fn union(&mut self, other: &Self) {
        for (key, intervals) in &other.sources {
            let own = self.sources.entry(key.clone()).or_default();
            intervals.iter().for_each(|(first, last)| add_interval(own, *first, *last));
        }
    }

    pub fn contains(&self, gtid: &MySqlGtid) -> bool {
        self.sources
            .get(&(gtid.source, gtid.tag.clone()))
            .is_some_and(|intervals| covers(intervals, gtid.number, gtid.number))
    }

    pub fn contains_set(&self, other: &Self) -> bool {
        other.sources.iter().all(|(key, intervals)| {
            let own = self.sources.get(key).map_or(&[][..], Vec::as_slice);
            intervals.iter().all(|(first, last)| covers(own, *first, *last))
        })
    }

    /// What is in this set and not in `other`: the missing transactions of an error message.
    pub fn minus(&self, other: &Self) -> Self {
        let mut difference = Self::default();
        for (key, intervals) in &self.sources {
            let taken = other.sources.get(key).map_or(&[][..], Vec::as_slice);
            let left = subtract(intervals, taken);
            if !left.is_empty() {
                difference.sources.insert(key.clone(), left);
            }
        }
        difference
    }

    /// The form that COM_BINLOG_DUMP_GTID takes. Tags change the form, so that it is used only
    /// where there are some: servers before 8.3 do not know it.
    pub fn encode(&self) -> Vec<u8> {
        let tagged = self.sources.keys().any(|(_, tag)| !tag.as_str().is_empty());
        let count = self.sources.len() as u64;
        let mut out = Vec::with_capacity(8 + self.sources.len() * 48);
        let head = if tagged { TAGGED_FORMAT | (count << 8) } else { count };
        out.extend_from_slice(&head.to_le_bytes());
        for ((source, tag), intervals) in &self.sources {
            out.extend_from_slice(source);
            if tagged {
                // At most 32, so that one byte of the serialised form holds it.
                out.push((tag.as_str().len() as u8) << 1);
                out.extend_from_slice(tag.as_str().as_bytes());
            }
            out.extend_from_slice(&(intervals.len() as u64).to_le_bytes());
            for (first, last) in intervals {
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&(last + 1).to_le_bytes());
            }
        }
        out
    }

    /// Reads the form of PREVIOUS_GTIDS.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let head = cursor.u64()?;
        let tagged = head >> 56 == 1;
        let count = if tagged { (head >> 8) & 0xffff_ffff_ffff } else { head };
        let mut set = Self::default();
        for _ in 0..count {
            let source =
                Uuid::try_from(cursor.take(16)?).map_err(|_| malformed("a uuid is short"))?;
            let mut tag = Tag::default();
            if tagged {
                let length = cursor.serialized_uint()? as usize;
                tag = Tag::from_bytes(cursor.take(length)?)
                    .ok_or_else(|| malformed("a GTID tag is not one"))?;
            }
            let own = set.sources.entry((source, tag)).or_default();
            for _ in 0..cursor.u64()? {
                let (first, end) = (cursor.u64()?, cursor.u64()?);
                if first == 0 || end <= first || end - 1 > LARGEST {
                    return Err(malformed("an interval of a GTID set is empty"));
                }
                add_interval(own, first, end - 1);
            }
        }
        set.sources.retain(|_, intervals| !intervals.is_empty());
        Ok(set)
    }
}

/// First and last byte of the head say that sources carry tags; the number of sources stands between.
const TAGGED_FORMAT: u64 = 1 << 56 | 1;

fn covers(intervals: &[(u64, u64)], first: u64, last: u64) -> bool {
    let after = intervals.partition_point(|(start, _)| *start <= first);
    after > 0 && intervals[after - 1].1 >= last
}

fn add_interval(intervals: &mut Vec<(u64, u64)>, mut first: u64, mut last: u64) {
    // The everyday case: the next number of the last interval.
    if let Some((_, end)) = intervals.last_mut()
        && first == *end + 1
    {
        *end = last;
        return;
    }
    let from = intervals.partition_point(|(_, end)| *end + 1 < first);
    let to = intervals.partition_point(|(start, _)| *start <= last + 1);
    if from < to {
        first = first.min(intervals[from].0);
        last = last.max(intervals[to - 1].1);
    }
    intervals.splice(from..to, [(first, last)]);
}

fn subtract(from: &[(u64, u64)], taken: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    for (first, last) in from {
        let mut next = *first;
        for (start, end) in taken.iter().filter(|(start, end)| end >= first && start <= last) {
            if *start > next {
                left.push((next, start - 1));
            }
            next = next.max(end + 1);
        }
        if next <= *last {
            left.push((next, *last));
        }
    }
    left
}

fn write_source(f: &mut fmt::Formatter<'_>, source: &Uuid) -> fmt::Result {
    for (i, byte) in source.iter().enumerate() {
        let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(f, "{dash}{byte:02x}")?;
    }
    Ok(())
}

impl fmt::Display for MySqlGtidSet {
    /// As `@@gtid_executed` has it, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous = None;
        for ((source, tag), intervals) in &self.sources {
            if previous != Some(source) {
                f.write_str(if previous.is_some() { "," } else { "" })?;
                write_source(f, source)?;
                previous = Some(source);
            }
            if !tag.as_str().is_empty() {
                write!(f, ":{}", tag.as_str())?;
            }
            for (first, last) in intervals {
                write!(f, ":{first}")?;
                if last > first {
                    write!(f, "-{last}")?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for MySqlGtidSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |part: &str| {
            Error::config("this is not a MySQL GTID set; write uuid:first-last, such as @@gtid_executed shows")
                .with("text", part)
        };
        let mut set = Self::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let mut pieces = part.split(':').map(str::trim);
            let source = pieces.next().and_then(parse_uuid).ok_or_else(|| refused(part))?;
            let mut tag = Tag::default();
            for piece in pieces {
                if piece.starts_with(|c: char| c.is_ascii_digit()) {
                    let (first, last) = parse_interval(piece).ok_or_else(|| refused(part))?;
                    // `uuid:1-0` is an empty interval, which the servers take.
                    if first <= last {
                        let key = (source, tag.clone());
                        add_interval(set.sources.entry(key).or_default(), first, last);
                    }
                } else {
                    tag = Tag::from_bytes(piece.as_bytes())
                        .filter(|t| !t.as_str().is_empty())
                        .ok_or_else(|| refused(part))?;
                }
            }
        }
        Ok(set)
    }
}

fn parse_interval(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first: u64 = first.trim().parse().ok()?;
    let last: u64 = last.trim().parse().ok()?;
    (first > 0 && first <= LARGEST && last <= LARGEST).then_some((first, last))
}

fn parse_uuid(text: &str) -> Option<Uuid> {
    let mut uuid = [0; 16];
    let mut digits = text.bytes().filter(|b| *b != b'-');
    for byte in &mut uuid {
        let high = char::from(digits.next()?).to_digit(16)?;
        let low = char::from(digits.next()?).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    digits.next().is_none().then_some(uuid)
}

impl serde::Serialize for MySqlGtidSet {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for MySqlGtidSet {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        <std::borrow::Cow<'de, str>>::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}
