//! Recorded shapes of each format, and bytes that are none.

use lakeward_core::DataType;
use proptest::prelude::*;

use super::*;

fn rows<'a>(format: Format, key: Option<&'a str>, value: &'a str) -> Rows<'a> {
    let message =
        read(format, key.map(str::as_bytes), Some(value.as_bytes()), &mut DeclaredCache::default());
    match message {
        Ok(Message::Rows(rows)) => rows,
        other => panic!("{other:?}"),
    }
}

fn ddl(format: Format, value: &str) -> Vec<Ddl> {
    match read(format, None, Some(value.as_bytes()), &mut DeclaredCache::default()) {
        Ok(Message::Ddl(all)) => all,
        other => panic!("{other:?}"),
    }
}

fn is_marker(format: Format, value: Option<&str>) -> bool {
    let value = value.map(str::as_bytes);
    matches!(read(format, None, value, &mut DeclaredCache::default()), Ok(Message::Marker))
}

#[test]
fn debezium_envelopes() {
    let key = r#"{"schema":{"type":"struct"},"payload":{"id":8}}"#;
    let value = r#"{"before":{"id":8,"n":"b"},"after":{"id":9,"n":"b"},"op":"u","ts_ms":5,
        "source":{"db":"inv","schema":"public","table":"t","ts_ms":4},"transaction":null}"#;
    let found = rows(Format::DebeziumJson, Some(key), value);
    assert_eq!((&*found.namespace, &*found.table, found.commit_ms), ("public", "t", 4));
    assert_eq!(found.key, ["id"]);
    assert_eq!(found.changes[0].op, Op::Update);
    let deleted = r#"{"before":null,"op":"d","source":{"db":"d","table":"t"}}"#;
    let found = rows(Format::DebeziumJson, Some("{\"id\":1}"), deleted);
    assert_eq!(found.changes[0].before.as_ref().unwrap().get("id").unwrap().get(), "1");
    assert!(is_marker(Format::DebeziumJson, None));
    assert!(is_marker(Format::DebeziumJson, Some(r#"{"schema":{},"payload":null}"#)));
    assert!(is_marker(Format::DebeziumJson, Some(r#"{"status":"BEGIN","id":"571","ts_ms":1}"#)));
    assert!(is_marker(Format::DebeziumJson, Some(r#"{"ts_ms":1}"#)));
}

#[test]
fn debezium_schema_changes() {
    let value = r#"{"source":{"db":"inv"},"ts_ms":9,"databaseName":"inv","schemaName":null,
        "ddl":"ALTER TABLE customers ADD middle_name varchar(255), CHANGE a b INT",
        "tableChanges":[{"type":"ALTER","id":"\"inv\".\"customers\"","table":{"primaryKeyColumnNames":["id"],
        "columns":[{"name":"id","jdbcType":4,"typeName":"INT UNSIGNED","length":null,"scale":null,"optional":false},
                   {"name":"price","jdbcType":3,"typeName":"DECIMAL","length":10,"scale":2,"optional":true}]}}]}"#;
    let all = ddl(Format::DebeziumJson, value);
    assert_eq!(all.len(), 2);
    assert!(matches!(&all[0].change, DdlChange::Altered { renames } if renames.len() == 1));
    let DdlChange::Columns { declared, key } = &all[1].change else { panic!("{all:?}") };
    assert_eq!(key.as_deref(), Some(&["id".into()][..]));
    assert_eq!(declared.0[0].data_type, DataType::BigInt);
    assert_eq!(declared.0[1].data_type, DataType::Decimal { precision: 10, scale: 2 });
    let dropped = r#"{"source":{"db":"inv"},"databaseName":"inv","ddl":"DROP TABLE t",
        "tableChanges":[{"type":"DROP","id":"\"inv\".\"t\""}]}"#;
    assert_eq!(ddl(Format::DebeziumJson, dropped).len(), 1);
}

#[test]
fn canal_messages() {
    let value = r#"{"data":[{"id":"1","n":"A"},{"id":"2","n":""}],"old":[{"n":"a"},null],"database":"d","table":"t",
        "type":"UPDATE","isDdl":false,"pkNames":["id"],"sqlType":{"id":4,"n":12},
        "mysqlType":{"id":"int(11)","n":"varchar(9)"},"es":7,"ts":8,"sql":""}"#;
    let found = rows(Format::CanalJson, None, value);
    assert_eq!((found.changes.len(), found.commit_ms), (2, 7));
    assert_eq!(found.declared.unwrap().0[0].data_type, DataType::Int);
    let deleted = r#"{"data":null,"old":[{"id":"2","n":""}],"database":"d","table":"t","type":"DELETE","pkNames":["id"]}"#;
    let found = rows(Format::CanalJson, None, deleted);
    assert!(found.changes[0].before.is_some() && found.changes[0].op == Op::Delete);
    let altered = r#"{"data":null,"database":"d","table":"t","type":"ALTER","isDdl":true,"es":6,
        "sql":"ALTER TABLE t ADD COLUMN z INT DEFAULT 4"}"#;
    assert!(matches!(ddl(Format::CanalJson, altered)[0].change, DdlChange::Altered { .. }));
    let created = r#"{"isDdl":true,"type":"CREATE","database":"d","table":"t","sql":"CREATE TABLE t(a int)"}"#;
    assert!(is_marker(Format::CanalJson, Some(created)));
}

#[test]
fn maxwell_messages() {
    let value = r#"{"database":"d","table":"t","type":"update","ts":2,"xid":7,"commit":true,
        "primary_key_columns":["id"],"data":{"id":2,"n":"new"},"old":{"n":"b"}}"#;
    let found = rows(Format::MaxwellJson, None, value);
    assert_eq!((found.commit_ms, found.key[0].as_ref()), (2000, "id"));
    let key = r#"{"database":"d","table":"t","pk.id":1,"pk.z":2}"#;
    let value = r#"{"database":"d","table":"t","type":"bootstrap-insert","ts":1,"data":{"id":1}}"#;
    assert_eq!(rows(Format::MaxwellJson, Some(key), value).key, ["id", "z"]);
    let start = r#"{"database":"d","table":"t","type":"bootstrap-start","ts":1,"data":{}}"#;
    assert!(is_marker(Format::MaxwellJson, Some(start)));
    let altered = r#"{"type":"table-alter","database":"d","table":"t","ts":1477053126000,
        "sql":"ALTER TABLE t RENAME TO u","old":{},"def":{"database":"d","table":"u","primary-key":["id"],
        "columns":[{"type":"bigint","name":"id","signed":false},{"type":"datetime","name":"at","column-length":3}]}}"#;
    let all = ddl(Format::MaxwellJson, altered);
    assert_eq!(all[0].change, DdlChange::Rename { to: TableId::new("d", "u") });
    assert_eq!((all[0].commit_ms, &*all[1].table.name), (1477053126000, "u"));
    let DdlChange::Columns { declared, .. } = &all[1].change else { panic!("{all:?}") };
    assert_eq!(declared.0[1].data_type, DataType::Timestamp { precision: 3 });
}

#[test]
fn golden_gate_messages() {
    let value = r#"{"table":"CDB.OGG.ORDERS","op_type":"U","op_ts":"1970-01-01 00:00:06.000000",
        "primary_keys":["ID"],"before":{"ID":1},"after":{"ID":1,"N":"x"}}"#;
    let found = rows(Format::OggJson, None, value);
    assert_eq!((&*found.namespace, &*found.table, found.commit_ms), ("OGG", "ORDERS", 6000));
    assert!(found.partial);
    let truncated = r#"{"table":"OGG.ORDERS","op_type":"T","op_ts":"1970-01-01 00:00:06"}"#;
    assert_eq!(ddl(Format::OggJson, truncated)[0].change, DdlChange::Truncate);
}

const FORMATS: [Format; 4] =
    [Format::DebeziumJson, Format::CanalJson, Format::MaxwellJson, Format::OggJson];

#[test]
fn what_is_no_message_has_a_reason() {
    for format in FORMATS {
        for value in ["", "7", "[]", "{}x", "\u{0}"] {
            let mut cache = DeclaredCache::default();
            assert!(read(format, None, Some(value.as_bytes()), &mut cache).is_err(), "{value}");
        }
    }
}

/// Objects with the names that the formats look for, and values that they do not expect.
fn near_messages() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("op"),
        Just("before"),
        Just("after"),
        Just("source"),
        Just("payload"),
        Just("schema"),
        Just("data"),
        Just("old"),
        Just("type"),
        Just("table"),
        Just("database"),
        Just("isDdl"),
        Just("sql"),
        Just("def"),
        Just("op_type"),
        Just("tableChanges"),
        Just("mysqlType"),
        Just("pkNames"),
        Just("primary_keys")
    ];
    let value = prop_oneof![
        Just("null"),
        Just("true"),
        Just("1"),
        Just("\"c\""),
        Just("\"UPDATE\""),
        Just("\"insert\""),
        Just("\"a.b\""),
        Just("\"U\""),
        Just("{}"),
        Just("[]"),
        Just("[{}]"),
        Just("[null]"),
        Just("{\"table\":\"t\",\"db\":\"d\"}"),
        Just("{\"fields\":[{\"field\":\"after\",\"type\":\"struct\"}]}"),
        Just("\"table-alter\"")
    ];
    proptest::collection::vec((name, value), 0..8).prop_map(|fields| {
        let fields: Vec<_> = fields.iter().map(|(n, v)| format!("\"{n}\":{v}")).collect();
        format!("{{{}}}", fields.join(","))
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(key in proptest::collection::vec(any::<u8>(), 0..40),
                      value in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in FORMATS {
            let _ = read(format, Some(&key), Some(&value), &mut DeclaredCache::default());
        }
    }

    #[test]
    fn no_near_message_panics(value in near_messages()) {
        for format in FORMATS {
            let _ = read(format, Some(b"{}"), Some(value.as_bytes()), &mut DeclaredCache::default());
        }
    }
}
