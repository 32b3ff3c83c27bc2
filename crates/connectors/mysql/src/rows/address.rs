//! MariaDB's UUID, INET4 and INET6 as the text that the server shows. Row images hold them in
//! network order (whatever order the storage engine sorts them in), with zero bytes at the end cut
//! off.

/// The value at its full length.
fn padded<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let mut value = [0; N];
    value.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(value)
}

fn push_hex(byte: u8, into: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    into.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

pub(crate) fn append_uuid(bytes: &[u8], into: &mut Vec<u8>) -> Option<()> {
    for (i, byte) in padded::<16>(bytes)?.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            into.push(b'-');
        }
        push_hex(byte, into);
    }
    Some(())
}

pub(crate) fn append_inet4(bytes: &[u8], into: &mut Vec<u8>) -> Option<()> {
    push_dotted(padded(bytes)?, into);
    Some(())
}

fn push_dotted(bytes: [u8; 4], into: &mut Vec<u8>) {
    into.extend_from_slice(std::net::Ipv4Addr::from(bytes).to_string().as_bytes());
}

/// Unlike RFC 5952 the server shortens a single zero too, and writes the last four bytes in dotted
/// form behind six zero words and behind five and FFFF.
pub(crate) fn append_inet6(bytes: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let bytes = padded::<16>(bytes)?;
    let mut words = [0u16; 8];
    for (word, pair) in words.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *word = u16::from_be_bytes(*pair);
    }
    let (start, length) = longest_zeros(&words);
    let mut i = 0;
    while i < 8 {
        if length > 0 && i == start {
            into.extend_from_slice(b"::");
            i += length;
            continue;
        }
        let follows_gap = length > 0 && i == start + length;
        if i > 0 && !follows_gap {
            into.push(b':');
        }
        if i == 6
            && length > 0
            && start == 0
            && (length == 6 || (length == 5 && words[5] == 0xffff))
        {
            push_dotted([bytes[12], bytes[13], bytes[14], bytes[15]], into);
            break;
        }
        into.extend_from_slice(format!("{:x}", words[i]).as_bytes());
        i += 1;
    }
    Some(())
}

/// Start and length of the first longest run.
fn longest_zeros(words: &[u16; 8]) -> (usize, usize) {
    let mut longest = (0, 0);
    for start in 0..8 {
        let length = words[start..].iter().take_while(|w| **w == 0).count();
        if length > longest.1 {
            longest = (start, length);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet6(words: [u16; 8]) -> String {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        let kept = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
        let mut text = Vec::new();
        append_inet6(&bytes[..kept], &mut text).expect("sixteen bytes");
        String::from_utf8(text).expect("ascii")
    }

    /// Every line is what MariaDB 10.11 answered.
    #[test]
    fn inet6_as_the_server_shows_it() {
        for (words, text) in [
            ([0; 8], "::"),
            ([0, 0, 0, 0, 0, 0, 0, 1], "::1"),
            ([0, 0, 0, 0, 0, 0xffff, 0x102, 0x304], "::ffff:1.2.3.4"),
            ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], "2001:db8::1"),
            ([1, 0, 0, 2, 0, 0, 0, 3], "1:0:0:2::3"),
            ([0, 0, 0, 0, 0, 0, 0x102, 0x304], "::1.2.3.4"),
            ([1, 0, 0, 0, 0, 0, 0, 0], "1::"),
            ([0, 0, 0, 0, 0, 0, 1, 0], "::0.1.0.0"),
            ([0, 0, 0, 0, 0, 0xffff, 0, 0], "::ffff:0.0.0.0"),
            ([1, 2, 3, 4, 5, 6, 7, 0], "1:2:3:4:5:6:7::"),
            ([1, 2, 0, 4, 5, 6, 7, 8], "1:2::4:5:6:7:8"),
            ([0, 1, 2, 3, 4, 5, 6, 7], "::1:2:3:4:5:6:7"),
            ([0, 0, 0, 0, 0xffff, 0, 0x102, 0x304], "::ffff:0:102:304"),
            ([1, 2, 3, 4, 5, 6, 7, 8], "1:2:3:4:5:6:7:8"),
        ] {
            assert_eq!(inet6(words), text);
        }
    }

    #[test]
    fn cut_zeros_come_back() {
        let mut text = Vec::new();
        append_uuid(&[0xf4, 0x7a, 0xc1], &mut text).expect("short is fine");
        assert_eq!(text, b"f47ac100-0000-0000-0000-000000000000");
        text.clear();
        append_inet4(&[10], &mut text).expect("short is fine");
        assert_eq!(text, b"10.0.0.0");
        assert_eq!(append_inet4(&[1; 5], &mut text), None);
        assert_eq!(append_uuid(&[1; 17], &mut text), None);
    }
}
