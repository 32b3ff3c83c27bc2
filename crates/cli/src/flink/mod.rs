//! `lakeward run --on flink`: hands a pipeline to a Flink cluster and follows the job there.

mod follow;
mod import;
mod last_job;
mod rest;

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use lakeward_core::Error;
use lakeward_pipeline::pipeline_file::PipelineFile;

use crate::exit::Failure;
use last_job::LastJob;
use rest::Rest;

pub use import::import;
pub use last_job::refuse_to_run_beside_it;

/// Where and how a job runs on Flink.
#[derive(Debug, Clone, Args)]
pub struct FlinkArguments {
    /// Flink's REST address
    #[arg(long = "flink.address", value_name = "URL", default_value = "http://127.0.0.1:8081")]
    pub address: String,
    /// The job's jar; `lakeward-flink.jar` beside this program if not given
    #[arg(long = "flink.jar", value_name = "FILE")]
    pub jar: Option<PathBuf>,
    /// Go on from this savepoint or retained checkpoint instead of the last one that is known here
    #[arg(long = "flink.from-savepoint", value_name = "PATH")]
    pub from_savepoint: Option<String>,
    /// Where a savepoint is put when the job is stopped; the cluster's own folder if not given
    #[arg(long = "flink.savepoint-dir", value_name = "DIR")]
    pub savepoint_dir: Option<String>,
    /// Return once the job runs, instead of following it
    #[arg(long = "flink.detached")]
    pub detached: bool,
}

/// Starts the pipeline on Flink and stays with it.
pub async fn run(
    path: &Path,
    file: &PipelineFile,
    until_caught_up: bool,
    arguments: &FlinkArguments,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let rest = Rest::new(&arguments.address).map_err(Failure::usage)?;
    let flink = rest.version().await?;
    let known = LastJob::read(file).map_err(Failure::usage)?;
    if let Some(job) = &known
        && rest.is_running(&job.id).await
    {
        return Err(Failure::usage(format!(
            "the pipeline runs already, as job {} on {}; stop that one first",
            job.id, job.address
        )));
    }
    let marks = marks_folder(file, &rest).await?;
    let mut words = Vec::new();
    let start = start_of(file, known.as_ref(), arguments, &rest).await?;
    if let Start::StateDir(dir) = &start {
        words.extend(["--restore-from".to_string(), dir.display().to_string()]);
    }
    if until_caught_up {
        words.extend(["--until".to_string(), "caught-up".to_string()]);
    }
    let text = std::fs::read(path).map_err(|e| {
        Failure::usage(format!("the pipeline file cannot be read ({}): {e}", path.display()))
    })?;
    let name = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for (word, value) in [
        ("--marks-dir", marks.clone()),
        ("--pipeline-base64", STANDARD.encode(text)),
        ("--file", name.display().to_string()),
    ] {
        words.extend([word.to_string(), value]);
    }
    let jar = jar_of(arguments)?;
    tracing::info!("handing the pipeline to Flink {flink} at {}", arguments.address);
    let uploaded = rest.upload(&jar).await?;
    let started = rest.run(&uploaded, &words, start.savepoint()).await;
    rest.delete_jar(&uploaded).await;
    let id = started?;
    tracing::info!("{} as job {id}", start.words());
    let mut job = LastJob { id, address: arguments.address.clone(), marks, savepoint: None };
    job.write(file)?;
    let is_fresh = matches!(start, Start::Nothing);
    follow::follow(&rest, &mut job, file, arguments, is_fresh, stop).await
}

/// What the job goes on from.
enum Start {
    Nothing,
    Savepoint(String),
    StateDir(PathBuf),
}

impl Start {
    fn savepoint(&self) -> Option<&str> {
        match self {
            Start::Savepoint(path) => Some(path),
            _ => None,
        }
    }

    fn words(&self) -> String {
        match self {
            Start::Nothing => "starting afresh".to_string(),
            Start::Savepoint(path) => format!("going on from {path}"),
            Start::StateDir(dir) => format!("going on from the state in {}", dir.display()),
        }
    }
}

async fn start_of(
    file: &PipelineFile,
    known: Option<&LastJob>,
    arguments: &FlinkArguments,
    rest: &Rest,
) -> Result<Start, Failure> {
    if let Some(path) = &arguments.from_savepoint {
        return Ok(Start::Savepoint(path.clone()));
    }
    if let Some(job) = known {
        if let Some(path) = &job.savepoint {
            return Ok(Start::Savepoint(path.clone()));
        }
        // A job that came to its end has taken its checkpoints away.
        if let Some(path) = rest.last_checkpoint(&job.id).await {
            return Ok(Start::Savepoint(path));
        }
        return Ok(Start::StateDir(import::folder_of_last_job(file).map_err(|e| {
            Failure::usage(format!(
                "job {} of this pipeline ended, and Flink does not know its last checkpoint any more; name one with \
                 --flink.from-savepoint ({e})",
                job.id
            ))
        })?));
    }
    let dir = std::path::absolute(file.state_dir()).unwrap_or_else(|_| file.state_dir());
    let holds_state = std::fs::read_dir(dir.join("checkpoints"))
        .is_ok_and(|mut entries| entries.next().is_some());
    Ok(if holds_state { Start::StateDir(dir) } else { Start::Nothing })
}

fn jar_of(arguments: &FlinkArguments) -> Result<PathBuf, Failure> {
    let beside = || {
        let program = std::env::current_exe().ok()?;
        Some(program.parent()?.join("lakeward-flink.jar"))
    };
    let jar = arguments.jar.clone().or_else(beside).unwrap_or_default();
    match jar.is_file() {
        true => Ok(jar),
        false => Err(Failure::usage(format!(
            "there is no {}; name the job's jar with --flink.jar",
            jar.display()
        ))),
    }
}

/// Where the job's marks are: what the file says, or a folder beside the cluster's checkpoints.
async fn marks_folder(file: &PipelineFile, rest: &Rest) -> Result<String, Failure> {
    if let Some(folder) = &file.pipeline.flink_marks_dir {
        return Ok(folder.clone());
    }
    let configured = rest.configuration("execution.checkpointing.dir").await?;
    let configured = match configured {
        Some(folder) => Some(folder),
        None => rest.configuration("state.checkpoints.dir").await?,
    };
    let folder = configured.ok_or_else(|| {
        Failure::usage(Error::config(
            "the cluster has no execution.checkpointing.dir; set it to a folder that all its machines see, or set \
             `flink.marks-dir` in the pipeline file",
        ))
    })?;
    Ok(format!("{}/lakeward-marks", folder.trim_end_matches('/')))
}
