//! Patterns of tables in Flink CDC's form: two regular expressions with a plain `.` between them, in which `\.` is the
//! regular expression's dot.

use regex::Regex;

use crate::{Error, Result, TableId};

/// A pattern of `namespace.name`.
#[derive(Debug, Clone)]
pub struct TablePattern {
    /// As the user wrote it.
    text: String,
    namespace: Regex,
    name: Regex,
}

impl TablePattern {
    /// Reads one pattern. `option` is named in errors.
    ///
    /// # Errors
    /// `Config` when it has not two parts, or one of them is no regular expression.
    pub fn parse(option: &str, text: &str) -> Result<Self> {
        let parts = split_at_dots(text);
        let [namespace, name] = parts.as_slice() else {
            return Err(Error::config(format!(
                "`{option}`: {text} must be a database and a table with one `.` between; a dot of a regular expression is \
                 written `\\.`"
            )));
        };
        let part = |expression: &str| {
            let hint = "in a pattern of tables, any text is `\\.*`";
            whole(option, expression).map_err(|e| e.with("table", text).with("hint", hint))
        };
        Ok(Self { text: text.to_string(), namespace: part(namespace)?, name: part(name)? })
    }

    /// Reads patterns that stand between commas.
    ///
    /// # Errors
    /// As of [`TablePattern::parse`].
    pub fn parse_list(option: &str, text: &str) -> Result<Vec<Self>> {
        split(text, ',')
            .iter()
            .map(|item| item.trim())
            .filter(|item| !item.is_empty())
            .map(|item| Self::parse(option, item))
            .collect()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, table: &TableId) -> bool {
        self.matches_namespace(&table.namespace) && self.name.is_match(&table.name)
    }

    pub fn matches_namespace(&self, namespace: &str) -> bool {
        self.namespace.is_match(namespace)
    }
}

/// A regular expression of a whole name.
///
/// # Errors
/// `Config` when it is none.
pub fn whole(option: &str, expression: &str) -> Result<Regex> {
    Regex::new(&format!("^(?:{expression})$")).map_err(|e| {
        Error::config(format!("`{option}`: {expression} is not a regular expression"))
            .with_source(e)
    })
}

/// Splits at a character that stands outside of brackets, braces and parentheses.
pub fn split(text: &str, at: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0usize;
    let mut escaped = false;
    for c in text.chars() {
        if c == at && depth == 0 && !escaped {
            parts.push(String::new());
            continue;
        }
        match c {
            _ if escaped => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

/// The parts between plain dots, as regular expressions.
pub fn split_at_dots(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let Some(last) = parts.last_mut() else { break };
        match c {
            '\\' if chars.peek() == Some(&'.') => {
                chars.next();
                last.push('.');
            }
            '\\' => {
                last.push(c);
                last.extend(chars.next());
            }
            '.' => parts.push(String::new()),
            _ => last.push(c),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(patterns: &str, namespace: &str, name: &str) -> bool {
        let table = TableId::new(namespace, name);
        TablePattern::parse_list("tables", patterns).unwrap().iter().any(|p| p.matches(&table))
    }

    #[test]
    fn the_documented_forms() {
        let tables = r"adb.\.*, bdb.user_table_[0-9]+, [app|web].order_\.*";
        assert!(hit(tables, "adb", "anything"));
        assert!(hit(tables, "bdb", "user_table_17"));
        assert!(!hit(tables, "bdb", "user_table_x"));
        assert!(hit(tables, "a", "order_9"));
        assert!(!hit(tables, "bdb", "xuser_table_1"));
        assert!(hit("d.t{1,2}", "d", "tt"));
        assert!(hit("a44-x y.my-table 1", "a44-x y", "my-table 1"));
        assert!(hit(r"d.a\\\.b", "d", r"a\xb"));
    }

    #[test]
    fn what_is_not_a_table_is_refused() {
        for bad in ["orders", "a.b.c", "a.(b"] {
            let error = TablePattern::parse("tables", bad).unwrap_err().to_string();
            assert!(error.contains("`tables`") && error.contains("`\\."), "{error}");
        }
        let error = TablePattern::parse("tables", "shop.*").unwrap_err().to_string();
        assert!(error.contains(r"any text is `\.*`") && error.contains("shop.*"), "{error}");
    }
}
