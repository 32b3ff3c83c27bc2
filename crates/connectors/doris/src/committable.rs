//! What a writer hands to the committer: the loads of one table that wait for their second phase, in order.

use lakeward_core::{Committable, ErrorKind, Result, ResultExt, TableId};
use serde::{Deserialize, Serialize};

use crate::client::Loaded;

/// The format of [`TableCommittable::encode`]. Every version that was ever written is read.
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableCommittable {
    /// The run that loaded them.
    pub(crate) incarnation: u64,
    /// The writer instance.
    pub(crate) writer: usize,
    /// The number that its next load of this table would have had.
    pub(crate) next_part: u64,
    /// False for a table that only grows: its rows must not be loaded twice.
    pub(crate) keyed: bool,
    /// To be committed in this order; empty when loads are visible at once.
    pub(crate) loads: Vec<Loaded>,
}

impl TableCommittable {
    pub(crate) fn encode(
        &self,
        table: &TableId,
        rows: u64,
        size_bytes: u64,
        commit_ms: i64,
    ) -> Result<Committable> {
        let payload =
            serde_json::to_vec(self).or_err(ErrorKind::Bug, "could not encode a committable")?;
        Ok(Committable {
            table: table.clone(),
            version: VERSION,
            payload,
            rows,
            size_bytes,
            commit_ms,
        })
    }

    pub(crate) fn decode(committable: &Committable) -> Result<Self> {
        if committable.version != VERSION {
            return Err(lakeward_core::Error::config(
                "the checkpoint was written by a newer version of lakeward; use that one",
            )
            .with("version", committable.version));
        }
        serde_json::from_slice(&committable.payload)
            .or_err(ErrorKind::Bug, "a committable of the checkpoint cannot be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committables_survive_the_round_trip() {
        let load = |label: &str, txn_id| Loaded {
            label: Some(label.into()),
            txn_id,
            rows: 3,
            size_bytes: 40,
            loaded_at_ms: 1_700_000_000_000,
        };
        let written = TableCommittable {
            incarnation: 4,
            writer: 1,
            next_part: 9,
            keyed: true,
            loads: vec![load("a", Some(7)), load("b", None)],
        };
        let table = TableId::new("d", "t");
        let encoded = written.encode(&table, 6, 80, 5).expect("encodes");
        assert_eq!((encoded.rows, encoded.size_bytes, encoded.commit_ms), (6, 80, 5));
        assert_eq!(TableCommittable::decode(&encoded).expect("decodes"), written);
        let newer = Committable { version: 2, ..encoded };
        assert!(TableCommittable::decode(&newer).is_err());
    }
}
