//! The records of one table that wait behind a DDL, in order: in memory up to a bound, beyond it in a file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use lakeward_core::{Error, ErrorKind, Result, ResultExt, StreamRecord, codec};

/// A queue whose front is in memory and whose tail may be on disk.
pub struct HeldQueue {
    memory: VecDeque<StreamRecord>,
    memory_bytes: usize,
    limit_bytes: usize,
    spill_path: PathBuf,
    spill: Option<Spill>,
}

struct Spill {
    writer: BufWriter<File>,
    records: usize,
    read_at: u64,
}

impl HeldQueue {
    /// `spill_path` is a file that may be created; it is removed with the queue.
    pub fn new(limit_bytes: usize, spill_path: PathBuf) -> Self {
        Self { memory: VecDeque::new(), memory_bytes: 0, limit_bytes, spill_path, spill: None }
    }

    pub fn push(&mut self, record: StreamRecord) -> Result<()> {
        let size = record.size_bytes();
        if self.spill.is_none()
            && (self.memory_bytes + size <= self.limit_bytes || self.memory.is_empty())
        {
            self.memory_bytes += size;
            self.memory.push_back(record);
            return Ok(());
        }
        let mut frame = Vec::new();
        codec::encode(&record, &mut frame)?;
        let path = &self.spill_path;
        let spill = match &mut self.spill {
            Some(spill) => spill,
            empty => {
                let file = File::options()
                    .create(true)
                    .truncate(true)
                    .read(true)
                    .write(true)
                    .open(path)
                    .or_err(
                        ErrorKind::Transient,
                        "could not create a file for held rows in the state directory",
                    )?;
                empty.insert(Spill { writer: BufWriter::new(file), records: 0, read_at: 0 })
            }
        };
        spill.records += 1;
        let length = (frame.len() as u64).to_le_bytes();
        (spill.writer.write_all(&length))
            .and_then(|()| spill.writer.write_all(&frame))
            .or_err(ErrorKind::Transient, "could not write held rows to the state directory")
    }

    pub fn pop(&mut self) -> Result<Option<StreamRecord>> {
        if let Some(record) = self.memory.pop_front() {
            self.memory_bytes = self.memory_bytes.saturating_sub(record.size_bytes());
            return Ok(Some(record));
        }
        let Some(spill) = &mut self.spill else { return Ok(None) };
        let frame = spill.frames(1)?.pop();
        if spill.records == 0 {
            self.remove_spill();
        }
        frame.map(|f| decoded(&f)).transpose()
    }

    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.spill.is_none()
    }

    /// Appends the frames of everything in it, in order, for a checkpoint. Changes nothing.
    pub fn encode(&mut self, out: &mut Vec<u8>) -> Result<()> {
        for record in &self.memory {
            codec::encode(record, out)?;
        }
        if let Some(spill) = &mut self.spill {
            let (records, read_at) = (spill.records, spill.read_at);
            for frame in spill.frames(records)? {
                out.extend_from_slice(&frame);
            }
            (spill.records, spill.read_at) = (records, read_at);
        }
        Ok(())
    }

    fn remove_spill(&mut self) {
        if self.spill.take().is_some()
            && let Err(error) = std::fs::remove_file(&self.spill_path)
        {
            tracing::debug!(%error, "could not remove a file of held rows; the next attempt empties its folder");
        }
    }
}

impl Drop for HeldQueue {
    fn drop(&mut self) {
        self.remove_spill();
    }
}

impl Spill {
    /// Takes the next `n` frames.
    fn frames(&mut self, n: usize) -> Result<Vec<Vec<u8>>> {
        let failed = "could not read held rows back from the state directory";
        self.writer.flush().or_err(ErrorKind::Transient, failed)?;
        let file = self.writer.get_mut();
        file.seek(SeekFrom::Start(self.read_at)).or_err(ErrorKind::Transient, failed)?;
        let mut reader = BufReader::new(&mut *file);
        let mut frames = Vec::new();
        for _ in 0..n.min(self.records) {
            let mut length = [0; 8];
            reader.read_exact(&mut length).or_err(ErrorKind::Transient, failed)?;
            let mut frame = vec![0; u64::from_le_bytes(length) as usize];
            reader.read_exact(&mut frame).or_err(ErrorKind::Transient, failed)?;
            self.read_at += 8 + frame.len() as u64;
            self.records -= 1;
            frames.push(frame);
        }
        file.seek(SeekFrom::End(0)).or_err(ErrorKind::Transient, failed)?;
        Ok(frames)
    }
}

fn decoded(frame: &[u8]) -> Result<StreamRecord> {
    let mut input = frame;
    codec::decode(&mut input)?.ok_or_else(|| Error::bug("an empty frame among held rows"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lakeward_core::{Offset, Progress, SplitId};

    fn record(n: i64) -> StreamRecord {
        StreamRecord::Progress(Progress {
            table: None,
            split: SplitId("s".into()),
            offset: Offset("o".into()),
            commit_ms: n,
        })
    }

    fn number(record: StreamRecord) -> i64 {
        match record {
            StreamRecord::Progress(p) => p.commit_ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn order_survives_spilling_and_encoding() {
        let folder = std::env::temp_dir().join(format!("held-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("queue");
        let mut queue = HeldQueue::new(record(0).size_bytes() * 3, path.clone());
        for n in 0..10 {
            queue.push(record(n)).unwrap();
        }
        assert!(path.exists());
        for n in 0..5 {
            assert_eq!(number(queue.pop().unwrap().unwrap()), n);
        }
        let mut bytes = Vec::new();
        queue.encode(&mut bytes).unwrap();
        let mut input = bytes.as_slice();
        let mut seen = Vec::new();
        while let Some(r) = codec::decode(&mut input).unwrap() {
            seen.push(number(r));
        }
        assert_eq!(seen, [5, 6, 7, 8, 9]);
        queue.push(record(10)).unwrap();
        for n in 5..11 {
            assert_eq!(number(queue.pop().unwrap().unwrap()), n);
        }
        assert!(queue.is_empty() && queue.pop().unwrap().is_none());
        assert!(!path.exists());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
