//! Apache Flink as it is released: a JobManager and TaskManagers as child processes. The distributions come with Flink's
//! Python packages. The system is not changed.

mod cluster;
mod jobs;
mod pipelines;
mod rest;

pub use cluster::{Cluster, Options};
pub use jobs::{Job, Run, Vertex};
pub use pipelines::Flink;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::find_program;
use crate::require::or_skip;
use crate::{cache, venv};

/// The name in `LAKEWARD_REQUIRE_SERVERS`.
pub const NAME: &str = "flink";

/// The oldest and the newest release that the job is tried on.
pub const VERSIONS: [&str; 2] = ["1.20.5", "2.3.0"];

/// The one that the job is compiled against.
pub const OLDEST: &str = VERSIONS[0];

/// Packages of the Java library that Flink looks into.
const OPENED: &[&str] = &[
    "java.lang",
    "java.net",
    "java.io",
    "java.nio",
    "sun.nio.ch",
    "java.lang.reflect",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.concurrent.locks",
];

/// Options of Java that open them.
pub(crate) fn opened_packages() -> impl Iterator<Item = String> {
    OPENED.iter().map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED"))
}

/// `FLINK_HOME` of a release.
pub fn find(version: &str) -> Result<PathBuf> {
    find_program("java").context("there is no Java")?;
    let home = cache::folder()?.join(format!("flink-{version}"));
    if home.join(format!("lib/flink-dist-{version}.jar")).is_file() {
        return Ok(home);
    }
    bail!("Apache Flink {version} is not there; `cargo xtask test` fetches it")
}

/// Finds a release, or installs it from the package index that pip is configured for.
pub fn fetch(version: &str) -> Result<PathBuf> {
    if let Ok(home) = find(version) {
        return Ok(home);
    }
    let python = venv::find().or_else(|_| find_program("python3").context("there is no Python"))?;
    let work = tempfile::Builder::new().prefix("flink-fetch-").tempdir_in(cache::folder()?)?;
    let done = Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir", "--target"])
        .arg(work.path())
        .arg(format!("apache-flink-libraries=={version}"))
        .stdin(Stdio::null())
        .status()
        .context("could not start pip")?;
    if !done.success() {
        bail!("pip could not install Apache Flink {version}");
    }
    // All or nothing.
    let home = cache::folder()?.join(format!("flink-{version}"));
    if fs::rename(work.path().join("pyflink"), &home).is_err() && !home.is_dir() {
        bail!("could not put Apache Flink into {}", home.display());
    }
    find(version)
}

/// The two jars of this project, as `cargo xtask flink` leaves them.
#[derive(Debug, Clone)]
pub struct Jars {
    /// The job, with everything in it.
    pub job: PathBuf,
    /// The library alone, for the class path of the cluster.
    pub native: PathBuf,
}

/// The jars in cargo's target folder, beside the running test or command.
pub fn jars() -> Result<Jars> {
    let exe = std::env::current_exe()?;
    let found = exe.ancestors().skip(1).take(4).map(|folder| folder.join("flink"));
    found.filter_map(|folder| jars_of(&folder).ok()).next().context(NOT_BUILT)
}

const NOT_BUILT: &str = "the jars for Flink are not built yet: `cargo xtask flink`";

/// The jars in a folder.
pub fn jars_of(folder: &Path) -> Result<Jars> {
    let jars = Jars {
        job: folder.join("lakeward-flink.jar"),
        native: folder.join("lakeward-flink-native.jar"),
    };
    match jars.job.is_file() && jars.native.is_file() {
        true => Ok(jars),
        false => bail!(NOT_BUILT),
    }
}

/// Starts a cluster, or skips the running test: see [`or_skip`].
pub fn start_or_skip(options: &Options) -> Option<Cluster> {
    or_skip(NAME, find(&options.version))?;
    Some(Cluster::start(options).expect("Apache Flink starts"))
}
