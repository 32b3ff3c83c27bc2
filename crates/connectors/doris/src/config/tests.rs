//! Options, defaults and mistakes.

use serde_json::json;

use super::*;

pub(crate) fn read(mut value: serde_json::Value) -> Result<DorisConfig> {
    let base = json!({"fenodes": "fe:8030", "username": "root"});
    for (key, default) in base.as_object().expect("an object") {
        value.as_object_mut().expect("an object").entry(key).or_insert(default.clone());
    }
    let config: DorisConfig =
        serde_json::from_value(value).map_err(|e| Error::config(e.to_string()))?;
    config.validate()?;
    Ok(config)
}

#[test]
fn defaults_are_exactly_once() {
    let config = read(json!({})).expect("valid");
    assert!(config.two_phase() && config.auto_redirect && config.enable_delete);
    assert_eq!(config.format().expect("known"), BodyFormat::Json);
    assert_eq!(config.transaction_timeout.0.as_secs(), 3600);
    assert_eq!(config.sql_endpoints().expect("valid").0, [("fe".to_string(), 9030)]);
    assert!(config.warnings().is_empty());
}

#[test]
fn addresses_are_read() {
    let config = read(json!({
        "fenodes": "a, https://b:8050/, [::1]:8030",
        "jdbc-url": "jdbc:mysql://x:1,y/db?sslMode=VERIFY_IDENTITY",
    }))
    .expect("valid");
    let nodes = config.frontends().expect("valid");
    assert_eq!(nodes[0], Endpoint { scheme: Scheme::Http, host: "a".into(), port: 8030 });
    assert_eq!(nodes[1], Endpoint { scheme: Scheme::Https, host: "b".into(), port: 8050 });
    assert_eq!(nodes[2].host, "::1");
    let (sql, tls) = config.sql_endpoints().expect("valid");
    assert_eq!(sql, [("x".to_string(), 1), ("y".to_string(), 9030)]);
    assert_eq!(tls, SqlTls::Identity);
}

#[test]
fn mistakes_are_named() {
    let error = |value| read(value).expect_err("refused").to_string();
    assert!(error(json!({"fenodes": " "})).contains("fenodes"));
    assert!(error(json!({"fenodes": "a:b"})).contains("a:b"));
    assert!(error(json!({"sink.timezone": "Berlin"})).contains("sink.timezone"));
    assert!(error(json!({"sink.properties": {"label": "x"}})).contains("properties.label"));
    assert!(error(json!({"sink.properties": {"format": "orc"}})).contains("arrow"));
    assert!(error(json!({"jdbc-url": "mysql://x"})).contains("jdbc:mysql://"));
}

#[test]
fn zones_are_offsets() {
    let offset = |zone: &str| {
        read(json!({"sink.timezone": zone})).expect("valid").zone_offset_seconds().expect("ok")
    };
    assert_eq!(offset("UTC"), 0);
    assert_eq!(offset("+08:00"), 8 * 3600);
    assert_eq!(offset("-03:30"), -(3 * 3600 + 1800));
}

#[test]
fn secrets_do_not_reach_the_log() {
    let config = read(json!({"password": "hunter2"})).expect("valid");
    assert!(!format!("{config:?}").contains("hunter2"));
}
