//! The boundary between Java and the library, called as no one should, under the JVM's own checks.

use std::process::Command;

use lakeward_testkit::flink::{self, VERSIONS};
use lakeward_testkit::process::find_program;
use lakeward_testkit::require::or_skip;

const PIPELINE: &str = "\
source: {type: mysql, hostname: 127.0.0.1, port: 1, username: u, password: p, tables: 'a.\\.*'}
sink: {type: iceberg, catalog.properties.type: sql, catalog.properties.uri: 'sqlite:////nowhere/c.db', \
catalog.properties.warehouse: 'file:///nowhere/lake'}
pipeline: {name: contract}
";

#[test]
fn what_is_wrong_is_an_exception_and_never_a_crash() {
    let Some(home) = or_skip(flink::NAME, flink::find(VERSIONS[0])) else { return };
    let jars = flink::jars().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let class_path = format!("{}:{}/lib/*", jars.native.display(), home.display());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flink/Contract.java");
    let done = Command::new(find_program("java").unwrap())
        .args(["-Xcheck:jni", "-Xmx512m", "-cp", &class_path, source, PIPELINE])
        .arg(folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(done.status.success(), "{said}");
    let refused = said.lines().find_map(|line| line.strip_prefix("refused "));
    assert!(refused.is_some_and(|n| n.parse::<u32>().unwrap() >= 250), "{said}");
    // The launcher and the JVM's own libraries warn too; ours must not.
    let warned = said.lines().filter(|line| line.contains("WARNING in native method"));
    let ours: Vec<&str> = warned.filter(|line| line.contains("lakeward")).collect();
    assert!(ours.is_empty(), "{ours:?}\n{said}");
}
