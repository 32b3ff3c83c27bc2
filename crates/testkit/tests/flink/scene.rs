//! A database, a pipeline, and a cluster of the test's own.

use std::path::Path;

use lakeward_testkit::compare;
use lakeward_testkit::flink::{self, Flink};
use lakeward_testkit::lake::Reader;
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::require::or_skip;
use lakeward_testkit::server::Server;
use lakeward_testkit::sql::Session;
use lakeward_testkit::{mariadb, venv};

pub struct Scene {
    pub database: &'static str,
    /// Ends with the scene.
    _server: Server,
    pub session: Session,
    pub lakeward: Lakeward,
    pub flink: Flink,
}

impl Scene {
    /// On the newest Flink; `None` when a server is missing and may be.
    pub fn new(database: &'static str) -> Option<Self> {
        Self::with(database, flink::VERSIONS[flink::VERSIONS.len() - 1], |pipeline| pipeline)
    }

    pub fn with(
        database: &'static str,
        version: &str,
        options: impl FnOnce(Pipeline) -> Pipeline,
    ) -> Option<Self> {
        or_skip(flink::NAME, flink::find(version))?;
        or_skip(venv::NAME, venv::find())?;
        let server = mariadb::start_or_skip()?;
        let mut session = server.session(None).unwrap();
        session.run(&format!("CREATE DATABASE {database}")).unwrap();
        session.run(&format!("USE {database}")).unwrap();
        let lakeward = Lakeward::in_temporary_folder(|folder: &Path| {
            options(Pipeline::new(database, &server, &format!(r"{database}.\.*"), folder))
        })
        .unwrap();
        let flink = Flink::start(version).unwrap();
        Some(Self { database, _server: server, session, lakeward, flink })
    }

    pub fn run(&mut self, statements: &[&str]) {
        self.session.run_all(statements.iter().copied()).unwrap();
    }

    pub fn start(&mut self, more: &[&str]) {
        self.flink.start_run(&mut self.lakeward, more).unwrap();
    }

    pub fn wait_checkpoints(&mut self, wanted: u64) {
        self.flink.wait_checkpoints(&mut self.lakeward, wanted).unwrap();
    }

    /// Where the last stopped job can be gone on from.
    pub fn savepoint(&self) -> String {
        let text = std::fs::read(self.lakeward.folder().join("state/flink.json")).unwrap();
        let job: serde_json::Value = serde_json::from_slice(&text).unwrap();
        job["savepoint"].as_str().expect("it was stopped with a savepoint").to_owned()
    }

    /// Stops what runs, runs to where the source is now, and compares every table.
    pub fn expect_equal(&mut self) {
        if self.lakeward.is_running() {
            self.lakeward.stop().unwrap();
        }
        self.flink.catch_up(&mut self.lakeward).unwrap();
        self.compare();
    }

    /// Compares every table.
    pub fn compare(&mut self) {
        let lake = &self.lakeward.lake();
        let tables = lake.tables().unwrap();
        for name in compare::source_tables(&mut self.session, self.database).unwrap() {
            let found = tables.iter().find(|t| t.namespace == self.database && t.name == name);
            let found = found.unwrap_or_else(|| panic!("the lake has no table {name}"));
            let compared = compare::table(
                &mut self.session,
                self.database,
                &name,
                lake,
                found,
                Reader::DuckDb,
            )
            .unwrap();
            assert!(compared.differences.is_empty(), "{name}: {:?}", compared.differences);
        }
    }

    /// What the run that follows the job says it ended with.
    pub fn expect_failure(&mut self, says: &str) {
        let code = self.lakeward.exit_within(std::time::Duration::from_secs(120)).unwrap();
        let log = self.lakeward.log();
        assert_eq!(code, 1, "{log}");
        assert!(log.contains(says), "{says:?} is not in: {log}");
    }
}
