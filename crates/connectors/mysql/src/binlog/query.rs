//! QUERY: a statement as text, with what the session had set when it ran.

use std::borrow::Cow;

use lakeward_core::{Error, Result};

use super::compressed::inflate;
use super::cursor::{Cursor, malformed};
use crate::charset;

/// A statement as it was logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryEvent<'a> {
    pub thread_id: u32,
    /// The session's default database; empty without one.
    pub database: Cow<'a, str>,
    pub error_code: u16,
    pub session: SessionState,
    /// In the client's character set: see [`QueryEvent::text`].
    pub sql: Cow<'a, [u8]>,
}

/// The session's settings that change what the statement's text means. `None` where the event does
/// not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionState {
    sql_mode: Option<u64>,
    pub client_collation: Option<u16>,
    pub connection_collation: Option<u16>,
    pub server_collation: Option<u16>,
    /// `collation_database`, where it differs from the server's.
    pub database_collation: Option<u16>,
    /// MySQL 8: what `CHARSET utf8mb4` without a collation means.
    pub utf8mb4_collation: Option<u16>,
    pub explicit_defaults_for_timestamp: Option<bool>,
    /// Given where the statement's outcome depends on it.
    pub time_zone: Option<TimeZone>,
    /// The part of the statement's time below a second, given where its outcome depends on it.
    pub micros: Option<u32>,
    /// MariaDB's form of `explicit_defaults_for_timestamp`; MySQL has another meaning for these
    /// bits, or none.
    flags: Option<u32>,
    /// MySQL 8: a DDL statement's transaction.
    pub ddl_xid: Option<u64>,
}

impl SessionState {
    /// The session's `sql_mode` as its bits.
    pub fn sql_mode(&self) -> Option<u64> {
        self.sql_mode
    }

    /// MariaDB since 10.8 logs `explicit_defaults_for_timestamp` as a flag.
    pub fn mariadb_explicit_defaults_for_timestamp(&self) -> Option<bool> {
        self.flags.map(|flags| flags & (1 << 24) != 0)
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut state = Self::default();
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            match cursor.u8()? {
                0 => state.flags = Some(cursor.u32()?),
                1 => state.sql_mode = Some(cursor.u64()?),
                // The catalog, with a closing zero in its oldest form.
                2 => {
                    let length = usize::from(cursor.u8()?);
                    cursor.skip(length + 1)?;
                }
                3 => cursor.skip(4)?,
                4 => {
                    state.client_collation = Some(cursor.u16()?);
                    state.connection_collation = Some(cursor.u16()?);
                    state.server_collation = Some(cursor.u16()?);
                }
                5 => {
                    let length = usize::from(cursor.u8()?);
                    state.time_zone = Some(TimeZone::of(cursor.take(length)?));
                }
                // Catalog without a zero.
                6 => {
                    let length = usize::from(cursor.u8()?);
                    cursor.skip(length)?;
                }
                7 => cursor.skip(2)?,
                8 => state.database_collation = Some(cursor.u16()?),
                9 => cursor.skip(8)?,
                10 => cursor.skip(4)?,
                // Invoker: user and host.
                11 => {
                    for _ in 0..2 {
                        let length = usize::from(cursor.u8()?);
                        cursor.skip(length)?;
                    }
                }
                // Databases that the statement touched; 254 stands for too many to name.
                12 => {
                    let count = cursor.u8()?;
                    for _ in 0..if count == 254 { 0 } else { count } {
                        cursor.until_zero()?;
                    }
                }
                13 => state.micros = Some(micros(&mut cursor)?),
                14 | 15 => cursor.skip(8)?,
                16 => state.explicit_defaults_for_timestamp = Some(cursor.u8()? != 0),
                17 => state.ddl_xid = Some(cursor.u64()?),
                18 => state.utf8mb4_collation = Some(cursor.u16()?),
                19 | 20 => cursor.skip(1)?,
                // MariaDB: microseconds, the transaction's number.
                128 => state.micros = Some(micros(&mut cursor)?),
                129 => cursor.skip(8)?,
                // Variables have no length of their own, so nothing after an unknown one can be
                // read. Servers write those that matter here first.
                _ => break,
            }
        }
        Ok(state)
    }
}

fn micros(cursor: &mut Cursor<'_>) -> Result<u32> {
    let bytes = cursor.take(3)?;
    Ok(bytes.iter().rev().fold(0, |acc, byte| acc << 8 | u32::from(*byte)))
}

/// A session's `time_zone`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeZone {
    /// Seconds east of UTC.
    Fixed { offset_secs: i32 },
    /// The server's own.
    System,
    /// A name, whose offset changes with the seasons.
    Named,
}

impl TimeZone {
    /// Of `+02:00`, `UTC`, `SYSTEM` or `Europe/Berlin`.
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"SYSTEM" => TimeZone::System,
            b"UTC" | b"Etc/UTC" | b"UCT" | b"Z" => TimeZone::Fixed { offset_secs: 0 },
            _ => offset_secs(name)
                .map_or(TimeZone::Named, |offset_secs| TimeZone::Fixed { offset_secs }),
        }
    }
}

fn offset_secs(text: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(text).ok()?;
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 14 && minutes < 60)
        .then(|| sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60))
}

/// The three events that carry a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryForm {
    Plain,
    Compressed,
    /// EXECUTE_LOAD_QUERY: with the file's number and two positions in the text.
    LoadData,
}

impl<'a> QueryEvent<'a> {
    pub(super) fn parse(body: &'a [u8], form: QueryForm) -> Result<Self> {
        let mut cursor = Cursor::new(body);
        let thread_id = cursor.u32()?;
        cursor.skip(4)?;
        let database_length = usize::from(cursor.u8()?);
        let error_code = cursor.u16()?;
        let variables_length = usize::from(cursor.u16()?);
        if form == QueryForm::LoadData {
            cursor.skip(13)?;
        }
        let session = SessionState::parse(cursor.take(variables_length)?)?;
        // Names are in utf8 whatever the client speaks.
        let database = String::from_utf8_lossy(cursor.take(database_length)?);
        if cursor.u8()? != 0 {
            return Err(malformed("a database name does not end where it should"));
        }
        let sql = if form == QueryForm::Compressed {
            Cow::Owned(inflate(cursor.rest())?)
        } else {
            Cow::Borrowed(cursor.rest())
        };
        Ok(Self { thread_id, database, error_code, session, sql })
    }

    /// The statement in Unicode.
    ///
    /// # Errors
    /// `DataInvalid` when it is not text in the client's character set.
    pub fn text(&self) -> Result<Cow<'_, str>> {
        let charset = self.session.client_collation.and_then(|id| charset::of_collation(id.into()));
        if let Ok(text) = std::str::from_utf8(&self.sql)
            && (text.is_ascii() || charset.is_none_or(|c| c.starts_with("utf8")))
        {
            return Ok(Cow::Borrowed(text));
        }
        let decoder = charset.and_then(charset::TextDecoder::for_charset);
        match decoder.map(|d| d.decode(&self.sql)) {
            Some(Ok(text)) => Ok(Cow::Owned(text)),
            _ => Err(Error::data_invalid(
                "a statement in the binlog is not text in its session's character set",
            )
            .with("database", &self.database)
            .with("character set", charset.unwrap_or("unknown"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables of `ALTER TABLE … ADD z DATETIME(6) DEFAULT NOW(6)` in a MariaDB 10.11 log.
    const VARIABLES: &[u8] =
        b"\0\0\0\0\x01\x01\0\0\x20\x54\0\0\0\0\x06\x03std\x04\x21\0\x21\0\x08\0\
          \x05\x06+02:00\x80\x3b\xfa\x0b\x81\x20\0\0\0\0\0\0\0";

    #[test]
    fn the_time_and_its_zone() {
        let state = SessionState::parse(VARIABLES).expect("well formed");
        assert_eq!(state.time_zone, Some(TimeZone::Fixed { offset_secs: 7200 }));
        assert_eq!(state.micros, Some(784_955));
        assert_eq!(state.mariadb_explicit_defaults_for_timestamp(), Some(true));
        assert_eq!(TimeZone::of(b"-05:30"), TimeZone::Fixed { offset_secs: -19_800 });
        assert_eq!(TimeZone::of(b"UTC"), TimeZone::Fixed { offset_secs: 0 });
        assert_eq!(TimeZone::of(b"SYSTEM"), TimeZone::System);
        for name in [&b"Europe/Berlin"[..], b"", b"+", b"+aa:bb", b"+99:00", b"CET"] {
            assert_eq!(TimeZone::of(name), TimeZone::Named);
        }
    }
}
