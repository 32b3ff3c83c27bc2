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

    use crate::pipeline_file::Use;

    let file = super::load(&arguments.file.file, Use::Sink)?;
    let lake =
        crate::registry::lake(&file, arguments.sink.as_deref()).await.map_err(Failure::usage)?;
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
