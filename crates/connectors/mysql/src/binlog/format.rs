//! FORMAT_DESCRIPTION: the server's version, the lengths of post-headers, and whether events carry
//! a checksum.

use std::sync::Arc;

use lakeward_core::{Error, Result};

use super::cursor::{Cursor, malformed};
use super::header::{EventType, HEADER_BYTES};

/// Bytes of a CRC32 at the end of an event.
pub const CHECKSUM_BYTES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    None,
    Crc32,
}

/// How the events of one log file are laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatDescription {
    pub server_version: Arc<str>,
    pub checksum: Checksum,
    /// By event type, counted from 1.
    post_header_bytes: Arc<[u8]>,
}

impl FormatDescription {
    /// `body` is the event without its header, with the four bytes that a checksum takes.
    pub(super) fn parse(body: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body);
        if cursor.u16()? != 4 {
            return Err(Error::config(
                "the binlog is of a version before MySQL 5.0; upgrade the server",
            ));
        }
        let version = cursor.take(50)?;
        let version = version.split(|b| *b == 0).next().unwrap_or_default();
        let server_version: Arc<str> = String::from_utf8_lossy(version).into();
        cursor.skip(4)?;
        if cursor.u8()? as usize != HEADER_BYTES {
            return Err(malformed("its format description names another header length than 19"));
        }
        // Every server with checksums (MySQL 5.6.1, MariaDB 5.3) ends this event with the algorithm
        // and four bytes of checksum, also where the log has none.
        let has_algorithm = knows_checksums(&server_version);
        let tail_bytes = if has_algorithm { 1 + CHECKSUM_BYTES } else { 0 };
        let count =
            cursor.remaining().checked_sub(tail_bytes).ok_or_else(super::cursor::truncated)?;
        let post_header_bytes = cursor.take(count)?.into();
        let checksum = match has_algorithm.then(|| cursor.u8()).transpose()? {
            None | Some(0) => Checksum::None,
            Some(1) => Checksum::Crc32,
            Some(_) => {
                return Err(Error::config(
                    "the binlog uses a checksum that is not CRC32; set binlog_checksum to CRC32 or NONE",
                ));
            }
        };
        Ok(Self { server_version, checksum, post_header_bytes })
    }

    /// What is read before a log says how it is laid out.
    pub(super) fn unknown() -> Self {
        Self { server_version: "".into(), checksum: Checksum::None, post_header_bytes: [].into() }
    }

    pub fn is_mariadb(&self) -> bool {
        self.server_version.contains("MariaDB")
    }

    /// Old servers wrote table ids of four bytes.
    pub(super) fn table_id_bytes(&self, event_type: EventType) -> usize {
        let index = usize::from(event_type.0).wrapping_sub(1);
        if self.post_header_bytes.get(index) == Some(&6) { 4 } else { 6 }
    }
}

fn knows_checksums(version: &str) -> bool {
    let mut parts =
        version.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    let version_number = (next(), next(), next());
    version_number >= (5, 6, 1) || (version.contains("MariaDB") && version_number >= (5, 3, 0))
}
