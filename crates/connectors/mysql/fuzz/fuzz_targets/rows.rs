//! Row images of any bytes under a table map of any bytes: a table whose types are taken from the
//! map, so that most plans succeed.
#![no_main]

use std::sync::Arc;

use lakeward_mysql::binlog::{DecoderState, EventBody, TableMap, code, parse_event};
use lakeward_mysql::model::{MysqlColumn, MysqlDefault, MysqlTable, MysqlType};
use lakeward_mysql::rows::{RowPlan, TableBuilder};
use lakeward_mysql::types::{TypeOptions, table_schema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<u8>, Vec<u8>)| {
    let (kind, map, rows) = input;
    let mut state = DecoderState::without_verification();
    let map = event(19, &map);
    let Ok(map) = parse_event(&map, &mut state) else { return };
    let EventBody::TableMap(map) = map.body else { return };
    let Some(table) = table_of(&map, kind & 0x40 != 0) else { return };
    let Ok(plan) = RowPlan::new(&table, &map) else { return };
    let Ok(schema) = table_schema(&table, 1, &TypeOptions::default()) else { return };
    let Ok(mut builder) = TableBuilder::new(&table, Arc::new(schema)) else { return };
    let types = [23, 24, 25, 30, 31, 32, 39, 166, 167, 168];
    let rows = event(types[usize::from(kind & 0x3f) % types.len()], &rows);
    let Ok(rows) = parse_event(&rows, &mut state) else { return };
    if let EventBody::Rows(rows) = rows.body {
        let _ = plan.decode(&rows, &mut builder);
        builder.finish().expect("columns of one length");
    }
});

fn event(event_type: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 19];
    bytes[4] = event_type;
    bytes[9..13].copy_from_slice(&(19 + body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn table_of(map: &TableMap<'_>, keyed: bool) -> Option<MysqlTable> {
    let optional = map.optional().ok()?;
    let mut columns = Vec::new();
    for (i, stored) in map.columns().ok()?.into_iter().enumerate().take(100) {
        let unsigned = optional.unsigned.get(i).copied().flatten().unwrap_or(false);
        let charset: Arc<str> =
            ["utf8mb4", "latin1", "gbk", "utf16", "ujis", "gb18030"][i % 6].into();
        let fsp = (stored.metadata as u8).min(6);
        let length = stored.string_bytes() as u32;
        let column_type = match stored.type_code {
            code::TINY => MysqlType::TinyInt { unsigned, display_width: None },
            code::SHORT => MysqlType::SmallInt { unsigned },
            code::INT24 => MysqlType::MediumInt { unsigned },
            code::LONG => MysqlType::Int { unsigned },
            code::LONGLONG => MysqlType::BigInt { unsigned },
            code::FLOAT => MysqlType::Float,
            code::DOUBLE => MysqlType::Double,
            code::YEAR => MysqlType::Year,
            code::DATE => MysqlType::Date,
            code::TIME | code::TIME2 => MysqlType::Time { fsp },
            code::DATETIME | code::DATETIME2 => MysqlType::DateTime { fsp },
            code::TIMESTAMP | code::TIMESTAMP2 => MysqlType::Timestamp { fsp },
            code::NEWDECIMAL => {
                let [precision, scale] = stored.metadata.to_be_bytes();
                MysqlType::Decimal { precision, scale, unsigned }
            }
            code::BIT => MysqlType::Bit { width: (stored.metadata >> 8) as u8 * 8 },
            code::JSON => MysqlType::Json,
            code::GEOMETRY => MysqlType::Geometry,
            code::VECTOR => MysqlType::Vector { dimensions: 1 },
            code::BLOB | code::BLOB_COMPRESSED if i % 2 == 0 => {
                MysqlType::Blob { length_bytes: stored.metadata as u8 }
            }
            code::BLOB | code::BLOB_COMPRESSED => {
                MysqlType::Text { length_bytes: stored.metadata as u8, charset }
            }
            code::VARCHAR | code::VARCHAR_COMPRESSED if i % 2 == 0 => {
                MysqlType::Varbinary { length }
            }
            code::VARCHAR | code::VARCHAR_COMPRESSED => MysqlType::Varchar { length, charset },
            _ if stored.is_enum() => MysqlType::Enum { labels: labels(), charset },
            _ if stored.is_set() => MysqlType::Set { labels: labels(), charset },
            _ if i % 3 == 0 => MysqlType::Binary { length },
            _ if i % 3 == 1 => MysqlType::Uuid,
            _ => MysqlType::Char { length, charset },
        };
        let name = optional.names.get(i).and_then(|n| std::str::from_utf8(n).ok());
        columns.push(MysqlColumn {
            name: name.map_or_else(|| format!("c{i}").into(), Into::into),
            column_type,
            nullable: true,
            default: MysqlDefault::None,
            auto_increment: false,
            generated: false,
            virtual_column: false,
            invisible: false,
            compressed: false,
            float_scale: None,
            comment: None,
        });
    }
    let primary_key =
        columns.first().filter(|_| keyed).map(|c| c.name.clone()).into_iter().collect();
    Some(MysqlTable { columns, primary_key, charset: "utf8mb4".into(), comment: None })
}

fn labels() -> Arc<[Arc<str>]> {
    ["a".into(), "b".into()].into()
}
