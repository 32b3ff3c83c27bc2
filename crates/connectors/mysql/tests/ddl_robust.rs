//! No text makes the reader or the history panic, and none makes them loop.

use lakeward_core::{DataType, Position, TableId};
use lakeward_mysql::ddl::{
    Flavor, SchemaHistory, Selection, SqlMode, StatementPlace, StatementTime, read,
    read_column_type,
};
use proptest::prelude::*;

const CORPUS: &str = include_str!("ddl/corpus.txt");

fn statements() -> Vec<&'static str> {
    CORPUS.lines().filter(|l| !l.is_empty() && !l.starts_with(['#', '='])).collect()
}

/// Cuts, doubles, swaps and splices pieces of statements.
fn mangled() -> impl Strategy<Value = String> {
    let one = prop::sample::select(statements());
    let other = prop::sample::select(statements());
    let junk = prop::sample::select(vec![
        "(",
        ")",
        ",",
        "'",
        "`",
        "\"",
        "/*",
        "*/",
        "/*!",
        "--",
        ";",
        ".",
        "=",
        " DEFAULT ",
        " FIRST ",
        " AFTER ",
        " x'",
        " 0x",
        "-",
        "@",
        "\\",
        " COMMENT ",
        " PRIMARY KEY ",
        " REFERENCES ",
        "\0",
    ]);
    let edits = prop::collection::vec((0usize..400, 0usize..40, junk, 0u8..4), 0..5);
    (one, other, edits).prop_map(|(one, other, edits)| {
        let mut text: Vec<char> = one.chars().collect();
        let other: Vec<char> = other.chars().collect();
        for (at, length, junk, kind) in edits {
            let at = at % (text.len() + 1);
            let end = (at + length).min(text.len());
            match kind {
                0 => {
                    text.drain(at..end);
                }
                1 => {
                    text.splice(at..at, junk.chars());
                }
                2 => {
                    let piece = text[at..end].to_vec();
                    text.splice(at..at, piece);
                }
                _ => {
                    let from = at.min(other.len());
                    let to = (from + length).min(other.len());
                    text.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
        text.into_iter().collect()
    })
}

fn apply_all(sqls: &[String], bits: u64, flavor: Flavor) {
    let mode = SqlMode::from_bits(flavor, bits, bits & 1 == 0);
    let mut history = SchemaHistory::new("latin1", (bits % 3) as u8);
    let selection = Selection {
        is_captured: &|t: &TableId| &*t.namespace == "d",
        is_ghost: &|t| t.name.starts_with('_'),
        types: &|c| if c.nullable { DataType::String } else { DataType::Int },
    };
    for (n, sql) in sqls.iter().enumerate() {
        let Ok(statements) = read(sql, &mode, Some("d")) else { continue };
        let place = StatementPlace {
            position: Position { hi: 0, lo: n as u64 },
            commit_ms: 0,
            mode,
            time: StatementTime { micros: i64::MAX / 4, has_fraction: true, offset_secs: Some(1) },
        };
        for statement in statements {
            history.apply(&statement, &place, &selection);
        }
    }
    let state = serde_json::to_string(&history).expect("encodes");
    serde_json::from_str::<SchemaHistory>(&state).expect("decodes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn mangled_statements(
        sqls in prop::collection::vec(mangled(), 1..8),
        bits in any::<u64>(),
        maria: bool,
    ) {
        apply_all(&sqls, bits, if maria { Flavor::MariaDb } else { Flavor::MySql });
    }

    #[test]
    fn arbitrary_text(tail in ".{0,200}", head in prop::sample::select(vec![
        "", "ALTER TABLE t ", "ALTER TABLE t ADD ", "CREATE TABLE t (", "RENAME TABLE ", "XA START ",
        "ALTER TABLE t ADD c INT DEFAULT ", "CREATE TABLE t (c ENUM(",
    ])) {
        apply_all(&[format!("{head}{tail}")], 0, Flavor::MySql);
        let _ = read_column_type(&tail, &SqlMode::new(Flavor::MariaDb), "utf8mb4");
    }
}

#[test]
fn depth_and_length_are_no_danger() {
    let deep = "(".repeat(200_000);
    let long = "a,".repeat(200_000);
    for head in ["ALTER TABLE t ADD c INT DEFAULT ", "CREATE TABLE t ", "ALTER TABLE t ORDER BY "] {
        for tail in [&deep, &long] {
            apply_all(&[format!("{head}{tail}")], 0, Flavor::MySql);
        }
    }
}
