//! Clients that are not ours: curl, requests, PyMySQL, and Flink with Doris' own connector.

use std::io::Write;
use std::process::{Command, Stdio};

use lakeward_testkit::doris::{DorisServer, Fault, Moment, Settings};
use lakeward_testkit::process::find_program;
use lakeward_testkit::require::or_skip;
use lakeward_testkit::{cache, flink_doris, venv};
use serde_json::Value as Json;

use super::client::Client;

/// With `--location-trusted`, as Doris' manual has it, and a body that a frontend must not be sent.
#[test]
fn curl_loads_through_the_redirect() {
    let found = find_program("curl").ok_or_else(|| anyhow::anyhow!("there is no curl"));
    let Some(curl) = or_skip("curl", found) else { return };
    let settings = Settings { password: "p@ss:w%".into(), ..Settings::default() };
    let server = match std::env::var(lakeward_testkit::doris::URL) {
        Ok(_) => DorisServer::start(),
        Err(_) => DorisServer::stand_in_with(settings),
    };
    let mut client = Client::with(server.unwrap(), "curl").unwrap();
    client
        .sql
        .run(
            "CREATE TABLE t (id INT NOT NULL, v VARCHAR(200)) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) \
             PROPERTIES (\"replication_num\" = \"1\")",
        )
        .unwrap();
    let rows = 50_000;
    let filler = "x".repeat(100);
    let body: String = (0..rows).map(|id| format!("{id},{filler}\n")).collect();
    let fenodes = client.server.fenodes();
    let frontend = fenodes.split(',').next().unwrap();
    let mut child = Command::new(curl)
        .args(["-s", "-S", "--location-trusted", "-T", "-"])
        .args(["-u", &format!("{}:{}", client.server.user(), client.server.password())])
        .args(["-H", "Expect: 100-continue", "-H", "column_separator:,", "-H", "label:by_curl"])
        .arg(format!("http://{frontend}/api/{}/t/_stream_load", client.database))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let answer: Json = serde_json::from_slice(&done.stdout).expect("an answer in JSON");
    assert_eq!(answer["Status"], "Success", "{answer}");
    assert_eq!(answer["NumberLoadedRows"], rows, "{answer}");
    assert_eq!(client.text("SELECT count(*), max(id) FROM t"), [format!("{rows}|{}", rows - 1)]);
}

#[test]
fn python_loads_and_reads() {
    let Some(python) = or_skip(venv::NAME, venv::find()) else { return };
    let server = DorisServer::start().unwrap();
    let (host, port) = server.mysql_address();
    let fenodes = server.fenodes();
    let done = Command::new(python)
        .arg(cache::workspace().join("crates/testkit/python/doris_clients.py"))
        .arg(fenodes.split(',').next().unwrap())
        .args([host, port.to_string(), server.user(), server.password(), "lakeward_python".into()])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Two-phase commit with a failure and a restore: the connector finds its labels taken, aborts what was left behind, and
/// commits what was already committed once more.
#[test]
fn flink_writes_each_change_once() {
    if or_skip(flink_doris::NAME, flink_doris::find()).is_none() {
        return;
    }
    let mut client = Client::start("flink").unwrap();
    client
        .sql
        .run(
            "CREATE TABLE t (id INT NOT NULL, v VARCHAR(20)) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) \
             PROPERTIES (\"replication_num\" = \"1\", \"light_schema_change\" = \"true\")",
        )
        .unwrap();
    if let Some(stand_in) = client.server.stand_in() {
        // A commit whose answer is lost is asked again.
        stand_in.fail(Moment::Commit, Fault::LoseAnswer, 1);
    }
    let rounds = 200;
    flink_doris::run(&[
        &client.server.fenodes(),
        &client.server.user(),
        &client.server.password(),
        &format!("{}.t", client.database),
        &(rounds * 100).to_string(),
    ])
    .unwrap_or_else(|e| panic!("{e:#}"));
    let expected: Vec<String> =
        (0..100).filter(|id| id % 10 != 9).map(|id| format!("{id}|ü{id}|{}", rounds - 1)).collect();
    assert_eq!(client.text("SELECT id, v, round FROM t ORDER BY id"), expected);
    if let Some(stand_in) = client.server.stand_in() {
        assert_eq!(stand_in.pending_faults(), 0, "no commit was made");
        let left: Vec<_> = stand_in
            .transactions("lakeward_flink")
            .into_iter()
            .filter(|(_, _, state)| !["VISIBLE", "ABORTED"].contains(state))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
