//! A partition as a split, and a place in it.

use std::fmt;
use std::sync::Arc;

use lakeward_core::{Error, Offset, Result, SplitId};
use serde::{Deserialize, Serialize};

/// One partition of one topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TopicPartition {
    pub topic: Arc<str>,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }

    pub fn split(&self) -> SplitId {
        SplitId(self.to_string().into())
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `/` cannot be in a topic's name.
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

#[derive(Serialize, Deserialize)]
struct Next {
    offset: i64,
}

/// The place before the record of this offset.
pub fn encode(next: i64) -> Offset {
    Offset(format!("{{\"offset\":{next}}}").into())
}

/// The offset of the first record that is behind the place.
pub fn decode(offset: &Offset) -> Result<i64> {
    let next: Next = serde_json::from_str(&offset.0).map_err(|e| {
        Error::config(
            "this is not an offset of the kafka source; was the pipeline's source another one?",
        )
        .with("offset", offset)
        .with_source(e)
    })?;
    Ok(next.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_round_trip() {
        assert_eq!(decode(&encode(42)).unwrap(), 42);
        assert!(decode(&Offset("{}".into())).is_err());
        assert_eq!(&*TopicPartition::new("shop.orders", 3).split().0, "shop.orders/3");
    }
}
