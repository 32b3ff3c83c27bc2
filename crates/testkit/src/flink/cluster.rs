//! A cluster: one JobManager and some TaskManagers, on free ports, in a folder of its own.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::rest::Rest;
use crate::process::{Guarded, Program, find_program, tail};
use crate::server::free_port;

const PATIENCE: Duration = Duration::from_secs(90);

const JOB_MANAGER: &str = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint";
const TASK_MANAGER: &str = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner";

const LOGGING: &str = "\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.name = out
appender.out.type = CONSOLE
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss,SSS} %-5p %c{1} - %m%n
logger.pekko.name = org.apache.pekko
logger.pekko.level = WARN
";

#[derive(Debug, Clone)]
pub struct Options {
    pub version: String,
    pub task_managers: usize,
    /// Of each TaskManager.
    pub slots: usize,
    /// Of each TaskManager, in MiB.
    pub heap_mib: u64,
    pub managed_mib: u64,
    /// Jars for the class path of the cluster, as if they were in its `lib`.
    pub jars: Vec<PathBuf>,
    /// Further options of Flink; they win over ours.
    pub configuration: Vec<(String, String)>,
    /// Further options of Java, for all processes.
    pub java: Vec<String>,
    /// Environment variables of all processes.
    pub envs: Vec<(String, String)>,
}

impl Options {
    pub fn new(version: &str, task_managers: usize, slots: usize) -> Self {
        Self {
            version: version.to_owned(),
            task_managers,
            slots,
            heap_mib: 512,
            managed_mib: 256,
            jars: Vec::new(),
            configuration: Vec::new(),
            java: Vec::new(),
            envs: Vec::new(),
        }
    }

    /// Puts a jar into `lib`.
    pub fn jar(mut self, jar: &Path) -> Self {
        self.jars.push(jar.to_owned());
        self
    }

    pub fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.configuration.push((key.to_owned(), value.to_string()));
        self
    }

    pub fn java(mut self, option: &str) -> Self {
        self.java.push(option.to_owned());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.envs.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A cluster that runs until it is dropped. Checkpoints and savepoints are gone with it.
#[derive(Debug)]
pub struct Cluster {
    options: Options,
    home: PathBuf,
    pub(super) rest: Rest,
    rpc_port: u16,
    job_manager: Option<Guarded>,
    task_managers: Vec<(usize, Guarded)>,
    started: usize,
    folder: TempDir,
}

impl Cluster {
    pub fn start(options: &Options) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("lakeward-flink-").tempdir()?;
        let mut cluster = Self {
            options: options.clone(),
            home: super::find(&options.version)?,
            rest: Rest { port: free_port()? },
            rpc_port: free_port()?,
            job_manager: None,
            task_managers: Vec::new(),
            started: 0,
            folder,
        };
        cluster.configure()?;
        cluster.start_job_manager()?;
        for _ in 0..options.task_managers {
            cluster.start_task_manager()?;
        }
        cluster.wait_slots(options.task_managers * options.slots)?;
        Ok(cluster)
    }

    fn configure(&self) -> Result<()> {
        let (folder, options) = (self.folder.path(), &self.options);
        for name in ["conf", "checkpoints", "savepoints", "tmp"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let within = |name: &str| folder.join(name).display().to_string();
        let mut text = format!(
            "jobmanager.rpc.address: 127.0.0.1\njobmanager.rpc.port: {}\njobmanager.bind-host: 127.0.0.1\n\
             rest.address: 127.0.0.1\nrest.bind-address: 127.0.0.1\nrest.port: {}\nrest.bind-port: '{}'\n\
             taskmanager.host: 127.0.0.1\ntaskmanager.bind-host: 127.0.0.1\n\
             taskmanager.numberOfTaskSlots: {}\ntaskmanager.cpu.cores: {}.0\n\
             taskmanager.memory.framework.heap.size: 128m\ntaskmanager.memory.task.heap.size: {}m\n\
             taskmanager.memory.task.off-heap.size: 0m\ntaskmanager.memory.managed.size: {}m\n\
             taskmanager.memory.framework.off-heap.size: 128m\ntaskmanager.memory.jvm-metaspace.size: 256m\n\
             taskmanager.memory.jvm-overhead.min: 192m\ntaskmanager.memory.jvm-overhead.max: 192m\n\
             taskmanager.memory.network.min: 64m\ntaskmanager.memory.network.max: 64m\n\
             taskmanager.load-balance.mode: SLOTS\n\
             execution.checkpointing.dir: file://{}\nexecution.checkpointing.savepoint-dir: file://{}\n\
             io.tmp.dirs: {}\nweb.tmpdir: {}\n\
             classloader.parent-first-patterns.additional: io.lakeward.flink.nativelib.\n\
             heartbeat.interval: 500 ms\nheartbeat.timeout: 5000 ms\npekko.ask.timeout: 30 s\n\
             slot.request.timeout: 60000 ms\nmetrics.fetcher.update-interval: 500 ms\n\
             web.refresh-interval: 500 ms\ncluster.io-pool.size: 4\n",
            self.rpc_port,
            self.rest.port,
            self.rest.port,
            options.slots,
            options.slots,
            options.heap_mib.saturating_sub(128).max(64),
            options.managed_mib,
            within("checkpoints"),
            within("savepoints"),
            within("tmp"),
            within("tmp"),
        );
        for (key, value) in &options.configuration {
            // The last one would not win: a key may be there once.
            let kept: Vec<_> =
                text.lines().filter(|line| !line.starts_with(&format!("{key}: "))).collect();
            text = kept.join("\n") + "\n";
            writeln!(text, "{key}: {value}")?;
        }
        fs::write(folder.join("conf/config.yaml"), text)?;
        fs::write(folder.join("conf/log4j.properties"), LOGGING)?;
        Ok(())
    }

    fn spawn(&self, log: &str, memory: &[String], class: &str, more: &[String]) -> Result<Guarded> {
        let folder = self.folder.path();
        let mut class_path: Vec<String> =
            self.options.jars.iter().map(|jar| jar.display().to_string()).collect();
        for entry in fs::read_dir(self.home.join("lib"))? {
            let jar = entry?.path();
            let name = jar.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Without SQL, which takes long to load.
            if name.starts_with("flink-dist") || name.starts_with("log4j-") {
                class_path.push(jar.display().to_string());
            }
        }
        let conf = folder.join("conf").display().to_string();
        // Small and soon ready, instead of fast.
        let mut args = vec!["-XX:+UseSerialGC".to_owned(), "-XX:MaxMetaspaceSize=256m".into()];
        args.extend_from_slice(memory);
        args.push(format!("-Dlog4j.configurationFile=file:{conf}/log4j.properties"));
        args.push(format!("-Djava.io.tmpdir={}", folder.join("tmp").display()));
        args.extend(super::opened_packages());
        args.extend(self.options.java.iter().cloned());
        args.extend(["-cp".into(), class_path.join(":"), class.into(), "--configDir".into(), conf]);
        args.extend_from_slice(more);
        let conf = folder.join("conf").display().to_string();
        let mut envs = vec![("FLINK_CONF_DIR".into(), conf), ("LC_ALL".into(), "C.UTF-8".into())];
        envs.extend(self.options.envs.iter().cloned());
        Guarded::spawn(&Program {
            path: find_program("java").context("there is no Java")?,
            args,
            envs,
            folder: folder.to_owned(),
            log: folder.join(log),
            doomed: Some(folder.to_owned()),
        })
    }

    fn start_job_manager(&mut self) -> Result<()> {
        let memory = ["-Xmx512m".to_owned()];
        let more = ["--executionMode".to_owned(), "cluster".into()];
        self.job_manager = Some(self.spawn("jobmanager.log", &memory, JOB_MANAGER, &more)?);
        let end = Instant::now() + PATIENCE;
        while self.rest.get("/overview").is_err() {
            let gone = self.job_manager.as_mut().map(Guarded::exit_code).transpose()?.flatten();
            if gone.is_some() || Instant::now() > end {
                bail!("the JobManager did not come up ({gone:?}): {}", self.tail());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Starts one more TaskManager and returns its number, without waiting for it.
    pub fn start_task_manager(&mut self) -> Result<usize> {
        let number = self.started;
        self.started += 1;
        let heap = self.options.heap_mib;
        let memory = [format!("-Xmx{heap}m"), "-XX:MaxDirectMemorySize=256m".into()];
        let more = ["-D".to_owned(), format!("taskmanager.resource-id=tm-{number}")];
        let log = format!("taskmanager-{number}.log");
        let process = self.spawn(&log, &memory, TASK_MANAGER, &more)?;
        self.task_managers.push((number, process));
        Ok(number)
    }

    /// Waits until the TaskManagers offer so many slots.
    pub fn wait_slots(&mut self, slots: usize) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let overview = self.rest.get("/overview")?;
            if overview["slots-total"].as_u64() == Some(slots as u64) {
                return Ok(());
            }
            let gone = self.task_managers.iter_mut().any(|(_, process)| !process.is_running());
            if gone || Instant::now() > end {
                bail!("no {slots} slots, but {overview}: {}", self.tail());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The running TaskManagers: number and process.
    pub fn task_managers(&self) -> impl Iterator<Item = (usize, &Guarded)> {
        self.task_managers.iter().map(|(number, process)| (*number, process))
    }

    /// Numbers of the running TaskManagers that have tasks.
    pub fn busy_task_managers(&self) -> Result<Vec<usize>> {
        let answer = self.rest.get("/taskmanagers")?;
        let known = answer["taskmanagers"].as_array().cloned().unwrap_or_default();
        let is_busy = |number: usize| {
            let id = format!("tm-{number}");
            let mut found = known.iter().filter(|t| t["id"].as_str() == Some(id.as_str()));
            found.any(|t| t["freeSlots"].as_u64() < t["slotsNumber"].as_u64())
        };
        Ok(self.task_managers().map(|(number, _)| number).filter(|n| is_busy(*n)).collect())
    }

    /// `kill -9` of a TaskManager.
    pub fn kill_task_manager(&mut self, number: usize) -> Result<()> {
        let at = self.task_managers.iter().position(|(n, _)| *n == number);
        let (_, process) = self.task_managers.remove(at.context("no such TaskManager")?);
        process.kill()
    }

    /// `kill -9` of the JobManager and another one in its place, which knows of no job.
    pub fn replace_job_manager(&mut self) -> Result<()> {
        self.job_manager.take().context("there is no JobManager")?.kill()?;
        self.start_job_manager()
    }

    /// The newest complete checkpoint that a job has left: a path for [`super::Run::restore`].
    pub fn retained_checkpoint(&self, job: &str) -> Result<String> {
        let folder = self.folder.path().join("checkpoints").join(job);
        let mut newest = None;
        for entry in fs::read_dir(&folder).with_context(|| format!("nothing of {job}"))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let id = name.strip_prefix("chk-").and_then(|id| id.parse::<u64>().ok());
            if path.join("_metadata").is_file() {
                newest = newest.max(id.map(|id| (id, path)));
            }
        }
        let (_, path) = newest.context("the job has left no checkpoint")?;
        Ok(format!("file://{}", path.display()))
    }

    /// Of the cluster: `http://…` for clients.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.rest.port)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The logs of the JobManager and of all TaskManagers so far.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for log in self.log_files() {
            text += &String::from_utf8_lossy(&fs::read(log).unwrap_or_default());
        }
        text
    }

    fn log_files(&self) -> Vec<PathBuf> {
        let names = (0..self.started).map(|n| format!("taskmanager-{n}.log"));
        std::iter::once("jobmanager.log".to_owned())
            .chain(names)
            .map(|name| self.folder.path().join(name))
            .collect()
    }

    /// The last lines of all logs, for messages.
    pub fn tail(&self) -> String {
        let tails = self.log_files().into_iter().map(|log| {
            let name = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("\n--- {name}\n{}", tail(&log, 40))
        });
        tails.collect()
    }
}
