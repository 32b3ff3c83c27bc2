//! Files of the lake: a local folder, S3, or memory for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use iceberg::io::{FileIO, FileIOBuilder};
use iceberg_storage_opendal::OpenDalResolvingStorageFactory;
use lakeward_core::{Error, ErrorKind, Result, ResultExt};

use crate::bucket::Bucket;
use crate::config::IcebergConfig;
use crate::store_error::StoreResultExt;

/// Files that are read, written, synced or deleted at the same time.
pub const FILE_CONCURRENCY: usize = 32;

/// From so many files on, their file system is synced as a whole.
const MIN_FILES_TO_SYNC_AT_ONCE: usize = 24;

/// Reads and writes the lake's files, by their full locations.
#[derive(Debug, Clone)]
pub struct Lake {
    file_io: FileIO,
    bucket: Option<Bucket>,
}

impl Lake {
    pub fn from_config(config: &IcebergConfig) -> Result<Self> {
        let warehouse = config.warehouse()?;
        let scheme = warehouse.split_once("://").map_or("", |(scheme, _)| scheme);
        if !matches!(scheme, "file" | "s3" | "s3a") {
            return Err(Error::config(
                "catalog.properties.warehouse must start with file:/// or s3://",
            )
            .with("warehouse", warehouse));
        }
        if scheme == "file" && local_path(warehouse).is_none_or(|p| !p.is_absolute()) {
            return Err(Error::config("a local warehouse needs an absolute path: file:///path")
                .with("warehouse", warehouse));
        }
        let factory = Arc::new(OpenDalResolvingStorageFactory::new());
        let file_io = FileIOBuilder::new(factory).with_props(&config.catalog).build();
        let bucket = Bucket::of(warehouse, &config.catalog)?;
        Ok(Self { file_io, bucket })
    }

    /// For tests. Locations start with `memory:/`.
    pub fn memory() -> Self {
        Self { file_io: FileIO::new_with_memory(), bucket: None }
    }

    /// Looks, without changing anything, whether a warehouse can be used at all.
    ///
    /// # Errors
    /// `Config` when the store refuses, `Transient` when it cannot be reached.
    pub async fn probe(&self, warehouse: &str) -> Result<()> {
        match (&self.bucket, local_path(warehouse)) {
            (Some(bucket), _) => bucket.probe(warehouse).await,
            (None, Some(path)) => check_writable(&path),
            (None, None) => Ok(()),
        }
    }

    pub fn file_io(&self) -> &FileIO {
        &self.file_io
    }

    pub async fn read(&self, location: &str) -> Result<Bytes> {
        let failed = || format!("could not read {location}");
        let input = self.file_io.new_input(location).or_store(failed())?;
        input.read().await.or_store(failed())
    }

    pub async fn write(&self, location: &str, bytes: Bytes) -> Result<()> {
        let failed = || format!("could not write {location}");
        let output = self.file_io.new_output(location).or_store(failed())?;
        output.write(bytes).await.or_store(failed())
    }

    pub async fn exists(&self, location: &str) -> Result<bool> {
        self.file_io.exists(location).await.or_store(format!("could not look for {location}"))
    }

    /// Deletes files that nothing refers to. One that stays is only an orphan, so a failure is logged and no more.
    pub async fn delete_all(&self, locations: Vec<String>) {
        futures::stream::iter(locations)
            .for_each_concurrent(FILE_CONCURRENCY, |location| async move {
                if let Err(error) = self.file_io.delete(&location).await {
                    tracing::warn!(%location, %error, "could not delete a file that is no longer needed");
                }
            })
            .await;
    }

    pub async fn delete_folder(&self, location: &str) -> Result<()> {
        self.file_io.delete_prefix(location).await.or_store(format!("could not delete {location}"))
    }

    /// Returns when the files survive a power failure. Object stores promise that by themselves. Local files are synced:
    /// a few one by one, many with one call for their whole file system, which costs as much as a few.
    pub async fn make_durable(
        &self,
        locations: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<()> {
        let paths: Vec<PathBuf> =
            locations.into_iter().filter_map(|l| local_path(l.as_ref())).collect();
        if paths.len() >= MIN_FILES_TO_SYNC_AT_ONCE && cfg!(target_os = "linux") {
            return blocking(move || sync_file_systems(&paths)).await;
        }
        futures::stream::iter(paths)
            .map(|path| blocking(move || sync_file(&path)))
            .buffer_unordered(FILE_CONCURRENCY)
            .fold(Ok(()), |all, one| async move { all.and(one) })
            .await
    }

    /// Files below a folder. `None` where the store cannot be listed through us.
    pub async fn list(&self, folder: &str) -> Result<Option<Vec<ListedFile>>> {
        let Some(root) = local_path(folder) else {
            return match &self.bucket {
                Some(bucket) => bucket.list(folder).await,
                None => Ok(None),
            };
        };
        let folder = folder.to_string();
        blocking(move || {
            let mut files = Vec::new();
            walk(&root, &root, &folder, &mut files)
                .or_err(ErrorKind::Transient, format!("could not list {folder}"))?;
            Ok(Some(files))
        })
        .await
    }
}

/// The nearest folder that exists must be ours to write to.
#[cfg(target_os = "linux")]
fn check_writable(path: &Path) -> Result<()> {
    use rustix::fs::{Access, access};

    let found = path.ancestors().find(|folder| folder.exists());
    let Some(folder) = found.filter(|f| access(*f, Access::WRITE_OK).is_err()) else {
        return Ok(());
    };
    Err(Error::config("the warehouse is not writable; give this user the right to write there")
        .with("folder", folder.display()))
}

#[cfg(not(target_os = "linux"))]
fn check_writable(_: &Path) -> Result<()> {
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .or_err(ErrorKind::Transient, "work on local files was cancelled")?
}

fn sync_file(path: &Path) -> Result<()> {
    std::fs::File::open(path)
        .and_then(|file| file.sync_all())
        .or_err(ErrorKind::Transient, format!("could not sync {}", path.display()))
}

/// Syncs the file systems that the files are on.
#[cfg(target_os = "linux")]
fn sync_file_systems(paths: &[PathBuf]) -> Result<()> {
    use std::os::unix::fs::MetadataExt;

    let mut synced = std::collections::HashSet::new();
    let mut folders = std::collections::HashSet::new();
    for path in paths {
        let failed = || format!("could not sync {}", path.display());
        if path.parent().is_some_and(|folder| !folders.insert(folder)) {
            continue;
        }
        let file = std::fs::File::open(path).or_err(ErrorKind::Transient, failed())?;
        let device = file.metadata().or_err(ErrorKind::Transient, failed())?.dev();
        if synced.insert(device) {
            rustix::fs::syncfs(&file).or_err(ErrorKind::Transient, failed())?;
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn sync_file_systems(paths: &[PathBuf]) -> Result<()> {
    paths.iter().try_for_each(|path| sync_file(path))
}

/// A file as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    pub location: String,
    pub name: String,
    pub size_bytes: u64,
}

/// The path of a `file://` location.
pub fn local_path(location: &str) -> Option<PathBuf> {
    location.strip_prefix("file://").map(PathBuf::from)
}

fn walk(root: &Path, at: &Path, folder: &str, into: &mut Vec<ListedFile>) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(at) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            walk(root, &path, folder, into)?;
            continue;
        }
        let (Ok(below), Some(name)) = (path.strip_prefix(root), path.file_name()) else { continue };
        into.push(ListedFile {
            location: format!("{}/{}", folder.trim_end_matches('/'), below.display()),
            name: name.to_string_lossy().into_owned(),
            size_bytes: entry.metadata()?.len(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(warehouse: &str) -> IcebergConfig {
        let options = serde_json::json!({"catalog.properties.warehouse": warehouse});
        IcebergConfig::from_options(options.as_object().expect("object")).expect("valid")
    }

    #[tokio::test]
    async fn local_files_are_written_synced_listed_and_deleted() {
        let dir = tempfile::tempdir().expect("temp dir");
        let warehouse = format!("file://{}", dir.path().display());
        let lake = Lake::from_config(&config(&warehouse)).expect("usable");
        let location = format!("{warehouse}/a/b/c.bin");
        lake.write(&location, Bytes::from_static(b"xyz")).await.expect("writes");
        lake.make_durable([&location]).await.expect("syncs");
        assert_eq!(&lake.read(&location).await.expect("reads")[..], b"xyz");
        let listed = lake.list(&warehouse).await.expect("lists").expect("can be listed");
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].location, location);
        lake.delete_all(vec![location.clone()]).await;
        assert!(!lake.exists(&location).await.expect("looks"));
        assert!(lake.make_durable([&location]).await.is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn folders_that_are_not_there_yet_are_no_obstacle() {
        let dir = tempfile::tempdir().expect("temp dir");
        check_writable(&dir.path().join("a/b")).expect("is made when it is needed");
    }

    #[test]
    fn other_schemes_are_refused_with_the_reason() {
        for warehouse in ["/data/lake", "hdfs://x/y", "file://relative"] {
            let error = Lake::from_config(&config(warehouse)).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Config, "{warehouse}");
        }
    }
}
