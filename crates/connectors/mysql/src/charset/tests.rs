//! Tests of the character sets against what the servers make of the same bytes.

use super::*;
use xxhash_rust::xxh3::Xxh3;

fn decode(charset: &str, bytes: &[u8]) -> Result<String, Malformed> {
    TextDecoder::for_charset(charset).expect("a known character set").decode(bytes)
}

#[test]
fn text_that_each_server_showed() {
    for (charset, bytes, text) in [
        ("latin1", &b"\x80\x81\xe9"[..], "€\u{81}é"),
        ("cp1251", b"\xcf\xf0\x98", "Пр?"),
        ("koi8r", b"\xf0\xd2", "Пр"),
        ("swe7", b"A[\\]", "AÄÖÅ"),
        ("gbk", b"\xd1\xf9\xb1\xbe", "样本"),
        ("gb18030", b"\xd1\xf9\x81\x30\x81\x30", "样\u{80}"),
        ("big5", b"\xa4\xa4\xa4\xe5", "中文"),
        ("sjis", b"\x93\xfa\xb1\x81\x60", "日ｱ〜"),
        ("cp932", b"\x93\xfa\xb1\x81\x60", "日ｱ～"),
        ("ujis", b"\xc6\xfc\x8e\xb1\x8f\xa2\xb7", "日ｱ~"),
        ("euckr", b"\xb0\xa1", "가"),
        ("ucs2", b"\0A\x4e\x2d", "A中"),
        ("utf16", b"\0A\xd8\x3d\xde\x00", "A😀"),
        ("utf16le", b"A\0\x3d\xd8\x00\xde", "A😀"),
        ("utf32", b"\0\0\0A\0\x01\xf6\0", "A😀"),
        ("tis620", b"\xa1", "ก"),
    ] {
        assert_eq!(decode(charset, bytes).as_deref(), Ok(text), "{charset}");
    }
}

#[test]
fn bytes_that_are_not_text() {
    for (charset, bytes) in [
        ("utf8mb4", &b"\xff"[..]),
        ("ascii", b"\x80"),
        ("swe7", b"\x80"),
        ("gbk", b"a\xd1"),
        ("gbk", b"\x81\x20"),
        ("ujis", b"\x8f\xa1"),
        ("ujis", b"\x8f\xa1\xff"),
        ("gb18030", b"\x81"),
        ("utf16", b"\xd8\x3d"),
        ("utf16", b"A"),
        ("utf32", b"\0\x11\0\0"),
    ] {
        assert_eq!(decode(charset, bytes), Err(Malformed), "{charset} {bytes:x?}");
    }
    assert!(TextDecoder::for_charset("binary").is_none());
    assert!(TextDecoder::for_charset("klingon").is_none());
    let error = TextDecoder::for_column("klingon", "note").expect_err("unknown");
    assert_eq!(error.kind(), lakeward_core::ErrorKind::Config);
    assert!(error.to_string().contains("note") && error.to_string().contains("klingon"));
}

/// Digests of what MySQL 9.7 shows for every pair of bytes from 8000 to FFFF: a mapping that
/// changes is noticed. (One pair is left out: ujis and eucjpms take 8EA0 for a character that they
/// do not have.)
#[test]
fn every_pair_as_the_servers_convert_it() {
    for (charset, digest) in [
        ("big5", 0xcb529f21d02bc04f),
        ("cp932", 0x221b8b805ad9315b),
        ("eucjpms", 0xa2fb15be43332666),
        ("euckr", 0x01867ed86ed618ab),
        ("gb18030", 0x2be7f788ba108cbc),
        ("gb2312", 0xc9a96051aec62a9d),
        ("gbk", 0x78e04146333c3999),
        ("sjis", 0x75864e46c8f4ae34),
        ("ujis", 0xbea6c7a1dcc6cd8e),
    ] {
        let decoder = TextDecoder::for_charset(charset).expect("a known character set");
        let mut hasher = Xxh3::new();
        for code in 0x8000u16..=0xffff {
            // A pair that holds a half-width katakana in its first byte is two characters.
            let text = decoder.decode(&code.to_be_bytes()).ok();
            hasher.update(
                format!("{code}\t{}\n", text.as_deref().map_or("NULL".into(), hex)).as_bytes(),
            );
        }
        assert_eq!(hasher.digest(), digest, "{charset}");
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{b:02X}")).collect()
}

#[test]
fn collations_lead_to_character_sets() {
    for (id, charset) in [
        (1, Some("big5")),
        (8, Some("latin1")),
        (33, Some("utf8mb3")),
        (45, Some("utf8mb4")),
        (63, Some("binary")),
        (255, Some("utf8mb4")),
        (2304, Some("utf8mb4")),
        (0, None),
        (17, None),
        (999_999, None),
    ] {
        assert_eq!(of_collation(id), charset, "{id}");
    }
    let known = |c: &str| c == "binary" || TextDecoder::for_charset(c).is_some();
    assert!(collations::COLLATIONS.iter().all(|(first, last, c)| first <= last && known(c)));
    assert!(collations::COLLATIONS.is_sorted_by_key(|(first, _, _)| *first));
}
