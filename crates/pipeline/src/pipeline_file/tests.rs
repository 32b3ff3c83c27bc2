//! Tests of the pipeline file as a whole: sections, unknown keys, secrets, routes.

use super::section::tests::Fake;
use super::*;
use lakeward_core::TableId;

fn read(text: &str) -> Result<PipelineFile> {
    PipelineFile::parse(Path::new("p.yaml"), text, &Fake, Use::All)
}

fn error(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

const MINIMAL: &str = "source: {type: mysql}\nsink: {type: iceberg}\n";

#[test]
fn a_flink_cdc_file_is_read_unchanged() {
    let file = read(include_str!("../../tests/files/flink-cdc-mysql-iceberg.yaml")).unwrap();
    assert_eq!(
        (file.source.connector.as_str(), file.sinks[0].connector.as_str()),
        ("mysql", "iceberg")
    );
    let tables = &file.source.options.get("tables").unwrap().value;
    let expected = r"adb.\.*, bdb.user_table_[0-9]+, [app|web].order_\.*";
    assert!(*tables == OptionValue::Text(expected.to_string()));
    assert_eq!(file.pipeline.name, "MySQL to Iceberg");
    assert_eq!(file.pipeline.parallelism, 4);
    assert_eq!(file.pipeline.schema_change_behavior, pipeline::SchemaChangeOption::Evolve);
}

#[test]
fn routes_and_lists_of_schema_changes() {
    let text = r"
source: {type: mysql}
sink:
  type: iceberg
  include.schema.changes: [column, create.table]
  exclude.schema.changes: drop.column
route:
  - source-table: db_(\.*).(\.*)_tbl
    sink-table: ods_$1.t_$2
    description: text
  - { source-table: INVENTORY.\.*, sink-table: ods.ods_<>, replace-symbol: <> }
";
    let file = read(text).unwrap();
    let target = |name: &str| {
        let targets = file.routes.targets(&TableId::new("INVENTORY", name)).unwrap();
        targets[0].table.to_string()
    };
    assert_eq!(target("T1"), "ods.ods_T1");
    assert_eq!(file.schema_changes.include, ["column", "create.table"]);
    assert_eq!(file.schema_changes.exclude, ["drop.column"]);
    let wrong = text.replace("drop.column", "dorp.column");
    assert!(error(&wrong).contains("did you mean `drop.column`?"));
    let wrong = text.replace("replace-symbol", "replace-symbl");
    assert!(error(&wrong).contains("did you mean `replace-symbol`? (line 11"));
    let wrong = text.replace("INVENTORY.", "INVENTORY");
    assert!(error(&wrong).contains("database.table") && error(&wrong).contains("line 11"));
    let wrong = text.replace("description: text", "shard-key: id");
    assert!(error(&wrong).contains("none, source-table"));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    assert_eq!(
        error("sorce: {type: mysql}\n"),
        "a pipeline file has no section `sorce`; did you mean `source`? (line 1, file p.yaml)"
    );
    assert!(error("source: {type: mysql}\n").contains("no `sink` section"));
    assert!(error("source: {host: x}\nsink: {type: y}\n").contains("needs the option `type`"));
    assert!(
        error(&format!("{MINIMAL}transform:\n - source-table: a.b\n")).contains("not supported")
    );
    assert!(error(&format!("{MINIMAL}pipeline: {{paralelism: 2}}\n")).contains("`parallelism`?"));
    assert!(error(&format!("{MINIMAL}pipeline: {{parallelism: 0}}\n")).contains("at least 1"));
    assert!(error(&format!("{MINIMAL}pipeline: {{name: ' '}}\n")).contains("not be empty"));
    assert!(error("- a\n").contains("is a mapping"));
    assert!(error("").contains("no `source` section"));
}

#[test]
fn options_of_flink_that_do_nothing_are_named_once() {
    let text = format!(
        "{MINIMAL}pipeline:\n  schema-operator.rpc-timeout: 3 min\n  execution.runtime-mode: STREAMING\n  \
         user-defined-function:\n    - name: a\n      classpath: b\n"
    );
    let mut ignored = read(&text).unwrap().ignored;
    ignored.sort();
    assert_eq!(
        ignored,
        [
            "pipeline: execution.runtime-mode",
            "pipeline: schema-operator.rpc-timeout",
            "pipeline: user-defined-function"
        ]
    );
    assert!(read(MINIMAL).unwrap().ignored.is_empty());
}

#[test]
fn defaults_and_folders() {
    let file = read(MINIMAL).unwrap();
    assert_eq!(file.pipeline.checkpoint_interval.as_millis(), 10_000);
    assert_eq!(file.pipeline.http_address, "127.0.0.1:8083");
    assert_eq!(file.state_dir(), Path::new("./lakeward-state/lakeward"));
    let text = format!("{MINIMAL}pipeline: {{name: 'a/../b c'}}\n");
    assert_eq!(read(&text).unwrap().state_dir(), Path::new("./lakeward-state/a_.._b_c"));
    let text = format!("{MINIMAL}pipeline: {{state.dir: /var/lib/x}}\n");
    assert_eq!(read(&text).unwrap().state_dir(), Path::new("/var/lib/x"));
}

#[test]
fn only_the_secrets_that_are_used_must_be_there() {
    let text =
        "source: {type: mysql, password: '${env:NOPE}'}\nsink: {type: iceberg, x: '${env:PW}'}\n";
    let parse = |used| PipelineFile::parse(Path::new("p.yaml"), text, &Fake, used);
    assert!(parse(Use::All).unwrap_err().to_string().contains("NOPE"));
    let sink = parse(Use::Sink).unwrap().sinks.remove(0);
    assert!(sink.options.get("x").unwrap().value == OptionValue::Text("s3cret".to_string()));
    let sink = parse(Use::Pipeline).unwrap().sinks.remove(0);
    assert!(sink.options.get("x").unwrap().value == OptionValue::Text(String::new()));
}

#[test]
fn a_list_of_sinks() {
    let text =
        "source: {type: mysql}\nsink:\n  - {type: iceberg, name: lake}\n  - {type: iceberg}\n";
    let names: Vec<String> = read(text).unwrap().sinks.into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["lake", "iceberg"]);
    let wrong = text.replace("iceberg}\n", "iceberg, name: lake}\n");
    assert!(error(&wrong).contains("two sinks are called `lake`"));
    assert!(error(&wrong).contains("line 4"));
    let wrong = text.replace("iceberg}\n", "iceberg, include.schema.changes: [column]}\n");
    assert!(error(&wrong).contains("must be the same for all sinks"));
    assert!(error("source: {type: mysql}\nsink: []\n").contains("empty list"));
}
