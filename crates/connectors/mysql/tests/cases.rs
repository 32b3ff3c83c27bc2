//! Values, names and ways of logging: what the snapshot reads equals what the log says, and both equal the table.

mod support;

use std::time::Duration;

use lakeward_testkit::server::{Options, Server};
use lakeward_testkit::{mariadb, mysql9};
use support::{Harness, rows, truth};

/// Each row is inserted before the start and again, with another id, after it: both must arrive alike.
fn parity(server: &Server, definition: &str, values: &[&str]) {
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("SET SESSION sql_mode='', time_zone='-05:00'").unwrap();
    sql.run(&format!("CREATE TABLE p (id INT PRIMARY KEY, {definition})")).unwrap();
    for (i, v) in values.iter().enumerate() {
        sql.run(&format!("INSERT INTO p VALUES ({}, {v})", i + 1)).unwrap();
    }
    let mut h = Harness::new(server, "d.p");
    h.open();
    h.catch_up();
    for (i, v) in values.iter().enumerate() {
        sql.run(&format!("INSERT INTO p VALUES ({}, {v})", i + 1001)).unwrap();
    }
    h.catch_up();
    let table = &h.model.tables["d.p"];
    for i in 0..values.len() {
        let mut read = table.rows[&format!("{}", i + 1)].clone();
        let mut live = table.rows[&format!("{}", i + 1001)].clone();
        read.remove("id");
        live.remove("id");
        assert_eq!(read, live, "row {} is not alike in both phases", values[i]);
    }
}

const COMMON: &str = "a TINYINT, b TINYINT UNSIGNED, c SMALLINT, d SMALLINT UNSIGNED, e MEDIUMINT, f MEDIUMINT UNSIGNED, \
    g INT, h INT UNSIGNED, i BIGINT, j BIGINT UNSIGNED, k FLOAT, l DOUBLE, m DECIMAL(12,3), n DECIMAL(60,10), o BIT(1), \
    q BIT(64), r YEAR, s DATE, t TIME(6), u DATETIME(6), v TIMESTAMP(6) NULL, w CHAR(5), x VARCHAR(20) CHARACTER SET gbk, \
    y TEXT CHARACTER SET latin1, z BINARY(6), aa VARBINARY(6), ab BLOB, ac ENUM('x','y','it''s'), ad SET('p','q','r'), \
    ae POINT, af TIME, ag TINYINT(1), ah DATETIME, ai CHAR(4) CHARACTER SET utf8mb4, aj LONGTEXT";

const COMMON_ROWS: [&str; 4] = [
    "-128,255,-32768,65535,-8388608,16777215,-2147483648,4294967295,-9223372036854775808,18446744073709551615,0.07,1e308,\
     -12.345,'12345678901234567890123456789012345678901234567890.0123456789',1,X'FFFFFFFFFFFFFFFF',2155,'9999-12-31',\
     '-838:59:58.999999','9999-12-31 23:59:59.999999','2037-01-01 00:00:01.000001','ab  ','样本','é',X'01',X'0100',X'0000',\
     'it''s','p,r',ST_GeomFromText('POINT(1 2)'),'-00:00:01',-1,'1000-01-01 00:00:00','😀😀','text'",
    "127,0,32767,0,8388607,0,2147483647,0,9223372036854775807,0,-87654321,4.9e-324,999999999.999,'-0.0000000001',0,0,0,\
     '2024-02-29','838:59:58.5','2024-02-29 12:00:00','1970-01-01 12:00:01','','','',X'000000000000','','','x','',\
     ST_GeomFromText('POINT(-1.5 0)'),'24:00:00',9,'2024-01-01 00:00:00','','NULL'",
    "NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,\
     NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL",
    "0,1,0,1,0,1,0,1,0,1,0,-0.0,0,'0',1,1,1901,'0000-00-00','00:00:00','0000-00-00 00:00:00','0000-00-00 00:00:00',' x',\
     'a','b',X'AABBCCDDEEFF',X'FF',X'00FF00','y','p,q,r',NULL,'00:00:00',0,'0000-00-00 00:00:00','ab','x'",
];

#[test]
fn values_of_mariadb_are_alike_in_snapshot_and_log() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let definition =
        format!("{COMMON}, ba UUID, bb INET4, bc INET6, bd JSON, be VARCHAR(300) COMPRESSED");
    let tails = [
        "'123e4567-e89b-12d3-a456-426655440000','192.168.0.1','2001:db8::ff00:42:8329','{\"a\": 1.10}',REPEAT('ab', 100)",
        "'00000000-0000-0000-0000-000000000000','0.0.0.0','::','null',''",
        "NULL,NULL,NULL,NULL,NULL",
        "'ffffffff-ffff-ffff-ffff-ffffffffff00','255.255.255.0','::ffff:192.0.2.0','[1,  2]','x'",
    ];
    let values: Vec<String> =
        COMMON_ROWS.iter().zip(tails).map(|(a, b)| format!("{a},{b}")).collect();
    parity(&server, &definition, &values.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn values_of_mysql_are_alike_in_snapshot_and_log() {
    let Some(server) = mysql9::start_or_skip() else { return };
    let definition =
        format!("{COMMON}, ba JSON, bb VECTOR(2), bc INT GENERATED ALWAYS AS (g DIV 2) VIRTUAL");
    let tails = [
        "JSON_OBJECT('amt',CAST('37.2500000000' AS DECIMAL(20,10)),'at',CAST('2019-07-08 09:10:11.12' AS DATETIME(2)),\
         'big',18446744073709551615,'f',1.0,'t',CAST('-12:13:14' AS TIME)),STRING_TO_VECTOR('[1,2]'),DEFAULT",
        "'null',STRING_TO_VECTOR('[0,-1.5]'),DEFAULT",
        "NULL,NULL,DEFAULT",
        "JSON_ARRAY(1,NULL,true,'é'),NULL,DEFAULT",
    ];
    let values: Vec<String> =
        COMMON_ROWS.iter().zip(tails).map(|(a, b)| format!("{a},{b}")).collect();
    parity(&server, &definition, &values.iter().map(String::as_str).collect::<Vec<_>>());
}

fn compressed_and_partial(server: &Server, before: &[&str], after: &[&str]) {
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE cp (id INT PRIMARY KEY, c TEXT)").unwrap();
    sql.run("INSERT INTO cp VALUES (1, REPEAT('1', 252))").unwrap();
    sql.run("CREATE TABLE ri (id INT PRIMARY KEY, a INT, b VARCHAR(10) DEFAULT 'dd')").unwrap();
    sql.run("INSERT INTO ri VALUES (1,1,'x')").unwrap();
    for statement in before {
        sql.run(statement).unwrap();
    }
    let mut h = Harness::new(server, r"d.\.*");
    h.open();
    h.catch_up();
    sql.run("INSERT INTO cp VALUES (2,REPEAT('1',252)),(3,REPEAT('2',253)),(4,REPEAT('3',65535))")
        .unwrap();
    sql.run("UPDATE cp SET c=REPEAT('4',5000) WHERE id=1").unwrap();
    sql.run("DELETE FROM cp WHERE id=3").unwrap();
    sql.run(&format!(
        "ALTER TABLE cp ADD COLUMN note_long VARCHAR(400) DEFAULT '{}'",
        "a default ".repeat(30)
    ))
    .unwrap();
    sql.run("SET SESSION binlog_row_image='MINIMAL'").unwrap();
    sql.run("UPDATE ri SET a=2 WHERE id=1").unwrap();
    sql.run("INSERT INTO ri(id) VALUES (2)").unwrap();
    for statement in after {
        sql.run(statement).unwrap();
    }
    h.catch_up();
    assert_eq!(
        h.model.rows("d.cp", &["id", "c", "note_long"]),
        truth(server, "SELECT id, c, note_long FROM d.cp")
    );
    assert_eq!(h.model.rows("d.ri", &["id", "a", "b"]), truth(server, "SELECT id, a, b FROM d.ri"));
}

#[test]
fn compressed_logs_and_partial_images_of_mariadb() {
    let Some(server) = mariadb::start_or_skip() else { return };
    compressed_and_partial(
        &server,
        &["SET GLOBAL log_bin_compress=ON"],
        &["SET GLOBAL log_bin_compress=OFF"],
    );
}

#[test]
fn compressed_logs_and_partial_images_of_mysql() {
    let Some(server) = mysql9::start_or_skip() else { return };
    compressed_and_partial(&server, &["SET SESSION binlog_transaction_compression=ON"], &[]);
}

#[test]
fn odd_names_invisible_columns_and_key_moves() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE `a44-x y`").unwrap();
    sql.run("USE `a44-x y`").unwrap();
    sql.run("CREATE TABLE `user` (`id` INT PRIMARY KEY, `order` INT, `a b` INT, `列` INT, `e.f` INT, `g``h` INT)").unwrap();
    sql.run("INSERT INTO `user` VALUES (1,1,3,4,5,6)").unwrap();
    sql.run("CREATE TABLE iv (id INT NOT NULL INVISIBLE AUTO_INCREMENT PRIMARY KEY, a INT, h INT INVISIBLE DEFAULT 7)").unwrap();
    sql.run("INSERT INTO iv(id,a,h) VALUES (1,10,20)").unwrap();
    sql.run("INSERT INTO iv(a) VALUES (11)").unwrap();
    sql.run("CREATE TABLE pk (id INT PRIMARY KEY, v INT)").unwrap();
    sql.run("INSERT INTO pk VALUES (1,1),(2,2),(3,3),(4,4)").unwrap();
    let mut h = Harness::new(&server, r"a44-x y.\.*");
    h.open();
    h.catch_up();
    sql.run("INSERT INTO `user` VALUES (2,1,3,4,5,6)").unwrap();
    sql.run("UPDATE `user` SET `e.f`=50 WHERE id=1").unwrap();
    sql.run("ALTER TABLE `user` ADD COLUMN `group` INT").unwrap();
    sql.run("INSERT INTO iv(id,a,h) VALUES (3,12,30)").unwrap();
    sql.run("UPDATE iv SET h=99 WHERE id=1").unwrap();
    sql.run("UPDATE pk SET id=id+1 ORDER BY id DESC").unwrap();
    sql.run("BEGIN").unwrap();
    sql.run("UPDATE pk SET id=100 WHERE id=2").unwrap();
    sql.run("UPDATE pk SET id=2 WHERE id=3").unwrap();
    sql.run("UPDATE pk SET id=3 WHERE id=100").unwrap();
    sql.run("COMMIT").unwrap();
    h.catch_up();
    assert_eq!(
        h.model.rows("a44-x y.user", &["id", "order", "a b", "列", "e.f", "g`h", "group"]),
        rows(&[&["1", "1", "3", "4", "50", "6", "NULL"], &["2", "1", "3", "4", "5", "6", "NULL"]])
    );
    assert_eq!(
        h.model.rows("a44-x y.iv", &["id", "a", "h"]),
        truth(&server, "SELECT id, a, h FROM `a44-x y`.iv")
    );
    assert_eq!(
        h.model.rows("a44-x y.pk", &["id", "v"]),
        rows(&[&["2", "2"], &["3", "1"], &["4", "3"], &["5", "4"]])
    );
}

#[test]
fn a_large_xa_transaction_is_read_again_at_its_end() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("CREATE TABLE x (id INT PRIMARY KEY, v VARCHAR(600))").unwrap();
    sql.run("CREATE TABLE o (id INT PRIMARY KEY)").unwrap();
    let mut other = server.session(Some("d")).unwrap();
    let mut h = Harness::new(&server, r"d.\.*");
    h.open();
    h.catch_up();
    for (xid, first, end) in [("'keep'", 0, "XA COMMIT"), ("'drop'", 50_000, "XA ROLLBACK")] {
        sql.run(&format!("XA START {xid}")).unwrap();
        sql.run(&format!(
            "INSERT INTO x SELECT seq + {first}, REPEAT('x', 590) FROM seq_1_to_20000"
        ))
        .unwrap();
        sql.run(&format!("XA END {xid}")).unwrap();
        sql.run(&format!("XA PREPARE {xid}")).unwrap();
        other.run(&format!("INSERT INTO o VALUES ({first})")).unwrap();
        h.catch_up();
        assert_eq!(h.model.tables["d.o"].rows.len(), if first == 0 { 1 } else { 2 });
        sql.run(&format!("{end} {xid}")).unwrap();
        other.run(&format!("INSERT INTO o VALUES ({})", first + 1)).unwrap();
        other.run(&format!("DELETE FROM o WHERE id={}", first + 1)).unwrap();
        h.catch_up();
        assert_eq!(h.model.tables["d.x"].rows.len(), 20_000);
    }
    h.checkpoint();
    h.restart();
    other.run("DELETE FROM x WHERE id > 10").unwrap();
    h.catch_up();
    assert_eq!(h.model.tables["d.x"].rows.len(), 10);
}

#[test]
fn ddl_in_the_middle_of_a_snapshot() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    for table in ["grows", "swaps", "empties", "rekeys", "goes", "moves", "loose"] {
        let key = if table == "loose" { "" } else { ", PRIMARY KEY (id)" };
        sql.run(&format!("CREATE TABLE {table} (id INT NOT NULL, a INT, b INT{key})")).unwrap();
        sql.run(&format!("INSERT INTO {table} SELECT seq, seq, -seq FROM seq_1_to_6000")).unwrap();
    }
    let mut h = Harness::new(&server, r"d.\.*")
        .option("scan.incremental.snapshot.chunk.size", "40")
        .option("connection.pool.size", "3");
    h.open();
    h.run_until(Duration::from_secs(30), |h| h.model.snapshot_rows > 6_500).unwrap();
    for statement in [
        "ALTER TABLE grows ADD COLUMN c INT DEFAULT 9, DROP COLUMN b",
        "ALTER TABLE swaps RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "TRUNCATE TABLE empties",
        "INSERT INTO empties VALUES (1, 2, 3)",
        "ALTER TABLE rekeys DROP PRIMARY KEY, MODIFY id BIGINT NOT NULL, ADD PRIMARY KEY (id, a)",
        "DROP TABLE goes",
        "RENAME TABLE moves TO moved",
        "ALTER TABLE loose ADD COLUMN c VARCHAR(5) DEFAULT 'q' AFTER id",
    ] {
        sql.run(statement).unwrap();
        h.run_for(Duration::from_millis(20)).unwrap();
    }
    sql.run("UPDATE swaps SET a=7 WHERE id%100=0").unwrap();
    sql.run("DELETE FROM grows WHERE id%50=0").unwrap();
    sql.run("DELETE FROM loose WHERE id%50=0").unwrap();
    h.catch_up();
    for (table, columns) in [
        ("grows", "id, a, c"),
        ("swaps", "id, a, b"),
        ("empties", "id, a, b"),
        ("rekeys", "id, a, b"),
        ("moved", "id, a, b"),
        ("loose", "id, c, a, b"),
    ] {
        let names: Vec<&str> = columns.split(", ").collect();
        let actual = h.model.rows(&format!("d.{table}"), &names);
        let expected = truth(&server, &format!("SELECT {columns} FROM d.{table}"));
        assert!(actual == expected, "{table}: {} rows instead of {}", actual.len(), expected.len());
    }
    assert!(!h.model.tables.contains_key("d.goes") && !h.model.tables.contains_key("d.moves"));
}

#[test]
fn a_server_without_row_metadata_is_read_by_the_tracked_shapes() {
    let options = Options::default().set("binlog_row_metadata=NO_LOG");
    let Some(server) = mariadb::start_with_or_skip(&options) else { return };
    let definition = "a BIGINT UNSIGNED, b VARCHAR(20) CHARACTER SET gbk, c ENUM('x','y'), d BINARY(4), e TINYINT UNSIGNED";
    parity(&server, definition, &["18446744073709551615,'样本','y',X'01',200", "1,'','x',X'',0"]);
}
