//! What statements do to the tables of a small shop: one captured database, whose online schema change tables are known
//! as such, beside one that is not captured.

use std::collections::HashSet;
use std::sync::Arc;

use lakeward_core::{ColumnPlace, DataType, Literal, Position, SchemaChange, SchemaEvent, TableId};
use lakeward_mysql::ddl::{
    Flavor, Outcome, SchemaHistory, Selection, SqlMode, StatementPlace, StatementTime, read,
    read_table,
};
use lakeward_mysql::model::{MysqlColumn, MysqlType};

struct World {
    history: SchemaHistory,
    mode: SqlMode,
    at: u64,
    captured: fn(&TableId) -> bool,
}

impl World {
    /// Captures every table of `shop`.
    fn new() -> Self {
        let mut history = SchemaHistory::new("utf8mb4", 0);
        history.set_database_charset("shop", "utf8mb4");
        let captured = |t: &TableId| &*t.namespace == "shop";
        Self { history, mode: SqlMode::new(Flavor::MariaDb), at: 0, captured }
    }

    fn with(statements: &[&str]) -> Self {
        let mut world = Self::new();
        for sql in statements {
            world.run(sql);
        }
        world
    }

    fn place(&mut self) -> StatementPlace {
        self.at += 1;
        let time =
            StatementTime { micros: 1_700_000_000_500_000, has_fraction: false, offset_secs: None };
        let position = Position { hi: 1, lo: self.at };
        StatementPlace { position, commit_ms: 7, mode: self.mode, time }
    }

    fn run(&mut self, sql: &str) -> Outcome {
        let place = self.place();
        let mut outcome = Outcome::default();
        for statement in read(sql, &self.mode, Some("shop")).expect("readable") {
            let one = self.history.apply(&statement, &place, &selection(&self.captured));
            outcome.events.extend(one.events);
            outcome.resnapshots.extend(one.resnapshots);
            outcome.doubts.extend(one.doubts);
            outcome.reshaped.extend(one.reshaped);
        }
        let ids: HashSet<_> = outcome.events.iter().map(|e| &e.id).collect();
        assert_eq!(ids.len(), outcome.events.len(), "one event for a table and a statement");
        outcome
    }

    /// The statement must need no new snapshot and leave no doubt.
    fn clean(&mut self, sql: &str) -> Vec<SchemaEvent> {
        let outcome = self.run(sql);
        assert_eq!((outcome.resnapshots, outcome.doubts), (vec![], vec![]), "{sql}");
        outcome.events
    }

    fn changes(&mut self, sql: &str) -> Vec<SchemaChange> {
        let events = self.clean(sql);
        let [event] = &events[..] else { panic!("{sql}: {events:?}") };
        event.changes.clone()
    }

    fn columns(&self, name: &str) -> Vec<String> {
        let version = self.history.get(&table(name)).expect("known");
        version.schema.columns.iter().map(|c| c.name.to_string()).collect()
    }
}

fn selection<'a>(captured: &'a dyn Fn(&TableId) -> bool) -> Selection<'a> {
    let is_ghost = &|t: &TableId| {
        t.name.starts_with('_')
            && ["_gho", "_ghc", "_del", "_new", "_old"].iter().any(|s| t.name.ends_with(s))
    };
    Selection { is_captured: captured, is_ghost, types: &data_type }
}

fn data_type(column: &MysqlColumn) -> DataType {
    match column.column_type {
        MysqlType::Int { unsigned: false } => DataType::Int,
        MysqlType::Int { unsigned: true } | MysqlType::BigInt { unsigned: false } => {
            DataType::BigInt
        }
        MysqlType::Decimal { precision, scale, .. } => {
            DataType::Decimal { precision, scale: scale as i8 }
        }
        MysqlType::Float => DataType::Float,
        MysqlType::Double => DataType::Double,
        MysqlType::Date => DataType::Date,
        MysqlType::DateTime { fsp } => DataType::Timestamp { precision: fsp },
        MysqlType::Timestamp { fsp } => DataType::TimestampLtz { precision: fsp },
        MysqlType::Varchar { length, .. } => DataType::Varchar { length },
        _ => DataType::String,
    }
}

fn table(name: &str) -> TableId {
    match name.split_once('.') {
        Some((namespace, name)) => TableId::new(namespace, name),
        None => TableId::new("shop", name),
    }
}

fn kinds(events: &[SchemaEvent]) -> Vec<String> {
    let kinds = |event: &SchemaEvent| {
        let kinds: Vec<&str> = event.changes.iter().map(SchemaChange::kind).collect();
        format!("{}: {}", event.table.name, kinds.join(" "))
    };
    events.iter().map(kinds).collect()
}

fn added(changes: &[SchemaChange]) -> Vec<(String, Literal, ColumnPlace)> {
    let one = |change: &SchemaChange| match change {
        SchemaChange::AddColumn { column, place, existing_rows } => {
            Some((column.name.to_string(), existing_rows.clone(), place.clone()))
        }
        _ => None,
    };
    changes.iter().filter_map(one).collect()
}

fn after(name: &str) -> ColumnPlace {
    ColumnPlace::After(Arc::from(name))
}

#[test]
fn an_enum_that_is_reordered_keeps_its_texts() {
    let mut world = World::with(&["CREATE TABLE e(id INT PRIMARY KEY, v ENUM('low','high'))"]);
    let outcome = world.run("ALTER TABLE e MODIFY v ENUM('high','mid','low')");
    assert_eq!((outcome.events.len(), outcome.resnapshots.len()), (0, 0));
    assert_eq!(outcome.reshaped, [table("e")]);
    let version = world.history.get(&table("e")).expect("known");
    assert_eq!(version.schema.version, 1);
    let MysqlType::Enum { labels, .. } = &version.shape.columns[1].column_type else { panic!() };
    assert_eq!(&*labels[0], "high");

    let outcome = world.run("ALTER TABLE e MODIFY v ENUM('HIGH','mid','low')");
    assert!(!outcome.resnapshots[0].reset, "the label may have become another text");
}

#[test]
fn columns_are_placed_by_name() {
    let mut world = World::with(&["CREATE TABLE o(id INT PRIMARY KEY, a INT, b INT)"]);
    let changes = world.changes("ALTER TABLE o ADD COLUMN f INT FIRST");
    assert_eq!(added(&changes), [("f".into(), Literal::Null, ColumnPlace::First)]);
    let changes = world.changes("ALTER TABLE o ADD COLUMN m INT AFTER a, ADD COLUMN n INT AFTER m");
    assert_eq!(
        added(&changes),
        [("m".into(), Literal::Null, after("a")), ("n".into(), Literal::Null, after("m"))]
    );
    assert_eq!(world.columns("o"), ["f", "id", "a", "m", "n", "b"]);
    assert_eq!(
        world.changes("ALTER TABLE o MODIFY f INT AFTER n"),
        [SchemaChange::MoveColumn { name: "f".into(), place: after("n") }]
    );
}

#[test]
fn added_columns_say_what_old_rows_hold() {
    let mut world = World::with(&["CREATE TABLE df(id INT PRIMARY KEY, n VARCHAR(10))"]);
    let changes = world.changes(
        "ALTER TABLE df ADD COLUMN c1 INT NOT NULL DEFAULT 17, ADD COLUMN c2 VARCHAR(5) DEFAULT 'q', ADD COLUMN c3 INT, \
         ADD c4 VARCHAR(5) NOT NULL, ADD c5 DATE NOT NULL, ADD c6 ENUM('x','y') NOT NULL, \
         ADD c7 TIMESTAMP DEFAULT CURRENT_TIMESTAMP, ADD c8 DECIMAL(10,2) DEFAULT 1.5",
    );
    let values: Vec<Literal> = added(&changes).into_iter().map(|(_, value, _)| value).collect();
    assert_eq!(
        values,
        [
            Literal::Long(17),
            Literal::String("q".into()),
            Literal::Null,
            Literal::String("".into()),
            Literal::Null,
            Literal::String("x".into()),
            Literal::Long(1_700_000_000_000_000),
            Literal::Decimal(150)
        ]
    );
    assert!(added(&changes).iter().all(|(_, _, place)| *place == ColumnPlace::Last));
}

#[test]
fn what_only_the_server_knows_is_read_anew() {
    for (column, key) in [
        ("u VARCHAR(36) DEFAULT (uuid())", true),
        ("g INT AS (id + 1) STORED", true),
        // The session's time zone is not known here.
        ("d DATETIME DEFAULT NOW()", true),
        ("d TIMESTAMP(3) DEFAULT NOW(3)", true),
        ("t TIMESTAMP DEFAULT '2024-01-01 00:00:00'", true),
        ("u VARCHAR(36) DEFAULT (uuid())", false),
    ] {
        let key = if key { "PRIMARY KEY" } else { "" };
        let mut world = World::with(&[&format!("CREATE TABLE t(id INT NOT NULL {key})")]);
        let outcome = world.run(&format!("ALTER TABLE t ADD {column}"));
        let [resnapshot] = &outcome.resnapshots[..] else { panic!("{column}") };
        // Without a key the new rows could not replace the old ones.
        assert_eq!(resnapshot.reset, key.is_empty());
        let expected = if key.is_empty() { "t: reset.table" } else { "t: add.column" };
        assert_eq!(kinds(&outcome.events), [expected], "{column}");
    }
}

#[test]
fn renamed_columns_keep_their_identity() {
    let mut world = World::with(&[
        "CREATE TABLE rc(id INT PRIMARY KEY, price DECIMAL(10,3), note VARCHAR(20))",
        "CREATE TABLE sw(id INT PRIMARY KEY, a INT, b INT)",
    ]);
    let rename =
        |from: &str, to: &str| SchemaChange::RenameColumn { from: from.into(), to: to.into() };
    let changes = world.changes("ALTER TABLE rc RENAME COLUMN price TO amount");
    assert_eq!(changes, [rename("price", "amount")]);
    assert_eq!(
        world.changes("ALTER TABLE rc CHANGE note `remark` VARCHAR(40)"),
        [
            rename("note", "remark"),
            SchemaChange::AlterColumnType {
                name: "remark".into(),
                from: DataType::Varchar { length: 20 },
                to: DataType::Varchar { length: 40 }
            }
        ]
    );
    let changes = world.changes("ALTER TABLE sw RENAME COLUMN a TO b, RENAME COLUMN b TO a");
    assert_eq!(changes, [rename("a", "b"), rename("b", "a")]);
    assert_eq!(world.columns("sw"), ["id", "b", "a"]);
    let changes = world.changes("ALTER TABLE sw CHANGE id key_id INT");
    assert_eq!(changes, [rename("id", "key_id")]);
    let version = world.history.get(&table("sw")).expect("known");
    assert_eq!(*version.schema.primary_key, ["key_id".into()]);
    assert_eq!(version.schema.version, 3);
}

#[test]
fn widening_is_no_more_than_metadata() {
    let mut world = World::with(&[
        "CREATE TABLE w(id INT PRIMARY KEY, a INT, f FLOAT, d DECIMAL(10,2), s VARCHAR(5))",
    ]);
    let events = world.clean(
        "ALTER TABLE w MODIFY id BIGINT, MODIFY a BIGINT, MODIFY f DOUBLE, MODIFY d DECIMAL(20,2), MODIFY s TEXT",
    );
    assert_eq!(kinds(&events), [format!("w:{}", " alter.column.type".repeat(5))]);
    let version = world.history.get(&table("w")).expect("known");
    assert!(!version.schema.columns[0].nullable, "a key column stays NOT NULL");

    let outcome = world.run("ALTER TABLE w MODIFY a VARCHAR(20)");
    assert_eq!(kinds(&outcome.events), ["w: reset.table"]);
    assert!(outcome.resnapshots[0].reset);
    world.mode.strict = false;
    let outcome = world.run("ALTER TABLE w MODIFY s TEXT NOT NULL");
    assert_eq!(kinds(&outcome.events), ["w: alter.column.nullable"]);
    assert!(!outcome.resnapshots[0].reset, "nulls became empty strings");
}

#[test]
fn if_exists_is_taken_at_its_word() {
    let mut world = World::with(&["CREATE TABLE dp(id INT PRIMARY KEY, a INT, synced INT, z INT)"]);
    world.clean("ALTER TABLE dp DROP COLUMN synced");
    world.clean(
        "ALTER TABLE IF EXISTS dp DROP COLUMN IF EXISTS nope, DROP COLUMN IF EXISTS a, \
         MODIFY COLUMN IF EXISTS nope INT, ADD COLUMN IF NOT EXISTS z INT",
    );
    assert_eq!(world.columns("dp"), ["id", "z"]);
    assert_eq!(world.clean("DROP TABLE IF EXISTS nope"), []);
    assert_eq!(world.clean("CREATE TABLE IF NOT EXISTS dp (x INT)"), []);
}

#[test]
fn tables_come_and_go() {
    let mut world = World::new();
    let events = world.clean("CREATE TABLE dc(id INT PRIMARY KEY, a VARCHAR(10), b INT)");
    assert_eq!(kinds(&events), ["dc: create.table"]);
    let events = world.clean("TRUNCATE TABLE dc");
    assert_eq!(kinds(&events), ["dc: truncate.table"]);
    assert_eq!(events[0].before, events[0].after);
    let events = world.clean("DROP TABLE dc");
    assert_eq!(kinds(&events), ["dc: drop.table"]);
    assert!(events[0].after.is_none() && world.history.get(&table("dc")).is_none());
    let events = world.clean("CREATE TABLE dc(b INT, id BIGINT PRIMARY KEY, c DATE)");
    assert_eq!(kinds(&events), ["dc: create.table"]);
    let schema = events[0].after.as_ref().expect("it exists");
    assert_eq!(schema.version, 2, "versions go on counting");
    let events = world.clean("CREATE OR REPLACE TABLE dc(b INT)");
    assert_eq!(kinds(&events), ["dc: reset.table"]);
    world.clean("CREATE TABLE nt2 LIKE dc");
    assert_eq!(world.columns("nt2"), ["b"]);
    let mut dropped = kinds(&world.clean("DROP DATABASE shop"));
    dropped.sort();
    assert_eq!(dropped, ["dc: drop.table", "nt2: drop.table"]);
    assert_eq!(world.clean("CREATE TEMPORARY TABLE dc (a INT)"), []);
}

#[test]
fn gh_ost_ends_as_one_change_in_place() {
    let mut world = World::with(&["CREATE TABLE ord(id INT PRIMARY KEY, amt INT)"]);
    for sql in [
        "create /* gh-ost */ table `_ord_ghc`(id bigint auto_increment, last_update timestamp not null default current_timestamp on update current_timestamp, hint varchar(64) charset ascii not null, value varchar(4096) charset ascii not null, primary key(id), unique key hint_uidx(hint)) auto_increment=256",
        "create /* gh-ost */ table `_ord_gho` like `ord`",
        "alter /* gh-ost */ table `_ord_gho` add column st varchar(5) not null default 'new'",
        "create /* gh-ost */ table `_ord_del`(id int auto_increment primary key) comment='ghost-cut-over-sentry'",
        "drop table if exists `_ord_del`",
    ] {
        assert_eq!(world.clean(sql), [], "{sql}");
    }
    let changes =
        world.changes("rename /* gh-ost */ table `ord` to `_ord_del`, `_ord_gho` to `ord`");
    assert_eq!(added(&changes), [("st".into(), Literal::String("new".into()), ColumnPlace::Last)]);
    assert_eq!(changes.len(), 1);
    assert_eq!(world.columns("ord"), ["id", "amt", "st"]);
    assert_eq!(world.clean("drop table if exists `_ord_ghc`"), []);

    // Back again: the old table missed what was written since.
    let outcome = world.run("rename table `ord` to `_ord_gho`, `_ord_del` to `ord`");
    assert_eq!(kinds(&outcome.events), ["ord: reset.table"]);
    assert!(outcome.resnapshots[0].reset);
    assert_eq!(world.columns("ord"), ["id", "amt"]);
}

#[test]
fn pt_online_schema_change_too() {
    let mut world = World::with(&["CREATE TABLE t(id INT PRIMARY KEY, a INT, b INT, d INT)"]);
    world.clean("CREATE TABLE `shop`.`_t_new` (`id` int NOT NULL, `a` int DEFAULT NULL, `b` int DEFAULT NULL, `d` int DEFAULT NULL, PRIMARY KEY (`id`))");
    world.clean("ALTER TABLE `shop`.`_t_new` ADD COLUMN c INT NOT NULL DEFAULT '0' FIRST, DROP COLUMN b, MODIFY a BIGINT");
    let events =
        world.clean("RENAME TABLE `shop`.`t` TO `shop`.`_t_old`, `shop`.`_t_new` TO `shop`.`t`");
    assert_eq!(kinds(&events), ["t: drop.column alter.column.type add.column"]);
    assert_eq!(events[0].after.as_ref().expect("it exists").version, 2);
    assert_eq!(world.clean("DROP TABLE IF EXISTS `shop`.`_t_old`"), []);
}

#[test]
fn what_a_tool_does_with_rows_it_cannot_show_is_read_anew() {
    for (alter, reset) in [
        ("ADD u VARCHAR(36) DEFAULT (uuid())", false),
        ("ADD d TIMESTAMP DEFAULT CURRENT_TIMESTAMP", false),
        ("CHANGE a z INT", false),
        ("ADD UNIQUE (a)", true),
        ("MODIFY a VARCHAR(9)", true),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (a)", true),
    ] {
        let mut world = World::with(&["CREATE TABLE t(id INT PRIMARY KEY, a INT)"]);
        world.clean("CREATE TABLE _t_gho LIKE t");
        world.clean(&format!("ALTER TABLE _t_gho {alter}"));
        let outcome = world.run("RENAME TABLE t TO _t_del, _t_gho TO t");
        assert_eq!(outcome.resnapshots.len(), 1, "{alter}");
        assert_eq!(outcome.resnapshots[0].reset, reset, "{alter}");
    }
}

#[test]
fn a_stranger_renamed_into_capture_is_read_anew() {
    let mut world = World::new();
    world.captured = |t| &*t.namespace == "shop" && &*t.name == "lot";
    world.run("CREATE TABLE lot(id INT PRIMARY KEY)");
    assert_eq!(world.clean("CREATE TABLE lot_new(id INT PRIMARY KEY)"), []);
    assert_eq!(world.clean("ALTER TABLE lot_new ADD COLUMN a INT"), []);
    assert_eq!(kinds(&world.clean("DROP TABLE lot")), ["lot: drop.table"]);
    let outcome = world.run("RENAME TABLE lot_new TO lot");
    assert_eq!(kinds(&outcome.events), ["lot: create.table"]);
    assert_eq!(outcome.resnapshots[0].table, table("lot"));
    assert_eq!(world.columns("lot"), ["id", "a"]);

    // In one statement, and where nothing is known of the stranger.
    let outcome = world.run("RENAME TABLE lot TO lot_old, other.lot TO lot");
    assert_eq!((outcome.events.len(), outcome.doubts.len()), (0, 1));
    assert!(world.history.get(&table("lot")).is_none());
    let shape = read_table("CREATE TABLE lot (x INT)", &world.mode, "latin1").expect("readable");
    let place = world.place();
    let captured = world.captured;
    let outcome = world.history.adopt(&table("lot"), Some(shape), &place, &selection(&captured));
    assert_eq!(kinds(&outcome.events), ["lot: reset.table"]);
    assert!(outcome.resnapshots[0].reset);

    let outcome = world.run("RENAME TABLE lot TO lot_gone");
    assert_eq!(kinds(&outcome.events), ["lot: drop.table"]);
}

#[test]
fn captured_names_change_hands() {
    let shop = ["CREATE TABLE a(id INT PRIMARY KEY)", "CREATE TABLE b(id INT PRIMARY KEY, x INT)"];
    let mut world = World::with(&shop);
    let events = world.clean("RENAME TABLE b TO c, a TO b");
    assert_eq!(kinds(&events), ["b: rename.table", "a: rename.table"]);
    assert_eq!(world.columns("b"), ["id"]);
    assert_eq!(world.columns("c"), ["id", "x"]);
    assert!(world.history.get(&table("a")).is_none());
    let version = &events[1].after.as_ref().expect("it exists").version;
    assert_eq!(*version, 2, "above what b had before");

    let mut world = World::with(&shop);
    let events = world.clean("ALTER TABLE b ADD y INT, RENAME TO d");
    assert_eq!(kinds(&events), ["b: add.column rename.table"]);
    assert_eq!(world.columns("d"), ["id", "x", "y"]);

    // A ring has no order in which a target could rename.
    let mut world = World::with(&shop);
    let outcome = world.run("RENAME TABLE a TO tmp, b TO a, tmp TO b");
    let mut reset = kinds(&outcome.events);
    reset.sort();
    assert_eq!(reset, ["a: reset.table", "b: reset.table"]);
    assert_eq!(outcome.resnapshots.len(), 2);
    assert_eq!(world.columns("a"), ["id", "x"]);

    let mut world = World::with(&shop);
    let outcome = world.run("RENAME TABLE a TO a_old, b TO a");
    assert_eq!(kinds(&outcome.events), ["a: rename.table", "b: rename.table"]);

    // To and fro is nothing.
    let mut world = World::with(&shop);
    assert_eq!(world.clean("RENAME TABLE a TO tmp, tmp TO a"), []);
    assert_eq!(world.columns("a"), ["id"]);
    let events = world.clean("RENAME TABLE b TO elsewhere.b, a TO b");
    assert_eq!(kinds(&events), ["b: drop.table", "a: rename.table"]);
}

#[test]
fn a_statement_beyond_the_reader_asks_the_catalog() {
    let mut world = World::with(&["CREATE TABLE t(id INT PRIMARY KEY)"]);
    let captured = world.captured;
    let before = world.history.get(&table("t")).cloned().expect("known");
    for sql in [
        "ALTER TABLE t FROBNICATE id",
        "ALTER TABLE t DROP COLUMN nope",
        "CREATE TABLE t2 AS SELECT 1",
    ] {
        let outcome = world.run(sql);
        assert_eq!((outcome.doubts.len(), outcome.events.len()), (1, 0), "{sql}");
    }
    assert!(world.history.get(&table("t")).is_none());
    let place = world.place();
    let shape = (*before.shape).clone();
    let outcome = world.history.adopt(&table("t"), Some(shape), &place, &selection(&captured));
    assert_eq!(outcome, Outcome::default());
    assert_eq!(world.history.get(&table("t")), Some(&before));

    world.run("ALTER TABLE t FROBNICATE id");
    let shape = read_table("CREATE TABLE t (x INT)", &world.mode, "latin1").expect("readable");
    let outcome = world.history.adopt(&table("t"), Some(shape), &place, &selection(&captured));
    assert_eq!(kinds(&outcome.events), ["t: reset.table"]);
    assert_eq!(outcome.resnapshots.len(), 1);

    world.run("ALTER TABLE t FROBNICATE id");
    let outcome = world.history.adopt(&table("t"), None, &place, &selection(&captured));
    assert_eq!(kinds(&outcome.events), ["t: drop.table"]);
}

#[test]
fn rows_that_go_without_row_events_are_read_anew() {
    let mut world =
        World::with(&["CREATE TABLE t(id INT PRIMARY KEY)", "CREATE TABLE u(id INT PRIMARY KEY)"]);
    for sql in [
        "ALTER TABLE t DROP PARTITION p0, p1",
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u",
        "ALTER IGNORE TABLE t ADD UNIQUE (id)",
    ] {
        let outcome = world.run(sql);
        assert!(!outcome.resnapshots.is_empty() && outcome.resnapshots.iter().all(|r| r.reset));
        assert!(kinds(&outcome.events).iter().all(|k| k.ends_with("reset.table")), "{sql}");
        assert_eq!(outcome.events.len(), if sql.contains("EXCHANGE") { 2 } else { 1 });
    }
}

#[test]
fn the_history_survives_its_state() {
    let mut world =
        World::with(&["CREATE TABLE t(id INT PRIMARY KEY)", "CREATE TABLE _t_gho LIKE t"]);
    world.clean("ALTER TABLE _t_gho ADD a INT DEFAULT 4");
    let state = serde_json::to_vec(&world.history).expect("encodes");
    let mut restored = World::new();
    restored.history = serde_json::from_slice(&state).expect("decodes");
    restored.at = world.at;
    let sql = "RENAME TABLE t TO _t_del, _t_gho TO t";
    assert_eq!(world.run(sql), restored.run(sql));
}

#[test]
fn names_fold_where_the_server_folds_them() {
    let mut world = World::new();
    world.history = SchemaHistory::new("utf8mb4", 1);
    world.run("CREATE TABLE Mixed(id INT PRIMARY KEY)");
    assert!(world.history.get(&table("mixed")).is_some());
    let events = world.clean("ALTER TABLE MIXED ADD a INT");
    assert_eq!(events[0].table, table("mixed"));
    let mut world = World::with(&["CREATE TABLE Mixed(id INT PRIMARY KEY)"]);
    assert_eq!(world.run("ALTER TABLE mixed ADD a INT").doubts.len(), 1);
}

#[test]
fn empty_text_null_and_defaults_stay_apart() {
    let world = World::with(&[
        "CREATE TABLE nd(id INT PRIMARY KEY, a VARCHAR(5) DEFAULT 'dd', b INT DEFAULT 5, c VARCHAR(5) NOT NULL DEFAULT '', d INT)",
    ]);
    let version = world.history.get(&table("nd")).expect("known");
    let defaults: Vec<_> = version.schema.columns.iter().map(|c| c.default.clone()).collect();
    assert_eq!(
        defaults,
        [
            None,
            Some(Literal::String("dd".into())),
            Some(Literal::Long(5)),
            Some(Literal::String("".into())),
            Some(Literal::Null)
        ]
    );
}
