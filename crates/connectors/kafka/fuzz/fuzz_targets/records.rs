//! Runs of records of any bytes, in every format: tables are made and changed as they ask for, and rows come out or a reason.
#![no_main]

use lakeward_kafka::config::Format;
use lakeward_kafka::fuzzing::read_records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<(Option<Vec<u8>>, Option<Vec<u8>>)>)| {
    let formats =
        [Format::DebeziumJson, Format::CanalJson, Format::MaxwellJson, Format::OggJson];
    let (format, records) = input;
    let records: Vec<_> = records.iter().map(|(k, v)| (k.as_deref(), v.as_deref())).collect();
    read_records(formats[usize::from(format) % formats.len()], &records);
});
