//! TLS and SASL, and what is said where they fail.

use std::sync::OnceLock;
use std::time::Duration;

use lakeward_testkit::kafka::{Broker, PASSWORD, USER};
use lakeward_testkit::lakeward::Pipeline;
use serde_json::json;

use crate::scene::{Scene, eventually, shared_broker};

fn secured_broker() -> Option<&'static Broker> {
    static SECURED: OnceLock<Broker> = OnceLock::new();
    shared_broker()?;
    Some(SECURED.get_or_init(|| Broker::start_secured().expect("Apache Kafka starts with TLS")))
}

fn logged_in(pipeline: Pipeline, broker: &Broker, mechanism: &str, password: &str) -> Pipeline {
    pipeline
        .set("source", "properties.bootstrap.servers", broker.secured_address())
        .set("source", "properties.security.protocol", "SASL_SSL")
        .set("source", "properties.ssl.ca.location", broker.ca_file().display().to_string())
        .set("source", "properties.sasl.mechanism", mechanism)
        .set("source", "properties.sasl.username", USER)
        .set("source", "properties.sasl.password", password)
}

#[test]
fn accounts_and_certificates_are_used() {
    let Some(broker) = secured_broker() else { return };
    for (topic, mechanism) in [("by-plain", "PLAIN"), ("by-scram", "SCRAM-SHA-512")] {
        let mut scene = Scene::with(broker, topic, 2, "debezium-json", |pipeline| {
            logged_in(pipeline, broker, mechanism, PASSWORD)
        });
        scene.changes(0, &[("c", 1, "a")]);
        scene.start_streaming();
        scene.changes(1, &[("c", 2, "b")]);
        scene.catch_up();
        scene.assert_rows(&["id", "n"], json!([[1, "a"], [2, "b"]]));
        scene.lakeward.stop().unwrap();
        assert!(!scene.lakeward.log().contains(PASSWORD), "the password is in the log");
    }
}

/// One error that says what to do, soon, and without the password.
fn refused(topic: &str, words: &str, change: impl FnOnce(Pipeline, &Broker) -> Pipeline) {
    let Some(broker) = secured_broker() else { return };
    let mut scene = Scene::with(broker, topic, 1, "debezium-json", |pipeline| {
        change(logged_in(pipeline, broker, "SCRAM-SHA-512", PASSWORD), broker)
    });
    scene.lakeward.start().unwrap();
    scene.expect_loud(&[words]);
    let log = scene.lakeward.log();
    assert_eq!(log.lines().filter(|line| line.contains(" ERROR ")).count(), 1, "{log}");
    assert!(!log.contains(PASSWORD) && !log.contains("other-secret"), "a password is in the log");
}

#[test]
fn a_wrong_password() {
    refused("wrong-password", "`properties.sasl.password`", |pipeline, _| {
        pipeline.set("source", "properties.sasl.password", "other-secret")
    });
}

#[test]
fn an_unknown_authority() {
    refused("unknown-authority", "`properties.ssl.ca.location`", |mut pipeline, _| {
        let source = pipeline.0["source"].as_object_mut().unwrap();
        source.remove("properties.ssl.ca.location");
        pipeline
    });
}

#[test]
fn a_port_without_tls() {
    let Some(broker) = secured_broker() else { return };
    let mut scene = Scene::with(broker, "no-tls", 1, "debezium-json", |pipeline| {
        let pipeline = logged_in(pipeline, broker, "PLAIN", PASSWORD);
        pipeline.set("source", "properties.bootstrap.servers", broker.address())
    });
    scene.lakeward.start().unwrap();
    // It may be a broker that goes down, so it is tried again.
    let is_said = || scene.lakeward.log().contains("is one with TLS");
    eventually("the port is named as the reason", Duration::from_secs(60), is_said);
    scene.lakeward.kill().unwrap();
}
