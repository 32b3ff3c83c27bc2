//! What a pipeline file says: its sections and options, the connectors that it names, the pipeline that they make.
//!
//! The only crate that reads a pipeline file, follows its references to the environment, and names connectors. The
//! program and the Flink library both start here.

mod definition;
mod floors;
pub mod pipeline_file;
pub mod registry;
mod tables;

pub use definition::{definition_of, pipeline_id};
pub use floors::Floors;
pub use registry::Connectors;
pub use tables::{merge_errors, targets_of};
