//! The program as a user starts it, without any server.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn lakeward(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lakeward"));
    command.current_dir(folder).env_remove("RUST_LOG").env("MYSQL_PASSWORD", "hunter2");
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    lakeward(folder).args(arguments).output().expect("starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A pipeline whose source nobody listens at.
fn file(folder: &Path, http: &str) -> PathBuf {
    let dir = folder.display();
    let path = folder.join("p.yaml");
    let content = format!(
        "source:\n  type: mysql\n  hostname: 127.0.0.1\n  port: 1\n  username: u\n  password: ${{env:MYSQL_PASSWORD}}\n  \
         tables: a.\\.*\n  connect.timeout: 1s\nsink:\n  type: iceberg\n  catalog.properties.type: sql\n  \
         catalog.properties.uri: sqlite:///{dir}/catalog.db\n  catalog.properties.warehouse: file://{dir}/wh\n\
         pipeline:\n  name: nobody\n  http.address: {http}\n  state.dir: state\n"
    );
    fs::write(&path, content).expect("written");
    path
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn within(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn wrong_usage_is_code_2_and_one_line() {
    let dir = tempfile::tempdir().expect("folder");
    assert_eq!(run(dir.path(), &["rnu"]).status.code(), Some(2));
    let missing = run(dir.path(), &["check", "nope.yaml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("nope.yaml"));
    file(dir.path(), "127.0.0.1:0");
    let content = fs::read_to_string(dir.path().join("p.yaml")).expect("read");
    fs::write(dir.path().join("p.yaml"), content.replace("hostname", "hostnam")).expect("written");
    let wrong = run(dir.path(), &["run", "p.yaml"]);
    let said = text(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        said,
        "error: `source` has no option `hostnam`; did you mean `hostname`? (line 3, file p.yaml)\n"
    );
}

#[test]
fn a_flink_cdc_file_is_understood_up_to_what_is_not_there_yet() {
    let dir = tempfile::tempdir().expect("folder");
    let fixture = include_str!("../../pipeline/tests/files/flink-cdc-mysql-iceberg.yaml");
    fs::write(dir.path().join("p.yaml"), fixture).expect("written");
    let checked = run(dir.path(), &["check", "p.yaml"]);
    let said = text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(2), "{said}");
    assert!(said.contains("catalog.properties.type") && said.contains("rest"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn init_prints_a_file_that_is_valid() {
    let dir = tempfile::tempdir().expect("folder");
    let made = run(dir.path(), &["init", "mysql", "iceberg"]);
    assert!(made.status.success());
    let content = text(&made.stdout).replace("port: 3306", "port: 1\n  connect.max-retries: 0");
    fs::write(dir.path().join("p.yaml"), content).expect("written");
    // The file passes; what fails is the connection.
    let checked = run(dir.path(), &["check", "p.yaml"]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked.stderr));
    let unknown = run(dir.path(), &["init", "mysq", "iceberg"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean `mysql`?"));
}

#[test]
fn the_option_reference_is_up_to_date() {
    let dir = tempfile::tempdir().expect("folder");
    let printed = text(&run(dir.path(), &["reference"]).stdout);
    let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/options.md");
    let written = fs::read_to_string(book).expect("the page");
    assert!(
        printed == written,
        "run `lakeward reference > docs/book/src/options.md`: the page is out of date"
    );
}

#[test]
fn nobody_there_is_said() {
    let dir = tempfile::tempdir().expect("folder");
    file(dir.path(), "127.0.0.1:1");
    let waited = run(dir.path(), &["wait", "p.yaml", "--until", "streaming", "--timeout", "300ms"]);
    assert_eq!(waited.status.code(), Some(1));
    assert!(text(&waited.stderr).contains("not running"), "{}", text(&waited.stderr));
    assert_eq!(run(dir.path(), &["status", "p.yaml"]).status.code(), Some(1));
}

#[test]
fn an_address_in_use_is_said_before_anything_else() {
    let dir = tempfile::tempdir().expect("folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("free port");
    file(dir.path(), &taken.local_addr().expect("bound").to_string());
    let ran = run(dir.path(), &["run", "p.yaml"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("is in use"), "{}", text(&ran.stderr));
    assert!(!dir.path().join("state").exists());
}

#[test]
fn a_source_that_is_away_shows_in_status_wait_and_metrics() {
    let dir = tempfile::tempdir().expect("folder");
    file(dir.path(), "127.0.0.1:0");
    let log = fs::File::create(dir.path().join("log")).expect("log");
    let mut program = lakeward(dir.path());
    program.args(["run", "p.yaml"]).stderr(log).stdout(Stdio::null());
    let mut running = Running(program.spawn().expect("starts"));
    let address_file = dir.path().join("state/http.address");
    assert!(within(Duration::from_secs(20), || address_file.exists()));
    let address = fs::read_to_string(&address_file).expect("address");

    let mut status = String::new();
    let failing = within(Duration::from_secs(30), || {
        status = get(&address, "/api/v1/status");
        status.contains("\"state\":\"restarting\"")
    });
    assert!(failing, "{status}");
    assert!(status.contains("127.0.0.1:1"), "the error names the server: {status}");
    assert!(get(&address, "/metrics").contains("lakeward_state{state="));
    assert!(get(&address, "/healthz").contains("200 OK"));
    assert!(get(&address, "/").contains("<!doctype html>"));
    assert!(get(&address, "/api/v1/wait?until=never").contains("400 Bad Request"));

    let waited = run(dir.path(), &["wait", "p.yaml", "--until", "caught-up", "--timeout", "1s"]);
    let said = text(&waited.stderr);
    assert_eq!(waited.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: not reached within 1.0 s"), "{said}");
    let shown = run(dir.path(), &["status", "p.yaml"]);
    assert!(text(&shown.stdout).contains("nobody"), "{}", text(&shown.stdout));

    // A second process must not run on the same state.
    let second = run(dir.path(), &["run", "p.yaml"]);
    assert_eq!(second.status.code(), Some(1), "{}", text(&second.stderr));

    let terminated = Command::new("kill").args(["-TERM", &running.0.id().to_string()]).status();
    assert!(terminated.expect("kill").success());
    assert!(within(Duration::from_secs(30), || running.0.try_wait().expect("waits").is_some()));
    let log = fs::read_to_string(dir.path().join("log")).expect("log");
    assert_eq!(running.0.wait().expect("ended").code(), Some(0), "{log}");
    assert!(!log.contains("hunter2"), "the password is in the log");
    assert!(!address_file.exists());
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}
