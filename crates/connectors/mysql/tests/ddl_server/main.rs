//! Random ALTERs against real servers: after each one the tracked shape must be what SHOW CREATE TABLE says, the emitted
//! schema changes must lead from the old schema to the new one, and the rows must hold what the changes promise: the
//! constants of added columns, and unchanged values everywhere else, unless a new snapshot is asked for.

mod changes;
mod statements;
mod values;

use lakeward_core::{DataType, Position, SchemaEvent, TableId};
use lakeward_mysql::ddl::{
    Flavor, Outcome, SchemaHistory, Selection, SqlMode, StatementPlace, StatementTime, read,
    read_table,
};
use lakeward_mysql::model::{MysqlColumn, MysqlDefault, MysqlTable, MysqlType};
use lakeward_testkit::sql::Session;
use lakeward_testkit::{mariadb, mysql9};

use statements::Statements;

/// `LAKEWARD_SEEDS=100..400` runs others.
const SEEDS: std::ops::Range<u64> = 0..24;
const STATEMENTS_PER_SEED: usize = 25;
/// The time that the sessions are told it is, in whole seconds: both servers then log it without a fraction.
const NOW_SECS: i64 = 1_700_000_000;
const OFFSET_SECS: i32 = 7200;

#[test]
fn mariadb_agrees_after_every_alter() {
    let Some(server) = mariadb::start_or_skip() else { return };
    walk_all(server.session(None).expect("a session"), Flavor::MariaDb);
}

#[test]
fn mysql_agrees_after_every_alter() {
    let Some(server) = mysql9::start_or_skip() else { return };
    walk_all(server.session(None).expect("a session"), Flavor::MySql);
}

fn walk_all(mut session: Session, flavor: Flavor) {
    let wanted = std::env::var("LAKEWARD_SEEDS").ok();
    let wanted = wanted.as_deref().and_then(|range| range.split_once(".."));
    let wanted = wanted.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    let is_default = wanted.is_none();
    let seeds = wanted.unwrap_or(SEEDS);
    let mut applied = 0;
    for seed in seeds {
        applied += Walk::new(&mut session, flavor, seed).run();
    }
    assert!(!is_default || applied > 150, "only {applied} statements were valid");
}

struct Walk<'a> {
    session: &'a mut Session,
    mode: SqlMode,
    seed: u64,
    statements: Statements,
    history: SchemaHistory,
    table: TableId,
}

impl<'a> Walk<'a> {
    fn new(session: &'a mut Session, flavor: Flavor, seed: u64) -> Self {
        let mut mode = SqlMode::new(flavor);
        mode.strict = seed % 4 != 3;
        mode.explicit_defaults_for_timestamp = seed % 5 != 4;
        let sql_mode = if mode.strict { "STRICT_ALL_TABLES" } else { "" };
        let explicit = u8::from(mode.explicit_defaults_for_timestamp);
        let database_charset = if seed % 2 == 0 { "latin1" } else { "utf8mb4" };
        session
            .run_all([
                "DROP DATABASE IF EXISTS walk",
                &format!("CREATE DATABASE walk CHARACTER SET {database_charset}"),
                "USE walk",
                "SET NAMES utf8mb4",
                &format!("SET sql_mode='{sql_mode}'"),
                &format!("SET explicit_defaults_for_timestamp={explicit}"),
                &format!("SET timestamp={NOW_SECS}"),
            ])
            .expect("the session is set up");
        let mut history = SchemaHistory::new("latin1", 0);
        history.set_database_charset("walk", database_charset);
        let statements = Statements::new(seed, flavor);
        Self { session, mode, seed, statements, history, table: TableId::new("walk", "t") }
    }

    /// How many statements the server took.
    fn run(mut self) -> usize {
        let create = loop {
            let sql = self.statements.create();
            if self.session.run(&sql).is_ok() {
                break sql;
            }
        };
        let shown = self.session.rows("SHOW CREATE TABLE t").expect("the table is there");
        self.apply(&create, 0, &shown[0][1]);
        let mut applied = 1;
        for n in 1..=STATEMENTS_PER_SEED {
            let shape = self.shape();
            if let Some(sql) = self.statements.insert(&shape) {
                let _ = self.session.run(&sql);
            }
            let sql = self.statements.alter(&shape);
            self.session.run("SET time_zone='+00:00'").expect("a time zone");
            let before = values::all(self.session, &shape);
            self.session.run("SET time_zone='+02:00'").expect("a time zone");
            if self.session.run(&sql).is_err() {
                continue;
            }
            // Defaults of binary columns are shown as raw bytes: text that is none ends the walk.
            let Ok(shown) = self.session.rows("SHOW CREATE TABLE t") else { break };
            applied += 1;
            let outcome = self.apply(&sql, n as u64, &shown[0][1]);
            if !outcome.doubts.is_empty() {
                break;
            }
            self.session.run("SET time_zone='+00:00'").expect("a time zone");
            self.check_values(&sql, &shape, &before, &outcome);
        }
        applied
    }

    fn shape(&self) -> MysqlTable {
        (*self.history.get(&self.table).expect("the table is known").shape).clone()
    }

    fn apply(&mut self, sql: &str, position: u64, shown: &Option<String>) -> Outcome {
        let context = format!("seed {}, statement {position}: {sql}", self.seed);
        let before = self.history.get(&self.table).cloned();
        let place = StatementPlace {
            position: Position { hi: 1, lo: position },
            commit_ms: 0,
            mode: self.mode,
            time: StatementTime {
                micros: NOW_SECS * 1_000_000,
                has_fraction: true,
                offset_secs: Some(OFFSET_SECS),
            },
        };
        let statements = read(sql, &self.mode, Some("walk")).expect("readable");
        assert_eq!(statements.len(), 1, "{context}");
        let outcome = self.history.apply(&statements[0], &place, &selection());
        if let [doubt] = &outcome.doubts[..] {
            assert!(doubt.reason.contains("redeclares a BLOB or TEXT"), "{context}: {doubt:?}");
            return outcome;
        }
        assert!(outcome.events.len() <= 1, "{context}");

        // TIMESTAMP defaults are shown in the session's time zone.
        let shown = shown.as_deref().expect("a definition");
        let mut mode = self.mode;
        mode.explicit_defaults_for_timestamp = true;
        let expected = read_table(shown, &mode, "latin1").expect("readable");
        let after = self.history.get(&self.table).expect("the table is known").clone();
        let (is, should) = (comparable(&after.shape), comparable(&expected));
        assert_eq!(is, should, "{context}\n{shown}");

        if let [SchemaEvent { changes, .. }] = &outcome.events[..]
            && let Some(before) = before
        {
            let led = changes::apply(&before.schema, changes);
            match led {
                Some(led) => changes::assert_same(&led, &after.schema, &context),
                None => assert!(outcome.resnapshots.iter().all(|r| r.reset), "{context}"),
            }
        } else if let Some(before) = before {
            changes::assert_same(&before.schema, &after.schema, &context);
        }
        outcome
    }

    fn check_values(
        &mut self,
        sql: &str,
        old: &MysqlTable,
        before: &values::Values,
        outcome: &Outcome,
    ) {
        if !outcome.resnapshots.is_empty() {
            return;
        }
        let new = self.shape();
        let after = values::all(self.session, &new);
        let changes = outcome.events.first().map(|e| e.changes.as_slice()).unwrap_or_default();
        let context = format!("seed {}: {sql}", self.seed);
        values::check(old, before, &new, &after, changes, &context);
    }
}

fn selection() -> Selection<'static> {
    Selection { is_captured: &|_| true, is_ghost: &|_| false, types: &data_type }
}

/// Defaults are compared by their meaning, through the schema; here only by their kind.
fn comparable(table: &MysqlTable) -> MysqlTable {
    let mut table = table.clone();
    for column in &mut table.columns {
        column.default = match &column.default {
            MysqlDefault::None | MysqlDefault::Null if column.nullable => MysqlDefault::Null,
            // MariaDB shows the implicit default of an invisible column as if it were declared.
            MysqlDefault::None if column.invisible => MysqlDefault::Text("…".into()),
            MysqlDefault::Text(_) | MysqlDefault::Bytes(_) => MysqlDefault::Text("…".into()),
            other => other.clone(),
        };
    }
    table
}

fn data_type(column: &MysqlColumn) -> DataType {
    match column.column_type {
        MysqlType::TinyInt { .. } | MysqlType::SmallInt { .. } | MysqlType::MediumInt { .. } => {
            DataType::Int
        }
        MysqlType::Int { unsigned: false } | MysqlType::Year => DataType::Int,
        MysqlType::Int { unsigned: true } | MysqlType::BigInt { unsigned: false } => {
            DataType::BigInt
        }
        MysqlType::Bit { width } if width < 64 => DataType::BigInt,
        MysqlType::BigInt { .. } | MysqlType::Bit { .. } => {
            DataType::Decimal { precision: 20, scale: 0 }
        }
        MysqlType::Decimal { precision, scale, .. } if precision <= 38 => {
            DataType::Decimal { precision, scale: scale as i8 }
        }
        MysqlType::Float => DataType::Float,
        MysqlType::Double => DataType::Double,
        MysqlType::Date => DataType::Date,
        MysqlType::Time { fsp } => DataType::Time { precision: fsp },
        MysqlType::DateTime { fsp } => DataType::Timestamp { precision: fsp },
        MysqlType::Timestamp { fsp } => DataType::TimestampLtz { precision: fsp },
        MysqlType::Char { length, .. } => DataType::Char { length },
        MysqlType::Varchar { length, .. } => DataType::Varchar { length },
        MysqlType::Binary { length } => DataType::Binary { length },
        MysqlType::Varbinary { length } => DataType::Varbinary { length },
        MysqlType::Blob { .. } | MysqlType::Geometry | MysqlType::Vector { .. } => DataType::Bytes,
        MysqlType::Json => DataType::Json,
        _ => DataType::String,
    }
}
