//! Apache Iceberg as a sink: row locator, writers, our own commit layer and catalog.

pub mod types;
