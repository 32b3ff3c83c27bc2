//! Values of any text in well-formed envelopes whose columns have declared types: what is read must fit its column.
#![no_main]

use lakeward_kafka::config::Format;
use lakeward_kafka::fuzzing::read_records;
use libfuzzer_sys::fuzz_target;

const TYPES: [&str; 12] = [
    "bigint unsigned", "decimal(38,10)", "datetime(6)", "timestamp(3)", "time(6)", "date", "double", "binary(4)",
    "varchar(9)", "json", "bit(9)", "tinyint(1)",
];

fuzz_target!(|input: (u8, u8, String, bool)| {
    let (of_type, format, value, quoted) = input;
    let kind = TYPES[usize::from(of_type) % TYPES.len()];
    let value = if quoted { format!("\"{value}\"") } else { value };
    let record = match format % 2 {
        0 => format!(
            "{{\"type\":\"INSERT\",\"database\":\"d\",\"table\":\"t\",\"es\":1,\"pkNames\":[\"id\"],\
             \"mysqlType\":{{\"id\":\"int\",\"v\":\"{kind}\"}},\"data\":[{{\"id\":\"1\",\"v\":{value}}}]}}"
        ),
        _ => format!(
            "{{\"op\":\"c\",\"source\":{{\"db\":\"d\",\"table\":\"t\",\"ts_ms\":1}},\"after\":{{\"id\":1,\"v\":{value}}}}}"
        ),
    };
    let format = if format % 2 == 0 { Format::CanalJson } else { Format::DebeziumJson };
    read_records(format, &[(Some(b"{\"id\":1}"), Some(record.as_bytes()))]);
});
