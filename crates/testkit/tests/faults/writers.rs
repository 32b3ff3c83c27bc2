//! Other writers of the lake, lost state, and a second run.

use std::time::Duration;

use crate::scene::{Scene, shared_server};

/// apache/iceberg#6104: a commit that came in between stopped the stream, or undid its deletes.
#[test]
fn a_foreign_writer_may_replace_the_files_all_the_time() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::new(
        server,
        "rewritten",
        &[
            "CREATE TABLE t(id INT PRIMARY KEY, v INT)",
            "INSERT INTO t SELECT seq, 0 FROM seq_1_to_200",
        ],
    );
    scene.start_streaming();
    scene.catch_up();
    let lake = scene.lake();
    let session = &mut scene.session;
    std::thread::scope(|scope| {
        let foreign = scope.spawn(|| (0..20).try_for_each(|_| lake.rewrite("rewritten.t")));
        for i in 0..100 {
            let (id, gone) = (i % 50 + 1, i + 101);
            session.run(&format!("UPDATE t SET v=v+1 WHERE id={id}")).unwrap();
            session.run(&format!("DELETE FROM t WHERE id={gone}")).unwrap();
            session.run(&format!("INSERT INTO t VALUES({}, {i})", i + 1000)).unwrap();
            std::thread::sleep(Duration::from_millis(60));
        }
        foreign.join().unwrap().unwrap();
    });
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// apache/iceberg#18098: without its state the job took every new commit for one that it had done.
#[test]
fn a_lost_state_is_said_and_a_new_snapshot_is_the_way_on() {
    let Some(server) = shared_server() else { return };
    let setup = ["CREATE TABLE t(id INT PRIMARY KEY)", "INSERT INTO t VALUES(1)"];
    let mut scene = Scene::new(server, "stateless", &setup);
    scene.start_streaming();
    for id in 2..12 {
        scene.session.run(&format!("INSERT INTO t VALUES({id})")).unwrap();
        scene.catch_up();
    }
    scene.lakeward.stop().unwrap();
    std::fs::remove_dir_all(scene.lakeward.folder().join("state")).unwrap();
    scene.session.run("INSERT INTO t VALUES(100)").unwrap();

    scene.lakeward.start().unwrap();
    scene.expect_loud(&["resnapshot"]);
    scene.lakeward.start_with(&["--resnapshot"]).unwrap();
    scene.lakeward.wait_streaming().unwrap();
    scene.session.run("INSERT INTO t VALUES(101)").unwrap();
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// apache/iceberg#5846: with the snapshots went the mark of what was committed, and files were committed twice.
#[test]
fn expired_snapshots_take_no_progress_with_them() {
    let Some(server) = shared_server() else { return };
    let setup = ["CREATE TABLE t(id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES(1,0),(2,0)"];
    let mut scene = Scene::new(server, "expired", &setup);
    scene.start_streaming();
    for v in 1..6 {
        scene.session.run(&format!("UPDATE t SET v={v}")).unwrap();
        scene.session.run(&format!("INSERT INTO t VALUES({v}+10,0)")).unwrap();
        scene.catch_up();
    }
    // Killed, so that the restart has something to decide.
    scene.lakeward.kill().unwrap();
    let lake = scene.lake();
    for _ in 0..2 {
        lake.rewrite("expired.t").unwrap();
    }
    lake.expire("expired.t", 2).unwrap();
    scene.session.run("DELETE FROM t WHERE id=2").unwrap();
    scene.start_streaming();
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

#[test]
fn a_second_run_of_one_pipeline_is_refused() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::new(server, "twice", &["CREATE TABLE t(id INT PRIMARY KEY)"]);
    scene.start_streaming();
    let (code, said) = scene.lakeward.command(&["run", "pipeline.yaml"]).unwrap();
    assert_ne!(code, 0, "{said}");
    scene.session.run("INSERT INTO t VALUES(1)").unwrap();
    scene.catch_up();
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
}

/// spiceai/spiceai#12586: the sink stalled, the reader left the socket unread, and the server cut it.
#[test]
fn a_stalled_catalog_is_waited_out() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::new(server, "stalled", &["CREATE TABLE t(id INT PRIMARY KEY, s TEXT)"]);
    scene.session.run("SET GLOBAL net_write_timeout=5").unwrap();
    scene.start_streaming();
    let lake = scene.lake();
    std::thread::scope(|scope| {
        let lock = scope.spawn(|| lake.lock(20));
        scene
            .session
            .run("INSERT INTO t SELECT seq, REPEAT('z',4000) FROM seq_1_to_50000")
            .unwrap();
        lock.join().unwrap().unwrap();
    });
    scene.catch_up();
    let peak = scene.lakeward.process().unwrap().peak_memory_bytes().unwrap() >> 20;
    assert!(peak < 600, "{peak} MB");
    scene.assert_equal();
    scene.lakeward.stop().unwrap();
    scene.session.run("SET GLOBAL net_write_timeout=60").unwrap();
}
