//! Events that name transactions: MySQL's GTID, tagged GTID and PREVIOUS_GTIDS, MariaDB's GTID and
//! GTID_LIST.

use lakeward_core::Result;

use super::cursor::{Cursor, malformed};
use super::gtid_set::{MariaDbGtid, MariaDbGtidSet, MySqlGtid, MySqlGtidSet, Tag};
use super::header::EventHeader;

/// The beginning of a transaction on MySQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MySqlGtidEvent {
    /// `None` where the server runs without GTIDs.
    pub gtid: Option<MySqlGtid>,
    /// Microseconds since the epoch when this server committed it; 0 on servers before 8.0.1.
    pub commit_us: u64,
    /// The same on the server where it was first committed.
    pub original_commit_us: u64,
    /// With all its events, this one included; 0 on servers before 8.0.2.
    pub transaction_bytes: u64,
}

/// Commit times have 55 bits; the highest bit of the seven bytes says that the original one follows.
const COMMIT_TIME_MASK: u64 = (1 << 55) - 1;

impl MySqlGtidEvent {
    pub(super) fn parse(body: &[u8], anonymous: bool) -> Result<Self> {
        let mut cursor = Cursor::new(body);
        cursor.skip(1)?;
        let source =
            <[u8; 16]>::try_from(cursor.take(16)?).map_err(|_| malformed("its uuid is short"))?;
        let number = checked_number(cursor.u64()?, anonymous)?;
        let gtid = (!anonymous).then(|| MySqlGtid { source, tag: Tag::default(), number });
        let mut event = Self { gtid, commit_us: 0, original_commit_us: 0, transaction_bytes: 0 };
        // Type code 2: the two sequence numbers of the logical clock. Older servers end here.
        if cursor.remaining() < 17 || cursor.u8()? != 2 {
            return Ok(event);
        }
        cursor.skip(16)?;
        if cursor.remaining() < 7 {
            return Ok(event);
        }
        let commit = cursor.uint(7)?;
        event.commit_us = commit & COMMIT_TIME_MASK;
        event.original_commit_us =
            if commit > COMMIT_TIME_MASK { cursor.uint(7)? } else { event.commit_us };
        if !cursor.is_empty() {
            event.transaction_bytes = cursor.packed_uint()?;
        }
        Ok(event)
    }

    /// MySQL 8.3 and later write this form when the GTID has a tag: numbered fields, of which some
    /// may be left out.
    pub(super) fn parse_tagged(body: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body);
        let _format_version = cursor.serialized_uint()?;
        let _size_bytes = cursor.serialized_uint()?;
        let _last_needed_field = cursor.serialized_uint()?;
        let mut source = [0; 16];
        let mut tag = Tag::default();
        let mut number = 0;
        let mut event =
            Self { gtid: None, commit_us: 0, original_commit_us: 0, transaction_bytes: 0 };
        let mut original = None;
        while !cursor.is_empty() {
            match cursor.serialized_uint()? {
                0 => drop(cursor.serialized_uint()?),
                1 => {
                    for byte in &mut source {
                        *byte = u8::try_from(cursor.serialized_uint()?)
                            .map_err(|_| malformed("its uuid has a number above 255"))?;
                    }
                }
                2 => {
                    number = u64::try_from(cursor.serialized_int()?)
                        .map_err(|_| malformed("its transaction number is negative"))?;
                }
                3 => {
                    let length = usize::try_from(cursor.serialized_uint()?)
                        .map_err(|_| malformed("its tag is too long"))?;
                    tag = Tag::from_bytes(cursor.take(length)?)
                        .ok_or_else(|| malformed("its tag is not one"))?;
                }
                4 | 5 => drop(cursor.serialized_int()?),
                6 => event.commit_us = cursor.serialized_uint()?,
                7 => original = Some(cursor.serialized_uint()?),
                8 => event.transaction_bytes = cursor.serialized_uint()?,
                9..=11 => drop(cursor.serialized_uint()?),
                // Fields that came later follow those that we know.
                _ => break,
            }
        }
        event.original_commit_us = original.unwrap_or(event.commit_us);
        event.gtid = Some(MySqlGtid { source, tag, number: checked_number(number, false)? });
        Ok(event)
    }
}

fn checked_number(number: u64, anonymous: bool) -> Result<u64> {
    if anonymous || (1..i64::MAX as u64).contains(&number) {
        Ok(number)
    } else {
        Err(malformed("its transaction number is out of range"))
    }
}

/// The identifier of a transaction that a client runs in two phases.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct XaId {
    pub format_id: i32,
    pub global: Vec<u8>,
    pub branch: Vec<u8>,
}

impl XaId {
    /// As both servers write it in SQL: `X'global',X'branch',format`.
    pub fn sql(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        format!("X'{}',X'{}',{}", hex(&self.global), hex(&self.branch), self.format_id)
    }
}

/// The end of an XA transaction's rows: they become visible by a later `XA COMMIT`, or never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XaPrepare {
    /// `XA COMMIT … ONE PHASE`: committed here and now.
    pub one_phase: bool,
    pub id: XaId,
}

impl XaPrepare {
    pub(super) fn parse(body: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body);
        let one_phase = cursor.u8()? != 0;
        let format_id = cursor.u32()? as i32;
        let global_length = cursor.u32()? as usize;
        let branch_length = cursor.u32()? as usize;
        let global = cursor.take(global_length)?.to_vec();
        let branch = cursor.take(branch_length)?.to_vec();
        Ok(Self { one_phase, id: XaId { format_id, global, branch } })
    }
}

/// The beginning of an event group on MariaDB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MariaDbGtidEvent {
    pub gtid: MariaDbGtid,
    flags: u8,
    extra_flags: u8,
    /// Set for the rows of a prepared XA transaction and for the group that commits or rolls one
    /// back.
    pub xa: Option<XaId>,
    /// The sequence number of the `START ALTER` group that this `COMMIT ALTER` or `ROLLBACK ALTER`
    /// ends.
    pub alter_started_at: Option<u64>,
}

impl MariaDbGtidEvent {
    pub(super) fn parse(header: &EventHeader, body: &[u8]) -> Result<Self> {
        const GROUP_COMMIT_ID: u8 = 2;
        const XA: u8 = 64 | 128;
        const MULTI_ENGINE: u8 = 1;
        const ALTER_END: u8 = 4 | 8;
        let mut cursor = Cursor::new(body);
        let sequence = cursor.u64()?;
        let domain = cursor.u32()?;
        let flags = cursor.u8()?;
        if flags & GROUP_COMMIT_ID != 0 {
            cursor.skip(8)?;
        }
        let mut xa = None;
        if flags & XA != 0 {
            let format_id = cursor.u32()? as i32;
            let global_length = usize::from(cursor.u8()?);
            let branch_length = usize::from(cursor.u8()?);
            let global = cursor.take(global_length)?.to_vec();
            let branch = cursor.take(branch_length)?.to_vec();
            xa = Some(XaId { format_id, global, branch });
        }
        // Servers before 10.5 have no second byte of flags; a short event is filled up with zeros.
        let extra_flags = if cursor.is_empty() { 0 } else { cursor.u8()? };
        if extra_flags & MULTI_ENGINE != 0 {
            cursor.skip(1)?;
        }
        let alter_started_at =
            if extra_flags & ALTER_END != 0 { Some(cursor.u64()?) } else { None };
        let gtid = MariaDbGtid { domain, server: header.server_id, sequence };
        Ok(Self { gtid, flags, extra_flags, xa, alter_started_at })
    }

    /// A single statement without a closing event: DDL, `XA COMMIT` and the like. Anything else
    /// ends with XID, a QUERY `COMMIT` or a QUERY `ROLLBACK`.
    pub fn is_standalone(&self) -> bool {
        self.flags & 1 != 0
    }

    pub fn is_ddl(&self) -> bool {
        self.flags & 32 != 0
    }

    /// Rows that an `XA COMMIT` makes visible later.
    pub fn is_xa_prepare(&self) -> bool {
        self.flags & 64 != 0
    }

    /// `XA COMMIT` or `XA ROLLBACK`; the QUERY that follows says which.
    pub fn is_xa_end(&self) -> bool {
        self.flags & 128 != 0
    }

    /// First logging of a two-phase ALTER: nothing has changed yet.
    pub fn is_alter_start(&self) -> bool {
        self.extra_flags & 2 != 0
    }

    pub fn is_alter_commit(&self) -> bool {
        self.extra_flags & 4 != 0
    }

    pub fn is_alter_rollback(&self) -> bool {
        self.extra_flags & 8 != 0
    }
}

/// What had been logged before this file.
pub(super) fn parse_gtid_list(body: &[u8]) -> Result<MariaDbGtidSet> {
    let mut cursor = Cursor::new(body);
    // The upper four bits are flags.
    let count = cursor.u32()? & 0x0fff_ffff;
    let mut set = MariaDbGtidSet::default();
    for _ in 0..count {
        let domain = cursor.u32()?;
        let server = cursor.u32()?;
        let sequence = cursor.u64()?;
        set.add(MariaDbGtid { domain, server, sequence });
    }
    Ok(set)
}

pub(super) fn parse_previous_gtids(body: &[u8]) -> Result<MySqlGtidSet> {
    MySqlGtidSet::decode(body)
}
