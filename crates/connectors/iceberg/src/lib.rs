//! Apache Iceberg as a sink: row locator, writers, our own commit layer and catalog.

mod applied;
mod buffer;
pub mod catalog;
pub mod changelog;
mod collapse;
mod commit;
pub mod committable;
mod committer;
pub mod config;
mod data_file_record;
pub mod data_files;
pub mod epochs;
pub mod faults;
mod file_metrics;
pub mod locator;
mod maintenance;
mod metadata_applier;
mod metrics;
pub mod names;
mod new_table;
mod partition;
mod partition_key;
pub mod properties;
mod read_rows;
mod rewrite;
mod schema_change;
mod session;
mod sink;
pub mod storage;
pub mod table_state;
pub mod types;
mod unavailable;
pub mod writer;

pub use config::IcebergConfig;
pub use data_file_record::NewDataFile;
pub use sink::IcebergSink;
