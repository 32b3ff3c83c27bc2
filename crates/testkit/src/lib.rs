//! Real servers as child processes, fault injection, simulation and golden scenarios. For tests only.
//!
//! Everything here blocks: a test reads from top to bottom. A server lives in a folder of its own under the system's
//! temporary folder, listens on a free port of 127.0.0.1, and ends with the value that stands for it, or with this
//! process, however that ends.

pub mod cache;
#[cfg(feature = "sql")]
pub mod case_run;
#[cfg(feature = "sql")]
pub mod cases;
pub mod certificates;
#[cfg(feature = "sql")]
pub mod compare;
#[cfg(feature = "doris")]
pub mod doris;
pub mod flink;
pub mod flink_doris;
pub mod form;
pub mod kafka;
pub mod lake;
pub mod lakeward;
pub mod mariadb;
mod maven;
pub mod mysql9;
pub mod object_store;
pub mod process;
pub mod proxy;
pub mod require;
pub mod server;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "sql")]
pub mod sql;
#[cfg(feature = "kafka")]
pub mod topics;
pub mod venv;
