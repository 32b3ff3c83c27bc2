//! The operators for a Flink job: a dozen native functions, called by the thin Java job in `java/`.
//!
//! Flink owns the threads, the network, the checkpoints and the restarts; here an operator is what it is everywhere, a
//! value that its runtime calls. Java moves bytes and never looks into a record. What crosses the boundary is described
//! in [`wire`], what a handle stands for in [`handle`].

mod context;
pub mod handle;
mod log;
mod marks;
mod metrics;
mod moved;
mod natives;
mod operator;
mod plan;
mod planted;
mod reader;
mod spec;
mod state_copies;
pub mod wire;
