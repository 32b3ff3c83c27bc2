//! What networks and servers do: cuts, resets, silence, failover, clashes of ids, logs that are gone.

mod support;

use std::time::{Duration, Instant};

use lakeward_core::{ErrorKind, Source, State};
use lakeward_testkit::proxy::Proxy;
use lakeward_testkit::server::{Options, Server};
use lakeward_testkit::{mariadb, mysql9};
use support::{Harness, eventually, truth};

fn two_tables(server: &Server) {
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(300))").unwrap();
    // Without a key a row that comes twice is there twice.
    sql.run("CREATE TABLE d.n (id INT, v VARCHAR(300))").unwrap();
}

#[test]
fn cuts_resets_and_silence_lose_and_double_nothing() {
    let Some(server) = mariadb::start_or_skip() else { return };
    two_tables(&server);
    let proxy = Proxy::start(server.port()).unwrap();
    let mut h = Harness::new(&server, r"d.\.*");
    h.set("port", &proxy.port().to_string());
    h.open();
    h.catch_up();
    let mut sql = server.session(Some("d")).unwrap();
    for round in 0..10u64 {
        for i in 0..10u64 {
            let first = (round * 10 + i) * 100;
            // One transaction in ten is larger than what is held back, so that it is cut after rows of it went out.
            let text = if i == 5 { "REPEAT('x', 290)" } else { "'y'" };
            let n = if i == 5 { 8_000 } else { 100 };
            sql.run("BEGIN").unwrap();
            sql.run(&format!("INSERT INTO n SELECT seq + {first}, {text} FROM seq_1_to_{n}"))
                .unwrap();
            sql.run(&format!("INSERT INTO t SELECT seq + {first}, 'z' FROM seq_1_to_100")).unwrap();
            sql.run("COMMIT").unwrap();
        }
        match round {
            0 | 4 => proxy.cut(),
            1 | 5 => proxy.reset(),
            2 => proxy.reset_after(700),
            6 => proxy.reset_after(1_500_000),
            7 => proxy.reset_after(1_900_123),
            8 => proxy.reset_after(61_001),
            3 => {
                proxy.black_hole(true);
                h.run_for(Duration::from_secs(10)).unwrap();
                assert_eq!(h.gauge("source_connected"), 0, "silence is noticed");
                proxy.black_hole(false);
                proxy.cut();
            }
            _ => {
                proxy.refuse(true);
                proxy.cut();
                h.run_for(Duration::from_millis(700)).unwrap();
                proxy.refuse(false);
            }
        }
        h.run_for(Duration::from_millis(300)).unwrap();
    }
    h.set("port", &server.port().to_string());
    h.catch_up();
    assert_eq!(h.model.tables["d.t"].rows.len(), 10_000);
    assert_eq!(h.model.tables["d.n"].rows.len(), 10 * (9 * 100 + 8_000));
    assert_eq!(h.model.rows("d.t", &["id", "v"]), truth(&server, "SELECT id, v FROM d.t"));
    assert!(h.metrics.counter("source_reconnects_total").get() >= 7);
    assert!(h.metrics.counter("source_transactions_resumed_total").get() >= 1);
    assert_eq!(h.gauge("source_connected"), 1);
}

#[test]
fn cut_again_and_again_inside_one_transaction() {
    let Some(server) = mariadb::start_or_skip() else { return };
    two_tables(&server);
    let proxy = Proxy::start(server.port()).unwrap();
    let mut h = Harness::new(&server, "d.n");
    h.set("port", &proxy.port().to_string());
    h.open();
    h.catch_up();
    // Each cut comes earlier in the transaction than the one before: what is read a second time is cut before it gets
    // to where rows are new.
    proxy.reset_after_each(&[2_600_000, 2_000_000, 1_400_000, 300_000, 2_900_000]);
    let mut sql = server.session(Some("d")).unwrap();
    sql.run("INSERT INTO n SELECT seq, REPEAT('x', 290) FROM seq_1_to_12000").unwrap();
    eventually(|| {
        h.run_for(Duration::from_millis(100)).unwrap();
        proxy.resets_left() == 0
    });
    h.catch_up();
    assert_eq!(h.model.tables["d.n"].rows.len(), 12_000);
    assert!(h.metrics.counter("source_transactions_resumed_total").get() >= 3);
}

#[test]
fn a_table_read_whole_starts_over_after_each_cut() {
    let Some(server) = mariadb::start_or_skip() else { return };
    two_tables(&server);
    let mut sql = server.session(Some("d")).unwrap();
    sql.run("INSERT INTO n SELECT seq, REPEAT('x', 290) FROM seq_1_to_40000").unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let mut h = Harness::new(&server, "d.n");
    h.set("port", &proxy.port().to_string());
    proxy.reset_after_each(&[6_000_000, 5_000_000, 4_000_000]);
    h.open();
    h.catch_up();
    assert_eq!(proxy.resets_left(), 0);
    assert_eq!(h.model.resets["d.n"], 3);
    assert_eq!(h.model.tables["d.n"].rows.len(), 40_000);
}

#[test]
fn a_table_that_is_gone_before_it_was_read_ends_in_the_sink_too() {
    let Some(server) = mariadb::start_or_skip() else { return };
    two_tables(&server);
    let mut h = Harness::new(&server, r"d.\.*");
    h.open();
    // Before anything was emitted: all that the next attempt knows.
    h.checkpoint();
    h.catch_up();
    assert!(h.model.tables.contains_key("d.n"), "an attempt after the checkpoint makes the table");
    h.crash();
    let mut sql = server.session(Some("d")).unwrap();
    sql.run("DROP TABLE n").unwrap();
    h.open();
    h.catch_up();
    let of_n: Vec<_> = h.model.events.iter().filter(|(t, _)| t == "d.n").collect();
    assert_eq!(of_n, [&("d.n".to_string(), vec!["drop.table"])]);
}

#[test]
fn a_stalled_reader_survives_and_a_stopped_server_shows() {
    let Some(mut server) = mariadb::start_or_skip() else { return };
    two_tables(&server);
    let mut sql = server.session(Some("d")).unwrap();
    sql.run("SET GLOBAL net_write_timeout=2").unwrap();
    let mut h = Harness::new(&server, "d.n");
    h.open();
    h.catch_up();
    sql.run("INSERT INTO n SELECT seq, REPEAT('z', 290) FROM seq_1_to_200000").unwrap();
    // The sink stands still for longer than the server would wait by itself.
    std::thread::sleep(Duration::from_secs(6));
    h.catch_up();
    assert_eq!(h.model.tables["d.n"].rows.len(), 200_000);
    assert!(h.model.largest_batch <= 32_768, "{}", h.model.largest_batch);
    // Only other tables change: the position follows, and nothing lags.
    for i in 0..20 {
        sql.run(&format!("INSERT INTO t VALUES ({i}, 'noise')")).unwrap();
        h.run_for(Duration::from_millis(60)).unwrap();
        assert!(h.gauge("source_lag_ms") < 5_000);
    }
    h.catch_up();
    drop(sql);
    server.stop().unwrap();
    h.run_for(Duration::from_millis(1_500)).unwrap();
    assert_eq!(h.gauge("source_connected"), 0);
    let lag = h.gauge("source_lag_ms");
    h.run_for(Duration::from_millis(700)).unwrap();
    assert!(h.gauge("source_lag_ms") > lag, "the lag is not 0 while nothing is known");
    server.start().unwrap();
    let mut sql = server.session(Some("d")).unwrap();
    sql.run("INSERT INTO n VALUES (-1, 'after')").unwrap();
    h.catch_up();
    assert_eq!(h.model.tables["d.n"].rows.len(), 200_001);
}

#[test]
fn a_promoted_replica_is_read_on_by_gtid() {
    let Some(primary) = mariadb::start_or_skip() else { return };
    let options = Options::default().set("server-id=78").set("log_slave_updates=ON");
    let Some(replica) = mariadb::start_with_or_skip(&options) else { return };
    let mut on_replica = replica.session(None).unwrap();
    on_replica
        .run(&format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='{}', MASTER_PASSWORD='{}', \
             MASTER_USE_GTID=slave_pos",
            primary.port(),
            lakeward_testkit::server::USER,
            lakeward_testkit::server::PASSWORD
        ))
        .unwrap();
    on_replica.run("START SLAVE").unwrap();
    two_tables(&primary);
    let mut sql = primary.session(Some("d")).unwrap();
    sql.run("INSERT INTO t VALUES (1,'1')").unwrap();
    let mut h = Harness::new(&primary, r"d.\.*");
    h.open();
    h.catch_up();
    sql.run("INSERT INTO t VALUES (2,'2')").unwrap();
    sql.run("UPDATE t SET v='10' WHERE id=1").unwrap();
    sql.run("INSERT INTO n VALUES (1,'a'),(1,'a')").unwrap();
    h.catch_up();
    h.checkpoint();
    h.crash();
    eventually(|| {
        on_replica.one("SELECT COUNT(*) FROM d.n").is_ok_and(|n| n.as_deref() == Some("2"))
    });
    on_replica.run("STOP SLAVE").unwrap();
    for _ in 0..3 {
        on_replica.run("FLUSH BINARY LOGS").unwrap();
    }
    on_replica.run("INSERT INTO d.t VALUES (3,'3')").unwrap();
    on_replica.run("ALTER TABLE d.t ADD COLUMN w INT DEFAULT 5").unwrap();
    on_replica.run("INSERT INTO d.n VALUES (7,'b')").unwrap();
    h.port = replica.port();
    h.open();
    h.catch_up();
    assert_eq!(h.model.rows("d.t", &["id", "v", "w"]), truth(&replica, "SELECT id, v, w FROM d.t"));
    assert_eq!(h.model.rows("d.n", &["id", "v"]), truth(&replica, "SELECT id, v FROM d.n"));
    assert!(h.model.resets.is_empty());
    h.checkpoint();
    h.restart();
    on_replica.run("INSERT INTO d.t VALUES (4,'4',4)").unwrap();
    h.catch_up();
    assert_eq!(h.model.rows("d.t", &["id", "v", "w"]), truth(&replica, "SELECT id, v, w FROM d.t"));

    // A position alone means nothing on another server.
    h.crash();
    let (state, model) = h.saved.take().unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&state.bytes).unwrap();
    json["offset"].as_object_mut().unwrap().remove("gtids");
    let bytes = serde_json::to_vec(&json).unwrap();
    h.saved = Some((State { version: state.version, bytes }, model));
    h.port = primary.port();
    h.open();
    let e = h.expect_error(Duration::from_secs(20));
    assert_eq!(e.kind(), ErrorKind::OffsetLost, "{e}");
    assert!(e.to_string().contains("another server"), "{e}");
}

#[test]
fn one_server_id_for_two_pipelines_is_found_out() {
    let Some(server) = mariadb::start_or_skip() else { return };
    two_tables(&server);
    let mut sql = server.session(Some("d")).unwrap();
    let mut first = Harness::new(&server, "d.t").option("server-id", "5401");
    first.pipeline = "first".into();
    first.open();
    first.catch_up();
    let mut second = Harness::new(&server, "d.t, d.n").option("server-id", "5401");
    second.pipeline = "second".into();
    second.open();
    let e = second.expect_error(Duration::from_secs(20));
    assert_eq!(e.kind(), ErrorKind::Config, "{e}");
    assert!(e.to_string().contains("5401") && e.to_string().contains("lakeward/first"), "{e}");
    second.crash();
    second.set("server-id", "5401-5404");
    second.open();
    for i in 0..100 {
        sql.run(&format!("INSERT INTO t VALUES ({i}, 'x')")).unwrap();
        first.step().unwrap();
        second.step().unwrap();
    }
    first.catch_up();
    second.catch_up();
    for h in [&first, &second] {
        assert_eq!(h.model.tables["d.t"].rows.len(), 100);
    }
}

#[test]
fn where_reading_starts() {
    let Some(server) = mariadb::start_or_skip() else { return };
    two_tables(&server);
    let mut sql = server.session(Some("d")).unwrap();
    sql.run("INSERT INTO t VALUES (1,'1')").unwrap();
    sql.run("FLUSH BINARY LOGS").unwrap();
    let place = sql.rows("SHOW MASTER STATUS").unwrap().remove(0);
    sql.run("INSERT INTO t VALUES (2,'2')").unwrap();
    let read = |mode: &str, options: &[(&str, &str)], live: Option<&str>| {
        let mut h = Harness::new(&server, "d.t").option("scan.startup.mode", mode);
        options.iter().for_each(|(k, v)| h.set(k, v));
        h.open();
        h.catch_up();
        if let Some(live) = live {
            server.session(Some("d")).unwrap().run(live).unwrap();
            h.catch_up();
        }
        let ids = h.model.rows("d.t", &["id"]);
        ids.into_iter().flatten().flatten().collect::<Vec<_>>()
    };
    assert_eq!(read("earliest-offset", &[], None), ["1", "2"]);
    let (file, pos) = (place[0].clone().unwrap(), place[1].clone().unwrap());
    let specific = [
        ("scan.startup.specific-offset.file", file.as_str()),
        ("scan.startup.specific-offset.pos", pos.as_str()),
    ];
    assert_eq!(read("specific-offset", &specific, None), ["2"]);
    assert_eq!(read("latest-offset", &[], Some("INSERT INTO t VALUES (3,'3')")), ["3"]);
    let later = Instant::now() + Duration::from_millis(1_100);
    while Instant::now() < later {
        std::thread::sleep(Duration::from_millis(50));
    }
    let now = sql.one("SELECT UNIX_TIMESTAMP() * 1000").unwrap().unwrap();
    sql.run("INSERT INTO t VALUES (4,'4')").unwrap();
    assert_eq!(read("timestamp", &[("scan.startup.timestamp-millis", &now)], None), ["4"]);
    assert_eq!(read("initial", &[], None).len(), 4);
}

#[test]
fn certificates_are_believed_as_far_as_asked() {
    let Some(server) = mariadb::start_with_or_skip(&Options::default().tls()) else { return };
    two_tables(&server);
    let ca = server.ca_file().display().to_string();
    let check = |options: &[(&str, &str)]| {
        let mut h = Harness::new(&server, "d.t");
        options.iter().for_each(|(k, v)| h.set(k, v));
        h.source().and_then(|source| h.runtime.block_on(source.check()))
    };
    for mode in ["preferred", "required"] {
        let found = check(&[("ssl.mode", mode)]).unwrap();
        assert!(found.server.contains("(encrypted)"), "{}", found.server);
    }
    assert!(check(&[("ssl.mode", "disabled")]).unwrap().server.contains("(not encrypted)"));
    assert!(check(&[("ssl.ca", &ca)]).unwrap().server.contains("(encrypted)"));
    assert!(check(&[("ssl.ca", &ca), ("hostname", "localhost")]).is_ok());
    assert!(check(&[("ssl.ca", &ca), ("ssl.mode", "verify-ca")]).is_ok());
    for mode in ["verify-ca", "verify-identity"] {
        let e = check(&[("ssl.mode", mode)]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config, "{e}");
    }
    let e = check(&[("password", "wrong")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Config, "{e}");
    assert!(e.to_string().contains("1045") && !e.to_string().contains("wrong"), "{e}");
}

#[test]
fn mysqls_login_works_with_an_empty_cache() {
    let Some(server) = mysql9::start_or_skip() else { return };
    two_tables(&server);
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE USER 'rep67'@'%' IDENTIFIED WITH caching_sha2_password BY 'Pw_67'").unwrap();
    sql.run("GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO 'rep67'@'%'").unwrap();
    sql.run("CREATE USER 'secure'@'%' IDENTIFIED BY 'Pw_67' REQUIRE SSL").unwrap();
    let mut check = |user: &str, password: &str, mode: &str| {
        sql.run("FLUSH PRIVILEGES").unwrap();
        let mut h = Harness::new(&server, "d.t");
        h.set("username", user);
        h.set("password", password);
        h.set("ssl.mode", mode);
        h.source().and_then(|source| h.runtime.block_on(source.check()))
    };
    for mode in ["preferred", "required", "disabled"] {
        let found = check("rep67", "Pw_67", mode).unwrap();
        assert!(found.errors.is_empty(), "{:?}", found.errors);
    }
    let e = check("rep67", "wrong", "disabled").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Config, "{e}");
    let e = check("secure", "Pw_67", "disabled").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Config, "{e}");
}
