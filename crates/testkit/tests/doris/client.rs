//! A plain client: loads, second phases, questions. Follows a redirect with its credentials, to the cluster only.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use lakeward_testkit::doris::DorisServer;
use lakeward_testkit::sql::{Session, TextRow};
use reqwest::header::LOCATION;
use reqwest::{Method, Response, Url};
use serde_json::Value as Json;

pub struct Client {
    pub server: DorisServer,
    pub database: String,
    pub sql: Session,
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
}

pub type Headers<'a> = &'a [(&'a str, &'a str)];

impl Client {
    /// A fresh database of this name, in the cluster that the environment names or a stand-in.
    pub fn start(database: &str) -> Result<Self> {
        Self::with(DorisServer::start()?, database)
    }

    pub fn with(server: DorisServer, database: &str) -> Result<Self> {
        let database = format!("lakeward_{database}");
        let mut sql = server.session(None)?;
        sql.run(&format!("DROP DATABASE IF EXISTS {database} FORCE"))?;
        sql.run(&format!("CREATE DATABASE {database}"))?;
        sql.run(&format!("USE {database}"))?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(30))
            .build()?;
        Ok(Self { server, database, sql, runtime, http })
    }

    /// Sends a request to a frontend, and on to where that points.
    pub fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: impl Into<Vec<u8>>,
    ) -> Result<Json> {
        let fenodes = self.server.fenodes();
        let frontend = fenodes.split(',').next().context("no frontend")?;
        let body = body.into();
        self.runtime.block_on(async {
            let url = Url::parse(&format!("http://{frontend}{path}"))?;
            let mut response = self.once(&method, url, headers, &body).await?;
            if response.status() == 307 {
                let to = response.headers().get(LOCATION).context("no address")?.to_str()?;
                let mut url = Url::parse(to)?;
                if url.host_str() != Some("127.0.0.1") && self.is_stand_in() {
                    bail!("a redirect to a foreign host");
                }
                url.set_username("").ok().context("no user in this address")?;
                url.set_password(None).ok().context("no password in this address")?;
                response = self.once(&method, url, headers, &body).await?;
            }
            let status = response.status();
            let text = response.text().await?;
            serde_json::from_str(&text).with_context(|| format!("HTTP {status}: {text}"))
        })
    }

    async fn once(
        &self,
        method: &Method,
        url: Url,
        headers: Headers<'_>,
        body: &[u8],
    ) -> Result<Response> {
        let mut request = self.http.request(method.clone(), url).body(body.to_vec());
        request = request.basic_auth(self.server.user(), Some(self.server.password()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(request.send().await?)
    }

    fn is_stand_in(&self) -> bool {
        matches!(self.server, DorisServer::StandIn(_))
    }

    pub fn load(&self, table: &str, headers: Headers<'_>, body: &str) -> Result<Json> {
        let path = format!("/api/{}/{table}/_stream_load", self.database);
        let mut all = vec![("Expect", "100-continue")];
        all.extend(headers);
        self.send(Method::PUT, &path, &all, body)
    }

    /// A load whose rows are to be committed later: its transaction.
    pub fn precommit(&self, table: &str, label: &str, body: &str) -> Result<i64> {
        let headers = [("label", label), ("two_phase_commit", "true"), ("column_separator", ",")];
        let answer = self.load(table, &headers, body)?;
        anyhow::ensure!(answer["Status"] == "Success", "{answer}");
        answer["TxnId"].as_i64().context("no transaction")
    }

    pub fn second_phase(&self, headers: Headers<'_>) -> Result<Json> {
        self.send(Method::PUT, &format!("/api/{}/_stream_load_2pc", self.database), headers, "")
    }

    pub fn label_state(&self, label: &str) -> Result<String> {
        let path = format!("/api/{}/get_load_state?label={label}", self.database);
        let answer = self.send(Method::GET, &path, &[], "")?;
        Ok(answer["data"].as_str().context("no state")?.to_owned())
    }

    pub fn rows(&mut self, sql: &str) -> Vec<TextRow> {
        self.sql.rows(sql).unwrap_or_else(|e| panic!("{sql}: {e:#}"))
    }

    /// The rows as text, fields joined by `|`.
    pub fn text(&mut self, sql: &str) -> Vec<String> {
        let print = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
        let rows = self.rows(sql);
        rows.into_iter()
            .map(|row| row.into_iter().map(print).collect::<Vec<_>>().join("|"))
            .collect()
    }

    pub fn refusal(&mut self, sql: &str) -> String {
        match self.sql.run(sql) {
            Ok(()) => panic!("not refused: {sql}"),
            Err(error) => format!("{error:#}"),
        }
    }
}
