//! Statements of any text, in any mode, read and applied one after another.
#![no_main]

use lakeward_core::{DataType, Position, TableId};
use lakeward_mysql::ddl::{
    Flavor, SchemaHistory, Selection, SqlMode, StatementPlace, StatementTime, read, read_column_type,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, bool, bool, Vec<String>)| {
    let (bits, is_mariadb, is_explicit, statements) = input;
    let flavor = if is_mariadb { Flavor::MariaDb } else { Flavor::MySql };
    let mode = SqlMode::from_bits(flavor, bits, is_explicit);
    let mut history = SchemaHistory::new("latin1", (bits >> 40) as u8 % 3);
    let selection = Selection {
        is_captured: &|table: &TableId| &*table.namespace == "d",
        is_ghost: &|table| table.name.starts_with('_'),
        types: &|column| if column.nullable { DataType::String } else { DataType::Int },
    };
    for (n, sql) in statements.iter().enumerate() {
        let _ = read_column_type(sql, &mode, "utf8mb4");
        let Ok(read) = read(sql, &mode, Some("d")) else { continue };
        let place = StatementPlace {
            position: Position { hi: 0, lo: n as u64 },
            commit_ms: 0,
            mode,
            time: StatementTime { micros: bits as i64 / 2, has_fraction: true, offset_secs: Some(0) },
        };
        for statement in read {
            history.apply(&statement, &place, &selection);
        }
    }
});
