//! Jars from Maven, where Java programs of others are tried.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::find_program;

/// Has Maven copy the dependencies of a project into `lib` below the folder. It fetches from where it is told to fetch.
pub(crate) fn copy_dependencies(pom: &str, folder: &Path) -> Result<()> {
    let maven = find_program("mvn").context("there is no mvn")?;
    fs::write(folder.join("pom.xml"), pom)?;
    let done = Command::new(maven)
        .args(["-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg("-DoutputDirectory=lib")
        .current_dir(folder)
        .stdin(Stdio::null())
        .status()?;
    if !done.success() {
        bail!("Maven could not fetch the jars");
    }
    Ok(())
}
