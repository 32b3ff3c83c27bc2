//! Takes a pipeline over from Flink: copies of its operators' states become a checkpoint of the embedded runtime.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lakeward_core::{Error, Offsets, Result};
use lakeward_operators::stages_of;
use lakeward_pipeline::pipeline_file::PipelineFile;
use lakeward_runtime::store::{Copy, SourceState, newest_copy};
use lakeward_runtime::{Checkpoint, CheckpointStore, DirStore};

use super::last_job::LastJob;
use super::rest::Rest;

/// Puts the newest complete copy into the store. `folder` is where the copies are; `None` to look where the last job had
/// them.
pub async fn import(file: &PipelineFile, folder: Option<&Path>, store: &DirStore) -> Result<()> {
    if let Some(job) = LastJob::read(file)?
        && Rest::new(&job.address)?.is_running(&job.id).await
    {
        return Err(Error::config("the job still runs on Flink; stop it first")
            .with("job", &job.id)
            .with("address", &job.address));
    }
    let folder = match folder {
        Some(folder) => folder.to_path_buf(),
        None => folder_of_last_job(file)?,
    };
    let in_folder = |e: Error| e.with("folder", folder.display());
    let routes = !file.routes.is_empty();
    let stages: Vec<&str> = stages_of(routes, 1).into_iter().map(|s| s.name).collect();
    let copy = newest_copy(&folder, &stages).map_err(in_folder)?.ok_or_else(|| {
        in_folder(Error::config(
            "there is no complete copy of the job's states; was it running with `flink.state-copies`?",
        ))
    })?;
    let loaded = store.load().await?;
    // The copies are older than what was here only in number: Flink counts for itself.
    let Copy { source: SourceState { attempt, checkpoint, reader }, stages } = copy;
    let id = checkpoint.0.max(loaded.last_id + 1);
    let checkpoint = Checkpoint {
        id,
        attempt,
        created_ms: 0,
        offsets: Offsets::new(),
        held: true,
        source: vec![reader],
        stages,
    };
    store.save(Arc::new(checkpoint)).await?;
    store.raise_attempt(attempt).await?;
    LastJob::forget(file)?;
    tracing::info!(checkpoint = id, folder = %folder.display(), "took the state over from Flink");
    Ok(())
}

/// Where the job that ran last keeps the copies.
pub fn folder_of_last_job(file: &PipelineFile) -> Result<PathBuf> {
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
