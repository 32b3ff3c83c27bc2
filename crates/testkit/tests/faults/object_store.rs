//! A warehouse on a store that speaks S3.

use std::time::Duration;

use lakeward_testkit::lake::Lake;
use lakeward_testkit::object_store::{BUCKET, ObjectStore};

use crate::scene::{Scene, eventually, readers, shared_server};

const SETUP: [&str; 2] = [
    "CREATE TABLE t(id INT PRIMARY KEY, v VARCHAR(40))",
    "INSERT INTO t SELECT seq, CONCAT('value ', seq) FROM seq_1_to_5000",
];

fn store() -> Option<ObjectStore> {
    readers()?;
    Some(ObjectStore::start().unwrap())
}

fn scene(database: &'static str, store: &ObjectStore, bucket: &str) -> Option<Scene> {
    let server = shared_server()?;
    let options = store.options(bucket);
    Some(Scene::with(server, database, &SETUP, |pipeline| pipeline.set_all("sink", &options)))
}

fn lake(scene: &Scene, store: &ObjectStore) -> Lake {
    scene.lake().on(store)
}

/// Work of all kinds, told apart by the round.
fn work(scene: &mut Scene, round: u32) {
    let (from, to) = (10_000 + round * 1_000, 10_300 + round * 1_000);
    scene
        .session
        .run_all([
            format!("INSERT INTO t(id, v) SELECT seq, 'new' FROM seq_{from}_to_{to}").as_str(),
            format!("UPDATE t SET v = CONCAT(v, '!') WHERE id % 7 = {round}").as_str(),
            format!("DELETE FROM t WHERE id % 31 = {round}").as_str(),
        ])
        .unwrap();
}

#[test]
fn killed_again_and_again_the_lake_equals_the_source_and_nothing_is_left_over() {
    let Some(store) = store() else { return };
    let Some(mut scene) = scene("on_s3", &store, BUCKET) else { return };
    scene.start_streaming();
    for round in 0..5 {
        work(&mut scene, round);
        if round == 2 {
            scene.session.run("ALTER TABLE t ADD COLUMN more INT NOT NULL DEFAULT 4").unwrap();
        }
        // In the middle of whatever it is at: further into a checkpoint each time.
        std::thread::sleep(Duration::from_millis(230 * u64::from(round + 1)));
        scene.lakeward.kill().unwrap();
        scene.lakeward.start().unwrap();
        scene.lakeward.wait_streaming().unwrap();
    }
    scene.catch_up();
    scene.lakeward.stop().unwrap();
    let lake = lake(&scene, &store);
    scene.assert_equal_in(&lake);

    // What an attempt has left that was killed is swept by the next one, also from a store: a file with the name of an
    // earlier attempt of this pipeline that no snapshot knows.
    let objects = || lake.objects(BUCKET).unwrap();
    let known = objects().into_iter().find(|key| key.contains("/t/data/")).unwrap();
    let orphan = lake.copy_object(&known, "orphan").unwrap();
    assert!(objects().contains(&orphan));
    scene.start_streaming();
    // From the second commit of an attempt on.
    for round in 5..7 {
        work(&mut scene, round);
        scene.catch_up();
    }
    let patience = Duration::from_secs(20);
    eventually("the file is gone", patience, || !objects().contains(&orphan));
    scene.lakeward.stop().unwrap();
    scene.assert_equal_in(&lake);
}

#[test]
fn a_store_that_does_not_answer_for_a_while_is_waited_for() {
    let Some(mut store) = store() else { return };
    let Some(mut scene) = scene("s3_frozen", &store, BUCKET) else { return };
    scene.start_streaming();
    scene.catch_up();
    store.freeze().unwrap();
    work(&mut scene, 1);
    // Longer than a checkpoint takes.
    std::thread::sleep(Duration::from_secs(4));
    store.thaw().unwrap();
    work(&mut scene, 2);
    scene.catch_up();
    scene.lakeward.stop().unwrap();
    let lake = lake(&scene, &store);
    scene.assert_equal_in(&lake);
}

#[test]
fn a_bucket_that_is_not_there_is_said_at_once() {
    let Some(store) = store() else { return };
    let Some(mut scene) = scene("s3_no_bucket", &store, "no-such-bucket") else { return };
    let (code, said) = scene.lakeward.command(&["check", "pipeline.yaml"]).unwrap();
    assert_ne!(code, 0, "{said}");
    for word in ["s3://no-such-bucket/warehouse", "NoSuchBucket"] {
        assert!(said.contains(word), "{word} is not in: {said}");
    }
    assert!(!said.contains("secret-key"), "{said}");
    scene.lakeward.start().unwrap();
    scene.expect_loud(&["nosuchbucket"]);
}
