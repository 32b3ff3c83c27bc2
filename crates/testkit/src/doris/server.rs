//! What a test asks for: the stand-in, or the cluster that the environment names.

use anyhow::{Context, Result, bail};
use mysql_async::{Opts, OptsBuilder};

use super::cluster::Settings;
use super::stand_in::StandIn;
use crate::sql::Session;

/// Names a real cluster: `mysql://USER:PASSWORD@HOST:9030/?http=8030`. The account needs all rights on databases whose
/// names begin with `lakeward_`, and the cluster is told apart by nothing else: do not point it at one with data.
pub const URL: &str = "LAKEWARD_TEST_DORIS_URL";

/// A cluster to test against.
#[derive(Debug)]
pub enum DorisServer {
    StandIn(Box<StandIn>),
    /// At an address; lives on after the test.
    Real {
        host: String,
        mysql_port: u16,
        http_port: u16,
        user: String,
        password: String,
    },
}

impl DorisServer {
    /// The cluster of [`URL`], or else a stand-in with one frontend and one backend.
    pub fn start() -> Result<Self> {
        match std::env::var(URL) {
            Ok(url) => Self::at(&url),
            Err(_) => Self::stand_in_with(Settings::default()),
        }
    }

    pub fn stand_in_with(settings: Settings) -> Result<Self> {
        Ok(Self::StandIn(Box::new(StandIn::start(settings)?)))
    }

    fn at(url: &str) -> Result<Self> {
        let wrong = || format!("{URL} is to be mysql://USER:PASSWORD@HOST:9030/?http=8030");
        let rest = url.strip_prefix("mysql://").with_context(wrong)?;
        let (account, address) = rest.rsplit_once('@').with_context(wrong)?;
        let (user, password) = account.split_once(':').unwrap_or((account, ""));
        let (place, query) = address.split_once('?').unwrap_or((address, ""));
        let (host, port) = place.trim_end_matches('/').split_once(':').unwrap_or((place, "9030"));
        let http = query.strip_prefix("http=").unwrap_or("8030");
        if host.is_empty() || user.is_empty() {
            bail!(wrong());
        }
        let plain = |text: &str| {
            percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
        };
        Ok(Self::Real {
            host: host.to_owned(),
            mysql_port: port.parse().with_context(wrong)?,
            http_port: http.parse().with_context(wrong)?,
            user: plain(user),
            password: plain(password),
        })
    }

    /// The stand-in, where faults can be injected; nothing on a real cluster.
    pub fn stand_in(&mut self) -> Option<&mut StandIn> {
        match self {
            Self::StandIn(stand_in) => Some(stand_in),
            Self::Real { .. } => None,
        }
    }

    /// `host:port` of every frontend, separated by commas: the option `fenodes`.
    pub fn fenodes(&self) -> String {
        match self {
            Self::StandIn(stand_in) => stand_in.fe_http().join(","),
            Self::Real { host, http_port, .. } => format!("{host}:{http_port}"),
        }
    }

    /// The option `jdbc-url`, with every frontend.
    pub fn jdbc_url(&self) -> String {
        let hosts = match self {
            Self::StandIn(stand_in) => {
                let ports = stand_in.mysql_ports();
                ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
            }
            Self::Real { host, mysql_port, .. } => format!("{host}:{mysql_port}"),
        };
        format!("jdbc:mysql://{hosts}")
    }

    /// Host and port of the MySQL protocol.
    pub fn mysql_address(&self) -> (String, u16) {
        match self {
            Self::StandIn(stand_in) => ("127.0.0.1".to_owned(), stand_in.mysql_ports()[0]),
            Self::Real { host, mysql_port, .. } => (host.clone(), *mysql_port),
        }
    }

    pub fn user(&self) -> String {
        match self {
            Self::StandIn(stand_in) => stand_in.user(),
            Self::Real { user, .. } => user.clone(),
        }
    }

    pub fn password(&self) -> String {
        match self {
            Self::StandIn(stand_in) => stand_in.password(),
            Self::Real { password, .. } => password.clone(),
        }
    }

    /// For tests that are asynchronous.
    pub fn opts(&self, database: Option<&str>) -> Opts {
        let (host, port) = self.mysql_address();
        OptsBuilder::default()
            .user(Some(self.user()))
            .pass(Some(self.password()))
            .ip_or_hostname(host)
            .tcp_port(port)
            .prefer_socket(false)
            .db_name(database)
            .into()
    }

    /// A blocking session. Not to be called from asynchronous code.
    pub fn session(&self, database: Option<&str>) -> Result<Session> {
        Session::open(self.opts(database))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_cluster() {
        let server = DorisServer::at("mysql://root:p%40ss@doris.example:9031/?http=8031").unwrap();
        assert_eq!(server.fenodes(), "doris.example:8031");
        assert_eq!(server.mysql_address(), ("doris.example".to_owned(), 9031));
        assert_eq!((server.user(), server.password()), ("root".to_owned(), "p@ss".to_owned()));
        let plain = DorisServer::at("mysql://root@h").unwrap();
        assert_eq!((plain.fenodes(), plain.password()), ("h:8030".to_owned(), String::new()));
        assert!(DorisServer::at("http://root@h").is_err());
    }
}
