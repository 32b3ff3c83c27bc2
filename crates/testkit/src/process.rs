//! Child processes that never outlive this one, however it ends.
//!
//! Each child has a small shell for a parent that holds the read end of a pipe whose write end is ours. When this process
//! ends (also by `kill -9`, also without running destructors, as with values in a `static`), the pipe closes and the
//! shell kills the child. Only processes started here are ever signalled, by process id.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const WRAPPER: &str = r#"
exec 3<&0
log=$1; doomed=$2; shift 2
"$@" </dev/null 3<&- >>"$log" 2>&1 &
child=$!
echo $child
exec >/dev/null 2>&1
( cat <&3; [ -z "$doomed" ] || touch "$doomed/.orphaned"; kill -KILL $child ) &
watcher=$!
wait $child
code=$?
kill $watcher
if [ -n "$doomed" ] && [ -e "$doomed/.orphaned" ]; then rm -rf "$doomed"; fi
exit $code
"#;

/// What to run.
#[derive(Debug, Clone)]
pub struct Program {
    pub path: PathBuf,
    pub args: Vec<String>,
    pub envs: Vec<(String, String)>,
    pub folder: PathBuf,
    /// Receives standard output and standard error, appended.
    pub log: PathBuf,
    /// A folder to remove when this process ends while the child runs: a value in a `static` is never dropped.
    pub doomed: Option<PathBuf>,
}

/// A running child: killed on drop.
#[derive(Debug)]
pub struct Guarded {
    wrapper: Child,
    leash: Option<ChildStdin>,
    pid: u32,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ends in order.
    Terminate,
    /// `kill -9`.
    Kill,
    /// Freezes the process.
    Stop,
    /// Thaws it.
    Continue,
}

impl Guarded {
    pub fn spawn(program: &Program) -> Result<Self> {
        let name = program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut wrapper = Command::new("sh")
            .args(["-c", WRAPPER, "sh"])
            .arg(&program.log)
            .arg(program.doomed.as_deref().unwrap_or(Path::new("")))
            .arg(&program.path)
            .args(&program.args)
            .envs(program.envs.iter().map(|(k, v)| (k, v)))
            .current_dir(&program.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // An interrupt at the terminal is for us; what it means for the children is our decision.
            .process_group(0)
            .spawn()
            .with_context(|| format!("could not start {}", program.path.display()))?;
        let leash = wrapper.stdin.take();
        let stdout = wrapper.stdout.take().expect("stdout was asked for as a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let pid = line.trim().parse().with_context(|| format!("no process id of {name}"))?;
        Ok(Self { wrapper, leash, pid, name })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The exit code once the child has ended; 128 + n after signal n.
    pub fn exit_code(&mut self) -> Result<Option<i32>> {
        Ok(self.wrapper.try_wait()?.map(|status| status.code().unwrap_or(-1)))
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.exit_code(), Ok(None))
    }

    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if !self.is_running() {
            return Ok(());
        }
        let name = match signal {
            Signal::Terminate => "TERM",
            Signal::Kill => "KILL",
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
        };
        let sent = Command::new("kill")
            .args(["-s", name, &self.pid.to_string()])
            .stderr(Stdio::null())
            .status()?
            .success();
        // It may have ended between the look and the signal.
        if !sent && self.exit_within(Duration::from_secs(1))?.is_none() {
            bail!("could not signal {} (process {})", self.name, self.pid);
        }
        Ok(())
    }

    /// The exit code, or nothing when the child still runs after `patience`.
    pub fn exit_within(&mut self, patience: Duration) -> Result<Option<i32>> {
        let end = Instant::now() + patience;
        loop {
            if let Some(code) = self.exit_code()? {
                return Ok(Some(code));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks the child to end and returns its exit code; kills it and fails when it does not end.
    pub fn terminate(mut self, patience: Duration) -> Result<i32> {
        self.signal(Signal::Terminate)?;
        match self.exit_within(patience)? {
            Some(code) => Ok(code),
            None => bail!("{} did not end within {patience:?} of SIGTERM", self.name),
        }
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(mut self) -> Result<()> {
        self.signal(Signal::Kill)?;
        self.wrapper.wait()?;
        Ok(())
    }

    /// Highest resident memory so far.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        self.memory_bytes("VmHWM:")
    }

    /// Resident memory now.
    pub fn resident_memory_bytes(&self) -> Option<u64> {
        self.memory_bytes("VmRSS:")
    }

    fn memory_bytes(&self, field: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find(|l| l.starts_with(field))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib * 1024)
    }

    /// User and system time so far.
    pub fn cpu_time(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let after_name = stat.rsplit_once(')')?.1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks: u64 =
            fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        // The kernel reports in units of 1/100 s on every Linux that Rust supports.
        Some(Duration::from_millis(ticks * 10))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.signal(Signal::Kill);
        }
        self.leash.take();
        let _ = self.wrapper.wait();
    }
}

/// Finds a program on the PATH or in the folders where distributions put servers.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The last lines of a log, for messages.
pub fn tail(log: &Path, lines: usize) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, script: &str) -> Program {
        Program {
            path: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            envs: vec![("GREETING".into(), "hello".into())],
            folder: folder.into(),
            log: folder.join("log"),
            doomed: None,
        }
    }

    fn exists(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn exit_code_and_output_are_the_childs() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Guarded::spawn(&program(folder.path(), "echo $GREETING; exit 7")).unwrap();
        assert_eq!(child.exit_within(Duration::from_secs(10)).unwrap(), Some(7));
        assert_eq!(tail(&folder.path().join("log"), 5), "hello");
    }

    #[test]
    fn drop_kills_and_kill_is_seen_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let child = Guarded::spawn(&program(folder.path(), "exec sleep 100")).unwrap();
        let pid = child.pid();
        assert!(exists(pid));
        drop(child);
        assert!(!exists(pid));
        let mut child = Guarded::spawn(&program(folder.path(), "exec sleep 100")).unwrap();
        child.signal(Signal::Kill).unwrap();
        assert_eq!(child.exit_within(Duration::from_secs(10)).unwrap(), Some(137));
    }

    #[test]
    fn a_child_ends_when_its_owner_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let doomed = folder.path().join("doomed");
        fs::create_dir(&doomed).unwrap();
        let program =
            Program { doomed: Some(doomed.clone()), ..program(folder.path(), "exec sleep 100") };
        let mut child = Guarded::spawn(&program).unwrap();
        // What the kernel does to our pipe when we are killed.
        child.leash.take();
        assert_eq!(child.exit_within(Duration::from_secs(10)).unwrap(), Some(137));
        let end = Instant::now() + Duration::from_secs(10);
        while doomed.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!doomed.exists());
    }
}
