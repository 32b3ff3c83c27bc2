//! A checkpoint as a file: `magic | header length: u32 LE | header: JSON | states | XXH3 of all before: u64 LE`.
//!
//! The header is JSON so that a person can see with `strings` what a file is and where its pipeline was.

use std::sync::Arc;

use lakeward_core::{Error, Offsets, Result, State};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Checkpoint, Identity, StageStates};

const MAGIC: &[u8; 8] = b"LAKEWARD";
/// Grows when an older version could not read what is written.
const FORMAT: u32 = 1;
const SUM_BYTES: usize = 8;

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    id: u64,
    identity: Identity,
    attempt: u64,
    created_ms: i64,
    offsets: Offsets,
    held: bool,
    source: Vec<StateHeader>,
    stages: Vec<StageHeader>,
}

#[derive(Serialize, Deserialize)]
struct StageHeader {
    name: Arc<str>,
    states: Vec<StateHeader>,
}

#[derive(Serialize, Deserialize)]
struct StateHeader {
    version: u32,
    size_bytes: usize,
}

impl StateHeader {
    fn of(states: &[State]) -> Vec<StateHeader> {
        let header = |s: &State| StateHeader { version: s.version, size_bytes: s.bytes.len() };
        states.iter().map(header).collect()
    }
}

pub(super) fn encode(checkpoint: &Checkpoint, identity: &Identity) -> Result<Vec<u8>> {
    let header = Header {
        format: FORMAT,
        id: checkpoint.id,
        identity: identity.clone(),
        attempt: checkpoint.attempt,
        created_ms: checkpoint.created_ms,
        offsets: checkpoint.offsets.clone(),
        held: checkpoint.held,
        source: StateHeader::of(&checkpoint.source),
        stages: checkpoint
            .stages
            .iter()
            .map(|s| StageHeader { name: s.name.clone(), states: StateHeader::of(&s.states) })
            .collect(),
    };
    let header = serde_json::to_vec(&header)
        .map_err(|e| Error::bug("could not encode a checkpoint's header").with_source(e))?;
    let header_bytes = u32::try_from(header.len())
        .map_err(|_| Error::bug("a checkpoint's header is larger than 4 GiB"))?;
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&header_bytes.to_le_bytes());
    out.extend_from_slice(&header);
    let stages = checkpoint.stages.iter().flat_map(|s| &s.states);
    for state in checkpoint.source.iter().chain(stages) {
        out.extend_from_slice(&state.bytes);
    }
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    Ok(out)
}

/// Why a file is not taken.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is not what was written: an older checkpoint takes its place.
    Damaged(&'static str),
    /// It is whole, and not for us.
    Foreign(Error),
}

pub(super) fn decode(bytes: &[u8], identity: &Identity) -> Result<Checkpoint, Refusal> {
    let (content, sum) = bytes
        .len()
        .checked_sub(SUM_BYTES)
        .and_then(|at| bytes.split_at_checked(at))
        .ok_or(Refusal::Damaged("it is too short"))?;
    let rest = content.strip_prefix(MAGIC).ok_or(Refusal::Damaged("it has no magic bytes"))?;
    if xxh3_64(content).to_le_bytes() != sum {
        return Err(Refusal::Damaged("its checksum is wrong"));
    }
    let (length, rest) =
        rest.split_first_chunk::<4>().ok_or(Refusal::Damaged("it has no header"))?;
    let (header, mut states) = rest
        .split_at_checked(u32::from_le_bytes(*length) as usize)
        .ok_or(Refusal::Damaged("its header is cut"))?;
    let header = read_header(header)?;
    if header.identity != *identity {
        return Err(Refusal::Foreign(foreign(&header.identity, identity)));
    }
    let mut take = |headers: &[StateHeader]| -> Result<Vec<State>, Refusal> {
        let mut taken = Vec::with_capacity(headers.len());
        for StateHeader { version, size_bytes } in headers {
            let (bytes, rest) =
                states.split_at_checked(*size_bytes).ok_or(Refusal::Damaged("a state is cut"))?;
            states = rest;
            taken.push(State { version: *version, bytes: bytes.to_vec() });
        }
        Ok(taken)
    };
    let source = take(&header.source)?;
    let mut stages = Vec::with_capacity(header.stages.len());
    for stage in header.stages {
        stages.push(StageStates { states: take(&stage.states)?, name: stage.name });
    }
    Ok(Checkpoint {
        id: header.id,
        attempt: header.attempt,
        created_ms: header.created_ms,
        offsets: header.offsets,
        held: header.held,
        source,
        stages,
    })
}

fn read_header(bytes: &[u8]) -> Result<Header, Refusal> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let unreadable = |_| Refusal::Damaged("its header cannot be read");
    let Format { format } = serde_json::from_slice(bytes).map_err(unreadable)?;
    if format > FORMAT {
        return Err(Refusal::Foreign(
            Error::config(
                "the checkpoint was written by a newer version of lakeward; use that one",
            )
            .with("format", format),
        ));
    }
    serde_json::from_slice(bytes).map_err(unreadable)
}

/// One sentence that says in what the two differ.
pub(super) fn foreign(found: &Identity, ours: &Identity) -> Error {
    let (what, found, ours) = if found.pipeline != ours.pipeline {
        ("pipeline", found.pipeline.to_string(), ours.pipeline.to_string())
    } else if found.source != ours.source {
        ("source", found.source.clone(), ours.source.clone())
    } else {
        ("sink", found.sink.clone(), ours.sink.clone())
    };
    Error::config(format!(
        "the state directory belongs to another {what}; set state.dir to a directory of this pipeline's own",
    ))
    .with("found", found)
    .with("expected", ours)
}
