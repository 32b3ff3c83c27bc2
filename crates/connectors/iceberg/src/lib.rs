//! Apache Iceberg as a sink: row locator, writers, our own commit layer and catalog.

mod buffer;
pub mod catalog;
pub mod changelog;
mod collapse;
mod commit;
pub mod committable;
pub mod config;
mod data_file_record;
pub mod data_files;
pub mod faults;
mod file_metrics;
pub mod locator;
pub mod names;
mod partition;
mod partition_key;
pub mod properties;
mod read_rows;
mod rewrite;
pub mod storage;
pub mod table_state;
pub mod types;
mod unavailable;
pub mod writer;

pub use data_file_record::NewDataFile;
