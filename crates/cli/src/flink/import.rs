//! Takes a pipeline over from Flink: copies of its operators' states become a checkpoint of the embedded runtime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lakeward_core::{Error, ErrorKind, Offsets, Result, ResultExt, State};
use lakeward_operators::stages_of;
use lakeward_pipeline::pipeline_file::PipelineFile;
use lakeward_runtime::store::StageStates;
use lakeward_runtime::{Checkpoint, CheckpointStore, DirStore};

use super::last_job::LastJob;

/// Puts the newest complete copy into the store. `folder` is where the copies are; `None` to look where the last job had
/// them.
pub async fn import(file: &PipelineFile, folder: Option<&Path>, store: &DirStore) -> Result<()> {
    let folder = match folder {
        Some(folder) => folder.to_path_buf(),
        None => folder_of_last_job(file)?,
    };
    let in_folder = |e: Error| e.with("folder", folder.display());
    let routes = !file.routes.is_empty();
    let stages: Vec<&str> = stages_of(routes, 1).into_iter().map(|s| s.name).collect();
    let (id, copy) = newest(&folder, &stages).map_err(in_folder)?.ok_or_else(|| {
        in_folder(Error::config(
            "there is no complete copy of the job's states; was it running with `flink.state-copies`?",
        ))
    })?;
    let loaded = store.load().await?;
    // The copies are older than what was here only in number: Flink counts for itself.
    let id = id.max(loaded.last_id + 1);
    let Copy { attempt, source, stages } = copy;
    let checkpoint = Checkpoint {
        id,
        attempt,
        created_ms: 0,
        offsets: Offsets::new(),
        held: true,
        source: vec![source],
        stages,
    };
    store.save(Arc::new(checkpoint)).await?;
    store.raise_attempt(attempt).await?;
    LastJob::forget(file)?;
    tracing::info!(checkpoint = id, folder = %folder.display(), "took the state over from Flink");
    Ok(())
}

fn folder_of_last_job(file: &PipelineFile) -> Result<PathBuf> {
    let Some(job) = LastJob::read(file)? else {
        return Err(Error::config(
            "it is not known that this pipeline ran on Flink; name the folder of its states: --from-flink=DIR",
        ));
    };
    let name: String = file
        .pipeline
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .collect();
    let marks = job.marks.trim_end_matches('/');
    let path = match marks.split_once(':') {
        None => marks,
        Some(("file", path)) => path.strip_prefix("//").unwrap_or(path),
        Some(_) => {
            return Err(Error::config(
                "the job's states are on a file system that is not read here; copy the folder and name it with \
                 --from-flink=DIR",
            )
            .with("folder", format!("{marks}/{name}/state")));
        }
    };
    Ok(Path::new(path).join(name).join("state"))
}

struct Copy {
    attempt: u64,
    source: State,
    stages: Vec<StageStates>,
}

/// The newest of the copies that has every stage.
fn newest(folder: &Path, stages: &[&str]) -> Result<Option<(u64, Copy)>> {
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => entries.or_err(ErrorKind::Config, "the folder of states cannot be read")?,
    };
    let names = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u64>().ok());
    let mut ids: Vec<u64> = names.collect();
    ids.sort_unstable();
    for id in ids.into_iter().rev() {
        if let Some(copy) = read(&folder.join(id.to_string()), stages)? {
            return Ok(Some((id, copy)));
        }
        tracing::warn!(
            checkpoint = id,
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
    let damaged = || Error::config("a copy of the job's states is damaged");
    let Some(source) = take("Source").and_then(|mut states| states.pop()) else { return Ok(None) };
    let (attempt, source) = source.split_first_chunk::<8>().ok_or_else(damaged)?;
    let mut copied = Vec::new();
    for stage in stages {
        let Some(states) = take(stage) else { return Ok(None) };
        let states = states.iter().map(|bytes| state_of(bytes).ok_or_else(damaged));
        copied.push(StageStates { name: (*stage).into(), states: states.collect::<Result<_>>()? });
    }
    Ok(Some(Copy {
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
        assert!(newest(&folder.path().join("nothing"), &stages).unwrap().is_none());
        for id in ["9", "10", "11"] {
            let copy = folder.path().join(id);
            write(&copy, "Source.0.1", &77u64.to_le_bytes());
            write(&copy, "Handler.0.1", b"");
            write(&copy, "Writer.0.2", b"");
        }
        assert!(newest(folder.path(), &stages).unwrap().is_none(), "one writer of two");
        write(&folder.path().join("9"), "Writer.1.2", b"");
        write(&folder.path().join("10"), "Writer.1.2", b"");
        let (id, copy) = newest(folder.path(), &stages).unwrap().unwrap();
        assert_eq!((id, copy.attempt), (10, 77));
        assert_eq!(copy.source, State { version: 1, bytes: b"state".to_vec() });
        let states: Vec<usize> = copy.stages.iter().map(|s| s.states.len()).collect();
        assert_eq!(states, [1, 2]);
        std::fs::write(folder.path().join("10/Handler.0.1"), b"x").unwrap();
        assert!(newest(folder.path(), &stages).is_err(), "damage is not passed over");
    }
}
