//! A blocking SQL session on a test server.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, Value};
use tokio::runtime::Runtime;

use crate::server::{PASSWORD, Server, USER};

/// A row as the server prints it.
pub type TextRow = Vec<Option<String>>;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime needs no more than a thread")
    })
}

impl Server {
    /// For tests that are asynchronous: `root`, through the socket.
    pub fn root_opts(&self) -> Opts {
        OptsBuilder::default()
            .user(Some("root"))
            .socket(Some(self.socket().display().to_string()))
            .prefer_socket(true)
            .into()
    }

    /// For tests that are asynchronous: the account that pipelines use, through TCP.
    pub fn opts(&self) -> Opts {
        OptsBuilder::default()
            .user(Some(USER))
            .pass(Some(PASSWORD))
            .ip_or_hostname("127.0.0.1")
            .tcp_port(self.port())
            .prefer_socket(false)
            .into()
    }

    /// A session of `root`. Not to be called from asynchronous code.
    pub fn session(&self, database: Option<&str>) -> Result<Session> {
        Session::open(OptsBuilder::from_opts(self.root_opts()).db_name(database).into())
    }
}

/// One connection; statements run one after the other.
#[derive(Debug)]
pub struct Session {
    conn: Option<Conn>,
}

impl Session {
    pub fn open(opts: Opts) -> Result<Self> {
        let conn = runtime().block_on(Conn::new(opts)).context("could not connect")?;
        Ok(Self { conn: Some(conn) })
    }

    pub fn run(&mut self, sql: &str) -> Result<()> {
        runtime()
            .block_on(self.conn()?.query_drop(sql))
            .with_context(|| format!("the server refused {}", start_of(sql)))
    }

    pub fn run_all<'a>(&mut self, statements: impl IntoIterator<Item = &'a str>) -> Result<()> {
        statements.into_iter().try_for_each(|sql| self.run(sql))
    }

    pub fn rows(&mut self, sql: &str) -> Result<Vec<TextRow>> {
        let mut rows = Vec::new();
        self.each_row(sql, |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Streams the rows of a result that may not fit in memory.
    pub fn each_row(&mut self, sql: &str, mut f: impl FnMut(TextRow) -> Result<()>) -> Result<()> {
        let conn = self.conn()?;
        runtime().block_on(async {
            let mut result = conn
                .query_iter(sql)
                .await
                .with_context(|| format!("the server refused {}", start_of(sql)))?;
            while let Some(row) = result.next().await? {
                f(text_row(row)?)?;
            }
            Ok(())
        })
    }

    /// The first column of the first row.
    pub fn one(&mut self, sql: &str) -> Result<Option<String>> {
        let rows = self.rows(sql)?;
        let first =
            rows.into_iter().next().with_context(|| format!("no row: {}", start_of(sql)))?;
        first.into_iter().next().context("no column")
    }

    fn conn(&mut self) -> Result<&mut Conn> {
        self.conn.as_mut().context("the session is closed")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // From inside a runtime the socket is merely closed.
        if let Some(conn) = self.conn.take()
            && tokio::runtime::Handle::try_current().is_err()
        {
            let _ = runtime().block_on(conn.disconnect());
        }
    }
}

/// A name in backticks.
pub fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn text_row(row: Row) -> Result<TextRow> {
    let text = |value| match value {
        Value::NULL => Ok(None),
        Value::Bytes(bytes) => String::from_utf8(bytes).map(Some).context("a value is no UTF-8"),
        other => Ok(Some(other.as_sql(true))),
    };
    row.unwrap().into_iter().map(text).collect()
}

fn start_of(sql: &str) -> String {
    sql.chars().take(120).collect()
}
