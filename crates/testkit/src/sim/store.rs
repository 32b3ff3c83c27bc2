//! The checkpoint store of a simulated disk.

use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::Result;
use lakeward_runtime::store::Loaded;
use lakeward_runtime::{Checkpoint, CheckpointStore, MemoryStore};
use lakeward_values::Faults;

use super::Sabotage;

/// Each call is a step before and a step after: a crash between leaves the disk as it then is.
pub(super) struct SimulatedStore {
    pub(super) disk: MemoryStore,
    pub(super) faults: Faults,
    pub(super) sabotage: Option<Sabotage>,
}

#[async_trait]
impl CheckpointStore for SimulatedStore {
    async fn begin_attempt(&self) -> Result<u64> {
        self.faults.step("store:attempt").await?;
        self.disk.begin_attempt().await
    }

    async fn load(&self) -> Result<Loaded> {
        self.faults.step("store:load").await?;
        self.disk.load().await
    }

    async fn save(&self, checkpoint: Arc<Checkpoint>) -> Result<u64> {
        let id = checkpoint.id;
        self.faults.step(format!("store:save {id}:before")).await?;
        let size = match self.sabotage {
            // It says yes and writes nothing.
            Some(Sabotage::ForgetfulStore) => 0,
            _ => self.disk.save(checkpoint).await?,
        };
        self.faults.step(format!("store:save {id}:after")).await?;
        Ok(size)
    }
    async fn set_newest_aside(&self, why: &str) -> Result<bool> {
        self.faults.step("store:set aside").await?;
        self.disk.set_newest_aside(why).await
    }
}
