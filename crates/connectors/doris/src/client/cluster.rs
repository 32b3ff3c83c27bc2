//! The cluster's nodes: which frontend is asked, where a redirect may lead, and with which credentials.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, StatusCode};
use lakeward_core::{Error, Result};
use rustls::ClientConfig;
use serde::de::DeserializeOwned;
use tokio::sync::RwLock;

use super::http::{Answer, Ask, NoAnswer, send};
use super::sql::SqlSession;
use super::{Endpoint, Scheme, tls};
use crate::config::DorisConfig;

const SHORT_TIMEOUT: Duration = Duration::from_secs(60);
/// A follower names the master, which names a backend.
const MAX_REDIRECTS: usize = 3;

/// Shared by all parts of the sink.
pub(crate) struct Cluster {
    pub(crate) config: Arc<DorisConfig>,
    pub(crate) sql: SqlSession,
    frontends: Vec<Endpoint>,
    /// The frontend that answered last.
    current: AtomicUsize,
    /// For loads that go to backends in turn.
    turn: AtomicUsize,
    nodes: RwLock<Nodes>,
    authorization: HeaderValue,
    tls: Arc<ClientConfig>,
}

/// Where credentials may go, besides the frontends that the user named.
#[derive(Debug, Default)]
struct Nodes {
    backends: Vec<Endpoint>,
    hosts: HashSet<(String, u16)>,
    asked: bool,
}

/// Why a request came to nothing.
pub(crate) enum Failure {
    /// Nobody knows whether it was done.
    Unknown(Error),
    Refused(Error),
}

impl Failure {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Unknown(e) | Failure::Refused(e) => e,
        }
    }
}

impl Cluster {
    pub(crate) fn new(config: Arc<DorisConfig>) -> Result<Self> {
        let credentials = BASE64.encode(format!("{}:{}", config.username, config.password));
        let mut authorization = HeaderValue::try_from(format!("Basic {credentials}"))
            .map_err(|_| Error::bug("could not write the credentials"))?;
        authorization.set_sensitive(true);
        let backends = config.backends()?;
        let hosts = backends.iter().map(|e| (e.host.clone(), e.port)).collect();
        Ok(Self {
            sql: SqlSession::new(&config)?,
            frontends: config.frontends()?,
            current: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            nodes: RwLock::new(Nodes { asked: !backends.is_empty(), backends, hosts }),
            authorization,
            tls: tls::client_config(config.tls_ca.as_deref())?,
            config,
        })
    }

    /// Asks a frontend for something that may be asked twice, of each in turn.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let ask = Ask {
            method: Method::GET,
            path: path.to_string(),
            headers: Vec::new(),
            body: None,
            timeout: SHORT_TIMEOUT,
        };
        let answer = self.ask(&ask, false).await.map_err(Failure::into_error)?;
        parse(&answer).map_err(Failure::into_error)
    }

    /// A request that changes something. When its outcome is unknown, it is not sent again.
    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        headers: Vec<(String, String)>,
        body: Option<bytes::Bytes>,
        timeout: Duration,
    ) -> Result<T, Failure> {
        let to_backend = body.is_some() && !self.config.auto_redirect;
        let ask = Ask { method: Method::PUT, path: path.to_string(), headers, body, timeout };
        parse(&self.ask(&ask, to_backend).await?)
    }

    async fn ask(&self, ask: &Ask, to_backend: bool) -> Result<Answer, Failure> {
        let first = match to_backend {
            true => self.next_backends().await.map_err(Failure::Refused)?,
            false => {
                let start = self.current.load(Ordering::Relaxed);
                let n = self.frontends.len();
                (0..n).map(|i| self.frontends[(start + i) % n].clone()).collect()
            }
        };
        let mut last = Failure::Unknown(Error::bug("the cluster has no node"));
        for (tried, endpoint) in first.iter().enumerate() {
            match self.follow(endpoint, ask, to_backend).await {
                Ok(answer) => {
                    if !to_backend && tried > 0 {
                        let at = self.current.load(Ordering::Relaxed) + tried;
                        self.current.store(at % self.frontends.len(), Ordering::Relaxed);
                        tracing::info!(frontend = %endpoint, "another frontend of doris answers now");
                    }
                    return Ok(answer);
                }
                Err((failure, began)) => {
                    // Past the first node a request may have been done.
                    if began || matches!(failure, Failure::Refused(_)) {
                        return Err(failure);
                    }
                    last = failure;
                }
            }
        }
        Err(last)
    }

    /// Follows redirects. The flag says that something may have been done.
    async fn follow(
        &self,
        start: &Endpoint,
        ask: &Ask,
        to_backend: bool,
    ) -> Result<Answer, (Failure, bool)> {
        let changes = ask.method != Method::GET;
        let mut endpoint = start.clone();
        let mut ask = ask.clone();
        for hop in 0..=MAX_REDIRECTS {
            // A frontend does nothing itself but name a backend.
            let does = changes && (hop > 0 || to_backend);
            let sent = send(&endpoint, Some(&self.authorization), &ask, &self.tls).await;
            let answer = match sent {
                Ok(answer) => answer,
                Err(e) => return Err(no_answer(e, &endpoint, does)),
            };
            if !answer.status.is_redirection() {
                return self.check_status(answer, &endpoint, does);
            }
            let to = location(&answer, &endpoint).map_err(|e| (Failure::Refused(e), false))?;
            self.may_follow(start, &to.0).await.map_err(|e| (Failure::Refused(e), false))?;
            (endpoint, ask.path) = to;
        }
        let error = Error::transient("the nodes of doris send a request around in a circle")
            .with("frontend", start);
        Err((Failure::Unknown(error), false))
    }

    fn check_status(
        &self,
        answer: Answer,
        endpoint: &Endpoint,
        changes: bool,
    ) -> Result<Answer, (Failure, bool)> {
        match answer.status {
            status if status.is_success() => Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let error = Error::config("doris refuses the account; check username and password")
                    .with("node", endpoint);
                Err((Failure::Refused(error), false))
            }
            status => {
                let error = Error::transient("a node of doris answered with an error")
                    .with("node", endpoint)
                    .with("status", status.as_u16());
                Err((Failure::Unknown(error), changes))
            }
        }
    }

    /// Credentials go to nodes of the cluster only, and to this machine only when the frontend is on it.
    async fn may_follow(&self, start: &Endpoint, to: &Endpoint) -> Result<()> {
        if start.scheme == Scheme::Https && to.scheme == Scheme::Http {
            return Err(Error::config(
                "a frontend redirects from https to http, where credentials would be readable; turn TLS on at the backends",
            )
            .with("node", to));
        }
        let known = |endpoint: &Endpoint| endpoint.host == to.host && endpoint.port == to.port;
        if self.frontends.iter().any(known) {
            return Ok(());
        }
        if to.is_loopback() && !start.is_loopback() {
            return Err(Error::config(
                "a frontend redirects to a loopback address, which is not its own from here; let the backends register \
                 under an address that is reachable, or set benodes and auto-redirect: false",
            )
            .with("frontend", start)
            .with("redirect", to));
        }
        if self.is_node(to).await {
            return Ok(());
        }
        // It may have joined since.
        self.find_nodes().await?;
        if self.is_node(to).await {
            return Ok(());
        }
        Err(Error::config(
            "a frontend redirects to a host that is not a node of the cluster; credentials are not sent there. Set benodes \
             when the backends have other names from here",
        )
        .with("frontend", start)
        .with("redirect", to))
    }

    /// That a frontend answers over HTTP, and the cluster tells its backends.
    pub(crate) async fn check_nodes(&self) -> Result<()> {
        self.next_backends().await.map(drop)
    }

    async fn is_node(&self, to: &Endpoint) -> bool {
        self.nodes.read().await.hosts.contains(&(to.host.clone(), to.port))
    }

    /// All backends, the next one first.
    async fn next_backends(&self) -> Result<Vec<Endpoint>> {
        if !self.nodes.read().await.asked {
            self.find_nodes().await?;
        }
        let mut backends = self.nodes.read().await.backends.clone();
        if backends.is_empty() {
            return Err(Error::transient("the cluster has no backend that is alive"));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % backends.len();
        backends.rotate_left(turn);
        Ok(backends)
    }

    /// Asks the cluster for its nodes. With `benodes` the backends are those. Boxed: asking may itself be redirected.
    fn find_nodes(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.ask_for_nodes())
    }

    async fn ask_for_nodes(&self) -> Result<()> {
        let scheme = self.frontends[0].scheme;
        let mut found = Vec::new();
        if self.config.benodes.is_none() {
            found = self.backends_by_sql(scheme).await?;
        }
        let masters = self.sql.rows("SHOW FRONTENDS").await.unwrap_or_default();
        let mut nodes = self.nodes.write().await;
        nodes.asked = true;
        for row in masters {
            let port = row.get("HttpPort").and_then(|p| p.parse().ok());
            if let (Some(host), Some(port)) = (row.get("Host").or(row.get("IP")), port) {
                nodes.hosts.insert((host.to_string(), port));
            }
        }
        if self.config.benodes.is_none() {
            nodes.hosts.extend(found.iter().map(|e| (e.host.clone(), e.port)));
            nodes.backends = found;
        }
        Ok(())
    }

    /// `SHOW BACKENDS` needs a privilege that a loader may lack; a frontend tells the same to any account.
    async fn backends_by_sql(&self, scheme: Scheme) -> Result<Vec<Endpoint>> {
        if let Ok(rows) = self.sql.rows("SHOW BACKENDS").await {
            let found: Vec<Endpoint> = rows
                .iter()
                .filter(|row| row.get("Alive").is_none_or(|a| a.eq_ignore_ascii_case("true")))
                .filter_map(|row| {
                    let port = row.get("HttpPort")?.parse().ok()?;
                    let host = row.get("Host").or(row.get("IP"))?.to_string();
                    Some(Endpoint { scheme, host, port })
                })
                .collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
        #[derive(serde::Deserialize)]
        struct Backends {
            backends: Vec<Backend>,
        }
        #[derive(serde::Deserialize)]
        struct Backend {
            ip: String,
            http_port: u16,
        }
        let answer: super::answer::FrontendAnswer = self.get("/api/backends?is_alive=true").await?;
        let backends: Backends = serde_json::from_value(answer.data).map_err(|_| {
            Error::config("the cluster does not tell its backends to this account; set benodes")
        })?;
        let of = |b: Backend| Endpoint { scheme, host: b.ip, port: b.http_port };
        Ok(backends.backends.into_iter().map(of).collect())
    }
}

fn no_answer(e: NoAnswer, endpoint: &Endpoint, began: bool) -> (Failure, bool) {
    if e.untrusted {
        let error = Error::config(
            "the certificate of a node of doris is not trusted; set doris.tls.ca-certificate-path",
        )
        .with("node", endpoint)
        .with_source(e.what);
        return (Failure::Refused(error), false);
    }
    let error = Error::transient("a node of doris cannot be reached")
        .with("node", endpoint)
        .with_source(e.what);
    (Failure::Unknown(error), began)
}

fn parse<T: DeserializeOwned>(answer: &Answer) -> Result<T, Failure> {
    serde_json::from_slice(&answer.body).map_err(|_| {
        Failure::Unknown(Error::transient(
            "a node of doris answered with something that is not JSON",
        ))
    })
}

/// Where a redirect leads. Doris puts the credentials into the address; they are left out here.
fn location(answer: &Answer, from: &Endpoint) -> Result<(Endpoint, String)> {
    let wrong = || {
        Error::transient("a frontend of doris redirects to no address that can be read")
            .with("frontend", from)
    };
    let text = answer.headers.get(http::header::LOCATION).and_then(|v| v.to_str().ok());
    let base = match from.scheme {
        Scheme::Http => format!("http://{from}"),
        Scheme::Https => format!("https://{from}"),
    };
    let url = url::Url::parse(&base)
        .and_then(|base| base.join(text.unwrap_or_default()))
        .map_err(|_| wrong())?;
    let scheme = match url.scheme() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err(wrong()),
    };
    let host = url.host_str().ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
    let port = url.port_or_known_default().ok_or_else(wrong)?;
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_string(),
    };
    Ok((Endpoint { scheme, host, port }, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(location_header: &str) -> Result<(Endpoint, String)> {
        let from = Endpoint { scheme: Scheme::Http, host: "fe".into(), port: 8030 };
        let mut headers = http::HeaderMap::new();
        let value = HeaderValue::from_str(location_header).expect("a header");
        headers.insert(http::header::LOCATION, value);
        let status = StatusCode::TEMPORARY_REDIRECT;
        location(&Answer { status, headers, body: Default::default() }, &from)
    }

    #[test]
    fn credentials_of_an_address_are_left_out() {
        let (endpoint, path) = at("http://root:pw@be1:8040/api/d/t/_stream_load?").expect("read");
        assert_eq!(endpoint.to_string(), "be1:8040");
        assert_eq!(path, "/api/d/t/_stream_load?");
        let (endpoint, path) = at("/api/x").expect("relative");
        assert_eq!((endpoint.to_string().as_str(), path.as_str()), ("fe:8030", "/api/x"));
        assert!(at("ftp://be1/x").is_err());
    }
}
