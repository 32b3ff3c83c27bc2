//! TRANSACTION_PAYLOAD: MySQL's compressed transactions (`binlog_transaction_compression`), one
//! event that holds all others.

use std::io::{BufReader, Read};

use lakeward_core::{Error, Result};

use super::cursor::{Cursor, malformed};
use super::header::{EventHeader, HEADER_BYTES};
use super::{DecoderState, Event};

/// A whole transaction's events behind its GTID, in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionPayload<'a> {
    compression: Compression,
    /// What the content takes when unpacked, as the event says.
    pub uncompressed_bytes: u64,
    content: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    Zstd,
    None,
}

impl<'a> TransactionPayload<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body);
        let mut compression = Compression::None;
        let mut uncompressed_bytes = 0;
        let mut size = None;
        loop {
            let field = cursor.packed_uint()?;
            if field == 0 {
                break;
            }
            let length = cursor.packed_len()?;
            let mut value = Cursor::new(cursor.take(length)?);
            match field {
                1 => size = Some(value.packed_len()?),
                2 => {
                    compression = match value.packed_uint()? {
                        0 => Compression::Zstd,
                        255 => Compression::None,
                        _ => {
                            return Err(Error::config(
                                "the binlog has transactions compressed in an unknown way; set binlog_transaction_compression=OFF",
                            ));
                        }
                    };
                }
                3 => uncompressed_bytes = value.packed_uint()?,
                _ => {}
            }
        }
        let content = match size {
            Some(size) => cursor.take(size)?,
            None => cursor.rest(),
        };
        Ok(Self { compression, uncompressed_bytes, content })
    }

    /// Reads the events inside, one at a time, so that memory holds one event and not the
    /// transaction.
    pub fn events(&self) -> Result<PayloadEvents<'a>> {
        let content: Box<dyn Read + Send + 'a> = match self.compression {
            Compression::None => Box::new(self.content),
            Compression::Zstd => Box::new(BufReader::new(
                zstd::stream::read::Decoder::with_buffer(self.content).map_err(damaged)?,
            )),
        };
        Ok(PayloadEvents { content, event: Vec::new() })
    }
}

/// The events of a compressed transaction, in order.
pub struct PayloadEvents<'a> {
    content: Box<dyn Read + Send + 'a>,
    event: Vec<u8>,
}

impl PayloadEvents<'_> {
    /// The next event, which lives until the next call. `None` at the end.
    pub fn next(&mut self, state: &mut DecoderState) -> Result<Option<Event<'_>>> {
        self.event.clear();
        read_up_to(&mut self.content, HEADER_BYTES, &mut self.event)?;
        if self.event.is_empty() {
            return Ok(None);
        }
        let header = EventHeader::parse(&self.event)?;
        let rest = header.size_bytes as usize - HEADER_BYTES;
        read_up_to(&mut self.content, rest, &mut self.event)?;
        if self.event.len() != header.size_bytes as usize {
            return Err(malformed("a compressed transaction ends inside an event"));
        }
        super::parse_nested(&self.event, state).map(Some)
    }
}

/// Grows with what is there, not with what a damaged size promises.
fn read_up_to(content: &mut dyn Read, length: usize, into: &mut Vec<u8>) -> Result<()> {
    content.take(length as u64).read_to_end(into).map(|_| ()).map_err(damaged)
}

fn damaged(error: std::io::Error) -> Error {
    malformed("its compressed content is damaged").with_source(error)
}
