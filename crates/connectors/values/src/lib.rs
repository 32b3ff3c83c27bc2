//! A source and a sink in memory, for tests and for trying a pipeline out.
