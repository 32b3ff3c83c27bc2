//! Stream loads: formats, quality, deletes, sequences, partial updates.

use serde_json::Value as Json;

use super::client::{Client, Headers};

const UNIQUE: &str =
    "UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 PROPERTIES (\"replication_num\" = \"1\"";
const JSON: (&str, &str) = ("format", "json");
const BY_LINE: (&str, &str) = ("read_json_by_line", "true");
const COMMA: (&str, &str) = ("column_separator", ",");

fn client(database: &str, columns: &str, properties: &str) -> Client {
    let mut client = Client::start(database).unwrap();
    client.sql.run(&format!("CREATE TABLE t ({columns}) {UNIQUE}{properties})")).unwrap();
    client
}

fn counts(answer: &Json) -> (i64, i64, i64) {
    let n = |name: &str| answer[name].as_i64().unwrap();
    (n("NumberTotalRows"), n("NumberLoadedRows"), n("NumberFilteredRows"))
}

#[test]
fn csv_and_json_come_out_as_they_went_in() {
    let columns =
        "id BIGINT NOT NULL, v VARCHAR(20), n DECIMAL(10,2), ts DATETIME(6), ok BOOLEAN, j JSON";
    let mut client = client("formats", columns, "");
    let answer = client
        .load("t", &[("label", "csv1"), COMMA], "1,a,1.5,2024-05-06 07:08:09.123456,true,\\N\n")
        .unwrap();
    assert_eq!(
        (answer["Status"].as_str(), answer["Label"].as_str()),
        (Some("Success"), Some("csv1"))
    );
    assert_eq!(answer["TwoPhaseCommit"], "false");
    let lines = "{\"id\":2,\"v\":\"ü\\n\",\"n\":2,\"ok\":false,\"j\":{\"a\": [1, 2]}}\n{\"id\":3,\"extra\":1}\n";
    let answer = client.load("t", &[JSON, BY_LINE], lines).unwrap();
    assert_eq!(counts(&answer), (2, 2, 0), "{answer}");
    assert_eq!(
        client.text("SELECT * FROM t ORDER BY id"),
        [
            "1|a|1.50|2024-05-06 07:08:09.123456|1|NULL",
            "2|ü\n|2.00|NULL|0|{\"a\":[1,2]}",
            "3|NULL|NULL|NULL|NULL|NULL"
        ]
    );
    assert_eq!(client.label_state("csv1").unwrap(), "VISIBLE");
}

#[test]
fn rows_that_do_not_fit_are_refused_and_named() {
    let mut client = client("quality", "id INT NOT NULL, v VARCHAR(3) NOT NULL, n INT", "");
    let too_long = client.load("t", &[COMMA], "1,äb,1\n2,äöü,2\n3,\\N,3\n").unwrap();
    assert_eq!(too_long["Status"], "Fail", "{too_long}");
    assert!(too_long["Message"].as_str().unwrap().contains("too many filtered rows"));
    assert_eq!(counts(&too_long), (3, 1, 2));
    assert!(too_long["ErrorURL"].as_str().unwrap().contains("/api/_load_error_log?file="));
    assert_eq!(client.text("SELECT count(*) FROM t"), ["0"]);
    // Some of them may be allowed to fail.
    let ratio = [COMMA, ("max_filter_ratio", "0.7")];
    let answer = client.load("t", &ratio, "1,äb,1\n2,äöü,2\n3,\\N,3\n").unwrap();
    assert_eq!((answer["Status"].as_str(), counts(&answer)), (Some("Success"), (3, 1, 2)));
    // What cannot be converted is NULL, but refused in strict mode.
    client.load("t", &[COMMA], "5,a,xyz\n6,a,99999999999\n").unwrap();
    assert_eq!(client.text("SELECT id, n FROM t ORDER BY id"), ["1|1", "5|NULL", "6|NULL"]);
    let strict = client.load("t", &[COMMA, ("strict_mode", "true")], "7,a,xyz\n8,a,8\n").unwrap();
    assert_eq!((strict["Status"].as_str(), counts(&strict)), (Some("Fail"), (2, 1, 1)));
    // Too few fields.
    let short = client.load("t", &[COMMA], "7,a\n").unwrap();
    assert_eq!(short["Status"], "Fail");
}

#[test]
fn the_delete_sign_deletes() {
    let mut client = client("delete_sign", "id INT NOT NULL, v VARCHAR(9)", "");
    let hidden = [JSON, BY_LINE, ("hidden_columns", "__DORIS_DELETE_SIGN__")];
    let load = |client: &Client, body: &str| client.load("t", &hidden, body).unwrap();
    load(
        &client,
        "{\"id\":1,\"v\":\"a\",\"__DORIS_DELETE_SIGN__\":0}\n{\"id\":2,\"v\":\"b\",\"__DORIS_DELETE_SIGN__\":\"0\"}",
    );
    load(&client, "{\"id\":1,\"__DORIS_DELETE_SIGN__\":1}\n{\"id\":9,\"__DORIS_DELETE_SIGN__\":1}");
    assert_eq!(client.text("SELECT * FROM t"), ["2|b"]);
    load(&client, "{\"id\":1,\"v\":\"again\",\"__DORIS_DELETE_SIGN__\":0}");
    assert_eq!(client.text("SELECT * FROM t ORDER BY id"), ["1|again", "2|b"]);
    // The same with a header, and by a condition.
    client.load("t", &[COMMA, ("merge_type", "DELETE")], "2,\\N\n").unwrap();
    let merge: Headers<'_> =
        &[COMMA, ("merge_type", "MERGE"), ("delete", "op='d'"), ("columns", "id,v,op")];
    client.load("t", merge, "1,x,d\n3,c,u\n").unwrap();
    assert_eq!(client.text("SELECT * FROM t"), ["3|c"]);
}

#[test]
fn a_lower_sequence_never_overwrites() {
    let mut client = client(
        "sequence",
        "id INT NOT NULL, v VARCHAR(9)",
        ", \"function_column.sequence_type\" = \"LARGEINT\"",
    );
    let without = client.load("t", &[COMMA], "1,a\n").unwrap();
    assert!(without["Message"].as_str().unwrap().contains("need to specify the sequence column"));
    let headers = [
        COMMA,
        ("columns", "id,v,seq,__DORIS_DELETE_SIGN__"),
        ("function_column.sequence_col", "seq"),
    ];
    let load = |client: &Client, body: &str| {
        let answer = client.load("t", &headers, body).unwrap();
        assert_eq!(answer["Status"], "Success", "{answer}");
    };
    load(&client, "1,five,5,0\n2,two,170141183460469231731687303715884105727,0\n");
    load(&client, "1,four,4,0\n2,one,1,0\n");
    assert_eq!(client.text("SELECT * FROM t ORDER BY id"), ["1|five", "2|two"]);
    load(&client, "1,again,5,0\n");
    load(&client, "1,\\N,6,1\n");
    assert_eq!(client.text("SELECT * FROM t"), ["2|two"]);
    // A delete has a sequence, too: what came before it does not come back.
    load(&client, "1,old,5,0\n");
    assert_eq!(client.text("SELECT * FROM t"), ["2|two"]);
    // Within one load as between loads.
    load(&client, "3,b,2,0\n3,a,1,0\n");
    assert_eq!(client.text("SELECT v FROM t WHERE id = 3"), ["b"]);
}

#[test]
fn partial_updates_keep_what_is_not_named() {
    let mut client = client(
        "partial",
        "id INT NOT NULL, a VARCHAR(9), b INT, c INT NOT NULL DEFAULT \"7\"",
        ", \"enable_unique_key_merge_on_write\" = \"true\"",
    );
    client.load("t", &[COMMA], "1,x,10,1\n2,y,20,2\n").unwrap();
    let partial = [COMMA, ("partial_columns", "true"), ("columns", "id,b")];
    client.load("t", &partial, "1,11\n3,30\n").unwrap();
    assert_eq!(client.text("SELECT * FROM t ORDER BY id"), ["1|x|11|1", "2|y|20|2", "3|NULL|30|7"]);
    let no_key = [COMMA, ("partial_columns", "true"), ("columns", "b")];
    assert_eq!(client.load("t", &no_key, "1\n").unwrap()["Status"], "Fail");
}

#[test]
fn group_commit_takes_no_label() {
    let mut client = client("group_commit", "id INT NOT NULL, v VARCHAR(9)", "");
    let group = ("group_commit", "sync_mode");
    let refused = client.load("t", &[COMMA, group, ("label", "a")], "1,a\n").unwrap();
    assert_eq!(refused["Status"], "Fail", "{refused}");
    let done = client.load("t", &[COMMA, group], "1,a\n").unwrap();
    assert_eq!(
        (done["Status"].as_str(), done["GroupCommit"].as_bool()),
        (Some("Success"), Some(true))
    );
    assert_eq!(client.text("SELECT * FROM t"), ["1|a"]);
}

#[test]
fn what_a_load_must_say() {
    let client = client("headers", "id INT NOT NULL, v VARCHAR(9)", "");
    let path = format!("/api/{}/t/_stream_load", client.database);
    let silent = client.send(reqwest::Method::PUT, &path, &[], "1,a\n").unwrap();
    assert_eq!(silent["msg"], "There is no 100-continue header", "{silent}");
    for headers in [
        &[JSON, ("compress_type", "gz")][..],
        &[("format", "xml")],
        &[("label", "no spaces")],
        &[COMMA, ("columns", "id")],
    ] {
        let answer = client.load("t", headers, "{}");
        let answer = answer.unwrap();
        // `v` may be missing, it is nullable; the others are refused.
        let expected = if headers[0] == COMMA {
            answer["NumberTotalRows"] == 1
        } else {
            answer["Status"] == "Fail"
        };
        assert!(expected, "{headers:?}: {answer}");
    }
    let nowhere = client.load("missing", &[], "1").unwrap();
    assert_eq!(nowhere["Status"], "Fail");
}
