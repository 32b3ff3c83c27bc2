//! The comparison itself: it must see every kind of difference, or no other test means anything.

use lakeward_testkit::compare::{self, Comparison};
use lakeward_testkit::lake::{Lake, Reader};
use lakeward_testkit::require::or_skip;
use lakeward_testkit::{mariadb, venv};
use serde_json::{Value, json};

const ROWS: &str =
    "(1,'a',1.50,0.1,'2024-02-29 10:00:00'),(2,NULL,NULL,NULL,NULL),(3,'c',-0.25,2,'1970-01-01')";

fn fields(n_kind: &str) -> Value {
    let field = |id: i32, name: &str, kind: &str| json!({"id": id, "name": name, "type": kind, "required": false});
    json!([
        field(1, "id", "int"),
        field(2, "s", "string"),
        field(3, "n", n_kind),
        field(4, "f", "float"),
        field(5, "at", "timestamp"),
    ])
}

fn rows() -> Value {
    json!({
        "id": [1, 2, 3], "s": ["a", null, "c"], "n": [1.5, null, -0.25], "f": [0.1, null, 2.0],
        "at": [1_709_200_800_000_000_i64, null, 0],
    })
}

#[test]
fn sees_what_differs_and_nothing_else() {
    let Some(server) = mariadb::start_or_skip() else { return };
    if or_skip(venv::NAME, venv::find()).is_none() {
        return;
    }
    let mut session = server.session(None).unwrap();
    session.run("CREATE DATABASE d").unwrap();
    session.run("USE d").unwrap();
    session
        .run("CREATE TABLE t(id INT PRIMARY KEY, s VARCHAR(9), n DECIMAL(9,2), f FLOAT, at DATETIME)")
        .unwrap();
    session.run(&format!("INSERT INTO t VALUES{ROWS}")).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::in_folder(folder.path());
    let with = |column: &str, value: Value| {
        let mut rows = rows();
        rows[column] = value;
        rows
    };
    let twice = {
        let mut all = rows();
        for (_, column) in all.as_object_mut().unwrap() {
            let column = column.as_array_mut().unwrap();
            column.push(column[0].clone());
        }
        all
    };
    let tables = [
        ("same", fields("decimal(9,2)"), rows(), None),
        (
            "text",
            fields("decimal(9,2)"),
            with("s", json!(["A", null, "c"])),
            Some("missing: (1, a,"),
        ),
        (
            "empty",
            fields("decimal(9,2)"),
            with("s", json!(["a", "", "c"])),
            Some("too many: (2, ,"),
        ),
        ("float", fields("decimal(9,2)"), with("f", json!([0.10001, null, 2.0])), Some("f32:")),
        ("moved", fields("decimal(9,2)"), with("id", json!([1, 2, 4])), Some("too many: (4,")),
        ("twice", fields("decimal(9,2)"), twice, Some("0 rows are missing and 1 are too many")),
        ("kind", fields("double"), rows(), Some("column n is double in the lake")),
    ];
    for (name, fields, rows, expected) in tables {
        lake.create(&format!("d.{name}"), fields, rows).unwrap();
        let table = lake.table("d", name).unwrap();
        for reader in Reader::ALL {
            let Comparison { differences, rows } =
                compare::table(&mut session, "d", "t", &lake, &table, reader).unwrap();
            assert_eq!(rows, 3, "{name}");
            match expected {
                None => assert!(differences.is_empty(), "{name}: {differences:?}"),
                Some(text) => {
                    assert!(
                        differences.iter().any(|d| d.contains(text)),
                        "{name}: {differences:?}"
                    );
                }
            }
        }
    }
    session.run("ALTER TABLE t DROP COLUMN f, ADD COLUMN g INT").unwrap();
    let table = lake.table("d", "same").unwrap();
    let found = compare::table(&mut session, "d", "t", &lake, &table, Reader::DuckDb).unwrap();
    assert_eq!(found.differences, ["column g is not in the lake", "column f is in the lake only"]);

    // Foreign writers, as the fault tests use them.
    lake.rewrite("d.same").unwrap();
    lake.expire("d.same", 1).unwrap();
    let table = lake.table("d", "same").unwrap();
    assert_eq!(table.committed_ms.len(), 1);
    assert_eq!(lake.rows(&table, Reader::DuckDb).unwrap().len(), 3);
}
