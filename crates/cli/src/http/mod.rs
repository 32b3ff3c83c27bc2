//! The HTTP API of a running pipeline, its status page, and the client that the commands use.
//!
//! It listens before the pipeline connects to anything, so a status can always be had. It only reads: nothing can be
//! changed through it, and nothing secret is in it.

pub mod client;
mod metrics;
pub mod server;
pub mod shape;
pub mod status;
mod wait;
