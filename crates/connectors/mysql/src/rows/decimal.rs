//! DECIMAL: groups of nine digits in four bytes, fewer digits in fewer; negative numbers have all
//! bits turned.

/// Bytes of a group of 0 to 9 digits.
const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
const POWERS: [u32; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// How DECIMAL(precision, scale) is cut into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecimalLayout {
    /// Digits of the first, incomplete group before the point.
    head_digits: usize,
    whole_groups: usize,
    fraction_groups: usize,
    /// Digits of the last, incomplete group.
    tail_digits: usize,
}

impl DecimalLayout {
    /// `None` unless `scale <= precision`.
    pub(crate) fn new(precision: u8, scale: u8) -> Option<Self> {
        let before = usize::from(precision.checked_sub(scale)?);
        let after = usize::from(scale);
        Some(Self {
            head_digits: before % 9,
            whole_groups: before / 9,
            fraction_groups: after / 9,
            tail_digits: after % 9,
        })
    }

    pub(crate) fn size_bytes(&self) -> usize {
        GROUP_BYTES[self.head_digits]
            + (self.whole_groups + self.fraction_groups) * 4
            + GROUP_BYTES[self.tail_digits]
    }

    /// Hands over each group's value and number of digits, in order; returns whether the number is
    /// negative. `None` when the bytes are no number of this layout.
    #[inline]
    fn groups(&self, bytes: &[u8], mut take: impl FnMut(u32, usize)) -> Option<bool> {
        let negative = bytes.first()? & 0x80 == 0;
        let turn = if negative { 0xff } else { 0 };
        let mut rest = bytes;
        let mut first = true;
        let mut group = |digits: usize| -> Option<()> {
            let (head, tail) = rest.split_at_checked(GROUP_BYTES[digits])?;
            rest = tail;
            let mut value = 0u32;
            for byte in head {
                let flip = if first { turn ^ 0x80 } else { turn };
                first = false;
                value = value << 8 | u32::from(byte ^ flip);
            }
            if value >= POWERS[digits] {
                return None;
            }
            take(value, digits);
            Some(())
        };
        if self.head_digits > 0 {
            group(self.head_digits)?;
        }
        for _ in 0..self.whole_groups + self.fraction_groups {
            group(9)?;
        }
        if self.tail_digits > 0 {
            group(self.tail_digits)?;
        }
        rest.is_empty().then_some(negative)
    }

    /// The unscaled value. For at most 38 digits.
    #[inline]
    pub(crate) fn unscaled(&self, bytes: &[u8]) -> Option<i128> {
        let mut value = 0i128;
        let negative = self.groups(bytes, |group, digits| {
            value = value.wrapping_mul(POWERS[digits].into()).wrapping_add(group.into());
        })?;
        Some(if negative { -value } else { value })
    }

    /// The number as the server prints it, exact.
    pub(crate) fn append_text(&self, bytes: &[u8], into: &mut Vec<u8>) -> Option<()> {
        let mut digits = Vec::with_capacity(96);
        let negative = self.groups(bytes, |group, count| {
            let mut divisor = POWERS[count] / 10;
            while divisor > 0 {
                digits.push(b'0' + (group / divisor % 10) as u8);
                divisor /= 10;
            }
        })?;
        let whole = self.head_digits + 9 * self.whole_groups;
        let (whole, fraction) = digits.split_at_checked(whole)?;
        write_number(negative, whole, fraction, into);
        Some(())
    }
}

/// Writes a number without leading zeros, and zero without a sign.
fn write_number(negative: bool, whole: &[u8], fraction: &[u8], into: &mut Vec<u8>) {
    let significant = whole.iter().position(|d| *d != b'0').unwrap_or(whole.len());
    let whole = &whole[significant..];
    let is_zero = whole.is_empty() && fraction.iter().all(|d| *d == b'0');
    if negative && !is_zero {
        into.push(b'-');
    }
    into.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if !fraction.is_empty() {
        into.push(b'.');
        into.extend_from_slice(fraction);
    }
}

/// A decimal number as text in its parts: sign, digits before and after the point. `None` when it
/// is something else.
fn split_text(text: &[u8]) -> Option<(bool, &[u8], &[u8])> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let point = digits.iter().position(|b| *b == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    let all_digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    (all_digits && whole.len() + fraction.len() > 0).then_some((negative, whole, fraction))
}

/// The unscaled value of a number as text; `None` when it has more digits after the point than
/// `scale` or does not fit.
pub(crate) fn unscaled_of_text(text: &[u8], scale: u8) -> Option<i128> {
    let (negative, whole, fraction) = split_text(text)?;
    let missing = usize::from(scale).checked_sub(fraction.len())?;
    let zeros = std::iter::repeat_n(&b'0', missing);
    let value = whole.iter().chain(fraction).chain(zeros).try_fold(0i128, |value, digit| {
        value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
    })?;
    Some(if negative { -value } else { value })
}

/// The text of [`DecimalLayout::append_text`] for a number that the server has printed (ZEROFILL
/// puts zeros before it).
pub(crate) fn append_canonical(text: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let (negative, whole, fraction) = split_text(text)?;
    write_number(negative, whole, fraction, into);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The server's `decimal2bin`, written down again.
    fn encode(negative: bool, digits: &[u8], precision: u8, scale: u8) -> Vec<u8> {
        let before = usize::from(precision - scale);
        let (whole, fraction) = digits.split_at(before);
        let mut bytes = Vec::new();
        let mut group = |digits: &[u8]| {
            let value = digits.iter().fold(0u32, |v, d| v * 10 + u32::from(*d));
            bytes.extend_from_slice(&value.to_be_bytes()[4 - GROUP_BYTES[digits.len()]..]);
        };
        let (head, groups) = whole.split_at(before % 9);
        group(head);
        groups.chunks(9).for_each(&mut group);
        fraction.chunks(9).for_each(&mut group);
        if negative {
            bytes.iter_mut().for_each(|b| *b = !*b);
        }
        bytes[0] ^= 0x80;
        bytes
    }

    fn numbers() -> impl Strategy<Value = (bool, Vec<u8>, u8, u8)> {
        (1u8..=65).prop_flat_map(|p| {
            (
                any::<bool>(),
                proptest::collection::vec(0u8..10, usize::from(p)),
                Just(p),
                0..=p.min(38),
            )
        })
    }

    proptest! {
        #[test]
        fn numbers_come_back((negative, digits, precision, scale) in numbers()) {
            let layout = DecimalLayout::new(precision, scale).expect("scale fits");
            let bytes = encode(negative, &digits, precision, scale);
            prop_assert_eq!(bytes.len(), layout.size_bytes());
            let ascii: Vec<u8> = digits.iter().map(|d| d + b'0').collect();
            let (whole, fraction) = ascii.split_at(usize::from(precision - scale));
            let mut expected = Vec::new();
            write_number(negative, whole, fraction, &mut expected);
            let mut text = Vec::new();
            layout.append_text(&bytes, &mut text).expect("a number");
            prop_assert_eq!(&text, &expected);
            if precision <= 38 {
                prop_assert_eq!(layout.unscaled(&bytes), unscaled_of_text(&text, scale));
            }
            let mut canonical = Vec::new();
            append_canonical(&[b"000".as_slice(), &text].concat(), &mut canonical).unwrap_or_default();
            if !text.starts_with(b"-") {
                prop_assert_eq!(canonical, text);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..32), p in 1u8..=65, s in 0u8..=38) {
            if let Some(layout) = DecimalLayout::new(p, s) {
                let _ = layout.append_text(&bytes, &mut Vec::new());
                let _ = layout.unscaled(&bytes);
            }
            let _ = unscaled_of_text(&bytes, s);
        }
    }
}
