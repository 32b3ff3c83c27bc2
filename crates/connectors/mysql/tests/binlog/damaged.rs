//! Recorded events, cut short and changed byte by byte: errors, never a panic, and never more
//! memory than the bytes could mean.

use std::collections::HashMap;
use std::sync::Arc;

use lakeward_core::ErrorKind;
use lakeward_mysql::binlog::{DecoderState, Event, EventBody, parse_event};
use lakeward_mysql::rows::{RowPlan, TableBuilder};
use lakeward_mysql::types::{TypeOptions, table_schema};

use crate::RECORDINGS;
use crate::recorded::Recording;

/// What a reader would do with the events, without any of its expectations.
struct Victim<'r> {
    recording: &'r Recording,
    plans: HashMap<u64, (String, RowPlan)>,
    builders: HashMap<String, TableBuilder>,
}

impl<'r> Victim<'r> {
    fn new(recording: &'r Recording) -> Self {
        Self { recording, plans: HashMap::new(), builders: HashMap::new() }
    }

    fn take(&mut self, event: &Event<'_>, state: &mut DecoderState) {
        match &event.body {
            EventBody::TableMap(map) => {
                let Some(recorded) = self.recording.tables.get(map.table) else { return };
                if let Ok(plan) = RowPlan::new(&recorded.table, map) {
                    let schema = table_schema(&recorded.table, 1, &TypeOptions::default()).unwrap();
                    let builder = TableBuilder::new(&recorded.table, Arc::new(schema)).unwrap();
                    self.builders.entry(map.table.to_owned()).or_insert(builder);
                    self.plans.insert(map.table_id, (map.table.to_owned(), plan));
                }
            }
            EventBody::Rows(rows) => {
                let Some((table, plan)) = self.plans.get(&rows.table_id) else { return };
                let builder = self.builders.get_mut(table).unwrap();
                let before = builder.len();
                let decoded = plan.decode(rows, builder);
                assert!(decoded.is_err() || builder.len() == before + decoded.unwrap());
                let len = builder.len();
                let (batch, kinds, _) = builder.finish().unwrap();
                assert_eq!((batch.num_rows(), kinds.len()), (len, len));
            }
            EventBody::TransactionPayload(payload) => {
                let Ok(mut inside) = payload.events() else { return };
                let mut nested = state.clone();
                while let Ok(Some(event)) = inside.next(&mut nested) {
                    if !matches!(event.body, EventBody::TransactionPayload(_)) {
                        self.take(&event, state);
                    }
                }
            }
            EventBody::Query(query) => drop(query.text()),
            _ => {}
        }
    }
}

fn set_size(bytes: &mut [u8]) {
    let size = (bytes.len() as u32).to_le_bytes();
    if let Some(place) = bytes.get_mut(9..13) {
        place.copy_from_slice(&size);
    }
}

/// Runs `damage` on each event; the bytes it leaves are read as an event among the whole ones
/// before it.
fn each_damaged(mut damage: impl FnMut(&[u8], usize, &mut dyn FnMut(&[u8]))) {
    for name in RECORDINGS {
        let recording = Recording::load(name);
        // Checksums would catch most damage before the decoder sees it.
        let mut state = DecoderState::without_verification();
        let mut victim = Victim::new(&recording);
        for (i, span) in recording.spans().into_iter().enumerate() {
            let whole = &recording.bytes[span];
            damage(whole, i, &mut |bytes| {
                let mut state = state.clone();
                if let Ok(event) = parse_event(bytes, &mut state) {
                    victim.take(&event, &mut state);
                }
            });
            let event = parse_event(whole, &mut state).unwrap();
            victim.take(&event, &mut state.clone());
        }
    }
}

/// Every so many bytes in a long event, every byte in a short one.
fn steps(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by(1 + length / 400)
}

#[test]
fn events_cut_short() {
    each_damaged(|whole, _, read| {
        for length in steps(whole.len()) {
            let mut bytes = whole[..length].to_vec();
            read(&bytes);
            set_size(&mut bytes);
            read(&bytes);
        }
    });
}

#[test]
fn events_with_a_changed_byte() {
    each_damaged(|whole, event, read| {
        for at in steps(whole.len()) {
            let mut bytes = whole.to_vec();
            for change in [0xff, 0x80, 1, (at as u8).wrapping_mul(37) ^ event as u8 | 2] {
                bytes[at] ^= change;
                read(&bytes);
                bytes[at] ^= change;
            }
        }
    });
}

#[test]
fn a_changed_byte_does_not_pass_the_checksum() {
    let recording = Recording::load("mysql-images");
    let mut state = DecoderState::default();
    for span in recording.spans() {
        let whole = &recording.bytes[span];
        let event = parse_event(whole, &mut state).unwrap();
        // It says itself whether there are checksums, and servers change it on the way.
        if matches!(event.body, EventBody::FormatDescription(_)) {
            continue;
        }
        for at in [0, 4, 19, whole.len() - 1] {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x40;
            let error = parse_event(&bytes, &mut state.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
        }
    }
}

/// Several changes at once, again and again: what a fuzzer does, without its eyes. For a compiler
/// with eyes see `fuzz/`.
#[test]
#[ignore = "takes minutes"]
fn events_with_many_changes() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below.max(1) as u64) as usize
    };
    each_damaged(|whole, _, read| {
        for _ in 0..3_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..=next(6) {
                let at = next(bytes.len());
                match next(5) {
                    0 => bytes[at] = next(256) as u8,
                    1 => bytes[at] ^= 1 << next(8),
                    2 => bytes.truncate(at.max(20)),
                    3 => bytes[at] = [0, 0xff, 0xfe, 0xfc, 0x7f, 0x80][next(6)],
                    _ => {
                        // A piece of the event over another place of it.
                        let (from, length) = (next(bytes.len()), next(16));
                        let piece = bytes[from..bytes.len().min(from + length)].to_vec();
                        let end = bytes.len().min(at + piece.len());
                        bytes[at..end].copy_from_slice(&piece[..end - at]);
                    }
                }
            }
            set_size(&mut bytes);
            read(&bytes);
        }
    });
}
