//! Runs cargo, with the build output in one folder outside the checkout that all commands share.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use lakeward_testkit::cache;

/// The build folder: what `CARGO_TARGET_DIR` says, or `target` in the cache folder.
pub fn target_folder() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => Ok(folder.into()),
        None => Ok(cache::folder()?.join("target")),
    }
}

/// `cargo …` in the workspace.
pub fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo told this program about itself is not for the next one: build scripts that look at it would run again,
    // and half of the libraries would be built anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_")
            || text.starts_with("CARGO_MANIFEST_")
            || ["LD_LIBRARY_PATH", "RUST_RECURSION_COUNT"].contains(&&*text)
        {
            command.env_remove(&name);
        }
    }
    command
        .args(arguments)
        .current_dir(cache::workspace())
        .env("CARGO_TARGET_DIR", target_folder()?);
    Ok(command)
}

/// Runs a command to its end; an error names it.
pub fn run(command: &mut Command) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words = words.join(" ");
    let status = command.status().with_context(|| format!("could not start `{words}`"))?;
    if !status.success() {
        bail!("`{words}` failed");
    }
    Ok(())
}

/// Builds the binary and returns its path.
#[cfg_attr(not(feature = "servers"), allow(dead_code))]
pub fn lakeward(profile: Profile) -> Result<PathBuf> {
    let (arguments, folder): (&[&str], _) = match profile {
        // Of the workspace, not of the package alone: cargo then gives the libraries the same features as for the tests,
        // and builds them once.
        Profile::Dev => (&["build", "--workspace", "--bin", "lakeward"], "debug"),
        Profile::Release => {
            (&["build", "--package", "lakeward", "--release", "--no-default-features"], "release")
        }
    };
    run(&mut cargo(arguments)?)?;
    Ok(target_folder()?.join(folder).join("lakeward"))
}

#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "servers"), allow(dead_code))]
pub enum Profile {
    /// With everything in it; shares its libraries with the tests.
    Dev,
    /// What a pipeline needs, at full speed.
    Release,
}

/// Starts this command once more, built with a database client. Not with `--release`, also for `bench`: of its own code only
/// the reader that it compares with has to be fast, which the profile sees to, and the libraries are those of the tests.
#[cfg(not(feature = "servers"))]
pub fn again_with_servers() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    println!("building; the first time that takes minutes");
    let mut build = cargo(&[
        "build",
        "--quiet",
        "--workspace",
        "--bin",
        "xtask",
        "--features",
        "xtask/servers",
    ])?;
    run(&mut build)?;
    let status =
        Command::new(target_folder()?.join("debug").join("xtask")).args(arguments).status()?;
    std::process::exit(status.code().unwrap_or(1));
}
