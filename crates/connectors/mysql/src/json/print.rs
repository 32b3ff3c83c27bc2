//! Values as the server's `CAST(d AS CHAR)` has them.

use base64::Engine;

use super::Malformed;
use super::binary::Value;
use crate::binlog::{code, le_uint};
use crate::rows::DecimalLayout;

pub(super) fn append(value: &Value<'_>, depth: usize, into: &mut Vec<u8>) -> Result<(), Malformed> {
    match value {
        Value::Null => into.extend_from_slice(b"null"),
        Value::Bool(true) => into.extend_from_slice(b"true"),
        Value::Bool(false) => into.extend_from_slice(b"false"),
        Value::Int(v) => push_display(v, into),
        Value::Uint(v) => push_display(v, into),
        Value::Double(v) => push_double(*v, into)?,
        Value::String(text) => push_string(text, into)?,
        Value::Opaque(column_type, bytes) => push_opaque(*column_type, bytes, into)?,
        Value::Container(container) => {
            let depth = depth.checked_sub(1).ok_or(Malformed)?;
            into.push(if container.is_object { b'{' } else { b'[' });
            for i in 0..container.len {
                if i > 0 {
                    into.extend_from_slice(b", ");
                }
                if container.is_object {
                    push_string(container.key(i)?, into)?;
                    into.extend_from_slice(b": ");
                }
                append(&container.value(i)?, depth, into)?;
            }
            into.push(if container.is_object { b'}' } else { b']' });
        }
    }
    Ok(())
}

fn push_display(value: &dyn std::fmt::Display, into: &mut Vec<u8>) {
    use std::io::Write;
    let written = write!(into, "{value}");
    debug_assert!(written.is_ok(), "a vector takes everything");
}

/// A string with its quotes.
pub(super) fn push_string(text: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
    std::str::from_utf8(text).map_err(|_| Malformed)?;
    into.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b < 0x20 || matches!(b, b'"' | b'\\')) {
        into.extend_from_slice(&rest[..at]);
        let escape = match rest[at] {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\x08' => b'b',
            b'\x0c' => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            other => {
                push_display(&format_args!("\\u{other:04x}"), into);
                rest = &rest[at + 1..];
                continue;
            }
        };
        into.extend([b'\\', escape]);
        rest = &rest[at + 1..];
    }
    into.extend_from_slice(rest);
    into.push(b'"');
    Ok(())
}

/// The shortest digits that mean the number. An exponent for less than 1e-15 and from 1e15 on,
/// except that a fraction is written out; a whole number keeps `.0`.
pub(super) fn push_double(value: f64, into: &mut Vec<u8>) -> Result<(), Malformed> {
    if !value.is_finite() {
        return Err(Malformed);
    }
    let scientific = format!("{value:e}");
    let exponent = scientific.split_once('e').and_then(|(_, e)| e.parse::<i32>().ok());
    match exponent {
        Some(-15..=15) if exponent != Some(15) || value.fract() != 0.0 => {
            let plain = format!("{value}");
            into.extend_from_slice(plain.as_bytes());
            if !plain.contains('.') {
                into.extend_from_slice(b".0");
            }
        }
        _ => into.extend_from_slice(scientific.as_bytes()),
    }
    Ok(())
}

fn push_opaque(column_type: u8, bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
    match column_type {
        code::NEWDECIMAL => {
            let [precision, scale, number @ ..] = bytes else { return Err(Malformed) };
            let layout = DecimalLayout::new(*precision, *scale).ok_or(Malformed)?;
            layout.append_text(number, into).ok_or(Malformed)
        }
        code::DATE | code::DATETIME | code::TIMESTAMP | code::TIME => {
            let packed = le_uint(<&[u8; 8]>::try_from(bytes).map_err(|_| Malformed)?).cast_signed();
            push_time(column_type, packed, into);
            Ok(())
        }
        other => {
            push_display(&format_args!("\"base64:type{other}:"), into);
            // Broken into lines of 76, as the server's base64 is.
            for (i, line) in bytes.chunks(57).enumerate() {
                into.extend_from_slice(if i > 0 { b"\\n" } else { b"" });
                let encoded = base64::engine::general_purpose::STANDARD.encode(line);
                into.extend_from_slice(encoded.as_bytes());
            }
            into.push(b'"');
            Ok(())
        }
    }
}

/// The server's packed form: months of thirteen, days, hours, minutes, seconds, and 24 bits of
/// microseconds.
fn push_time(column_type: u8, packed: i64, into: &mut Vec<u8>) {
    let magnitude = packed.unsigned_abs();
    let (whole, us) = (magnitude >> 24, magnitude & 0xff_ffff);
    let (date, clock) = (whole >> 17, whole & 0x1_ffff);
    let (hour, minute, second) = (clock >> 12, clock >> 6 & 63, clock & 63);
    let sign = if packed < 0 { "-" } else { "" };
    if column_type == code::TIME {
        // Hours go beyond a day, into the bits that a date would have.
        let hour = whole >> 12 & 0x3ff;
        return push_display(
            &format_args!("\"{sign}{hour:02}:{minute:02}:{second:02}.{us:06}\""),
            into,
        );
    }
    let (month, day) = (date >> 5, date & 31);
    let (year, month) = (month / 13, month % 13);
    push_display(&format_args!("\"{sign}{year:04}-{month:02}-{day:02}"), into);
    if column_type != code::DATE {
        push_display(&format_args!(" {hour:02}:{minute:02}:{second:02}.{us:06}"), into);
    }
    into.push(b'"');
}
