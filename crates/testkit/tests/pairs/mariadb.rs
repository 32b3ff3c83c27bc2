//! The source end of MariaDB: a step is a statement.

use std::collections::HashMap;

use anyhow::{Context, Result};
use lakeward_testkit::server::{PASSWORD, Server, USER};
use lakeward_testkit::sql::{Session, quote};
use serde_json::{Value, json};

use crate::scenario::{Scenario, Step};
use crate::tables::Tables;

pub struct MariaDb<'s> {
    databases: HashMap<String, (Session, Tables)>,
    options: Value,
    _server: &'s Server,
}

impl<'s> MariaDb<'s> {
    /// With an empty database for each scenario.
    pub fn new(server: &'s Server, scenarios: &[&Scenario]) -> Result<Self> {
        let mut root = server.session(None)?;
        let mut databases = HashMap::new();
        let mut tables = Vec::new();
        for left in root.rows("SHOW DATABASES LIKE 'pair\\_%'")? {
            let name = left.into_iter().next().flatten().context("a database has a name")?;
            root.run(&format!("DROP DATABASE {}", quote(&name)))?;
        }
        for scenario in scenarios {
            let name = &scenario.name;
            root.run(&format!("CREATE DATABASE {} CHARACTER SET utf8mb4", quote(name)))?;
            let mut session = server.session(Some(name))?;
            session.run("SET time_zone = '+00:00'")?;
            databases.insert(name.clone(), (session, Tables::default()));
            tables.push(format!("{name}.\\.*"));
        }
        let options = json!({
            "type": "mysql", "hostname": "127.0.0.1", "port": server.port(),
            "username": USER, "password": PASSWORD, "tables": tables.join(","),
        });
        Ok(Self { databases, options, _server: server })
    }

    pub fn options(&self) -> Value {
        self.options.clone()
    }

    pub fn apply(&mut self, database: &str, step: &Step) -> Result<()> {
        let (session, tables) = self.databases.get_mut(database).context("an unknown database")?;
        let done = tables.apply(step)?;
        let statements = done.iter().map(|d| d.sql.as_str()).filter(|sql| !sql.is_empty());
        match done.len() {
            1 => session.run_all(statements),
            _ => {
                session.run("BEGIN")?;
                session.run_all(statements)?;
                session.run("COMMIT")
            }
        }
    }
}
