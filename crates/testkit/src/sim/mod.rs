//! Simulation: whole pipelines on the values connector, in one thread and simulated time, cut off at any step.
//!
//! A [`Scenario`] says what happens at the source. [`run`] lets the real operators and the real runtime copy it, through
//! every crash, error and restart that its [`Faults`](lakeward_values::Faults) plan, and compares the lake with the source
//! in the end. Same scenario, same trace. [`Sabotage`] plants defects, to prove that the comparison finds them.

mod check;
mod golden;
mod run;
mod sabotage;
mod scenario;
mod store;

pub use check::Failure;
pub use golden::Golden;
pub use run::{Outcome, run, run_with};
pub use sabotage::Sabotage;
pub use scenario::{Phase, Scenario};
