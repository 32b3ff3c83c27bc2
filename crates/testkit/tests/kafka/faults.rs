//! What goes wrong around a topic, one test for each fault.

use std::time::Duration;

use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use serde_json::json;

use crate::scene::{Scene, check_table, envelope, eventually, shared_broker};

/// Rows go in, change and go away, and the lake follows.
#[test]
fn a_table_is_followed() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::new(broker, "followed", 1, "debezium-json");
    scene.changes(0, &[("c", 1, "a"), ("c", 2, "b"), ("r", 3, "c")]);
    scene.start_streaming();
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"], [3, "c"]]));
    scene.changes(0, &[("u", 1, "A"), ("d", 2, "b"), ("c", 4, "d")]);
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "A"], [3, "c"], [4, "d"]]));
    scene.lakeward.stop().unwrap();
}

fn kv(changes: &[(&str, i64, &str)]) -> Vec<(String, String)> {
    changes.iter().map(|c| envelope(*c)).collect()
}

fn records(lines: &[(String, String)]) -> Vec<lakeward_testkit::topics::Record<'_>> {
    lines.iter().map(|(k, v)| (Some(k.as_bytes()), Some(v.as_bytes()))).collect()
}

#[test]
fn aborted_transactions_are_not_seen_and_their_ends_are_passed() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::new(broker, "transactions", 1, "debezium-json");
    let (kept, gone) = (kv(&[("c", 1, "a"), ("c", 2, "b")]), kv(&[("c", 8, "x"), ("d", 1, "a")]));
    scene.topics.transaction("transactions", 0, &records(&kept), true).unwrap();
    scene.topics.transaction("transactions", 0, &records(&gone), false).unwrap();
    scene.start_streaming();
    // The partition ends with records that nobody sees.
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"]]));
    scene.topics.transaction("transactions", 0, &records(&gone), false).unwrap();
    scene.catch_up();
    let more = kv(&[("u", 2, "B")]);
    scene.topics.transaction("transactions", 0, &records(&more), true).unwrap();
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "B"]]));
    scene.lakeward.stop().unwrap();
}

#[test]
fn a_broker_that_dies_and_comes_back() {
    if shared_broker().is_none() {
        return;
    }
    let Some(mut broker) = lakeward_testkit::kafka::start_or_skip() else { return };
    let mut scene = Scene::new(&broker, "broker-dies", 2, "debezium-json");
    scene.changes(0, &[("c", 1, "a")]);
    scene.changes(1, &[("c", 2, "b")]);
    scene.start_streaming();
    scene.catch_up();
    broker.kill().unwrap();
    let is_known = |scene: &Scene| scene.lakeward.log().contains("no broker answers");
    eventually("the loss is reported", Duration::from_secs(60), || is_known(&scene));
    broker.start().unwrap();
    scene.changes(0, &[("u", 1, "A"), ("c", 3, "c")]);
    scene.changes(1, &[("d", 2, "b")]);
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "A"], [3, "c"]]));
    // The client came back by itself.
    assert!(!scene.lakeward.log().contains("attempt failed"), "{}", scene.lakeward.tail(5));
    scene.lakeward.stop().unwrap();
}

#[test]
fn records_that_are_gone_are_missed_loudly() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::new(broker, "forgotten", 1, "debezium-json");
    scene.changes(0, &[("c", 1, "a")]);
    scene.start_streaming();
    scene.catch_up();
    scene.lakeward.stop().unwrap();
    scene.changes(0, &[("c", 2, "b"), ("c", 3, "c"), ("u", 1, "A")]);
    scene.topics.forget("forgotten", 0, 3).unwrap();
    scene.lakeward.start().unwrap();
    scene.expect_loud(&["records that were not read yet are gone"]);
    scene.lakeward.start_with(&["--resnapshot"]).unwrap();
    scene.catch_up();
    // All that the topic still has.
    scene.assert_rows(&["id", "n"], json!([[1, "A"]]));
    scene.changes(0, &[("c", 4, "d")]);
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "A"], [4, "d"]]));
    scene.lakeward.stop().unwrap();
}

#[test]
fn new_partitions_and_topics_are_found() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::with(broker, "growing-a", 1, "debezium-json", |mut pipeline| {
        pipeline.0["source"].as_object_mut().unwrap().remove("topic");
        pipeline.set("source", "topic-pattern", "growing-.*").set(
            "source",
            "scan.topic-partition-discovery.interval",
            "500ms",
        )
    });
    scene.changes(0, &[("c", 1, "a")]);
    scene.start_streaming();
    scene.catch_up();
    scene.topics.grow("growing-a", 3).unwrap();
    scene.changes(2, &[("c", 2, "b")]);
    scene.catch_up();
    scene.topics.create("growing-b", 2).unwrap();
    let more = kv(&[("c", 3, "c")]);
    scene.topics.produce("growing-b", 1, &records(&more)).unwrap();
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"], [3, "c"]]));
    scene.lakeward.kill().unwrap();
    scene.changes(1, &[("c", 4, "d")]);
    scene.lakeward.start().unwrap();
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"], [3, "c"], [4, "d"]]));
    scene.lakeward.stop().unwrap();
}

const POISON: &[u8] = b"\xff{not json: secret-value";

#[test]
fn a_bad_record_stops_the_pipeline_before_it() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::new(broker, "poison-fail", 1, "debezium-json");
    scene.changes(0, &[("c", 1, "a")]);
    scene.topics.produce("poison-fail", 0, &[(None, Some(POISON))]).unwrap();
    scene.changes(0, &[("c", 2, "b")]);
    scene.lakeward.start().unwrap();
    scene.expect_loud(&["topic poison-fail, partition 0, offset 1"]);
    assert!(!scene.lakeward.log().contains("secret-value"));
    // Once the cause is cured nothing is lost.
    let pipeline = scene.pipeline.clone().set("pipeline", "bad-record", "skip");
    scene.lakeward.configure(&pipeline).unwrap();
    scene.lakeward.start().unwrap();
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"]]));
    assert!(!scene.lakeward.log().contains("secret-value"));
    let metrics = scene.lakeward.get("/metrics").unwrap();
    assert!(metrics.lines().any(|l| l.contains("source_bad_records_total") && l.ends_with(" 1")));
    scene.lakeward.stop().unwrap();
}

#[test]
fn a_bad_record_is_put_aside() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::with(broker, "poison-aside", 1, "debezium-json", |pipeline| {
        pipeline.set("pipeline", "bad-record", "dead-letter")
    });
    scene.changes(0, &[("c", 1, "a")]);
    scene.topics.produce("poison-aside", 0, &[(Some(b"k"), Some(POISON))]).unwrap();
    scene.changes(0, &[("c", 2, "b")]);
    scene.lakeward.start().unwrap();
    scene.catch_up();
    scene.lakeward.kill().unwrap();
    scene.lakeward.start().unwrap();
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"]]));
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<String>();
    scene.assert_table(
        "lakeward.bad_records",
        &["topic", "partition", "offset", "key", "value", "reason"],
        json!([["poison-aside", 0, 1, hex(b"k"), hex(POISON), "the value is not a JSON object"]]),
    );
    scene.lakeward.stop().unwrap();
}

/// A topic with a record, and a time after it.
fn begin_at(broker: &lakeward_testkit::kafka::Broker, name: &str) -> (Scene, i64) {
    use std::time::{SystemTime, UNIX_EPOCH};
    let scene = Scene::with(broker, name, 2, "debezium-json", |pipeline| {
        pipeline.set("source", "scan.startup.mode", "timestamp")
    });
    scene.changes(0, &[("c", 1, "a")]);
    std::thread::sleep(Duration::from_millis(20));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (scene, i64::try_from(now.as_millis()).unwrap())
}

#[test]
fn startup_modes() {
    let Some(broker) = shared_broker() else { return };
    let begin = |name: &str, mode: &str, more: &[(&str, &str)]| {
        Scene::with(broker, name, 1, "debezium-json", |pipeline| {
            let pipeline = pipeline.set("source", "scan.startup.mode", mode);
            more.iter().fold(pipeline, |pipeline, (key, value)| pipeline.set("source", key, *value))
        })
    };
    let mut latest = begin("start-latest", "latest-offset", &[]);
    latest.changes(0, &[("c", 1, "a")]);
    latest.start_streaming();
    latest.changes(0, &[("c", 2, "b")]);
    latest.catch_up();
    latest.assert_rows(&["id", "n"], json!([[2, "b"]]));
    latest.lakeward.kill().unwrap();
    let specific = "partition:0,offset:1";
    let mut specific =
        begin("start-specific", "specific-offsets", &[("scan.startup.specific-offsets", specific)]);
    specific.changes(0, &[("c", 1, "a"), ("c", 2, "b")]);
    specific.lakeward.start().unwrap();
    specific.catch_up();
    specific.assert_rows(&["id", "n"], json!([[2, "b"]]));
    specific.lakeward.kill().unwrap();
    // Records have the times at which they were produced.
    let first = begin_at(broker, "start-time");
    let (mut by_time, from_ms) = first;
    by_time.changes(0, &[("c", 2, "b"), ("c", 3, "c")]);
    let pipeline = by_time.pipeline.clone();
    let pipeline = pipeline.set("source", "scan.startup.timestamp-millis", from_ms);
    by_time.lakeward.configure(&pipeline).unwrap();
    by_time.lakeward.start().unwrap();
    by_time.catch_up();
    by_time.assert_rows(&["id", "n"], json!([[2, "b"], [3, "c"]]));
    by_time.changes(1, &[("c", 4, "d")]);
    by_time.catch_up();
    by_time.assert_rows(&["id", "n"], json!([[2, "b"], [3, "c"], [4, "d"]]));
    by_time.lakeward.kill().unwrap();
    // What a pipeline has shown to its group, another one may begin with.
    let group = [("properties.group.id", "start-group")];
    let mut first = begin("start-group", "earliest-offset", &group);
    first.changes(0, &[("c", 1, "a")]);
    first.lakeward.start().unwrap();
    first.catch_up();
    let shown = || first.topics.committed("start-group", "start-group", 0).unwrap() == Some(1);
    eventually("the group has the offset", Duration::from_secs(30), shown);
    first.lakeward.kill().unwrap();
    first.changes(0, &[("c", 2, "b")]);
    let mut second = Lakeward::in_temporary_folder(|folder| {
        Pipeline::of_kafka("second", &broker.address(), "start-group", "debezium-json", folder)
            .set("source", "scan.startup.mode", "group-offsets")
            .set("source", "properties.group.id", "start-group")
    })
    .unwrap();
    second.start().unwrap();
    second.wait_caught_up().unwrap();
    let columns = ["id".to_owned(), "n".to_owned()];
    check_table(&second, "d.t", &columns, &[vec![json!(2), json!("b")]]).unwrap();
    second.stop().unwrap();
}

/// Many changes in several partitions, to a table with a key and to one without, while the pipeline is killed again and
/// again: nothing is lost and nothing is doubled.
#[test]
fn killed_while_partitions_flow() {
    let Some(broker) = shared_broker() else { return };
    const PARTITIONS: i32 = 4;
    const ROUNDS: i64 = 40;
    let mut scene = Scene::new(broker, "flowing", PARTITIONS, "debezium-json");
    scene.lakeward.start().unwrap();
    let topics = &scene.topics;
    let lakeward = &mut scene.lakeward;
    std::thread::scope(|scope| {
        let producer = scope.spawn(move || {
            for round in 0..ROUNDS {
                for partition in 0..PARTITIONS {
                    let id = i64::from(partition);
                    let keyed = kv(&[("u", id, &format!("r{round}")), ("c", 100 * round + 10 + id, "n")]);
                    let column = if round % 10 == 9 { format!(",\"c{round}\":{round}") } else { String::new() };
                    let bare = format!(
                        "{{\"op\":\"c\",\"after\":{{\"a\":{round},\"p\":{id}{column}}},\"source\":{{\"db\":\"d\",\"table\":\"log\"}}}}"
                    );
                    let mut all = records(&keyed);
                    all.push((None, Some(bare.as_bytes())));
                    topics.produce("flowing", partition, &all).unwrap();
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        for pause in [700, 1300, 400, 1900, 900] {
            std::thread::sleep(Duration::from_millis(pause));
            lakeward.kill().unwrap();
            lakeward.start().unwrap();
        }
        producer.join().unwrap();
    });
    scene.catch_up();
    let mut keyed = Vec::new();
    let mut bare = Vec::new();
    for id in 0..i64::from(PARTITIONS) {
        keyed.push(json!([id, format!("r{}", ROUNDS - 1)]));
        for round in 0..ROUNDS {
            keyed.push(json!([100 * round + 10 + id, "n"]));
            let c9 = if round == 9 { json!(9) } else { json!(null) };
            bare.push(json!([round, id, c9]));
        }
    }
    scene.assert_rows(&["id", "n"], json!(keyed));
    scene.assert_table("d.log", &["a", "p", "c9"], json!(bare));
    scene.lakeward.stop().unwrap();
}

fn maxwell(kind: &str, ts: i64, body: &str) -> String {
    format!("{{\"database\":\"d\",\"table\":\"t\",\"type\":\"{kind}\",\"ts\":{ts},{body}}}")
}

/// A statement that every partition has a copy of is carried out once, between the rows before it and those behind it.
#[test]
fn a_statement_in_all_partitions() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::with(broker, "statements", 2, "maxwell-json", |pipeline| {
        pipeline.set("source", "primary-keys", "d.t:id")
    });
    let row = |id: i64, n: &str, ts: i64| {
        maxwell("insert", ts, &format!("\"data\":{{\"id\":{id},\"{n}\":\"x{id}\"}}"))
    };
    let def = |name: &str| {
        format!(
            "\"sql\":\"ALTER TABLE t CHANGE n {name} VARCHAR(9)\",\"def\":{{\"database\":\"d\",\"table\":\"t\",\"columns\":\
             [{{\"type\":\"int\",\"name\":\"id\",\"signed\":true}},{{\"type\":\"varchar\",\"name\":\"{name}\"}}],\
             \"primary-key\":[\"id\"]}}"
        )
    };
    let altered = maxwell("table-alter", 1_600_000_000_000, &def("m"));
    let produce = |scene: &Scene, partition: i32, value: &str| {
        scene.topics.produce("statements", partition, &[(None, Some(value.as_bytes()))]).unwrap();
    };
    produce(&scene, 0, &row(1, "n", 1_500_000_000));
    scene.start_streaming();
    scene.catch_up();
    // The first partition is ahead: it waits for the other.
    produce(&scene, 0, &altered);
    produce(&scene, 0, &row(3, "m", 1_700_000_000));
    produce(&scene, 1, &row(2, "n", 1_500_000_001));
    produce(&scene, 1, &altered);
    produce(&scene, 1, &row(4, "m", 1_700_000_000));
    scene.catch_up();
    scene.lakeward.kill().unwrap();
    scene.lakeward.start().unwrap();
    scene.catch_up();
    scene.assert_rows(&["id", "m"], json!([[1, "x1"], [2, "x2"], [3, "x3"], [4, "x4"]]));
    // A row from before the statement that comes long after it means the same column.
    produce(&scene, 1, &row(5, "n", 1_500_000_002));
    scene.catch_up();
    let rows = json!([[1, "x1"], [2, "x2"], [3, "x3"], [4, "x4"], [5, "x5"]]);
    scene.assert_rows(&["id", "m"], rows);
    let lake = scene.lakeward.lake();
    assert_eq!(lake.table("d", "t").unwrap().columns.len(), 2);
    // Dropped and made again: rows of before are gone, also those of a partition without the statement.
    let dropped = maxwell("table-drop", 1_800_000_000_000, "\"sql\":\"DROP TABLE t\"");
    produce(&scene, 1, &dropped);
    produce(&scene, 0, &row(9, "m", 1_900_000_000));
    scene.catch_up();
    scene.assert_rows(&["id", "m"], json!([[9, "x9"]]));
    let log = scene.lakeward.log();
    assert_eq!(log.matches("change=rename.column").count(), 1, "{log}");
    scene.lakeward.stop().unwrap();
}

#[test]
fn a_bounded_run_ends_and_check_shows_the_tables() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::new(broker, "bounded", 2, "debezium-json");
    scene.changes(1, &[("c", 1, "a"), ("c", 2, "b")]);
    let (code, said) = scene.lakeward.command(&["check", "pipeline.yaml"]).unwrap();
    assert!(code == 0 && said.contains("d.t") && said.contains("Kafka"), "{code}: {said}");
    scene.lakeward.start_with(&["--until", "caught-up"]).unwrap();
    assert_eq!(scene.lakeward.exit_within(Duration::from_secs(60)).unwrap(), 0);
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"]]));
}

#[test]
fn a_topic_that_is_not_there_is_named() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::with(broker, "misspelt", 1, "debezium-json", |pipeline| {
        pipeline.set("source", "topic", "mispelt")
    });
    scene.lakeward.start().unwrap();
    scene.expect_loud(&["the topic does not exist"]);
}
