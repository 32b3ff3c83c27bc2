//! State that a job goes on from without a savepoint of Flink.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lakeward_core::{CheckpointId, Error, Result, State};
use lakeward_runtime::store::{SourceState, StageStates, encode_state, newest_copy};
use lakeward_runtime::{CheckpointStore, DirStore, Identity};

use crate::context::Context;
use crate::wire::Begin;

/// A checkpoint of the embedded runtime, or a copy of one of Flink. The states of the stages are as a [`Begin`] carries them.
pub(crate) struct Moved {
    pub(crate) source: SourceState,
    pub(crate) stages: Vec<(String, Vec<String>)>,
}

/// The newest checkpoint of the state directory that the job was told to go on from; `None` when it was told nothing.
///
/// # Errors
/// `Config` when there is none, when a process still runs on it, or when it is of another pipeline.
pub(crate) async fn state(context: &Context) -> Result<Option<Moved>> {
    let Some(dir) = &context.restore_from else { return Ok(None) };
    let in_dir = |e: Error| e.with("state directory", dir.display());
    if !Path::new(dir).join("pipeline.json").exists() {
        return copied(context, dir).map(Some).map_err(in_dir);
    }
    let identity = Identity {
        pipeline: context.definition.id.clone(),
        source: context.connectors.source_identity.clone(),
        sink: context.connectors.sink_identity.clone(),
    };
    let store = DirStore::open(dir, identity).map_err(in_dir)?;
    let loaded = store.load().await.map_err(in_dir)?;
    let Some(checkpoint) = loaded.checkpoint else {
        return Err(in_dir(Error::config("the state directory holds no checkpoint to go on from")));
    };
    let [source] = checkpoint.source.as_slice() else {
        return Err(in_dir(Error::config(
            "the state is of several readers, which a job cannot take over",
        )));
    };
    tracing::info!(checkpoint = checkpoint.id, dir = %dir.display(), "going on from a state directory");
    let (attempt, id) = (checkpoint.attempt, CheckpointId(checkpoint.id));
    let source = SourceState { attempt, checkpoint: id, reader: source.clone() };
    Ok(Some(Moved { source, stages: in_base64(&checkpoint.stages) }))
}

/// What an earlier job has copied.
fn copied(context: &Context, dir: &Path) -> Result<Moved> {
    let stages: Vec<&str> = context.plan.stages.iter().map(|stage| &*stage.name).collect();
    let copy = newest_copy(dir, &stages)?.ok_or_else(|| {
        Error::config(
            "there is no state of a pipeline to go on from; the source's TaskManager must see the directory",
        )
    })?;
    let checkpoint = copy.source.checkpoint;
    tracing::info!(%checkpoint, dir = %dir.display(), "going on from copies of states");
    Ok(Moved { stages: in_base64(&copy.stages), source: copy.source })
}

fn in_base64(stages: &[StageStates]) -> Vec<(String, Vec<String>)> {
    let base64 = |state: &State| STANDARD.encode(encode_state(state));
    let stages = stages.iter();
    stages.map(|s| (s.name.to_string(), s.states.iter().map(base64).collect())).collect()
}

impl Begin {
    /// The states that a stage starts from; none where the job was not moved.
    pub(crate) fn states_of(&self, stage: &str) -> Result<Vec<Vec<u8>>> {
        let states = self.states.iter().filter(|(name, _)| name == stage).flat_map(|(_, s)| s);
        states
            .map(|state| {
                STANDARD
                    .decode(state)
                    .map_err(|e| Error::bug("a moved state is damaged").with_source(e))
            })
            .collect()
    }
}
