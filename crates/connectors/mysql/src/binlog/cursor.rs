//! A bounds-checked reader over an event's bytes. Every read of the decoder goes through it.

use lakeward_core::{Error, Result};

/// What is left of an event. Integers are little-endian unless the name says otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(length) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(truncated()),
        }
    }

    #[inline]
    pub fn skip(&mut self, length: usize) -> Result<()> {
        self.take(length).map(|_| ())
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(truncated()),
        }
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[b]| b)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An integer of `width` bytes, at most 8.
    #[inline]
    pub fn uint(&mut self, width: usize) -> Result<u64> {
        Ok(le_uint(self.take(width)?))
    }

    /// MySQL's length-encoded integer ("packed integer").
    #[inline]
    pub fn packed_uint(&mut self) -> Result<u64> {
        match self.u8()? {
            first @ 0..=250 => Ok(u64::from(first)),
            252 => self.u16().map(u64::from),
            253 => self.uint(3),
            254 => self.u64(),
            _ => Err(malformed("a length prefix is not one")),
        }
    }

    /// A packed integer that counts bytes or items, so that it has to fit memory.
    #[inline]
    pub fn packed_len(&mut self) -> Result<usize> {
        usize::try_from(self.packed_uint()?).map_err(|_| truncated())
    }

    /// Bytes up to a zero byte, which is skipped.
    pub fn until_zero(&mut self) -> Result<&'a [u8]> {
        let end = self.rest.iter().position(|b| *b == 0).ok_or_else(truncated)?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    /// An integer of the `mysql::serialization` format (tagged GTIDs): the number of set bits at
    /// the low end of the first byte is the number of bytes that follow.
    pub fn serialized_uint(&mut self) -> Result<u64> {
        let first = self.u8()?;
        let following = first.trailing_ones() as usize;
        let low = if following >= 7 { 0 } else { u64::from(first >> (following + 1)) };
        let low_bits = 7usize.saturating_sub(following);
        if following == 0 {
            return Ok(low);
        }
        let high = self.uint(following)?;
        Ok(if following == 8 { high } else { low | (high << low_bits) })
    }

    /// As [`Cursor::serialized_uint`], with the sign in the lowest bit.
    pub fn serialized_int(&mut self) -> Result<i64> {
        let raw = self.serialized_uint()?;
        let magnitude = (raw >> 1) as i64;
        Ok(if raw & 1 == 1 { !magnitude } else { magnitude })
    }
}

/// A little-endian integer of at most 8 bytes.
#[inline]
pub fn le_uint(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, b| (value << 8) | u64::from(*b))
}

/// A big-endian integer of at most 8 bytes.
#[inline]
pub fn be_uint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, b| (value << 8) | u64::from(*b))
}

/// Damaged in transit or not an event at all: reading it again may help, so the kind is `Transient`.
#[cold]
pub fn truncated() -> Error {
    Error::transient("a binlog event ends before its content does; it was damaged on its way here")
}

#[cold]
pub fn malformed(what: &'static str) -> Error {
    Error::transient("a binlog event cannot be read").with("cause", what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packed_integers() {
        for (bytes, value) in [
            (&[5][..], 5),
            (&[250], 250),
            (&[252, 1, 2], 0x0201),
            (&[253, 1, 2, 3], 0x0003_0201),
            (&[254, 1, 0, 0, 0, 0, 0, 0, 1], 0x0100_0000_0000_0001),
        ] {
            assert_eq!(Cursor::new(bytes).packed_uint().expect("whole"), value);
            assert!(Cursor::new(&bytes[..bytes.len() - 1]).packed_uint().is_err());
        }
        assert!(Cursor::new(&[251]).packed_uint().is_err());
        assert!(Cursor::new(&[255]).packed_uint().is_err());
    }

    #[test]
    fn serialized_integers() {
        for (bytes, value) in [
            (&[0b0000_0010][..], 1),
            (&[0b1111_1110], 127),
            // One following byte: six low bits in the first, eight above them.
            (&[0b0000_0001, 0b0000_0010], 128),
            (&[0xff, 1, 0, 0, 0, 0, 0, 0, 0x80], 0x8000_0000_0000_0001),
        ] {
            assert_eq!(Cursor::new(bytes).serialized_uint().expect("whole"), value);
        }
    }

    proptest! {
        #[test]
        fn reads_never_pass_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.packed_len().is_ok() {}
            let mut cursor = Cursor::new(&bytes);
            while cursor.serialized_int().is_ok() {}
            let mut cursor = Cursor::new(&bytes);
            while cursor.until_zero().is_ok() {}
            prop_assert!(cursor.remaining() <= bytes.len());
        }
    }
}
