//! A stand-in for a Doris cluster. **It is not Doris**: it keeps to Doris' documented protocol and rules as far as this
//! page says, so that the sink can be tested where no cluster can be had.
//!
//! # What it has
//!
//! Frontends and backends on free ports of 127.0.0.1, in this process, behind one value ([`StandIn`]) that ends them:
//!
//! - Frontend, HTTP: `_stream_load` and `_stream_load_2pc` answered with a 307 to a backend, round robin, with the
//!   credentials in the address as Doris does it; `get_load_state`, `enable_light_schema_change`, `query`, `_schema`,
//!   `backends`, `health`, `rest/v2/manager/node/frontends`. HTTP 200 whatever happens, errors in the JSON.
//! - Backend, HTTP: stream load (CSV, compressed or not, JSON, Arrow), labels, two-phase commit, group commit,
//!   the quality filter with its `ErrorURL`.
//! - Frontend, MySQL protocol: DDL, SHOW, DESC, INSERT, DELETE, SELECT (run by DataFusion over the visible rows).
//!
//! Transactions have Doris' states and messages; labels are unique per database until an abort; rows are invisible until
//! the commit, which publishes all of them at once. Unique tables know the delete sign, the sequence column and partial
//! updates. Light schema changes happen at once, heavy ones are jobs that wait for older loads.
//!
//! # What it does not have
//!
//! Replicas, tablets, partitions and buckets are parsed and remembered, not modelled: there is no "no partition for this
//! row". Aggregate tables, materialized views, indexes, roles and grants are not there, and expressions in `columns`
//! are refused. Values of ARRAY, MAP, STRUCT and VARIANT are checked to be JSON, no more. Parquet and ORC bodies are
//! refused. SELECT speaks DataFusion's SQL, not Doris'. Where Doris' behaviour differs between versions the newer is
//! taken (2.1 to 3.1). Where it could not be read from Doris' documentation, code or tests, the stand-in refuses.
//!
//! # A real cluster
//!
//! `LAKEWARD_TEST_DORIS_URL=mysql://USER:PASSWORD@HOST:9030/?http=8030` makes [`DorisServer::start`] speak of that cluster
//! instead. Tests that inject faults need [`DorisServer::stand_in`], and skip themselves there.

mod cluster;
mod faults;
mod http;
mod load;
mod mysql;
mod schema_change;
mod server;
mod sql;
mod stand_in;
mod table;
mod temporal;
mod transaction;
mod types;
mod value;

pub use cluster::Settings;
pub use faults::{Fault, Moment, Received};
pub use server::{DorisServer, URL};
pub use stand_in::StandIn;
