//! A database, a cluster and a pipeline between them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lakeward_testkit::doris::{DorisServer, Settings};
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::mariadb;
use lakeward_testkit::server::Server;
use lakeward_testkit::sql::{Session, TextRow};

pub struct Scene {
    pub database: &'static str,
    pub server: &'static Server,
    pub doris: DorisServer,
    pub lakeward: Lakeward,
}

impl Scene {
    /// Into a stand-in of the test's own. `None` where there is no MariaDB. `setup` runs in the new database.
    pub fn new(
        database: &'static str,
        settings: Settings,
        setup: &[&str],
        change: impl FnOnce(Pipeline) -> Pipeline,
    ) -> Result<Option<Self>> {
        Self::into_cluster(DorisServer::stand_in_with(settings)?, database, setup, change)
    }

    /// The same into whichever cluster the tests are to use.
    pub fn anywhere(
        database: &'static str,
        setup: &[&str],
        change: impl FnOnce(Pipeline) -> Pipeline,
    ) -> Result<Option<Self>> {
        Self::into_cluster(DorisServer::start()?, database, setup, change)
    }

    fn into_cluster(
        doris: DorisServer,
        database: &'static str,
        setup: &[&str],
        change: impl FnOnce(Pipeline) -> Pipeline,
    ) -> Result<Option<Self>> {
        let Some(server) = mariadb::start_or_skip() else { return Ok(None) };
        let mut root = server.session(None)?;
        root.run(&format!("DROP DATABASE IF EXISTS {database}"))?;
        root.run(&format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"))?;
        server.session(Some(database))?.run_all(setup.iter().copied())?;
        let progress = format!("{database}_progress");
        // A cluster remembers the last time.
        for left in [database, &progress] {
            doris.session(None)?.run(&format!("DROP DATABASE IF EXISTS {left}"))?;
        }
        let sink = serde_json::json!({
            "type": "doris",
            "fenodes": doris.fenodes(),
            "jdbc-url": doris.jdbc_url(),
            "username": doris.user(),
            "password": doris.password(),
            "sink.progress-database": progress,
            "table.create.properties.replication_num": "1",
            "table.create.properties.buckets": "1",
        });
        let lakeward = Lakeward::in_temporary_folder(|folder| {
            let pipeline = Pipeline::new(database, &server, &format!("{database}.\\.*"), folder);
            change(pipeline.set("sink", "", sink))
        })?;
        Ok(Some(Self { database, server: Box::leak(Box::new(server)), doris, lakeward }))
    }

    pub fn source(&self) -> Result<Session> {
        self.server.session(Some(self.database))
    }

    /// Changes the source's rows and waits until they have been committed to Doris.
    pub fn follow(&mut self, statements: &[&str]) -> Result<()> {
        self.source()?.run_all(statements.iter().copied())?;
        self.lakeward.wait_caught_up()
    }

    /// The rows of a query, in an order that does not depend on who answers.
    pub fn sorted(mut rows: Vec<TextRow>) -> Vec<TextRow> {
        rows.sort();
        rows
    }

    pub fn in_doris(&self, sql: &str) -> Result<Vec<TextRow>> {
        Ok(Self::sorted(self.doris.session(Some(self.database))?.rows(sql)?))
    }

    pub fn assert_same(&self, columns: &str, table: &str) -> Result<()> {
        let sql = format!("SELECT {columns} FROM {table}");
        let wanted = Self::sorted(self.source()?.rows(&sql)?);
        let found = self.in_doris(&sql)?;
        if wanted == found {
            return Ok(());
        }
        let missing: Vec<_> = wanted.iter().filter(|r| !found.contains(r)).take(3).collect();
        let extra: Vec<_> = found.iter().filter(|r| !wanted.contains(r)).take(3).collect();
        bail!(
            "{table} differs: {} rows in the source, {} in doris\n missing {missing:?}\n extra {extra:?}\n{}",
            wanted.len(),
            found.len(),
            self.lakeward.tail(15)
        )
    }

    /// Labels of this database and their states.
    pub fn transactions(&mut self) -> Result<Vec<(String, i64, &'static str)>> {
        Ok(self.doris.stand_in().context("a stand-in")?.transactions(self.database))
    }

    pub fn wait_until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds(self)? {
            if Instant::now() > end {
                bail!("{what} did not happen\n{}", self.lakeward.tail(15));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
