//! Where checkpoints are kept.

mod copies;
mod dir;
mod file;
mod memory;

use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{Offsets, PipelineId, Result, State};

pub use copies::{Copy, SourceState, copy_name, decode_state, encode_state, newest_copy};
pub use dir::DirStore;
pub use memory::MemoryStore;

/// Whose state it is. Not to change over the life of a pipeline: of the source and the sink it holds what stays the same
/// when a server moves or fails over.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    pub pipeline: PipelineId,
    pub source: String,
    pub sink: String,
}

/// The states of one stage's instances (or of the source's readers), in the order of their indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageStates {
    pub name: Arc<str>,
    pub states: Vec<State>,
}

/// A consistent cut through the whole job.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    pub id: u64,
    pub attempt: u64,
    pub created_ms: i64,
    /// Where the source was, for people who look into the file.
    pub offsets: Offsets,
    /// An operator held records back at the barrier, or a reader was still reading tables: what the offsets cover is not
    /// all in the sink, even once this is committed.
    pub held: bool,
    pub source: Vec<State>,
    pub stages: Vec<StageStates>,
}

/// What a store found.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The newest checkpoint that can be read.
    pub checkpoint: Option<Arc<Checkpoint>>,
    /// The highest id ever given to a checkpoint here, readable or not.
    pub last_id: u64,
}

/// Keeps checkpoints and counts attempts, durably. One job uses it at a time.
#[async_trait]
pub trait CheckpointStore: Send + Sync {
    /// The number of the attempt that starts now: larger than any before it, also over restarts of the process.
    async fn begin_attempt(&self) -> Result<u64>;

    /// # Errors
    /// `Config` when there are checkpoints and none can be read: starting over in silence would double or lose rows.
    async fn load(&self) -> Result<Loaded>;

    /// Durable when it returns, or not there at all. Gives back its size in bytes.
    async fn save(&self, checkpoint: Arc<Checkpoint>) -> Result<u64>;

    /// Puts the newest checkpoint where it is not loaded any more; its id is not given again. False, and nothing done, when
    /// there is none before it.
    async fn set_newest_aside(&self, why: &str) -> Result<bool>;
}
