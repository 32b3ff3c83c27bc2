//! `cargo xtask flink`: the Rust library and the Java job around it, as two jars.
//!
//! `lakeward-flink.jar` has everything. `lakeward-flink-native.jar` has the library alone, for the `lib` folder of a
//! cluster that runs several jobs: there it is loaded once.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use lakeward_testkit::process::find_program;
use lakeward_testkit::{cache, flink};

use crate::build::{cargo, run, target_folder};

const MAIN_CLASS: &str = "io.lakeward.flink.LakewardJob";

/// The package with the library, as a folder.
const NATIVE: &str = "io/lakeward/flink/nativelib";
const LIBRARY: &str = "liblakeward_flink.so";

#[derive(Default, clap::Args)]
pub struct Options {
    /// An optimised library, for use.
    #[arg(long)]
    release: bool,
    /// Puts the library for another kind of machine into the jars as well, for instance `aarch64-unknown-linux-gnu`,
    /// whose Rust toolchain and linker are there.
    #[arg(long, value_name = "TARGET")]
    also: Vec<String>,
    /// Where to put the jars instead of `flink` in the build folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Options {
    /// An optimised library, in the usual place.
    #[cfg_attr(not(feature = "servers"), allow(dead_code))]
    pub fn of_release() -> Self {
        Self { release: true, ..Self::default() }
    }
}

pub fn run_command(options: &Options) -> Result<()> {
    let jars = build(options)?;
    println!("{}\n{}", jars.job.display(), jars.native.display());
    Ok(())
}

/// Builds both jars and returns where they are.
pub fn build(options: &Options) -> Result<flink::Jars> {
    let folder = match &options.out {
        Some(folder) => std::path::absolute(folder)?,
        None => target_folder()?.join("flink"),
    };
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let work = tempfile::Builder::new().prefix("build-").tempdir_in(&folder)?;
    let classes = compile(work.path())?;
    let targets = std::iter::once(None).chain(options.also.iter().map(|t| Some(t.as_str())));
    for target in targets {
        add_library(&classes, options.release, target)?;
    }
    let jars = flink::Jars {
        job: folder.join("lakeward-flink.jar"),
        native: folder.join("lakeward-flink-native.jar"),
    };
    pack(&jars.job, &["--main-class", MAIN_CLASS], &classes, ".")?;
    pack(&jars.native, &[], &classes, NATIVE)?;
    Ok(jars)
}

/// Compiles the Java sources and returns the folder of the classes.
fn compile(work: &Path) -> Result<PathBuf> {
    let project = cache::workspace().join("crates/flink/java");
    if let Some(maven) = find_program("mvn") {
        let mut compile = Command::new(maven);
        compile.args(["-B", "-q", "compile", "-f"]).arg(project.join("pom.xml"));
        run(compile.arg(format!("-Dbuild.folder={}", work.display())))?;
    } else {
        let mut compile = Command::new(find_program("javac").context("there is no Java compiler")?);
        compile.args(["--release", "11", "-nowarn", "-cp", &class_path()?, "-d"]);
        compile.arg(work.join("classes"));
        sources(&project.join("src/main/java"), &mut compile)?;
        run(&mut compile)?;
    }
    Ok(work.join("classes"))
}

/// The jars of the Flink in `FLINK_HOME`, or of the one that the tests run on.
fn class_path() -> Result<String> {
    let home = match std::env::var_os("FLINK_HOME") {
        Some(home) => home.into(),
        None => flink::fetch(flink::OLDEST)?,
    };
    Ok(home.join("lib/*").display().to_string())
}

fn sources(folder: &Path, compile: &mut Command) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, compile)?;
        } else if path.extension() == Some(OsStr::new("java")) {
            compile.arg(path);
        }
    }
    Ok(())
}

/// Builds the library, for this machine or another, and puts it beside the classes.
fn add_library(classes: &Path, release: bool, target: Option<&str>) -> Result<()> {
    let mut arguments = match release {
        true => vec!["build", "--package", "lakeward-flink", "--release"],
        // Of the workspace: the libraries are then those of the tests.
        false => vec!["build", "--workspace", "--lib"],
    };
    let mut built = target_folder()?;
    if let Some(target) = target {
        arguments.extend(["--target", target]);
        built.push(target);
    }
    run(&mut cargo(&arguments)?)?;
    built.push(if release { "release" } else { "debug" });
    built.push(LIBRARY);
    let machine = target.unwrap_or(std::env::consts::ARCH).split('-').next().unwrap_or_default();
    let place = classes.join(NATIVE).join(format!("{}-{machine}", std::env::consts::OS));
    fs::create_dir_all(&place)?;
    strip(&built, &place.join(LIBRARY), machine)
}

/// What a debugger needs is most of the file. Symbols stay, for stack traces.
fn strip(from: &Path, to: &Path, machine: &str) -> Result<()> {
    let program = match machine == std::env::consts::ARCH {
        true => find_program("strip"),
        false => find_program(&format!("{machine}-linux-gnu-strip")),
    };
    match program {
        Some(program) => {
            run(Command::new(program).arg("--strip-debug").arg("-o").arg(to).arg(from))
        }
        None => {
            println!("{machine}: there is no `strip`, so the library stays large");
            fs::copy(from, to).map(drop).with_context(|| format!("no {}", from.display()))
        }
    }
}

/// `jar --create`, beside the jar that is there, which a running test may be reading.
fn pack(jar: &Path, options: &[&str], classes: &Path, content: &str) -> Result<()> {
    let Some(program) = find_program("jar") else { bail!("there is no `jar`, a part of the JDK") };
    let fresh = jar.with_extension("jar.new");
    let mut pack = Command::new(program);
    pack.args(["--create", "--file"]).arg(&fresh).args(options).arg("-C").arg(classes).arg(content);
    run(&mut pack)?;
    fs::rename(&fresh, jar).with_context(|| format!("could not write {}", jar.display()))
}
