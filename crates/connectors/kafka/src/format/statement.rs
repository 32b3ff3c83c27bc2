//! What a DDL statement does to whole tables, and which columns it renames. Everything else about columns is taken from the
//! descriptions that messages carry, or from the rows that follow.

use std::sync::Arc;

use lakeward_core::TableId;

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Create,
    Alter { renames: Vec<(Arc<str>, Arc<str>)> },
    Drop,
    Truncate,
    Rename { to: TableId },
}

/// A word, a quoted name or a sign of a statement. Texts in quotes are of no interest here.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Name(String),
    Sign(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(w) if w.eq_ignore_ascii_case(word))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Token::Word(name) | Token::Name(name) => Some(name),
            Token::Sign(_) => None,
        }
    }
}

/// The tables that a statement creates, changes, empties, renames or drops. `database` is where names without one are.
pub fn effects(sql: &str, database: &str) -> Vec<(TableId, Effect)> {
    let tokens = tokens(sql);
    let mut reader = Reader { tokens: &tokens, at: 0, database };
    reader.statement().unwrap_or_default()
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
    database: &'t str,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let found = words
            .iter()
            .enumerate()
            .all(|(i, word)| self.tokens.get(self.at + i).is_some_and(|token| token.is(word)));
        if found {
            self.at += words.len();
        }
        found
    }

    fn takes_sign(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Option<String> {
        let name = self.peek()?.name()?.to_owned();
        self.at += 1;
        Some(name)
    }

    fn table(&mut self) -> Option<TableId> {
        let first = self.name()?;
        if self.takes_sign('.') {
            return Some(TableId::new(first, self.name()?));
        }
        Some(TableId::new(self.database, first))
    }

    fn statement(&mut self) -> Option<Vec<(TableId, Effect)>> {
        if self.takes(&["TRUNCATE"]) {
            self.takes(&["TABLE"]);
            return Some(vec![(self.table()?, Effect::Truncate)]);
        }
        if self.takes(&["DROP"]) {
            self.takes(&["TEMPORARY"]);
            if !self.takes(&["TABLE"]) {
                return None;
            }
            self.takes(&["IF", "EXISTS"]);
            let mut all = vec![(self.table()?, Effect::Drop)];
            while self.takes_sign(',') {
                all.push((self.table()?, Effect::Drop));
            }
            return Some(all);
        }
        if self.takes(&["RENAME"]) {
            if !self.takes(&["TABLE"]) && !self.takes(&["TABLES"]) {
                return None;
            }
            let mut all = Vec::new();
            loop {
                let from = self.table()?;
                self.takes(&["TO"]);
                all.push((from, Effect::Rename { to: self.table()? }));
                if !self.takes_sign(',') {
                    return Some(all);
                }
            }
        }
        if self.takes(&["CREATE"]) {
            self.takes(&["OR", "REPLACE"]);
            if !self.takes(&["TABLE"]) {
                return None;
            }
            self.takes(&["IF", "NOT", "EXISTS"]);
            return Some(vec![(self.table()?, Effect::Create)]);
        }
        if self.takes(&["ALTER"]) {
            let _ = self.takes(&["ONLINE"]) || self.takes(&["OFFLINE"]) || self.takes(&["IGNORE"]);
            if !self.takes(&["TABLE"]) {
                return None;
            }
            self.takes(&["IF", "EXISTS"]);
            let table = self.table()?;
            return Some(self.clauses(table));
        }
        None
    }

    fn clauses(&mut self, table: TableId) -> Vec<(TableId, Effect)> {
        let mut renames = Vec::new();
        let mut moved = None;
        loop {
            if let Some((from, to)) = self.rename_column() {
                if from != to {
                    renames.push((Arc::from(from), Arc::from(to)));
                }
            } else if self.takes(&["RENAME"]) && !self.at_index() {
                let _ = self.takes(&["TO"]) || self.takes(&["AS"]);
                moved = self.table();
            }
            if !self.next_clause() {
                break;
            }
        }
        let mut all = vec![(table.clone(), Effect::Alter { renames })];
        all.extend(moved.map(|to| (table, Effect::Rename { to })));
        all
    }

    fn at_index(&self) -> bool {
        self.peek().is_some_and(|t| t.is("INDEX") || t.is("KEY"))
    }

    fn rename_column(&mut self) -> Option<(String, String)> {
        if self.takes(&["RENAME", "COLUMN"]) {
            self.takes(&["IF", "EXISTS"]);
            let from = self.name()?;
            self.takes(&["TO"]);
            return Some((from, self.name()?));
        }
        if self.takes(&["CHANGE"]) {
            self.takes(&["COLUMN"]);
            self.takes(&["IF", "EXISTS"]);
            return Some((self.name()?, self.name()?));
        }
        None
    }

    /// Behind the next comma that is in no parentheses.
    fn next_clause(&mut self) -> bool {
        let mut depth = 0;
        while let Some(token) = self.peek() {
            let comma = depth == 0 && *token == Token::Sign(',');
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if comma {
                return true;
            }
        }
        false
    }
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        rest = match c {
            '`' | '"' => {
                let (name, behind) = quoted(behind, c);
                tokens.push(Token::Name(name));
                behind
            }
            '\'' => quoted(behind, c).1,
            '#' => behind.split_once('\n').map_or("", |(_, next)| next),
            '-' if behind.starts_with("- ") => behind.split_once('\n').map_or("", |(_, next)| next),
            // What stands in a comment with a version is code.
            '/' if behind.starts_with("*!") => {
                behind[2..].trim_start_matches(|c: char| c.is_ascii_digit() || c == 'M')
            }
            '/' if behind.starts_with('*') => behind.split_once("*/").map_or("", |(_, next)| next),
            '*' if behind.starts_with('/') => &behind[1..],
            c if c.is_alphanumeric() || c == '_' || c == '$' => {
                let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].to_owned()));
                &rest[end..]
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(Token::Sign(c));
                }
                behind
            }
        };
    }
    tokens
}

/// The text up to the closing quote, which is doubled where it is part of the text; and what is behind.
fn quoted(text: &str, quote: char) -> (String, &str) {
    let mut found = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '\'' => drop(chars.next()),
            c if c == quote => match chars.peek() {
                Some((_, next)) if *next == quote => {
                    found.push(quote);
                    chars.next();
                }
                _ => return (found, &text[at + c.len_utf8()..]),
            },
            c => found.push(c),
        }
    }
    (found, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(name: &str) -> TableId {
        TableId::new("d", name)
    }

    #[test]
    fn what_is_done_to_tables() {
        let of = |sql: &str| effects(sql, "d");
        assert_eq!(of("truncate `t`"), [(id("t"), Effect::Truncate)]);
        assert_eq!(of("/* x */ TRUNCATE TABLE e.t"), [(TableId::new("e", "t"), Effect::Truncate)]);
        assert_eq!(
            of("DROP TABLE IF EXISTS `a``b`, c"),
            [(id("a`b"), Effect::Drop), (id("c"), Effect::Drop)]
        );
        assert_eq!(
            of("RENAME TABLE a TO b, c TO d.e"),
            [
                (id("a"), Effect::Rename { to: id("b") }),
                (id("c"), Effect::Rename { to: TableId::new("d", "e") })
            ]
        );
        assert_eq!(of("create table t (a int)"), [(id("t"), Effect::Create)]);
        assert_eq!(of("DROP INDEX i ON t"), []);
        assert_eq!(of("drop database d"), []);
    }

    #[test]
    fn columns_that_change_their_name() {
        let sql = "ALTER TABLE t ADD z DECIMAL(3,1) DEFAULT 'a,b', CHANGE COLUMN a `b` INT, RENAME COLUMN c TO e, \
                   CHANGE f f BIGINT, RENAME INDEX i TO j";
        let renames: Vec<(Arc<str>, Arc<str>)> =
            vec![("a".into(), "b".into()), ("c".into(), "e".into())];
        assert_eq!(effects(sql, "d"), [(id("t"), Effect::Alter { renames })]);
        let both = effects("ALTER TABLE t RENAME TO u", "d");
        assert_eq!(both[1], (id("t"), Effect::Rename { to: id("u") }));
    }

    proptest! {
        #[test]
        fn no_text_panics(sql in "(ALTER TABLE |RENAME |DROP TABLE |)\\PC{0,60}") {
            let _ = effects(&sql, "d");
        }
    }
}
