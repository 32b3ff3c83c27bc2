//! A place in one statement's tokens.

use std::sync::Arc;

use lakeward_core::TableId;

use super::tokens::Token;

/// The text is beyond the reader; the reason is for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unclear(pub &'static str);

pub type Parsed<T> = Result<T, Unclear>;

pub struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    current_database: Option<&'t str>,
}

impl<'t, 'a> Cursor<'t, 'a> {
    pub fn new(tokens: &'t [Token<'a>], current_database: Option<&'t str>) -> Self {
        Self { tokens, at: 0, current_database }
    }

    pub fn peek(&self) -> Option<&'t Token<'a>> {
        self.tokens.get(self.at)
    }

    pub fn peek_at(&self, n: usize) -> Option<&'t Token<'a>> {
        self.tokens.get(self.at + n)
    }

    pub fn next(&mut self) -> Option<&'t Token<'a>> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    pub fn is_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// The keyword here, in upper case; empty where none stands here.
    pub fn keyword(&self) -> String {
        self.keyword_at(0)
    }

    pub fn keyword_at(&self, n: usize) -> String {
        match self.peek_at(n) {
            Some(Token::Word(word)) => word.to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    pub fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    pub fn is_word_at(&self, n: usize, word: &str) -> bool {
        matches!(self.peek_at(n), Some(Token::Word(w)) if w.eq_ignore_ascii_case(word))
    }

    pub fn is_symbol(&self, symbol: char) -> bool {
        self.peek() == Some(&Token::Symbol(symbol))
    }

    /// Steps over these words if all of them stand here in this order.
    pub fn take_words(&mut self, words: &[&str]) -> bool {
        let all = words.iter().enumerate().all(|(n, word)| self.is_word_at(n, word));
        if all {
            self.at += words.len();
        }
        all
    }

    pub fn take_word(&mut self, word: &str) -> bool {
        self.take_words(&[word])
    }

    pub fn take_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.take_word(word))
    }

    pub fn take_symbol(&mut self, symbol: char) -> bool {
        let here = self.is_symbol(symbol);
        self.at += usize::from(here);
        here
    }

    pub fn current_database(&self) -> Option<Arc<str>> {
        self.current_database.map(Arc::from)
    }

    pub fn name(&mut self) -> Parsed<Arc<str>> {
        match self.next() {
            Some(Token::Word(word)) => Ok(Arc::from(*word)),
            Some(Token::Quoted(name)) => Ok(Arc::from(name.as_str())),
            _ => Err(Unclear("a name was expected")),
        }
    }

    /// A column's name, whatever qualifies it.
    pub fn column_name(&mut self) -> Parsed<Arc<str>> {
        self.take_symbol('.');
        let mut name = self.name()?;
        while self.take_symbol('.') {
            name = self.name()?;
        }
        Ok(name)
    }

    /// A table's name, resolved against the current database.
    pub fn table_name(&mut self) -> Parsed<TableId> {
        self.take_symbol('.');
        let first = self.name()?;
        if self.take_symbol('.') {
            return Ok(TableId::new(first, self.name()?));
        }
        let database = self.current_database.ok_or(Unclear("a table's name has no database"))?;
        Ok(TableId::new(database, first))
    }

    pub fn text(&mut self) -> Parsed<Arc<str>> {
        match self.next() {
            Some(Token::Text(text)) => Ok(Arc::from(text.as_str())),
            _ => Err(Unclear("a string was expected")),
        }
    }

    /// `IF EXISTS`.
    pub fn take_if_exists(&mut self) -> bool {
        self.take_words(&["IF", "EXISTS"])
    }

    /// `IF NOT EXISTS`.
    pub fn take_if_not_exists(&mut self) -> bool {
        self.take_words(&["IF", "NOT", "EXISTS"])
    }

    /// Steps over one token, or over a parenthesis with all that is in it.
    pub fn skip(&mut self) {
        let mut depth = 0usize;
        while let Some(token) = self.next() {
            match token {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    pub fn skip_parentheses(&mut self) {
        if self.is_symbol('(') {
            self.skip();
        }
    }

    /// To the next comma or closing parenthesis of this level, or the end.
    pub fn skip_element(&mut self) {
        while !(self.is_end() || self.is_symbol(',') || self.is_symbol(')')) {
            self.skip();
        }
    }

    pub fn skip_all(&mut self) {
        self.at = self.tokens.len();
    }

    /// The numbers of `(n)` or `(m, d)`, where there is a parenthesis.
    pub fn numbers(&mut self) -> Parsed<Vec<u64>> {
        let mut numbers = Vec::new();
        if !self.take_symbol('(') {
            return Ok(numbers);
        }
        loop {
            match self.next() {
                Some(Token::Number(n)) => {
                    numbers.push(n.parse().map_err(|_| Unclear("a length is not a number"))?);
                }
                Some(Token::Symbol(',')) => {}
                Some(Token::Symbol(')')) => return Ok(numbers),
                _ => return Err(Unclear("a length is not a number")),
            }
        }
    }

    /// `CHARACTER SET x`, `CHARSET = x`, `COLLATE x`, with an optional DEFAULT in front: the character set, if the clause
    /// stands here. The inner `None` is `DEFAULT`, or a collation that does not tell.
    pub fn charset_clause(&mut self) -> Option<Option<Arc<str>>> {
        let start = self.at;
        self.take_word("DEFAULT");
        let is_charset = self.take_words(&["CHARACTER", "SET"])
            || self.take_words(&["CHAR", "SET"])
            || self.take_word("CHARSET");
        if !is_charset && !self.take_word("COLLATE") {
            self.at = start;
            return None;
        }
        self.take_symbol('=');
        let name = match self.next() {
            Some(Token::Word(word)) => *word,
            Some(Token::Quoted(name) | Token::Text(name)) => name.as_str(),
            _ => {
                self.at = start;
                return None;
            }
        };
        Some(match is_charset {
            _ if name.eq_ignore_ascii_case("default") => None,
            true => Some(super::charsets::canonical(name)),
            false => super::charsets::of_collation(name),
        })
    }
}
