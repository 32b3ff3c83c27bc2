//! What is remembered of the job that last ran a pipeline on Flink, beside the pipeline's state.

use std::path::PathBuf;

use lakeward_core::{Error, Result};
use lakeward_pipeline::pipeline_file::PipelineFile;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastJob {
    pub id: String,
    pub address: String,
    /// The folder of the marks of all pipelines of the cluster.
    pub marks: String,
    /// Where it was stopped.
    #[serde(default)]
    pub savepoint: Option<String>,
}

impl LastJob {
    fn path(file: &PipelineFile) -> PathBuf {
        file.state_dir().join("flink.json")
    }

    pub fn read(file: &PipelineFile) -> Result<Option<Self>> {
        let path = Self::path(file);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => {
                return Err(Error::config("could not read what ran on Flink last")
                    .with("file", path.display())
                    .with_source(e));
            }
        };
        serde_json::from_str(&text).map(Some).map_err(|e| {
            Error::config("the file does not say what ran on Flink last; name the savepoint with --flink.from-savepoint and take the file away")
                .with("file", path.display())
                .with_source(e)
        })
    }

    pub fn write(&self, file: &PipelineFile) -> Result<()> {
        let path = Self::path(file);
        let failed = |e: std::io::Error| {
            Error::transient("could not write down what runs on Flink")
                .with("file", path.display())
                .with_source(e)
        };
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::bug("could not encode what runs on Flink").with_source(e))?;
        let folder = file.state_dir();
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let mut new = tempfile::NamedTempFile::new_in(&folder).map_err(failed)?;
        std::io::Write::write_all(&mut new, &text).map_err(failed)?;
        new.as_file().sync_all().map_err(failed)?;
        new.persist(&path).map_err(|e| failed(e.error))?;
        Ok(())
    }

    /// The pipeline does not run on Flink any more.
    pub fn forget(file: &PipelineFile) -> Result<()> {
        match std::fs::remove_file(Self::path(file)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::transient("could not take away what ran on Flink last")
                    .with("file", Self::path(file).display())
                    .with_source(e))
            }
            _ => Ok(()),
        }
    }
}

/// A pipeline whose newest state is on Flink does not go on here by itself.
///
/// # Errors
/// `Config`, with what to do.
pub fn refuse_to_run_beside_it(file: &PipelineFile) -> Result<()> {
    match LastJob::read(file)? {
        None => Ok(()),
        Some(job) => Err(Error::config(
            "this pipeline ran on Flink last; go on there with --on flink, or stop it there and take its state over with \
             --from-flink",
        )
        .with("job", &job.id)
        .with("address", &job.address)),
    }
}
