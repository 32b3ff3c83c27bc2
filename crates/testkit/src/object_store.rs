//! A store that speaks S3, as a child process: the server of moto, a Python program of the readers' environment. What it
//! holds is in its memory and gone with it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::process::{Guarded, Program, Signal, tail};
use crate::server::free_port;
use crate::venv;

/// The bucket that is there.
pub const BUCKET: &str = "lake";
const REGION: &str = "eu-central-1";
const ACCESS_KEY: &str = "AKIALAKEWARDTESTS000";
const SECRET_KEY: &str = "secret-key-of-the-tests";
const START_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct ObjectStore {
    port: u16,
    process: Guarded,
    _folder: TempDir,
}

impl ObjectStore {
    /// Starts a store and makes its bucket.
    pub fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("lakeward-s3-").tempdir()?;
        let (port, log) = (free_port()?, folder.path().join("moto.log"));
        let words = ["-m", "moto.server", "-H", "127.0.0.1", "-p"];
        let mut args: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        args.push(port.to_string());
        let process = Guarded::spawn(&Program {
            path: venv::find()?,
            args,
            envs: Vec::new(),
            folder: folder.path().to_owned(),
            log: log.clone(),
            doomed: None,
        })?;
        let mut store = Self { port, process, _folder: folder };
        let end = Instant::now() + START_PATIENCE;
        while !store.put_bucket().is_ok_and(|status| status == 200) {
            if !store.process.is_running() || Instant::now() > end {
                bail!("the store does not answer: {}", tail(&log, 10));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(store)
    }

    fn put_bucket(&self) -> Result<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let body = format!(
            "<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>"
        );
        write!(
            stream,
            "PUT /{BUCKET} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(status.unwrap_or(0))
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where it is and what opens it, as PyIceberg's file access names these things.
    pub fn properties(&self) -> Map<String, Value> {
        let pairs = [
            ("s3.endpoint", json!(self.endpoint())),
            ("s3.region", json!(REGION)),
            ("s3.access-key-id", json!(ACCESS_KEY)),
            ("s3.secret-access-key", json!(SECRET_KEY)),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
    }

    /// The sink's options for a warehouse in a bucket.
    pub fn options(&self, bucket: &str) -> Map<String, Value> {
        let of_catalog = |(key, value)| (format!("catalog.properties.{key}"), value);
        let mut options: Map<String, Value> =
            self.properties().into_iter().map(of_catalog).collect();
        let warehouse = format!("s3://{bucket}/warehouse");
        options.insert("catalog.properties.warehouse".into(), json!(warehouse));
        options.insert("catalog.properties.s3.path-style-access".into(), json!(true));
        options
    }

    /// It stops to answer, and connections stay open.
    pub fn freeze(&mut self) -> Result<()> {
        self.process.signal(Signal::Stop)
    }

    pub fn thaw(&mut self) -> Result<()> {
        self.process.signal(Signal::Continue)
    }
}
