//! Records as the capture systems write them, to row changes and DDL of tables.

use std::borrow::Cow;
use std::sync::Arc;

use lakeward_core::TableId;

use crate::config::Format;
use crate::declared::{Declared, DeclaredCache};
use crate::json::Object;

mod canal;
mod debezium;
mod maxwell;
mod ogg;
pub mod statement;

/// Why a record cannot be used: a clause for messages, which never has a value in it.
pub type Reason = Cow<'static, str>;

/// What one record says.
#[derive(Debug)]
pub enum Message<'a> {
    /// Nothing about rows: a tombstone, a heartbeat, the mark of a bootstrap.
    Marker,
    Rows(Rows<'a>),
    Ddl(Vec<Ddl>),
}

/// Changed rows of one table.
#[derive(Debug)]
pub struct Rows<'a> {
    pub namespace: Cow<'a, str>,
    pub table: Cow<'a, str>,
    /// When the source committed them, in milliseconds since the epoch; 0 where it does not say.
    pub commit_ms: i64,
    /// The primary key's columns as far as the record names them.
    pub key: Vec<Cow<'a, str>>,
    pub declared: Option<Arc<Declared>>,
    /// Columns that `after` does not have were not sent, instead of being null.
    pub partial: bool,
    pub changes: Vec<Change<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Insert,
    Update,
    Delete,
}

/// One row. Of a delete the row is in `before`. Of an update `before` has at least the columns that changed, or is missing.
#[derive(Debug)]
pub struct Change<'a> {
    pub op: Op,
    pub before: Option<Object<'a>>,
    pub after: Option<Object<'a>>,
}

/// A DDL statement's effect on one table.
#[derive(Debug, Clone, PartialEq)]
pub struct Ddl {
    pub table: TableId,
    pub change: DdlChange,
    pub commit_ms: i64,
    /// The statement, to know copies of it by.
    pub sql: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DdlChange {
    /// The table's columns and key from now on. Without a key where nothing is said about it.
    Columns {
        declared: Declared,
        key: Option<Vec<Arc<str>>>,
    },
    /// The columns change in a way that only the next row shows, apart from these renames.
    Altered {
        renames: Vec<(Arc<str>, Arc<str>)>,
    },
    Drop,
    Truncate,
    Rename {
        to: TableId,
    },
}

/// Reads a record.
///
/// # Errors
/// Why it is none of this format.
pub fn read<'a>(
    format: Format,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    cache: &mut DeclaredCache,
) -> Result<Message<'a>, Reason> {
    let Some(value) = value else { return Ok(Message::Marker) };
    let object = Object::of_bytes(value).ok_or("the value is not a JSON object")?;
    match format {
        Format::DebeziumJson => debezium::read(key, object, cache),
        Format::CanalJson => canal::read(object, cache),
        Format::MaxwellJson => maxwell::read(key, object),
        Format::OggJson => ogg::read(object),
    }
}

#[cfg(test)]
mod tests;
