//! One way to speak to three databases. The catalog's few statements use `?` placeholders and text values only, so that
//! they mean the same in SQLite, Postgres and MySQL.

use std::time::Duration;

use lakeward_core::{Error, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection as _, MySql, Postgres, Row, Sqlite, Transaction};

use crate::catalog::uri::{CatalogUri, Server};

const MAX_CONNECTIONS: u32 = 4;
/// How long SQLite itself waits for a lock before it says "busy"; we go on waiting after that.
const BUSY_TIMEOUT_MS: u64 = 1_000;
/// How long a call waits for a connection while others wait for SQLite's lock.
const LOCK_WAIT_S: u64 = 3_600;

/// A pool of connections to the catalog's database.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Sqlite(SqlitePool),
    Postgres(PgPool),
    MySql(MySqlPool),
}

/// What went wrong, in the terms that the catalog decides on.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another holds a lock, or we lost a deadlock. Nothing was changed; the same again may work.
    Busy(sqlx::Error),
    /// A row of that key exists.
    Duplicate(sqlx::Error),
    Other(sqlx::Error),
}

pub(crate) type Outcome<T> = std::result::Result<T, Failure>;

// Columns are text by our own layout; the driver takes MySQL's binary collations for binary types.
macro_rules! rows {
    ($executor:expr, $sql:expr, $arguments:expr, $columns:expr) => {{
        let sql: &str = $sql;
        let mut query = sqlx::query(sql);
        for argument in $arguments {
            query = query.bind(*argument);
        }
        let rows = query.fetch_all($executor).await.map_err(classify)?;
        rows.iter()
            .map(|row| (0..$columns).map(|i| row.try_get_unchecked(i).map_err(classify)).collect())
            .collect()
    }};
}
macro_rules! execute {
    ($executor:expr, $sql:expr, $arguments:expr) => {{
        let sql: &str = $sql;
        let mut query = sqlx::query(sql);
        for argument in $arguments {
            query = query.bind(*argument);
        }
        Ok(query.execute($executor).await.map_err(classify)?.rows_affected())
    }};
}

impl Database {
    /// Connects at first use.
    pub(crate) fn open(uri: &CatalogUri) -> Result<Self> {
        Ok(match uri {
            CatalogUri::Sqlite(path) => {
                // With a write-ahead log others read while we commit, and a commit costs one sync. FULL, because the
                // checkpoint forgets files that the catalog says are committed.
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full)
                    .busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS));
                let pool = SqlitePoolOptions::new()
                    .max_connections(MAX_CONNECTIONS)
                    .acquire_timeout(Duration::from_secs(LOCK_WAIT_S))
                    // An attempt that is cancelled while it waits for the write lock leaves its BEGIN behind.
                    .before_acquire(|connection, _| {
                        let clean = !connection.is_in_transaction();
                        Box::pin(async move { Ok(clean) })
                    })
                    .connect_lazy_with(options);
                Self::Sqlite(pool)
            }
            CatalogUri::SqliteMemory => {
                // Each connection would be a database of its own.
                let pool = SqlitePoolOptions::new()
                    .max_connections(1)
                    .idle_timeout(None)
                    .max_lifetime(None)
                    .connect_lazy_with(SqliteConnectOptions::new().in_memory(true));
                Self::Sqlite(pool)
            }
            CatalogUri::Postgres(server) => Self::Postgres(
                PgPoolOptions::new()
                    .max_connections(MAX_CONNECTIONS)
                    .connect_lazy_with(postgres_options(server)?),
            ),
            CatalogUri::MySql(server) => Self::MySql(
                MySqlPoolOptions::new()
                    .max_connections(MAX_CONNECTIONS)
                    .connect_lazy_with(mysql_options(server)?),
            ),
        })
    }

    /// Starts a transaction that writes.
    pub(crate) async fn begin(&self) -> Outcome<Session> {
        Ok(match self {
            // The write lock is taken at once: a transaction that reads first and writes later cannot wait for it.
            Self::Sqlite(pool) => {
                Session::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await.map_err(classify)?)
            }
            Self::Postgres(pool) => Session::Postgres(pool.begin().await.map_err(classify)?),
            Self::MySql(pool) => Session::MySql(pool.begin().await.map_err(classify)?),
        })
    }

    /// Reads outside of any transaction.
    pub(crate) async fn rows(
        &self,
        sql: &str,
        arguments: &[&str],
        columns: usize,
    ) -> Outcome<Vec<Vec<Option<String>>>> {
        match self {
            Self::Sqlite(pool) => rows!(pool, sql, arguments, columns),
            Self::Postgres(pool) => rows!(pool, &numbered(sql), arguments, columns),
            Self::MySql(pool) => rows!(pool, sql, arguments, columns),
        }
    }

    /// ` FOR UPDATE` where a read does not lock by itself.
    pub(crate) fn for_update(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "",
            Self::Postgres(_) | Self::MySql(_) => " FOR UPDATE",
        }
    }

    /// What follows a CREATE TABLE, so that names compare byte by byte.
    pub(crate) fn table_suffix(&self) -> &'static str {
        match self {
            Self::MySql(_) => " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            Self::Sqlite(_) | Self::Postgres(_) => "",
        }
    }
}

/// A transaction. Dropped without `commit` it is rolled back.
pub(crate) enum Session {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
    MySql(Transaction<'static, MySql>),
}

impl Session {
    /// Rows that were changed, or found by an UPDATE.
    pub(crate) async fn execute(&mut self, sql: &str, arguments: &[&str]) -> Outcome<u64> {
        match self {
            Self::Sqlite(tx) => execute!(&mut **tx, sql, arguments),
            Self::Postgres(tx) => execute!(&mut **tx, &numbered(sql), arguments),
            Self::MySql(tx) => execute!(&mut **tx, sql, arguments),
        }
    }

    pub(crate) async fn rows(
        &mut self,
        sql: &str,
        arguments: &[&str],
        columns: usize,
    ) -> Outcome<Vec<Vec<Option<String>>>> {
        match self {
            Self::Sqlite(tx) => rows!(&mut **tx, sql, arguments, columns),
            Self::Postgres(tx) => rows!(&mut **tx, &numbered(sql), arguments, columns),
            Self::MySql(tx) => rows!(&mut **tx, sql, arguments, columns),
        }
    }

    pub(crate) async fn commit(self) -> Outcome<()> {
        match self {
            Self::Sqlite(tx) => tx.commit().await,
            Self::Postgres(tx) => tx.commit().await,
            Self::MySql(tx) => tx.commit().await,
        }
        .map_err(classify)
    }

    pub(crate) async fn rollback(self) -> Outcome<()> {
        match self {
            Self::Sqlite(tx) => tx.rollback().await,
            Self::Postgres(tx) => tx.rollback().await,
            Self::MySql(tx) => tx.rollback().await,
        }
        .map_err(classify)
    }
}

/// `?` placeholders as Postgres writes them. None of our statements holds a question mark otherwise.
fn numbered(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 16);
    let mut n = 0;
    for c in sql.chars() {
        if c == '?' {
            n += 1;
            out.push('$');
            out.push_str(&n.to_string());
        } else {
            out.push(c);
        }
    }
    out
}

fn classify(error: sqlx::Error) -> Failure {
    let Some(database) = error.as_database_error() else {
        return Failure::Other(error);
    };
    if database.is_unique_violation() {
        return Failure::Duplicate(error);
    }
    let code = database.code().unwrap_or_default().into_owned();
    let busy = match &*code {
        // Postgres: serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => true,
        // SQLite: the low byte of an extended code is BUSY (5) or LOCKED (6).
        text => text.parse::<u32>().is_ok_and(|n| matches!(n & 0xff, 5 | 6) && n < 0x1_0000),
    };
    let mysql_busy = database
        .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
        .is_some_and(|e| matches!(e.number(), 1205 | 1213));
    let is_sqlite = database.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some();
    let is_postgres = database.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some();
    if mysql_busy || (busy && (is_sqlite || is_postgres)) {
        Failure::Busy(error)
    } else {
        Failure::Other(error)
    }
}

fn postgres_options(server: &Server) -> Result<PgConnectOptions> {
    let mut options = PgConnectOptions::new_without_pgpass().host(&server.host);
    if let Some(port) = server.port {
        options = options.port(port);
    }
    if let Some(user) = &server.user {
        options = options.username(user);
    }
    if let Some(password) = &server.password {
        options = options.password(password);
    }
    if let Some(database) = &server.database {
        options = options.database(database);
    }
    for (key, value) in &server.parameters {
        options = match key.as_str() {
            "sslmode" => {
                let mode: PgSslMode = value.parse().map_err(|_| {
                    Error::config("the sslmode of catalog.properties.uri is not known")
                })?;
                options.ssl_mode(mode)
            }
            "sslrootcert" => options.ssl_root_cert(value),
            _ => return Err(unknown_parameter(key)),
        };
    }
    Ok(options)
}

fn mysql_options(server: &Server) -> Result<MySqlConnectOptions> {
    let mut options = MySqlConnectOptions::new().host(&server.host);
    if let Some(port) = server.port {
        options = options.port(port);
    }
    if let Some(user) = &server.user {
        options = options.username(user);
    }
    if let Some(password) = &server.password {
        options = options.password(password);
    }
    if let Some(database) = &server.database {
        options = options.database(database);
    }
    for (key, value) in &server.parameters {
        options = match key.as_str() {
            "ssl-mode" | "sslMode" => {
                let mode: MySqlSslMode = value.parse().map_err(|_| {
                    Error::config("the ssl-mode of catalog.properties.uri is not known")
                })?;
                options.ssl_mode(mode)
            }
            "ssl-ca" | "ssl_ca" => options.ssl_ca(value),
            "charset" => options,
            _ => return Err(unknown_parameter(key)),
        };
    }
    Ok(options)
}

fn unknown_parameter(key: &str) -> Error {
    Error::config("a parameter of catalog.properties.uri is not known").with("parameter", key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_in_order() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
    }

    #[tokio::test]
    async fn a_duplicate_and_a_rollback_are_told_apart() {
        let db = Database::open(&CatalogUri::SqliteMemory).expect("opens");
        let mut session = db.begin().await.expect("begins");
        session.execute("CREATE TABLE t (a VARCHAR(9) PRIMARY KEY)", &[]).await.expect("creates");
        assert_eq!(session.execute("INSERT INTO t VALUES (?)", &["x"]).await.expect("inserts"), 1);
        let again = session.execute("INSERT INTO t VALUES (?)", &["x"]).await;
        assert!(matches!(again, Err(Failure::Duplicate(_))));
        session.commit().await.expect("commits");
        let mut session = db.begin().await.expect("begins");
        session.execute("DELETE FROM t", &[]).await.expect("deletes");
        session.rollback().await.expect("rolls back");
        let rows = db.rows("SELECT a FROM t", &[], 1).await.expect("reads");
        assert_eq!(rows, [[Some("x".to_string())]]);
    }
}
