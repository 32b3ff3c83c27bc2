//! What a test can make go wrong. On the stand-in only.

use std::time::Duration;

use lakeward_testkit::doris::{DorisServer, Fault, Moment, Settings, StandIn};

use super::client::Client;

const COMMA: (&str, &str) = ("column_separator", ",");

fn client(database: &str, settings: Settings) -> Client {
    let server = DorisServer::stand_in_with(settings).unwrap();
    let mut client = Client::with(server, database).unwrap();
    client
        .sql
        .run(
            "CREATE TABLE t (id INT NOT NULL, v VARCHAR(9)) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) \
             PROPERTIES (\"replication_num\" = \"1\")",
        )
        .unwrap();
    client
}

fn stand_in(client: &mut Client) -> &mut StandIn {
    client.server.stand_in().expect("this is the stand-in")
}

fn phase(client: &Client, id: i64, operation: &str) -> anyhow::Result<serde_json::Value> {
    client.second_phase(&[("txn_id", &id.to_string()), ("txn_operation", operation)])
}

#[test]
fn answers_are_lost_after_the_work_is_done() {
    let mut client = client("lost", Settings::default());
    stand_in(&mut client).fail(Moment::Load, Fault::LoseAnswer, 1);
    let headers = [COMMA, ("label", "a"), ("two_phase_commit", "true")];
    assert!(client.load("t", &headers, "1,a\n").is_err(), "the answer should be lost");
    assert_eq!(client.label_state("a").unwrap(), "PRECOMMITTED");
    let (_, id, _) = stand_in(&mut client).transactions("lakeward_lost")[0].clone();
    stand_in(&mut client).fail(Moment::Commit, Fault::LoseAnswer, 1);
    assert!(phase(&client, id, "commit").is_err());
    assert_eq!(client.text("SELECT * FROM t"), ["1|a"]);
    stand_in(&mut client).fail(Moment::Commit, Fault::Cut, 1);
    let id = client.precommit("t", "b", "2,b\n").unwrap();
    assert!(phase(&client, id, "commit").is_err());
    assert_eq!(client.text("SELECT * FROM t"), ["1|a"], "a cut comes before the work");
    assert_eq!(phase(&client, id, "commit").unwrap()["status"], "Success");
    // A load that is cut is aborted.
    stand_in(&mut client).fail(Moment::Load, Fault::Cut, 1);
    assert!(client.load("t", &[COMMA, ("label", "c")], "3,c\n").is_err());
    assert_eq!(client.label_state("c").unwrap(), "ABORTED");
}

#[test]
fn loads_and_commits_are_refused_or_late() {
    let mut client = client("refuse", Settings::default());
    stand_in(&mut client).fail_table(Moment::Load, "t", Fault::TooManyVersions, 2);
    for _ in 0..2 {
        let answer = client.load("t", &[COMMA, ("label", "a")], "1,a\n").unwrap();
        assert_eq!(answer["Status"], "Fail");
        assert!(answer["Message"].as_str().unwrap().contains("-235"), "{answer}");
    }
    assert_eq!(client.load("t", &[COMMA, ("label", "a")], "1,a\n").unwrap()["Status"], "Success");
    let id = client.precommit("t", "b", "2,b\n").unwrap();
    stand_in(&mut client).fail(Moment::Commit, Fault::Refuse("not now".into()), 1);
    assert_eq!(phase(&client, id, "commit").unwrap()["msg"], "not now");
    stand_in(&mut client).fail(Moment::Commit, Fault::HttpStatus(503), 1);
    assert!(format!("{:#}", phase(&client, id, "commit").unwrap_err()).contains("503"));
    stand_in(&mut client).fail(Moment::Commit, Fault::Delay(Duration::from_millis(300)), 1);
    let begun = std::time::Instant::now();
    assert_eq!(phase(&client, id, "commit").unwrap()["status"], "Success");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(stand_in(&mut client).pending_faults(), 0);
}

#[test]
fn a_transaction_expires() {
    let mut client = client("expiry", Settings::default());
    let id = client.precommit("t", "a", "1,a\n").unwrap();
    stand_in(&mut client).expire_transactions();
    let late = phase(&client, id, "commit").unwrap();
    let message = late["msg"].as_str().unwrap();
    assert!(
        message.contains("is already aborted. abort reason: timeout by txn manager"),
        "{message}"
    );
    // By its own time, too.
    stand_in(&mut client)
        .set_transaction_timeouts(Duration::from_millis(1), Duration::from_millis(1));
    client.precommit("t", "b", "1,a\n").unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while client.label_state("b").unwrap() != "ABORTED" {
        assert!(std::time::Instant::now() < end);
    }
}

#[test]
fn rows_are_visible_later() {
    let mut client = client("publish", Settings::default());
    stand_in(&mut client).fail(Moment::Load, Fault::PublishTimeout, 1);
    let answer = client.load("t", &[COMMA, ("label", "a")], "1,a\n").unwrap();
    assert_eq!(answer["Status"], "Publish Timeout", "{answer}");
    assert_eq!(client.label_state("a").unwrap(), "COMMITTED");
    assert!(client.rows("SELECT * FROM t").is_empty());
    let taken = client.load("t", &[COMMA, ("label", "a")], "1,a\n").unwrap();
    assert_eq!(taken["ExistingJobStatus"], "FINISHED");
    stand_in(&mut client).publish_pending();
    assert_eq!(client.text("SELECT * FROM t"), ["1|a"]);
    // A later commit of the table takes the earlier one along.
    stand_in(&mut client).fail(Moment::Commit, Fault::PublishTimeout, 1);
    let first = client.precommit("t", "b", "1,b\n").unwrap();
    phase(&client, first, "commit").unwrap();
    client.load("t", &[COMMA], "1,c\n").unwrap();
    assert_eq!(client.text("SELECT * FROM t"), ["1|c"]);
    assert_eq!(client.label_state("b").unwrap(), "VISIBLE");
}

#[test]
fn nodes_go_and_come_back() {
    let mut client = client("nodes", Settings { frontends: 2, backends: 2, ..Settings::default() });
    let nodes: Vec<String> = client.server.fenodes().split(',').map(str::to_owned).collect();
    client.load("t", &[COMMA], "1,a\n").unwrap();
    client.load("t", &[COMMA], "2,b\n").unwrap();
    let received = stand_in(&mut client).received();
    let loads =
        |node: &str| received.iter().filter(|r| r.node == node && r.method == "PUT").count();
    assert_eq!((loads("fe0"), loads("be0"), loads("be1")), (2, 1, 1), "round robin");
    // A backend that is gone, first unnoticed.
    stand_in(&mut client).stop_backend(0, false);
    let outcomes: Vec<bool> = (0..4).map(|_| client.load("t", &[COMMA], "3,c\n").is_ok()).collect();
    assert_eq!(outcomes.iter().filter(|done| **done).count(), 2, "{outcomes:?}");
    stand_in(&mut client).start_backend(0).unwrap();
    stand_in(&mut client).stop_backend(1, true);
    (0..3).for_each(|_| assert!(client.load("t", &[COMMA], "4,d\n").is_ok()));
    // The other frontend has the same state.
    stand_in(&mut client).stop_frontend(0);
    assert!(client.load("t", &[COMMA], "5,e\n").is_err());
    assert!(client.sql.rows("SELECT 1").is_err(), "sessions end with their frontend");
    assert!(std::net::TcpStream::connect(&nodes[0]).is_err());
    assert!(std::net::TcpStream::connect(&nodes[1]).is_ok());
    stand_in(&mut client).start_frontend(0).unwrap();
    assert!(client.load("t", &[COMMA], "5,e\n").is_ok());
    client.sql = client.server.session(Some("lakeward_nodes")).unwrap();
    assert_eq!(client.text("SELECT count(*) FROM t"), ["5"]);
}

#[test]
fn a_redirect_goes_astray() {
    let mut client = client("astray", Settings::default());
    stand_in(&mut client).fail(Moment::Redirect, Fault::RedirectTo("doris.invalid:8040".into()), 1);
    let error = client.load("t", &[COMMA], "1,a\n").unwrap_err();
    assert!(error.to_string().contains("foreign host"), "{error:#}");
}

#[test]
fn schema_changes_are_held() {
    let mut client = client("held", Settings::default());
    stand_in(&mut client).hold_schema_changes(true);
    client.sql.run("ALTER TABLE t MODIFY COLUMN v STRING").unwrap();
    let state = |client: &mut Client| client.rows("SHOW ALTER TABLE COLUMN")[0][9].clone().unwrap();
    assert_eq!(state(&mut client), "RUNNING");
    let group = client.load("t", &[COMMA, ("group_commit", "async_mode")], "1,a\n").unwrap();
    assert_eq!(group["Status"], "Fail", "{group}");
    stand_in(&mut client).hold_schema_changes(false);
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while state(&mut client) != "FINISHED" {
        assert!(std::time::Instant::now() < end);
    }
}

#[test]
fn passwords_are_checked() {
    let settings = Settings { password: "p@ss:w%".into(), ..Settings::default() };
    let mut client = client("passwords", settings);
    client.load("t", &[COMMA], "1,a\n").unwrap();
    assert_eq!(client.text("SELECT * FROM t"), ["1|a"]);
    let (host, port) = client.server.mysql_address();
    let wrong = mysql_async::OptsBuilder::default()
        .user(Some("root"))
        .pass(Some("wrong"))
        .ip_or_hostname(host)
        .tcp_port(port);
    let error = lakeward_testkit::sql::Session::open(wrong.into()).unwrap_err();
    assert!(format!("{error:#}").contains("Access denied"), "{error:#}");
}
