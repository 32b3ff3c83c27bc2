//! A store that lives as long as its handle: for tests, and for trying a pipeline out.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use lakeward_core::Result;

use super::{Checkpoint, CheckpointStore, Loaded};

/// How many checkpoints are kept, as in a state directory.
const KEPT: usize = 3;

/// Clones share their content, as processes share a disk.
#[derive(Clone, Default)]
pub struct MemoryStore {
    content: Arc<Mutex<Content>>,
}

#[derive(Default)]
struct Content {
    attempts: u64,
    last_id: u64,
    checkpoints: Vec<Arc<Checkpoint>>,
}

impl MemoryStore {
    /// The kept checkpoints' ids, oldest first.
    pub fn ids(&self) -> Vec<u64> {
        self.content().checkpoints.iter().map(|c| c.id).collect()
    }

    /// Forgets checkpoints newer than `id`: what restoring an older one amounts to.
    pub fn rewind_to(&self, id: u64) {
        self.content().checkpoints.retain(|c| c.id <= id);
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[async_trait]
impl CheckpointStore for MemoryStore {
    async fn begin_attempt(&self) -> Result<u64> {
        let mut content = self.content();
        content.attempts += 1;
        Ok(content.attempts)
    }

    async fn load(&self) -> Result<Loaded> {
        let content = self.content();
        Ok(Loaded { checkpoint: content.checkpoints.last().cloned(), last_id: content.last_id })
    }

    async fn save(&self, checkpoint: Arc<Checkpoint>) -> Result<u64> {
        let states = checkpoint.stages.iter().flat_map(|s| &s.states).chain(&checkpoint.source);
        let size: usize = states.map(|s| s.bytes.len()).sum();
        let mut content = self.content();
        content.last_id = content.last_id.max(checkpoint.id);
        content.checkpoints.push(checkpoint);
        let extra = content.checkpoints.len().saturating_sub(KEPT);
        content.checkpoints.drain(..extra);
        Ok(size as u64)
    }

    async fn set_newest_aside(&self, _: &str) -> Result<bool> {
        let mut content = self.content();
        let older = content.checkpoints.len() > 1;
        if older {
            content.checkpoints.pop();
        }
        Ok(older)
    }
}
