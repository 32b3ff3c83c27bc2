//! Installs what tests and demo need, where it is missing: nothing is touched that is there.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use lakeward_testkit::process::find_program;
use lakeward_testkit::require;
use lakeward_testkit::{flink, flink_doris, kafka, mariadb, mysql9, venv};

use crate::build::run;

/// What the build needs beside Rust: the headers of OpenSSL, for the Kafka client.
pub fn build_libraries() -> Result<()> {
    let found = ["/usr/include", "/usr/local/include"];
    let is_there = |folder: &&str| std::path::Path::new(folder).join("openssl/ssl.h").exists();
    if found.iter().any(is_there) || std::env::var_os("OPENSSL_DIR").is_some() {
        return Ok(());
    }
    install(&["libssl-dev", "pkg-config"])
}

/// Everything; returns the names for [`require::REQUIRED`].
pub fn everything() -> Result<String> {
    build_libraries()?;
    mariadb_server()?;
    readers()?;
    mysql9::fetch().context("MySQL 9 is needed for its tests")?;
    kafka_broker()?;
    doris_clients()?;
    flink_releases()?;
    let (kafka, readers, doris) = (kafka::NAME, venv::NAME, flink_doris::NAME);
    Ok(format!("mariadb,mysql9,{kafka},{readers},curl,{doris},{}", flink::NAME))
}

pub fn mariadb_server() -> Result<()> {
    if mariadb::find().is_err() {
        // The core package has the server without a service that would be started.
        install(&["mariadb-server-core"])?;
    }
    mariadb::find()
}

/// Apache Kafka, a Java program, and Maven, which fetches it.
pub fn kafka_broker() -> Result<()> {
    if kafka::find().is_ok() {
        return Ok(());
    }
    if find_program("java").is_none() {
        install(&["default-jre-headless"])?;
    }
    if find_program("mvn").is_none() {
        install(&["maven"])?;
    }
    println!("fetching Apache Kafka into the cache folder");
    kafka::fetch().map(drop)
}

/// Clients of Doris that are not ours: curl, and Flink with Doris' connector, a Java program that Maven fetches.
pub fn doris_clients() -> Result<()> {
    if find_program("curl").is_none() {
        install(&["curl"])?;
    }
    if flink_doris::find().is_ok() {
        return Ok(());
    }
    for (program, package) in [("javac", "default-jdk-headless"), ("mvn", "maven")] {
        if find_program(program).is_none() {
            install(&[package])?;
        }
    }
    println!("fetching Flink's connector for Doris into the cache folder");
    flink_doris::fetch().map(drop)
}

/// The releases of Apache Flink that the job is tried on: Java programs that come with Python packages.
pub fn flink_releases() -> Result<()> {
    if find_program("javac").is_none() {
        install(&["default-jdk-headless"])?;
    }
    for version in flink::VERSIONS {
        if flink::find(version).is_err() {
            println!("fetching Apache Flink {version} into the cache folder");
            flink::fetch(version)?;
        }
    }
    Ok(())
}

/// DuckDB and PyIceberg, which read the lake back, moto, which is a store to put it in, sqlglot, which reads our statements,
/// and PyMySQL, which speaks to Doris.
pub fn readers() -> Result<()> {
    if venv::find().is_ok() {
        return Ok(());
    }
    let has_venv = Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_venv {
        install(&["python3-venv"])?;
    }
    println!("installing DuckDB, PyIceberg, moto and sqlglot into the cache folder");
    venv::install().map(drop)
}

/// The program that reads a server's log, for the benchmark.
#[cfg(feature = "servers")]
pub fn mariadb_client() -> Result<()> {
    if find_program("mariadb-binlog").is_none() {
        install(&["mariadb-client"])?;
    }
    find_program("mariadb-binlog").map(drop).context("mariadb-binlog is missing")
}

fn install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if find_program("apt-get").is_none() {
        bail!("please install {names} with the package manager of this system");
    }
    println!("installing {names}");
    let sudo = find_program("sudo").filter(|_| !is_root());
    let apt_get = |arguments: &[&str]| {
        let mut command = match &sudo {
            Some(sudo) => {
                let mut command = Command::new(sudo);
                command.arg("apt-get");
                command
            }
            None => Command::new("apt-get"),
        };
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        command
    };
    run(&mut apt_get(&["update", "-qq"]))?;
    run(apt_get(&["install", "-qq", "-y", "--no-install-recommends"]).args(packages))
        .with_context(|| format!("could not install {names}; please install it by hand"))
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&match std::fs::metadata("/proc/self") {
        Ok(metadata) => metadata,
        Err(_) => return false,
    }) == 0
}

/// The environment variable and value under which a missing server fails a test.
pub fn required(names: &str) -> (&'static str, &str) {
    (require::REQUIRED, names)
}
