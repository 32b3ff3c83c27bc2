//! What a pipeline tells before anybody asks: warnings and metrics.

use std::time::{Duration, Instant};

use lakeward_testkit::lakeward::Lakeward;

use crate::scene::{Scene, eventually, own_server, shared_server};

/// The value of a metric, whatever its labels.
fn metric(run: &Lakeward, name: &str) -> Option<i64> {
    let text = run.get("/metrics").ok()?;
    let line = text.lines().find(|l| l.starts_with(&format!("lakeward_{name}")))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Altinity/clickhouse-sink-connector#421, Shopify/ghostferry#289: a cascade is in no log.
#[test]
fn cascading_foreign_keys_are_warned_about() {
    let Some(server) = shared_server() else { return };
    let mut scene = Scene::new(
        server,
        "cascading",
        &[
            "CREATE TABLE par(id INT PRIMARY KEY)",
            "CREATE TABLE chi(id INT PRIMARY KEY, pid INT, FOREIGN KEY(pid) REFERENCES par(id) ON DELETE CASCADE)",
            "INSERT INTO par VALUES(1),(2)",
            "INSERT INTO chi VALUES(10,1),(11,1),(12,2)",
        ],
    );
    scene.start_streaming();
    let log = scene.lakeward.log().to_lowercase();
    assert!(log.contains("cascad") && log.contains("chi"), "no warning: {log}");
    assert_eq!(metric(&scene.lakeward, "source_cascade_tables"), Some(1));
    scene.lakeward.stop().unwrap();
}

/// Altinity/clickhouse-sink-connector#605: the lag grew for ever while the watched tables were idle.
#[test]
fn lag_is_small_while_idle_and_a_lost_server_is_no_lag_of_zero() {
    let Some(mut server) = own_server() else { return };
    let mut scene = Scene::with(
        &server,
        "idle",
        &[
            "CREATE TABLE quiet(id INT PRIMARY KEY)",
            "CREATE TABLE noise(id INT AUTO_INCREMENT PRIMARY KEY)",
        ],
        |p| p.set("source", "tables", "idle.quiet").set("source", "heartbeat.interval", "1s"),
    );
    scene.start_streaming();
    let end = Instant::now() + Duration::from_secs(15);
    while Instant::now() < end {
        scene.session.run("INSERT INTO noise VALUES(),(),()").unwrap();
        let lag = metric(&scene.lakeward, "lag_ms").unwrap_or(0);
        assert!(lag < 5_000, "{lag} ms behind nothing");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(metric(&scene.lakeward, "source_connected"), Some(1));
    server.stop().unwrap();
    eventually("the metric shows the lost connection", Duration::from_secs(30), || {
        metric(&scene.lakeward, "source_connected") == Some(0)
    });
    server.start().unwrap();
    eventually("the connection is back", Duration::from_secs(60), || {
        metric(&scene.lakeward, "source_connected") == Some(1)
    });
    scene.lakeward.kill().unwrap();
}
