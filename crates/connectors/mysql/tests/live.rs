//! Snapshot and log of a running server, applied to a model: the cases that concern the reader.

mod support;

use lakeward_core::{ErrorKind, SplitId, TableId};
use lakeward_testkit::server::Server;
use lakeward_testkit::{mariadb, mysql9};
use std::time::Duration;
use support::{Harness, rows, truth};

#[test]
fn snapshot_and_changes_arrive_once() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))").unwrap();
    sql.run("INSERT INTO d.t SELECT seq, CONCAT('v', seq) FROM seq_1_to_1000").unwrap();
    sql.run("CREATE TABLE d.k (a INT, b VARCHAR(10))").unwrap();
    sql.run("INSERT INTO d.k VALUES (1,'x'),(1,'x'),(2,NULL)").unwrap();
    let mut h = Harness::new(&server, r"d.\.*");
    h.open();
    h.catch_up();
    assert_eq!(h.model.tables["d.t"].rows.len(), 1000);
    assert_eq!(h.model.rows("d.k", &["a", "b"]), truth(&server, "SELECT a, b FROM d.k"));
    sql.run("UPDATE d.t SET v='new' WHERE id<=10").unwrap();
    sql.run("UPDATE d.t SET id=id+5000 WHERE id>990").unwrap();
    sql.run("DELETE FROM d.t WHERE id BETWEEN 100 AND 200").unwrap();
    sql.run("UPDATE d.k SET b='y' WHERE a=1").unwrap();
    sql.run("DELETE FROM d.k WHERE a=1 LIMIT 1").unwrap();
    h.catch_up();
    assert_eq!(h.model.rows("d.t", &["id", "v"]), truth(&server, "SELECT id, v FROM d.t"));
    assert_eq!(h.model.rows("d.k", &["a", "b"]), truth(&server, "SELECT a, b FROM d.k"));
    h.checkpoint();
    h.crash();
    sql.run("INSERT INTO d.t VALUES (7000, 'while away')").unwrap();
    sql.run("INSERT INTO d.k VALUES (9, 'while away')").unwrap();
    let snapshot_rows = h.model.snapshot_rows;
    h.open();
    h.catch_up();
    assert_eq!(h.model.snapshot_rows, snapshot_rows, "no second snapshot");
    assert_eq!(h.model.rows("d.t", &["id", "v"]), truth(&server, "SELECT id, v FROM d.t"));
    assert_eq!(h.model.rows("d.k", &["a", "b"]), truth(&server, "SELECT a, b FROM d.k"));
    assert_eq!(h.model.resets.get("d.k"), None);
}

#[test]
fn ddl_of_the_log_is_in_order_with_its_rows() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE df (id INT PRIMARY KEY, n VARCHAR(10))").unwrap();
    sql.run("INSERT INTO df VALUES (1,'a')").unwrap();
    sql.run("CREATE TABLE sw (id INT PRIMARY KEY, a INT, b INT)").unwrap();
    sql.run("INSERT INTO sw VALUES (1,1,2)").unwrap();
    sql.run("CREATE TABLE tr (id INT PRIMARY KEY, v INT)").unwrap();
    sql.run("INSERT INTO tr VALUES (1,1),(2,2)").unwrap();
    sql.run("CREATE TABLE dc (id INT PRIMARY KEY, a VARCHAR(10), b INT)").unwrap();
    sql.run("INSERT INTO dc VALUES (1,'old',1)").unwrap();
    let mut h = Harness::new(&server, r"d.\.*");
    h.open();
    h.catch_up();
    h.checkpoint();
    for stopped in [false, true] {
        if stopped {
            h.crash();
        }
        let i = if stopped { 10 } else { 0 };
        sql.run(&format!("INSERT INTO df(id, n) VALUES ({}, 'b')", i + 2)).unwrap();
        sql.run(&format!(
            "ALTER TABLE df ADD COLUMN c{i}1 INT NOT NULL DEFAULT 17, ADD COLUMN c{i}2 VARCHAR(5) DEFAULT 'q'"
        ))
        .unwrap();
        sql.run(&format!("INSERT INTO df(id, n, c{i}1) VALUES ({}, 'c', 33)", i + 3)).unwrap();
        sql.run(&format!("INSERT INTO sw(id, a, b) VALUES ({}, 1, 2)", i + 2)).unwrap();
        sql.run("ALTER TABLE sw RENAME COLUMN a TO b, RENAME COLUMN b TO a").unwrap();
        sql.run(&format!("INSERT INTO sw(id, a, b) VALUES ({}, 1, 2)", i + 3)).unwrap();
        sql.run(&format!("INSERT INTO tr VALUES ({}, 4)", i + 4)).unwrap();
        sql.run("TRUNCATE TABLE tr").unwrap();
        sql.run("INSERT INTO tr VALUES (2,20),(9,9)").unwrap();
        sql.run(&format!("INSERT INTO dc(id) VALUES ({})", i + 3)).unwrap();
        sql.run("DROP TABLE dc").unwrap();
        sql.run("CREATE TABLE dc (b INT, id BIGINT PRIMARY KEY, c DATE)").unwrap();
        sql.run("INSERT INTO dc VALUES (7, 1, '2024-01-01')").unwrap();
        sql.run(&format!("CREATE TABLE nt{i} (id INT PRIMARY KEY, v VARCHAR(10))")).unwrap();
        sql.run(&format!("INSERT INTO nt{i} VALUES (1,'a'),(2,'b'),(3,'c')")).unwrap();
        sql.run(&format!("DELETE FROM nt{i} WHERE id=3")).unwrap();
        sql.run(&format!("CREATE TABLE nl{i} LIKE nt{i}")).unwrap();
        sql.run(&format!("INSERT INTO nl{i} SELECT * FROM nt{i}")).unwrap();
        sql.run(&format!("CREATE TABLE ns{i} AS SELECT id, CONCAT(v,'!') w FROM nt{i}")).unwrap();
        if stopped {
            h.open();
        }
        h.catch_up();
        assert_eq!(
            h.model.rows("d.sw", &["id", "a", "b"]),
            truth(&server, "SELECT id, a, b FROM d.sw")
        );
        assert_eq!(h.model.rows("d.tr", &["id", "v"]), rows(&[&["2", "20"], &["9", "9"]]));
        assert_eq!(h.model.rows("d.dc", &["id", "b", "c"]), rows(&[&["1", "7", "2024-01-01"]]));
        for (table, columns) in
            [(format!("nt{i}"), "id, v"), (format!("nl{i}"), "id, v"), (format!("ns{i}"), "id, w")]
        {
            let columns: Vec<&str> = columns.split(", ").collect();
            assert_eq!(
                h.model.rows(&format!("d.{table}"), &columns),
                truth(&server, &format!("SELECT {} FROM d.{table}", columns.join(", "))),
                "{table}"
            );
        }
    }
    assert_eq!(
        h.model.rows("d.df", &["id", "n", "c01", "c02", "c101", "c102"]),
        truth(&server, "SELECT id, n, c01, c02, c101, c102 FROM d.df")
    );
}

#[test]
fn online_schema_change_and_rename_into_capture() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE ord (id INT PRIMARY KEY, amt INT)").unwrap();
    sql.run("INSERT INTO ord VALUES (1,10),(2,20)").unwrap();
    sql.run("CREATE TABLE lot (id INT PRIMARY KEY)").unwrap();
    sql.run("INSERT INTO lot VALUES (1)").unwrap();
    let mut h = Harness::new(&server, "d.ord, d.lot");
    h.open();
    h.catch_up();
    for statement in [
        "create /* gh-ost */ table `_ord_ghc`(id bigint auto_increment, hint varchar(64) charset ascii not null, primary key(id))",
        "create /* gh-ost */ table `_ord_gho` like `ord`",
        "alter /* gh-ost */ table `_ord_gho` add column st varchar(5) not null default 'new'",
        "insert /* gh-ost */ ignore into `_ord_gho`(id,amt) select id,amt from ord",
        "INSERT INTO ord VALUES (3,30)",
        "replace /* gh-ost */ into `_ord_gho`(id,amt) values (3,30)",
        "create /* gh-ost */ table `_ord_del`(id int auto_increment primary key) comment='ghost-cut-over-sentry'",
        "drop table if exists `_ord_del`",
        "rename /* gh-ost */ table `ord` to `_ord_del`, `_ord_gho` to `ord`",
        "INSERT INTO ord VALUES (4,40,'paid')",
        "drop table if exists `_ord_ghc`",
        "drop table if exists `_ord_del`",
        "CREATE TABLE lot_new (id INT PRIMARY KEY)",
        "INSERT INTO lot_new VALUES (1),(2)",
        "ALTER TABLE lot_new ADD COLUMN a INT",
        "DROP TABLE lot",
        "RENAME TABLE lot_new TO lot",
        "INSERT INTO lot VALUES (7,5),(8,5)",
    ] {
        sql.run(statement).unwrap();
    }
    h.catch_up();
    assert_eq!(
        h.model.rows("d.ord", &["id", "amt", "st"]),
        truth(&server, "SELECT id, amt, st FROM d.ord")
    );
    assert_eq!(h.model.rows("d.lot", &["id", "a"]), truth(&server, "SELECT id, a FROM d.lot"));
    assert_eq!(h.model.tables.keys().collect::<Vec<_>>(), ["d.lot", "d.ord"]);
    assert_eq!(h.model.resets.get("d.ord"), None, "never empty in between");
}

#[test]
fn xa_rows_of_mariadb_wait_for_their_end_also_across_a_restart() {
    let Some(server) = mariadb::start_or_skip() else { return };
    xa_rows_wait_for_their_end(&server);
}

#[test]
fn xa_rows_of_mysql_wait_for_their_end_also_across_a_restart() {
    let Some(server) = mysql9::start_or_skip() else { return };
    xa_rows_wait_for_their_end(&server);
}

fn xa_rows_wait_for_their_end(server: &Server) {
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE xa1 (id INT PRIMARY KEY, v INT)").unwrap();
    sql.run("INSERT INTO xa1 VALUES (1,1)").unwrap();
    let mut other = server.session(Some("d")).unwrap();
    let mut h = Harness::new(server, "d.xa1");
    h.open();
    h.catch_up();
    for statement in [
        "XA START 'g1','b1',1",
        "INSERT INTO xa1 VALUES (2,2)",
        "UPDATE xa1 SET v=99 WHERE id=1",
        "XA END 'g1','b1',1",
        "XA PREPARE 'g1','b1',1",
    ] {
        sql.run(statement).unwrap();
    }
    other.run("INSERT INTO xa1 VALUES (3,3)").unwrap();
    h.catch_up();
    assert_eq!(h.model.rows("d.xa1", &["id", "v"]), rows(&[&["1", "1"], &["3", "3"]]));
    sql.run("XA ROLLBACK 'g1','b1',1").unwrap();
    for statement in
        ["XA START 'g2'", "INSERT INTO xa1 VALUES (4,4)", "XA END 'g2'", "XA PREPARE 'g2'"]
    {
        sql.run(statement).unwrap();
    }
    h.catch_up();
    h.checkpoint();
    h.crash();
    other.run("INSERT INTO xa1 VALUES (5,5)").unwrap();
    sql.run("XA COMMIT 'g2'").unwrap();
    other.run("INSERT INTO xa1 VALUES (6,6)").unwrap();
    h.open();
    h.catch_up();
    assert_eq!(h.model.rows("d.xa1", &["id", "v"]), truth(server, "SELECT id, v FROM d.xa1"));
    assert_eq!(h.model.tables["d.xa1"].rows.len(), 5);
    // And once more without a restart, in memory.
    for statement in [
        "XA START 'g3'",
        "DELETE FROM xa1 WHERE id=4",
        "XA END 'g3'",
        "XA PREPARE 'g3'",
        "XA COMMIT 'g3'",
    ] {
        sql.run(statement).unwrap();
    }
    h.catch_up();
    assert_eq!(h.model.rows("d.xa1", &["id", "v"]), truth(server, "SELECT id, v FROM d.xa1"));
}

#[test]
fn tables_added_to_the_filter_are_read_once() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE x1 (id INT PRIMARY KEY, v INT)").unwrap();
    sql.run("CREATE TABLE x2 (id INT PRIMARY KEY, v INT)").unwrap();
    sql.run("INSERT INTO x1 VALUES (1,1)").unwrap();
    sql.run("INSERT INTO x2 SELECT seq, seq FROM seq_1_to_500").unwrap();
    let mut h = Harness::new(&server, "d.x1").option("scan.incremental.snapshot.chunk.size", "50");
    h.open();
    h.catch_up();
    h.checkpoint();
    h.crash();
    sql.run("UPDATE x1 SET v=2 WHERE id=1").unwrap();
    sql.run("UPDATE x2 SET v=-1 WHERE id=1").unwrap();
    h.set("tables", "d.x1, d.x2");
    h.open();
    h.run_until(Duration::from_secs(30), |h| h.model.snapshot_rows > 100).unwrap();
    h.checkpoint();
    h.restart();
    sql.run("UPDATE x2 SET v=10 WHERE id=2").unwrap();
    sql.run("INSERT INTO x2 VALUES (1003,3)").unwrap();
    h.catch_up();
    h.checkpoint();
    h.restart();
    sql.run("INSERT INTO x2 VALUES (1004,4)").unwrap();
    h.catch_up();
    assert_eq!(h.model.rows("d.x1", &["id", "v"]), truth(&server, "SELECT id, v FROM d.x1"));
    assert_eq!(h.model.rows("d.x2", &["id", "v"]), truth(&server, "SELECT id, v FROM d.x2"));
    assert_eq!(h.model.creates["d.x1"], 1);
    // An explicit wish reads all of it again.
    h.checkpoint();
    h.crash();
    h.resnapshot = vec!["d.x1".into()];
    h.open();
    h.catch_up();
    assert_eq!(h.model.resets["d.x1"], 1);
    assert_eq!(h.model.rows("d.x1", &["id", "v"]), truth(&server, "SELECT id, v FROM d.x1"));
}

#[test]
fn a_purged_position_is_said_once_and_plainly() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("CREATE TABLE d.p (id INT PRIMARY KEY)").unwrap();
    sql.run("INSERT INTO d.p VALUES (1)").unwrap();
    let mut h = Harness::new(&server, "d.p");
    h.open();
    h.catch_up();
    sql.run("INSERT INTO d.p VALUES (2)").unwrap();
    h.catch_up();
    h.checkpoint();
    h.crash();
    sql.run("FLUSH BINARY LOGS").unwrap();
    sql.run("INSERT INTO d.p VALUES (3)").unwrap();
    sql.run("FLUSH BINARY LOGS").unwrap();
    let logs = sql.rows("SHOW BINARY LOGS").unwrap();
    let newest = logs.last().unwrap()[0].clone().unwrap();
    // The server keeps files that a replica reads, and notices at its next heartbeat that the replica is gone.
    support::eventually(|| {
        sql.run(&format!("PURGE BINARY LOGS TO '{newest}'")).unwrap();
        sql.rows("SHOW BINARY LOGS").unwrap().len() == 1
    });
    sql.run("INSERT INTO d.p VALUES (4)").unwrap();
    h.open();
    let e = h.expect_error(Duration::from_secs(20));
    assert_eq!(e.kind(), ErrorKind::OffsetLost, "{e}");
    assert!(e.to_string().contains("position bin.0000"), "{e}");
    h.crash();
    h.resnapshot = vec!["*".into()];
    h.saved = None;
    h.open();
    h.catch_up();
    assert_eq!(h.model.tables["d.p"].rows.len(), 4);
}

#[test]
fn statements_and_cascades_are_not_passed_over_in_silence() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE s (id INT PRIMARY KEY, v INT)").unwrap();
    sql.run("CREATE TABLE other (id INT PRIMARY KEY)").unwrap();
    sql.run("CREATE TABLE par (id INT PRIMARY KEY)").unwrap();
    sql.run(
        "CREATE TABLE chi (id INT PRIMARY KEY, pid INT, FOREIGN KEY(pid) REFERENCES par(id) ON DELETE CASCADE)",
    )
    .unwrap();
    let mut h = Harness::new(&server, "d.s, d.chi");
    h.open();
    h.catch_up();
    assert_eq!(h.gauge("source_cascade_tables"), 1);
    let check = {
        use lakeward_core::Source;
        let source = h.source().unwrap();
        h.runtime.block_on(source.check()).unwrap()
    };
    assert!(check.errors.is_empty(), "{:?}", check.errors);
    assert!(check.warnings.iter().any(|w| w.starts_with("d.chi") && w.contains("foreign key")));
    assert_eq!(check.tables.len(), 2);
    sql.run("SET SESSION binlog_format='STATEMENT'").unwrap();
    sql.run("INSERT INTO other VALUES (1)").unwrap();
    h.catch_up();
    h.checkpoint();
    sql.run("INSERT INTO s VALUES (1, 1)").unwrap();
    let (table, kind, text) = h.expect_failure(Duration::from_secs(20));
    assert_eq!((table.to_string().as_str(), kind), ("d.s", ErrorKind::DataInvalid), "{text}");
    assert!(text.contains("position"), "{text}");
    // Only that table is left out.
    sql.run("SET SESSION binlog_format='ROW'").unwrap();
    sql.run("INSERT INTO s VALUES (2, 2)").unwrap();
    sql.run("INSERT INTO par VALUES (1)").unwrap();
    sql.run("INSERT INTO chi VALUES (1, 1)").unwrap();
    h.catch_up();
    assert_eq!(h.model.tables["d.s"].rows.len(), 0);
    assert_eq!(h.model.tables["d.chi"].rows.len(), 1);
    assert_eq!(h.model.failures.len(), 1);
}

/// A state from the middle of a snapshot is put back after a later run has filled the table: rows that came later, and are
/// gone from the source since, are taken away by nobody but a new beginning.
fn older_state_from_the_middle_of_a_snapshot(told_by_checkpoint: bool) {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    sql.run("INSERT INTO t SELECT seq, seq FROM seq_1_to_6000").unwrap();
    let mut h =
        Harness::new(&server, r"d.\.*").option("scan.incremental.snapshot.chunk.size", "50");
    h.open();
    h.run_until(Duration::from_secs(30), |h| h.model.snapshot_rows > 500).unwrap();
    h.checkpoint();
    let (older, _) = h.saved.clone().unwrap();
    assert!(h.model.snapshot_rows < 6_000, "the snapshot was not caught in its middle");
    if !told_by_checkpoint {
        sql.run("INSERT INTO t VALUES (7000, 1)").unwrap();
    }
    h.catch_up();
    h.checkpoint();
    let (_, lake) = h.saved.clone().unwrap();
    sql.run("DELETE FROM t WHERE id % 3 = 0").unwrap();

    h.crash();
    let table = TableId::new("d", "t");
    let reached = [(SplitId("binlog".into()), lake.offset.clone().unwrap())].into();
    h.committed = [(table.clone(), reached)].into();
    if told_by_checkpoint {
        h.ahead = [table].into();
    }
    h.saved = Some((older, lake));
    h.open();
    h.catch_up();
    assert_eq!(h.model.rows("d.t", &["id", "v"]), truth(&server, "SELECT id, v FROM d.t"));
    assert_eq!(h.model.resets.get("d.t"), Some(&1));
}

#[test]
fn an_older_state_told_by_its_checkpoint() {
    older_state_from_the_middle_of_a_snapshot(true);
}

#[test]
fn an_older_state_told_by_its_offset() {
    older_state_from_the_middle_of_a_snapshot(false);
}
