//! A JSON column's document and the changes of a partial update, both of any bytes.
#![no_main]

use std::sync::Arc;

use lakeward_mysql::binlog::{DecoderState, EventBody, parse_event};
use lakeward_mysql::ddl::{Flavor, SqlMode, read_table};
use lakeward_mysql::rows::{RowPlan, TableBuilder};
use lakeward_mysql::types::{TypeOptions, table_schema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (document, changes) = input;
    let create = "CREATE TABLE t (d JSON)";
    let table = read_table(create, &SqlMode::new(Flavor::MySql), "utf8mb4").expect("a table");
    let schema = table_schema(&table, 1, &TypeOptions::default()).expect("a known character set");
    let mut builder = TableBuilder::new(&table, Arc::new(schema)).expect("the same columns");
    let mut state = DecoderState::without_verification();
    // Number 1, database d, table t, one column of JSON with lengths of four bytes, nullable.
    let map = event(19, b"\x01\0\0\0\0\0\0\0\x01d\0\x01t\0\x01\xf5\x01\x04\x01");
    let map = parse_event(&map, &mut state).expect("a table map");
    let EventBody::TableMap(map) = map.body else { unreachable!("type 19") };
    let plan = RowPlan::new(&table, &map).expect("the same column");
    let mut rows = b"\x01\0\0\0\0\0\0\0\x02\0\x01\x01\x01".to_vec();
    let mut value = |head: &[u8], bytes: &[u8]| {
        rows.extend_from_slice(head);
        rows.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        rows.extend_from_slice(bytes);
    };
    value(b"\0", &document);
    value(b"\x01\x01\0", &changes);
    let rows = event(39, &rows);
    let rows = parse_event(&rows, &mut state).expect("a rows event");
    let EventBody::Rows(rows) = rows.body else { unreachable!("type 39") };
    let _ = plan.decode(&rows, &mut builder);
    builder.finish().expect("utf8 and columns of one length");
});

fn event(event_type: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 19];
    bytes[4] = event_type;
    bytes[9..13].copy_from_slice(&(19 + body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}
