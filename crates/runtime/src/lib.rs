//! The embedded runtime: runs a plan in one process.
//!
//! One tokio task per operator instance, bounded channels between them, barriers that are aligned where an instance has
//! several inputs, checkpoints in a state directory, restarts. It knows nothing of any source or sink but their traits.
//!
//! Life of an attempt: the sink is acquired and asked for its progress (a hook), the newest checkpoint is loaded, the
//! operators are opened with their state, then the source, then records flow. A checkpoint is taken between two source
//! transactions; once every instance's state is durable, everyone is told; the committers commit, the last stage reports
//! the epoch, and only then is the source told that it may forget.

mod attempt;
mod checkpoint;
mod clock;
mod gate;
mod job;
mod listener;
mod marks;
mod options;
mod restart;
mod restore;
mod signal;
mod source_task;
mod status;
pub mod store;
mod task;
mod time;

pub use clock::SystemClock;
pub use job::{Job, JobHandle, Until};
pub use marks::MemoryMarks;
pub use options::{BeforeAttempt, Hooks, JobOptions};
pub use restart::RestartStrategy;
pub use status::{
    CheckpointStatus, CommittedStatus, InFlightStatus, JobState, JobStatus, StatusError,
    TableStatus,
};
pub use store::{Checkpoint, CheckpointStore, DirStore, Identity, MemoryStore};
pub use time::{SystemTimer, Timer, VirtualTime};
