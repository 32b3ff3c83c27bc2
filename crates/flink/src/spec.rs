//! What Java asks for: lines of `key=value` in UTF-8.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lakeward_core::{Error, Result};
use lakeward_pipeline::pipeline_file::section::{ProcessReferences, References};
use lakeward_pipeline::pipeline_file::{PipelineFile, Use};

/// A request of Java.
#[derive(Debug, Default)]
pub(crate) struct Spec(HashMap<String, String>);

impl Spec {
    /// # Errors
    /// `Bug` when the bytes are not such lines.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes)
            .map_err(|e| Error::bug("a request of the Java side is not UTF-8").with_source(e))?;
        let mut lines = HashMap::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| Error::bug("a request of the Java side has a line without `=`"))?;
            lines.insert(key.to_string(), value.to_string());
        }
        Ok(Self(lines))
    }

    /// `None` where it is not there or empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn text(&self, key: &'static str) -> Result<&str> {
        self.get(key)
            .ok_or_else(|| Error::bug("a request of the Java side lacks a key").with("key", key))
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, key: &'static str) -> Result<N> {
        self.text(key)?.parse().map_err(|_| {
            Error::bug("a request of the Java side has a key that is no number").with("key", key)
        })
    }

    /// The pipeline file. Its text travels; what it refers to is looked up where it is used: in the environment and the
    /// files of this machine.
    pub(crate) fn pipeline(&self, used: Use) -> Result<PipelineFile> {
        let text = STANDARD
            .decode(self.text("pipeline")?)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| Error::config("the pipeline file is not UTF-8 text"))?;
        let path = PathBuf::from(self.get("file").unwrap_or("pipeline.yaml"));
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => Path::new(".").to_path_buf(),
        };
        let references: &dyn References = &ProcessReferences { folder };
        PipelineFile::parse(&path, &text, references, used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_what_is_missing_is_named() {
        let spec = Spec::parse(b"a=1\nb=x=y\n\nempty=\n").unwrap();
        assert_eq!(spec.number::<usize>("a").unwrap(), 1);
        assert_eq!(spec.text("b").unwrap(), "x=y");
        assert_eq!(spec.get("empty"), None);
        assert!(spec.text("empty").unwrap_err().to_string().contains("key empty"));
        assert!(spec.number::<usize>("b").is_err());
        assert!(Spec::parse(b"no separator").is_err());
        assert!(Spec::parse(&[0xff, b'=']).is_err());
    }

    #[test]
    fn a_pipeline_file_travels_as_text() {
        let text = "source: {type: mysql}\nsink: {type: iceberg}\npipeline: {name: p}\n";
        let lines = format!("pipeline={}\n", STANDARD.encode(text));
        let file = Spec::parse(lines.as_bytes()).unwrap().pipeline(Use::Pipeline).unwrap();
        assert_eq!(file.pipeline.name, "p");
        assert!(Spec::parse(b"pipeline=%%%").unwrap().pipeline(Use::Pipeline).is_err());
    }
}
