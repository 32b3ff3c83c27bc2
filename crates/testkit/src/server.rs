//! A private database server: its folder, its port, its process.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::process::{Guarded, Program, Signal, tail};

/// The account that every server gets, with all rights. `root` has no password and comes through the socket.
pub const USER: &str = "cdc";
pub const PASSWORD: &str = "cdc-Pw1";

const START_PATIENCE: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    MariaDb,
    MySql9,
}

impl Kind {
    /// The name in `LAKEWARD_REQUIRE_SERVERS`, in case files and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::MariaDb => "mariadb",
            Kind::MySql9 => "mysql9",
        }
    }
}

/// Settings of a server, over the defaults: row-based binary log with full images and full metadata, UTC.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(crate) settings: Vec<String>,
    pub(crate) tls: bool,
}

impl Options {
    /// Adds a line to the `[mysqld]` section; it wins over the default of the same name.
    pub fn set(mut self, line: impl Into<String>) -> Self {
        self.settings.push(line.into());
        self
    }

    /// The server offers TLS with a certificate of its own authority: [`Server::ca_file`].
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }
}

/// A server that runs until it is stopped or dropped. Its data is gone with it.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    port: u16,
    folder: TempDir,
    program: PathBuf,
    arguments: Vec<String>,
    process: Option<Guarded>,
}

const SETTINGS: &str = "
server-id=77
log-bin=bin
binlog_format=ROW
binlog_row_image=FULL
binlog_row_metadata=FULL
character-set-server=utf8mb4
default-time-zone=+00:00
max_allowed_packet=256M
max_connections=500
sync_binlog=0
innodb_flush_log_at_trx_commit=2
innodb_buffer_pool_size=128M
innodb_use_native_aio=0
lower_case_table_names=0
skip-name-resolve
bind-address=127.0.0.1
";

impl Server {
    /// Writes the configuration into a new folder; `prepare` fills the data folder; then starts the server.
    pub(crate) fn set_up(
        kind: Kind,
        program: &Path,
        before: &[String],
        defaults: &[String],
        options: &Options,
        prepare: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("lakeward-db-").tempdir()?;
        let port = free_port()?;
        let at = folder.path();
        let mut config = format!("[mysqld]\n{SETTINGS}");
        config += &format!(
            "port={port}\ndatadir={0}/data\ntmpdir={0}/tmp\nsocket={0}/s.sock\npid-file={0}/data/s.pid\n\
             log-error={0}/data/error.log\ninit-file={0}/init.sql\n",
            at.display()
        );
        // A server refuses to be root unless it is told to; this one is as private as its folder.
        if fs::metadata("/proc/self")?.uid() == 0 {
            config += "user=root\n";
        }
        for line in defaults.iter().chain(&options.settings) {
            config += &format!("{line}\n");
        }
        fs::write(at.join("my.cnf"), config)?;
        // Runs at every start and leaves no trace in the binary log.
        fs::write(
            at.join("init.sql"),
            format!(
                "SET SESSION sql_log_bin=0;\n\
                 CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n\
                 GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
            ),
        )?;
        fs::create_dir(at.join("data"))?;
        // Servers that share one take each other's temporary tables away.
        fs::create_dir(at.join("tmp"))?;
        prepare(at)?;
        let mut arguments = before.to_vec();
        arguments.push(format!("--defaults-file={}/my.cnf", at.display()));
        let program = program.to_owned();
        let mut server = Self { kind, port, folder, program, arguments, process: None };
        server.start()?;
        Ok(server)
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder().join("s.sock")
    }

    /// The certificate of the authority that signed the server's certificate. MySQL makes one by itself; MariaDB has one
    /// with [`Options::tls`].
    pub fn ca_file(&self) -> PathBuf {
        self.folder().join("data/ca.pem")
    }

    /// The server's own log.
    pub fn error_log(&self) -> PathBuf {
        self.folder().join("data/error.log")
    }

    /// Starts a stopped server again, on the same port and data.
    pub fn start(&mut self) -> Result<()> {
        let folder = self.folder().to_owned();
        let mut process = Guarded::spawn(&Program {
            path: self.program.clone(),
            args: self.arguments.clone(),
            envs: vec![
                ("HOME".into(), folder.display().to_string()),
                ("TZ".into(), "UTC".into()),
                ("LC_ALL".into(), "C.UTF-8".into()),
            ],
            folder: folder.clone(),
            log: folder.join("out.log"),
            doomed: Some(folder.clone()),
        })?;
        let end = Instant::now() + START_PATIENCE;
        while !greets(self.port) {
            let gone = process.exit_code()?;
            if gone.is_some() || Instant::now() > end {
                bail!(
                    "{} did not come up ({}): {} {}",
                    self.kind.name(),
                    gone.map_or("no greeting".to_owned(), |code| format!("exit code {code}")),
                    tail(&self.error_log(), 8),
                    tail(&folder.join("out.log"), 4),
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process = Some(process);
        Ok(())
    }

    /// An orderly end.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(process) = self.process.take() {
            process.terminate(Duration::from_secs(60))?;
        }
        Ok(())
    }

    /// `kill -9`: what was written stays on disk, and the next start recovers.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(process) = self.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.start()
    }

    /// Freezes the server, so that it neither answers nor closes anything, until [`Server::thaw`].
    pub fn freeze(&mut self) -> Result<()> {
        self.process.as_mut().context("the server is not running")?.signal(Signal::Stop)
    }

    pub fn thaw(&mut self) -> Result<()> {
        self.process.as_mut().context("the server is not running")?.signal(Signal::Continue)
    }
}

/// A port of 127.0.0.1 that nobody listens on right now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// True once the server sends its greeting: it listens only after the init file has run.
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut start = [0_u8; 5];
    stream.read_exact(&mut start).is_ok() && start[4] == 10
}
