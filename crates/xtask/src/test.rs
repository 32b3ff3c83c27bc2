//! `cargo xtask test`: installs, builds, and runs all tests.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::build::{self, cargo};
use crate::{flink, setup};

pub fn run(arguments: &[String]) -> Result<()> {
    let begun = Instant::now();
    let names = setup::everything()?;
    let (variable, value) = setup::required(&names);
    println!("building");
    build::run(&mut cargo(&["test", "--workspace", "--no-run", "--quiet"])?)?;
    flink::build(&flink::Options::default())?;
    let mut child = cargo(&["test", "--workspace", "--no-fail-fast"])?
        .args(arguments)
        .env(variable, value)
        .stdout(Stdio::piped())
        .spawn()
        .context("could not start cargo test")?;
    let stdout = child.stdout.take().context("cargo test has no output")?;
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        if let Some(counts) = line.strip_prefix("test result: ") {
            passed += count(counts, " passed");
            failed += count(counts, " failed");
            ignored += count(counts, " ignored");
        }
    }
    let status = child.wait()?;
    println!(
        "\nall tests together: {passed} passed; {failed} failed; {ignored} ignored; {} s",
        begun.elapsed().as_secs()
    );
    if !status.success() {
        bail!("the tests failed");
    }
    Ok(())
}

/// The number before a word, as in `ok. 3 passed; 0 failed`.
fn count(line: &str, word: &str) -> u64 {
    let before = line.split(word).next().unwrap_or_default();
    before.rsplit([' ', ';']).next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_are_read_from_the_closing_line() {
        let line = "FAILED. 13 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!((count(line, " passed"), count(line, " failed")), (13, 2));
        assert_eq!(count(line, " ignored"), 1);
        assert_eq!(count("nothing", " passed"), 0);
    }
}
