//! Character sets and collations by name, as far as a declaration's meaning depends on them.

use std::sync::Arc;

/// Names as current servers spell them, with the most bytes that one character takes.
const CHARSETS: &[(&str, u8)] = &[
    ("armscii8", 1),
    ("ascii", 1),
    ("big5", 2),
    ("binary", 1),
    ("cp1250", 1),
    ("cp1251", 1),
    ("cp1256", 1),
    ("cp1257", 1),
    ("cp850", 1),
    ("cp852", 1),
    ("cp866", 1),
    ("cp932", 2),
    ("dec8", 1),
    ("eucjpms", 3),
    ("euckr", 2),
    ("gb18030", 4),
    ("gb2312", 2),
    ("gbk", 2),
    ("geostd8", 1),
    ("greek", 1),
    ("hebrew", 1),
    ("hp8", 1),
    ("keybcs2", 1),
    ("koi8r", 1),
    ("koi8u", 1),
    ("latin1", 1),
    ("latin2", 1),
    ("latin5", 1),
    ("latin7", 1),
    ("macce", 1),
    ("macroman", 1),
    ("sjis", 2),
    ("swe7", 1),
    ("tis620", 1),
    ("ucs2", 2),
    ("ujis", 3),
    ("utf16", 4),
    ("utf16le", 4),
    ("utf32", 4),
    ("utf8", 3),
    ("utf8mb3", 3),
    ("utf8mb4", 4),
];

pub fn is_known(name: &str) -> bool {
    CHARSETS.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// The most bytes that one character takes; 4 for an unknown character set.
pub fn max_bytes_per_char(charset: &str) -> u8 {
    CHARSETS.iter().find(|(known, _)| *known == charset).map_or(4, |(_, bytes)| *bytes)
}

/// The name as current servers spell it: lower case, `utf8` as `utf8mb3`.
pub fn canonical(charset: &str) -> Arc<str> {
    let lower = charset.to_ascii_lowercase();
    if lower == "utf8" { "utf8mb3".into() } else { lower.into() }
}

/// The character set of a collation; `None` for MariaDB's collations that fit several (`uca1400_ai_ci`).
pub fn of_collation(collation: &str) -> Option<Arc<str>> {
    let prefix = collation.split('_').next().unwrap_or(collation);
    is_known(prefix).then(|| canonical(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collations_name_their_charset() {
        let of = |c| of_collation(c).map(|s| s.to_string());
        assert_eq!(of("utf8mb4_0900_ai_ci").as_deref(), Some("utf8mb4"));
        assert_eq!(of("utf8_general_ci").as_deref(), Some("utf8mb3"));
        assert_eq!(of("utf8mb4_uca1400_ai_ci").as_deref(), Some("utf8mb4"));
        assert_eq!(of("LATIN1_swedish_ci").as_deref(), Some("latin1"));
        assert_eq!(of("binary").as_deref(), Some("binary"));
        assert_eq!(of("uca1400_ai_ci"), None);
    }
}
