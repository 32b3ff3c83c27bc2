//! The 19 bytes that every event begins with.

use lakeward_core::Result;

use super::cursor::{Cursor, malformed};

/// Length of the header since MySQL 5.0; no other length is written by a server that has row events.
pub const HEADER_BYTES: usize = 19;

/// The event was made up for the dump and stands in no file (the first ROTATE, heartbeats).
pub const FLAG_ARTIFICIAL: u16 = 0x20;
/// A reader that does not know the event's type may skip it.
pub const FLAG_IGNORABLE: u16 = 0x80;

/// What an event says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventHeader {
    /// Seconds since the epoch; 0 for artificial events.
    pub timestamp_s: u32,
    pub event_type: EventType,
    pub server_id: u32,
    /// With header and checksum.
    pub size_bytes: u32,
    /// The low 32 bits of where the next event begins: files may be larger, so a reader counts for
    /// itself. 0 for artificial events and events inside a compressed transaction.
    pub next_position: u32,
    pub flags: u16,
}

impl EventHeader {
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let timestamp_s = cursor.u32()?;
        let event_type = EventType(cursor.u8()?);
        let server_id = cursor.u32()?;
        let size_bytes = cursor.u32()?;
        let next_position = cursor.u32()?;
        let flags = cursor.u16()?;
        if (size_bytes as usize) < HEADER_BYTES {
            return Err(malformed("its size is smaller than its header"));
        }
        Ok(Self { timestamp_s, event_type, server_id, size_bytes, next_position, flags })
    }

    pub fn is_artificial(&self) -> bool {
        self.flags & FLAG_ARTIFICIAL != 0
    }

    pub fn is_ignorable(&self) -> bool {
        self.flags & FLAG_IGNORABLE != 0
    }
}

/// An event's type as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventType(pub u8);

macro_rules! event_types {
    ($($name:ident = $code:literal),* $(,)?) => {
        impl EventType {
            $(pub const $name: EventType = EventType($code);)*

            /// The name in the servers' documentation.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)*
                    _ => "UNKNOWN",
                }
            }
        }
    };
}

event_types! {
    QUERY = 2,
    STOP = 3,
    ROTATE = 4,
    INTVAR = 5,
    SLAVE = 7,
    APPEND_BLOCK = 9,
    DELETE_FILE = 11,
    RAND = 13,
    USER_VAR = 14,
    FORMAT_DESCRIPTION = 15,
    XID = 16,
    BEGIN_LOAD_QUERY = 17,
    EXECUTE_LOAD_QUERY = 18,
    TABLE_MAP = 19,
    PRE_GA_WRITE_ROWS = 20,
    PRE_GA_UPDATE_ROWS = 21,
    PRE_GA_DELETE_ROWS = 22,
    WRITE_ROWS_V1 = 23,
    UPDATE_ROWS_V1 = 24,
    DELETE_ROWS_V1 = 25,
    INCIDENT = 26,
    HEARTBEAT = 27,
    IGNORABLE = 28,
    ROWS_QUERY = 29,
    WRITE_ROWS = 30,
    UPDATE_ROWS = 31,
    DELETE_ROWS = 32,
    GTID = 33,
    ANONYMOUS_GTID = 34,
    PREVIOUS_GTIDS = 35,
    TRANSACTION_CONTEXT = 36,
    VIEW_CHANGE = 37,
    XA_PREPARE = 38,
    PARTIAL_UPDATE_ROWS = 39,
    TRANSACTION_PAYLOAD = 40,
    HEARTBEAT_V2 = 41,
    GTID_TAGGED = 42,
    MARIADB_ANNOTATE_ROWS = 160,
    MARIADB_BINLOG_CHECKPOINT = 161,
    MARIADB_GTID = 162,
    MARIADB_GTID_LIST = 163,
    MARIADB_START_ENCRYPTION = 164,
    MARIADB_QUERY_COMPRESSED = 165,
    MARIADB_WRITE_ROWS_COMPRESSED_V1 = 166,
    MARIADB_UPDATE_ROWS_COMPRESSED_V1 = 167,
    MARIADB_DELETE_ROWS_COMPRESSED_V1 = 168,
    MARIADB_WRITE_ROWS_COMPRESSED = 169,
    MARIADB_UPDATE_ROWS_COMPRESSED = 170,
    MARIADB_DELETE_ROWS_COMPRESSED = 171,
}

impl std::fmt::Display for EventType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}
