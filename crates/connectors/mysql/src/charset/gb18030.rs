//! GB18030 of MySQL: characters of one, two and four bytes.
//!
//! The server has the standard of 2005: where the web's table of 2022 has new characters, the
//! server still has private ones. Found by converting every code of two bytes, and of four bytes
//! for U+0080 to U+1116F, on MySQL 9.7.

use encoding_rs::GB18030;

use super::{Malformed, push_char};

const INSTEAD: [(u16, char); 19] = [
    (0xa3a0, '\u{e5e5}'),
    (0xa6d9, '\u{e78d}'),
    (0xa6da, '\u{e78e}'),
    (0xa6db, '\u{e78f}'),
    (0xa6dc, '\u{e790}'),
    (0xa6dd, '\u{e791}'),
    (0xa6de, '\u{e792}'),
    (0xa6df, '\u{e793}'),
    (0xa6ec, '\u{e794}'),
    (0xa6ed, '\u{e795}'),
    (0xa6f3, '\u{e796}'),
    (0xfe59, '\u{e81e}'),
    (0xfe61, '\u{e826}'),
    (0xfe66, '\u{e82b}'),
    (0xfe67, '\u{e82c}'),
    (0xfe6d, '\u{e832}'),
    (0xfe7e, '\u{e843}'),
    (0xfe90, '\u{e854}'),
    (0xfea0, '\u{e864}'),
];

pub(super) fn append(bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
    // What has been walked over and not converted yet.
    let mut run = 0;
    let mut at = 0;
    while let Some(lead) = bytes.get(at) {
        let length = match (lead, bytes.get(at + 1)) {
            (0..=0x7f, _) => 1,
            (0x81..=0xfe, Some(0x30..=0x39)) => 4,
            (0x81..=0xfe, Some(trail)) => {
                let code = u16::from_be_bytes([*lead, *trail]);
                if let Ok(i) = INSTEAD.binary_search_by_key(&code, |(c, _)| *c) {
                    convert(&bytes[run..at], into)?;
                    push_char(INSTEAD[i].1, into);
                    run = at + 2;
                }
                2
            }
            _ => return Err(Malformed),
        };
        at += length;
    }
    convert(&bytes[run..], into)
}

fn convert(bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
    let text =
        GB18030.decode_without_bom_handling_and_without_replacement(bytes).ok_or(Malformed)?;
    into.extend_from_slice(text.as_bytes());
    Ok(())
}
