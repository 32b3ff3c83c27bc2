//! The folder where downloads and virtual environments outlive a test run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// `lakeward` in the user's cache folder.
pub fn folder() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) if Path::new(&cache).is_absolute() => PathBuf::from(cache),
        _ => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    let folder = base.join("lakeward");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("could not make the folder {}", folder.display()))?;
    Ok(folder)
}

/// The folder of the workspace that this crate was built from.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate lies in crates/testkit").to_owned()
}

/// FNV-1a: a name for a text that stays the same between builds.
pub fn fingerprint(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
