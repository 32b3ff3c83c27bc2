//! What a store says when it refuses: in a few words, instead of the whole exchange that the library prints.

use std::error::Error as StdError;
use std::fmt;

use lakeward_core::{Error, Result};
use opendal::ErrorKind as StoreErrorKind;

/// Adds a sentence to an error of reading or writing a lake's file.
pub trait StoreResultExt<T> {
    /// The error is `Transient`: what was reached when the attempt began is expected to come back.
    fn or_store(self, message: impl Into<String>) -> Result<T>;
}

impl<T, E: StdError + Send + Sync + 'static> StoreResultExt<T> for Result<T, E> {
    fn or_store(self, message: impl Into<String>) -> Result<T> {
        self.map_err(|e| match of_store(&e) {
            Some(reason) => Error::transient(message).with_source(reason),
            None => Error::transient(message).with_source(e),
        })
    }
}

/// A store's answer in short.
#[derive(Debug)]
pub struct StoreReason(String);

impl fmt::Display for StoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for StoreReason {}

/// The answer of the store that lies beneath an error, if any does.
fn of_store(error: &(dyn StdError + 'static)) -> Option<StoreReason> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<opendal::Error>() {
            return Some(reason(error));
        }
        next = error.source();
    }
    None
}

/// S3's code and message where it gave them, otherwise the library's sentence; with the cause beneath, such as a refused
/// connection.
pub fn reason(error: &opendal::Error) -> StoreReason {
    let message = error.message();
    let field = |name: &str| {
        let (_, rest) = message.strip_prefix("S3Error {")?.split_once(&format!("{name}: \""))?;
        Some(rest.split_once('"')?.0)
    };
    let mut text = match (field("code"), field("message")) {
        (Some(code), Some(message)) if !message.is_empty() => format!("{code}: {message}"),
        (Some(code), _) => code.to_string(),
        _ if message.is_empty() => error.kind().to_string(),
        _ => message.to_string(),
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    StoreReason(text)
}

/// True for what only a person mends: no such bucket, no permission, wrong keys.
pub fn is_refusal(error: &opendal::Error) -> bool {
    matches!(
        error.kind(),
        StoreErrorKind::PermissionDenied | StoreErrorKind::ConfigInvalid | StoreErrorKind::NotFound
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_and_message_of_s3_are_what_is_shown() {
        let said = "S3Error { code: \"NoSuchBucket\", message: \"The specified bucket does not exist\", resource: \"\", \
                    request_id: \"x\" }";
        let store = opendal::Error::new(StoreErrorKind::ConfigInvalid, said)
            .with_context("uri", "http://127.0.0.1/lake?secret");
        assert!(is_refusal(&store));
        let library =
            iceberg::Error::new(iceberg::ErrorKind::Unexpected, "failure in doing io operation")
                .with_source(store);
        let shown = Err::<(), _>(library).or_store("could not write the file").expect_err("is one");
        assert_eq!(
            shown.to_string(),
            "could not write the file: NoSuchBucket: The specified bucket does not exist"
        );
    }

    #[test]
    fn a_cause_is_shown_once() {
        let cause = std::io::Error::other("connection refused");
        let store =
            opendal::Error::new(StoreErrorKind::Unexpected, "send http request").set_source(cause);
        let shown = Err::<(), _>(store).or_store("could not read the file").expect_err("is one");
        assert_eq!(
            shown.to_string(),
            "could not read the file: send http request: connection refused"
        );
    }
}
