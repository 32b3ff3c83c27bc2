//! Connections to the server: how they are made, what a session is set to, and what kind of server it is.

use std::sync::Arc;
use std::time::Duration;

use lakeward_core::{Error, ErrorKind, Result};

use crate::config::MysqlConfig;
use crate::ddl::Flavor;
use crate::wire::{ConnectOptions, Connection, WireError};

/// Waits between attempts to connect: doubling from the first to the last.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
const LAST_BACKOFF: Duration = Duration::from_secs(30);
/// A chunk's first row may take a while to find; a server that is silent for longer than this is gone.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Makes connections to one server.
#[derive(Clone)]
pub struct Client {
    options: ConnectOptions,
    max_retries: u32,
}

impl Client {
    pub fn new(config: &MysqlConfig) -> Result<Self> {
        let options = ConnectOptions {
            host: config.hostname.as_str().into(),
            port: config.port,
            user: config.username.as_str().into(),
            password: config.password.as_str().into(),
            tls: config.tls()?,
            connect_timeout: config.connect_timeout.0,
            read_timeout: READ_TIMEOUT,
        };
        Ok(Self { options, max_retries: config.connect_max_retries })
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.options.host, self.options.port)
    }

    /// One attempt.
    pub async fn connect_once(&self) -> Result<Connection> {
        let mut connection = Connection::connect(&self.options).await.map_err(|e| {
            failure(e, "could not connect to the server").with("server", self.address())
        })?;
        prepare_session(&mut connection).await?;
        Ok(connection)
    }

    /// Tries `connect.max-retries` times more when the network or the server is at fault.
    pub async fn connect(&self) -> Result<Connection> {
        let mut backoff = Backoff::default();
        loop {
            match self.connect_once().await {
                Err(e) if e.kind().is_retryable() && backoff.attempts < self.max_retries => {
                    backoff.wait().await;
                }
                other => return other,
            }
        }
    }
}

/// Growing pauses between attempts.
#[derive(Debug, Default)]
pub struct Backoff {
    pub attempts: u32,
}

impl Backoff {
    pub fn next(&mut self) -> Duration {
        let delay = FIRST_BACKOFF.saturating_mul(1 << self.attempts.min(16)).min(LAST_BACKOFF);
        self.attempts += 1;
        delay
    }

    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}

async fn prepare_session(connection: &mut Connection) -> Result<()> {
    let mariadb = is_mariadb(connection.server_version());
    // `sql_mode` decides how CHAR is padded and how names are quoted in SHOW CREATE TABLE; the time zone how TIMESTAMP is
    // shown. A stalled sink must not make the server give up in the middle of a table.
    let limit = if mariadb { "max_statement_time=0" } else { "max_execution_time=0" };
    let sql = format!(
        "SET NAMES utf8mb4, time_zone='+00:00', sql_mode='', net_write_timeout=3600, net_read_timeout=3600, \
         wait_timeout=86400, sql_quote_show_create=1, lock_wait_timeout=60, SESSION {limit}"
    );
    run(connection, &sql, "could not prepare the session").await?;
    let sql = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    run(connection, sql, "could not prepare the session").await
}

/// Runs a statement whose rows do not matter.
pub async fn run(connection: &mut Connection, sql: &str, doing: &str) -> Result<()> {
    connection.query(sql).await.map(|_| ()).map_err(|e| failure(e, doing))
}

pub fn is_mariadb(version: &str) -> bool {
    version.to_ascii_lowercase().contains("mariadb")
}

/// A server's identity and the settings that decide how it is read.
#[derive(Debug, Clone)]
pub struct ServerFacts {
    pub flavor: Flavor,
    pub version: Arc<str>,
    pub version_number: (u32, u32, u32),
    /// MySQL's `server_uuid`; MariaDB has only its `server_id`.
    pub identity: Arc<str>,
    pub server_id: u32,
    /// Transactions have GTIDs: always on MariaDB, by `gtid_mode=ON` on MySQL.
    pub gtid: bool,
    pub charset: Arc<str>,
    /// `explicit_defaults_for_timestamp`, which MariaDB does not write into its log.
    pub explicit_defaults: bool,
    pub lower_case_table_names: u8,
    /// What `time_zone=SYSTEM` means there, where it is UTC all year.
    pub system_offset_secs: Option<i32>,
}

impl ServerFacts {
    pub async fn read(connection: &mut Connection) -> Result<Self> {
        let version: Arc<str> = connection.server_version().into();
        let mariadb = is_mariadb(&version);
        let flavor = if mariadb { Flavor::MariaDb } else { Flavor::MySql };
        let sql = if mariadb {
            "SELECT @@server_id AS id, NULL AS uuid, 'ON' AS gtid, @@character_set_server AS charset, \
             @@lower_case_table_names AS lower_names, @@system_time_zone AS system_zone, \
             @@explicit_defaults_for_timestamp AS explicit"
        } else {
            "SELECT @@server_id AS id, @@server_uuid AS uuid, @@gtid_mode AS gtid, @@character_set_server AS charset, \
             @@lower_case_table_names AS lower_names, @@system_time_zone AS system_zone, \
             @@explicit_defaults_for_timestamp AS explicit"
        };
        let row = connection
            .query(sql)
            .await
            .map_err(|e| failure(e, "could not read the server's settings"))?;
        let number = |column: &str| row.value(column).and_then(|v| v.parse::<u32>().ok());
        let server_id = number("id").unwrap_or(0);
        let identity = match row.value("uuid") {
            Some(uuid) => uuid.into(),
            None => format!("server-id:{server_id}").into(),
        };
        Ok(Self {
            flavor,
            version_number: version_number(&version),
            version,
            identity,
            server_id,
            gtid: row.value("gtid") == Some("ON"),
            explicit_defaults: row.value("explicit") != Some("0"),
            charset: row.value("charset").unwrap_or("utf8mb4").into(),
            lower_case_table_names: number("lower_names").unwrap_or(0) as u8,
            system_offset_secs: (row.value("system_zone") == Some("UTC")).then_some(0),
        })
    }

    pub fn is_mariadb(&self) -> bool {
        self.flavor == Flavor::MariaDb
    }
}

fn version_number(text: &str) -> (u32, u32, u32) {
    let mut parts = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|p| !p.is_empty())
        .map(|p| p.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

/// A name as SQL takes it.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as SQL takes it, under a session of [`Client`].
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// The error of a statement, with the reaction that its cause asks for.
pub fn failure(e: WireError, doing: impl Into<String>) -> Error {
    let kind = match &e {
        WireError::Io(_) | WireError::Protocol(_) => ErrorKind::Transient,
        WireError::Login(_) | WireError::Tls(_) => ErrorKind::Config,
        WireError::Server { code, .. } => server_kind(*code),
    };
    Error::new(kind, doing).with_source(e)
}

fn server_kind(code: u16) -> ErrorKind {
    match code {
        // Access denied in its forms, unknown database, password expired, account locked, plugin missing, TLS demanded.
        1044 | 1045 | 1049 | 1142 | 1143 | 1227 | 1251 | 1370 | 1524 | 1698 | 1820 | 1862
        | 3118 | 3159 | 3032 => ErrorKind::Config,
        // ER_MASTER_FATAL_ERROR_READING_BINLOG.
        1236 => ErrorKind::OffsetLost,
        1064 => ErrorKind::Bug,
        _ => ErrorKind::Transient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_names_and_literals() {
        assert_eq!(version_number("10.11.6-MariaDB-0+deb12u1-log"), (10, 11, 6));
        assert_eq!(version_number("9.7.0"), (9, 7, 0));
        assert!(is_mariadb("10.11.6-MariaDB") && !is_mariadb("8.0.36"));
        assert_eq!(quoted("g`h"), "`g``h`");
        assert_eq!(literal(r"it's \x"), r"'it''s \\x'");
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(), FIRST_BACKOFF);
        assert_eq!(backoff.next(), FIRST_BACKOFF * 2);
        for _ in 0..100 {
            assert!(backoff.next() <= LAST_BACKOFF);
        }
    }
}
