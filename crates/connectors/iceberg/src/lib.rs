//! Apache Iceberg as a sink: row locator, writers, our own commit layer and catalog.

pub mod catalog;
mod commit;
pub mod committable;
pub mod config;
mod data_file_record;
pub mod faults;
pub mod names;
mod partition_key;
pub mod properties;
pub mod storage;
pub mod table_state;
pub mod types;

pub use data_file_record::NewDataFile;
