//! MariaDB's compressed events (`log_bin_compress`): zlib behind a small header.

use std::io::Read;

use lakeward_core::Result;

use super::cursor::{Cursor, be_uint, malformed};

/// Unpacks what follows an event's uncompressed part: one byte (algorithm in the bits 4–6, size of
/// the length in 0–2), the length of the content, the content.
pub(super) fn inflate(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut cursor = Cursor::new(bytes);
    let head = cursor.u8()?;
    let length_bytes = usize::from(head & 7);
    if (head >> 4) & 7 != 0 || !(1..=4).contains(&length_bytes) {
        return Err(malformed("it is compressed in an unknown way"));
    }
    let length = be_uint(cursor.take(length_bytes)?) as usize;
    inflate_zlib(cursor.rest(), length, true)
        .ok_or_else(|| malformed("its compressed content is damaged"))
}

/// `None` unless the content has exactly `length` bytes. Memory grows with what is really there,
/// not with what a damaged length promises.
pub(crate) fn inflate_zlib(bytes: &[u8], length: usize, zlib_header: bool) -> Option<Vec<u8>> {
    // Deflate cannot do better than about 1:1032.
    let mut content = Vec::with_capacity(length.min(bytes.len().saturating_mul(1040)));
    let limit = length as u64 + 1;
    let read = if zlib_header {
        flate2::read::ZlibDecoder::new(bytes).take(limit).read_to_end(&mut content)
    } else {
        flate2::read::DeflateDecoder::new(bytes).take(limit).read_to_end(&mut content)
    };
    (read.is_ok() && content.len() == length).then_some(content)
}
