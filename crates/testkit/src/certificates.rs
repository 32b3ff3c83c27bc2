//! Certificates for test servers.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// An authority (`ca.pem`) and a server certificate signed by it (`server-cert.pem`, `server-key.pem`), for `localhost` and
/// 127.0.0.1, valid for a few days.
pub fn make(folder: &Path) -> Result<()> {
    fs::write(folder.join("names.cnf"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n")?;
    for arguments in [
        "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=lakeward-test-ca -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server-key.pem -out server.csr",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 30 -extfile names.cnf \
         -out server-cert.pem",
    ] {
        openssl(folder, arguments)?;
    }
    Ok(())
}

fn openssl(folder: &Path, arguments: &str) -> Result<()> {
    let done = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .context("openssl is not installed")?;
    if !done.status.success() {
        bail!("openssl failed: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}
