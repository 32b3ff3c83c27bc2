//! The source's log is gone, is another server's, or ends with the server's crash.

use std::time::Duration;

use lakeward_testkit::lakeward::Pipeline;
use lakeward_testkit::mariadb;
use lakeward_testkit::server::{Options, PASSWORD, USER};

use crate::scene::{Scene, eventually, own_server, readers};

/// apache/flink-cdc#1947, alibaba/canal#1010: it began again and again, or jumped over the gap in silence.
#[test]
fn a_purged_log_is_said_and_a_new_snapshot_is_the_way_on() {
    let Some(server) = own_server() else { return };
    let mut scene = Scene::new(
        &server,
        "purged",
        &["CREATE TABLE t(id INT PRIMARY KEY)", "INSERT INTO t VALUES(1)"],
    );
    scene.start_streaming();
    scene.session.run("INSERT INTO t VALUES(2)").unwrap();
    scene.catch_up();
    scene.lakeward.stop().unwrap();

    scene
        .session
        .run_all(["FLUSH BINARY LOGS", "INSERT INTO t VALUES(3)", "FLUSH BINARY LOGS"])
        .unwrap();
    // The server keeps a file until its transactions are checkpointed.
    eventually("the old logs are purged", Duration::from_secs(30), || {
        let logs = scene.session.rows("SHOW BINARY LOGS").unwrap();
        let newest = logs.last().unwrap()[0].clone().unwrap();
        scene.session.run(&format!("PURGE BINARY LOGS TO '{newest}'")).unwrap();
        logs.len() == 1
    });
    scene.session.run("INSERT INTO t VALUES(4)").unwrap();

    scene.lakeward.start().unwrap();
    scene.expect_loud(&["purge", "no longer", "not on the server"]);
    assert_eq!(scene.ids("t"), [1, 2]);
    let log = scene.lakeward.log();
    assert!(log.contains("resnapshot"), "the way on is not named: {log}");

    scene.lakeward.start_with(&["--resnapshot"]).unwrap();
    scene.lakeward.wait_streaming().unwrap();
    scene.catch_up();
    assert_eq!(scene.ids("t"), [1, 2, 3, 4]);
    scene.lakeward.stop().unwrap();
}

/// vlasky/zongji#17: file and position of the old primary mean something else on the promoted replica.
#[test]
fn a_promoted_replica_goes_on_where_the_primary_was() {
    if readers().is_none() {
        return;
    }
    let options = Options::default().set("log_slave_updates=ON").set("gtid_strict_mode=ON");
    let Some(mut primary) = mariadb::start_with_or_skip(&options) else { return };
    let replica = mariadb::start(&options.set("server-id=78")).unwrap();
    let mut replica_session = replica.session(None).unwrap();
    replica_session
        .run_all([
            format!(
                "CHANGE MASTER TO master_host='127.0.0.1', master_port={}, master_user='{USER}', \
                 master_password='{PASSWORD}', master_use_gtid=slave_pos",
                primary.port()
            )
            .as_str(),
            "START SLAVE",
        ])
        .unwrap();
    let setup = ["CREATE TABLE t(id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES(1,1)"];
    let mut scene = Scene::new(&primary, "failover", &setup);
    scene.start_streaming();
    scene.session.run_all(["INSERT INTO t VALUES(2,2)", "UPDATE t SET v=10 WHERE id=1"]).unwrap();
    scene.catch_up();
    scene.lakeward.stop().unwrap();

    let position = scene.session.one("SELECT @@gtid_binlog_pos").unwrap();
    eventually("the replica has everything", Duration::from_secs(30), || {
        replica_session.one("SELECT @@gtid_slave_pos").unwrap() == position
    });
    primary.kill().unwrap();
    replica_session
        .run_all(["STOP SLAVE", "RESET SLAVE ALL", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS"])
        .unwrap();
    replica_session.run("INSERT INTO failover.t VALUES(3,3)").unwrap();
    let folder = scene.lakeward.folder().to_owned();
    let pipeline = Pipeline::new("failover", &replica, r"failover.\.*", &folder);
    scene.lakeward.configure(&pipeline).unwrap();
    scene.start_streaming();
    scene.catch_up();
    scene.session = replica.session(Some("failover")).unwrap();
    scene.assert_equal();
    assert_eq!(scene.ids("t"), [1, 2, 3]);
    scene.lakeward.stop().unwrap();
}

#[test]
fn a_crash_of_the_server_is_waited_out() {
    let Some(mut server) = own_server() else { return };
    let mut scene = Scene::new(&server, "crash", &["CREATE TABLE t(id INT PRIMARY KEY)"]);
    scene.start_streaming();
    scene.session.run("INSERT INTO t VALUES(1)").unwrap();
    for id in 2..5 {
        server.kill().unwrap();
        server.start().unwrap();
        scene.session = server.session(Some("crash")).unwrap();
        scene.session.run(&format!("INSERT INTO t VALUES({id})")).unwrap();
    }
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// apache/seatunnel#11206, apache/paimon#1345: a table added to the filter lost its changes after the second restart.
#[test]
fn a_table_added_to_the_filter_is_read_once_and_then_followed() {
    let Some(server) = own_server() else { return };
    let mut scene = Scene::with(
        &server,
        "added",
        &[
            "CREATE TABLE x1(id INT PRIMARY KEY, v INT)",
            "CREATE TABLE x2(id INT PRIMARY KEY, v INT)",
            "INSERT INTO x1 VALUES(1,1)",
            "INSERT INTO x2 SELECT seq, seq FROM seq_1_to_20000",
        ],
        |p| p.set("source", "tables", "added.x1"),
    );
    scene.start_streaming();
    scene.session.run("UPDATE x1 SET v=2 WHERE id=1").unwrap();
    scene.catch_up();
    scene.lakeward.stop().unwrap();
    assert!(scene.lake().table("added", "x2").is_err());

    let folder = scene.lakeward.folder().to_owned();
    let pipeline = Pipeline::new("added", &server, "added.x1,added.x2", &folder).set(
        "source",
        "scan.newly-added-table.enabled",
        true,
    );
    scene.lakeward.configure(&pipeline).unwrap();
    scene.lakeward.start().unwrap();
    std::thread::sleep(Duration::from_millis(400));
    scene.lakeward.kill().unwrap();
    scene.start_streaming();
    scene
        .session
        .run_all(["UPDATE x2 SET v=10 WHERE id=1", "INSERT INTO x2 VALUES(20001,3)"])
        .unwrap();
    scene.catch_up();
    scene.lakeward.stop().unwrap();
    scene.lakeward.start().unwrap();
    scene.session.run("INSERT INTO x2 VALUES(20002,4)").unwrap();
    scene.lakeward.wait_streaming().unwrap();
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}
