//! Words, names, texts and signs of a statement, and a cursor over them.

use super::SqlError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A keyword or a plain name.
    Word(String),
    /// A name in backticks.
    Name(String),
    /// In single or double quotes.
    Text(String),
    Number(String),
    Sign(char),
}

#[derive(Debug, Clone)]
pub struct Tokens {
    tokens: Vec<(Token, usize, usize)>,
    source: String,
    at: usize,
}

impl Tokens {
    pub fn read(source: &str) -> Result<Self, SqlError> {
        let tokens = lex(source)?;
        Ok(Self { tokens, source: source.to_owned(), at: 0 })
    }

    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, ..)| token)
    }

    pub fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|(token, ..)| token)
    }

    pub fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    /// Takes the words if all of them come next.
    pub fn accept(&mut self, words: &str) -> bool {
        let all = words.split(' ').enumerate();
        let fits = all.clone().all(|(ahead, word)| {
            matches!(self.peek_at(ahead), Some(Token::Word(w)) if w.eq_ignore_ascii_case(word))
        });
        if fits {
            self.at += all.count();
        }
        fits
    }

    pub fn expect(&mut self, words: &str) -> Result<(), SqlError> {
        match self.accept(words) {
            true => Ok(()),
            false => Err(self.unexpected(words)),
        }
    }

    pub fn accept_sign(&mut self, sign: char) -> bool {
        let fits = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(fits);
        fits
    }

    pub fn expect_sign(&mut self, sign: char) -> Result<(), SqlError> {
        match self.accept_sign(sign) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("'{sign}'"))),
        }
    }

    /// A name, plain or in backticks.
    pub fn name(&mut self) -> Result<String, SqlError> {
        match self.peek() {
            Some(Token::Word(name) | Token::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    pub fn text(&mut self) -> Result<String, SqlError> {
        match self.peek() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected("a text")),
        }
    }

    pub fn number(&mut self) -> Result<String, SqlError> {
        match self.peek() {
            Some(Token::Number(number)) => {
                let number = number.clone();
                self.at += 1;
                Ok(number)
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// `a, b, c)`, after the opening parenthesis.
    pub fn names(&mut self) -> Result<Vec<String>, SqlError> {
        let mut names = vec![self.name()?];
        while self.accept_sign(',') {
            names.push(self.name()?);
        }
        self.expect_sign(')')?;
        Ok(names)
    }

    /// What stands in the parentheses that come next, and steps over them.
    pub fn parenthesized(&mut self) -> Result<String, SqlError> {
        let begun = self.position();
        self.expect_sign('(')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Some(Token::Sign('(')) => depth += 1,
                Some(Token::Sign(')')) => depth -= 1,
                Some(_) => {}
                None => return Err(self.unexpected("')'")),
            }
        }
        Ok(self.source[begun..self.end_of_last()].to_owned())
    }

    /// Where the next token begins in the source.
    pub fn position(&self) -> usize {
        self.tokens.get(self.at).map_or(self.source.len(), |(_, from, _)| *from)
    }

    /// Where the last token that was taken ends.
    pub fn end_of_last(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |(_, _, to)| *to)
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// The rest of the source.
    pub fn rest(&self) -> &str {
        &self.source[self.position()..]
    }

    /// Only semicolons may follow.
    pub fn end(&mut self) -> Result<(), SqlError> {
        while self.accept_sign(';') {}
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end of the statement")),
        }
    }

    pub fn unexpected(&self, expected: &str) -> SqlError {
        let rest: String = self.rest().chars().take(40).collect();
        SqlError::syntax(format!("mismatched input '{rest}' expecting {expected}"))
    }

    /// All tokens with where they stand in the source.
    pub fn all(&self) -> &[(Token, usize, usize)] {
        &self.tokens
    }
}

fn lex(source: &str) -> Result<Vec<(Token, usize, usize)>, SqlError> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let begun = at;
        let token = match bytes[at] {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'#' => {
                at = line_end(bytes, at);
                continue;
            }
            b'-' if bytes[at..].starts_with(b"-- ") || bytes[at..].starts_with(b"--\n") => {
                at = line_end(bytes, at);
                continue;
            }
            b'/' if bytes[at..].starts_with(b"/*") => {
                let end = source[at + 2..].find("*/");
                let end = end.ok_or_else(|| SqlError::syntax("a comment has no end".into()))?;
                at += end + 4;
                continue;
            }
            quote @ (b'\'' | b'"' | b'`') => {
                let (text, end) = quoted(source, at, quote)?;
                at = end;
                if quote == b'`' { Token::Name(text) } else { Token::Text(text) }
            }
            b if b.is_ascii_digit() => {
                let numeric = |b: &u8| b.is_ascii_alphanumeric() || *b == b'.';
                at += bytes[at..].iter().take_while(|b| numeric(b)).count();
                let text = &source[begun..at];
                match text.bytes().all(|b| b.is_ascii_digit() || b".eE".contains(&b)) {
                    true => Token::Number(text.to_owned()),
                    false => Token::Word(text.to_owned()),
                }
            }
            b if b.is_ascii_alphabetic() || b == b'_' || b == b'@' || b >= 0x80 => {
                let word = |b: &u8| b.is_ascii_alphanumeric() || b"_@$".contains(b) || *b >= 0x80;
                at += bytes[at..].iter().take_while(|b| word(b)).count();
                Token::Word(source[begun..at].to_owned())
            }
            other => {
                at += 1;
                Token::Sign(char::from(other))
            }
        };
        tokens.push((token, begun, at));
    }
    Ok(tokens)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n)
}

/// The text within quotes, and where it ends. A doubled quote stands for itself; in texts, a backslash escapes.
fn quoted(source: &str, begun: usize, quote: u8) -> Result<(String, usize), SqlError> {
    let mut text = String::new();
    let mut chars = source[begun + 1..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = begun + 1 + at + c.len_utf8();
        if c == char::from(quote) {
            if chars.peek().is_some_and(|(_, next)| *next == c) {
                chars.next();
                text.push(c);
                continue;
            }
            return Ok((text, end));
        }
        if c != '\\' || quote == b'`' {
            text.push(c);
            continue;
        }
        match chars.next().map(|(_, c)| c) {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('0') => text.push('\0'),
            Some('b') => text.push('\u{8}'),
            Some('Z') => text.push('\u{1a}'),
            Some(wildcard @ ('%' | '_')) => {
                text.push('\\');
                text.push(wildcard);
            }
            Some(other) => text.push(other),
            None => break,
        }
    }
    Err(SqlError::syntax("a quote has no end".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_comments() {
        let sql = "SELECT /* x */ `a``b`, 'it''s \\'q\\'' -- end\n FROM t1 # more";
        let all: Vec<Token> =
            Tokens::read(sql).unwrap().all().iter().map(|(token, ..)| token.clone()).collect();
        assert_eq!(
            all,
            [
                Token::Word("SELECT".into()),
                Token::Name("a`b".into()),
                Token::Sign(','),
                Token::Text("it's 'q'".into()),
                Token::Word("FROM".into()),
                Token::Word("t1".into()),
            ]
        );
        assert!(Tokens::read("'open").is_err());
        assert!(Tokens::read("/* open").is_err());
    }

    #[test]
    fn nested_parentheses_are_stepped_over() {
        let mut tokens = Tokens::read("RANGE (date_trunc(`d`, 'day')) () x").unwrap();
        tokens.expect("range").unwrap();
        assert_eq!(tokens.parenthesized().unwrap(), "(date_trunc(`d`, 'day'))");
        assert_eq!(tokens.parenthesized().unwrap(), "()");
        assert!(tokens.end().is_err());
        assert_eq!(tokens.name().unwrap(), "x");
        assert!(tokens.end().is_ok());
    }
}
