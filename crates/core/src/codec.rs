//! Records as bytes: for held rows in checkpoint state, spilled rows on disk, and frames between processes.
