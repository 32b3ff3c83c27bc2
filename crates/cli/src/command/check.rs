//! `lakeward check`: looks at file, source and sink without changing anything.

use std::fmt::Write;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use lakeward_core::{SinkCheck, SourceCheck};

use super::{FileArgument, load, print};
use crate::exit::Failure;
use crate::job::targets_of;
use crate::pipeline_file::Use;
use crate::registry::Connectors;

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    file: FileArgument,
}

pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let file = load(&arguments.file.file, Use::All)?;
    let connectors = Connectors::of(&file).await.map_err(Failure::usage)?;
    let source = connectors.source.check().await?;
    let targets = targets_of(&file.routes, &source.tables)?;
    let sink = connectors.sink.check(&targets).await?;
    print(&report(&source, &sink, &connectors.warnings))?;
    let errors: Vec<&String> = source.errors.iter().chain(&sink.errors).collect();
    match errors.as_slice() {
        [] => print("ok: `lakeward run` can start\n"),
        [one] => Err(Failure::runtime(one)),
        [first, rest @ ..] => {
            Err(Failure::runtime(format!("{first} (and {} more, see above)", rest.len())))
        }
    }
}

fn report(source: &SourceCheck, sink: &SinkCheck, warnings: &[String]) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "source: {}\nsink:   {}\n", source.server, sink.target);
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["table", "columns", "primary key", "rows (about)"]);
    for column in [1, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for t in &source.tables {
        let key = t.schema.primary_key.iter().map(|k| &**k).collect::<Vec<_>>().join(", ");
        table.add_row([
            t.table.to_string(),
            t.schema.columns.len().to_string(),
            if key.is_empty() { "none".to_string() } else { key },
            t.rows.map_or("?".to_string(), |rows| rows.to_string()),
        ]);
    }
    if source.tables.is_empty() {
        out.push_str("no table matches the `tables` option\n");
    } else {
        let _ = writeln!(out, "{table}");
    }
    let all = warnings.iter().chain(&source.warnings).chain(&sink.warnings);
    let warnings = all.map(|w| format!("warning: {w}\n"));
    let errors = source.errors.iter().chain(&sink.errors).map(|e| format!("error: {e}\n"));
    let lines: String = warnings.chain(errors).collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n{lines}");
    }
    out.push('\n');
    out
}
