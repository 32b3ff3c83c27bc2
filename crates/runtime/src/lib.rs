//! The embedded runtime: tasks, channels, barriers, checkpoints and restarts in one process.
