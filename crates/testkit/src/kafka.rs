//! Apache Kafka as it is released: one broker that is its own controller (KRaft), a Java program whose jars come through
//! Maven. The system is not changed.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::process::{Guarded, Program, Signal, find_program, tail};
use crate::require::or_skip;
use crate::server::free_port;
use crate::{cache, certificates, maven};

/// The name in `LAKEWARD_REQUIRE_SERVERS`.
pub const NAME: &str = "kafka";

const VERSION: &str = "4.1.2";
const START_PATIENCE: Duration = Duration::from_secs(90);

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lakeward</groupId>
  <artifactId>kafka-broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>@VERSION@</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"#;

/// The folder of the jars.
pub fn find() -> Result<PathBuf> {
    java()?;
    let folder = cache::folder()?.join(format!("kafka-{VERSION}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    bail!("the jars of Apache Kafka are not there; `cargo xtask test` fetches them")
}

fn java() -> Result<PathBuf> {
    find_program("java").context("there is no Java")
}

/// Finds the jars, or has Maven fetch them from where it is told to fetch.
pub fn fetch() -> Result<PathBuf> {
    if let Ok(folder) = find() {
        return Ok(folder);
    }
    let work = tempfile::Builder::new().prefix("kafka-fetch-").tempdir_in(cache::folder()?)?;
    maven::copy_dependencies(&POM.replace("@VERSION@", VERSION), work.path())
        .with_context(|| format!("could not fetch Apache Kafka {VERSION}"))?;
    // All or nothing.
    let folder = cache::folder()?.join(format!("kafka-{VERSION}"));
    if fs::rename(work.path().join("lib"), &folder).is_err() && !folder.is_dir() {
        bail!("could not put the jars into {}", folder.display());
    }
    find()
}

/// A broker that runs until it is stopped or dropped. Its data is gone with it.
#[derive(Debug)]
pub struct Broker {
    port: u16,
    secured_port: u16,
    folder: TempDir,
    process: Option<Guarded>,
}

/// Starts a broker, or skips the running test: see [`or_skip`].
pub fn start_or_skip() -> Option<Broker> {
    or_skip(NAME, find())?;
    Some(Broker::start_new().expect("Apache Kafka starts"))
}

/// The account of the secured listener.
pub const USER: &str = "lake";
pub const PASSWORD: &str = "kafka-secret-5f2e";

impl Broker {
    pub fn start_new() -> Result<Self> {
        Self::start_with(false)
    }

    /// With a second listener that wants TLS and SASL, by PLAIN or SCRAM-SHA-512.
    pub fn start_secured() -> Result<Self> {
        Self::start_with(true)
    }

    fn start_with(secured: bool) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("lakeward-kafka-").tempdir()?;
        let (port, secured_port, controller) = (free_port()?, free_port()?, free_port()?);
        let (listener, mut more) = (format!(",SASL_SSL://127.0.0.1:{secured_port}"), String::new());
        if secured {
            certificates::make(folder.path())?;
            let read = |name: &str| fs::read_to_string(folder.path().join(name));
            let store = read("server-key.pem")? + &read("server-cert.pem")? + &read("ca.pem")?;
            fs::write(folder.path().join("server.pem"), store)?;
            const MODULES: &str = "org.apache.kafka.common.security";
            more = format!(
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL\n\
                 ssl.keystore.type=PEM\nssl.keystore.location={}\nsasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
                 listener.name.sasl_ssl.plain.sasl.jaas.config={MODULES}.plain.PlainLoginModule required \
                 user_{USER}=\"{PASSWORD}\";\n\
                 listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={MODULES}.scram.ScramLoginModule required;\n",
                folder.path().join("server.pem").display(),
            );
        }
        let listener = if secured { listener.as_str() } else { "" };
        let data = folder.path().join("data");
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\ncontroller.listener.names=CONTROLLER\n\
             listeners=PLAINTEXT://127.0.0.1:{port}{listener},CONTROLLER://127.0.0.1:{controller}\n\
             log.dirs={}\nauto.create.topics.enable=false\ngroup.initial.rebalance.delay.ms=0\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\nlog.initial.task.delay.ms=100\n\
             share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n{more}",
            data.display()
        );
        fs::write(folder.path().join("server.properties"), properties)?;
        let mut broker = Self { port, secured_port, folder, process: None };
        let account = format!("SCRAM-SHA-512=[name={USER},password={PASSWORD}]");
        let accounts: &[&str] = if secured { &["--add-scram", &account] } else { &[] };
        let formatted = Command::new(java()?)
            .args(broker.arguments("kafka.tools.StorageTool", &["format"])?)
            .args(["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", "server.properties"])
            .args(accounts)
            .current_dir(broker.folder.path())
            .stdin(Stdio::null())
            .output()?;
        if !formatted.status.success() {
            bail!(
                "the data folder could not be made: {}",
                String::from_utf8_lossy(&formatted.stderr)
            );
        }
        broker.start()?;
        Ok(broker)
    }

    fn arguments(&self, class: &str, more: &[&str]) -> Result<Vec<String>> {
        let jars = find()?.join("*").display().to_string();
        // Small and soon ready, instead of fast.
        let fixed =
            ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &jars, class];
        Ok(fixed.iter().chain(more).map(|a| (*a).to_owned()).collect())
    }

    /// Starts a stopped broker again, on the same port and data.
    pub fn start(&mut self) -> Result<()> {
        let folder = self.folder.path().to_owned();
        let log = folder.join("broker.log");
        let mut process = Guarded::spawn(&Program {
            path: java()?,
            args: self.arguments("kafka.Kafka", &["server.properties"])?,
            envs: vec![("LC_ALL".into(), "C.UTF-8".into())],
            folder: folder.clone(),
            log: log.clone(),
            doomed: Some(folder),
        })?;
        let end = Instant::now() + START_PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let gone = process.exit_code()?;
            if gone.is_some() || Instant::now() > end {
                bail!("Apache Kafka did not come up (exit code {gone:?}): {}", tail(&log, 8));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.process = Some(process);
        Ok(())
    }

    /// `host:port` for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The listener of [`Broker::start_secured`].
    pub fn secured_address(&self) -> String {
        format!("127.0.0.1:{}", self.secured_port)
    }

    /// The file of the authority that signed its certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// An orderly end.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(process) = self.process.take() {
            process.terminate(Duration::from_secs(60))?;
        }
        Ok(())
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), Guarded::kill)
    }

    /// Freezes the broker, so that it neither answers nor closes anything, until [`Broker::thaw`].
    pub fn freeze(&mut self) -> Result<()> {
        self.process.as_mut().context("the broker is not running")?.signal(Signal::Stop)
    }

    pub fn thaw(&mut self) -> Result<()> {
        self.process.as_mut().context("the broker is not running")?.signal(Signal::Continue)
    }
}
