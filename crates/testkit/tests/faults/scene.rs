//! A database on a server, and a pipeline that brings it into a lake.

use std::sync::OnceLock;
use std::time::Duration;

use lakeward_testkit::compare;
use lakeward_testkit::lake::{Lake, Reader};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::require::or_skip;
use lakeward_testkit::server::Server;
use lakeward_testkit::sql::Session;
use lakeward_testkit::{mariadb, venv};

/// A server for the tests that leave it as it was.
pub fn shared_server() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    or_skip("mariadb", mariadb::find())?;
    readers()?;
    SHARED.get_or_init(mariadb::start_or_skip).as_ref()
}

/// A server of the test's own.
pub fn own_server() -> Option<Server> {
    readers()?;
    mariadb::start_or_skip()
}

pub fn readers() -> Option<()> {
    or_skip(venv::NAME, venv::find()).map(drop)
}

pub struct Scene {
    pub database: &'static str,
    pub session: Session,
    pub lakeward: Lakeward,
}

impl Scene {
    /// Makes the database with these statements; the pipeline is ready and not started.
    pub fn new(server: &Server, database: &'static str, setup: &[&str]) -> Self {
        Self::with(server, database, setup, |pipeline| pipeline)
    }

    pub fn with(
        server: &Server,
        database: &'static str,
        setup: &[&str],
        options: impl FnOnce(Pipeline) -> Pipeline,
    ) -> Self {
        let mut session = server.session(None).unwrap();
        session.run(&format!("CREATE DATABASE {database}")).unwrap();
        session.run(&format!("USE {database}")).unwrap();
        session.run_all(setup.iter().copied()).unwrap();
        let lakeward = Lakeward::in_temporary_folder(|folder| {
            options(Pipeline::new(database, server, &format!(r"{database}.\.*"), folder))
        })
        .unwrap();
        Self { database, session, lakeward }
    }

    pub fn lake(&self) -> Lake {
        self.lakeward.lake()
    }

    pub fn start_streaming(&mut self) {
        self.lakeward.start().unwrap();
        self.lakeward.wait_streaming().unwrap();
    }

    pub fn catch_up(&mut self) {
        self.lakeward.wait_caught_up().unwrap();
    }

    /// The run must end by itself, with an error that has one of the words.
    pub fn expect_loud(&mut self, words: &[&str]) {
        let code = self.lakeward.exit_within(Duration::from_secs(90)).unwrap();
        assert_ne!(code, 0, "an error was expected: {}", self.lakeward.tail(5));
        let tail = self.lakeward.tail(6).to_lowercase();
        assert!(words.iter().any(|w| tail.contains(w)), "none of {words:?} in: {tail}");
        self.lakeward.kill().unwrap();
    }

    /// First columns of a table of the lake, sorted as numbers.
    pub fn ids(&self, table: &str) -> Vec<i64> {
        let lake = self.lake();
        let table = lake.table(self.database, table).unwrap();
        let rows = lake.rows(&table, Reader::DuckDb).unwrap();
        let mut ids: Vec<i64> =
            rows.iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    }

    /// Every table of the database equals its table in the lake, for both readers.
    pub fn assert_equal(&mut self) {
        let lake = self.lake();
        self.assert_equal_in(&lake);
    }

    /// The same for a lake that is described elsewhere.
    pub fn assert_equal_in(&mut self, lake: &Lake) {
        let tables = lake.tables().unwrap();
        for name in compare::source_tables(&mut self.session, self.database).unwrap() {
            let found = tables.iter().find(|t| t.namespace == self.database && t.name == name);
            let found = found.unwrap_or_else(|| panic!("{name} is not in the lake"));
            for reader in Reader::ALL {
                let compared =
                    compare::table(&mut self.session, self.database, &name, lake, found, reader)
                        .unwrap();
                assert!(compared.differences.is_empty(), "{name}: {:#?}", compared.differences);
            }
        }
    }
}

/// Polls until it holds; fails with the description after a while.
pub fn eventually(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + patience;
    while !holds() {
        assert!(std::time::Instant::now() < end, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
