//! Loads on the way: a few at a time, their outcomes in the order in which they were sent.

use std::collections::VecDeque;
use std::sync::Arc;

use lakeward_core::{Error, Result};
use tokio::task::JoinHandle;

use super::cluster::Cluster;
use super::stream_load::{Load, Loaded};
use crate::metrics::SinkMetrics;

/// Dropping it cuts off what is on the way; the labels tell what became of it.
pub(crate) struct LoadQueue {
    cluster: Arc<Cluster>,
    metrics: SinkMetrics,
    limit: usize,
    running: VecDeque<Running>,
}

struct Running {
    task: JoinHandle<Result<Loaded>>,
    bytes: usize,
}

impl LoadQueue {
    /// `limit` is how many loads may be on the way at the same time.
    pub(crate) fn new(cluster: Arc<Cluster>, metrics: SinkMetrics, limit: usize) -> Self {
        Self { cluster, metrics, limit: limit.max(1), running: VecDeque::new() }
    }

    /// Waits for a place. Gives back what was finished for it.
    pub(crate) async fn push(&mut self, load: Load) -> Result<Option<Loaded>> {
        let finished = match self.running.len() >= self.limit {
            true => self.next().await?,
            false => None,
        };
        let bytes = load.body.len();
        let (cluster, metrics) = (self.cluster.clone(), self.metrics.clone());
        let task = tokio::spawn(async move { cluster.load(&load, &metrics).await });
        self.running.push_back(Running { task, bytes });
        Ok(finished)
    }

    /// The outcome of the oldest load; `None` when nothing is on the way.
    pub(crate) async fn next(&mut self) -> Result<Option<Loaded>> {
        // It leaves the queue only when it is done: a caller that is dropped meanwhile loses nothing.
        let Some(oldest) = self.running.front_mut() else { return Ok(None) };
        let outcome = (&mut oldest.task).await;
        self.running.pop_front();
        match outcome {
            Ok(loaded) => loaded.map(Some),
            Err(e) => Err(Error::bug("a load was cut off").with_source(e)),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.running.iter().map(|r| r.bytes).sum()
    }
}

impl Drop for LoadQueue {
    fn drop(&mut self) {
        self.running.iter().for_each(|r| r.task.abort());
    }
}
