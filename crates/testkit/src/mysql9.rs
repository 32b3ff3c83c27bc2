//! MySQL 9, unpacked into the cache folder by `scripts/get-mysql.sh`. The system is not changed.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::tail;
use crate::require::or_skip;
use crate::server::{Kind, Options, Server};
use crate::{cache, process};

/// Starts a server with GTIDs on, or skips the running test: see [`or_skip`].
pub fn start_or_skip() -> Option<Server> {
    start_with_or_skip(&Options::default())
}

pub fn start_with_or_skip(options: &Options) -> Option<Server> {
    or_skip(Kind::MySql9.name(), find())?;
    Some(start(options).expect("the unpacked MySQL starts"))
}

/// The unpacked tree: the newest version in the cache folder.
pub fn find() -> Result<PathBuf> {
    let cache = cache::folder()?;
    let mut trees = Vec::new();
    for entry in fs::read_dir(&cache)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("mysql-")
            && path.join("run").is_file()
        {
            let numbers: Vec<u32> = version.split('.').filter_map(|n| n.parse().ok()).collect();
            trees.push((numbers, path));
        }
    }
    let newest = trees.into_iter().max();
    newest.map(|(_, path)| path).context("MySQL 9 is not unpacked; `cargo xtask test` does that")
}

/// Finds the tree, or fetches it from the mirror that this system's package manager uses.
pub fn fetch() -> Result<PathBuf> {
    if let Ok(tree) = find() {
        return Ok(tree);
    }
    process::find_program("apt-get").context("MySQL 9 comes from Debian's packages; no apt-get")?;
    let script = cache::workspace().join("scripts/get-mysql.sh");
    let done = Command::new(script).arg(cache::folder()?).stdout(Stdio::null()).status()?;
    if !done.success() {
        bail!("scripts/get-mysql.sh failed");
    }
    find()
}

pub fn start(options: &Options) -> Result<Server> {
    let tree = find()?;
    let root = tree.join("root/usr").display().to_string();
    let defaults = [
        format!("basedir={root}"),
        format!("lc-messages-dir={root}/share/mysql"),
        format!("character-sets-dir={root}/share/mysql/charsets"),
        format!("plugin-dir={root}/lib/mysql/plugin"),
        "mysqlx=OFF".into(),
        "secure-file-priv=".into(),
        "gtid_mode=ON".into(),
        "enforce_gtid_consistency=ON".into(),
        // Full size takes 500 MB; nothing here looks at it.
        "performance_schema=OFF".into(),
        "innodb_redo_log_capacity=64M".into(),
    ];
    let run = tree.join("run");
    let mysqld = ["/usr/sbin/mysqld".to_owned()];
    Server::set_up(Kind::MySql9, &run, &mysqld, &defaults, options, |folder| {
        let log = folder.join("install.log");
        let done = Command::new(&run)
            .args(&mysqld)
            .arg(format!("--defaults-file={}/my.cnf", folder.display()))
            .arg("--initialize-insecure")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&log)?)
            .stderr(fs::OpenOptions::new().append(true).open(&log)?)
            .status()?;
        if !done.success() {
            bail!("mysqld --initialize failed: {}", tail(&folder.join("data/error.log"), 6));
        }
        Ok(())
    })
}

#[cfg(all(test, feature = "sql"))]
mod tests {
    use super::*;

    #[test]
    fn starts_with_gtids_and_tls() {
        let Some(mut server) = start_or_skip() else { return };
        let mut session = server.session(None).unwrap();
        let version = session.one("SELECT version()").unwrap().unwrap();
        assert!(version.starts_with("9."), "{version}");
        assert_eq!(session.one("SELECT @@gtid_mode").unwrap().as_deref(), Some("ON"));
        assert!(server.ca_file().exists());
        // The account of the init file is in no binary log: a replica would trip over it.
        assert_eq!(session.one("SELECT @@gtid_executed").unwrap().as_deref(), Some(""));
        server.restart().unwrap();
    }
}
