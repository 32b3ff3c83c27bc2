//! Decoded rows applied in order, as plain text.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, RecordBatch};
use lakeward_core::{DataType, RowKind, TableSchema, Unavailable};
use lakeward_mysql::binlog::EventBody;
use lakeward_mysql::model::MysqlType;
use lakeward_mysql::rows::{RowPlan, TableBuilder};
use lakeward_mysql::types::{TypeOptions, data_type, table_schema};

use crate::recorded::Recording;

pub type Row = Vec<Option<String>>;

/// By table, in the order of the first column.
pub fn tables(recording: &Recording) -> BTreeMap<String, Vec<Row>> {
    let mut builders = HashMap::new();
    for (name, recorded) in &recording.tables {
        let schema = table_schema(&recorded.table, 1, &TypeOptions::default()).unwrap();
        let builder = TableBuilder::new(&recorded.table, Arc::new(schema)).unwrap();
        builders.insert(name.clone(), builder);
    }
    let mut plans: HashMap<u64, (String, RowPlan)> = HashMap::new();
    recording.each_event(|event| match event.body {
        EventBody::TableMap(map) if map.database == recording.database => {
            if plans.get(&map.table_id).is_some_and(|(_, plan)| plan.is_for(&map)) {
                return;
            }
            if let Some(recorded) = recording.tables.get(map.table) {
                let plan = RowPlan::new(&recorded.table, &map).unwrap();
                plans.insert(map.table_id, (map.table.to_owned(), plan));
            }
        }
        EventBody::Rows(rows) => {
            if let Some((table, plan)) = plans.get(&rows.table_id) {
                let builder = builders.get_mut(table).unwrap();
                assert!(plan.decode(&rows, builder).unwrap() > 0);
            }
        }
        _ => {}
    });
    let mut found = BTreeMap::new();
    for (name, mut builder) in builders {
        let schema = builder.schema().clone();
        let (rows, kinds, unavailable) = builder.finish().unwrap();
        let types: Vec<_> =
            recording.tables[&name].table.columns.iter().map(|c| c.column_type.clone()).collect();
        found.insert(name, apply(&schema, &types, &rows, &kinds, unavailable.as_ref()));
    }
    found
}

fn apply(
    schema: &TableSchema,
    types: &[MysqlType],
    rows: &RecordBatch,
    kinds: &[RowKind],
    unavailable: Option<&Unavailable>,
) -> Vec<Row> {
    let key = schema.key_indices();
    let mut table: Vec<Row> = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        let mut row: Row =
            (0..schema.columns.len()).map(|c| plain(&types[c], rows.column(c), i)).collect();
        let same = |other: &Row| {
            if key.is_empty() { *other == row } else { key.iter().all(|k| other[*k] == row[*k]) }
        };
        let at = table.iter().position(same);
        let unknown = |c: usize| {
            unavailable.is_some_and(|u| u.0[c].as_ref().is_some_and(|bits| bits.value(i)))
        };
        match (kind, at) {
            (RowKind::Delete | RowKind::UpdateBefore, Some(at)) => drop(table.remove(at)),
            (RowKind::Delete | RowKind::UpdateBefore, None) => {
                panic!("a row that is not there goes")
            }
            (RowKind::UpdateAfter, Some(at)) if !key.is_empty() => {
                for c in (0..row.len()).filter(|c| unknown(*c)) {
                    row[c].clone_from(&table[at][c]);
                }
                table[at] = row;
            }
            (RowKind::Insert, Some(_)) if !key.is_empty() => panic!("a row comes twice"),
            _ => {
                assert!((0..row.len()).all(|c| !unknown(c)), "a new row is whole");
                table.push(row);
            }
        }
    }
    table.sort_by_key(|row| row[0].as_deref().and_then(|v| v.parse::<i128>().ok()));
    table
}

/// A value in the form that `record.py` gives it.
pub fn plain(column_type: &MysqlType, array: &dyn Array, row: usize) -> Option<String> {
    if array.is_null(row) {
        return None;
    }
    const DAY_US: i64 = 86_400_000_000;
    let long = |text: &[u8], prefix: char| {
        let hex: String = text.iter().map(|b| format!("{b:02X}")).collect();
        if hex.len() < 400 {
            return format!("{prefix}{hex}");
        }
        let mut crc = flate2::Crc::new();
        crc.update(text);
        format!("{prefix}~{}~{:08x}", text.len(), crc.sum())
    };
    if matches!(column_type, MysqlType::Decimal { precision: 39.., .. }) {
        return Some(array.as_string::<i32>().value(row).to_owned());
    }
    Some(match data_type(column_type, &TypeOptions::default()) {
        DataType::TinyInt => array.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::SmallInt => array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::BigInt => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float => number(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Double => number(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal { .. } => array.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Date => date(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Time { .. } => {
            let us = array.as_primitive::<Int64Type>().value(row);
            format!("{}{}", if us < 0 { "-" } else { "" }, clock(us.abs()))
        }
        DataType::Timestamp { .. } | DataType::TimestampLtz { .. } => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(row);
            format!("{} {}", date(us.div_euclid(DAY_US)), clock(us.rem_euclid(DAY_US)))
        }
        DataType::Binary { .. } | DataType::Varbinary { .. } | DataType::Bytes => {
            long(array.as_binary::<i32>().value(row), 'x')
        }
        _ => long(array.as_string::<i32>().value(row).as_bytes(), 't'),
    })
}

/// Doubles as both sides would print them.
fn number(value: f64) -> String {
    format!("{value:e}")
}

fn date(days: i64) -> String {
    let date = chrono::DateTime::from_timestamp(days * 86_400, 0).unwrap().date_naive();
    date.format("%Y-%m-%d").to_string()
}

fn clock(us: i64) -> String {
    let seconds = us / 1_000_000;
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        us % 1_000_000
    )
}
