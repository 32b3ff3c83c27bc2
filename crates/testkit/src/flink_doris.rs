//! Apache Flink with Apache Doris' own connector, fetched through Maven: a client of Doris that is not ours. The system is
//! not changed.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::flink::opened_packages;
use crate::process::{Guarded, Program, find_program, tail};
use crate::{cache, maven};

/// The name in `LAKEWARD_REQUIRE_SERVERS`.
pub const NAME: &str = "flink-doris";

const JOB: &str = include_str!("../java/FlinkDoris.java");

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lakeward</groupId>
  <artifactId>flink-doris</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <properties><flink>1.20.1</flink></properties>
  <dependencies>
    <dependency>
      <groupId>org.apache.doris</groupId><artifactId>flink-doris-connector-1.20</artifactId><version>25.0.0</version>
    </dependency>
    <dependency>
      <groupId>org.apache.flink</groupId><artifactId>flink-clients</artifactId><version>${flink}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.flink</groupId><artifactId>flink-streaming-java</artifactId><version>${flink}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.flink</groupId><artifactId>flink-connector-datagen</artifactId><version>${flink}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.flink</groupId><artifactId>flink-table-api-java-bridge</artifactId><version>${flink}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"#;

const JOB_PATIENCE: Duration = Duration::from_secs(600);

fn folder() -> Result<PathBuf> {
    let name = cache::fingerprint(&format!("{POM}{JOB}"));
    Ok(cache::folder()?.join(format!("flink-doris-{name}")))
}

/// The folder of the jars and of the job's classes.
pub fn find() -> Result<PathBuf> {
    find_program("java").context("there is no Java")?;
    let folder = folder()?;
    match folder.is_dir() {
        true => Ok(folder),
        false => bail!("Flink's connector for Doris is not there; `cargo xtask test` fetches it"),
    }
}

/// Finds the jars, or has Maven fetch them from where it is told to fetch, and compiles the job.
pub fn fetch() -> Result<PathBuf> {
    if let Ok(folder) = find() {
        return Ok(folder);
    }
    let javac = find_program("javac").context("there is no Java compiler")?;
    let work = tempfile::Builder::new().prefix("flink-fetch-").tempdir_in(cache::folder()?)?;
    maven::copy_dependencies(POM, work.path())
        .context("could not fetch Flink's connector for Doris")?;
    fs::write(work.path().join("FlinkDoris.java"), JOB)?;
    let compiled = Command::new(javac)
        .args(["-cp", "lib/*", "-d", "classes", "FlinkDoris.java"])
        .current_dir(work.path())
        .stdin(Stdio::null())
        .status()?;
    if !compiled.success() {
        bail!("the job for Flink's connector could not be compiled");
    }
    // All or nothing.
    let folder = folder()?;
    let kept = work.keep();
    if fs::rename(&kept, &folder).is_err() && !folder.is_dir() {
        bail!("could not put the jars into {}", folder.display());
    }
    find()
}

/// Runs `java/FlinkDoris.java` to its end; the log is the error where it fails.
pub fn run(arguments: &[&str]) -> Result<()> {
    let jars = find()?;
    let work = tempfile::tempdir()?;
    let log = work.path().join("job.log");
    let mut args: Vec<String> = opened_packages().collect();
    args.extend(["-Xmx768m".into(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".into()]);
    args.extend([
        "-cp".into(),
        format!("{0}/classes:{0}/lib/*", jars.display()),
        "FlinkDoris".into(),
    ]);
    args.extend(arguments.iter().map(|a| (*a).to_owned()));
    let mut job = Guarded::spawn(&Program {
        path: find_program("java").context("there is no Java")?,
        args,
        envs: Vec::new(),
        folder: work.path().to_owned(),
        log: log.clone(),
        doomed: None,
    })?;
    match job.exit_within(JOB_PATIENCE)? {
        Some(0) => Ok(()),
        Some(code) => bail!("the Flink job failed with {code}: {}", tail(&log, 40)),
        None => bail!("the Flink job did not end: {}", tail(&log, 40)),
    }
}
