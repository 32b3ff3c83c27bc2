//! A job goes on from what it has: an older savepoint, a retained checkpoint, copies of states.

use crate::scene::Scene;

const SETUP: &[&str] = &[
    "CREATE TABLE orders(id INT PRIMARY KEY, item VARCHAR(40))",
    "CREATE TABLE bare(v INT)",
    "INSERT INTO orders SELECT seq, CONCAT('item ', seq) FROM seq_1_to_5000",
    "INSERT INTO bare SELECT seq % 7 FROM seq_1_to_500",
];

/// Rows that the tables hold beyond the savepoint are neither lost nor there twice, in tables without a key either.
#[test]
fn an_older_savepoint() {
    let Some(mut scene) = Scene::new("older") else { return };
    scene.run(SETUP);
    scene.start(&[]);
    scene.wait_checkpoints(3);
    scene.run(&["INSERT INTO bare VALUES (100)", "DELETE FROM orders WHERE id % 10 = 0"]);
    scene.lakeward.stop().unwrap();
    let older = scene.savepoint();
    scene.run(&[
        "INSERT INTO bare VALUES (101),(101)",
        "DELETE FROM bare WHERE v = 3 LIMIT 5",
        "ALTER TABLE orders ADD price DECIMAL(9,2) NOT NULL DEFAULT 1.50",
        "UPDATE orders SET item = 'later' WHERE id < 100",
        "INSERT INTO orders VALUES (9001, 'new', 2)",
    ]);
    scene.start(&[]);
    scene.wait_checkpoints(3);
    scene.lakeward.stop().unwrap();
    scene.run(&["DELETE FROM orders WHERE id = 9001", "INSERT INTO bare VALUES (102)"]);
    // Back to before all that.
    scene.start(&["--flink.from-savepoint", &older]);
    scene.wait_checkpoints(2);
    scene.expect_equal();
}

#[test]
fn a_job_manager_that_was_killed() {
    let Some(mut scene) = Scene::new("manager") else { return };
    scene.run(SETUP);
    scene.start(&[]);
    scene.wait_checkpoints(3);
    scene.run(&["UPDATE orders SET item = 'before' WHERE id < 50", "INSERT INTO bare VALUES (1)"]);
    // The job dies with it; the program that follows it is told to give up.
    scene.flink.replace_job_manager().unwrap();
    scene.lakeward.kill().unwrap();
    scene.run(&["UPDATE orders SET item = 'after' WHERE id < 20", "INSERT INTO bare VALUES (2)"]);
    // The new one has never heard of the job: copies of its states are what there is.
    scene.start(&[]);
    scene.wait_checkpoints(2);
    scene.expect_equal();
}

/// Every job that ends takes its checkpoints away, and the next one goes on all the same.
#[test]
fn bounded_runs_one_after_the_other() {
    let Some(mut scene) = Scene::new("bounded") else { return };
    scene.run(SETUP);
    scene.expect_equal();
    scene.run(&[
        "ALTER TABLE orders ADD note TEXT",
        "UPDATE orders SET note = 'x' WHERE id < 9",
        "RENAME TABLE bare TO naked",
        "INSERT INTO naked VALUES (8)",
        "CREATE TABLE fresh(id INT PRIMARY KEY)",
        "INSERT INTO fresh VALUES (1),(2)",
    ]);
    scene.expect_equal();
    scene.run(&["TRUNCATE TABLE fresh", "INSERT INTO fresh VALUES (3)", "DROP TABLE naked"]);
    scene.expect_equal();
}
