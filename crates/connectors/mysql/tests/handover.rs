//! The heart: chunked, parallel snapshots under heavy writing, also resumed from checkpoints in their middle, end up equal
//! to the table.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lakeward_testkit::server::{Options, Server};
use lakeward_testkit::{mariadb, mysql9};
use support::{Harness, truth};

/// A small generator: the writers must not agree with each other, and a failure must be repeatable in kind.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A kind of key: its column definitions, and the nth key as SQL literals.
struct KeyKind {
    table: &'static str,
    definition: &'static str,
    key: &'static str,
    literal: fn(u64) -> Vec<String>,
}

const KEYS: [KeyKind; 9] = [
    KeyKind {
        table: "by_int",
        definition: "k INT, v BIGINT, PRIMARY KEY (k)",
        key: "k",
        literal: |n| vec![format!("{}", n as i64 - 1000)],
    },
    KeyKind {
        table: "by_unsigned",
        definition: "v BIGINT, k BIGINT UNSIGNED, PRIMARY KEY (k)",
        key: "k",
        literal: |n| vec![format!("{}", u64::MAX - n * 3)],
    },
    KeyKind {
        // Case-insensitive and padded: keys that differ only in case are one key to the server.
        table: "by_text",
        definition: "k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, v BIGINT, PRIMARY KEY (k)",
        key: "k",
        literal: |n| {
            let text = format!("{}é{}", ["k", "K", "Key", "kEY"][n as usize % 4], n / 4 * 7 % 1009);
            vec![format!("'{text}'")]
        },
    },
    KeyKind {
        table: "by_latin1",
        definition: "k CHAR(12) CHARACTER SET latin1, v BIGINT, PRIMARY KEY (k)",
        key: "k",
        literal: |n| vec![format!("'{}ü{}'", ["a", "B", "z"][n as usize % 3], n)],
    },
    KeyKind {
        table: "by_pair",
        definition: "b VARBINARY(8), v BIGINT, d DATE, PRIMARY KEY (d, b)",
        key: "d, b",
        literal: |n| {
            vec![format!("'2024-01-{:02}'", n % 5 + 1), format!("X'{:04X}00'", n * 31 % 65_536)]
        },
    },
    KeyKind {
        table: "by_decimal",
        definition: "k DECIMAL(20,4), v BIGINT, PRIMARY KEY (k)",
        key: "k",
        literal: |n| vec![format!("{}.{:04}", n as i64 - 500, n * 37 % 10_000)],
    },
    KeyKind {
        table: "by_time",
        definition: "k DATETIME(3), i SMALLINT UNSIGNED, v BIGINT, PRIMARY KEY (k, i)",
        key: "k, i",
        literal: |n| {
            vec![format!("'2024-02-01 00:00:{:02}.{:03}'", n % 60, n % 7), format!("{}", n % 300)]
        },
    },
    KeyKind {
        // Not to be paged: read whole.
        table: "by_enum",
        definition: "k ENUM('zz','yy','mm','aa'), i INT, v BIGINT, PRIMARY KEY (i, k)",
        key: "i, k",
        literal: |n| {
            vec![format!("{}", n / 4), format!("'{}'", ["zz", "aa", "mm", "yy"][n as usize % 4])]
        },
    },
    KeyKind {
        table: "by_nothing",
        definition: "k INT, i CHAR(3), v BIGINT",
        key: "k, i",
        literal: |n| vec![format!("{}", n % 500), format!("'{}'", n % 3)],
    },
];

/// Tables that start over when their snapshot is cut.
const WHOLE: [&str; 2] = ["d.by_enum", "d.by_nothing"];

fn resets_of_paged(h: &Harness) -> Vec<String> {
    h.model.resets.keys().filter(|t| !WHOLE.contains(&t.as_str())).cloned().collect()
}

const KEY_SPACE: u64 = 2_000;

/// How far the writers may be ahead of the reader.
const MOST_LAG_MS: i64 = 300;

fn assignments(kind: &KeyKind, n: u64) -> String {
    let names = kind.key.split(", ");
    let parts: Vec<String> =
        names.zip((kind.literal)(n)).map(|(c, v)| format!("{c}={v}")).collect();
    parts.join(", ")
}

fn condition(kind: &KeyKind, n: u64) -> String {
    assignments(kind, n).replace(", ", " AND ")
}

fn insert(kind: &KeyKind, n: u64, v: u64, verb: &str) -> String {
    let values = (kind.literal)(n).join(", ");
    format!("{verb} INTO {} ({}, v) VALUES ({values}, {v})", kind.table, kind.key)
}

/// One random change. Errors (a duplicate key, a lock lost) are part of the game.
fn change(kind: &KeyKind, dice: &mut Dice, v: u64) -> String {
    let n = dice.roll(KEY_SPACE);
    match dice.roll(10) {
        0 | 1 => insert(kind, n, v, "INSERT IGNORE"),
        2 | 3 => insert(kind, n, v, "REPLACE"),
        4 | 5 => format!("UPDATE {} SET v={v} WHERE {}", kind.table, condition(kind, n)),
        6 | 7 => {
            let to = dice.roll(KEY_SPACE);
            format!(
                "UPDATE IGNORE {} SET {}, v={v} WHERE {}",
                kind.table,
                assignments(kind, to),
                condition(kind, n)
            )
        }
        8 => format!("DELETE FROM {} WHERE {}", kind.table, condition(kind, n)),
        _ => format!("UPDATE {} SET v=v+1 WHERE v % 17 = {}", kind.table, dice.roll(17)),
    }
}

struct Writers {
    stop: Arc<AtomicBool>,
    /// They wait for the reader. On a busy machine they would outrun it, and no snapshot would come to its end.
    brake: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    changes: Arc<AtomicU64>,
}

impl Writers {
    fn start(server: &Server, count: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let brake = Arc::new(AtomicBool::new(false));
        let changes = Arc::new(AtomicU64::new(0));
        let threads = (0..count)
            .map(|i| {
                let mut sql = server.session(Some("d")).unwrap();
                let (stop, brake, changes) = (stop.clone(), brake.clone(), changes.clone());
                std::thread::spawn(move || {
                    let mut dice = Dice(0x9e37_79b9 + i * 7919);
                    while !stop.load(Ordering::Relaxed) {
                        if brake.load(Ordering::Relaxed) {
                            std::thread::sleep(Duration::from_millis(2));
                            continue;
                        }
                        let v = changes.fetch_add(1, Ordering::Relaxed) + 1_000_000 * (i + 1);
                        let kind = &KEYS[dice.roll(KEYS.len() as u64) as usize];
                        if dice.roll(3) == 0 {
                            let _ = sql.run("BEGIN");
                            for _ in 0..dice.roll(6) {
                                let _ = sql.run(&change(kind, &mut dice, v));
                            }
                            let end = if dice.roll(5) == 0 { "ROLLBACK" } else { "COMMIT" };
                            let _ = sql.run(end);
                        } else {
                            let _ = sql.run(&change(kind, &mut dice, v));
                        }
                    }
                })
            })
            .collect();
        Self { stop, brake, threads, changes }
    }

    /// Runs the reader until it only streams, no faster than it can follow.
    fn until_streaming(&self, h: &mut Harness) {
        h.run_until(Duration::from_secs(120), |h| {
            self.brake.store(h.gauge("source_lag_ms") > MOST_LAG_MS, Ordering::Relaxed);
            h.status.streaming
        })
        .unwrap();
        self.brake.store(false, Ordering::Relaxed);
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|t| t.join().unwrap());
        self.changes.load(Ordering::Relaxed)
    }
}

fn set_up(server: &Server) {
    let mut sql = server.session(None).unwrap();
    sql.run("CREATE DATABASE d").unwrap();
    sql.run("USE d").unwrap();
    sql.run("SET SESSION binlog_format=ROW").unwrap();
    for kind in &KEYS {
        sql.run(&format!("CREATE TABLE {} ({})", kind.table, kind.definition)).unwrap();
        sql.run("BEGIN").unwrap();
        for n in 0..KEY_SPACE / 2 {
            sql.run(&insert(kind, n * 2, n, "INSERT IGNORE")).unwrap();
        }
        sql.run("COMMIT").unwrap();
    }
}

/// The rows as text; binary as hexadecimal, as the model has it.
fn compare(h: &Harness, server: &Server) {
    for kind in &KEYS {
        let mut columns: Vec<&str> = kind.key.split(", ").collect();
        columns.push("v");
        let select: Vec<String> = columns
            .iter()
            .map(|c| match (*c, kind.table) {
                ("b", _) => "LOWER(HEX(b))".into(),
                ("k", "by_time") => "DATE_FORMAT(k, '%Y-%m-%dT%H:%i:%s.%f')".to_string(),
                _ => c.to_string(),
            })
            .collect();
        let expected =
            truth(server, &format!("SELECT {} FROM d.{}", select.join(", "), kind.table));
        let mut actual = h.model.rows(&format!("d.{}", kind.table), &columns);
        if kind.table == "by_time" {
            for row in &mut actual {
                // Arrow prints the fraction as short as it can.
                if let Some(k) = row[0].as_mut() {
                    let (head, fraction) = k.split_once('.').unwrap_or((k, ""));
                    *k = format!("{head}.{fraction:0<6}");
                }
            }
            actual.sort();
        }
        let missing: Vec<_> = expected.iter().filter(|r| !actual.contains(r)).take(5).collect();
        let extra: Vec<_> = actual.iter().filter(|r| !expected.contains(r)).take(5).collect();
        assert!(
            missing.is_empty() && extra.is_empty() && actual.len() == expected.len(),
            "{}: {} rows instead of {}; missing {missing:?}, extra {extra:?}",
            kind.table,
            actual.len(),
            expected.len()
        );
    }
}

fn harness(server: &Server) -> Harness {
    Harness::new(server, r"d.by_\.*")
        .option("scan.incremental.snapshot.chunk.size", "37")
        .option("connection.pool.size", "4")
}

fn under_writing(server: &Server) {
    set_up(server);
    let writers = Writers::start(server, 4);
    let mut h = harness(server);
    h.open();
    writers.until_streaming(&mut h);
    h.run_for(Duration::from_millis(500)).unwrap();
    let changes = writers.stop();
    h.catch_up();
    assert!(changes > 100, "the writers wrote: {changes}");
    assert!(h.model.resets.is_empty(), "no table started over: {:?}", h.model.resets);
    compare(&h, server);
}

fn with_crashes(server: &Server) {
    set_up(server);
    let writers = Writers::start(server, 3);
    let mut h = harness(server);
    h.open();
    let mut crashes = 0;
    while !h.status.streaming && crashes < 40 {
        // Some rows after the checkpoint are lost with the crash, and come again.
        h.run_for(Duration::from_millis(60)).unwrap();
        h.checkpoint();
        h.run_for(Duration::from_millis(25)).unwrap();
        h.restart();
        crashes += 1;
    }
    writers.until_streaming(&mut h);
    for _ in 0..5 {
        h.run_for(Duration::from_millis(100)).unwrap();
        h.checkpoint();
        h.run_for(Duration::from_millis(50)).unwrap();
        h.restart();
    }
    writers.stop();
    h.catch_up();
    assert!(crashes > 2, "it crashed inside the snapshot: {crashes}");
    assert_eq!(resets_of_paged(&h), [""; 0], "no table that is paged started over");
    compare(&h, server);
}

#[test]
fn mariadb_snapshot_under_writing_equals_the_tables() {
    let Some(server) = mariadb::start_or_skip() else { return };
    under_writing(&server);
}

#[test]
fn mariadb_snapshot_resumed_in_its_middle_equals_the_tables() {
    let Some(server) = mariadb::start_or_skip() else { return };
    with_crashes(&server);
}

#[test]
fn mysql_without_gtids_snapshot_under_writing_equals_the_tables() {
    let options = Options::default().set("gtid_mode=OFF").set("enforce_gtid_consistency=OFF");
    let Some(server) = mysql9::start_with_or_skip(&options) else { return };
    under_writing(&server);
}

#[test]
fn mysql_snapshot_under_writing_equals_the_tables() {
    let Some(server) = mysql9::start_or_skip() else { return };
    under_writing(&server);
}

#[test]
fn mysql_snapshot_resumed_in_its_middle_equals_the_tables() {
    let Some(server) = mysql9::start_or_skip() else { return };
    with_crashes(&server);
}
