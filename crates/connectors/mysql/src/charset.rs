//! Character sets as the servers mean them: bytes of a row image or a statement to UTF-8.
//!
//! The live path must give the same text as a SELECT in utf8mb4, which the snapshot uses. So
//! conversion follows the servers where they differ from the web's tables (`latin1` is cp1252 with
//! its undefined bytes passed through, `sjis` and `ujis` have a real backslash at full-width ＼,
//! `big5` is without HKSCS), and a well-formed code without a character becomes `?` as there. Bytes
//! that are not well-formed, which the servers do not store, are an error.

mod collations;
mod double_byte;
mod gb18030;
mod single_byte;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use lakeward_core::{Error, Result};

use double_byte::DoubleByte;

/// The character set that a collation number belongs to; `None` for a number that neither server
/// lists.
pub fn of_collation(id: u32) -> Option<&'static str> {
    let after = collations::COLLATIONS.partition_point(|(first, _, _)| *first <= id);
    let (_, last, charset) = collations::COLLATIONS.get(after.checked_sub(1)?)?;
    (id <= *last).then_some(*charset)
}

/// One name for a character set that has two.
pub fn canonical_name(charset: &str) -> &str {
    match charset {
        "utf8" => "utf8mb3",
        other => other,
    }
}

/// Converts text of one character set. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TextDecoder(Form);

#[derive(Debug, Clone)]
enum Form {
    Utf8,
    Ascii,
    SingleByte(Arc<[Short; 256]>),
    DoubleByte(&'static DoubleByte),
    Gb18030,
    Ucs2,
    Utf16,
    Utf16Le,
    Utf32,
}

/// A character in UTF-8; empty where the byte has none.
#[derive(Debug, Clone, Copy, Default)]
struct Short {
    bytes: [u8; 3],
    length: u8,
}

/// The bytes are not well-formed text of the character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl TextDecoder {
    /// `None` for a character set that is not known, and for `binary`, which is not text.
    pub fn for_charset(charset: &str) -> Option<Self> {
        use single_byte as t;
        Some(Self(match charset {
            "utf8mb4" | "utf8mb3" | "utf8" => Form::Utf8,
            "ascii" => Form::Ascii,
            "ucs2" => Form::Ucs2,
            "utf16" => Form::Utf16,
            "utf16le" => Form::Utf16Le,
            "utf32" => Form::Utf32,
            "gb18030" => Form::Gb18030,
            "swe7" => Form::SingleByte(Arc::new(t::swe7())),
            "armscii8" => single(t::ARMSCII8),
            "cp1250" => single(t::CP1250),
            "cp1251" => single(t::CP1251),
            "cp1256" => single(t::CP1256),
            "cp1257" => single(t::CP1257),
            "cp850" => single(t::CP850),
            "cp852" => single(t::CP852),
            "cp866" => single(t::CP866),
            "dec8" => single(t::DEC8),
            "geostd8" => single(t::GEOSTD8),
            "greek" => single(t::GREEK),
            "hebrew" => single(t::HEBREW),
            "hp8" => single(t::HP8),
            "keybcs2" => single(t::KEYBCS2),
            "koi8r" => single(t::KOI8R),
            "koi8u" => single(t::KOI8U),
            "latin1" => single(t::LATIN1),
            "latin2" => single(t::LATIN2),
            "latin5" => single(t::LATIN5),
            "latin7" => single(t::LATIN7),
            "macce" => single(t::MACCE),
            "macroman" => single(t::MACROMAN),
            "tis620" => single(t::TIS620),
            other => Form::DoubleByte(double_byte::for_charset(other)?),
        }))
    }

    /// For a column; `binary` is refused here, since such a column is not text.
    ///
    /// # Errors
    /// `Config`, naming the column.
    pub fn for_column(charset: &str, column: &str) -> Result<Self> {
        Self::for_charset(charset).ok_or_else(|| {
            Error::config("the column's character set is not supported; convert the column to utf8mb4 or exclude the table")
                .with("column", column)
                .with("character set", charset)
        })
    }

    /// Appends the text in UTF-8. On an error `into` may hold a part of it.
    #[inline]
    pub fn append(&self, bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
        match &self.0 {
            Form::Utf8 => {
                std::str::from_utf8(bytes).map_err(|_| Malformed)?;
                into.extend_from_slice(bytes);
                Ok(())
            }
            Form::Ascii if bytes.is_ascii() => {
                into.extend_from_slice(bytes);
                Ok(())
            }
            Form::Ascii => Err(Malformed),
            Form::SingleByte(table) => single_bytes(table, bytes, into),
            Form::DoubleByte(table) => table.append(bytes, into),
            Form::Gb18030 => gb18030::append(bytes, into),
            Form::Ucs2 => utf16(bytes, u16::from_be_bytes, false, into),
            Form::Utf16 => utf16(bytes, u16::from_be_bytes, true, into),
            Form::Utf16Le => utf16(bytes, u16::from_le_bytes, true, into),
            Form::Utf32 => utf32(bytes, into),
        }
    }

    pub fn decode(&self, bytes: &[u8]) -> Result<String, Malformed> {
        let mut text = Vec::with_capacity(bytes.len());
        self.append(bytes, &mut text)?;
        String::from_utf8(text).map_err(|_| Malformed)
    }
}

fn single(upper_half: &str) -> Form {
    let mut table = [Short::default(); 256];
    let characters = (0u8..128).map(char::from).chain(upper_half.chars());
    table.iter_mut().zip(characters).for_each(|(slot, c)| *slot = Short::of(c));
    Form::SingleByte(Arc::new(table))
}

impl Short {
    /// U+FFFD stands for a byte without a character, which the servers show as `?`.
    fn of(c: char) -> Self {
        let mut short = Self::default();
        let mut buffer = [0; 4];
        let text = if c == '\u{fffd}' { "?" } else { c.encode_utf8(&mut buffer) };
        if let Some(slot) = short.bytes.get_mut(..text.len()) {
            slot.copy_from_slice(text.as_bytes());
            short.length = text.len() as u8;
        }
        short
    }
}

#[inline]
fn single_bytes(table: &[Short; 256], bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
    for byte in bytes {
        let short = &table[usize::from(*byte)];
        if short.length == 1 {
            into.push(short.bytes[0]);
        } else if short.length == 0 {
            return Err(Malformed);
        } else {
            into.extend_from_slice(&short.bytes[..usize::from(short.length)]);
        }
    }
    Ok(())
}

fn push_char(c: char, into: &mut Vec<u8>) {
    into.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn utf16(
    bytes: &[u8],
    unit: fn([u8; 2]) -> u16,
    pairs: bool,
    into: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let (units, odd) = bytes.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Malformed);
    }
    for c in char::decode_utf16(units.iter().map(|u| unit(*u))) {
        match c {
            Ok(c) if pairs || c.len_utf16() == 1 => push_char(c, into),
            // UCS-2 knows no pairs: each half stands for itself, and has no character.
            Ok(_) => into.extend_from_slice(b"??"),
            Err(_) if !pairs => into.push(b'?'),
            Err(_) => return Err(Malformed),
        }
    }
    Ok(())
}

fn utf32(bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
    let (units, odd) = bytes.as_chunks::<4>();
    if !odd.is_empty() {
        return Err(Malformed);
    }
    for unit in units {
        push_char(char::from_u32(u32::from_be_bytes(*unit)).ok_or(Malformed)?, into);
    }
    Ok(())
}
