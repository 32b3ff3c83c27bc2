//! A stream of events of any bytes, as a server could send it. Good seeds are the files in
//! `tests/binlog/recorded`.
#![no_main]

use lakeward_mysql::binlog::{DecoderState, EventBody, EventHeader, HEADER_BYTES, parse_event};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut state = DecoderState::without_verification();
    let mut rest = bytes.strip_prefix(b"\xfebin").unwrap_or(bytes);
    while rest.len() >= HEADER_BYTES {
        let Ok(header) = EventHeader::parse(rest) else { return };
        let Some((event, after)) = rest.split_at_checked(header.size_bytes as usize) else {
            return;
        };
        rest = after;
        let Ok(event) = parse_event(event, &mut state) else { continue };
        match event.body {
            EventBody::TransactionPayload(payload) => {
                let Ok(mut inside) = payload.events() else { continue };
                while let Ok(Some(_)) = inside.next(&mut state) {}
            }
            EventBody::TableMap(map) => drop(map.optional()),
            EventBody::Query(query) => drop(query.text()),
            _ => {}
        }
    }
});
