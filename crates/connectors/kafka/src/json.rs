//! JSON as it stands in a message: objects whose values stay text until a column's type is known, so that numbers keep all
//! of their digits.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A field of an object.
pub type Field<'a> = (Cow<'a, str>, &'a RawValue);

/// An object's fields in their order. A name that comes twice is here twice; [`Object::get`] gives the last, as JSON
/// readers do.
#[derive(Debug, Default, Clone)]
pub struct Object<'a>(pub Vec<Field<'a>>);

impl<'a> Object<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As [`Object::parse`], of bytes that may not be text at all.
    pub fn of_bytes(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// A field's value; `None` where it is missing or null.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.entry(name).filter(|raw| !is_null(raw))
    }

    /// A field's value, null or not.
    pub fn entry(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    /// The text of a field that is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }

    /// A field that is a whole number.
    pub fn long(&self, name: &str) -> Option<i64> {
        self.get(name)?.get().parse().ok()
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|raw| raw.get() == "true")
    }

    /// A field that is an object.
    pub fn object(&self, name: &str) -> Option<Object<'a>> {
        Object::parse(self.get(name)?.get())
    }

    /// A field that is a list.
    pub fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// A field that is a list of strings.
    pub fn texts(&self, name: &str) -> Option<Vec<Cow<'a, str>>> {
        self.list(name)?.into_iter().map(text).collect()
    }
}

/// A name without a copy where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(16);
                while let Some(Name(name)) = map.next_key()? {
                    fields.push((name, map.next_value()?));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

pub fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// The text of a JSON string; `None` for anything else.
pub fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.as_bytes().contains(&b'\\') {
        return serde_json::from_str::<String>(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// What kind of value a text of JSON is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    List,
    Object,
}

pub fn kind(raw: &RawValue) -> Kind {
    match raw.get().as_bytes().first() {
        Some(b'n') | None => Kind::Null,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'"') => Kind::Text,
        Some(b'[') => Kind::List,
        Some(b'{') => Kind::Object,
        Some(_) => Kind::Number,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_keep_their_text() {
        let json = r#"{"a":0.10000000000000000000001,"b":"x\ny","a":18446744073709551615, "c" : null,"d\"":[1, 2]}"#;
        let object = Object::parse(json).unwrap();
        assert_eq!(object.get("a").unwrap().get(), "18446744073709551615");
        assert_eq!(object.0[0].1.get(), "0.10000000000000000000001");
        assert_eq!(object.text("b").unwrap(), "x\ny");
        assert!(object.get("c").is_none() && object.entry("c").is_some());
        assert_eq!(object.list("d\"").unwrap().len(), 2);
        assert!(Object::parse("[1]").is_none() && Object::parse("{\"a\":}").is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_object_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Object::of_bytes(&bytes);
        }
    }
}
