//! Every type on a running server, read by the snapshot and then again from the log: the same
//! values, bit for bit.

mod support;

use lakeward_testkit::server::Server;
use lakeward_testkit::sql::quote;
use lakeward_testkit::{mariadb, mysql9};
use support::{Harness, Row};

/// Runs the statements of recorded cases, reads the tables by the snapshot, gives every row another
/// key, and compares the rows that the log brings with those of the snapshot.
fn both_ways_agree(server: &Server, cases: &[&str]) {
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE v").unwrap();
    sql.run("USE v").unwrap();
    sql.run("SET time_zone='+00:00', sql_mode='NO_ENGINE_SUBSTITUTION'").unwrap();
    for case in cases {
        let statements = case.split(";\n").map(str::trim).filter(|s| !s.is_empty());
        sql.run_all(statements).unwrap();
    }
    let mut h = Harness::new(server, r"v.\.*");
    h.open();
    h.catch_up();
    let snapshot = h.model.tables.clone();
    let from_snapshot = h.model.log_rows;
    let keyed = snapshot.iter().filter(|(_, table)| !table.key.is_empty());
    sql.run("SET sql_mode='ALLOW_INVALID_DATES'").unwrap();
    let mut compared = 0;
    for (name, _) in keyed.clone() {
        let table = name.strip_prefix("v.").unwrap();
        let key = if table.starts_with("odd") { "b" } else { "id" };
        sql.run(&format!("UPDATE {} SET {key} = {key} + 1000", quote(table))).unwrap();
    }
    h.catch_up();
    assert!(h.model.log_rows > from_snapshot);
    for (name, before) in keyed {
        let key = if name.starts_with("v.odd") { "b" } else { "id" };
        let after = &h.model.tables[name];
        assert_eq!(after.rows.len(), before.rows.len(), "{name}");
        let moved = |row: &Row| row[key].as_deref().unwrap().parse::<i64>().unwrap() + 1000;
        for row in before.rows.values() {
            let live = after.rows.values().find(|live| {
                live[key].as_deref() == Some(&*moved(row).to_string())
                    && (key == "id" || (&live["a"], &live["c-d"]) == (&row["a"], &row["c-d"]))
            });
            let live = live.unwrap_or_else(|| panic!("{name}: a row is missing"));
            // Generated columns follow the key.
            for column in row.keys().filter(|c| *c != key && *c != "gv" && *c != "gs") {
                assert_eq!(row[column], live[column], "{name}.{column} of {:?}", row[key]);
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "only {compared} cells");
}

#[test]
fn mariadb_snapshot_and_log_give_the_same_values() {
    let Some(server) = mariadb::start_or_skip() else { return };
    both_ways_agree(&server, &[include_str!("binlog/cases/mariadb-types.sql")]);
}

#[test]
fn mysql_snapshot_and_log_give_the_same_values() {
    let Some(server) = mysql9::start_or_skip() else { return };
    both_ways_agree(
        &server,
        &[
            include_str!("binlog/cases/mysql-types.sql"),
            include_str!("binlog/cases/mysql-json.sql"),
        ],
    );
}
