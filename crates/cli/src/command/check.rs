//! `lakeward check`: looks at file, source and sink without changing anything.

use std::fmt::Write;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use lakeward_core::SourceCheck;
use lakeward_operators::Routes;
use lakeward_runtime::DirStore;

use super::{FileArgument, load, print};
use crate::exit::Failure;
use crate::job::identity_of;
use lakeward_pipeline::pipeline_file::Use;
use lakeward_pipeline::registry::Connectors;
use lakeward_pipeline::{merge_errors, targets_of};

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    file: FileArgument,
}

pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let file = load(&arguments.file.file, Use::All)?;
    let connectors = Connectors::of(&file).await.map_err(Failure::usage)?;
    let source = connectors.source.check().await?;
    let identity = identity_of(&file, &connectors);
    let targets = targets_of(&file.routes, &source.tables)?;
    let sink = connectors.sink.check(&identity.pipeline, &targets).await?;
    let mut errors = source.errors.clone();
    errors.extend(merge_errors(&file.routes, &source.tables)?);
    errors.extend(sink.errors.iter().cloned());
    errors.extend(DirStore::check(&file.state_dir(), &identity).err().map(|e| e.to_string()));
    let warnings = connectors.warnings.iter().chain(&source.warnings).chain(&sink.warnings);
    let mut out = format!("source: {}\nsink:   {}\n\n", source.server, sink.target);
    out.push_str(&tables(&source, &file.routes)?);
    let warnings = warnings.map(|w| format!("warning: {w}\n"));
    let lines: String = warnings.chain(errors.iter().map(|e| format!("error: {e}\n"))).collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n{lines}");
    }
    out.push('\n');
    print(&out)?;
    match errors.as_slice() {
        [] => print("ok: `lakeward run` can start\n"),
        [one] => Err(Failure::runtime(one)),
        [first, rest @ ..] => {
            Err(Failure::runtime(format!("{first} (and {} more, see above)", rest.len())))
        }
    }
}

/// The source's tables, with where they go when that is not their own name.
fn tables(source: &SourceCheck, routes: &Routes) -> Result<String, Failure> {
    if source.tables.is_empty() {
        // The errors say why.
        return Ok(String::new());
    }
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    let mut header = vec!["table", "columns", "primary key", "rows (about)"];
    if !routes.is_empty() {
        header.push("goes to");
    }
    table.set_header(header);
    for column in [1, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for t in &source.tables {
        let key = t.schema.primary_key.iter().map(|k| &**k).collect::<Vec<_>>().join(", ");
        let mut row = vec![
            t.table.to_string(),
            t.schema.columns.len().to_string(),
            if key.is_empty() { "none".to_string() } else { key },
            t.rows.map_or("?".to_string(), |rows| rows.to_string()),
        ];
        if !routes.is_empty() {
            let targets = routes.targets(&t.table)?;
            row.push(targets.iter().map(|t| t.table.to_string()).collect::<Vec<_>>().join(", "));
        }
        table.add_row(row);
    }
    Ok(format!("{table}\n"))
}
