//! Change topics of Kafka as a source: JSON as Debezium, Canal, Maxwell and GoldenGate write it.
//!
//! `json`, `format`, `cell`, `shape` and `decode` are pure: bytes in, rows out. Everything that talks to a broker is in
//! `client`, `startup`, `fetch` and `probe`; `reader` joins the two, and is the only one that changes a table's columns.

mod bad_records;
mod cell;
mod client;
pub mod config;
mod declared;
mod decode;
mod evolve;
mod fetch;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod json;
mod metrics;
mod offset;
mod partition;
mod probe;
mod reader;
mod row;
mod sample;
mod selector;
mod shape;
mod source;
mod startup;
mod state;
mod temporal;
mod types;

pub use bad_records::{BadRecordPolicy, BadRecords};
pub use config::KafkaConfig;
pub use source::KafkaSource;
