//! A source and a sink in memory, for tests and for trying a pipeline out.
//!
//! [`Database`] runs a small part of SQL and keeps a log of what it did, as a real server does; [`ValuesSource`] reads it.
//! [`ValuesSink`] writes into a [`Lake`] that outlives attempts, commits atomically per table, and notices what a real lake
//! cannot: a change that is applied twice, a change that belongs before a truncation and comes after it. [`Faults`] cuts
//! either off at any step.

mod batch;
mod committer;
mod database;
mod ddl;
mod faults;
mod generator;
mod lake;
mod random;
mod reader;
mod sink;
mod source;
mod sql;
mod writer;

pub use database::{Contents, Database, Event, Row, Transaction};
pub use faults::{Fault, Faults, Pause, no_pause};
pub use generator::{Generator, Mix};
pub use lake::Lake;
pub use random::Random;
pub use sink::ValuesSink;
pub use source::{Pace, ValuesSource};
