//! A way into the decoder for fuzz targets, without a broker: what a reader does with the records of one partition.

use std::sync::Arc;

use lakeward_core::TableId;

use crate::bad_records::{BadRecordPolicy, BadRecords};
use crate::config::{Format, KafkaConfig};
use crate::declared::DeclaredCache;
use crate::decode::{DecodeSettings, Job, Stop, decode};
use crate::evolve::{Plan, Survey, of_ddl};
use crate::partition::Chunk;
use crate::reader::Watermark;
use crate::row::RowSettings;
use crate::selector::TableRules;
use crate::shape::{Shape, Shapes};

/// A record's key and value.
pub type Record<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Decodes records, with the steps of tables that they ask for, and leaves out those that are bad. Returns how many rows came
/// of it.
///
/// # Panics
/// Where the decoder breaks its own rules: no progress, or columns that do not agree.
pub fn read_records(format: Format, records: &[Record<'_>]) -> usize {
    let settings = settings(format);
    let mut chunk = Chunk::new(0);
    for (at, (key, value)) in records.iter().enumerate() {
        chunk.push(at as i64, 1, *key, *value);
    }
    let chunk = Arc::new(chunk);
    let mut shapes = Shapes::default();
    let (mut from, mut rows, mut refused) = (0, 0, None);
    // Each record stops at most for its table, for its refusal and for itself.
    for _ in 0..4 * records.len() + 1 {
        let decoded = decode(Job {
            chunk: chunk.clone(),
            from,
            shapes: Arc::new(shapes.clone()),
            settings: settings.clone(),
            cache: DeclaredCache::default(),
            topic: "t".into(),
            ordinal: 0,
            partition: 0,
            floors: Arc::default(),
            refused: refused.take(),
            watermark: Watermark::MAX,
        })
        .expect("columns of one length");
        from = decoded.until;
        rows += decoded.rows.iter().map(|(_, change)| change.kinds.len()).sum::<usize>();
        match decoded.stop {
            None => return rows,
            Some(Stop::Evolve) => {
                let mut survey = Survey::default();
                let mut cache = DeclaredCache::default();
                let everything = Watermark::MAX;
                survey.of_chunk(&chunk, from, &shapes, &settings, everything, &mut cache);
                let plans = survey.plans();
                if plans.is_empty() {
                    refused = Some("its table cannot be made to take it".into());
                }
                plans.into_iter().for_each(|plan| install(&mut shapes, plan));
            }
            Some(Stop::Ddl(all, order, _)) => {
                for ddl in &all {
                    let shape = shapes.tables.get(&ddl.table).cloned();
                    let shape = shape.as_deref();
                    let plan = of_ddl(shape, &ddl.table, &ddl.change, order, &settings);
                    plan.into_iter().for_each(|plan| install(&mut shapes, plan));
                }
                from += 1;
            }
            Some(Stop::Held(_) | Stop::Ahead(..)) => unreachable!("nothing waits here"),
            Some(Stop::Bad(_)) => unreachable!("bad records are left out"),
        }
    }
    panic!("the decoder makes no progress at record {from}");
}

fn install(shapes: &mut Shapes, plan: Plan) {
    shapes.tables.remove(&plan.table);
    if let Some(state) = plan.after {
        let shape = Shape::new(state);
        shapes.tables.insert(shape.table.clone(), Arc::new(shape));
    }
}

fn settings(format: Format) -> Arc<DecodeSettings> {
    let config: KafkaConfig = serde_json::from_value(serde_json::json!({
        "value.format": format.name(), "topic": ["t"],
    }))
    .expect("the options that are needed");
    let dialect = crate::cell::Dialect {
        latin1_bytes: format == Format::CanalJson,
        decimals: config.decimals(),
        offset_secs: 0,
    };
    let rows = RowSettings { dialect, placeholders: Vec::new() };
    let rules = TableRules::new(&config).expect("no rules");
    let table = TableId::new("lakeward", "bad_records");
    let bad_records = BadRecords { policy: BadRecordPolicy::Skip, table };
    Arc::new(DecodeSettings { format, rules, rows, bad_records })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn formats() -> impl Strategy<Value = Format> {
        prop::sample::select(vec![
            Format::DebeziumJson,
            Format::CanalJson,
            Format::MaxwellJson,
            Format::OggJson,
        ])
    }

    #[test]
    fn rows_come_out() {
        let value = br#"{"op":"c","after":{"id":1},"source":{"db":"d","table":"t"}}"#;
        let records: [Record<'_>; 2] = [(None, Some(value)), (None, Some(b"{"))];
        assert_eq!(read_records(Format::DebeziumJson, &records), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(format in formats(), records in prop::collection::vec(".{0,80}", 0..5)) {
            let records: Vec<Record<'_>> =
                records.iter().map(|text| (Some(text.as_bytes()), Some(text.as_bytes()))).collect();
            read_records(format, &records);
        }

        #[test]
        fn no_value_panics(value in "(\"[-0-9TZ:. a=]{0,24}\"|-?[0-9]{1,40}(\\.[0-9]{1,9})?(e-?[0-9]{1,3})?|null|true|\\{\\})",
                           kind in "(bigint|int|tinyint)( unsigned)?|decimal\\([0-9]{1,2},[0-9]\\)|(datetime|time|timestamp)\\([0-9]\\)|binary\\([0-9]\\)|bit\\([0-9]{1,2}\\)|double|json") {
            let record = format!(
                r#"{{"type":"INSERT","database":"d","table":"t","es":1,"pkNames":["id"],"mysqlType":{{"id":"int","v":"{kind}"}},"data":[{{"id":"1","v":{value}}}]}}"#
            );
            read_records(Format::CanalJson, &[(None, Some(record.as_bytes()))]);
        }
    }
}
