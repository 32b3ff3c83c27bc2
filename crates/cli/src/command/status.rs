//! `lakeward status`: what a running pipeline is doing, for a person or as JSON.

use std::fmt::Write;
use std::time::Duration;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};

use super::{FileArgument, load, print};
use crate::exit::Failure;
use crate::http::client::Client;
use crate::http::shape::Status;
use lakeward_pipeline::pipeline_file::Use;

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    file: FileArgument,
    /// Print the JSON of /api/v1/status
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let file = load(&arguments.file.file, Use::Pipeline)?;
    let client = Client::of(&file);
    let text = client.status_text(Duration::from_secs(10)).await.map_err(Failure::runtime)?;
    if arguments.json {
        return print(&format!("{}\n", text.trim_end()));
    }
    let status: Status = serde_json::from_str(&text).map_err(|e| {
        Failure::runtime(format!("the running pipeline is of another version: {e}"))
    })?;
    print(&report(&status))
}

fn report(status: &Status) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "pipeline   {}", status.pipeline);
    let (state, attempt, restarts) = (&status.state, status.attempt, status.restarts);
    let _ = writeln!(out, "state      {state} (attempt {attempt}, {restarts} restarts)");
    match status.source_connected {
        Some(true) => out.push_str("source     connected\n"),
        Some(false) => out.push_str("source     NOT connected; trying again\n"),
        None => out.push_str("source     not connected yet\n"),
    }
    let lag = status.lag_ms.map_or("unknown".to_string(), seconds);
    let _ = writeln!(out, "lag        {lag}");
    match &status.committed {
        Some(c) => {
            let ago = seconds(status.now_ms.saturating_sub(c.at_ms));
            let (id, rows) = (c.checkpoint, status.rows_committed);
            let _ = writeln!(out, "committed  checkpoint {id}, {ago} ago, {rows} rows so far");
        }
        None => out.push_str("committed  nothing yet\n"),
    }
    if let Some(stalled) = status.commit_stalled_ms {
        let _ = writeln!(out, "stalled    a commit has been waiting for {}", seconds(stalled));
    }
    if let Some(error) = &status.error {
        let _ = writeln!(out, "error      {}", error.message);
    }
    if !status.tables.is_empty() {
        let _ = writeln!(out, "\n{}", tables(status));
    }
    for t in &status.tables {
        if let Some(error) = &t.error {
            let _ = writeln!(out, "{}: {error}", t.table);
        }
    }
    out
}

fn tables(status: &Status) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["table", "state", "snapshot rows", "log rows", "written rows", "version"]);
    for column in 2..5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for t in &status.tables {
        table.add_row([
            t.table.clone(),
            t.state.clone(),
            t.rows_snapshot.to_string(),
            t.rows_streamed.to_string(),
            t.rows_written.to_string(),
            t.version.clone().unwrap_or_default(),
        ]);
    }
    table
}

fn seconds(ms: i64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}
