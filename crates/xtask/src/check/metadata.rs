//! What `cargo metadata` says, as far as the checks read it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::build::cargo;

#[derive(Debug, Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
    pub workspace_members: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub manifest_path: PathBuf,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `dev`, `build`, or nothing for an ordinary one.
    pub kind: Option<String>,
}

impl Metadata {
    /// The crates of this project.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|p| self.workspace_members.contains(&p.id))
    }

    /// Everybody else's.
    pub fn libraries(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|p| !self.workspace_members.contains(&p.id))
    }
}

impl Package {
    pub fn is_connector(&self) -> bool {
        self.manifest_path
            .parent()
            .and_then(Path::parent)
            .is_some_and(|p| p.ends_with("connectors"))
    }

    /// Names of what the crate itself is built with; tests may use more.
    pub fn built_with(&self) -> impl Iterator<Item = &str> {
        let ordinary = self.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev"));
        ordinary.map(|d| d.name.as_str())
    }
}

pub fn load() -> Result<Metadata> {
    let done = cargo(&["metadata", "--format-version", "1", "--locked"])?
        .output()
        .context("could not start cargo metadata")?;
    if !done.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(serde_json::from_slice(&done.stdout)?)
}
