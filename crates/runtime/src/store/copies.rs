//! Copies of states that a job on Flink leaves beside its marks, and the bytes of states outside of a state directory.
//!
//! `<attempt>-<checkpoint>/<operator>.<index>.<instances>`, with the numbers at full length: names are in the order of time,
//! since attempts grow, and checkpoint ids grow within one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lakeward_core::{CheckpointId, Error, ErrorKind, Result, ResultExt, State};

use super::StageStates;

/// The operator name of a source's copy.
const SOURCE: &str = "Source";

/// A source's state with the attempt and the checkpoint that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceState {
    pub attempt: u64,
    pub checkpoint: CheckpointId,
    pub reader: State,
}

impl SourceState {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.attempt.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.checkpoint.0.to_le_bytes());
        bytes.extend_from_slice(&encode_state(&self.reader));
        bytes
    }

    /// # Errors
    /// `Config` when the bytes are no such state.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (attempt, rest) = bytes.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (checkpoint, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        Ok(Self {
            attempt: u64::from_le_bytes(*attempt),
            checkpoint: CheckpointId(u64::from_le_bytes(*checkpoint)),
            reader: decode_state(rest)?,
        })
    }
}

/// A state's version, then its bytes.
pub fn encode_state(state: &State) -> Vec<u8> {
    let mut bytes = state.version.to_le_bytes().to_vec();
    bytes.extend_from_slice(&state.bytes);
    bytes
}

/// # Errors
/// `Config` when the bytes are no state.
pub fn decode_state(bytes: &[u8]) -> Result<State> {
    let (version, bytes) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
    Ok(State { version: u32::from_le_bytes(*version), bytes: bytes.to_vec() })
}

fn damaged() -> Error {
    Error::config("a state of the job is damaged; go on from an older savepoint or copy")
}

/// The name of an instance's copy, below the folder of all copies.
pub fn copy_name(
    attempt: u64,
    checkpoint: CheckpointId,
    operator: &str,
    index: usize,
    instances: usize,
) -> String {
    format!("{attempt:020}-{:020}/{operator}.{index}.{instances}", checkpoint.0)
}

/// One checkpoint of a job on Flink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    pub source: SourceState,
    pub stages: Vec<StageStates>,
}

/// The newest of the copies that has every instance of every stage; `None` when there is none.
///
/// # Errors
/// `Config` when a copy cannot be read or is damaged.
pub fn newest_copy(folder: &Path, stages: &[&str]) -> Result<Option<Copy>> {
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => entries.or_err(ErrorKind::Config, "the folder of states cannot be read")?,
    };
    let mut copies: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    copies.sort_unstable();
    for copy in copies.into_iter().rev() {
        if let Some(copy) = read(&copy, stages)? {
            return Ok(Some(copy));
        }
        tracing::warn!(
            folder = %copy.display(),
            "a copy of the job's states is not complete; looking for an older one"
        );
    }
    Ok(None)
}

/// `None` when an instance's state is missing.
fn read(folder: &Path, stages: &[&str]) -> Result<Option<Copy>> {
    let failed = "a copy of the job's states cannot be read";
    let mut found: BTreeMap<String, BTreeMap<usize, Vec<u8>>> = BTreeMap::new();
    let mut instances: BTreeMap<String, usize> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).or_err(ErrorKind::Config, failed)? {
        let path = entry.or_err(ErrorKind::Config, failed)?.path();
        // Name, index, number of instances.
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let mut parts = name.rsplitn(3, '.');
        let (of, index) = (parts.next(), parts.next());
        let (Some(Ok(of)), Some(Ok(index))) = (of.map(str::parse), index.map(str::parse)) else {
            continue;
        };
        let stage = parts.next().unwrap_or_default().to_string();
        let bytes = std::fs::read(&path).or_err(ErrorKind::Config, failed)?;
        instances.insert(stage.clone(), of);
        found.entry(stage).or_default().insert(index, bytes);
    }
    let mut take = |stage: &str| -> Option<Vec<Vec<u8>>> {
        let states: Vec<Vec<u8>> = found.remove(stage)?.into_values().collect();
        (Some(&states.len()) == instances.get(stage)).then_some(states)
    };
    let in_folder = |e: Error| e.with("copy", folder.display());
    let Some(source) = take(SOURCE).and_then(|mut states| states.pop()) else { return Ok(None) };
    let source = SourceState::decode(&source).map_err(in_folder)?;
    let mut copied = Vec::new();
    for stage in stages {
        let Some(states) = take(stage) else { return Ok(None) };
        let states = states.iter().map(|bytes| decode_state(bytes).map_err(in_folder));
        copied.push(StageStates { name: (*stage).into(), states: states.collect::<Result<_>>()? });
    }
    Ok(Some(Copy { source, stages: copied }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> State {
        State { version: 1, bytes: text.into() }
    }

    /// An attempt's checkpoint with two writers, of which some are there.
    fn write(folder: &Path, (attempt, checkpoint): (u64, u64), writers: &[usize]) {
        let checkpoint = CheckpointId(checkpoint);
        let put = |operator: &str, index, of, bytes: Vec<u8>| {
            let path = folder.join(copy_name(attempt, checkpoint, operator, index, of));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let source = SourceState { attempt, checkpoint, reader: state("reader") };
        put(SOURCE, 0, 1, source.encode());
        put("Handler", 0, 1, encode_state(&state("handler")));
        for writer in writers {
            put("Writer", *writer, 2, encode_state(&state("")));
        }
    }

    #[test]
    fn the_newest_copy_that_is_whole_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let stages = ["Handler", "Writer"];
        let newest = || newest_copy(folder, &stages);
        assert!(newest_copy(&folder.join("nothing"), &stages).unwrap().is_none());
        write(folder, (7, 9), &[0]);
        assert!(newest().unwrap().is_none(), "one writer of two");
        write(folder, (7, 9), &[1]);
        write(folder, (7, 10), &[0, 1]);
        let copy = newest().unwrap().unwrap();
        assert_eq!((copy.source.attempt, copy.source.checkpoint), (7, CheckpointId(10)));
        let states: Vec<usize> = copy.stages.iter().map(|s| s.states.len()).collect();
        assert_eq!(states, [1, 2]);
        // A job that was started anew counts its checkpoints from one.
        write(folder, (80, 2), &[0, 1]);
        write(folder, (80, 3), &[1]);
        let copy = newest().unwrap().unwrap();
        assert_eq!((copy.source.attempt, copy.source.checkpoint), (80, CheckpointId(2)));
        let damaged = folder.join(copy_name(80, CheckpointId(2), "Handler", 0, 1));
        std::fs::write(damaged, b"x").unwrap();
        assert!(newest().is_err(), "damage is not passed over");
    }

    #[test]
    fn a_source_state_survives_and_damage_is_an_error() {
        let source =
            SourceState { attempt: 1 << 60, checkpoint: CheckpointId(3), reader: state("{}") };
        assert_eq!(SourceState::decode(&source.encode()).unwrap(), source);
        for damaged in [&b"short"[..], b"1234567812345678", b"12345678123456781"] {
            assert!(SourceState::decode(damaged).is_err());
        }
    }
}
