//! Apache Doris as a sink: Stream Load with two-phase commit, light schema changes, progress in the cluster.

mod client;
mod collapse;
mod committable;
mod committer;
pub mod config;
mod ddl;
mod encode;
mod label;
mod metadata_applier;
mod metrics;
mod orphans;
mod progress;
mod schema_job;
mod sequence;
mod session;
mod sink;
mod table;
mod text;
mod types;
mod writer;

pub use config::DorisConfig;
pub use sink::DorisSink;
