//! Chinese, Japanese and Korean character sets of one to three bytes a character.
//!
//! `encoding_rs` has the web's mappings; the lists below say where the servers' differ. All were
//! found by converting every code of each character set on MySQL 9.7 and MariaDB 10.11, which
//! agree.

use std::sync::LazyLock;

use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GBK, SHIFT_JIS};

use super::{Malformed, push_char};

pub(super) fn for_charset(charset: &str) -> Option<&'static DoubleByte> {
    static TABLES: [LazyLock<DoubleByte>; 8] = [
        LazyLock::new(|| DoubleByte::build(&BIG5_RULES)),
        LazyLock::new(|| DoubleByte::build(&CP932_RULES)),
        LazyLock::new(|| DoubleByte::build(&EUCJPMS_RULES)),
        LazyLock::new(|| DoubleByte::build(&EUCKR_RULES)),
        LazyLock::new(|| DoubleByte::build(&GB2312_RULES)),
        LazyLock::new(|| DoubleByte::build(&GBK_RULES)),
        LazyLock::new(|| DoubleByte::build(&SJIS_RULES)),
        LazyLock::new(|| DoubleByte::build(&UJIS_RULES)),
    ];
    let names = ["big5", "cp932", "eucjpms", "euckr", "gb2312", "gbk", "sjis", "ujis"];
    let index = names.iter().position(|n| *n == charset)?;
    Some(&TABLES[index])
}

/// How a character set differs from `encoding`.
struct Rules {
    encoding: &'static Encoding,
    is_pair: fn(lead: u8, trail: u8) -> bool,
    /// Characters of consecutive codes from the first one on.
    instead: &'static [(u32, &'static str)],
    /// Codes that the web has a character for and the servers have none.
    without: &'static [(u16, u16)],
    /// Shift JIS: half-width katakana in one byte.
    katakana: bool,
    /// EUC: a third row of tables behind the byte 8F, and private characters from F5 on.
    euc: bool,
}

/// Every code of one character set.
#[derive(Debug)]
pub(super) struct DoubleByte {
    /// By (lead - 80, trail); 0 where the pair is not well-formed. All characters are of the basic
    /// plane.
    pairs: Box<[u16]>,
    /// By the two bytes behind 8F, counted from A1.
    triples: Option<Box<[u16]>>,
    katakana: bool,
}

const ROW: usize = 94;

impl DoubleByte {
    fn build(rules: &Rules) -> Self {
        let mut pairs = vec![0; 0x8000].into_boxed_slice();
        for (index, slot) in pairs.iter_mut().enumerate() {
            let (lead, trail) = ((index >> 8) as u8 + 0x80, index as u8);
            if (rules.is_pair)(lead, trail) {
                *slot = rules.character(&[lead, trail]);
            }
        }
        let triple = |index: usize| {
            rules.character(&[0x8f, (index / ROW) as u8 + 0xa1, (index % ROW) as u8 + 0xa1])
        };
        let triples = rules.euc.then(|| (0..ROW * ROW).map(triple).collect());
        let mut built = Self { pairs, triples, katakana: rules.katakana };
        for (first, characters) in rules.instead {
            let mut code = *first;
            for c in characters.chars() {
                while built.slot(code).is_none() {
                    code += 1;
                }
                if let Some(slot) = built.slot(code) {
                    *slot = c as u32 as u16;
                }
                code += 1;
            }
        }
        built
    }

    /// Where a well-formed code's character stands.
    fn slot(&mut self, code: u32) -> Option<&mut u16> {
        let (lead, trail) = ((code >> 8) as u8, code as u8);
        if code > 0xffff {
            let (row, cell) = (lead.checked_sub(0xa1)?, trail.checked_sub(0xa1)?);
            let in_row = usize::from(cell) < ROW;
            let triples = self.triples.as_mut().filter(|_| in_row)?;
            return triples.get_mut(usize::from(row) * ROW + usize::from(cell));
        }
        let index = usize::from(lead.checked_sub(0x80)?) << 8 | usize::from(trail);
        self.pairs.get_mut(index).filter(|c| **c != 0)
    }

    pub(super) fn append(&self, bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut rest = bytes;
        while let [lead, tail @ ..] = rest {
            let (code, used) = match (*lead, tail) {
                (byte @ 0..=0x7f, _) => {
                    into.push(byte);
                    rest = tail;
                    continue;
                }
                (0xa1..=0xdf, _) if self.katakana => (0xff61 + u16::from(*lead - 0xa1), 1),
                (0x8f, [second, third, ..]) if self.triples.is_some() => {
                    let row = usize::from(second.checked_sub(0xa1).ok_or(Malformed)?);
                    let cell = usize::from(third.checked_sub(0xa1).ok_or(Malformed)?);
                    let triples = self.triples.as_deref().unwrap_or_default();
                    let code = triples.get(row * ROW + cell).filter(|_| cell < ROW);
                    (*code.ok_or(Malformed)?, 3)
                }
                (_, [trail, ..]) => {
                    let index = usize::from(*lead & 0x7f) << 8 | usize::from(*trail);
                    (self.pairs[index], 2)
                }
                _ => return Err(Malformed),
            };
            if code == 0 {
                return Err(Malformed);
            }
            push_char(char::from_u32(code.into()).ok_or(Malformed)?, into);
            rest = &rest[used..];
        }
        Ok(())
    }
}

impl Rules {
    /// The character of a well-formed code before `instead` is looked at; `?` where there is none.
    fn character(&self, code: &[u8]) -> u16 {
        const NONE: u16 = b'?' as u16;
        if let [.., lead @ 0xf5..=0xfe, trail @ 0xa1..=0xfe] = *code
            && self.euc
        {
            let first = if code.len() == 3 { 0xe3ac } else { 0xe000 };
            return first + u16::from(lead - 0xf5) * ROW as u16 + u16::from(trail - 0xa1);
        }
        if let [lead, trail] = *code {
            let number = u16::from_be_bytes([lead, trail]);
            if self.without.iter().any(|(first, last)| (*first..=*last).contains(&number)) {
                return NONE;
            }
        }
        let text = self.encoding.decode_without_bom_handling_and_without_replacement(code);
        let mut units = text.as_deref().unwrap_or_default().encode_utf16();
        match (units.next(), units.next()) {
            (Some(unit), None) => unit,
            _ => NONE,
        }
    }
}

fn is_euc_pair(lead: u8, trail: u8) -> bool {
    match lead {
        0x8e => (0xa1..=0xdf).contains(&trail),
        0xa1..=0xfe => (0xa1..=0xfe).contains(&trail),
        _ => false,
    }
}

fn is_shift_jis_pair(lead: u8, trail: u8) -> bool {
    matches!(lead, 0x81..=0x9f | 0xe0..=0xfc) && matches!(trail, 0x40..=0x7e | 0x80..=0xfc)
}

fn is_big5_pair(lead: u8, trail: u8) -> bool {
    matches!(lead, 0xa1..=0xf9) && matches!(trail, 0x40..=0x7e | 0xa1..=0xfe)
}

fn is_euckr_pair(lead: u8, trail: u8) -> bool {
    matches!(lead, 0x81..=0xfe) && matches!(trail, 0x41..=0x5a | 0x61..=0x7a | 0x81..=0xfe)
}

fn is_gb2312_pair(lead: u8, trail: u8) -> bool {
    matches!(lead, 0xa1..=0xf7) && matches!(trail, 0xa1..=0xfe)
}

fn is_gbk_pair(lead: u8, trail: u8) -> bool {
    matches!(lead, 0x81..=0xfe) && matches!(trail, 0x40..=0x7e | 0x80..=0xfe)
}

const PLAIN: Rules = Rules {
    encoding: EUC_KR,
    is_pair: is_euckr_pair,
    instead: &[],
    without: &[],
    katakana: false,
    euc: false,
};

static EUCKR_RULES: Rules = PLAIN;

static CP932_RULES: Rules =
    Rules { encoding: SHIFT_JIS, is_pair: is_shift_jis_pair, katakana: true, ..PLAIN };

static SJIS_RULES: Rules = Rules {
    encoding: SHIFT_JIS,
    is_pair: is_shift_jis_pair,
    instead: SJIS_INSTEAD,
    // NEC's and IBM's additions and the private rows: those are cp932's.
    without: &[
        (0x8740, 0x875d),
        (0x875f, 0x8775),
        (0x877e, 0x879c),
        (0xed40, 0xeefc),
        (0xf040, 0xfcfc),
    ],
    katakana: true,
    ..PLAIN
};

static UJIS_RULES: Rules = Rules {
    encoding: EUC_JP,
    is_pair: is_euc_pair,
    instead: UJIS_INSTEAD,
    without: &[(0xada1, 0xadfc)],
    euc: true,
    ..PLAIN
};

static EUCJPMS_RULES: Rules =
    Rules { encoding: EUC_JP, is_pair: is_euc_pair, instead: EUCJPMS_INSTEAD, euc: true, ..PLAIN };

static BIG5_RULES: Rules = Rules {
    encoding: BIG5,
    is_pair: is_big5_pair,
    instead: BIG5_INSTEAD,
    without: &[(0xa3c0, 0xa3e1), (0xc7fd, 0xc87e), (0xc8a1, 0xc8fe), (0xf9dd, 0xf9fe)],
    ..PLAIN
};

static GB2312_RULES: Rules = Rules {
    encoding: GBK,
    is_pair: is_gb2312_pair,
    instead: &[(0xa1a4, "・"), (0xa1aa, "―")],
    without: GB2312_WITHOUT,
    ..PLAIN
};

static GBK_RULES: Rules =
    Rules { encoding: GBK, is_pair: is_gbk_pair, without: GBK_WITHOUT, ..PLAIN };

#[rustfmt::skip]
const GB2312_WITHOUT: &[(u16, u16)] = &[
    (0xa2a1, 0xa2b0), (0xa2e3, 0xa2e4), (0xa2ef, 0xa2f0), (0xa2fd, 0xa2fe), (0xa4f4, 0xa4fe),
    (0xa5f7, 0xa5fe), (0xa6b9, 0xa6c0), (0xa6d9, 0xa6fe), (0xa7c2, 0xa7d0), (0xa7f2, 0xa7fe),
    (0xa8bb, 0xa8c4), (0xa8ea, 0xa9a3), (0xa9f0, 0xaffe), (0xd7fa, 0xd7fe),
];

#[rustfmt::skip]
const GBK_WITHOUT: &[(u16, u16)] = &[
    (0xa140, 0xa1a0), (0xa240, 0xa2a0), (0xa2ab, 0xa2b0), (0xa2e3, 0xa2e4), (0xa2ef, 0xa2f0),
    (0xa2fd, 0xa3a0), (0xa440, 0xa4a0), (0xa4f4, 0xa5a0), (0xa5f7, 0xa6a0), (0xa6b9, 0xa6c0),
    (0xa6d9, 0xa6df), (0xa6ec, 0xa6ed), (0xa6f3, 0xa6f3), (0xa6f6, 0xa7a0), (0xa7c2, 0xa7d0),
    (0xa7f2, 0xa7fe), (0xa896, 0xa8a0), (0xa8bc, 0xa8bc), (0xa8bf, 0xa8bf), (0xa8c1, 0xa8c4),
    (0xa8ea, 0xa8fe), (0xa958, 0xa958), (0xa95b, 0xa95b), (0xa95d, 0xa95f), (0xa989, 0xa995),
    (0xa997, 0xa9a3), (0xa9f0, 0xa9fe), (0xaaa1, 0xaafe), (0xaba1, 0xabfe), (0xaca1, 0xacfe),
    (0xada1, 0xadfe), (0xaea1, 0xaefe), (0xafa1, 0xaffe), (0xd7fa, 0xd7fe), (0xf8a1, 0xf8fe),
    (0xf9a1, 0xf9fe), (0xfaa1, 0xfafe), (0xfba1, 0xfbfe), (0xfca1, 0xfcfe), (0xfda1, 0xfdfe),
    (0xfe50, 0xfefe),
];

#[rustfmt::skip]
const SJIS_INSTEAD: &[(u32, &str)] = &[
    (0x815f, "\\〜‖"),
    (0x817c, "−"),
    (0x8191, "¢"),
    (0x8192, "£"),
    (0x81ca, "¬"),
];

#[rustfmt::skip]
const UJIS_INSTEAD: &[(u32, &str)] = &[
    (0xa1c0, "\\〜‖"),
    (0xa1dd, "−"),
    (0xa1f1, "¢£"),
    (0xa2cc, "¬"),
    (0x8fa2b7, "~"),
];

#[rustfmt::skip]
const EUCJPMS_INSTEAD: &[(u32, &str)] = &[
    (0x8fa2c3, "￤"),
    (0x8ff3f3, concat!(
        "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤\u{fa0e}咊坙\u{fa0f}\u{fa10}增寬峵嵓\u{fa11}德",
        "悅愠敎昻晥\u{fa12}\u{f929}栁\u{fa13}\u{fa14}橫櫢淸淲瀨\u{fa15}\u{fa16}甁皂皞\u{fa17}礰\u{fa18}\u{fa19}\u{fa1a}\u{fa1b}竧\u{fa1c}\u{fa1d}綠緖\u{fa1e}荢\u{fa1f}薰\u{fa20}\u{fa21}蠇\u{fa22}譿賴赶",
        "\u{fa23}\u{fa24}\u{fa25}郞\u{fa26}鄕\u{fa27}\u{fa28}閒\u{f9dc}\u{fa29}霻靍靑\u{fa2a}\u{fa2b}\u{fa2c}馞髙魲\u{fa2d}黑",
    )),
];

#[rustfmt::skip]
const BIG5_INSTEAD: &[(u32, &str)] = &[
    (0xa145, "•"),
    (0xa14e, "､"),
    (0xa15a, "\u{fffd}"),
    (0xa1c2, "‾\u{fffd}"),
    (0xa1c5, "\u{fffd}"),
    (0xa1e3, "∼"),
    (0xa1f2, "♁☉"),
    (0xa1fe, "\u{fffd}\u{fffd}／＼"),
    (0xa244, "¥"),
    (0xa246, "¢£"),
    (0xa2cc, "\u{fffd}"),
    (0xa2ce, "\u{fffd}"),
    (0xc6a1, concat!(
        "ヾゝゞ々ぁあぃいぅうぇえぉおかがきぎくぐけげこごさざしじすずせぜそぞただちぢっつづて",
        "でとどなにぬねのはばぱひびぴふぶぷへべぺほぼぽまみむめもゃやゅゆょよらりるれろゎわゐ",
        "ゑをんァアィイゥウェエォオカガキギクグケゲコゴサザシジスズセゼソゾタダチヂッツヅテデ",
        "トドナニヌネノハバパヒビピフブプヘベペホボポマミムメモャヤュユョヨラリルレロヮワヰヱ",
        "ヲンヴヵヶДЕЁЖЗИЙКЛМУФХЦЧШЩЪЫЬЭЮЯабвгдеёжзийклм",
        "нопрстуфхцчшщъыьэюя①②③④⑤⑥⑦⑧⑨⑩⑴⑵⑶⑷⑸⑹⑺⑻⑼⑽",
    )),
];
