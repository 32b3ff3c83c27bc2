//! The real binary in a folder of its own: started, killed and asked like a user would.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::lake::Lake;
use crate::process::{Guarded, Program, Signal, tail};
use crate::server::{PASSWORD, Server, USER, free_port};

/// A pipeline file. JSON is YAML, so that no second writer is needed.
#[derive(Debug, Clone)]
pub struct Pipeline(pub Value);

impl Pipeline {
    /// From a test server into the lake of a folder; options of its sections are set by [`Pipeline::set`].
    pub fn new(name: &str, server: &Server, tables: &str, folder: &Path) -> Self {
        let lake = Lake::in_folder(folder);
        Self(json!({
            "source": {
                "type": "mysql", "hostname": "127.0.0.1", "port": server.port(),
                "username": USER, "password": PASSWORD, "tables": tables,
            },
            "sink": {
                "type": "iceberg", "catalog.properties.type": "sql",
                "catalog.properties.uri": format!("sqlite:///{}", lake.catalog.display()),
                "catalog.properties.warehouse": format!("file://{}", lake.warehouse.display()),
            },
            "pipeline": {
                "name": name, "checkpoint.interval": "1s",
                "state.dir": folder.join("state").display().to_string(),
            },
        }))
    }

    /// From the topics of a broker into the lake of a folder.
    pub fn of_kafka(name: &str, address: &str, topic: &str, format: &str, folder: &Path) -> Self {
        let lake = Lake::in_folder(folder);
        Self(json!({
            "source": {
                "type": "kafka", "properties.bootstrap.servers": address, "topic": topic, "value.format": format,
            },
            "sink": {
                "type": "iceberg", "catalog.properties.type": "sql",
                "catalog.properties.uri": format!("sqlite:///{}", lake.catalog.display()),
                "catalog.properties.warehouse": format!("file://{}", lake.warehouse.display()),
            },
            "pipeline": {
                "name": name, "checkpoint.interval": "1s",
                "state.dir": folder.join("state").display().to_string(),
            },
        }))
    }

    /// Sets an option of a section, or a whole section with an empty key.
    pub fn set(mut self, section: &str, key: &str, value: impl Into<Value>) -> Self {
        if key.is_empty() {
            self.0[section] = value.into();
        } else {
            self.0[section][key] = value.into();
        }
        self
    }

    pub fn set_all(mut self, section: &str, options: &Map<String, Value>) -> Self {
        for (key, value) in options {
            self = self.set(section, key, value.clone());
        }
        self
    }
}

/// A pipeline that can be run, again and again, in one folder.
#[derive(Debug)]
pub struct Lakeward {
    folder: PathBuf,
    _owned: Option<TempDir>,
    binary: PathBuf,
    port: u16,
    envs: Vec<(String, String)>,
    process: Option<Guarded>,
}

impl Lakeward {
    /// `make` gets the folder and returns the pipeline.
    pub fn in_temporary_folder(make: impl FnOnce(&Path) -> Pipeline) -> Result<Self> {
        let owned = tempfile::Builder::new().prefix("lakeward-run-").tempdir()?;
        let pipeline = make(owned.path());
        let mut lakeward = Self::in_folder(owned.path(), &pipeline)?;
        lakeward._owned = Some(owned);
        Ok(lakeward)
    }

    pub fn in_folder(folder: &Path, pipeline: &Pipeline) -> Result<Self> {
        Self::of_binary(binary()?, folder, pipeline)
    }

    /// With a binary that was built elsewhere.
    pub fn of_binary(binary: PathBuf, folder: &Path, pipeline: &Pipeline) -> Result<Self> {
        let lakeward = Self {
            folder: folder.to_owned(),
            _owned: None,
            binary,
            port: free_port()?,
            envs: Vec::new(),
            process: None,
        };
        lakeward.configure(pipeline)?;
        Ok(lakeward)
    }

    /// Writes the pipeline file anew, for the next start.
    pub fn configure(&self, pipeline: &Pipeline) -> Result<()> {
        let address = format!("127.0.0.1:{}", self.port);
        let pipeline = pipeline.clone().set("pipeline", "http.address", address);
        fs::write(self.folder.join("pipeline.yaml"), serde_json::to_string_pretty(&pipeline.0)?)?;
        Ok(())
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn lake(&self) -> Lake {
        Lake::in_folder(&self.folder)
    }

    /// Keeps the folder for a look at it.
    pub fn keep_folder(&mut self) -> PathBuf {
        if let Some(owned) = self._owned.take() {
            let _ = owned.keep();
        }
        self.folder.clone()
    }

    /// Starts `lakeward run pipeline.yaml` and does not wait for anything.
    pub fn start(&mut self) -> Result<()> {
        self.start_with(&[])
    }

    /// The same with more arguments.
    pub fn start_with(&mut self, more: &[&str]) -> Result<()> {
        if self.is_running() {
            bail!("the pipeline runs already");
        }
        let mut args = vec!["run".to_owned(), "pipeline.yaml".into()];
        args.extend(more.iter().map(|a| (*a).to_owned()));
        self.process = Some(Guarded::spawn(&Program {
            path: self.binary.clone(),
            args,
            envs: self.envs.clone(),
            folder: self.folder.clone(),
            log: self.log_file(),
            doomed: None,
        })?);
        Ok(())
    }

    pub fn process(&self) -> Option<&Guarded> {
        self.process.as_ref()
    }

    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(Guarded::is_running)
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), Guarded::kill)
    }

    /// SIGTERM; a run that ends in order has exit code 0.
    pub fn stop(&mut self) -> Result<()> {
        let process = self.process.take().context("the pipeline does not run")?;
        let code = process.terminate(Duration::from_secs(60))?;
        if code != 0 {
            bail!("the run ended with {code} on SIGTERM: {}", self.tail(8));
        }
        Ok(())
    }

    /// The exit code of a run that ends by itself.
    pub fn exit_within(&mut self, patience: Duration) -> Result<i32> {
        let process = self.process.as_mut().context("the pipeline does not run")?;
        match process.exit_within(patience)? {
            Some(code) => Ok(code),
            None => bail!("the run did not end by itself within {patience:?}: {}", self.tail(8)),
        }
    }

    pub fn freeze(&mut self) -> Result<()> {
        self.process.as_mut().context("the pipeline does not run")?.signal(Signal::Stop)
    }

    pub fn thaw(&mut self) -> Result<()> {
        self.process.as_mut().context("the pipeline does not run")?.signal(Signal::Continue)
    }

    /// `lakeward wait pipeline.yaml --until …` for a running pipeline.
    pub fn wait(&mut self, until: &str, patience: Duration) -> Result<()> {
        let timeout = format!("{}s", patience.as_secs().max(1));
        let (code, said) =
            self.command(&["wait", "pipeline.yaml", "--until", until, "--timeout", &timeout])?;
        if code != 0 {
            let ended = match self.process.as_mut().map(Guarded::exit_code) {
                Some(Ok(Some(code))) => format!(" (the run has ended with {code})"),
                _ => String::new(),
            };
            bail!("`wait --until {until}` ended with {code}{ended}: {said}\n{}", self.tail(10));
        }
        Ok(())
    }

    pub fn wait_streaming(&mut self) -> Result<()> {
        self.wait("streaming", Duration::from_secs(90))
    }

    pub fn wait_caught_up(&mut self) -> Result<()> {
        self.wait("caught-up", Duration::from_secs(120))
    }

    /// Runs another command of the binary in the folder: exit code and output.
    pub fn command(&self, args: &[&str]) -> Result<(i32, String)> {
        let done = Command::new(&self.binary)
            .args(args)
            .envs(self.envs.iter().map(|(k, v)| (k, v)))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("could not start {}", self.binary.display()))?;
        let mut said = String::from_utf8_lossy(&done.stdout).into_owned();
        said += &String::from_utf8_lossy(&done.stderr);
        Ok((done.status.code().unwrap_or(-1), said.trim().to_owned()))
    }

    /// True once the HTTP API answers, false when the run has ended.
    pub fn is_up_within(&mut self, patience: Duration) -> Result<bool> {
        let end = Instant::now() + patience;
        while self.is_running() {
            if self.status().is_ok() {
                return Ok(true);
            }
            if Instant::now() > end {
                bail!("the HTTP API did not answer within {patience:?}: {}", self.tail(8));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(false)
    }

    pub fn status(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.get("/api/v1/status")?)?)
    }

    /// The body of a page of the HTTP API.
    pub fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer of HTTP")?;
        let first = head.lines().next().unwrap_or_default();
        if !first.contains(" 200") {
            bail!("{path} answered {first}");
        }
        Ok(body.to_owned())
    }

    pub fn log_file(&self) -> PathBuf {
        self.folder.join("run.log")
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_file()).unwrap_or_default()).into_owned()
    }

    pub fn tail(&self, lines: usize) -> String {
        tail(&self.log_file(), lines)
    }
}

/// The binary that lies beside the running test or command in cargo's target folder.
pub fn binary() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let found = exe.ancestors().skip(1).take(3).map(|f| f.join("lakeward")).find(|f| f.is_file());
    found.context("the binary `lakeward` is not built yet: `cargo build -p lakeward`")
}
