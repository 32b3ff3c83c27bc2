//! YAML text to nodes that know their line.
//!
//! Scalars stay text: `2.10`, `0123` and `no` reach an option exactly as they were written, and the option's own type
//! decides what they mean.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span};
use lakeward_core::{Error, Result};

/// Nodes that aliases may multiply a document to.
const NODES_MAX: usize = 100_000;

#[derive(Debug, Clone)]
pub struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub enum Value {
    /// A plain empty scalar, `~` or `null`.
    Null,
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub line: usize,
    pub value: Node,
}

impl Value {
    /// What it is, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// Reads the one document of a text. An empty text is an empty mapping.
pub fn parse(text: &str) -> Result<Node> {
    let mut builder = Builder::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|e| syntax_error(&e))?;
        builder.accept(event, span)?;
    }
    Ok(builder.root.unwrap_or(Node { line: 1, value: Value::Map(Vec::new()) }))
}

fn syntax_error(e: &ScanError) -> Error {
    let line = e.marker().line();
    if matches!(e.kind(), ErrorKind::UnknownAnchor) {
        return at(line, "a value that starts with * must be quoted, or its first * written \\*");
    }
    at(line, format!("this is not YAML: {}", e.info()))
}

/// A configuration error at a line of the file.
pub fn at(line: usize, message: impl Into<String>) -> Error {
    Error::config(message).with("line", line)
}

enum Open {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(String, usize)> },
}

#[derive(Default)]
struct Builder {
    open: Vec<(Open, usize, usize)>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
}

impl Builder {
    fn accept(&mut self, event: Event<'_>, span: Span) -> Result<()> {
        let line = span.start.line();
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(at(
                        line,
                        "a pipeline file holds one document, this starts another",
                    ));
                }
            }
            Event::Scalar(text, style, anchor, _) => {
                let plain = style == ScalarStyle::Plain;
                let null = plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let is_key = matches!(self.open.last(), Some((Open::Map { key: None, .. }, ..)));
                let value =
                    if null && !is_key { Value::Null } else { Value::Scalar(text.into_owned()) };
                self.put(Node { line, value }, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open.push((Open::List(Vec::new()), line, anchor));
            }
            Event::MappingStart(_, anchor, _) => {
                self.open.push((Open::Map { entries: Vec::new(), key: None }, line, anchor));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (open, line, anchor) =
                    self.open.pop().expect("the parser closes what it opened");
                let value = match open {
                    Open::List(nodes) => Value::List(nodes),
                    Open::Map { entries, .. } => Value::Map(entries),
                };
                self.put(Node { line, value }, anchor)?;
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| at(line, "an anchor cannot contain itself"))?;
                self.put(node, 0)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<()> {
        self.nodes += size_of_tree(&node);
        if self.nodes > NODES_MAX {
            return Err(at(node.line, "the aliases of this file expand to too much"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((Open::List(nodes), ..)) => nodes.push(node),
            Some((Open::Map { entries, key }, ..)) => match key.take() {
                None => *key = Some((key_text(node.value, node.line)?, node.line)),
                Some((text, line)) => {
                    if let Some(first) = entries.iter().find(|e| e.key == text) {
                        let message =
                            format!("`{text}` is given twice, first on line {}", first.line);
                        return Err(at(line, message));
                    }
                    entries.push(Entry { key: text, line, value: node });
                }
            },
        }
        Ok(())
    }
}

fn key_text(value: Value, line: usize) -> Result<String> {
    match value {
        Value::Scalar(text) if text == "<<" => {
            Err(at(line, "merge keys (<<) are not supported; write the options out"))
        }
        Value::Scalar(text) => Ok(text),
        other => Err(at(line, format!("a key must be a single value, this is {}", other.kind()))),
    }
}

fn size_of_tree(node: &Node) -> usize {
    1 + match &node.value {
        Value::Null | Value::Scalar(_) => 0,
        Value::List(nodes) => nodes.iter().map(size_of_tree).sum(),
        Value::Map(entries) => entries.iter().map(|e| size_of_tree(&e.value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Vec<Entry> {
        match parse(text).unwrap().value {
            Value::Map(entries) => entries,
            other => panic!("{}", other.kind()),
        }
    }

    #[test]
    fn scalars_stay_as_written_and_know_their_line() {
        let entries = map("a: 2.10\nb: '007'\nc: no\nd:\ne: x\\.*[a|b], c # note\nf: \"a\\tb\"\n");
        let text = |i: usize| match &entries[i].value.value {
            Value::Scalar(s) => s.clone(),
            other => other.kind().to_string(),
        };
        assert_eq!(
            (0..6).map(text).collect::<Vec<_>>(),
            ["2.10", "007", "no", "nothing", "x\\.*[a|b], c", "a\tb"]
        );
        assert_eq!(entries[4].line, 5);
    }

    #[test]
    fn duplicates_stars_and_broken_files_are_errors_with_a_line() {
        let e = parse("a: 1\nb: 2\na: 3\n").unwrap_err().to_string();
        assert_eq!(e, "`a` is given twice, first on line 1 (line 3)");
        let e = parse("a: 1\nb: *.c\n").unwrap_err().to_string();
        assert!(e.contains("starts with *") && e.contains("line 2"), "{e}");
        let e = parse("a: [1, 2\nb: }\n").unwrap_err().to_string();
        assert!(e.contains("not YAML") && e.contains("line"), "{e}");
        assert!(parse("a: 1\n---\nb: 1\n").is_err());
        assert!(parse("? [a]\n: 1\n").is_err());
        assert!(parse("<<: 1\n").is_err());
    }

    #[test]
    fn anchors_repeat_a_node_but_not_without_bound() {
        let entries = map("a: &x [1, 2]\nb: *x\n");
        assert!(matches!(&entries[1].value.value, Value::List(l) if l.len() == 2));
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..10 {
            let one = format!("*a{}", i - 1);
            let ten = vec![one; 10].join(", ");
            bomb.push_str(&format!("a{i}: &a{i} [{ten}]\n"));
        }
        assert!(parse(&bomb).unwrap_err().to_string().contains("expand to too much"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a-c:\\[\\]{}*&!|> \"'#\n,?\\\\]{0,60}") {
            let _ = parse(&text);
        }
    }
}
