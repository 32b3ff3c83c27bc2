//! Runs of records against tables: each format's semantics, as rows for the sink.

use arrow_array::{Array, StringArray};
use lakeward_core::DataType;

use super::*;
use crate::cell::Dialect;
use crate::config::KafkaConfig;
use crate::evolve::Survey;

const LOST: &str = "__debezium_unavailable_value";

fn settings(format: &str, policy: BadRecordPolicy) -> Arc<DecodeSettings> {
    let config: KafkaConfig = serde_json::from_value(serde_json::json!({
        "value.format": format, "topic": ["t"],
        "primary-keys": r"k.\.*:id", "tables.exclude": r"d.hidden",
    }))
    .unwrap();
    let decimals = config.decimals();
    let latin1_bytes = config.format == Format::CanalJson;
    let dialect = Dialect { latin1_bytes, decimals, offset_secs: 0 };
    let rows = RowSettings { dialect, placeholders: vec![format!("\"{LOST}\"").into()] };
    let rules = TableRules::new(&config).unwrap();
    let bad_records = BadRecords { policy, ..BadRecords::default() };
    Arc::new(DecodeSettings { format: config.format, rules, rows, bad_records })
}

struct Bench {
    settings: Arc<DecodeSettings>,
    shapes: Shapes,
}

impl Bench {
    fn new(format: &str) -> Self {
        let settings = settings(format, BadRecordPolicy::Fail);
        Self { settings, shapes: Shapes::default() }
    }

    fn chunk(records: &[(Option<&str>, Option<&str>)]) -> Arc<Chunk> {
        let mut chunk = Chunk::new(0);
        for (at, (key, value)) in records.iter().enumerate() {
            let bytes = |text: &Option<&str>| text.map(str::as_bytes).map(<[u8]>::to_vec);
            chunk.push(at as i64, 7, bytes(key).as_deref(), bytes(value).as_deref());
        }
        Arc::new(chunk)
    }

    fn decode(&self, chunk: &Arc<Chunk>, from: usize) -> Decoded {
        decode(Job {
            chunk: chunk.clone(),
            from,
            shapes: Arc::new(self.shapes.clone()),
            settings: self.settings.clone(),
            cache: DeclaredCache::default(),
            topic: "t".into(),
            ordinal: 1,
            partition: 2,
            floors: Arc::default(),
            refused: None,
            watermark: Watermark::MAX,
        })
        .unwrap()
    }

    fn evolve(&mut self, chunk: &Chunk, from: usize) -> usize {
        let mut survey = Survey::default();
        let mut cache = DeclaredCache::default();
        let everything = Watermark::MAX;
        survey.of_chunk(chunk, from, &self.shapes, &self.settings, everything, &mut cache);
        let plans = survey.plans();
        for plan in &plans {
            let shape = Shape::new(plan.after.clone().unwrap());
            self.shapes.tables.insert(plan.table.clone(), Arc::new(shape));
        }
        plans.len()
    }

    /// Decodes all, with whatever steps that takes: kinds and cells of table `name`.
    fn rows(&mut self, name: &str, records: &[(Option<&str>, Option<&str>)]) -> Vec<String> {
        let chunk = Self::chunk(records);
        let (mut at, mut found) = (0, Vec::new());
        while at < records.len() {
            let decoded = self.decode(&chunk, at);
            for (shape, change) in &decoded.rows {
                if *shape.table.name == *name {
                    found.extend(print(change));
                }
            }
            at = decoded.until;
            match decoded.stop {
                None => {}
                Some(Stop::Evolve) => assert!(self.evolve(&chunk, at) > 0, "nothing to change"),
                Some(other) => panic!("{other:?}"),
            }
        }
        found
    }

    fn type_of(&self, table: &str, column: &str) -> DataType {
        let schema = &self.shapes.tables[&TableId::new("d", table)].schema;
        schema.columns[schema.index_of(column).unwrap()].data_type
    }
}

fn print(change: &DataChange) -> Vec<String> {
    let text = |column: usize, row: usize| -> String {
        let lost = change.unavailable.as_ref().and_then(|u| u.0[column].as_ref());
        if lost.is_some_and(|bits| bits.value(row)) {
            return "?".into();
        }
        let array = change.rows.column(column);
        if array.is_null(row) {
            return "null".into();
        }
        if let Some(texts) = array.as_any().downcast_ref::<StringArray>() {
            return texts.value(row).to_owned();
        }
        let one = array.slice(row, 1);
        let shown = format!("{one:?}");
        shown.lines().nth(2).unwrap_or_default().trim().trim_end_matches(',').to_owned()
    };
    assert_eq!(change.segments.last().unwrap().end as usize, change.kinds.len());
    (0..change.kinds.len())
        .map(|row| {
            let cells: Vec<_> = (0..change.rows.num_columns()).map(|c| text(c, row)).collect();
            format!("{} {}", change.kinds[row].short(), cells.join(" "))
        })
        .collect()
}

fn debezium(op: &str, before: &str, after: &str) -> String {
    format!(
        r#"{{"op":"{op}","before":{before},"after":{after},"source":{{"db":"d","table":"t","ts_ms":5}}}}"#
    )
}

#[test]
fn debezium_changes_of_a_keyed_table() {
    let mut bench = Bench::new("debezium-json");
    let key = Some(r#"{"id":"x"}"#);
    let values = [
        debezium("c", "null", r#"{"id":"x","n":"a"}"#),
        debezium("u", r#"{"id":"x","n":"a"}"#, r#"{"id":"x","n":"b"}"#),
        debezium("u", r#"{"id":"x","n":"b"}"#, r#"{"id":"y","n":"b"}"#),
        debezium("u", "null", &format!(r#"{{"id":"y","n":"{LOST}"}}"#)),
        debezium("d", "null", "null"),
    ];
    let mut records: Vec<_> = values.iter().map(|v| (key, Some(v.as_str()))).collect();
    records.push((key, None));
    records.push((None, None));
    assert_eq!(
        bench.rows("t", &records),
        ["+I x a", "+U x b", "-D x b", "+I y b", "+U y ?", "-D x null"]
    );
}

#[test]
fn a_table_without_a_key_gets_both_halves() {
    let mut bench = Bench::new("debezium-json");
    let update = debezium("u", r#"{"a":"1","n":"a"}"#, r#"{"a":"1","n":"b"}"#);
    let found = bench.rows("t", &[(None, Some(&update))]);
    assert_eq!(found, ["-U 1 a", "+U 1 b"]);
    let blind = debezium("u", "null", r#"{"a":"1","n":"b"}"#);
    let decoded = bench.decode(&Bench::chunk(&[(None, Some(&blind))]), 0);
    assert!(matches!(decoded.stop, Some(Stop::Bad(reason)) if reason.contains("no row before it")));
}

#[test]
fn canal_updates_take_the_rest_from_the_row() {
    let mut bench = Bench::new("canal-json");
    let types = r#""mysqlType":{"id":"varchar(3)","n":"varchar(3)"}"#;
    let keyed = format!(
        r#"{{"type":"UPDATE","database":"d","table":"t","pkNames":["id"],{types},
        "data":[{{"id":"y","n":"b"}},{{"id":"z","n":"c"}}],"old":[{{"id":"x"}},{{"n":"b"}}]}}"#
    );
    let bare = format!(
        r#"{{"type":"UPDATE","database":"d","table":"u",{types},"data":[{{"id":"y","n":"b"}}],"old":[{{"n":"a"}}]}}"#
    );
    let records = [(None, Some(keyed.as_str())), (None, Some(bare.as_str()))];
    assert_eq!(bench.rows("t", &records), ["-D x b", "+I y b", "+U z c"]);
    assert_eq!(bench.rows("u", &records), ["-U y a", "+U y b"]);
}

#[test]
fn golden_gate_updates_may_be_partial() {
    let mut bench = Bench::new("ogg-json");
    let of = |op: &str, images: &str| {
        format!(r#"{{"table":"d.t","op_type":"{op}","primary_keys":["ID"],{images}}}"#)
    };
    let values = [
        of("I", r#""after":{"ID":"1","A":"a","B":"b"}"#),
        of("U", r#""before":{"ID":"1"},"after":{"ID":"1","A":"c"}"#),
        of("U", r#""before":{"ID":"1","B":"b"},"after":{"ID":"2","A":"d"}"#),
        of("D", r#""before":{"ID":"2","A":"d"}"#),
    ];
    let records: Vec<_> = values.iter().map(|v| (None, Some(v.as_str()))).collect();
    assert_eq!(
        bench.rows("t", &records),
        ["+I 1 a b", "+U 1 c ?", "-D 1 d b", "+I 2 d b", "-D 2 d null"]
    );
}

#[test]
fn columns_come_and_widen_and_never_narrow() {
    let mut bench = Bench::new("debezium-json");
    let first = debezium("c", "null", r#"{"id":"1"}"#);
    let wide = debezium("c", "null", r#"{"id":"2","m":5}"#);
    let wider = debezium("c", "null", r#"{"id":"3","m":987654321098765432109}"#);
    let again = debezium("c", "null", r#"{"id":"4","m":"7"}"#);
    for value in [&first, &wide, &wider, &again] {
        assert_eq!(bench.rows("t", &[(None, Some(value))]).len(), 1);
    }
    assert_eq!(bench.type_of("t", "m"), DataType::Decimal { precision: 38, scale: 0 });
    let text = debezium("c", "null", r#"{"id":"5","m":"seven"}"#);
    assert_eq!(bench.rows("t", &[(None, Some(&text))]), ["+I 5 seven"]);
    assert_eq!(bench.type_of("t", "m"), DataType::String);
    assert_eq!(bench.shapes.tables[&TableId::new("d", "t")].schema.version, 4);
}

#[test]
fn another_key_is_not_taken_for_the_tables() {
    let mut bench = Bench::new("debezium-json");
    let value = debezium("c", "null", r#"{"id":"1","z":"2"}"#);
    assert_eq!(bench.rows("t", &[(Some(r#"{"id":"1"}"#), Some(&value))]), ["+I 1 2"]);
    let records = [(Some(r#"{"id":"1","z":"2"}"#), Some(value.as_str()))];
    let decoded = bench.decode(&Bench::chunk(&records), 0);
    assert!(matches!(decoded.stop, Some(Stop::Bad(reason)) if reason.contains("other columns")));
}

#[test]
fn base64_without_a_schema_is_text() {
    let mut bench = Bench::new("debezium-json");
    let value = debezium("c", "null", r#"{"id":"1","d":"HN8="}"#);
    assert_eq!(bench.rows("t", &[(None, Some(&value))]), ["+I 1 HN8="]);
}

#[test]
fn bad_records_by_policy() {
    let good = debezium("c", "null", r#"{"id":"1"}"#);
    let records = [(None, Some(good.as_str())), (None, Some("{")), (None, Some(good.as_str()))];
    let chunk = Bench::chunk(&records);
    let mut bench = Bench::new("debezium-json");
    bench.evolve(&chunk, 0);
    let failed = bench.decode(&chunk, 0);
    assert!(matches!(failed.stop, Some(Stop::Bad(_))) && failed.until == 1);
    bench.settings = settings("debezium-json", BadRecordPolicy::Skip);
    let skipped = bench.decode(&chunk, 0);
    assert_eq!((skipped.until, skipped.bad_records, skipped.rows[0].1.kinds.len()), (3, 1, 2));
    bench.settings = settings("debezium-json", BadRecordPolicy::DeadLetter);
    assert!(matches!(bench.decode(&chunk, 0).stop, Some(Stop::Evolve)));
    let table = BadRecords::default().table;
    let plan = crate::evolve::Plan::create(table.clone(), crate::bad_records::columns());
    bench.shapes.tables.insert(table, Arc::new(Shape::new(plan.after.unwrap())));
    let kept = bench.decode(&chunk, 0);
    assert_eq!((kept.until, kept.rows.len()), (3, 2));
}

#[test]
fn tables_that_are_not_wanted_are_passed_over() {
    let bench = Bench::new("debezium-json");
    let hidden = debezium("c", "null", r#"{"id":"1"}"#).replace("\"t\"", "\"hidden\"");
    let decoded = bench.decode(&Bench::chunk(&[(None, Some(&hidden))]), 0);
    assert_eq!((decoded.until, decoded.markers, decoded.rows.len()), (1, 1, 0));
}

/// A text of digits whose length is a multiple of four is base64 as well.
#[test]
fn digits_of_canal_are_no_base64() {
    let mut bench = Bench::new("canal-json");
    let record = r#"{"type":"INSERT","database":"d","table":"t","es":1,"pkNames":["id"],
        "mysqlType":{"id":"bigint(20) unsigned","n":"decimal(12,0)"},
        "data":[{"id":"18446744073709551615","n":"1234"}]}"#;
    let rows = bench.rows("t", &[(None, Some(record))]);
    assert_eq!(rows, ["+I 18446744073709551615 1234"]);
}

/// What a statement says of a column is more exact than the schemas of messages.
#[test]
fn schemas_of_messages_do_not_widen_what_a_statement_declares() {
    let mut bench = Bench::new("debezium-json");
    let ddl = r#"{"source":{"connector":"mysql","db":"d","ts_ms":1},"databaseName":"d","ddl":"CREATE TABLE t","tableChanges":
        [{"type":"CREATE","id":"\"d\".\"t\"","table":{"primaryKeyColumnNames":["id"],"columns":[
        {"name":"id","typeName":"VARCHAR","length":9,"optional":false},{"name":"at","typeName":"DATETIME","optional":true},
        {"name":"t","typeName":"TIME","optional":true}]}}]}"#;
    let statement = Bench::chunk(&[(None, Some(ddl))]);
    let Some(Stop::Ddl(all, order, _)) = bench.decode(&statement, 0).stop else {
        panic!("no statement")
    };
    let plan = crate::evolve::of_ddl(None, &all[0].table, &all[0].change, order, &bench.settings);
    let shape = Shape::new(plan.unwrap().after.unwrap());
    bench.shapes.tables.insert(shape.table.clone(), Arc::new(shape));
    let schema = r#"{"type":"struct","fields":[{"field":"after","type":"struct","fields":[
        {"field":"id","type":"string","optional":false},
        {"field":"at","type":"int64","name":"io.debezium.time.Timestamp","optional":true},
        {"field":"t","type":"int64","name":"io.debezium.time.MicroTime","optional":true}]}]}"#;
    let source = r#"{"db":"d","table":"t","ts_ms":2}"#;
    let with = format!(
        r#"{{"schema":{schema},"payload":{{"op":"c","after":{{"id":"a","at":1000,"t":5}},"source":{source}}}}}"#
    );
    // MySQL's times of day are microseconds whatever their precision.
    let without = format!(r#"{{"op":"c","after":{{"id":"b","at":2000,"t":7}},"source":{source}}}"#);
    let rows = bench.rows("t", &[(None, Some(&with)), (None, Some(&without))]);
    assert_eq!(bench.type_of("t", "id"), DataType::Varchar { length: 9 });
    assert_eq!(bench.type_of("t", "at"), DataType::Timestamp { precision: 0 });
    assert_eq!(rows, ["+I a 1970-01-01T00:00:01 5", "+I b 1970-01-01T00:00:02 7"]);
}
