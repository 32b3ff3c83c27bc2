//! As much of HTTP as Flink's REST interface needs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
const BOUNDARY: &str = "lakeward-7c1d90ab55e2";

/// The REST interface on a port of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    pub port: u16,
}

impl Rest {
    pub fn get(self, path: &str) -> Result<Value> {
        self.ask("GET", path, "application/json", &[])
    }

    pub fn post(self, path: &str, body: &Value) -> Result<Value> {
        self.ask("POST", path, "application/json", body.to_string().as_bytes())
    }

    pub fn patch(self, path: &str) -> Result<Value> {
        self.ask("PATCH", path, "application/json", &[])
    }

    /// Uploads a jar and returns the id that Flink gives it.
    pub fn upload(self, jar: &Path) -> Result<String> {
        let name = jar.file_name().unwrap_or_default().to_string_lossy();
        let mut body = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"{name}\"\r\n\
             Content-Type: application/x-java-archive\r\n\r\n"
        )
        .into_bytes();
        body.extend(fs::read(jar).with_context(|| format!("no jar {}", jar.display()))?);
        body.extend(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let answer = self.ask("POST", "/jars/upload", &kind, &body)?;
        let file = answer["filename"].as_str().context("the upload has no file name")?;
        Ok(file.rsplit('/').next().unwrap_or(file).to_owned())
    }

    fn ask(self, method: &str, path: &str, kind: &str, body: &[u8]) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).with_context(|| format!("{path} did not answer"))?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer of HTTP")?;
        let first = head.lines().next().unwrap_or_default();
        if !first.contains(" 200") && !first.contains(" 202") {
            bail!("{path} answered {first}: {body}");
        }
        serde_json::from_str(body).with_context(|| format!("{path} did not answer with JSON"))
    }
}
