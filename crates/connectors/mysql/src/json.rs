//! MySQL's binary JSON as the text that the server prints for it (`CAST(d AS CHAR)`): keys in
//! stored order, `{"a": 1, "b": [1, 2]}`, opaque values as the server shows them. Also documents
//! that an update holds only as a list of changes.

mod binary;
mod diff;
mod print;
#[cfg(test)]
mod tests;

use lakeward_core::{Error, Result};

use binary::Value;

/// The server takes documents of at most 100 levels.
const DEEPEST: usize = 100;

/// The bytes are no document. Which of its parts is wrong would need a value to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<Malformed> for Error {
    #[cold]
    fn from(_: Malformed) -> Self {
        Error::data_invalid("a JSON document in the binlog cannot be read")
    }
}

/// Appends the text of a document. On an error `into` may hold a part of it.
pub(crate) fn append_text(document: &[u8], into: &mut Vec<u8>) -> Result<()> {
    Ok(print::append(&Value::of_document(document)?, DEEPEST, into)?)
}

/// Appends the text of the document that `changes` (of a PARTIAL_UPDATE_ROWS event) make of `base`.
pub(crate) fn append_changed(base: &[u8], changes: &[u8], into: &mut Vec<u8>) -> Result<()> {
    diff::append_changed(base, changes, into).map_err(|error| match error {
        diff::Failed::Malformed => Malformed.into(),
        diff::Failed::NoSuchPath => Error::data_invalid(
            "an update changes a part of a JSON document that the old document does not have; set binlog_row_value_options=''",
        ),
    })
}
