//! Steps of tables by DDL.

use lakeward_core::DataType;

use super::*;
use crate::declared::{DeclaredColumn, Encoding};

fn settings() -> DecodeSettings {
    let config: crate::KafkaConfig = serde_json::from_value(serde_json::json!({
        "value.format": "maxwell-json", "topic": ["t"], "tables": r"d.\.*",
    }))
    .unwrap();
    let dialect =
        crate::cell::Dialect { latin1_bytes: false, decimals: Default::default(), offset_secs: 0 };
    DecodeSettings {
        format: config.format,
        rules: crate::selector::TableRules::new(&config).unwrap(),
        rows: crate::row::RowSettings { dialect, placeholders: Vec::new() },
        bad_records: Default::default(),
    }
}

const ORDER: Order = Order { commit_ms: 5, record_ms: 5 };

fn columns(all: &[(&str, DataType)]) -> DdlChange {
    let column = |(name, data_type): &(&str, DataType)| DeclaredColumn {
        name: (*name).into(),
        data_type: *data_type,
        nullable: true,
        encoding: Encoding::Plain,
    };
    let declared = Declared(all.iter().map(column).collect());
    DdlChange::Columns { declared, key: Some(vec!["id".into()]) }
}

fn step(shape: Option<&Shape>, change: &DdlChange) -> Option<Plan> {
    of_ddl(shape, &TableId::new("d", "t"), change, ORDER, &settings())
}

fn table() -> Shape {
    let all = [("id", DataType::Int), ("n", DataType::BigInt)];
    Shape::new(step(None, &columns(&all)).unwrap().after.unwrap())
}

#[test]
fn a_description_is_compared_with_the_table() {
    let shape = table();
    assert_eq!(shape.key, [0]);
    // What holds the new values stays as it is.
    assert!(step(Some(&shape), &columns(&[("id", DataType::Int), ("n", DataType::Int)])).is_none());
    let wider = columns(&[("id", DataType::BigInt), ("z", DataType::String)]);
    let plan = step(Some(&shape), &wider).unwrap();
    let kinds: Vec<_> = plan.changes.iter().map(SchemaChange::kind).collect();
    assert_eq!(kinds, ["drop.column", "alter.column.type", "add.column"]);
    assert_eq!(plan.after.unwrap().schema.version, 2);
}

#[test]
fn whole_tables() {
    let shape = table();
    assert!(step(None, &DdlChange::Truncate).is_none());
    let truncated = step(Some(&shape), &DdlChange::Truncate).unwrap();
    assert_eq!(truncated.after.unwrap().schema, shape.schema);
    assert!(step(Some(&shape), &DdlChange::Drop).unwrap().after.is_none());
    let to = TableId::new("d", "u");
    let renamed = step(Some(&shape), &DdlChange::Rename { to: to.clone() }).unwrap();
    assert_eq!(renamed.after.unwrap().table, to);
    let away = DdlChange::Rename { to: TableId::new("elsewhere", "t") };
    assert_eq!(step(Some(&shape), &away).unwrap().changes, [SchemaChange::DropTable]);
}

#[test]
fn names_of_columns_change_in_place() {
    let shape = table();
    let change = DdlChange::Altered { renames: vec![("n".into(), "m".into())] };
    let plan = step(Some(&shape), &change).unwrap();
    assert_eq!(plan.changes.len(), 1);
    let renamed = Shape::new(plan.after.clone().unwrap());
    // A change from before the statement means the same column; a later one means another.
    assert_eq!(renamed.past("n", ORDER).unwrap().now.as_deref(), Some("m"));
    let later = Order { commit_ms: 6, ..ORDER };
    assert!(renamed.past("n", later).is_none());
    let dropped = step(Some(&renamed), &columns(&[("id", DataType::Int)])).unwrap();
    assert!(Shape::new(dropped.after.unwrap()).past("m", ORDER).unwrap().now.is_none());
    let after = plan.after.unwrap();
    assert_eq!((&*after.schema.columns[1].name, after.altered), ("m", Some(ORDER)));
    let nothing = step(Some(&shape), &DdlChange::Altered { renames: vec![] }).unwrap();
    assert!(nothing.changes.is_empty() && nothing.after.unwrap().schema.version == 1);
}
