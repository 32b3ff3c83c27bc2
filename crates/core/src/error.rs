//! The one error type. Its kind names how the runtime reacts; its sentence is for the person who reads the log.

use std::fmt;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How the runtime reacts. A new kind needs a new reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum ErrorKind {
    /// Restart from the last checkpoint, with backoff.
    Transient,
    /// Stop; the user fixes the configuration or the permission that the message names.
    Config,
    /// The sink no longer has what the newest checkpoint had handed over to it: restart from the checkpoint before, and
    /// read its rows again.
    EpochLost,
    /// Stop; the source no longer has the position. A new snapshot is the way on.
    OffsetLost,
    /// The schema-change policy decides about this table.
    SchemaIncompatible,
    /// The table-error policy decides about this table.
    DataInvalid,
    /// Stop; another run owns the sink.
    Fenced,
    /// Our own defect: restart as for `Transient`, and say that it is one.
    Bug,
}

impl ErrorKind {
    /// True where another attempt may succeed without anyone doing anything.
    pub fn is_retryable(self) -> bool {
        matches!(self, ErrorKind::Transient | ErrorKind::EpochLost | ErrorKind::Bug)
    }

    /// True where the error belongs to one table, so that the others may go on.
    pub fn is_of_table(self) -> bool {
        matches!(self, ErrorKind::SchemaIncompatible | ErrorKind::DataInvalid)
    }
}

/// What happened, where, and what to do. Never holds a row value or a secret.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

macro_rules! kind_constructors {
    ($($name:ident => $kind:ident),* $(,)?) => {
        impl Error {
            $(pub fn $name(message: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, message) })*
        }
    };
}

kind_constructors! {
    transient => Transient,
    config => Config,
    epoch_lost => EpochLost,
    offset_lost => OffsetLost,
    schema_incompatible => SchemaIncompatible,
    data_invalid => DataInvalid,
    fenced => Fenced,
    bug => Bug,
}

impl Error {
    /// `message` is one sentence in lower case without a full stop: what happened and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), context: Vec::new(), source: None }))
    }

    /// Adds where it happened: table, position, column, file.
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        let entry = (key, value.to_string());
        // Several places may know the same.
        if !self.0.context.contains(&entry) {
            self.0.context.push(entry);
        }
        self
    }

    /// The library error beneath. Its text is shown, so it must not carry secrets or row values.
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn context(&self) -> &[(&'static str, String)] {
        &self.0.context
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if !self.0.context.is_empty() {
            f.write_str(" (")?;
            for (i, (key, value)) in self.0.context.iter().enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                write!(f, "{comma}{key} {value}")?;
            }
            f.write_str(")")?;
        }
        let mut source = self.0.source.as_deref().map(|e| e as &dyn std::error::Error);
        let mut shown = String::new();
        while let Some(e) = source {
            let cause = e.to_string();
            // Many a library's text has its own cause in it already.
            if !shown.contains(&cause) {
                write!(f, ": {cause}")?;
                shown.push_str(&cause);
            }
            source = e.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The display already shows the chain; reporting it again would print it twice.
        None
    }
}

/// Adds a kind and a sentence to a library's error at the call site, which knows what it was doing.
pub trait ResultExt<T> {
    fn or_err(self, kind: ErrorKind, message: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> ResultExt<T> for Result<T, E> {
    fn or_err(self, kind: ErrorKind, message: impl Into<String>) -> Result<T> {
        self.map_err(|e| Error::new(kind, message).with_source(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_sentence_with_context_and_cause() {
        let cause = std::io::Error::other("no space left on device");
        let e = Error::transient("could not write the data file")
            .with("table", "shop.orders")
            .with_source(cause);
        assert_eq!(
            e.to_string(),
            "could not write the data file (table shop.orders): no space left on device"
        );
        assert!(e.kind().is_retryable());
    }

    #[test]
    fn a_cause_that_a_library_shows_itself_is_not_shown_again() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "reading failed: {}", self.0)
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let e =
            Error::transient("no file").with_source(Outer(std::io::Error::other("disk is gone")));
        assert_eq!(e.to_string(), "no file: reading failed: disk is gone");
    }
}
