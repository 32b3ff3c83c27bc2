//! `lakeward query FILE "select …"`: SQL over the tables of the pipeline's sink.

use clap::{Args, ValueEnum};

use super::FileArgument;
use crate::exit::Failure;

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    file: FileArgument,
    /// The statement; `show tables` lists what there is
    sql: String,
    /// Of several Iceberg sinks the one to read, by its name in the pipeline file; the first one if not given
    #[arg(long)]
    sink: Option<String>,
    /// How the answer is written
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OutputFormat {
    Table,
    Csv,
    Json,
}

#[cfg(feature = "query")]
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    use lakeward_query::{Format, LakeQuery};

    use lakeward_pipeline::pipeline_file::Use;

    let file = super::load(&arguments.file.file, Use::Sink)?;
    let lake = lake(&file, arguments.sink.as_deref()).await.map_err(Failure::usage)?;
    let format = match arguments.format {
        OutputFormat::Table => Format::Table,
        OutputFormat::Csv => Format::Csv,
        OutputFormat::Json => Format::Json,
    };
    let query = LakeQuery::open(lake).await?;
    let mut out = std::io::BufWriter::new(std::io::stdout());
    Ok(query.run(&arguments.sql, format, &mut out).await?)
}

#[cfg(not(feature = "query"))]
pub async fn run(_: Arguments) -> Result<(), Failure> {
    Err(Failure::usage("this program was built without the feature `query`"))
}

/// The tables of a sink, for queries: of the one with that name, or else of the first that can be queried.
///
/// # Errors
/// `Config` when there is no such sink.
#[cfg(feature = "query")]
async fn lake(
    file: &lakeward_pipeline::pipeline_file::PipelineFile,
    name: Option<&str>,
) -> lakeward_core::Result<std::sync::Arc<dyn lakeward_query::LakeCatalog>> {
    let is_wanted = |sink: &&lakeward_pipeline::pipeline_file::Endpoint| {
        sink.connector == "iceberg" && name.is_none_or(|name| name == sink.name)
    };
    let Some(endpoint) = file.sinks.iter().find(is_wanted) else {
        let sinks = file.sinks.iter().map(|sink| match sink.name == sink.connector {
            true => sink.name.clone(),
            false => format!("{} ({})", sink.name, sink.connector),
        });
        let sinks = sinks.collect::<Vec<_>>().join(", ");
        let wanted = name.map(|name| format!(" named {name}")).unwrap_or_default();
        return Err(lakeward_core::Error::config(format!(
            "`query` reads iceberg sinks, and the pipeline has none{wanted}; it has {sinks}"
        )));
    };
    let config = lakeward_pipeline::registry::iceberg(endpoint, &mut Vec::new())?;
    Ok(std::sync::Arc::new(lakeward_query::IcebergLake::open(&config).await?))
}
