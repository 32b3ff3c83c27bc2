//! The task of one source reader: puts barriers between source transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lakeward_core::{CheckpointId, Collector, Offsets, Result, SourceReader, StreamRecord};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::Timer;
use crate::checkpoint::Trigger;
use crate::signal::Watcher;
use crate::status::{JobState, StatusCell};
use crate::task::{Ack, InstanceId, Outputs};
use crate::time::timeout;

/// How many readers still read tables.
pub(crate) struct Snapshotting(AtomicUsize);

impl Snapshotting {
    pub(crate) fn new(readers: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(readers)))
    }

    fn changed(&self, streaming: bool, status: &StatusCell) {
        if streaming {
            if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
                status.running(JobState::Streaming);
            }
        } else {
            self.0.fetch_add(1, Ordering::Relaxed);
            status.running(JobState::Snapshotting);
        }
    }
}

pub(crate) struct SourceTask {
    pub(crate) instance: InstanceId,
    pub(crate) reader: Box<dyn SourceReader>,
    /// Nothing is known of the pipeline yet: a checkpoint comes before the first record.
    pub(crate) is_first: bool,
    pub(crate) outputs: Outputs,
    pub(crate) trigger: Watcher<Trigger>,
    pub(crate) committed: Watcher<u64>,
    pub(crate) acks: mpsc::Sender<Ack>,
    pub(crate) status: Arc<StatusCell>,
    pub(crate) snapshotting: Arc<Snapshotting>,
    pub(crate) cancel: CancellationToken,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) close_timeout: Duration,
}

impl SourceTask {
    /// Runs until its last checkpoint is committed, or it fails or is cancelled; closes the reader in any case.
    pub(crate) async fn run(mut self) -> Result<()> {
        let cancel = self.cancel.clone();
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(()),
            result = self.calls() => result,
        };
        let closed = timeout(&*self.timer, self.close_timeout, self.reader.close());
        if closed.await.is_none() {
            tracing::warn!(reader = %self.instance, "the source did not close in time");
        }
        result.map_err(|e| e.with("operator", &self.instance))
    }

    async fn calls(&mut self) -> Result<()> {
        let mut out = Collector::default();
        let mut offsets = Offsets::new();
        let mut streaming = false;
        let mut at_boundary = false;
        let mut last = CheckpointId(0);
        if self.is_first && self.reader.begins_at_boundary() {
            let trigger = self.trigger.wait_for(|trigger| trigger.checkpoint.0 > 0).await;
            last = trigger.checkpoint;
            self.snapshot(trigger, streaming, &mut out, &mut offsets).await?;
            let committed = self.committed.wait_for(|newest| newest >= last.0).await;
            self.reader.checkpoint_complete(CheckpointId(committed)).await?;
            if trigger.last {
                return Ok(());
            }
        }
        loop {
            if let Some(committed) = self.committed.take_change() {
                self.reader.checkpoint_complete(CheckpointId(committed)).await?;
            }
            let trigger = self.trigger.get();
            if at_boundary && trigger.checkpoint > last {
                last = trigger.checkpoint;
                self.snapshot(trigger, streaming, &mut out, &mut offsets).await?;
                if trigger.last {
                    break;
                }
            }
            // Never dropped half-way: only its return says whether it stands at a boundary.
            let read = self.reader.next(&mut out).await?;
            at_boundary = read.at_boundary;
            self.send(&mut out, &mut offsets).await?;
            if read.streaming != streaming {
                streaming = read.streaming;
                self.snapshotting.changed(streaming, &self.status);
            }
        }
        let committed = self.committed.wait_for(|newest| newest >= last.0).await;
        self.reader.checkpoint_complete(CheckpointId(committed)).await
    }

    async fn snapshot(
        &mut self,
        trigger: Trigger,
        streaming: bool,
        out: &mut Collector,
        offsets: &mut Offsets,
    ) -> Result<()> {
        let checkpoint = trigger.checkpoint;
        self.reader.prepare_snapshot(checkpoint, out).await?;
        self.send(out, offsets).await?;
        let state = self.reader.snapshot_state(checkpoint).await?;
        let (instance, offsets) = (self.instance.clone(), offsets.clone());
        // Rows of tables that are still being read belong before the offsets, and come after them.
        let ack = Ack { instance, checkpoint, state, holds: !streaming, offsets };
        // Nobody listens any more only when the attempt is over, and then this task is too.
        let _ = self.acks.send(ack).await;
        if trigger.end {
            self.outputs.end().await;
        }
        self.outputs.barrier(checkpoint).await;
        Ok(())
    }

    async fn send(&mut self, out: &mut Collector, offsets: &mut Offsets) -> Result<()> {
        for (target, record) in out.drain() {
            self.status.read(&record);
            if let StreamRecord::Progress(progress) = &record {
                offsets.insert(progress.split.clone(), progress.offset.clone());
            }
            self.outputs.emit(target, record).await?;
        }
        Ok(())
    }
}
