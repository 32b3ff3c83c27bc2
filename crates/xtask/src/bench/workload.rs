//! Tables of twenty columns, filled by the server.

use anyhow::Result;
use lakeward_testkit::sql::Session;

const COLUMNS: &str = "id BIGINT PRIMARY KEY, a INT, b INT, c SMALLINT, d BIGINT, e INT UNSIGNED, \
     f DOUBLE, g FLOAT, h DECIMAL(12,2), i DECIMAL(20,4), j VARCHAR(40), k VARCHAR(40), \
     l VARCHAR(80), m CHAR(10), n DATETIME, o TIMESTAMP NULL, p DATE, q TINYINT, r VARBINARY(20), \
     s ENUM('a','b','c')";

const VALUES: &str = "seq, seq * 7, seq % 1000, seq % 30000, seq * 1000003, seq % 4000000000, \
     seq / 3, seq / 7, seq / 100, seq / 9, CONCAT('name ', seq), SHA1(seq), \
     CONCAT('a somewhat longer text with a number, ', seq), LPAD(seq, 10, '0'), \
     '2020-01-01' + INTERVAL seq % 100000000 SECOND, FROM_UNIXTIME(1500000000 + seq % 100000000), \
     '2000-01-01' + INTERVAL seq % 9000 DAY, seq % 100, UNHEX(MD5(seq)), 1 + seq % 3";

/// Rows per transaction.
const BATCH: u64 = 1_000;

pub fn create(session: &mut Session, database: &str, tables: u64) -> Result<()> {
    session.run(&format!("CREATE DATABASE {database}"))?;
    session.run(&format!("USE {database}"))?;
    (0..tables).try_for_each(|t| session.run(&format!("CREATE TABLE t{t}({COLUMNS})")))
}

pub fn insert(session: &mut Session, table: u64, rows: u64) -> Result<()> {
    in_batches(rows, |from, to| {
        session.run(&format!("INSERT INTO t{table} SELECT {VALUES} FROM seq_{from}_to_{to}"))
    })
}

pub fn update(session: &mut Session, table: u64, rows: u64) -> Result<()> {
    in_batches(rows, |from, to| {
        session.run(&format!(
            "UPDATE t{table} SET a = a + 1, j = CONCAT(j, '!'), o = NOW() WHERE id BETWEEN {from} AND {to}"
        ))
    })
}

pub fn delete(session: &mut Session, table: u64, rows: u64) -> Result<()> {
    in_batches(rows, |from, to| {
        session.run(&format!("DELETE FROM t{table} WHERE id BETWEEN {from} AND {to}"))
    })
}

fn in_batches(rows: u64, mut f: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
    let mut from = 1;
    while from <= rows {
        let to = (from + BATCH - 1).min(rows);
        f(from, to)?;
        from = to + 1;
    }
    Ok(())
}
