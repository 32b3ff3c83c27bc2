//! MariaDB, from the system's package `mariadb-server`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::certificates;
use crate::process::{find_program, tail};
use crate::require::or_skip;
use crate::server::{Kind, Options, Server};

/// Starts a server with the defaults, or skips the running test: see [`or_skip`].
pub fn start_or_skip() -> Option<Server> {
    start_with_or_skip(&Options::default())
}

pub fn start_with_or_skip(options: &Options) -> Option<Server> {
    or_skip(Kind::MariaDb.name(), find())?;
    Some(start(options).expect("the installed MariaDB starts"))
}

/// An error when MariaDB is not installed.
pub fn find() -> Result<()> {
    for program in ["mariadbd", "mariadb-install-db"] {
        find_program(program).with_context(|| {
            format!("{program} is not installed; the package is mariadb-server")
        })?;
    }
    Ok(())
}

pub fn start(options: &Options) -> Result<Server> {
    let program = find_program("mariadbd").context("mariadbd is not installed")?;
    let mut defaults = vec!["innodb_log_file_size=64M".to_owned()];
    if options.tls {
        defaults.push("ssl-ca=ca.pem\nssl-cert=server-cert.pem\nssl-key=server-key.pem".into());
    }
    Server::set_up(Kind::MariaDb, &program, &[], &defaults, options, |folder| {
        install(folder)?;
        if options.tls { certificates::make(&folder.join("data")) } else { Ok(()) }
    })
}

fn install(folder: &Path) -> Result<()> {
    let log = folder.join("install.log");
    let program = find_program("mariadb-install-db").context("mariadb-install-db is missing")?;
    let done = Command::new(program)
        .arg(format!("--defaults-file={}/my.cnf", folder.display()))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&log)?)
        .stderr(fs::OpenOptions::new().append(true).open(&log)?)
        .status()?;
    if !done.success() {
        let of_server = tail(&folder.join("data/error.log"), 6);
        bail!("mariadb-install-db failed: {} {of_server}", tail(&log, 2));
    }
    Ok(())
}

#[cfg(all(test, feature = "sql"))]
mod tests {
    use super::*;

    #[test]
    fn survives_kill_and_keeps_its_data() {
        let Some(mut server) = start_with_or_skip(&Options::default().tls()) else { return };
        let mut session = server.session(None).unwrap();
        session.run("CREATE DATABASE d").unwrap();
        session.run("CREATE TABLE d.t(id INT PRIMARY KEY, s VARCHAR(10))").unwrap();
        session.run("INSERT INTO d.t VALUES(1,'é'),(2,NULL)").unwrap();
        server.kill().unwrap();
        server.start().unwrap();
        let mut session = server.session(Some("d")).unwrap();
        let rows = session.rows("SELECT * FROM t ORDER BY id").unwrap();
        assert_eq!(rows, [vec![Some("1".into()), Some("é".into())], vec![Some("2".into()), None]]);
        assert_eq!(session.one("SELECT @@have_ssl").unwrap().as_deref(), Some("YES"));
        assert!(server.ca_file().exists());
        server.restart().unwrap();
    }
}
