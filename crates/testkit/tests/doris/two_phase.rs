//! Labels, states, and the second phase, with the words that clients look for.

use super::client::Client;

fn client(database: &str) -> Client {
    let mut client = Client::start(database).unwrap();
    client
        .sql
        .run(
            "CREATE TABLE t (id INT NOT NULL, v VARCHAR(9)) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) \
             BUCKETS 1 PROPERTIES (\"replication_num\" = \"1\")",
        )
        .unwrap();
    client
}

#[test]
fn rows_are_seen_after_the_commit_and_not_before() {
    let mut client = client("visible");
    let id = client.precommit("t", "a", "1,a\n2,b\n").unwrap();
    assert_eq!(client.text("SELECT count(*) FROM t"), ["0"]);
    assert_eq!(client.label_state("a").unwrap(), "PRECOMMITTED");
    let answer =
        client.second_phase(&[("txn_id", &id.to_string()), ("txn_operation", "commit")]).unwrap();
    assert_eq!(answer["status"], "Success");
    assert_eq!(answer["msg"], format!("transaction [{id}] commit successfully."));
    assert_eq!(client.text("SELECT count(*) FROM t"), ["2"]);
    assert_eq!(client.label_state("a").unwrap(), "VISIBLE");
    assert_eq!(client.label_state("never").unwrap(), "UNKNOWN");
}

#[test]
fn a_label_is_taken_until_an_abort() {
    let mut client = client("labels");
    let id = client.precommit("t", "a", "1,a\n").unwrap();
    let headers = [("label", "a"), ("two_phase_commit", "true"), ("column_separator", ",")];
    let taken = client.load("t", &headers, "1,b\n").unwrap();
    assert_eq!(taken["Status"], "Label Already Exists", "{taken}");
    assert_eq!(taken["ExistingJobStatus"], "PRECOMMITTED");
    let message = taken["Message"].as_str().unwrap();
    let expected = format!("Label [a] has already been used, relate to txn [{id}]");
    assert!(message.contains(&expected), "{message}");
    let aborted = client.second_phase(&[("label", "a"), ("txn_operation", "abort")]).unwrap();
    assert_eq!(aborted["status"], "Success", "{aborted}");
    assert_eq!(client.label_state("a").unwrap(), "ABORTED");
    client.precommit("t", "a", "1,c\n").unwrap();
    let done = client.second_phase(&[("label", "a"), ("txn_operation", "commit")]).unwrap();
    assert_eq!(done["status"], "Success", "{done}");
    assert_eq!(client.text("SELECT * FROM t"), ["1|c"]);
    let taken = client.load("t", &headers, "1,b\n").unwrap();
    assert_eq!(taken["ExistingJobStatus"], "FINISHED", "{taken}");
}

#[test]
fn a_repeated_decision_is_told_from_a_new_one() {
    let client = client("repeated");
    let phase = |operation: &str, id: i64| {
        let answer = client
            .second_phase(&[("txn_id", &id.to_string()), ("txn_operation", operation)])
            .unwrap();
        assert_ne!(answer["status"], "Success", "{answer}");
        answer["msg"].as_str().unwrap().to_owned()
    };
    let committed = client.precommit("t", "a", "1,a\n").unwrap();
    client
        .second_phase(&[("txn_id", &committed.to_string()), ("txn_operation", "commit")])
        .unwrap();
    let again = phase("commit", committed);
    assert!(
        again
            .contains(&format!("transaction [{committed}] is already visible, not pre-committed.")),
        "{again}"
    );
    let abort = phase("abort", committed);
    assert!(
        abort.contains(&format!("transaction [{committed}] is already VISIBLE, could not abort.")),
        "{abort}"
    );
    let aborted = client.precommit("t", "b", "1,b\n").unwrap();
    client.second_phase(&[("txn_id", &aborted.to_string()), ("txn_operation", "abort")]).unwrap();
    let late = phase("commit", aborted);
    assert!(late.contains(&format!("transaction [{aborted}] is already aborted")), "{late}");
    assert!(phase("abort", aborted).contains("is already aborted"));
    assert!(phase("commit", i64::MAX).contains(&format!("transaction [{}] not found", i64::MAX)));
    // By label, a commit that is over looks like one that never was.
    let by_label = client.second_phase(&[("label", "a"), ("txn_operation", "commit")]).unwrap();
    assert!(
        by_label["msg"].as_str().unwrap().contains("transaction not found, label=a"),
        "{by_label}"
    );
    let nothing = client.second_phase(&[("txn_operation", "commit")]).unwrap();
    assert_eq!(nothing["msg"], "No transaction id or label selected.");
}

#[test]
fn an_empty_load_can_be_precommitted() {
    let client = client("empty");
    let id = client.precommit("t", "probe", "").unwrap();
    let answer =
        client.second_phase(&[("txn_id", &id.to_string()), ("txn_operation", "abort")]).unwrap();
    assert_eq!(answer["status"], "Success");
}
