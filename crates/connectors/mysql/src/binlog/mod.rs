//! Binlog events of MySQL and MariaDB: bytes in, values out. Nothing here talks to a server or
//! keeps more than the layout of the log being read.
//!
//! Row images stay bytes until [`crate::rows`] appends them to columns.

mod compressed;
mod cursor;
mod format;
mod gtid;
mod gtid_set;
mod header;
mod payload;
mod query;
mod rows_event;
mod table_map;

use std::borrow::Cow;

use lakeward_core::{Error, Result};

pub use format::{CHECKSUM_BYTES, Checksum, FormatDescription};
pub use gtid::{MariaDbGtidEvent, MySqlGtidEvent, XaId, XaPrepare};
pub use gtid_set::{MariaDbGtid, MariaDbGtidSet, MySqlGtid, MySqlGtidSet, Tag};
pub use header::{EventHeader, EventType, HEADER_BYTES};
pub use payload::{PayloadEvents, TransactionPayload};
pub use query::{QueryEvent, SessionState, TimeZone};
pub use rows_event::{ColumnBits, NO_TABLE, RowsEvent, RowsKind};
pub use table_map::{ColumnMetadata, OptionalMetadata, TableMap, code};

pub(crate) use compressed::inflate_zlib;
use query::QueryForm;

pub(crate) use cursor::{Cursor, be_uint, le_uint};

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<'a> {
    pub header: EventHeader,
    pub body: EventBody<'a>,
}

/// What the event says. Borrows from its bytes wherever they are used as they are.
#[derive(Debug, Clone, PartialEq)]
pub enum EventBody<'a> {
    FormatDescription(FormatDescription),
    /// The log goes on in another file. The first event of a dump, artificial, names the file that
    /// it starts in.
    Rotate {
        file: Cow<'a, str>,
        position: u64,
    },
    /// GTID, ANONYMOUS_GTID or GTID_TAGGED: a transaction begins (MySQL).
    MySqlGtid(MySqlGtidEvent),
    /// An event group begins (MariaDB).
    MariaDbGtid(MariaDbGtidEvent),
    PreviousGtids(MySqlGtidSet),
    MariaDbGtidList(MariaDbGtidSet),
    Query(QueryEvent<'a>),
    TableMap(TableMap<'a>),
    Rows(RowsEvent<'a>),
    /// The transaction is committed.
    Xid(u64),
    XaPrepare(XaPrepare),
    /// The transaction's events in compressed form: read them by [`TransactionPayload::events`].
    TransactionPayload(TransactionPayload<'a>),
    /// The statement's text ahead of its rows (ROWS_QUERY, ANNOTATE_ROWS).
    Statement(&'a [u8]),
    /// The server is alive and has sent everything before this position. `file` may be empty.
    Heartbeat {
        file: Cow<'a, str>,
        position: u64,
    },
    /// The server says that it could not log everything: the log alone no longer gives the data.
    Incident,
    /// The file ends here because the server stopped.
    Stop,
    /// Of no consequence for rows and tables.
    Ignored,
}

/// What a log says about its own events. One for each connection; start anew when connecting again.
#[derive(Debug, Clone)]
pub struct DecoderState {
    format: FormatDescription,
    verify: bool,
}

impl Default for DecoderState {
    fn default() -> Self {
        Self { format: FormatDescription::unknown(), verify: true }
    }
}

impl DecoderState {
    /// Reads checksums without checking them, for bytes that something else has already checked.
    pub fn without_verification() -> Self {
        Self { verify: false, ..Self::default() }
    }

    pub fn format(&self) -> &FormatDescription {
        &self.format
    }
}

/// Reads one event, header and checksum included.
///
/// # Errors
/// `Transient` when the bytes are damaged, which a new connection may cure; `Config` when the
/// server writes something that has to be switched off there. Never panics, whatever the bytes.
pub fn parse_event<'a>(bytes: &'a [u8], state: &mut DecoderState) -> Result<Event<'a>> {
    let header = EventHeader::parse(bytes)?;
    if header.size_bytes as usize != bytes.len() {
        return Err(cursor::malformed("its size is not the number of its bytes")
            .with("event", header.event_type));
    }
    let body = strip_checksum(&header, bytes, state)?;
    parse_body(header, body, state).map_err(|e| e.with("event", header.event_type))
}

/// Reads an event of a compressed transaction, which has no checksum of its own.
fn parse_nested<'a>(bytes: &'a [u8], state: &mut DecoderState) -> Result<Event<'a>> {
    let header = EventHeader::parse(bytes)?;
    if matches!(header.event_type, EventType::TRANSACTION_PAYLOAD | EventType::FORMAT_DESCRIPTION) {
        return Err(cursor::malformed(
            "a compressed transaction holds an event that cannot be inside one",
        ));
    }
    let body = bytes.get(HEADER_BYTES..).ok_or_else(cursor::truncated)?;
    parse_body(header, body, state).map_err(|e| e.with("event", header.event_type))
}

/// The event without header and checksum.
fn strip_checksum<'a>(
    header: &EventHeader,
    bytes: &'a [u8],
    state: &DecoderState,
) -> Result<&'a [u8]> {
    let body = bytes.get(HEADER_BYTES..).ok_or_else(cursor::truncated)?;
    let matches = || {
        bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .is_some_and(|(content, sum)| crc32(content) == u32::from_le_bytes(*sum))
    };
    let stripped =
        || body.get(..body.len().wrapping_sub(CHECKSUM_BYTES)).ok_or_else(cursor::truncated);
    match header.event_type {
        // It says itself whether it has one.
        EventType::FORMAT_DESCRIPTION => Ok(body),
        // Servers send these before the first format description, with and without a checksum.
        EventType::ROTATE | EventType::HEARTBEAT | EventType::HEARTBEAT_V2
            if header.is_artificial() || header.timestamp_s == 0 =>
        {
            if matches() { stripped() } else { Ok(body) }
        }
        _ if state.format.checksum == Checksum::None => Ok(body),
        _ if state.verify && !matches() => Err(Error::transient(
            "a binlog event does not match its checksum; it was damaged on its way here or on the server's disk",
        )
        .with("event", header.event_type)
        .with("next position", header.next_position)),
        _ => stripped(),
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn parse_body<'a>(
    header: EventHeader,
    body: &'a [u8],
    state: &mut DecoderState,
) -> Result<Event<'a>> {
    use EventType as T;
    let body = match header.event_type {
        T::FORMAT_DESCRIPTION => {
            let format = FormatDescription::parse(body)?;
            state.format = format.clone();
            EventBody::FormatDescription(format)
        }
        T::ROTATE => {
            let mut cursor = Cursor::new(body);
            let position = cursor.u64()?;
            EventBody::Rotate { file: String::from_utf8_lossy(cursor.rest()), position }
        }
        T::GTID => EventBody::MySqlGtid(MySqlGtidEvent::parse(body, false)?),
        T::ANONYMOUS_GTID => EventBody::MySqlGtid(MySqlGtidEvent::parse(body, true)?),
        T::GTID_TAGGED => EventBody::MySqlGtid(MySqlGtidEvent::parse_tagged(body)?),
        T::PREVIOUS_GTIDS => EventBody::PreviousGtids(gtid::parse_previous_gtids(body)?),
        T::MARIADB_GTID => EventBody::MariaDbGtid(MariaDbGtidEvent::parse(&header, body)?),
        T::MARIADB_GTID_LIST => EventBody::MariaDbGtidList(gtid::parse_gtid_list(body)?),
        T::QUERY => EventBody::Query(QueryEvent::parse(body, QueryForm::Plain)?),
        T::MARIADB_QUERY_COMPRESSED => {
            EventBody::Query(QueryEvent::parse(body, QueryForm::Compressed)?)
        }
        // LOAD DATA under statement format: shown as the statement it is, so that a reader can
        // refuse it.
        T::EXECUTE_LOAD_QUERY => EventBody::Query(QueryEvent::parse(body, QueryForm::LoadData)?),
        T::TABLE_MAP => EventBody::TableMap(TableMap::parse(body, &state.format)?),
        T::WRITE_ROWS_V1
        | T::UPDATE_ROWS_V1
        | T::DELETE_ROWS_V1
        | T::WRITE_ROWS
        | T::UPDATE_ROWS
        | T::DELETE_ROWS
        | T::PARTIAL_UPDATE_ROWS
        | T::MARIADB_WRITE_ROWS_COMPRESSED_V1
        | T::MARIADB_UPDATE_ROWS_COMPRESSED_V1
        | T::MARIADB_DELETE_ROWS_COMPRESSED_V1
        | T::MARIADB_WRITE_ROWS_COMPRESSED
        | T::MARIADB_UPDATE_ROWS_COMPRESSED
        | T::MARIADB_DELETE_ROWS_COMPRESSED => {
            EventBody::Rows(RowsEvent::parse(header.event_type, body, &state.format)?)
        }
        T::XID => EventBody::Xid(Cursor::new(body).u64()?),
        T::XA_PREPARE => EventBody::XaPrepare(XaPrepare::parse(body)?),
        T::TRANSACTION_PAYLOAD => EventBody::TransactionPayload(TransactionPayload::parse(body)?),
        // A length of one byte, which is wrong for longer texts: the text goes to the end.
        T::ROWS_QUERY => EventBody::Statement(body.get(1..).unwrap_or_default()),
        T::MARIADB_ANNOTATE_ROWS => EventBody::Statement(body),
        T::HEARTBEAT => EventBody::Heartbeat {
            file: String::from_utf8_lossy(body),
            position: header.next_position.into(),
        },
        T::HEARTBEAT_V2 => parse_heartbeat_v2(body)?,
        T::INCIDENT => EventBody::Incident,
        T::STOP => EventBody::Stop,
        // A server that decrypts its log for a dump sends this along, marked as one to skip.
        T::MARIADB_START_ENCRYPTION if header.is_ignorable() => EventBody::Ignored,
        T::MARIADB_START_ENCRYPTION => {
            return Err(Error::config(
                "the binlog bytes are encrypted; read them from the server, which decrypts them, and not from its files",
            ));
        }
        T::PRE_GA_WRITE_ROWS | T::PRE_GA_UPDATE_ROWS | T::PRE_GA_DELETE_ROWS => {
            return Err(Error::config(
                "the binlog has row events of a beta of MySQL 5.1; upgrade the server",
            ));
        }
        T::INTVAR
        | T::RAND
        | T::USER_VAR
        | T::APPEND_BLOCK
        | T::DELETE_FILE
        | T::BEGIN_LOAD_QUERY
        | T::SLAVE
        | T::IGNORABLE
        | T::TRANSACTION_CONTEXT
        | T::VIEW_CHANGE
        | T::MARIADB_BINLOG_CHECKPOINT => EventBody::Ignored,
        _ if header.is_ignorable() => EventBody::Ignored,
        _ => {
            return Err(Error::config(
                "the server writes a kind of binlog event that this version of lakeward does not know; nothing was skipped",
            ));
        }
    };
    Ok(Event { header, body })
}

fn parse_heartbeat_v2(body: &[u8]) -> Result<EventBody<'_>> {
    let mut cursor = Cursor::new(body);
    let (mut file, mut position) = (Cow::Borrowed(""), 0);
    while !cursor.is_empty() {
        let field = cursor.packed_uint()?;
        if field == 0 {
            break;
        }
        let length = cursor.packed_len()?;
        let value = cursor.take(length)?;
        match field {
            1 => file = String::from_utf8_lossy(value),
            2 => position = Cursor::new(value).packed_uint()?,
            _ => {}
        }
    }
    Ok(EventBody::Heartbeat { file, position })
}
