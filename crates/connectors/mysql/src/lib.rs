//! MySQL and MariaDB as a source: snapshot, binlog and DDL.
//!
//! `binlog` and `ddl` are pure: bytes and text in, values out. `model` is the table as the server declares it, `types` its
//! mapping to Lakeward's types. Everything that talks to a server is beside them.

pub mod binlog;
pub mod charset;
mod columns;
pub mod ddl;
mod json;
pub mod model;
pub mod rows;
pub mod types;
pub mod wire;
