//! Connection strings of SQL catalogs, as PyIceberg (SQLAlchemy) and the Java catalog (JDBC) spell them.

use std::path::PathBuf;

use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use percent_encoding::percent_decode_str;
use url::Url;

/// What a connection string means.
#[derive(Clone, PartialEq, Eq)]
pub enum CatalogUri {
    Sqlite(PathBuf),
    SqliteMemory,
    Postgres(Server),
    MySql(Server),
}

/// A database server's address and login.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    pub host: String,
    pub port: Option<u16>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: Option<String>,
    /// `sslmode`, `ssl-mode` and the like, for the driver.
    pub parameters: Vec<(String, String)>,
}

impl CatalogUri {
    pub fn parse(text: &str) -> Result<Self> {
        let plain = text.strip_prefix("jdbc:").unwrap_or(text);
        let (dialect, rest) = plain.split_once(':').ok_or_else(unknown)?;
        // SQLAlchemy appends the driver: postgresql+psycopg2.
        let dialect = dialect.split('+').next().unwrap_or(dialect);
        match dialect {
            "sqlite" => sqlite(rest),
            "postgresql" | "postgres" => Ok(Self::Postgres(server(rest)?)),
            "mysql" | "mariadb" => Ok(Self::MySql(server(rest)?)),
            _ => Err(unknown()),
        }
    }

    /// For people, without the password.
    pub fn describe(&self) -> String {
        let server = |kind: &str, s: &Server| {
            let port = s.port.map(|p| format!(":{p}")).unwrap_or_default();
            format!("{kind} {}{port}/{}", s.host, s.database.as_deref().unwrap_or(""))
        };
        match self {
            Self::Sqlite(path) => format!("SQLite {}", path.display()),
            Self::SqliteMemory => "SQLite in memory".to_string(),
            Self::Postgres(s) => server("Postgres", s),
            Self::MySql(s) => server("MySQL", s),
        }
    }
}

/// `///relative`, `////absolute` (SQLAlchemy) as well as `///absolute` (what people write): three slashes mean a path
/// from the root, since a path relative to nobody knows where is of no use to a service.
fn sqlite(rest: &str) -> Result<CatalogUri> {
    let path = rest.strip_prefix("file:").unwrap_or(rest);
    let path = path.split('?').next().unwrap_or(path);
    if matches!(path, "//" | "///" | "///:memory:" | "://:memory:" | ":memory:" | "") {
        return Ok(CatalogUri::SqliteMemory);
    }
    let trimmed = path.trim_start_matches('/');
    if trimmed.is_empty() {
        return Err(unknown());
    }
    let slashes = path.len() - trimmed.len();
    let decoded = percent_decode_str(trimmed)
        .decode_utf8()
        .or_err(ErrorKind::Config, "catalog.properties.uri is not valid UTF-8")?;
    match slashes {
        // jdbc:sqlite:relative.db
        0 => Ok(CatalogUri::Sqlite(PathBuf::from(&*decoded))),
        2 => Err(Error::config(
            "catalog.properties.uri needs three slashes before the path: sqlite:///path/catalog.db",
        )),
        _ => Ok(CatalogUri::Sqlite(PathBuf::from(format!("/{decoded}")))),
    }
}

fn server(rest: &str) -> Result<Server> {
    // The scheme only has to be one that makes the parser expect an authority.
    let url = Url::parse(&format!("tcp:{rest}")).map_err(|_| {
        Error::config("catalog.properties.uri cannot be read as a database address")
    })?;
    let decode = |text: &str| {
        percent_decode_str(text)
            .decode_utf8()
            .map(|t| t.into_owned())
            .or_err(ErrorKind::Config, "catalog.properties.uri is not valid UTF-8")
    };
    let host = url
        .host_str()
        .filter(|h| !h.is_empty())
        .ok_or_else(|| Error::config("catalog.properties.uri names no host"))?;
    let database = url.path().trim_start_matches('/');
    let mut user = Some(url.username()).filter(|u| !u.is_empty()).map(decode).transpose()?;
    let mut password = url.password().map(decode).transpose()?;
    let mut parameters = Vec::new();
    for (key, value) in url.query_pairs() {
        match &*key {
            "user" => user = Some(value.into_owned()),
            "password" => password = Some(value.into_owned()),
            _ => parameters.push((key.into_owned(), value.into_owned())),
        }
    }
    Ok(Server {
        host: host.trim_matches(['[', ']']).to_string(),
        port: url.port(),
        user,
        password,
        database: Some(database).filter(|d| !d.is_empty()).map(decode).transpose()?,
        parameters,
    })
}

fn unknown() -> Error {
    Error::config(
        "catalog.properties.uri must be sqlite:///path, postgresql://user:password@host/database or \
         mysql://user:password@host/database",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sqlite_paths_are_absolute() {
        for text in [
            "sqlite:///data/c.db",
            "sqlite:////data/c.db",
            "jdbc:sqlite:/data/c.db",
            "jdbc:sqlite:file:/data/c.db",
        ] {
            let uri = CatalogUri::parse(text).expect(text);
            assert!(uri == CatalogUri::Sqlite("/data/c.db".into()), "{text}");
        }
        assert!(
            CatalogUri::parse("sqlite:///:memory:").expect("memory") == CatalogUri::SqliteMemory
        );
        assert!(CatalogUri::parse("sqlite://data/c.db").is_err());
    }

    #[test]
    fn servers_are_read_in_every_spelling() {
        for text in [
            "postgresql+psycopg2://me:p%40ss@db:5433/cat?sslmode=require",
            "postgres://me:p%40ss@db:5433/cat?sslmode=require",
            "jdbc:postgresql://db:5433/cat?user=me&password=p%40ss&sslmode=require",
        ] {
            let CatalogUri::Postgres(server) = CatalogUri::parse(text).expect(text) else {
                panic!("{text} is not Postgres");
            };
            assert_eq!(server.host, "db");
            assert_eq!(server.port, Some(5433));
            assert_eq!(server.user.as_deref(), Some("me"));
            assert_eq!(server.password.as_deref(), Some("p@ss"));
            assert_eq!(server.database.as_deref(), Some("cat"));
            assert_eq!(server.parameters, [("sslmode".to_string(), "require".to_string())]);
        }
        assert!(matches!(
            CatalogUri::parse("mysql+pymysql://u@h/d").expect("mysql"),
            CatalogUri::MySql(_)
        ));
    }

    #[test]
    fn the_description_has_no_password() {
        let uri = CatalogUri::parse("mysql://u:secret@h:3307/d").expect("valid");
        assert_eq!(uri.describe(), "MySQL h:3307/d");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(jdbc:)?(sqlite|mysql|postgresql)?:?/{0,4}[a-z@:%/?=&.]{0,30}") {
            let _ = CatalogUri::parse(&text);
        }
    }
}
