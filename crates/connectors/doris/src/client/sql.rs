//! SQL to a frontend over the MySQL protocol: one session, kept until it breaks, then with another frontend.

use std::collections::HashMap;

use lakeward_core::{Error, ErrorKind, Result};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, SslOpts, Value};
use tokio::sync::Mutex;

use super::Backoff;
use super::answer::shortened;
use crate::config::{DorisConfig, SqlTls};

/// The context key of an error that the server itself gave.
pub(crate) const SERVER_CODE: &str = "code";

/// One row, by column name. NULL is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SqlRow(HashMap<String, String>);

impl SqlRow {
    /// Names are compared as they are first, then without regard to case.
    pub(crate) fn get(&self, column: &str) -> Option<&str> {
        let found = self.0.get(column).or_else(|| {
            self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(column)).map(|(_, v)| v)
        });
        found.map(String::as_str)
    }

    #[cfg(test)]
    pub(crate) fn of<const N: usize>(cells: [(&str, &str); N]) -> Self {
        Self(cells.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }
}

/// A session that makes itself anew. Statements wait for each other.
pub(crate) struct SqlSession {
    options: Vec<Opts>,
    max_retries: u32,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    connection: Option<Conn>,
    /// The frontend that was connected to last.
    at: usize,
}

impl SqlSession {
    pub(crate) fn new(config: &DorisConfig) -> Result<Self> {
        let (hosts, tls) = config.sql_endpoints()?;
        let options = hosts
            .into_iter()
            .map(|(host, port)| {
                let ssl = (tls != SqlTls::Off).then(|| {
                    let mut ssl = SslOpts::default()
                        .with_danger_skip_domain_validation(tls == SqlTls::Authority);
                    if let Some(ca) = &config.tls_ca {
                        ssl = ssl.with_root_certs(vec![std::path::PathBuf::from(ca).into()]);
                    }
                    ssl
                });
                OptsBuilder::default()
                    .ip_or_hostname(host)
                    .tcp_port(port)
                    .user(Some(&config.username))
                    .pass(Some(&config.password))
                    .ssl_opts(ssl)
                    .prefer_socket(false)
                    // Known, so that they are not asked for.
                    .max_allowed_packet(Some(16 << 20))
                    .wait_timeout(Some(28_800))
                    .stmt_cache_size(0)
                    .into()
            })
            .collect();
        Ok(Self { options, max_retries: config.max_retries, open: Mutex::default() })
    }

    /// Reads. Repeated with another frontend when the connection breaks.
    pub(crate) async fn rows(&self, sql: &str) -> Result<Vec<SqlRow>> {
        self.run(sql, true).await
    }

    /// Changes something; `sql` must be harmless when it is done twice.
    pub(crate) async fn execute(&self, sql: &str) -> Result<()> {
        self.run(sql, true).await.map(drop)
    }

    /// Changes something that may not be done twice.
    pub(crate) async fn execute_once(&self, sql: &str) -> Result<()> {
        self.run(sql, false).await.map(drop)
    }

    async fn run(&self, sql: &str, repeat: bool) -> Result<Vec<SqlRow>> {
        let mut open = self.open.lock().await;
        let mut backoff = Backoff::default();
        let mut failures = 0;
        loop {
            let error = match self.connected(&mut open).await {
                Ok(connection) => match connection.query::<Row, _>(sql).await {
                    Ok(rows) => return Ok(rows.into_iter().map(row_of).collect()),
                    Err(e) => {
                        let broken = !matches!(e, mysql_async::Error::Server(_));
                        let error = failure(e, "doris refuses a statement");
                        if !broken {
                            return Err(error);
                        }
                        open.connection = None;
                        open.at += 1;
                        if !repeat {
                            return Err(error);
                        }
                        error
                    }
                },
                Err(e) => e,
            };
            failures += 1;
            if !error.kind().is_retryable() || failures > self.max_retries {
                return Err(error);
            }
            tracing::warn!(failures, "a statement for doris is tried again: {error}");
            backoff.wait().await;
        }
    }

    /// One round through the frontends.
    async fn connected<'a>(&self, open: &'a mut Open) -> Result<&'a mut Conn> {
        if open.connection.is_none() {
            let mut last = Error::bug("no frontend is known");
            for _ in 0..self.options.len() {
                let options = &self.options[open.at % self.options.len()];
                let node = format!("{}:{}", options.ip_or_hostname(), options.tcp_port());
                match Conn::new(options.clone()).await {
                    Ok(connection) => {
                        open.connection = Some(connection);
                        break;
                    }
                    Err(e) => {
                        last = failure(e, "could not connect to doris").with("frontend", node);
                        if !last.kind().is_retryable() {
                            return Err(last);
                        }
                        open.at += 1;
                    }
                }
            }
            if open.connection.is_none() {
                return Err(last);
            }
        }
        open.connection.as_mut().ok_or_else(|| Error::bug("a connection has vanished"))
    }
}

fn row_of(row: Row) -> SqlRow {
    let columns = row.columns();
    let cells = row.unwrap().into_iter().zip(columns.iter()).filter_map(|(value, column)| {
        let text = match value {
            Value::NULL => return None,
            Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => other.as_sql(true).trim_matches('\'').to_string(),
        };
        Some((column.name_str().into_owned(), text))
    });
    SqlRow(cells.collect())
}

/// A server's error says what it was about; what the statement held is not repeated.
fn failure(e: mysql_async::Error, doing: &str) -> Error {
    match e {
        mysql_async::Error::Server(e) => {
            let kind = match e.code {
                // ER_ACCESS_DENIED, ER_DBACCESS_DENIED, ER_TABLEACCESS_DENIED, ER_SPECIFIC_ACCESS_DENIED
                1044 | 1045 | 1142 | 1227 => ErrorKind::Config,
                _ => ErrorKind::Transient,
            };
            Error::new(kind, format!("{doing}: {}", shortened(&e.message)))
                .with(SERVER_CODE, e.code)
        }
        mysql_async::Error::Io(e) => Error::transient(doing).with_source(e),
        other => Error::transient(doing).with_source(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let row = SqlRow::of([("Field", "id"), ("Null", "NO")]);
        assert_eq!(row.get("Field"), Some("id"));
        assert_eq!(row.get("null"), Some("NO"));
        assert_eq!(row.get("Default"), None);
    }
}
