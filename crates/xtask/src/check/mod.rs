//! `cargo xtask check`: what a reviewer should not have to look for.

mod licences;
mod metadata;
mod rules;
mod sources;

use anyhow::{Result, bail};

use crate::build::{cargo, run as run_command};
use crate::setup;

pub fn run() -> Result<()> {
    setup::build_libraries()?;
    let metadata = metadata::load()?;
    let mut problems = Vec::new();
    problems.extend(rules::crates(&metadata));
    problems.extend(rules::one_arrow(&metadata));
    problems.extend(licences::check(&metadata));
    problems.extend(sources::check(&metadata)?);
    for problem in &problems {
        println!("check: {problem}");
    }
    let mut failed = problems.len();
    for arguments in [
        &["fmt", "--all", "--check"][..],
        &["clippy", "--workspace", "--quiet", "--", "--deny", "warnings"][..],
        // A test may unwrap: its panic is its failure.
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "--deny",
            "warnings",
            "--allow",
            "clippy::unwrap_used",
        ][..],
        &[
            "clippy",
            "--package",
            "xtask",
            "--features",
            "servers",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ][..],
    ] {
        if let Err(error) = run_command(&mut cargo(arguments)?) {
            println!("check: {error:#}");
            failed += 1;
        }
    }
    if failed > 0 {
        bail!("{failed} problems");
    }
    println!("check: all is well");
    Ok(())
}
