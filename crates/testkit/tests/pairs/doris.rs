//! The sink end of Doris, the stand-in, read by SQL over its MySQL port.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lakeward_testkit::doris::{DorisServer, Settings};
use lakeward_testkit::form::Form;
use lakeward_testkit::sql::quote;
use serde_json::{Value, json};

use crate::run::{Content, TextRow};

pub struct Doris {
    server: DorisServer,
}

impl Doris {
    pub fn new() -> Result<Self> {
        let settings = Settings { frontends: 2, backends: 2, ..Settings::default() };
        Ok(Self { server: DorisServer::stand_in_with(settings)? })
    }

    pub fn options(&self) -> Value {
        json!({
            "type": "doris", "fenodes": self.server.fenodes(), "jdbc-url": self.server.jdbc_url(),
            "username": self.server.user(), "password": self.server.password(),
            "table.create.properties.replication_num": "1", "table.create.properties.buckets": "1",
        })
    }

    /// `binary` says which columns hold bytes, which Doris has as base64.
    pub fn read(
        &self,
        forms: &dyn Fn(&str, &str, &str) -> Form,
        binary: &dyn Fn(&str, &str, &str) -> bool,
    ) -> Result<Content> {
        let mut content = Content::default();
        let mut session = self.server.session(None)?;
        for database in session.rows("SHOW DATABASES")? {
            let database = database.into_iter().next().flatten().context("a name")?;
            if !database.starts_with("pair_") {
                continue;
            }
            let mut session = self.server.session(Some(&database))?;
            for table in session.rows("SHOW TABLES")? {
                let table = table.into_iter().next().flatten().context("a name")?;
                let described = session.rows(&format!("DESC {}", quote(&table)))?;
                let columns: Vec<String> =
                    described.into_iter().filter_map(|row| row.into_iter().next()?).collect();
                let names: Vec<_> = columns.iter().map(|name| quote(name)).collect();
                let sql = format!("SELECT {} FROM {}", names.join(", "), quote(&table));
                let form = |name: &String| {
                    (forms(&database, &table, name), binary(&database, &table, name))
                };
                let forms: Vec<(Form, bool)> = columns.iter().map(form).collect();
                let mut rows: Vec<TextRow> = Vec::new();
                for row in session.rows(&sql)? {
                    let one = |(value, form): (Option<String>, &(Form, bool))| match value {
                        Some(text) => read(&text, *form),
                        None => Ok(None),
                    };
                    rows.push(row.into_iter().zip(&forms).map(one).collect::<Result<_>>()?);
                }
                content.insert((database.clone(), table), (columns, rows));
            }
        }
        Ok(content)
    }
}

fn read(text: &str, (form, binary): (Form, bool)) -> Result<Option<String>> {
    if binary {
        let bytes = STANDARD.decode(text)?;
        return Ok(Some(bytes.iter().map(|b| format!("{b:02X}")).collect()));
    }
    match form {
        // A TIME is a number of microseconds.
        Form::Time => Ok(Some(text.to_owned())),
        form => form.of_source(text),
    }
}
