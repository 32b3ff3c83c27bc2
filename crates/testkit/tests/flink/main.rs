//! What happens to a job on Flink: killed managers, older savepoints, wrong settings, many jobs in one process. The same
//! rows as on one machine are the matter of the golden scenarios (`tests/pairs`).

mod alone;
mod contract;
mod library;
mod panics;
mod rescale;
mod restores;
mod scene;
mod settings;
