//! Connections that break, and two clients that want to be the same replica.

use std::time::Duration;

use lakeward_testkit::case_run::Random;
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::proxy::Proxy;

use crate::scene::{Scene, shared_server};

/// shyiko/mysql-binlog-connector-java#95, PeerDB-io/peerdb#3681.
#[test]
fn cut_connections_lose_and_double_nothing() {
    let Some(server) = shared_server() else { return };
    let proxy = Proxy::start(server.port()).unwrap();
    let mut scene =
        Scene::with(server, "cuts", &["CREATE TABLE t(id INT PRIMARY KEY, s VARCHAR(100))"], |p| {
            p.set("source", "port", proxy.port()).set("source", "heartbeat.interval", "1s")
        });
    scene.start_streaming();
    let session = &mut scene.session;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new("cuts");
            for i in 0..10 {
                std::thread::sleep(Duration::from_millis(300) + random.up_to_ms(900));
                match i % 4 {
                    0 => proxy.cut(),
                    1 => proxy.reset(),
                    2 => proxy.reset_after(random.below(60_000)),
                    _ => {
                        proxy.black_hole(true);
                        std::thread::sleep(Duration::from_secs(5));
                        proxy.black_hole(false);
                    }
                }
            }
        });
        for i in 0..100 {
            let (from, to) = (i * 100 + 1, i * 100 + 100);
            session
                .run(&format!("INSERT INTO t SELECT seq, REPEAT('x',90) FROM seq_{from}_to_{to}"))
                .unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    scene.catch_up();
    assert!(proxy.accepted() > 5, "the connections were never made again");
    scene.assert_equal();
    assert_eq!(scene.ids("t").len(), 10_000);
    scene.lakeward.stop().unwrap();
}

/// The half-open connection that nobody closes: only a heartbeat that stays away tells.
#[test]
fn a_silent_connection_is_given_up() {
    let Some(server) = shared_server() else { return };
    let proxy = Proxy::start(server.port()).unwrap();
    let mut scene = Scene::with(server, "silent", &["CREATE TABLE t(id INT PRIMARY KEY)"], |p| {
        p.set("source", "port", proxy.port()).set("source", "heartbeat.interval", "1s").set(
            "source",
            "connect.timeout",
            "3s",
        )
    });
    scene.start_streaming();
    let before = proxy.accepted();
    proxy.black_hole(true);
    scene.session.run("INSERT INTO t VALUES(1)").unwrap();
    crate::scene::eventually("a new connection is tried", Duration::from_secs(60), || {
        proxy.accepted() > before
    });
    proxy.black_hole(false);
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// apache/seatunnel#3731, zendesk/maxwell#942: two replicas of one id threw each other out for ever.
#[test]
fn two_pipelines_of_one_server_id_do_not_fight() {
    let Some(server) = shared_server() else { return };
    let id = |p: Pipeline| p.set("source", "server-id", "5401");
    let mut scene = Scene::with(server, "same_id", &["CREATE TABLE t(id INT PRIMARY KEY)"], id);
    scene.start_streaming();
    let mut second = Lakeward::in_temporary_folder(|folder| {
        id(Pipeline::new("same_id_2", server, r"same_id.\.*", folder))
    })
    .unwrap();
    second.start().unwrap();
    for i in 0..100 {
        scene.session.run(&format!("INSERT INTO t VALUES({i})")).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    // Whichever is thrown out says so and ends; the other one has lost nothing.
    let ended = |run: &mut Lakeward| {
        if run.is_running() {
            return false;
        }
        let log = run.log().to_lowercase();
        assert!(log.contains("server-id") || log.contains("server id"), "{}", run.tail(6));
        true
    };
    let (first_ended, second_ended) = (ended(&mut scene.lakeward), ended(&mut second));
    assert!(!(first_ended && second_ended), "both have ended");
    if first_ended {
        scene.lakeward.kill().unwrap();
        second.wait_caught_up().unwrap();
        second.stop().unwrap();
        scene.lakeward.start().unwrap();
    } else {
        if !second_ended {
            second.wait_caught_up().unwrap();
        }
        second.kill().unwrap();
    }
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}
