//! The Python environment in the cache folder: the lake's other readers, DuckDB and PyIceberg, moto, a store that speaks S3,
//! and sqlglot, which reads SQL
//! of Doris.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cache, process};

/// What `or_skip` calls it.
pub const NAME: &str = "readers";

const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

fn folder() -> Result<PathBuf> {
    Ok(cache::folder()?.join(format!("venv-{}", cache::fingerprint(REQUIREMENTS))))
}

/// The Python program of the environment.
pub fn find() -> Result<PathBuf> {
    let folder = folder()?;
    if !folder.join("complete").is_file() {
        bail!("the Python environment is not installed; `cargo xtask test` does that");
    }
    Ok(folder.join("bin/python"))
}

/// Finds the environment, or installs it from the package index that pip is configured for.
pub fn install() -> Result<PathBuf> {
    if let Ok(python) = find() {
        return Ok(python);
    }
    let folder = folder()?;
    let python = process::find_program("python3").context("python3 is not installed")?;
    let mut make = Command::new(python);
    run(make.args(["-m", "venv", "--clear"]).arg(&folder), "python3 -m venv")?;
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS)?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-r"])
        .arg(&requirements);
    run(&mut pip, "pip install")?;
    fs::write(folder.join("complete"), "")?;
    find()
}

fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start {what}"))?;
    if !status.success() {
        bail!("{what} failed");
    }
    Ok(())
}
