//! Records as they were fetched, in one piece of memory per run of a partition.

use std::ops::Range;

/// One record of a chunk.
#[derive(Debug, Clone)]
pub struct RecordEntry {
    pub offset: i64,
    /// When it was produced or appended, in milliseconds since the epoch.
    pub timestamp_ms: i64,
    key: Option<Range<u32>>,
    value: Option<Range<u32>>,
}

/// A run of records of one partition.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The partition's number among those that the reader owns.
    pub slot: usize,
    /// When the reader took it, in milliseconds since the epoch.
    pub arrived_ms: i64,
    bytes: Vec<u8>,
    pub records: Vec<RecordEntry>,
}

impl Chunk {
    pub fn new(slot: usize) -> Self {
        Self { slot, ..Self::default() }
    }

    pub fn push(
        &mut self,
        offset: i64,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        let mut copy = |bytes: &[u8]| {
            let from = self.bytes.len() as u32;
            self.bytes.extend_from_slice(bytes);
            from..self.bytes.len() as u32
        };
        let (key, value) = (key.map(&mut copy), value.map(&mut copy));
        self.records.push(RecordEntry { offset, timestamp_ms, key, value });
    }

    pub fn key(&self, record: &RecordEntry) -> Option<&[u8]> {
        record.key.as_ref().map(|r| &self.bytes[r.start as usize..r.end as usize])
    }

    pub fn value(&self, record: &RecordEntry) -> Option<&[u8]> {
        record.value.as_ref().map(|r| &self.bytes[r.start as usize..r.end as usize])
    }

    /// When the record was there at the latest. Its own time may be that of a clock that is wrong.
    pub fn there_ms(&self, record: &RecordEntry) -> i64 {
        if record.timestamp_ms > 0 {
            record.timestamp_ms.min(self.arrived_ms)
        } else {
            self.arrived_ms
        }
    }

    /// What it holds in memory.
    pub fn size_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<RecordEntry>()
    }

    pub fn payload_bytes(&self) -> usize {
        self.bytes.len()
    }
}
