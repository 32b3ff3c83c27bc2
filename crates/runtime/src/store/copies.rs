//! Copies of states that a job on Flink leaves beside its marks: `<checkpoint>/<operator>.<index>.<instances>`.

use std::collections::BTreeMap;
use std::path::Path;

use lakeward_core::{Error, ErrorKind, Result, ResultExt, State};

use super::StageStates;

/// One checkpoint of a job on Flink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    pub checkpoint: u64,
    pub attempt: u64,
    pub source: State,
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
    let names = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u64>().ok());
    let mut ids: Vec<u64> = names.collect();
    ids.sort_unstable();
    for id in ids.into_iter().rev() {
        if let Some(copy) = read(&folder.join(id.to_string()), id, stages)? {
            return Ok(Some(copy));
        }
        tracing::warn!(
            checkpoint = id,
            "a copy of the job's states is not complete; looking for an older one"
        );
    }
    Ok(None)
}

/// `None` when an instance's state is missing.
fn read(folder: &Path, checkpoint: u64, stages: &[&str]) -> Result<Option<Copy>> {
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
    let damaged = || Error::config("a copy of the job's states is damaged");
    let Some(source) = take("Source").and_then(|mut states| states.pop()) else { return Ok(None) };
    let (attempt, source) = source.split_first_chunk::<8>().ok_or_else(damaged)?;
    // Its checkpoint, which the folder's name says as well.
    let (_, source) = source.split_first_chunk::<8>().ok_or_else(damaged)?;
    let mut copied = Vec::new();
    for stage in stages {
        let Some(states) = take(stage) else { return Ok(None) };
        let states = states.iter().map(|bytes| state_of(bytes).ok_or_else(damaged));
        copied.push(StageStates { name: (*stage).into(), states: states.collect::<Result<_>>()? });
    }
    Ok(Some(Copy {
        checkpoint,
        attempt: u64::from_le_bytes(*attempt),
        source: state_of(source).ok_or_else(damaged)?,
        stages: copied,
    }))
}

fn state_of(bytes: &[u8]) -> Option<State> {
    let (version, bytes) = bytes.split_first_chunk::<4>()?;
    Some(State { version: u32::from_le_bytes(*version), bytes: bytes.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, head: &[u8]) {
        std::fs::create_dir_all(folder).unwrap();
        let bytes = [head, &1u32.to_le_bytes(), b"state"].concat();
        std::fs::write(folder.join(name), bytes).unwrap();
    }

    #[test]
    fn the_newest_copy_that_is_whole_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let stages = ["Handler", "Writer"];
        assert!(newest_copy(&folder.path().join("nothing"), &stages).unwrap().is_none());
        for id in ["9", "10", "11"] {
            let copy = folder.path().join(id);
            write(&copy, "Source.0.1", &[77u64.to_le_bytes(), 10u64.to_le_bytes()].concat());
            write(&copy, "Handler.0.1", b"");
            write(&copy, "Writer.0.2", b"");
        }
        assert!(newest_copy(folder.path(), &stages).unwrap().is_none(), "one writer of two");
        write(&folder.path().join("9"), "Writer.1.2", b"");
        write(&folder.path().join("10"), "Writer.1.2", b"");
        let copy = newest_copy(folder.path(), &stages).unwrap().unwrap();
        assert_eq!((copy.checkpoint, copy.attempt), (10, 77));
        assert_eq!(copy.source, State { version: 1, bytes: b"state".to_vec() });
        let states: Vec<usize> = copy.stages.iter().map(|s| s.states.len()).collect();
        assert_eq!(states, [1, 2]);
        std::fs::write(folder.path().join("10/Handler.0.1"), b"x").unwrap();
        assert!(newest_copy(folder.path(), &stages).is_err(), "damage is not passed over");
    }
}
