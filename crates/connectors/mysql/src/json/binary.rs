//! The stored form: a type, then a value; containers have tables of offsets in front of what they
//! hold.

use super::Malformed;
use crate::binlog::{Cursor, le_uint};

/// One value, its parts still in stored form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(&'a [u8]),
    /// A value of one of the server's column types.
    Opaque(u8, &'a [u8]),
    Container(Container<'a>),
}

/// An array or an object. Offsets in it count from its first byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Container<'a> {
    pub(super) is_object: bool,
    /// Offsets and counts have four bytes and not two.
    large: bool,
    bytes: &'a [u8],
    pub(super) len: usize,
}

impl<'a> Value<'a> {
    /// An empty document is a JSON null, as the server has it.
    pub(super) fn of_document(document: &'a [u8]) -> Result<Self, Malformed> {
        match document.split_first() {
            None => Ok(Value::Null),
            Some((value_type, bytes)) => Self::read(*value_type, bytes),
        }
    }

    /// `bytes` begin with the value and may go on behind it.
    fn read(value_type: u8, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let number = |width: usize| bytes.get(..width).map(le_uint).ok_or(Malformed);
        Ok(match value_type {
            0 | 1 => Value::Container(Container::read(true, value_type == 1, bytes)?),
            2 | 3 => Value::Container(Container::read(false, value_type == 3, bytes)?),
            4 => match number(1)? {
                0 => Value::Null,
                1 => Value::Bool(true),
                2 => Value::Bool(false),
                _ => return Err(Malformed),
            },
            5 => Value::Int((number(2)? as i16).into()),
            6 => Value::Uint(number(2)?),
            7 => Value::Int((number(4)? as i32).into()),
            8 => Value::Uint(number(4)?),
            9 => Value::Int(number(8)?.cast_signed()),
            10 => Value::Uint(number(8)?),
            11 => Value::Double(f64::from_bits(number(8)?)),
            12 => Value::String(sized(bytes)?),
            15 => {
                let (column_type, rest) = bytes.split_first().ok_or(Malformed)?;
                Value::Opaque(*column_type, sized(rest)?)
            }
            _ => return Err(Malformed),
        })
    }
}

/// Bytes behind their length, which has seven bits in each of at most five bytes.
fn sized(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut length = 0u64;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            let rest = &bytes[i + 1..];
            return usize::try_from(length).ok().and_then(|l| rest.get(..l)).ok_or(Malformed);
        }
    }
    Err(Malformed)
}

impl<'a> Container<'a> {
    fn read(is_object: bool, large: bool, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let width = if large { 4 } else { 2 };
        let mut cursor = Cursor::new(bytes);
        let mut number = || cursor.uint(width).map(|n| n as usize).map_err(|_| Malformed);
        let (len, size) = (number()?, number()?);
        let bytes = bytes.get(..size).ok_or(Malformed)?;
        let container = Self { is_object, large, bytes, len };
        let tables = len.checked_mul(container.key_entry() + container.value_entry());
        let head = tables.and_then(|t| t.checked_add(2 * width)).ok_or(Malformed)?;
        if head > size {
            return Err(Malformed);
        }
        Ok(container)
    }

    fn width(&self) -> usize {
        if self.large { 4 } else { 2 }
    }

    /// Offset and a length of two bytes.
    fn key_entry(&self) -> usize {
        if self.is_object { self.width() + 2 } else { 0 }
    }

    /// Type, then an offset or a small value itself.
    fn value_entry(&self) -> usize {
        1 + self.width()
    }

    fn number(&self, at: usize, width: usize) -> Result<usize, Malformed> {
        let bytes = self.bytes.get(at..at + width).ok_or(Malformed)?;
        Ok(le_uint(bytes) as usize)
    }

    /// The name of a member, in utf8. `index` is below `len`.
    pub(super) fn key(&self, index: usize) -> Result<&'a [u8], Malformed> {
        let entry = 2 * self.width() + index * self.key_entry();
        let offset = self.number(entry, self.width())?;
        let length = self.number(entry + self.width(), 2)?;
        self.bytes.get(offset..offset + length).ok_or(Malformed)
    }

    /// An element or a member's value. `index` is below `len`.
    pub(super) fn value(&self, index: usize) -> Result<Value<'a>, Malformed> {
        let entry = 2 * self.width() + self.len * self.key_entry() + index * self.value_entry();
        let value_type = *self.bytes.get(entry).ok_or(Malformed)?;
        let is_inline = matches!(value_type, 4..=6) || (self.large && matches!(value_type, 7 | 8));
        if is_inline {
            let bytes = self.bytes.get(entry + 1..entry + 1 + self.width()).ok_or(Malformed)?;
            return Value::read(value_type, bytes);
        }
        let offset = self.number(entry + 1, self.width())?;
        Value::read(value_type, self.bytes.get(offset..).ok_or(Malformed)?)
    }
}
