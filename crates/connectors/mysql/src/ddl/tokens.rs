//! SQL text to tokens, by the servers' lexical rules: executable comments are code, other comments are nothing.

use lakeward_core::{Error, Result};

use super::{Flavor, SqlMode, charsets};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token<'a> {
    /// A keyword or a name without quotes.
    Word(&'a str),
    /// A name in backticks, or in double quotes where those quote names.
    Quoted(String),
    /// A string, with escapes undone.
    Text(String),
    /// `x'…'`, `0x…`, `b'…'`, and strings after `_binary`.
    Bytes(Vec<u8>),
    /// Without a sign, as written.
    Number(&'a str),
    /// `@name`, `@@name`.
    Variable,
    Symbol(char),
}

/// Reads one token after another.
pub struct Lexer<'a> {
    sql: &'a str,
    at: usize,
    mode: SqlMode,
    /// Inside `/*! … */`.
    in_executable_comment: bool,
    /// The last token was a name and a dot: what follows is a name even where it starts with a digit.
    after_dot: bool,
    after_name: bool,
}

impl<'a> Lexer<'a> {
    pub fn new(sql: &'a str, mode: SqlMode) -> Self {
        Self { sql, at: 0, mode, in_executable_comment: false, after_dot: false, after_name: false }
    }

    /// The next token, `None` at the end.
    ///
    /// # Errors
    /// `SchemaIncompatible` where the text ends inside a string, name or comment.
    pub fn next_token(&mut self) -> Result<Option<Token<'a>>> {
        self.skip_blanks()?;
        let Some(c) = self.peek() else { return Ok(None) };
        let after_dot = std::mem::take(&mut self.after_dot);
        let after_name = std::mem::take(&mut self.after_name);
        let token = match c {
            '`' => Token::Quoted(self.quoted('`', false)?),
            '"' if self.mode.ansi_quotes => Token::Quoted(self.quoted('"', false)?),
            '\'' | '"' => Token::Text(self.quoted(c, !self.mode.no_backslash_escapes)?),
            '@' => self.variable()?,
            _ if after_dot && is_name(c) => Token::Word(self.take_while(is_name)),
            '0'..='9' => self.number(),
            '.' if self.peek_at(1).is_some_and(|d| d.is_ascii_digit()) && !after_name => {
                self.number()
            }
            _ if is_name(c) => self.word()?,
            _ => {
                self.at += c.len_utf8();
                Token::Symbol(c)
            }
        };
        self.after_name = matches!(token, Token::Word(_) | Token::Quoted(_));
        self.after_dot = after_name && token == Token::Symbol('.');
        Ok(Some(token))
    }

    fn rest(&self) -> &'a str {
        &self.sql[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn peek_at(&self, n: usize) -> Option<char> {
        self.rest().chars().nth(n)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn unfinished(&self, what: &'static str) -> Error {
        Error::schema_incompatible(format!("a statement in the log ends inside a {what}"))
            .with("byte", self.at)
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            self.take_while(|c| c.is_whitespace() || c == '\0');
            let rest = self.rest();
            if rest.starts_with('#') || is_dash_comment(rest) {
                self.take_while(|c| c != '\n');
            } else if self.in_executable_comment && rest.starts_with("*/") {
                self.in_executable_comment = false;
                self.at += 2;
            } else if rest.starts_with("/*") {
                self.comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// At `/*`: steps over a comment, or into one that the server executes.
    fn comment(&mut self) -> Result<()> {
        let rest = self.rest();
        let body = match self.mode.flavor {
            _ if rest.starts_with("/*!") => Some(&rest[3..]),
            Flavor::MariaDb if rest.starts_with("/*M!") => Some(&rest[4..]),
            _ => None,
        };
        let Some(body) = body else {
            let end = rest.find("*/").ok_or_else(|| self.unfinished("comment"))?;
            // `/*/` does not close itself.
            let end = if end < 2 { rest[2..].find("*/").map(|e| e + 2) } else { Some(end) };
            self.at += end.ok_or_else(|| self.unfinished("comment"))? + 2;
            return Ok(());
        };
        let digits = body.bytes().take(6).take_while(u8::is_ascii_digit).count();
        let digits = if digits < 5 { 0 } else { digits };
        let version: u32 = body[..digits].parse().unwrap_or(0);
        let start = rest.len() - body.len() + digits;
        // MariaDB leaves out what only MySQL 5.7 to 9 understands, because the numbers of the two cross.
        let is_mysql_only = self.mode.flavor == Flavor::MariaDb
            && rest.starts_with("/*!")
            && (50700..100_000).contains(&version);
        if !is_mysql_only {
            self.at += start;
            self.in_executable_comment = true;
            return Ok(());
        }
        let mut depth = 1;
        let mut at = start;
        while depth > 0 {
            let here = &rest[at..];
            let next = here.find('*').ok_or_else(|| self.unfinished("comment"))?;
            if here[next..].starts_with("*/") {
                depth -= 1;
                at += next + 2;
            } else {
                if here[..next].ends_with('/') {
                    depth += 1;
                }
                at += next + 1;
            }
        }
        self.at += at;
        Ok(())
    }

    /// At the opening quote.
    fn quoted(&mut self, quote: char, escapes: bool) -> Result<String> {
        let mut value = String::new();
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((i, c)) = chars.next() {
            if c == quote {
                if chars.next_if(|(_, next)| *next == quote).is_some() {
                    value.push(quote);
                    continue;
                }
                self.at += i + 1;
                return Ok(value);
            }
            if c == '\\' && escapes {
                let Some((_, escaped)) = chars.next() else { break };
                match escaped {
                    '0' => value.push('\0'),
                    'b' => value.push('\u{8}'),
                    'n' => value.push('\n'),
                    'r' => value.push('\r'),
                    't' => value.push('\t'),
                    'Z' => value.push('\u{1a}'),
                    '%' | '_' => value.extend(['\\', escaped]),
                    other => value.push(other),
                }
                continue;
            }
            value.push(c);
        }
        Err(self.unfinished(if quote == '`' { "name" } else { "string" }))
    }

    fn variable(&mut self) -> Result<Token<'a>> {
        self.take_while(|c| c == '@');
        match self.peek() {
            Some(quote @ ('`' | '"' | '\'')) => {
                self.quoted(quote, false)?;
            }
            _ => {
                self.take_while(|c| is_name(c) || c == '.');
            }
        }
        Ok(Token::Variable)
    }

    /// A name, a keyword, or the prefix of a literal.
    fn word(&mut self) -> Result<Token<'a>> {
        let word = self.take_while(is_name);
        let next = self.peek();
        if next == Some('\'') {
            match word {
                "x" | "X" => {
                    let digits = self.quoted('\'', false)?;
                    return Ok(Token::Bytes(hex_bytes(&digits)));
                }
                "b" | "B" => {
                    let digits = self.quoted('\'', false)?;
                    return Ok(Token::Bytes(bit_bytes(&digits)));
                }
                "n" | "N" => {
                    return Ok(Token::Text(self.quoted('\'', !self.mode.no_backslash_escapes)?));
                }
                _ => {}
            }
        }
        let Some(charset) = word.strip_prefix('_').filter(|c| charsets::is_known(c)) else {
            return Ok(Token::Word(word));
        };
        // An introducer belongs to the literal after it; anywhere else it is a name.
        let after_word = (self.at, self.in_executable_comment);
        self.skip_blanks()?;
        let starts_literal = match self.peek() {
            Some('\'') => true,
            Some('"') => !self.mode.ansi_quotes,
            Some('x' | 'X' | 'b' | 'B' | 'n' | 'N') => self.peek_at(1) == Some('\''),
            Some('0') => matches!(self.peek_at(1), Some('x' | 'b')),
            _ => false,
        };
        if !starts_literal {
            (self.at, self.in_executable_comment) = after_word;
            return Ok(Token::Word(word));
        }
        let is_binary = charset.eq_ignore_ascii_case("binary");
        Ok(match self.next_token()? {
            Some(Token::Text(text)) if is_binary => Token::Bytes(text.into_bytes()),
            // Bytes under an introducer are text where they can be told to be.
            Some(Token::Bytes(bytes)) if !is_binary => match String::from_utf8(bytes) {
                Ok(text) if text.is_ascii() || charset.starts_with("utf8") => Token::Text(text),
                Ok(text) => Token::Bytes(text.into_bytes()),
                Err(e) => Token::Bytes(e.into_bytes()),
            },
            Some(literal) => literal,
            None => return Err(self.unfinished("string")),
        })
    }

    fn number(&mut self) -> Token<'a> {
        let rest = self.rest();
        for (prefix, radix) in [("0x", 16), ("0b", 2)] {
            let Some(tail) = rest.strip_prefix(prefix) else { continue };
            let digits = &tail[..tail.find(|c| !is_name(c)).unwrap_or(tail.len())];
            if !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix)) {
                self.at += 2 + digits.len();
                return Token::Bytes(if radix == 16 {
                    hex_bytes(digits)
                } else {
                    bit_bytes(digits)
                });
            }
        }
        let bytes = rest.as_bytes();
        let digits_from = |from: usize| {
            bytes[from.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count()
        };
        let whole = digits_from(0);
        let mut end = whole;
        if bytes.get(end) == Some(&b'.') {
            end += 1 + digits_from(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits_from(end + 1 + sign);
            if exponent > 0 {
                end += 1 + sign + exponent;
            }
        }
        // `2024_sales` and `1e5x` are names, `1.5x` is a number and a name.
        if end > 0 && !rest[..end].contains(['.', '+', '-']) && rest[end..].starts_with(is_name) {
            return Token::Word(self.take_while(is_name));
        }
        self.at += end;
        Token::Number(&rest[..end])
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || (!c.is_ascii() && !c.is_whitespace())
}

/// `--` opens a comment only before a blank or the end.
fn is_dash_comment(rest: &str) -> bool {
    rest.strip_prefix("--")
        .is_some_and(|tail| tail.chars().next().is_none_or(|c| c.is_whitespace() || c.is_control()))
}

/// An odd number of digits has a zero in front, as the servers read `0xF`.
fn hex_bytes(digits: &str) -> Vec<u8> {
    let nibbles: Vec<u8> = digits.chars().map(|c| c.to_digit(16).unwrap_or(0) as u8).collect();
    let (first, pairs) = nibbles.split_at(nibbles.len() % 2);
    first.iter().copied().chain(pairs.chunks_exact(2).map(|p| p[0] << 4 | p[1])).collect()
}

fn bit_bytes(digits: &str) -> Vec<u8> {
    let bits: Vec<u8> = digits.bytes().map(|b| u8::from(b == b'1')).collect();
    bits.rchunks(8).rev().map(|byte| byte.iter().fold(0, |acc, bit| acc << 1 | bit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(sql: &str, mode: SqlMode) -> Result<Vec<Token<'_>>> {
        let mut lexer = Lexer::new(sql, mode);
        let mut tokens = Vec::new();
        while let Some(token) = lexer.next_token()? {
            tokens.push(token);
        }
        Ok(tokens)
    }

    fn mysql(sql: &str) -> Vec<Token<'_>> {
        all(sql, SqlMode::new(Flavor::MySql)).expect("readable")
    }

    #[test]
    fn literals() {
        use Token::*;
        let text = |s: &str| Text(s.into());
        assert_eq!(mysql(r"'it''s' 'a\'b' 'x\n\%'"), [text("it's"), text("a'b"), text("x\n\\%")]);
        assert_eq!(mysql(r#""a""b" n'q' "#), [text("a\"b"), text("q")]);
        assert_eq!(
            mysql("x'00fF' 0xABC b'101' 0b1"),
            [Bytes(vec![0, 255]), Bytes(vec![0xA, 0xBC]), Bytes(vec![5]), Bytes(vec![1])]
        );
        assert_eq!(
            mysql("b'100000001' b'' x''"),
            [Bytes(vec![1, 1]), Bytes(vec![]), Bytes(vec![])]
        );
        assert_eq!(
            mysql("_utf8mb4'x' _binary 'y' _latin1 x'41' _name"),
            [text("x"), Bytes(b"y".to_vec()), text("A"), Word("_name")]
        );
        assert_eq!(
            mysql("1 1.5 .5 1e3 1.5E-3 10."),
            [
                Number("1"),
                Number("1.5"),
                Number(".5"),
                Number("1e3"),
                Number("1.5E-3"),
                Number("10.")
            ]
        );
    }

    #[test]
    fn names() {
        use Token::*;
        assert_eq!(mysql("`a``b` `a b`"), [Quoted("a`b".into()), Quoted("a b".into())]);
        assert_eq!(
            mysql("2024_sales 1e5x 0xzz t.1e5 t.2x"),
            [
                Word("2024_sales"),
                Word("1e5x"),
                Word("0xzz"),
                Word("t"),
                Symbol('.'),
                Word("1e5"),
                Word("t"),
                Symbol('.'),
                Word("2x")
            ]
        );
        assert_eq!(mysql("größe 表"), [Word("größe"), Word("表")]);
        assert_eq!(mysql("@a @@session.x @`b c`"), [Variable, Variable, Variable]);
        let mut mode = SqlMode::new(Flavor::MySql);
        mode.ansi_quotes = true;
        mode.no_backslash_escapes = true;
        assert_eq!(
            all(r#""a\" '\'"#, mode).expect("readable"),
            [Quoted("a\\".into()), Text("\\".into())]
        );
    }

    #[test]
    fn comments() {
        use Token::*;
        assert_eq!(
            mysql("a/**/b /*/ x */ c -- d\n e # f\n--g"),
            [Word("a"), Word("b"), Word("c"), Word("e"), Symbol('-'), Symbol('-'), Word("g")]
        );
        assert_eq!(mysql("/*!40100 a /* n */ b */ c"), [Word("a"), Word("b"), Word("c")]);
        assert_eq!(mysql("/*! a*/ /*M!100301 b */ /*!80016 c*/"), [Word("a"), Word("c")]);
        let maria = all(
            "/*!80016 a /* n */ b */ /*M!100301 c */ /*!100100 d */ /*!50100 e*/",
            SqlMode::new(Flavor::MariaDb),
        );
        assert_eq!(maria.expect("readable"), [Word("c"), Word("d"), Word("e")]);
    }

    #[test]
    fn unfinished_text_is_an_error() {
        for sql in ["'a", "`a", "\"a", "/* a", "'a\\", "x'1", "_utf8mb4'", "'it''", "/*/"] {
            assert!(all(sql, SqlMode::new(Flavor::MySql)).is_err(), "{sql}");
        }
        assert!(all("/*!80016 a", SqlMode::new(Flavor::MariaDb)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_ends(sql in "\\PC*", bits in 0u64..1 << 24, maria: bool) {
            let flavor = if maria { Flavor::MariaDb } else { Flavor::MySql };
            let _ = all(&sql, SqlMode::from_bits(flavor, bits, true));
        }

        #[test]
        fn quoting_round_trips(name in ".*") {
            let sql = format!("`{}`", name.replace('`', "``"));
            prop_assert_eq!(mysql(&sql), vec![Token::Quoted(name)]);
        }
    }
}
