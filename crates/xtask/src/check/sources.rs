//! Rules about the sources themselves: length of files, and who reads the environment.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::metadata::{Metadata, Package};

const THINK_AGAIN_LINES: usize = 400;
const TOO_LONG_LINES: usize = 800;

/// Crates that may read environment variables: the command line, the pipeline file's references, the library that Flink's
/// processes load, and what only developers run.
const READ_ENVIRONMENT: &[&str] =
    &["lakeward", "lakeward-pipeline", "lakeward-flink", "lakeward-testkit", "xtask"];

pub fn check(metadata: &Metadata) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in metadata.members() {
        let folder = package.manifest_path.parent().unwrap_or(Path::new("."));
        for file in rust_files(folder)? {
            let text = fs::read_to_string(&file)?;
            let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            problems.extend(check_file(package, &name, &text));
        }
    }
    Ok(problems)
}

fn check_file(package: &Package, name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let file = format!("{}: {name}", package.name);
    let lines = text.lines().count();
    if lines > TOO_LONG_LINES {
        problems.push(format!("{file} has {lines} lines; split it"));
    } else if lines > THINK_AGAIN_LINES {
        println!("warning: {file} has {lines} lines; is it one thing?");
    }
    if !text.trim_start().starts_with("//!") {
        problems.push(format!("{file} does not say what it owns (`//!`)"));
    }
    let in_tests = name.starts_with("tests/") || name.ends_with("tests.rs");
    if !READ_ENVIRONMENT.contains(&package.name.as_str()) && !in_tests {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for call in ["env::var", "env::vars"] {
            if code.contains(&format!("{call}(")) || code.contains(&format!("{call}_os(")) {
                problems.push(format!(
                    "{file} reads the environment; only programs and the pipeline file may"
                ));
            }
        }
    }
    problems
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let has_own_manifest = path.join("Cargo.toml").is_file();
        if path.is_dir() && !path.ends_with("target") && !has_own_manifest {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
