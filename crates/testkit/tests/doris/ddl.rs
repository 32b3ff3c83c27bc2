//! DDL: what is taken, what is refused, light and heavy changes.

use std::time::{Duration, Instant};

use super::client::Client;

const TAIL: &str = "DISTRIBUTED BY HASH(id) BUCKETS 1 PROPERTIES (\"replication_num\" = \"1\")";

fn table(client: &mut Client, columns: &str) {
    client.sql.run(&format!("CREATE TABLE t ({columns}) UNIQUE KEY(id) {TAIL}")).unwrap();
}

#[test]
fn what_doris_refuses_is_refused() {
    let mut client = Client::start("refused").unwrap();
    for (columns, keys, tail) in [
        ("id STRING, v INT", "id", TAIL),
        ("v INT, id INT", "id", TAIL),
        ("id INT, v VARCHAR(65534)", "id", TAIL),
        ("id INT, v DECIMAL(39, 2)", "id", TAIL),
        ("id INT, v MEDIUMTEXT", "id", TAIL),
        ("id INT, v TIMESTAMP", "id", TAIL),
        ("id INT UNSIGNED", "id", TAIL),
        ("id INT, ID INT", "id", TAIL),
        ("id INT, v INT", "id", "DISTRIBUTED BY HASH(v) PROPERTIES (\"replication_num\" = \"1\")"),
        ("id INT, v INT", "id", "PROPERTIES (\"replication_num\" = \"1\")"),
        (
            "id INT",
            "id",
            "DISTRIBUTED BY HASH(id) PROPERTIES (\"replication_num\" = \"1\", \"x\" = \"1\")",
        ),
        (
            "id INT, d DATE, v INT",
            "id, d",
            "AUTO PARTITION BY RANGE (date_trunc(d, 'day')) () DISTRIBUTED BY HASH(id) PROPERTIES \
             (\"replication_num\" = \"1\")",
        ),
        ("id INT, v INT DEFAULT \"x\"", "id", TAIL),
        ("__DORIS_X INT", "__DORIS_X", TAIL),
    ] {
        client.refusal(&format!("CREATE TABLE t ({columns}) UNIQUE KEY({keys}) {tail}"));
    }
    client.refusal(&format!("CREATE TABLE _t (id INT) UNIQUE KEY(id) {TAIL}"));
    client.refusal(&format!("CREATE TABLE nowhere.t (id INT) UNIQUE KEY(id) {TAIL}"));
    assert!(client.rows("SHOW TABLES").is_empty());
    table(&mut client, "id INT, v INT NOT NULL");
    assert!(
        client
            .refusal(&format!("CREATE TABLE t (id INT) UNIQUE KEY(id) {TAIL}"))
            .contains("already exists")
    );
    for change in [
        "DROP COLUMN id",
        "DROP COLUMN nope",
        "ADD COLUMN v INT",
        "ADD COLUMN w CLOB",
        "RENAME COLUMN v ID",
        "MODIFY COLUMN v TINYINT NOT NULL",
        "ADD COLUMN w INT AFTER nope",
        "RENAME COLUMN v w, ADD COLUMN x INT",
    ] {
        client.refusal(&format!("ALTER TABLE t {change}"));
    }
    assert_eq!(client.rows("DESC t").len(), 2);
}

#[test]
fn a_table_of_all_types_is_taken_and_shown() {
    let mut client = Client::start("all_types").unwrap();
    client
        .sql
        .run(
            "CREATE TABLE IF NOT EXISTS t (`id` BIGINT NOT NULL COMMENT 'the key', d DATE NOT NULL, a BOOLEAN, \
             b TINYINT, c SMALLINT DEFAULT '-1', e INT, f LARGEINT, g FLOAT, h DOUBLE, i DECIMALV3(38, 10), \
             j DATETIMEV2(6) DEFAULT CURRENT_TIMESTAMP, k CHAR(3), l VARCHAR(65533), m STRING, n JSONB, \
             o ARRAY<INT>) ENGINE = OLAP UNIQUE KEY(id, d) COMMENT \"all of \\\"them\\\"\" \
             AUTO PARTITION BY RANGE (date_trunc(`d`, 'day')) () DISTRIBUTED BY HASH(id) BUCKETS AUTO \
             PROPERTIES (\"replication_allocation\" = \"tag.location.default: 1\", \
             \"enable_unique_key_merge_on_write\" = \"true\", \"light_schema_change\" = \"true\")",
        )
        .unwrap();
    let columns = client.text(
        "SELECT column_name, column_type, is_nullable FROM information_schema.columns WHERE \
         table_schema = database() AND table_name = 't' ORDER BY ordinal_position",
    );
    assert_eq!((columns[0].as_str(), columns.len()), ("id|bigint|NO", 16));
    assert_eq!(columns[10], "j|datetime(6)|YES");
    // What is shown makes the table again.
    let shown = client.rows("SHOW CREATE TABLE t").remove(0).remove(1).unwrap();
    client.sql.run("DROP TABLE t").unwrap();
    client.sql.run(&shown).unwrap();
    assert_eq!(client.rows("SHOW CREATE TABLE t").remove(0).remove(1).unwrap(), shown);
}

#[test]
fn light_changes_are_there_at_once() {
    let mut client = Client::start("light").unwrap();
    table(&mut client, "id INT, v VARCHAR(3), w INT");
    client.load("t", &[("column_separator", ",")], "1,abc,10\n").unwrap();
    // Rows that were loaded before a change and are committed after it.
    let id = client.precommit("t", "between", "2,xyz,20\n").unwrap();
    for change in [
        "ADD COLUMN n INT NOT NULL DEFAULT '5' AFTER v",
        "ADD COLUMN (o INT, p VARCHAR(9) DEFAULT 'p')",
        "DROP COLUMN w",
        "RENAME COLUMN v TO name",
        "MODIFY COLUMN name VARCHAR(30)",
        "MODIFY COLUMN name COMMENT 'a name'",
    ] {
        client.sql.run(&format!("ALTER TABLE t {change}")).unwrap();
    }
    client.second_phase(&[("txn_id", &id.to_string()), ("txn_operation", "commit")]).unwrap();
    assert_eq!(
        client.text("SELECT id, name, n, o, p FROM t ORDER BY id"),
        ["1|abc|5|NULL|p", "2|xyz|5|NULL|p"]
    );
    client.sql.run("ALTER TABLE t RENAME u").unwrap();
    assert_eq!(client.text("SELECT count(*) FROM u"), ["2"]);
    client.sql.run("TRUNCATE TABLE u").unwrap();
    assert_eq!(client.text("SELECT count(*) FROM u"), ["0"]);
}

#[test]
fn a_heavy_change_is_a_job_that_waits_for_older_loads() {
    let mut client = Client::start("heavy").unwrap();
    table(&mut client, "id INT, v INT");
    client.load("t", &[("column_separator", ",")], "1,1\n").unwrap();
    let open = client.precommit("t", "open", "2,2\n").unwrap();
    client.sql.run("ALTER TABLE t MODIFY COLUMN v BIGINT").unwrap();
    let state = |client: &mut Client| {
        let rows = client
            .rows("SHOW ALTER TABLE COLUMN WHERE TableName = 't' ORDER BY CreateTime DESC LIMIT 1");
        rows[0][9].clone().unwrap()
    };
    assert_ne!(state(&mut client), "FINISHED", "an older load is not decided");
    let second = client.refusal("ALTER TABLE t ADD COLUMN w INT");
    assert!(second.contains("SCHEMA_CHANGE"), "{second}");
    // Loads go on meanwhile.
    client.load("t", &[("column_separator", ",")], "3,3\n").unwrap();
    client.second_phase(&[("txn_id", &open.to_string()), ("txn_operation", "commit")]).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while state(&mut client) != "FINISHED" {
        assert!(Instant::now() < end, "{}", state(&mut client));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.text("SELECT * FROM t ORDER BY id"), ["1|1", "2|2", "3|3"]);
    assert_eq!(client.rows("DESC t")[1][1].as_deref(), Some("bigint"));
}
