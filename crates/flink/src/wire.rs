//! What native calls return, and what travels between operators.
//!
//! A call returns *outputs*, each `target: i32 LE | rest`. With a target of 0 or more it is a record for that instance of
//! the next stage: Java sends it on as it is, and the receiving operator is given it whole; its rest is `0 | frames`
//! (see [`lakeward_core::codec`]) or `1 | JSON of a [`Begin`]`. A negative target is a [`Control`] for Java.

use lakeward_core::{Collector, Error, Ownership, Result, StreamRecord, Target, codec};
use serde::{Deserialize, Serialize};

const FRAMES: u8 = 0;
const BEGIN: u8 = 1;
const PREFIX_BYTES: usize = 4;
/// A record that has grown to this size is closed: larger ones cost more than they save.
const RECORD_BYTES: usize = 128 << 10;

/// The first record of an attempt on every channel: until it comes, an operator is not opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Higher than that of every attempt before.
    pub attempt: u64,
    pub ownership: Ownership,
    /// States of the embedded runtime that the first attempt starts from: by stage, base64 of version and bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<(String, Vec<String>)>,
}

/// What the Java side is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// A line for the log: level (1 error to 4 debug), target, message.
    Log(u8, String, String),
    /// Leave a mark of that name.
    Leave(String),
    /// From now on give the names of the marks in that folder with each `poll`.
    Watch(String),
    Unwatch(String),
    /// Take away the marks whose names begin so; with `!` before it, the folders of all others.
    Clear(String),
    /// Call `poll` again before anything else.
    More,
    /// The source has ended.
    End,
    /// Keep a copy of a state under that name.
    Store(String, Vec<u8>),
}

impl Control {
    fn encode(self) -> Vec<u8> {
        let (code, rest) = match self {
            Control::Log(level, target, message) => {
                let mut rest = vec![level];
                rest.extend_from_slice(target.as_bytes());
                rest.push(0);
                rest.extend_from_slice(message.as_bytes());
                (-1i32, rest)
            }
            Control::Leave(name) => (-2, name.into_bytes()),
            Control::Watch(folder) => (-3, folder.into_bytes()),
            Control::Unwatch(folder) => (-4, folder.into_bytes()),
            Control::Clear(prefix) => (-5, prefix.into_bytes()),
            Control::More => (-6, Vec::new()),
            Control::End => (-7, Vec::new()),
            Control::Store(name, bytes) => {
                let mut rest = name.into_bytes();
                rest.push(0);
                rest.extend_from_slice(&bytes);
                (-8, rest)
            }
        };
        let mut output = code.to_le_bytes().to_vec();
        output.extend_from_slice(&rest);
        output
    }
}

/// Collects what a call returns. Records of one target keep their order.
#[derive(Debug)]
pub struct Outputs {
    done: Vec<Vec<u8>>,
    open: Vec<Vec<u8>>,
    bytes: usize,
    records: u64,
    more: bool,
}

impl Outputs {
    /// For that many instances of the next stage.
    pub fn new(downstream: usize) -> Self {
        Self {
            done: Vec::new(),
            open: vec![Vec::new(); downstream],
            bytes: 0,
            records: 0,
            more: false,
        }
    }

    /// What was put in since the last [`Outputs::take`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records that were ever put in.
    pub fn records(&self) -> u64 {
        self.records
    }

    pub fn control(&mut self, control: Control) {
        match control {
            Control::More => self.more = true,
            other => self.done.push(other.encode()),
        }
    }

    pub fn begin(&mut self, begin: &Begin) -> Result<()> {
        let json = serde_json::to_vec(begin)
            .map_err(|e| Error::bug("could not encode the begin of an attempt").with_source(e))?;
        for target in 0..self.open.len() {
            let mut record = prefix(target)?;
            record.push(BEGIN);
            record.extend_from_slice(&json);
            self.close(target);
            self.done.push(record);
        }
        Ok(())
    }

    pub fn collect(&mut self, out: &mut Collector) -> Result<()> {
        for (target, record) in out.drain() {
            self.record(target, &record)?;
        }
        Ok(())
    }

    pub fn record(&mut self, target: Target, record: &StreamRecord) -> Result<()> {
        let n = self.open.len();
        self.records += 1;
        match target {
            // Of the last stage.
            _ if n == 0 => Ok(()),
            Target::Index(index) if index >= n => {
                Err(Error::bug("a record is for an instance that there is not")
                    .with("instance", index))
            }
            Target::Index(index) => self.encode(index, record),
            Target::Hash(hash) => self.encode((hash % n as u64) as usize, record),
            Target::All if n == 1 => self.encode(0, record),
            Target::All => {
                let mut frame = Vec::new();
                codec::encode(record, &mut frame)?;
                (0..n).try_for_each(|target| {
                    self.opened(target)?.extend_from_slice(&frame);
                    self.grown(target, frame.len());
                    Ok(())
                })
            }
        }
    }

    fn encode(&mut self, target: usize, record: &StreamRecord) -> Result<()> {
        let open = self.opened(target)?;
        let before = open.len();
        codec::encode(record, open)?;
        let grown = open.len() - before;
        self.grown(target, grown);
        Ok(())
    }

    fn opened(&mut self, target: usize) -> Result<&mut Vec<u8>> {
        let open = &mut self.open[target];
        if open.is_empty() {
            *open = prefix(target)?;
            open.push(FRAMES);
        }
        Ok(open)
    }

    fn grown(&mut self, target: usize, bytes: usize) {
        self.bytes += bytes;
        if self.open[target].len() >= RECORD_BYTES {
            self.close(target);
        }
    }

    fn close(&mut self, target: usize) {
        let record = std::mem::take(&mut self.open[target]);
        if !record.is_empty() {
            self.done.push(record);
        }
    }

    /// For the next [`Outputs::take`], before what is put in until then.
    pub fn put_back(&mut self, outputs: Vec<Vec<u8>>) {
        self.done.splice(0..0, outputs);
    }

    /// Everything that was put in.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        (0..self.open.len()).for_each(|target| self.close(target));
        self.bytes = 0;
        let mut outputs = std::mem::take(&mut self.done);
        if std::mem::take(&mut self.more) {
            outputs.push(Control::More.encode());
        }
        outputs
    }
}

fn prefix(target: usize) -> Result<Vec<u8>> {
    let target =
        i32::try_from(target).map_err(|_| Error::bug("there are too many instances of a stage"))?;
    Ok(target.to_le_bytes().to_vec())
}

/// A record as an operator is given it.
#[derive(Debug)]
pub enum Received {
    Begin(Begin),
    /// Frames, and where the first one starts.
    Frames(usize),
}

/// # Errors
/// `Bug` when the bytes are no record.
pub fn receive(record: &[u8]) -> Result<Received> {
    let damaged = || Error::bug("a record between two operators is damaged");
    match *record.get(PREFIX_BYTES).ok_or_else(damaged)? {
        FRAMES => Ok(Received::Frames(PREFIX_BYTES + 1)),
        BEGIN => serde_json::from_slice(&record[PREFIX_BYTES + 1..])
            .map(Received::Begin)
            .map_err(|e| damaged().with_source(e)),
        _ => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use lakeward_core::{Offset, Progress, SplitId};

    use super::*;

    fn progress(n: i64) -> StreamRecord {
        let (split, offset) = (SplitId("s".into()), Offset("o".into()));
        StreamRecord::Progress(Progress { table: None, split, offset, commit_ms: n })
    }

    fn targets(outputs: &[Vec<u8>]) -> Vec<i32> {
        outputs.iter().map(|o| i32::from_le_bytes(o[..4].try_into().unwrap())).collect()
    }

    #[test]
    fn records_of_a_target_share_an_output_and_keep_their_order() {
        let mut outputs = Outputs::new(2);
        outputs.record(Target::All, &progress(1)).unwrap();
        outputs.record(Target::Index(1), &progress(2)).unwrap();
        outputs.record(Target::Hash(7), &progress(3)).unwrap();
        outputs.control(Control::More);
        outputs.control(Control::Leave("a/b".to_string()));
        let taken = outputs.take();
        assert_eq!(targets(&taken), [-2, 0, 1, -6]);
        let Received::Frames(start) = receive(&taken[2]).unwrap() else { panic!("frames") };
        let mut input = &taken[2][start..];
        let mut seen = Vec::new();
        while let Some(StreamRecord::Progress(p)) = codec::decode(&mut input).unwrap() {
            seen.push(p.commit_ms);
        }
        assert_eq!(seen, [1, 2, 3]);
        assert!(outputs.take().is_empty());
        assert!(outputs.record(Target::Index(2), &progress(1)).is_err());
    }

    #[test]
    fn a_begin_goes_to_all_and_garbage_is_an_error() {
        let begin = Begin { attempt: 7, ownership: Ownership("x".into()), states: Vec::new() };
        let mut outputs = Outputs::new(3);
        outputs.begin(&begin).unwrap();
        let taken = outputs.take();
        assert_eq!(targets(&taken), [0, 1, 2]);
        assert!(matches!(receive(&taken[1]).unwrap(), Received::Begin(b) if b == begin));
        for garbage in [&b""[..], b"abc", b"\0\0\0\0\x09", b"\0\0\0\0\x01{"] {
            assert!(receive(garbage).is_err());
        }
    }
}
