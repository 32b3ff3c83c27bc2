//! The operators between a source and a sink: routing, DDL handling, writing and committing.
