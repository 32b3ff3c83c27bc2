//! The options of one section of the file: flat keys, values with references put in, and where each stands.

use std::fmt;
use std::path::{Path, PathBuf};

use lakeward_core::Result;

use super::yaml::{Entry, Node, Value, at};

/// Where the values of `${env:…}` and `${file:…}` come from.
pub trait References {
    fn env(&self, name: &str) -> Option<String>;
    fn file(&self, path: &Path) -> std::io::Result<String>;
}

/// The process's own environment, and files relative to the pipeline file.
pub struct ProcessReferences {
    pub folder: PathBuf,
}

impl References for ProcessReferences {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> std::io::Result<String> {
        std::fs::read_to_string(self.folder.join(path))
    }
}

/// For a section that is not going to be used: nothing is looked up.
pub struct NoReferences;

impl References for NoReferences {
    fn env(&self, _: &str) -> Option<String> {
        Some(String::new())
    }

    fn file(&self, _: &Path) -> std::io::Result<String> {
        Ok(String::new())
    }
}

/// One option. Its text shows in no output when it came by reference or its name says that it is a secret.
#[derive(Clone)]
pub struct OptionEntry {
    pub key: String,
    pub value: OptionValue,
    pub line: usize,
    pub secret: bool,
}

#[derive(Clone, PartialEq)]
pub enum OptionValue {
    Null,
    Text(String),
    List(Vec<String>),
}

impl fmt::Debug for OptionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.key)
    }
}

impl fmt::Display for OptionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            _ if self.secret => f.write_str("***"),
            OptionValue::Null => f.write_str("(nothing)"),
            OptionValue::Text(text) => f.write_str(text),
            OptionValue::List(items) => f.write_str(&items.join(", ")),
        }
    }
}

/// A section with its keys flattened: `a: {b: 1}` and `a.b: 1` are the same option.
#[derive(Debug, Clone)]
pub struct Section {
    pub name: &'static str,
    pub line: usize,
    pub entries: Vec<OptionEntry>,
}

impl Section {
    pub fn read(
        name: &'static str,
        line: usize,
        node: Node,
        references: &dyn References,
    ) -> Result<Self> {
        let mut section = Self { name, line, entries: Vec::new() };
        match node.value {
            Value::Map(entries) => section.flatten("", entries, references)?,
            Value::Null => {}
            other => {
                let message = format!("`{name}` must be a mapping, this is {}", other.kind());
                return Err(at(node.line, message));
            }
        }
        Ok(section)
    }

    pub fn get(&self, key: &str) -> Option<&OptionEntry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// Takes an option out of the section.
    pub fn take(&mut self, key: &str) -> Option<OptionEntry> {
        let index = self.entries.iter().position(|e| e.key == key)?;
        Some(self.entries.remove(index))
    }

    /// Takes an option that must be one text.
    pub fn take_text(&mut self, key: &str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(OptionEntry { value: OptionValue::Text(text), .. }) => Ok(Some(text)),
            Some(entry) => Err(at(entry.line, format!("`{key}` must be a single value"))),
        }
    }

    fn flatten(
        &mut self,
        prefix: &str,
        entries: Vec<Entry>,
        references: &dyn References,
    ) -> Result<()> {
        for Entry { key, line, value } in entries {
            let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
            let mut by_reference = false;
            let value = match value.value {
                Value::Map(entries) => {
                    self.flatten(&key, entries, references)?;
                    continue;
                }
                Value::Null => OptionValue::Null,
                Value::Scalar(text) => OptionValue::Text(put_references(
                    &text,
                    &key,
                    line,
                    references,
                    &mut by_reference,
                )?),
                Value::List(nodes) => {
                    let mut items = Vec::with_capacity(nodes.len());
                    for node in nodes {
                        let Value::Scalar(text) = node.value else {
                            let message = format!("the items of `{key}` must be single values");
                            return Err(at(node.line, message));
                        };
                        items.push(put_references(
                            &text,
                            &key,
                            node.line,
                            references,
                            &mut by_reference,
                        )?);
                    }
                    OptionValue::List(items)
                }
            };
            if let Some(first) = self.get(&key) {
                let message = format!("`{key}` is given twice, first on line {}", first.line);
                return Err(at(line, message));
            }
            let secret = by_reference || is_secret_name(&key);
            self.entries.push(OptionEntry { key, value, line, secret });
        }
        Ok(())
    }
}

fn is_secret_name(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["password", "secret", "token", "credential", "access-key", "apikey", "api-key"]
        .iter()
        .any(|word| key.contains(word))
}

/// Puts in what `${env:NAME}` and `${file:PATH}` stand for. `$${` is a literal `${`. Other `${…}` is left alone unless it
/// looks like a reference of an unknown kind.
fn put_references(
    text: &str,
    key: &str,
    line: usize,
    references: &dyn References,
    used: &mut bool,
) -> Result<String> {
    if !text.contains("${") {
        return Ok(text.to_string());
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &from[2..];
            continue;
        }
        out.push_str(before);
        let Some(end) = from.find('}') else {
            return Err(at(line, format!("`{key}` has a ${{ without a closing brace")));
        };
        let inside = &from[2..end];
        match inside.split_once(':') {
            Some(("env", name)) => {
                out.push_str(&references.env(name).ok_or_else(|| {
                    at(
                        line,
                        format!("`{key}` needs the environment variable {name}, which is not set"),
                    )
                })?);
                *used = true;
            }
            Some(("file", path)) => {
                let content = references.file(Path::new(path)).map_err(|e| {
                    at(line, format!("`{key}` needs the file {path}, which cannot be read"))
                        .with_source(e)
                })?;
                out.push_str(content.trim_end_matches(['\n', '\r']));
                *used = true;
            }
            Some((kind, _)) if kind.chars().all(|c| c.is_ascii_alphabetic()) => {
                let message = format!(
                    "`{key}` has a reference of the unknown kind `{kind}`; known are ${{env:NAME}} and ${{file:PATH}}, \
                     and $${{ stands for a literal ${{"
                );
                return Err(at(line, message));
            }
            _ => out.push_str(&from[..=end]),
        }
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::pipeline_file::yaml::parse;

    pub struct Fake;

    impl References for Fake {
        fn env(&self, name: &str) -> Option<String> {
            (name == "PW").then(|| "s3cret".to_string())
        }

        fn file(&self, path: &Path) -> std::io::Result<String> {
            if path == Path::new("pw.txt") {
                Ok("from file\n".to_string())
            } else {
                Err(std::io::Error::from(std::io::ErrorKind::NotFound))
            }
        }
    }

    fn read(text: &str) -> Result<Section> {
        Section::read("source", 1, parse(text)?, &Fake)
    }

    fn text(section: &Section, key: &str) -> String {
        match &section.get(key).unwrap().value {
            OptionValue::Text(text) => text.clone(),
            _ => panic!("not a text"),
        }
    }

    #[test]
    fn nested_maps_are_dotted_keys() {
        let s = read("a.b: 1\na:\n  c: {d: x}\nlist: [p, q]\n").unwrap();
        assert_eq!(text(&s, "a.b"), "1");
        assert_eq!(text(&s, "a.c.d"), "x");
        let list = OptionValue::List(vec!["p".into(), "q".into()]);
        assert!(s.get("list").unwrap().value == list);
        let e = read("a.b: 1\na: {b: 2}\n").unwrap_err().to_string();
        assert_eq!(e, "`a.b` is given twice, first on line 1 (line 2)");
    }

    #[test]
    fn references_are_put_in_and_never_shown() {
        let s = read("p: x${env:PW}y\nq: ${file:pw.txt}\nr: $1_${0}_$${env:PW}\npassword: lit\n")
            .unwrap();
        assert_eq!(text(&s, "p"), "xs3crety");
        assert_eq!(text(&s, "q"), "from file");
        assert_eq!(text(&s, "r"), "$1_${0}_${env:PW}");
        let shown = format!("{s:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("from file"), "{shown}");
        assert!(!shown.contains("lit") && shown.contains("***"), "{shown}");
    }

    #[test]
    fn missing_references_are_named() {
        let e = read("a: 1\np: ${env:NOPE}\n").unwrap_err().to_string();
        assert_eq!(e, "`p` needs the environment variable NOPE, which is not set (line 2)");
        let e = read("p: ${file:nope}\n").unwrap_err().to_string();
        assert!(e.starts_with("`p` needs the file nope, which cannot be read (line 1)"), "{e}");
        assert!(read("p: ${vault:x}\n").unwrap_err().to_string().contains("unknown kind `vault`"));
        assert!(read("p: ${env:PW\n").unwrap_err().to_string().contains("closing brace"));
    }
}
