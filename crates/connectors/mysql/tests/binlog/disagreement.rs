//! A known schema that is not the log's: noticed before a row is read, with table and column named.

use std::sync::Arc;

use lakeward_core::ErrorKind;
use lakeward_mysql::binlog::EventBody;
use lakeward_mysql::model::{MysqlTable, MysqlType};
use lakeward_mysql::rows::{RowPlan, TableBuilder};
use lakeward_mysql::types::{TypeOptions, table_schema};

use crate::recorded::Recording;

/// What the plan of a table map says about a changed schema; `None` where it fits.
fn complaint(
    recording: &Recording,
    table: &str,
    change: impl Fn(&mut MysqlTable),
) -> Option<String> {
    let mut shape = recording.tables[table].table.clone();
    change(&mut shape);
    let mut said = None;
    recording.each_event(|event| {
        if let EventBody::TableMap(map) = event.body
            && map.table == table
            && said.is_none()
        {
            said = Some(RowPlan::new(&shape, &map).err().map(|e| {
                assert_eq!(e.kind(), ErrorKind::SchemaIncompatible, "{e}");
                e.to_string()
            }));
        }
    });
    said.expect("a table map")
}

fn column<'t>(table: &'t mut MysqlTable, name: &str) -> &'t mut MysqlType {
    let index = table.index_of(name).unwrap();
    &mut table.columns[index].column_type
}

#[test]
fn each_difference_is_named() {
    let full = Recording::load("mysql-types");
    let says = |table: &str, change: &dyn Fn(&mut MysqlTable), words: &[&str]| {
        let text = complaint(&full, table, change).unwrap_or_else(|| panic!("{words:?} unseen"));
        assert!(text.contains(&format!("mysql_types.{table}")), "{text}");
        assert!(words.iter().all(|w| text.contains(w)), "{text} without {words:?}");
    };
    assert_eq!(complaint(&full, "numbers", |_| {}), None);
    says("numbers", &|t| drop(t.columns.pop()), &["known 26", "in the binlog 27"]);
    says("numbers", &|t| t.columns[3].name = "other".into(), &["column other", "name"]);
    says(
        "numbers",
        &|t| *column(t, "t1") = MysqlType::SmallInt { unsigned: false },
        &["t1", "type"],
    );
    says("numbers", &|t| *column(t, "b1") = MysqlType::BigInt { unsigned: true }, &["b1", "sign"]);
    let decimal = MysqlType::Decimal { precision: 5, scale: 1, unsigned: false };
    says("numbers", &|t| *column(t, "n1") = decimal.clone(), &["n1", "type"]);
    says("times", &|t| *column(t, "t3") = MysqlType::Time { fsp: 4 }, &["t3", "type"]);
    let latin2 = MysqlType::Varchar { length: 20, charset: "latin2".into() };
    says("texts", &|t| *column(t, "l1") = latin2.clone(), &["l1", "character set"]);
    says("bytes", &|t| *column(t, "u") = MysqlType::Binary { length: 15 }, &["u", "type"]);
    let turned: Arc<[Arc<str>]> = ["high", "low", "a,b", "it's"].map(Into::into).into();
    let labels = MysqlType::Enum { labels: turned, charset: "utf8mb4".into() };
    says("labels", &|t| *column(t, "e") = labels.clone(), &["column e", "labels"]);
}

#[test]
fn without_metadata_the_known_schema_is_believed() {
    let plain = Recording::load("mariadb-types-nolog");
    let renamed = |t: &mut MysqlTable| t.columns[3].name = "other".into();
    assert_eq!(complaint(&plain, "numbers", renamed), None);
    let turned = |t: &mut MysqlTable| *column(t, "b1") = MysqlType::BigInt { unsigned: true };
    assert_eq!(complaint(&plain, "numbers", turned), None);
    let narrowed = |t: &mut MysqlTable| *column(t, "b1") = MysqlType::Int { unsigned: false };
    assert!(complaint(&plain, "numbers", narrowed).is_some());
}

/// The partial images of a table that has lost its key in the known schema: each row would have to
/// be found by all of its columns.
#[test]
fn partial_images_of_a_keyless_table_stop_it() {
    let recording = Recording::load("mariadb-images");
    let mut shape = recording.tables["ri"].table.clone();
    shape.primary_key.clear();
    let schema = Arc::new(table_schema(&shape, 1, &TypeOptions::default()).unwrap());
    let mut plan = None;
    let mut errors = Vec::new();
    recording.each_event(|event| match event.body {
        EventBody::TableMap(map) if map.table == "ri" => {
            plan = Some(RowPlan::new(&shape, &map).unwrap());
        }
        EventBody::Rows(rows) => {
            let mut builder = TableBuilder::new(&shape, schema.clone()).unwrap();
            let plan = plan.as_ref().unwrap();
            if let Err(error) = plan.decode(&rows, &mut builder) {
                assert!(builder.is_empty(), "nothing of the row is left");
                errors.push(error);
            }
        }
        _ => {}
    });
    assert!(errors.len() >= 5, "{errors:?}");
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
        let text = error.to_string();
        assert!(text.contains("mariadb_images.ri") && text.contains("binlog_row_image"), "{text}");
    }
}
