//! Groups of events: what of the log belongs together, and when it counts.
//!
//! A small group is held until its end is read, so that one that was rolled back, or cut by the network, leaves no trace.
//! A large one is emitted as it comes. The rows of a prepared XA transaction wait for its end, in memory where they are
//! few, else they are read from the log a second time.

use std::sync::Arc;

use bytes::Bytes;
use lakeward_core::Position;

use crate::binlog::XaId;
use crate::ddl::Xid;
use crate::offset::{FilePosition, Gtid};
use crate::state::PreparedState;

/// What a group may take before it is emitted as it comes.
pub const HELD_BYTES: usize = 1 << 20;

/// A group that is being read.
pub struct Group {
    /// Before its first event.
    pub start: FilePosition,
    /// The place of all its rows in the order of rows.
    pub position: Position,
    pub gtid: Option<Gtid>,
    pub commit_ms: i64,
    /// Rows follow until an event ends it; otherwise the one statement is all.
    pub is_transaction: bool,
    /// MariaDB: the statement stands alone, whatever it looks like.
    pub is_standalone: bool,
    /// MariaDB: the first half of a two-phase ALTER, or one that failed. Nothing has changed.
    pub is_void: bool,
    pub xa: Option<Xid>,
    pub rows: GroupRows,
}

/// What has become of the group's rows so far.
pub enum GroupRows {
    /// They wait for the group's end.
    Held { events: Vec<Bytes>, bytes: usize },
    /// They go out as they come. Events up to `skip_until` went out before the connection was lost.
    Emitted { skip_until: Option<FilePosition> },
    /// They are too many to hold for an XA transaction, and are read again at its end.
    Dropped,
}

impl Group {
    pub fn new(start: FilePosition, position: Position, commit_ms: i64) -> Self {
        Self {
            start,
            position,
            gtid: None,
            commit_ms,
            is_transaction: false,
            is_standalone: false,
            is_void: false,
            xa: None,
            rows: GroupRows::Held { events: Vec::new(), bytes: 0 },
        }
    }

    /// True when rows of it have gone out.
    pub fn has_emitted(&self) -> bool {
        matches!(self.rows, GroupRows::Emitted { .. })
    }
}

/// How a group ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEnd {
    Commit,
    Rollback,
    XaPrepare(Xid),
    XaCommit(Xid),
    XaRollback(Xid),
}

/// A prepared XA transaction.
pub struct Prepared {
    pub xid: Xid,
    pub server: Arc<str>,
    pub from: FilePosition,
    pub to: FilePosition,
    /// `None`: to be read from the log.
    pub events: Option<Vec<Bytes>>,
}

impl Prepared {
    pub fn state(&self) -> PreparedState {
        PreparedState {
            xid: self.xid.clone(),
            server: self.server.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
        }
    }

    pub fn restored(state: PreparedState) -> Self {
        let PreparedState { xid, server, from, to } = state;
        Self { xid, server, from, to, events: None }
    }
}

/// The name as the DDL reader has it.
pub fn xid_of(id: &XaId) -> Xid {
    Xid {
        gtrid: id.global.clone(),
        bqual: id.branch.clone(),
        format_id: u64::from(id.format_id as u32),
    }
}

/// The statements that begin and end a group, by their text. They are logged in this very form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    Begin,
    Commit,
    Rollback,
    Xa,
    /// SAVEPOINT and ROLLBACK TO.
    Savepoint,
    Other,
}

pub fn control_of(sql: &[u8]) -> Control {
    let sql = sql.trim_ascii();
    let is = |word: &[u8]| sql.eq_ignore_ascii_case(word);
    let starts =
        |word: &[u8]| sql.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    match sql.first().map(u8::to_ascii_uppercase) {
        Some(b'B') if is(b"BEGIN") => Control::Begin,
        Some(b'C') if is(b"COMMIT") => Control::Commit,
        Some(b'R') if is(b"ROLLBACK") => Control::Rollback,
        Some(b'R') if starts(b"ROLLBACK TO") || starts(b"RELEASE SAVEPOINT") => Control::Savepoint,
        Some(b'S') if starts(b"SAVEPOINT") => Control::Savepoint,
        Some(b'S') if is(b"START TRANSACTION") => Control::Begin,
        Some(b'X') if starts(b"XA ") => Control::Xa,
        _ => Control::Other,
    }
}

/// MySQL 8 logs CREATE TABLE … SELECT as a CREATE TABLE that opens a transaction.
pub fn opens_transaction(sql: &[u8]) -> bool {
    const TAIL: &[u8] = b"START TRANSACTION";
    let sql = sql.trim_ascii_end();
    sql.len() > TAIL.len() && sql[sql.len() - TAIL.len()..].eq_ignore_ascii_case(TAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_around_rows_are_known() {
        for (sql, control) in [
            ("BEGIN", Control::Begin),
            ("COMMIT", Control::Commit),
            (" rollback ", Control::Rollback),
            ("ROLLBACK TO `a`", Control::Savepoint),
            ("SAVEPOINT `a`", Control::Savepoint),
            ("XA START X'61',X'',1", Control::Xa),
            ("CREATE TABLE begin (a INT)", Control::Other),
            ("", Control::Other),
        ] {
            assert_eq!(control_of(sql.as_bytes()), control, "{sql}");
        }
        assert!(opens_transaction(b"CREATE TABLE `t` (`a` int) START TRANSACTION"));
        assert!(!opens_transaction(b"CREATE TABLE `t` (`a` int)"));
    }
}
