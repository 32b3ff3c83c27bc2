//! Runs one case on one server in one mode, with the real binary.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::cases::{Case, Mode, Statement, Variant};
use crate::compare;
use crate::form::{of_expected, of_lake_kind};
use crate::lake::{Lake, LakeTable, Reader};
use crate::lakeward::{Lakeward, Pipeline};
use crate::server::{Kind, Server};
use crate::sql::{Session, quote};

/// Tables of the product itself.
const OWN_TABLES: &str = "__lakeward";

/// Settings that cases change, as they are before each case.
const GLOBALS: &[(Kind, &str)] = &[
    (Kind::MariaDb, "time_zone='+00:00'"),
    (Kind::MySql9, "time_zone='+00:00'"),
    (Kind::MariaDb, "binlog_row_metadata='FULL'"),
    (Kind::MySql9, "binlog_row_metadata='FULL'"),
    (Kind::MariaDb, "log_bin_compress=OFF"),
    (Kind::MySql9, "binlog_transaction_compression=OFF"),
];

/// A case with everything chosen.
#[derive(Debug, Clone)]
pub struct CaseRun {
    pub case: Case,
    pub mode: Mode,
    pub variant: Option<Variant>,
    pub kind: Kind,
}

impl CaseRun {
    /// `case on server, mode`: what the runner prints and what a filter matches.
    pub fn name(&self) -> String {
        let variant = self.variant.as_ref().map(|v| format!(", {}", v.name)).unwrap_or_default();
        format!("{} on {}, {}{variant}", self.case.name, self.kind.name(), self.mode.name())
    }

    /// Runs it. What went wrong is in the error, with the folder of the run, which is then kept.
    pub fn run(&self, server: &Server) -> Result<()> {
        self.prepare(server)?;
        let mut lakeward = Lakeward::in_temporary_folder(|folder| {
            let mut pipeline = Pipeline::new(&self.case.name, server, &self.case.tables(), folder)
                .set_all("source", &self.case.source)
                .set_all("sink", &self.case.sink);
            if self.mode == Mode::Parallel {
                pipeline = pipeline.set("pipeline", "parallelism", 2);
            }
            for (section, rules) in
                [("route", &self.case.route), ("transform", &self.case.transform)]
            {
                if !rules.is_empty() {
                    pipeline = pipeline.set(section, "", Value::Array(rules.clone()));
                }
            }
            pipeline
        })?;
        let outcome = self.run_and_check(server, &mut lakeward);
        let _ = lakeward.kill();
        outcome.map_err(|error| {
            let kept = lakeward.keep_folder();
            anyhow!("{error:#}\n  kept: {}", kept.display())
        })?;
        self.tidy_up(server)
    }

    fn databases(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.case.name).chain(&self.case.databases)
    }

    fn prepare(&self, server: &Server) -> Result<()> {
        self.tidy_up(server)?;
        let mut root = server.session(None)?;
        for (kind, setting) in GLOBALS {
            if *kind == server.kind() {
                root.run(&format!("SET GLOBAL {setting}"))?;
            }
        }
        for database in self.databases() {
            root.run(&format!("CREATE DATABASE {} CHARACTER SET utf8mb4", quote(database)))?;
        }
        for sql in self.variant.iter().flat_map(|v| &v.before) {
            root.run(sql)?;
        }
        Client::new(server, &self.case.name).run(&self.case.setup, |_| {})
    }

    fn tidy_up(&self, server: &Server) -> Result<()> {
        let mut root = server.session(None)?;
        self.databases()
            .try_for_each(|d| root.run(&format!("DROP DATABASE IF EXISTS {}", quote(d))))
    }

    fn run_and_check(&self, server: &Server, lakeward: &mut Lakeward) -> Result<()> {
        if let Err(error) = self.drive(server, lakeward) {
            let stopped = lakeward.exit_within(Duration::from_secs(10)).is_ok_and(|code| code != 0);
            let log = lakeward.log();
            return match &self.case.may_stop {
                Some(words) if stopped && names_the_cause(&log, words) => Ok(()),
                _ => Err(error),
            };
        }
        if let Some(limit_mb) = self.case.peak_memory_mb {
            let peak = lakeward.process().and_then(|p| p.peak_memory_bytes());
            let peak_mb = peak.context("the run has no memory figure")? >> 20;
            if peak_mb > limit_mb {
                bail!("the run took {peak_mb} MB, more than {limit_mb} MB");
            }
        }
        self.check(server, &lakeward.lake())?;
        lakeward.stop()?;
        let log = lakeward.log();
        if log.contains(crate::server::PASSWORD) {
            bail!("the password stands in the log");
        }
        match log.lines().find(|line| line.contains("panicked at")) {
            Some(line) => bail!("a panic: {line}"),
            None => Ok(()),
        }
    }

    fn drive(&self, server: &Server, lakeward: &mut Lakeward) -> Result<()> {
        let mut client = Client::new(server, &self.case.name);
        lakeward.start()?;
        match self.mode {
            Mode::Plain | Mode::Parallel => {
                lakeward.wait_streaming()?;
                client.run(&self.case.live, |_| {})?;
            }
            Mode::Restarted => {
                lakeward.wait_streaming()?;
                lakeward.stop()?;
                client.run(&self.case.live, |_| {})?;
                lakeward.start()?;
            }
            Mode::Killed => self.drive_killed(&mut client, lakeward)?,
        }
        if self.mode != Mode::Plain && !lakeward.is_up_within(Duration::from_secs(60))? {
            bail!("the run ended by itself: {}", lakeward.tail(8));
        }
        lakeward.wait_caught_up()
    }

    /// The statements run in their own time while the pipeline is killed and started again.
    fn drive_killed(&self, client: &mut Client<'_>, lakeward: &mut Lakeward) -> Result<()> {
        const KILLS: u32 = 4;
        let mut pauses = Random::new(&self.name());
        let mut pace = Random::new(&format!("pace of {}", self.name()));
        let live = &self.case.live;
        std::thread::scope(|scope| {
            let changes =
                scope.spawn(move || client.run(live, |_| std::thread::sleep(pace.up_to_ms(150))));
            for _ in 0..KILLS {
                std::thread::sleep(pauses.up_to_ms(1500));
                lakeward.kill()?;
                lakeward.start()?;
            }
            changes.join().map_err(|_| anyhow!("the client of the source panicked"))?
        })
    }

    fn check(&self, server: &Server, lake: &Lake) -> Result<()> {
        let tables = lake.tables()?;
        let mut problems = Vec::new();
        for reader in Reader::ALL {
            if self.case.compared {
                self.compare_with_source(server, lake, &tables, reader, &mut problems)?;
            }
            self.compare_with_expected(lake, &tables, reader, &mut problems)?;
        }
        self.check_schemas(&tables, &mut problems)?;
        for table in &tables {
            if self.case.absent.contains(&table.name) {
                problems.push(format!("{} must not be in the lake", table.name));
            }
        }
        if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n  ")) }
    }

    fn compare_with_source(
        &self,
        server: &Server,
        lake: &Lake,
        tables: &[LakeTable],
        reader: Reader,
        problems: &mut Vec<String>,
    ) -> Result<()> {
        let mut session = server.session(None)?;
        for database in self.databases() {
            for name in compare::source_tables(&mut session, database)? {
                if !self.case.watch.is_empty() && !self.case.watch.contains(&name) {
                    continue;
                }
                let Some(found) =
                    tables.iter().find(|t| t.namespace == *database && t.name == name)
                else {
                    problems.push(format!("{database}.{name} is not in the lake"));
                    continue;
                };
                let compared = compare::table(&mut session, database, &name, lake, found, reader)?;
                problems.extend(compared.differences.iter().map(|d| format!("{name}: {d}")));
            }
        }
        Ok(())
    }

    fn compare_with_expected(
        &self,
        lake: &Lake,
        tables: &[LakeTable],
        reader: Reader,
        problems: &mut Vec<String>,
    ) -> Result<()> {
        for (name, expected) in &self.case.expect {
            let table = self.find(tables, name)?;
            let mut wanted = Vec::new();
            let places: Vec<usize> = expected
                .columns
                .iter()
                .map(|c| place(table, c))
                .collect::<Result<_>>()
                .with_context(|| format!("table {name}"))?;
            for row in &expected.rows {
                let forms = row.iter().zip(&places);
                wanted.push(
                    forms
                        .map(|(value, &p)| of_expected(&table.columns[p].kind, value))
                        .collect::<Result<Vec<_>>>()
                        .with_context(|| format!("an expected row of {name}"))?,
                );
            }
            let mut got = Vec::new();
            for row in lake.rows(table, reader)? {
                let forms = places.iter().map(|&p| match &row[p] {
                    Some(text) => of_lake_kind(&table.columns[p].kind, text).map(Some),
                    None => Ok(None),
                });
                got.push(forms.collect::<Result<Vec<_>>>()?);
            }
            wanted.sort();
            got.sort();
            if wanted != got {
                problems.push(format!(
                    "{name} as {} reads it: expected {wanted:?}, found {got:?}",
                    reader.name()
                ));
            }
        }
        for (name, &count) in &self.case.counts {
            let found = lake.rows(self.find(tables, name)?, reader)?.len();
            if found != count {
                problems.push(format!("{name} has {found} rows in {}, not {count}", reader.name()));
            }
        }
        Ok(())
    }

    fn check_schemas(&self, tables: &[LakeTable], problems: &mut Vec<String>) -> Result<()> {
        for (name, columns) in &self.case.types {
            let table = self.find(tables, name)?;
            for (column, kind) in columns {
                let found = &table.columns[place(table, column)?].kind;
                if found != kind {
                    problems.push(format!("{name}.{column} is {found}, not {kind}"));
                }
            }
        }
        // A snapshot that begins after a kill may begin after the change.
        let same_ids = (self.mode != Mode::Killed).then_some(&self.case.same_ids);
        for (name, columns) in same_ids.into_iter().flatten() {
            let table = self.find(tables, name)?;
            let first: BTreeMap<&str, i32> =
                table.first_columns.iter().map(|c| (c.name.as_str(), c.id)).collect();
            for (now, then) in columns {
                let id = table.columns[place(table, now)?].id;
                if first.get(then.as_str()) != Some(&id) {
                    problems.push(format!("{name}.{now} has field id {id}, not that of {then}"));
                }
            }
        }
        for (what, wanted) in
            [("identifier", &self.case.identifier), ("partition", &self.case.partition)]
        {
            for (name, columns) in wanted {
                let table = self.find(tables, name)?;
                let mut found = if what == "identifier" {
                    table.identifier.clone()
                } else {
                    table.partition.clone()
                };
                found.sort();
                let mut columns = columns.clone();
                columns.sort();
                if found != columns {
                    problems.push(format!("the {what} of {name} is {found:?}, not {columns:?}"));
                }
            }
        }
        Ok(())
    }

    /// A table by its name in the case's database, or by `database.table` of another.
    fn find<'t>(&self, tables: &'t [LakeTable], name: &str) -> Result<&'t LakeTable> {
        let (database, table) = self
            .case
            .databases
            .iter()
            .find_map(|d| Some((d.as_str(), name.strip_prefix(d.as_str())?.strip_prefix('.')?)))
            .unwrap_or((&self.case.name, name));
        tables.iter().find(|t| t.namespace == database && t.name == table).with_context(|| {
            let mut names: Vec<_> = tables.iter().map(|t| t.name.as_str()).collect();
            names.retain(|n| !n.starts_with(OWN_TABLES));
            format!("{name} is not in the lake, which has {names:?}")
        })
    }
}

fn place(table: &LakeTable, column: &str) -> Result<usize> {
    table
        .columns
        .iter()
        .position(|c| c.name == column)
        .with_context(|| format!("column {column} is not in the lake"))
}

/// True when an error line of the log has one of the words.
fn names_the_cause(log: &str, words: &str) -> bool {
    let log = log.to_lowercase();
    words.split('|').any(|word| log.contains(&word.to_lowercase()))
}

/// The sessions of a case, opened as they are named.
struct Client<'a> {
    server: &'a Server,
    database: String,
    sessions: HashMap<String, Session>,
}

impl<'a> Client<'a> {
    fn new(server: &'a Server, database: &str) -> Self {
        Self { server, database: database.into(), sessions: HashMap::new() }
    }

    fn run(&mut self, statements: &[Statement], mut after: impl FnMut(usize)) -> Result<()> {
        for (i, statement) in statements.iter().enumerate() {
            let Some((name, sql)) = statement.for_server(self.server.kind()) else { continue };
            if !self.sessions.contains_key(name) {
                let session = self.server.session(Some(&self.database))?;
                self.sessions.insert(name.to_owned(), session);
            }
            self.sessions.get_mut(name).context("just opened")?.run(sql)?;
            after(i);
        }
        Ok(())
    }
}

/// Numbers that look random and are the same for the same name.
pub struct Random(u64);

impl Random {
    pub fn new(name: &str) -> Self {
        let seed = u64::from_str_radix(&crate::cache::fingerprint(name), 16).unwrap_or(1);
        Self(seed | 1)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit
    }

    pub fn up_to_ms(&mut self, limit_ms: u64) -> Duration {
        Duration::from_millis(self.below(limit_ms))
    }
}
