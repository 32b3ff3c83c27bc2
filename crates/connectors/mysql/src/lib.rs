//! MySQL and MariaDB as a source: snapshot, binlog and DDL.
//!
//! `binlog` and `ddl` are pure: bytes and text in, values out. `model` is the table as the server declares it, `types` its
//! mapping to Lakeward's types. Everything that talks to a server is beside them.

mod backfill;
pub mod binlog;
mod catalog;
pub mod charset;
mod check;
mod chunks;
mod client;
mod columns;
pub mod config;
pub mod ddl;
mod dump;
mod establish;
mod handover;
mod json;
mod log;
pub mod metrics;
pub mod model;
pub mod offset;
mod reader;
pub mod rows;
pub mod selector;
mod shapes;
mod snapshot;
pub mod source;
pub mod state;
mod tables;
mod transaction;
pub mod types;
pub mod wire;

pub use config::MysqlConfig;
pub use source::MysqlSource;
