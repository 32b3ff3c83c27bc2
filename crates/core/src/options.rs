//! Forms that values of the pipeline file have in every section: durations and patterns of tables.

pub mod interval;
pub mod table_pattern;

pub use interval::Interval;
pub use table_pattern::TablePattern;
