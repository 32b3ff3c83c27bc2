//! PARTIAL_UPDATE_ROWS: a JSON document as changes to the one before it.

use std::borrow::Cow;

use super::binary::Value;
use super::{DEEPEST, Malformed, print};
use crate::binlog::Cursor;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    Malformed,
    NoSuchPath,
}

impl From<Malformed> for Failed {
    fn from(_: Malformed) -> Self {
        Failed::Malformed
    }
}

impl From<lakeward_core::Error> for Failed {
    fn from(_: lakeward_core::Error) -> Self {
        Failed::Malformed
    }
}

/// A document in which only the containers on the way to a change are taken apart.
enum Node<'a> {
    Stored(Value<'a>),
    Array(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, [u8]>, Node<'a>)>),
}

enum Leg<'a> {
    Member(Cow<'a, [u8]>),
    Element(usize),
}

pub(super) fn append_changed(
    base: &[u8],
    changes: &[u8],
    into: &mut Vec<u8>,
) -> Result<(), Failed> {
    let mut root = Node::Stored(Value::of_document(base)?);
    let mut cursor = Cursor::new(changes);
    while !cursor.is_empty() {
        let operation = cursor.u8()?;
        let path_length = cursor.packed_len()?;
        let path = parse_path(cursor.take(path_length)?)?;
        let mut value = || -> Result<Node<'_>, Failed> {
            let length = cursor.packed_len()?;
            Ok(Node::Stored(Value::of_document(cursor.take(length)?)?))
        };
        match operation {
            0 => *root.find(&path)? = value()?,
            1 => root.insert(&path, value()?)?,
            2 => root.remove(&path)?,
            _ => return Err(Failed::Malformed),
        }
    }
    Ok(root.print(DEEPEST, into)?)
}

impl<'a> Node<'a> {
    fn open(&mut self) -> Result<(), Malformed> {
        let Node::Stored(Value::Container(container)) = self else { return Ok(()) };
        let container = *container;
        *self = if container.is_object {
            let member =
                |i| Ok((Cow::Borrowed(container.key(i)?), Node::Stored(container.value(i)?)));
            Node::Object((0..container.len).map(member).collect::<Result<_, Malformed>>()?)
        } else {
            let element = |i| container.value(i).map(Node::Stored);
            Node::Array((0..container.len).map(element).collect::<Result<_, Malformed>>()?)
        };
        Ok(())
    }

    fn find(&mut self, path: &[Leg<'_>]) -> Result<&mut Node<'a>, Failed> {
        let mut node = self;
        for leg in path {
            node.open()?;
            let next = match (node, leg) {
                (Node::Array(elements), Leg::Element(i)) => elements.get_mut(*i),
                (Node::Object(members), Leg::Member(name)) => {
                    members.iter_mut().find(|(k, _)| k == name).map(|(_, v)| v)
                }
                _ => None,
            };
            node = next.ok_or(Failed::NoSuchPath)?;
        }
        Ok(node)
    }

    fn insert(&mut self, path: &[Leg<'_>], value: Node<'a>) -> Result<(), Failed> {
        let (last, parent) = path.split_last().ok_or(Failed::NoSuchPath)?;
        let parent = self.find(parent)?;
        parent.open()?;
        match (parent, last) {
            (Node::Array(elements), Leg::Element(i)) => {
                elements.insert((*i).min(elements.len()), value);
            }
            (Node::Object(members), Leg::Member(name)) => {
                // Members are in the order of their names' length, then of their bytes.
                let rank = |k: &[u8]| (k.len(), k.to_vec());
                let at = members.partition_point(|(k, _)| rank(k) < rank(name));
                if members.get(at).is_some_and(|(k, _)| k == name) {
                    return Err(Failed::NoSuchPath);
                }
                members.insert(at, (Cow::Owned(name.to_vec()), value));
            }
            _ => return Err(Failed::NoSuchPath),
        }
        Ok(())
    }

    fn remove(&mut self, path: &[Leg<'_>]) -> Result<(), Failed> {
        let (last, parent) = path.split_last().ok_or(Failed::NoSuchPath)?;
        let parent = self.find(parent)?;
        parent.open()?;
        match (parent, last) {
            (Node::Array(elements), Leg::Element(i)) if *i < elements.len() => {
                elements.remove(*i);
            }
            (Node::Object(members), Leg::Member(name)) => {
                let at = members.iter().position(|(k, _)| k == name).ok_or(Failed::NoSuchPath)?;
                members.remove(at);
            }
            _ => return Err(Failed::NoSuchPath),
        }
        Ok(())
    }

    fn print(&self, depth: usize, into: &mut Vec<u8>) -> Result<(), Malformed> {
        let depth_below = || depth.checked_sub(1).ok_or(Malformed);
        match self {
            Node::Stored(value) => print::append(value, depth, into)?,
            Node::Array(elements) => {
                into.push(b'[');
                for (i, element) in elements.iter().enumerate() {
                    into.extend_from_slice(if i > 0 { b", " } else { b"" });
                    element.print(depth_below()?, into)?;
                }
                into.push(b']');
            }
            Node::Object(members) => {
                into.push(b'{');
                for (i, (name, value)) in members.iter().enumerate() {
                    into.extend_from_slice(if i > 0 { b", " } else { b"" });
                    print::push_string(name, into)?;
                    into.extend_from_slice(b": ");
                    value.print(depth_below()?, into)?;
                }
                into.push(b'}');
            }
        }
        Ok(())
    }
}

/// `$.name."other name"[3]`. The server writes no wildcards and no `last` into changes.
fn parse_path(path: &[u8]) -> Result<Vec<Leg<'_>>, Failed> {
    let mut rest = path.strip_prefix(b"$").ok_or(Failed::Malformed)?;
    let mut legs = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'[' => {
                let end = after.iter().position(|b| *b == b']').ok_or(Failed::Malformed)?;
                let digits = std::str::from_utf8(&after[..end]).map_err(|_| Failed::Malformed)?;
                legs.push(Leg::Element(digits.trim().parse().map_err(|_| Failed::Malformed)?));
                rest = &after[end + 1..];
            }
            b'.' if after.first() == Some(&b'"') => {
                let end = end_of_quoted(after).ok_or(Failed::Malformed)?;
                let name: String =
                    serde_json::from_slice(&after[..end]).map_err(|_| Failed::Malformed)?;
                legs.push(Leg::Member(Cow::Owned(name.into_bytes())));
                rest = &after[end..];
            }
            b'.' => {
                let end =
                    after.iter().position(|b| matches!(b, b'.' | b'[')).unwrap_or(after.len());
                legs.push(Leg::Member(Cow::Borrowed(&after[..end])));
                rest = &after[end..];
            }
            _ => return Err(Failed::Malformed),
        }
    }
    Ok(legs)
}

/// Behind the closing quote of a string that begins with one.
fn end_of_quoted(text: &[u8]) -> Option<usize> {
    let mut i = 1;
    loop {
        match text.get(i)? {
            b'"' => return Some(i + 1),
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
}
