//! `lakeward wait`: returns once a running pipeline has come to a point, or says in one line why it has not.

use clap::Args;
use lakeward_core::options::Interval;

use super::{FileArgument, load};
use crate::exit::Failure;
use crate::http::client::Client;
use crate::http::shape::Point;
use lakeward_pipeline::pipeline_file::Use;

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    file: FileArgument,
    /// What to wait for
    #[arg(long, value_enum)]
    until: Point,
    /// How long at most
    #[arg(long, default_value = "60s", value_parser = Interval::parse)]
    timeout: Interval,
}

pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let file = load(&arguments.file.file, Use::Pipeline)?;
    let client = Client::of(&file);
    client.wait(arguments.until, arguments.timeout.0).await.map_err(Failure::runtime)
}
