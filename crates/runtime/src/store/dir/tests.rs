//! Tests of the state directory: damage, fallback, other pipelines, locks.

use lakeward_core::{ErrorKind, Offset, PipelineId, SplitId, State};
use tempfile::TempDir;

use super::*;
use crate::store::StageStates;

fn identity(pipeline: &str) -> Identity {
    Identity {
        pipeline: PipelineId(pipeline.into()),
        source: "mysql shop".into(),
        sink: "iceberg lake".into(),
    }
}

fn checkpoint(id: u64) -> Arc<Checkpoint> {
    let state = |byte: u8| State { version: 3, bytes: vec![byte; 100] };
    Arc::new(Checkpoint {
        id,
        attempt: 2,
        created_ms: 1_700_000_000_000,
        offsets: [(SplitId("log".into()), Offset("{\"pos\":5}".into()))].into(),
        held: id % 2 == 0,
        source: vec![state(1)],
        stages: vec![
            StageStates { name: "Writer".into(), states: vec![state(2), state(id as u8)] },
            StageStates {
                name: "Committer".into(),
                states: vec![State { version: 0, bytes: vec![] }],
            },
        ],
    })
}

fn names(dir: &TempDir) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir.path().join("checkpoints"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn keeps_the_last_three_and_gives_back_the_newest() {
    let dir = TempDir::new().unwrap();
    let store = DirStore::open(dir.path(), identity("a")).unwrap();
    assert!(store.load().await.unwrap().checkpoint.is_none());
    for id in 1..=5 {
        let size = store.save(checkpoint(id)).await.unwrap();
        assert!(size > 300);
    }
    assert_eq!(names(&dir), ["000000000003.ckpt", "000000000004.ckpt", "000000000005.ckpt"]);
    drop(store);
    let store = DirStore::open(dir.path(), identity("a")).unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.checkpoint, Some(checkpoint(5)));
    assert_eq!(loaded.last_id, 5);
}

#[tokio::test]
async fn attempts_grow_over_processes() {
    let dir = TempDir::new().unwrap();
    for expected in 1..=3 {
        let store = DirStore::open(dir.path(), identity("a")).unwrap();
        assert_eq!(store.begin_attempt().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn any_damage_to_the_newest_falls_back_to_the_one_before() {
    let dir = TempDir::new().unwrap();
    let store = DirStore::open(dir.path(), identity("a")).unwrap();
    store.save(checkpoint(1)).await.unwrap();
    store.save(checkpoint(2)).await.unwrap();
    let newest = dir.path().join("checkpoints/000000000002.ckpt");
    let whole = fs::read(&newest).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        assert!(matches!(decode(&flipped, &identity("a")), Err(Refusal::Damaged(_))), "byte {at}");
        assert!(matches!(decode(&whole[..at], &identity("a")), Err(Refusal::Damaged(_))));
    }
    fs::write(&newest, &whole[..whole.len() / 2]).unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.checkpoint, Some(checkpoint(1)));
    assert_eq!(loaded.last_id, 2, "its id is not given again");
    assert_eq!(names(&dir), ["000000000001.ckpt", "000000000002.damaged"]);
    for id in 3..=5 {
        store.save(checkpoint(id)).await.unwrap();
    }
    assert_eq!(names(&dir), ["000000000003.ckpt", "000000000004.ckpt", "000000000005.ckpt"]);
}

#[tokio::test]
async fn the_newest_is_set_aside_when_there_is_one_before_it() {
    let dir = TempDir::new().unwrap();
    let store = DirStore::open(dir.path(), identity("a")).unwrap();
    assert!(!store.set_newest_aside("lost").await.unwrap());
    store.save(checkpoint(1)).await.unwrap();
    assert!(!store.set_newest_aside("lost").await.unwrap());
    store.save(checkpoint(2)).await.unwrap();
    assert!(store.set_newest_aside("lost").await.unwrap());
    let loaded = store.load().await.unwrap();
    assert_eq!((loaded.checkpoint, loaded.last_id), (Some(checkpoint(1)), 2));
}

#[tokio::test]
async fn never_starts_over_in_silence() {
    let dir = TempDir::new().unwrap();
    let store = DirStore::open(dir.path(), identity("a")).unwrap();
    store.save(checkpoint(1)).await.unwrap();
    fs::write(dir.path().join("checkpoints/000000000001.ckpt"), b"").unwrap();
    for _ in 0..2 {
        let error = store.load().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("--resnapshot"), "{error}");
    }
}

#[test]
fn a_second_process_and_another_pipeline_are_refused() {
    let dir = TempDir::new().unwrap();
    let store = DirStore::open(dir.path(), identity("a")).unwrap();
    let error = DirStore::open(dir.path(), identity("a")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("already running"), "{error}");
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(store);
    let error = DirStore::open(dir.path(), identity("b")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("another pipeline"), "{error}");
    let moved = Identity { sink: "iceberg pond".into(), ..identity("a") };
    let error = DirStore::open(dir.path(), moved).err().unwrap();
    assert!(error.to_string().contains("another sink"), "{error}");
    DirStore::open(dir.path(), identity("a")).unwrap();
}

#[tokio::test]
async fn a_checkpoint_of_another_pipeline_in_its_place_is_refused() {
    let (ours, theirs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = DirStore::open(ours.path(), identity("a")).unwrap();
    let other = DirStore::open(theirs.path(), identity("b")).unwrap();
    store.save(checkpoint(1)).await.unwrap();
    other.save(checkpoint(2)).await.unwrap();
    let name = "checkpoints/000000000002.ckpt";
    fs::copy(theirs.path().join(name), ours.path().join(name)).unwrap();
    assert_eq!(store.load().await.unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn leftovers_of_a_crash_are_removed() {
    let dir = TempDir::new().unwrap();
    drop(DirStore::open(dir.path(), identity("a")).unwrap());
    let leftover = dir.path().join("checkpoints/000000000009.tmp");
    fs::write(&leftover, b"half").unwrap();
    DirStore::open(dir.path(), identity("a")).unwrap();
    assert!(!leftover.exists());
}

#[test]
fn a_full_disk_says_so_and_is_retried() {
    let e = io_error(io::Error::from(IoKind::StorageFull), "could not write", Path::new("/s"));
    assert_eq!(e.kind(), ErrorKind::Transient);
    assert!(e.to_string().contains("disk is full"), "{e}");
}

/// The device `/dev/full` answers every write as a full disk does.
#[test]
fn writing_to_a_full_device_fails_cleanly() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("attempt");
    fs::write(&path, "7").unwrap();
    std::os::unix::fs::symlink("/dev/full", path.with_extension(TEMPORARY)).unwrap();
    let error = write_durably(&path, b"8").unwrap_err();
    assert!(error.to_string().contains("disk is full"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "7");
    assert!(!path.with_extension(TEMPORARY).exists());
}
