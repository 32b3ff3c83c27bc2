//! Operator state as a run of records: concatenating the states of several instances gives a valid state, so that an
//! instance can be restored from all of its stage's states and keep what it owns.

use lakeward_core::{Error, OperatorContext, Result, State, StreamRecord, TableId, codec};
use serde::{Serialize, de::DeserializeOwned};

pub(crate) const VERSION: u32 = 1;

/// Writes entries: a JSON header and the records that belong to it.
#[derive(Default)]
pub(crate) struct StateWriter(Vec<u8>);

impl StateWriter {
    pub(crate) fn entry<'a, H: Serialize>(
        &mut self,
        header: &H,
        records: impl IntoIterator<Item = &'a StreamRecord>,
    ) -> Result<()> {
        let mut body = Vec::new();
        for record in records {
            codec::encode(record, &mut body)?;
        }
        self.entry_bytes(header, &body)
    }

    /// Like `entry`, for records that are encoded already.
    pub(crate) fn entry_bytes<H: Serialize>(&mut self, header: &H, body: &[u8]) -> Result<()> {
        let header = serde_json::to_vec(header)
            .map_err(|e| Error::bug("could not encode operator state").with_source(e))?;
        for part in [header.as_slice(), body] {
            self.0.extend_from_slice(&(part.len() as u64).to_le_bytes());
            self.0.extend_from_slice(part);
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> State {
        State { version: VERSION, bytes: self.0 }
    }
}

/// Reads what [`StateWriter`] wrote.
pub(crate) fn read<H: DeserializeOwned>(state: &State) -> Result<Vec<(H, Vec<StreamRecord>)>> {
    if state.version != VERSION {
        return Err(Error::config(
            "the checkpoint holds operator state of another version of lakeward; use the version that wrote it",
        )
        .with("state version", state.version));
    }
    let mut input = state.bytes.as_slice();
    let mut entries = Vec::new();
    while !input.is_empty() {
        let header = part(&mut input)?;
        let header = serde_json::from_slice(header).map_err(|e| damaged().with_source(e))?;
        let mut body = part(&mut input)?;
        let mut records = Vec::new();
        while let Some(record) = codec::decode(&mut body)? {
            records.push(record);
        }
        entries.push((header, records));
    }
    Ok(entries)
}

fn part<'a>(input: &mut &'a [u8]) -> Result<&'a [u8]> {
    let (length, rest) = input.split_first_chunk::<8>().ok_or_else(damaged)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| damaged())?;
    let (part, rest) = rest.split_at_checked(length).ok_or_else(damaged)?;
    *input = rest;
    Ok(part)
}

fn damaged() -> Error {
    Error::bug("operator state in the checkpoint is damaged")
}

/// Whether this instance is the one that the previous stage sends the table's records to.
pub(crate) fn owns(context: &OperatorContext, table: &TableId) -> bool {
    table.stable_hash() % context.parallelism.max(1) as u64 == context.index as u64
}
