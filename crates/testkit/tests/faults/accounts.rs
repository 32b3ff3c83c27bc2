//! Logging in: encrypted and in the clear, with the password method that MySQL 9 has alone.

use std::time::Duration;

use lakeward_testkit::lakeward::Pipeline;
use lakeward_testkit::mysql9;
use lakeward_testkit::server::Server;

use crate::scene::{Scene, readers};

const PASSWORD: &str = "Pw_67";

fn user(p: Pipeline, name: &str, password: &str) -> Pipeline {
    p.set("source", "username", name).set("source", "password", password)
}

/// surrealdb/surreal-sync#127, krowinski/php-mysql-replication#102: the server's cache of passwords is empty at first, and
/// then a password is sent over TLS or encrypted with the server's key, or not at all.
#[test]
fn mysql_passwords_over_tls_and_in_the_clear() {
    if readers().is_none() {
        return;
    }
    let Some(server) = mysql9::start_or_skip() else { return };
    let mut root = server.session(None).unwrap();
    root.run_all([
        "CREATE USER 'plain'@'%' IDENTIFIED WITH caching_sha2_password BY 'Pw_67'",
        "CREATE USER 'tls'@'%' IDENTIFIED WITH caching_sha2_password BY 'Pw_67' REQUIRE SSL",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO 'plain'@'%', 'tls'@'%'",
    ])
    .unwrap();
    let ca = server.ca_file().display().to_string();
    type Ways<'a> = [(&'static str, &'static str, &'static [(&'static str, &'a str)]); 5];
    let ways: Ways<'_> = [
        ("way1", "plain", &[("ssl.mode", "preferred")]),
        ("way2", "tls", &[("ssl.mode", "required")]),
        ("way3", "plain", &[("ssl.mode", "disabled")]),
        ("way4", "tls", &[("ssl.mode", "verify-ca")]),
        ("way5", "plain", &[("jdbc.properties.useSSL", "false")]),
    ];
    for (database, name, options) in ways {
        root.run("FLUSH PRIVILEGES").unwrap();
        let mut scene =
            Scene::with(&server, database, &["CREATE TABLE t(id INT PRIMARY KEY)"], |mut p| {
                for (key, value) in options {
                    p = p.set("source", key, *value);
                    if *value == "verify-ca" {
                        p = p.set("source", "ssl.ca", ca.as_str());
                    }
                }
                user(p, name, PASSWORD)
            });
        scene.start_streaming();
        scene.session.run("INSERT INTO t VALUES(1)").unwrap();
        scene.catch_up();
        scene.assert_equal();
        scene.lakeward.stop().unwrap();
    }
    refusals(&server);
}

fn refusals(server: &Server) {
    let setup = ["CREATE TABLE t(id INT PRIMARY KEY)"];
    let mut scene = Scene::with(server, "wrong", &setup, |p| user(p, "plain", "not it"));
    scene.lakeward.start().unwrap();
    scene.expect_loud(&["access denied", "refused", "password"]);
    assert!(!scene.lakeward.log().contains("not it"), "the password is in the log");

    let mut scene = Scene::with(server, "uncovered", &setup, |p| {
        user(p, "tls", PASSWORD).set("source", "ssl.mode", "disabled")
    });
    scene.lakeward.start().unwrap();
    scene.expect_loud(&["access denied", "ssl", "tls"]);

    // A certificate of somebody else's authority.
    let mut scene = Scene::with(server, "untrusted", &setup, |p| {
        user(p, "tls", PASSWORD).set("source", "ssl.mode", "verify-identity")
    });
    scene.lakeward.start().unwrap();
    let ended = scene.lakeward.exit_within(Duration::from_secs(60));
    let log = scene.lakeward.log().to_lowercase();
    assert!(ended.is_ok_and(|code| code != 0), "{log}");
    assert!(log.contains("certificate"), "{log}");
}
