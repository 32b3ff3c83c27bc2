//! `lakeward init SOURCE SINK`: a commented pipeline file to begin with.

use clap::Args;

use super::print;
use crate::exit::Failure;
use lakeward_pipeline::pipeline_file::options::nearest;
use lakeward_pipeline::registry::{Kind, SINKS, SOURCES};

#[derive(Debug, Args)]
pub struct Arguments {
    /// The source's type, such as mysql
    source: String,
    /// The sink's type, such as iceberg
    sink: String,
}

pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let source = find("source", &arguments.source, SOURCES)?;
    let sink = find("sink", &arguments.sink, SINKS)?;
    let name = format!("{}-to-{}", arguments.source, arguments.sink);
    let pipeline = include_str!("../../templates/pipeline.yaml").replace("NAME", &name);
    print(&format!("{source}\n{sink}\n{pipeline}"))
}

fn find(what: &str, wanted: &str, kinds: &[Kind]) -> Result<&'static str, Failure> {
    if let Some(found) = kinds.iter().find(|kind| kind.name == wanted) {
        return Ok(found.template);
    }
    let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
    let hint = match nearest(wanted, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    Err(Failure::usage(format!("there is no {what} `{wanted}`; {hint}")))
}
