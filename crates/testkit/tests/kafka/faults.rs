//! What goes wrong around a topic, one test for each fault.

use serde_json::json;

use crate::scene::{Scene, shared_broker};

/// Rows go in, change and go away, and the lake follows.
#[test]
fn a_table_is_followed() {
    let Some(broker) = shared_broker() else { return };
    let mut scene = Scene::new(broker, "followed", 1, "debezium-json");
    scene.changes(0, &[("c", 1, "a"), ("c", 2, "b"), ("r", 3, "c")]);
    scene.start_streaming();
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"], [3, "c"]]));
    scene.changes(0, &[("u", 1, "A"), ("d", 2, "b"), ("c", 4, "d")]);
    scene.catch_up();
    scene.assert_rows(&["id", "n"], json!([[1, "A"], [3, "c"], [4, "d"]]));
    scene.lakeward.stop().unwrap();
}
