//! Runs the stand-in for Doris until standard input ends, and prints where it listens.
//!
//!     cargo run -p lakeward-testkit --example doris -- [frontends [backends [password]]]

use std::io::Read;

use anyhow::{Context, Result};
use lakeward_testkit::doris::{Settings, StandIn};
use serde_json::json;

#[expect(clippy::print_stdout, reason = "the addresses are what it is run for")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| match arguments.get(at) {
        Some(text) => text.parse().with_context(|| format!("{text} is no number of nodes")),
        None => Ok(1),
    };
    let settings = Settings {
        frontends: number(0)?,
        backends: number(1)?,
        password: arguments.get(2).cloned().unwrap_or_default(),
        ..Settings::default()
    };
    let stand_in = StandIn::start(settings)?;
    println!(
        "{}",
        json!({
            "fenodes": stand_in.fe_http().join(","),
            "benodes": stand_in.be_http().join(","),
            "mysql_port": stand_in.mysql_ports()[0],
            "user": stand_in.user(),
        })
    );
    // Ends with whoever started it.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
