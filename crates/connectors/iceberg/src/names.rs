//! Names of the files that we write. They are never used twice, and tell who wrote them: the orphan sweep goes by that.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lakeward_core::PipelineId;

/// One attempt of one pipeline, made unique by a token that the catalog draws when the attempt acquires the sink: a
/// deleted state directory starts its attempts from one again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incarnation {
    pub pipeline: PipelineId,
    pub attempt: u64,
    pub token: Arc<str>,
}

impl Incarnation {
    /// What every file name of this pipeline starts with.
    pub fn pipeline_prefix(pipeline: &PipelineId) -> String {
        let safe: String = pipeline
            .0
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' })
            .collect();
        // The hash keeps apart pipelines whose names differ only in the characters that were replaced.
        let hash = xxhash_rust::xxh3::xxh3_64(pipeline.0.as_bytes()) as u16;
        format!("lw-{safe}.{hash:04x}-")
    }

    /// What every file name of this incarnation starts with.
    pub fn prefix(&self) -> String {
        format!("{}{}.{}-", Self::pipeline_prefix(&self.pipeline), self.attempt, self.token)
    }
}

/// Gives names to the files of one author within an incarnation.
#[derive(Debug)]
pub struct FileNames {
    prefix: String,
    next: AtomicU64,
}

impl FileNames {
    /// `author` is unique within the incarnation and the table: `w3` for a writer, `c` for the committer.
    pub fn new(incarnation: &Incarnation, author: impl fmt::Display) -> Self {
        Self { prefix: format!("{}{author}-", incarnation.prefix()), next: AtomicU64::new(0) }
    }

    /// A new name that ends in `suffix`, such as `.parquet`.
    pub fn next(&self, suffix: &str) -> String {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}{n:06}{suffix}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_tell_their_author() {
        let incarnation = Incarnation {
            pipeline: PipelineId("shop to lake".into()),
            attempt: 12,
            token: "9f3a".into(),
        };
        let names = FileNames::new(&incarnation, "w3");
        let first = names.next(".parquet");
        assert!(first.starts_with(&Incarnation::pipeline_prefix(&incarnation.pipeline)));
        assert!(first.ends_with("-12.9f3a-w3-000000.parquet"), "{first}");
        assert_ne!(first, names.next(".parquet"));
        let other = PipelineId("shop-to-lake".into());
        assert_ne!(
            Incarnation::pipeline_prefix(&other),
            Incarnation::pipeline_prefix(&incarnation.pipeline)
        );
    }
}
