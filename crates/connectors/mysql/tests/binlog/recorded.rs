//! A recorded file and what belongs to it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lakeward_mysql::binlog::{
    DecoderState, Event, EventBody, EventHeader, HEADER_BYTES, parse_event,
};
use lakeward_mysql::ddl::{Flavor, SqlMode, read_table};
use lakeward_mysql::model::{MysqlTable, MysqlType};

pub struct RecordedTable {
    pub table: MysqlTable,
    pub rows: Vec<Vec<Option<String>>>,
}

pub struct Recording {
    pub database: String,
    pub bytes: Vec<u8>,
    pub tables: BTreeMap<String, RecordedTable>,
}

impl Recording {
    pub fn load(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/binlog/recorded");
        let bytes = std::fs::read(folder.join(format!("{name}.binlog"))).unwrap();
        assert_eq!(&bytes[..4], b"\xfebin");
        let text = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let flavor = if name.starts_with("maria") { Flavor::MariaDb } else { Flavor::MySql };
        let mut tables = BTreeMap::new();
        for (table, value) in json["tables"].as_object().unwrap() {
            let create = value["create"].as_str().unwrap();
            let shape = read_table(create, &SqlMode::new(flavor), "utf8mb4").unwrap();
            let mut rows: Vec<Vec<Option<String>>> =
                serde_json::from_value(value["rows"].clone()).unwrap();
            // The servers' ways to write a number differ; the number does not.
            for (i, column) in shape.columns.iter().enumerate() {
                if matches!(column.column_type, MysqlType::Float | MysqlType::Double) {
                    let number = |v: &String| format!("{:e}", v.parse::<f64>().unwrap());
                    rows.iter_mut().for_each(|row| row[i] = row[i].as_ref().map(number));
                }
            }
            tables.insert(table.clone(), RecordedTable { table: shape, rows });
        }
        Self { database: name.replace('-', "_"), bytes, tables }
    }

    /// Where each event begins and ends.
    pub fn spans(&self) -> Vec<std::ops::Range<usize>> {
        let mut spans = Vec::new();
        let mut at = 4;
        while at + HEADER_BYTES <= self.bytes.len() {
            let end = at + EventHeader::parse(&self.bytes[at..]).unwrap().size_bytes as usize;
            spans.push(at..end);
            at = end;
        }
        spans
    }

    /// The same log as a server with `binlog_checksum=NONE` would have written it.
    pub fn without_checksums(mut self) -> Self {
        let mut bytes = self.bytes[..4].to_vec();
        for span in self.spans() {
            let mut event = self.bytes[span].to_vec();
            let end = event.len() - 4;
            if event[4] == 15 {
                // The algorithm stands before four bytes that are there in any case.
                event[end - 1] = 0;
            } else {
                event.truncate(end);
                event[9..13].copy_from_slice(&(end as u32).to_le_bytes());
            }
            bytes.extend(event);
        }
        self.bytes = bytes;
        self
    }

    /// Hands over every event, those inside of compressed transactions in their place.
    pub fn each_event(&self, mut take: impl FnMut(Event<'_>)) {
        let mut state = DecoderState::default();
        for span in self.spans() {
            let event = parse_event(&self.bytes[span], &mut state).unwrap();
            if let EventBody::TransactionPayload(payload) = &event.body {
                let mut inside = payload.events().unwrap();
                while let Some(event) = inside.next(&mut state).unwrap() {
                    take(event);
                }
            }
            take(event);
        }
    }
}
