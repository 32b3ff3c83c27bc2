//! The cluster as a client sees it: HTTP to frontends and backends, SQL to frontends, and what is safe to repeat.
//!
//! The only modules of the sink that read the clock, wait, or start tasks.

pub(crate) mod answer;
mod cluster;
mod http;
mod queue;
mod sql;
pub(crate) mod stream_load;
mod tls;
mod transaction;

use std::fmt;
use std::time::Duration;

pub(crate) use cluster::Cluster;
pub(crate) use queue::LoadQueue;
pub(crate) use sql::{SERVER_CODE, SqlRow};
pub(crate) use stream_load::{Load, Loaded};
pub(crate) use transaction::End;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

/// Where a node listens for HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub scheme: Scheme,
    pub host: String,
    pub port: u16,
}

impl Endpoint {
    /// `host:port`, as the Host header has it.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority())
    }
}

/// What SQL a name is within a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as a literal of Doris' SQL, in which the backslash escapes.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for c in text.chars() {
        match c {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Growing pauses between tries of one thing.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    last: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, last: Duration) -> Self {
        Self { next: first, last }
    }

    pub(crate) async fn wait(&mut self) {
        let pause = self.next;
        self.next = (pause * 2).min(self.last);
        tokio::time::sleep(pause).await;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(200), Duration::from_secs(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_cannot_be_left() {
        assert_eq!(literal(r"it's \ x"), r"'it''s \\ x'");
        assert_eq!(quoted("a`b"), "`a``b`");
    }
}
