//! A state directory on a local disk.
//!
//! ```text
//! lock                  locked while a process runs; holds its process id
//! pipeline.json         whose state this is
//! attempt               the number of the last attempt
//! checkpoints/
//!   000000000007.ckpt   the last three; a file is there as a whole or not at all
//!   000000000008.damaged  set aside because it could not be read
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind as IoKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{Error, Result};

use super::file::{Refusal, decode, encode, foreign};
use super::{Checkpoint, CheckpointStore, Identity, Loaded};

const KEPT: usize = 3;
const EXTENSION: &str = "ckpt";
const DAMAGED: &str = "damaged";
const TEMPORARY: &str = "tmp";
const IDENTITY: &str = "pipeline.json";

/// Holds the directory's lock for as long as it lives; the system releases it when the process dies in any way.
pub struct DirStore {
    content: Arc<Content>,
}

struct Content {
    dir: PathBuf,
    identity: Identity,
    _lock: File,
}

impl DirStore {
    /// Makes the directory if needed and locks it.
    ///
    /// # Errors
    /// `Config` when another process runs on it, or when it belongs to another pipeline.
    pub fn open(dir: impl Into<PathBuf>, identity: Identity) -> Result<Self> {
        let dir = dir.into();
        let checkpoints = dir.join("checkpoints");
        fs::create_dir_all(&checkpoints)
            .map_err(|e| io_error(e, "could not create the state directory", &dir))?;
        let lock = lock(&dir)?;
        check_identity(&dir, &identity)?;
        remove_temporaries(&dir)?;
        remove_temporaries(&checkpoints)?;
        Ok(Self { content: Arc::new(Content { dir, identity, _lock: lock }) })
    }

    /// Whether the state there could be gone on from, without touching anything.
    ///
    /// # Errors
    /// `Config` when it belongs to another pipeline.
    pub fn check(dir: &Path, identity: &Identity) -> Result<()> {
        read_identity(dir).and_then(|found| match found {
            Some(found) => agrees(dir, &found, identity),
            None => Ok(()),
        })
    }

    /// Attempts that are begun from now on have higher numbers: for state that another runtime wrote.
    pub async fn raise_attempt(&self, at_least: u64) -> Result<()> {
        let last = self.begin_attempt().await?;
        if last >= at_least {
            return Ok(());
        }
        self.blocking(move |content| {
            write_durably(&content.dir.join("attempt"), format!("{at_least}\n").as_bytes())
        })
        .await
    }

    pub fn path(&self) -> &Path {
        &self.content.dir
    }

    /// Disk work, off the threads that move data.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Content) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let content = self.content.clone();
        match tokio::task::spawn_blocking(move || work(&content)).await {
            Ok(result) => result,
            Err(e) => Err(Error::bug("work on the state directory was cut off").with_source(e)),
        }
    }
}

#[async_trait]
impl CheckpointStore for DirStore {
    async fn begin_attempt(&self) -> Result<u64> {
        self.blocking(|content| {
            let path = content.dir.join("attempt");
            let last = match fs::read_to_string(&path) {
                // Written as a whole with its line end, so a number without one is half of a number.
                Ok(text) => text.strip_suffix('\n').unwrap_or("").parse::<u64>().map_err(|_| {
                    Error::config("the file holds no attempt number in a line of its own; write the last one into it")
                        .with("file", path.display())
                })?,
                Err(e) if e.kind() == IoKind::NotFound => 0,
                Err(e) => return Err(io_error(e, "could not read the attempt number", &path)),
            };
            write_durably(&path, format!("{}\n", last + 1).as_bytes())?;
            Ok(last + 1)
        })
        .await
    }

    async fn load(&self) -> Result<Loaded> {
        self.blocking(Content::load).await
    }

    async fn save(&self, checkpoint: Arc<Checkpoint>) -> Result<u64> {
        self.blocking(move |content| {
            let bytes = encode(&checkpoint, &content.identity)?;
            write_durably(&content.file(checkpoint.id, EXTENSION), &bytes)?;
            content.clean();
            Ok(bytes.len() as u64)
        })
        .await
    }

    async fn set_newest_aside(&self, why: &str) -> Result<bool> {
        let why = why.to_string();
        self.blocking(move |content| {
            let ids = content.ids(EXTENSION)?;
            match ids.as_slice() {
                [older @ .., newest] if !older.is_empty() => {
                    content.set_aside(*newest, &why, older.len())?;
                    Ok(true)
                }
                _ => Ok(false),
            }
        })
        .await
    }
}

impl Content {
    fn file(&self, id: u64, extension: &str) -> PathBuf {
        self.dir.join("checkpoints").join(format!("{id:012}.{extension}"))
    }

    /// Ids of the files with that extension, in order.
    fn ids(&self, extension: &str) -> Result<Vec<u64>> {
        let dir = self.dir.join("checkpoints");
        let failed = |e| io_error(e, "could not list the checkpoints", &dir);
        let mut ids = Vec::new();
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let stem = path.file_stem().and_then(|s| s.to_str());
            if path.extension().is_some_and(|e| e == extension) {
                ids.extend(stem.and_then(|s| s.parse::<u64>().ok()));
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn load(&self) -> Result<Loaded> {
        let ids = self.ids(EXTENSION)?;
        let damaged = self.ids(DAMAGED)?;
        let last_id = ids.last().max(damaged.last()).copied().unwrap_or(0);
        for (at, id) in ids.iter().enumerate().rev() {
            let path = self.file(*id, EXTENSION);
            let bytes =
                fs::read(&path).map_err(|e| io_error(e, "could not read a checkpoint", &path))?;
            match decode(&bytes, &self.identity) {
                Ok(checkpoint) if checkpoint.id == *id => {
                    return Ok(Loaded { checkpoint: Some(Arc::new(checkpoint)), last_id });
                }
                Ok(_) => self.set_aside(*id, "it has another checkpoint's content", at)?,
                Err(Refusal::Damaged(why)) => self.set_aside(*id, why, at)?,
                Err(Refusal::Foreign(e)) => return Err(e.with("file", path.display())),
            }
        }
        if last_id > 0 {
            return Err(Error::config(
                "no checkpoint in the state directory can be read; restore one from a backup, or read the tables anew \
                 with --resnapshot and a new state.dir",
            )
            .with("state.dir", self.dir.display()));
        }
        Ok(Loaded::default())
    }

    /// A checkpoint that cannot be used is kept under another name, for a look at what happened.
    fn set_aside(&self, id: u64, why: &str, older: usize) -> Result<()> {
        let (from, to) = (self.file(id, EXTENSION), self.file(id, DAMAGED));
        let file = from.display();
        tracing::error!(checkpoint = id, %file, older, "checkpoint is of no use: {why}; going back to the one before it");
        fs::rename(&from, &to).map_err(|e| io_error(e, "could not set a checkpoint aside", &from))
    }

    /// Old files cost only space: what cannot be removed now is removed next time.
    fn clean(&self) {
        let remove = |id: u64, extension: &str| {
            let path = self.file(id, extension);
            if let Err(e) = fs::remove_file(&path) {
                tracing::warn!(file = %path.display(), "could not remove an old checkpoint: {e}");
            }
        };
        let listed = |extension| {
            self.ids(extension).unwrap_or_else(|e| {
                tracing::warn!("old checkpoints stay: {e}");
                Vec::new()
            })
        };
        let ids = listed(EXTENSION);
        let kept = &ids[ids.len().saturating_sub(KEPT)..];
        let Some(oldest) = kept.first() else { return };
        ids.iter().filter(|id| *id < oldest).for_each(|id| remove(*id, EXTENSION));
        listed(DAMAGED).iter().filter(|id| *id < oldest).for_each(|id| remove(*id, DAMAGED));
    }
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|e| io_error(e, "could not open the lock file", &path))?;
    match file.try_lock() {
        Ok(()) => {
            // For people only: the lock itself is the system's. Failing to write it must not stop a pipeline.
            if let Err(e) = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()))
            {
                tracing::debug!("could not write the process id into the lock file: {e}");
            }
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let holder = io::read_to_string(&file).unwrap_or_default();
            let holder = holder.trim();
            let holder = if holder.is_empty() { "unknown" } else { holder };
            Err(Error::config("the pipeline is already running; stop that process first")
                .with("process", holder)
                .with("state.dir", dir.display()))
        }
        Err(TryLockError::Error(e)) => {
            Err(io_error(e, "could not lock the state directory", &path))
        }
    }
}

fn check_identity(dir: &Path, identity: &Identity) -> Result<()> {
    if let Some(found) = read_identity(dir)? {
        return agrees(dir, &found, identity);
    }
    let text = serde_json::to_vec_pretty(identity)
        .map_err(|e| Error::bug("could not encode the identity").with_source(e))?;
    write_durably(&dir.join(IDENTITY), &text)
}

fn agrees(dir: &Path, found: &Identity, identity: &Identity) -> Result<()> {
    if found == identity {
        return Ok(());
    }
    Err(foreign(found, identity).with("state.dir", dir.display()))
}

/// `None` where there is no state yet.
fn read_identity(dir: &Path) -> Result<Option<Identity>> {
    let path = dir.join(IDENTITY);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Error::config("the file that says whose state this is cannot be read; put it back from a copy, or set another state.dir and read the tables \
                 anew with --resnapshot")
                .with("file", path.display())
                .with_source(e)
        }),
        Err(e) if e.kind() == IoKind::NotFound => Ok(None),
        Err(e) => Err(io_error(e, "could not read the state directory", &path)),
    }
}

/// The file has its new content or its old one, whatever happens in between.
fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension(TEMPORARY);
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // The new name is durable only once the folder is.
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    })();
    written.map_err(|e| {
        // What is left of it is removed at the next start, if not now.
        let _ = fs::remove_file(&temporary);
        io_error(e, "could not write to the state directory", path)
    })
}

fn remove_temporaries(dir: &Path) -> Result<()> {
    let failed = |e| io_error(e, "could not clean the state directory", dir);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == TEMPORARY) {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

fn io_error(e: io::Error, what: &str, path: &Path) -> Error {
    let error = match e.kind() {
        IoKind::StorageFull | IoKind::QuotaExceeded => {
            Error::transient(format!("{what}: the disk is full; free space on it, then it goes on"))
        }
        IoKind::PermissionDenied | IoKind::ReadOnlyFilesystem | IoKind::NotADirectory => {
            Error::config(format!("{what}; give this user the right to write there"))
        }
        _ => Error::transient(what),
    };
    error.with("path", path.display()).with_source(e)
}

#[cfg(test)]
mod tests;
