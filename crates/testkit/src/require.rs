//! What a test does when a server or a reader that it needs is not there.

use std::io::Write;

use anyhow::Result;

/// Names, separated by commas, of what must be there: `mariadb`, `mysql9`, `readers` and so on, as
/// [`or_skip`] is told them. `cargo xtask test` sets it.
pub const REQUIRED: &str = "LAKEWARD_REQUIRE_SERVERS";

/// Passes on what was found. Otherwise the running test is reported as skipped, by name, or fails where the environment
/// promises that nothing is missing.
pub fn or_skip<T>(what: &str, found: Result<T>) -> Option<T> {
    match found {
        Ok(value) => Some(value),
        Err(why) => {
            let required = std::env::var(REQUIRED).unwrap_or_default();
            assert!(!required.split(',').any(|r| r.trim() == what), "{what} is required: {why:#}");
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            // Not eprintln: the test runner shows what that prints for failed tests only.
            let _ = writeln!(std::io::stderr(), "skipped: {test} ({what}: {why:#})");
            None
        }
    }
}
