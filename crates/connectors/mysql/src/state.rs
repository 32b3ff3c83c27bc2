//! What a reader stores at a checkpoint.

use lakeward_core::{Position, TableId};
use serde::{Deserialize, Serialize};

use crate::ddl::{SchemaHistory, Xid};
use crate::offset::{FilePosition, LogOffset};
use crate::wire::ParamBytes;

/// Format version of [`ReaderState`]. Every version ever written is read.
pub const STATE_VERSION: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReaderState {
    /// Between two transactions: what comes after it has not been emitted.
    pub offset: LogOffset,
    /// The newest commit before the offset, in milliseconds since the epoch.
    pub commit_ms: i64,
    pub history: SchemaHistory,
    pub tables: Vec<TableState>,
    /// XA transactions whose rows stand in the log and whose end does not yet.
    #[serde(default)]
    pub prepared: Vec<PreparedState>,
}

/// How far one table is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableState {
    pub table: TableId,
    pub snapshot: SnapshotState,
    /// Rows of the log up to here are in the table's snapshot already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_from: Option<Position>,
    /// The sink has been told of the table.
    pub announced: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotState {
    /// Only the log is read.
    Done,
    /// To be read from the catalog and then from its first row on.
    Pending,
    /// Cut along the key.
    Lanes(Vec<LaneState>),
    /// Read in one transaction, which a restart has ended: it begins anew, after a `ResetTable`.
    Whole,
    /// Nothing is read of it: it failed.
    LeftOut,
}

/// A range of keys that is read chunk by chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneState {
    /// The last key whose row was emitted; before the first chunk, the key that the lane begins after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<ParamBytes>>,
    /// The lane's last key; `None` for the last lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Vec<ParamBytes>>,
    pub done: bool,
}

/// Where the rows of a prepared XA transaction stand.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PreparedState {
    pub xid: Xid,
    /// The server whose file it is.
    pub server: std::sync::Arc<str>,
    pub from: FilePosition,
    pub to: FilePosition,
}
