//! The statements, as text and before an independent parser.

use std::io::Write;
use std::process::{Command, Stdio};

use lakeward_testkit::{require, venv};
use serde_json::json;

use super::*;
use crate::client::Cluster;
use crate::config::tests::read;
use crate::progress::ProgressTable;

fn table() -> TableId {
    TableId::new("shop", "orders")
}

fn schema() -> TableSchema {
    let mut name = Column::new("name", DataType::Varchar { length: 20 }, true);
    name.comment = Some("it's a \\ name".into());
    let columns = vec![
        name,
        Column::new("id", DataType::Decimal { precision: 20, scale: 0 }, false),
        Column::new("day", DataType::Date, false),
        Column::new("price", DataType::Decimal { precision: 12, scale: 2 }, false),
        Column::new("at", DataType::TimestampLtz { precision: 3 }, true),
        Column::new("extra", DataType::Json, true),
        Column::new("raw", DataType::Bytes, true),
    ];
    let mut schema = TableSchema::new(1, columns, vec!["day".into(), "id".into()]);
    schema.comment = Some("orders".into());
    schema
}

#[test]
fn keys_come_first() {
    let config = read(json!({"table.create.properties": {"replication_num": "1"}})).expect("valid");
    let sql = create_table(&table(), &schema(), &config).expect("made");
    assert_eq!(
        sql,
        "CREATE TABLE IF NOT EXISTS `shop`.`orders` (`day` DATE NULL, `id` LARGEINT NOT NULL, \
         `name` VARCHAR(80) NULL COMMENT 'it''s a \\\\ name', `price` DECIMAL(12, 2) NULL, `at` DATETIME(3) NULL, \
         `extra` JSON NULL, `raw` STRING NULL) UNIQUE KEY(`day`, `id`) COMMENT 'orders' \
         DISTRIBUTED BY HASH(`day`, `id`) BUCKETS AUTO PROPERTIES (\"light_schema_change\" = \"true\", \
         \"enable_unique_key_merge_on_write\" = \"true\", \"function_column.sequence_type\" = \"LARGEINT\", \
         \"replication_num\" = \"1\")"
    );
}

#[test]
fn tables_are_partitioned_on_demand() {
    let with = |options: serde_json::Value| {
        let options = json!({"table.create.auto-partition.properties": options});
        create_table(&table(), &schema(), &read(options).expect("valid"))
    };
    let by_day = with(json!({"default-partition-key": "day"})).expect("made");
    assert!(by_day.contains("AUTO PARTITION BY RANGE (date_trunc(`day`, 'day')) ()"), "{by_day}");
    assert!(by_day.contains("`day` DATE NOT NULL"), "{by_day}");
    let by_month =
        with(json!({"shop.orders.partition-key": "day", "shop.orders.partition-unit": "MONTH"}));
    assert!(by_month.expect("made").contains("'month'"));
    let not_key = with(json!({"shop.orders.partition-key": "at"})).expect_err("refused");
    assert!(not_key.to_string().contains("primary key"), "{not_key}");
    let other = with(json!({"default-partition-key": "day", "exclude": "shop.orders"}));
    assert!(!other.expect("made").contains("PARTITION"));
}

#[test]
fn a_table_without_key_only_grows() {
    let mut schema = schema();
    schema.primary_key.clear();
    let config = read(json!({"table.create.properties": {"buckets": "4"}})).expect("valid");
    let sql = create_table(&table(), &schema, &config).expect("made");
    assert!(sql.contains("DISTRIBUTED BY RANDOM BUCKETS 4"), "{sql}");
    assert!(!sql.contains("KEY(") && !sql.contains("sequence"), "{sql}");
}

#[test]
fn what_a_new_column_holds_in_old_rows_is_its_default() {
    let add = |data_type, literal| {
        let column = Column::new("c", data_type, true);
        add_column(&table(), &column, &literal, Some("name"), 0)
    };
    let sql = add(DataType::Int, Literal::Long(7)).expect("made");
    assert_eq!(sql, "ALTER TABLE `shop`.`orders` ADD COLUMN `c` INT NULL DEFAULT '7' AFTER `name`");
    let sql = add(DataType::String, Literal::Null).expect("made");
    assert!(!sql.contains("DEFAULT"), "{sql}");
    assert!(add(DataType::Json, Literal::String("{}".into())).is_err());
}

/// Every kind of statement that the sink sends.
fn every_statement() -> Vec<String> {
    let table = table();
    let mut keyless = schema();
    keyless.primary_key.clear();
    let config = read(json!({
        "table.create.properties": {"replication_num": "1", "buckets": "8"},
        "table.create.auto-partition.properties": {"default-partition-key": "day"},
    }))
    .expect("valid");
    let column = |is_key, default: Option<&str>| TableColumn {
        name: "price".into(),
        data_type: Some(DorisType::Int),
        is_key,
        nullable: !is_key,
        default: default.map(str::to_string),
    };
    let new = Column {
        comment: Some("it's \"new\"".into()),
        ..Column::new("note", DataType::Varchar { length: 9 }, true)
    };
    let add = |literal: Literal, after| add_column(&table, &new, &literal, after, 0).expect("made");
    let plain = read(json!({})).expect("valid");
    vec![
        create_database(&table),
        create_table(&table, &schema(), &config).expect("made"),
        create_table(&table, &schema(), &plain).expect("made"),
        create_table(&table, &keyless, &plain).expect("made"),
        drop_table(&table),
        truncate_table(&table),
        rename_table(&table, "orders2"),
        add(Literal::Null, None),
        add(Literal::String("a 'b' \\ c".into()), Some("name")),
        drop_column(&table, "note"),
        rename_column(&table, "note", "remark"),
        modify_column(&table, &column(false, Some("7")), DorisType::BigInt, Some("x")),
        modify_column(&table, &column(true, None), DorisType::BigInt, None),
        comment_column(&table, "note", "it's"),
        comment_table(&table, "all orders"),
    ]
    .into_iter()
    .chain(ProgressTable::new(&Cluster::new(plain.into()).expect("a cluster")).create_statements())
    .collect()
}

/// What an independent parser makes of each statement: the kind of it, or its complaint.
const PARSE: &str = r#"
import json, sys, logging, sqlglot
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
def kind(sql):
    try:
        return type(sqlglot.parse_one(sql, read="doris")).__name__
    except sqlglot.errors.SqlglotError as e:
        return "refused: " + str(e)
print(json.dumps([kind(sql) for sql in json.load(sys.stdin)]))
"#;

#[test]
fn an_independent_parser_reads_every_statement() {
    let Some(python) = require::or_skip(venv::NAME, venv::find()) else { return };
    // The parser has no LARGEINT, and knows partitions only where they are listed.
    const AUTO_PARTITION: &str = " AUTO PARTITION BY RANGE (date_trunc(`day`, 'day')) ()";
    let known = |sql: String| sql.replace(" LARGEINT ", " BIGINT ").replace(AUTO_PARTITION, "");
    let statements: Vec<String> = every_statement().into_iter().map(known).collect();
    let mut child = Command::new(python)
        .args(["-c", PARSE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let input = serde_json::to_vec(&statements).expect("encodes");
    child.stdin.take().expect("piped").write_all(&input).expect("written");
    let output = child.wait_with_output().expect("python ends").stdout;
    let kinds: Vec<String> = serde_json::from_slice(&output).expect("an answer");
    assert_eq!(kinds.len(), statements.len());
    for (sql, kind) in statements.iter().zip(&kinds) {
        // `Command` is what it does not take apart: in its dialect of Doris these two.
        let whole = sql.contains(" RENAME COLUMN ") || sql.contains(" MODIFY COMMENT ");
        let known = ["Create", "Drop", "TruncateTable", "Alter"].contains(&kind.as_str());
        assert!(known || whole && kind == "Command", "{kind}: {sql}");
    }
}
