//! What goes wrong around a pipeline: lost logs, other writers, cut networks, accounts. The real binary against real
//! servers, one test for each fault.

mod accounts;
mod logs;
mod network;
mod object_store;
mod scene;
mod signals;
mod sinks;
mod tables;
mod writers;
