//! One run: all scenarios at once, from one source into one sink, in one mode.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use lakeward_testkit::case_run::Random;
use lakeward_testkit::flink::Flink;
use lakeward_testkit::kafka::Broker;
use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::server::{PASSWORD, Server};
use serde_json::{Value, json};

use crate::doris::Doris;
use crate::held::{Held, check};
use crate::iceberg::Iceberg;
use crate::kafka::{Dialect, Kafka};
use crate::mariadb::MariaDb;
use crate::scenario::{Scenario, Step};

/// A row in the text forms of `lakeward_testkit::form`.
pub type TextRow = Vec<Option<String>>;
/// Columns and rows by database and table.
pub type Content = BTreeMap<(String, String), (Vec<String>, Vec<TextRow>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    MariaDb,
    Kafka(Dialect),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkKind {
    Iceberg,
    Doris,
    /// `sink:` as a list of two.
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plain,
    /// Stopped in the middle; the source goes on meanwhile.
    Restarted,
    /// `kill -9` at random moments while the source goes on.
    Killed,
    Parallel,
    /// On to the other engine in the middle, and back.
    Moved,
}

/// What the operators run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Here,
    /// That version of Flink.
    Flink(&'static str),
}

/// Two ends and a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub source: SourceKind,
    pub sink: SinkKind,
    pub mode: Mode,
    pub engine: Engine,
}

/// The servers of a worker.
pub struct Servers<'s> {
    pub mariadb: &'s Server,
    pub broker: &'s Broker,
}

enum SourceEnd<'s> {
    MariaDb(MariaDb<'s>),
    Kafka(Box<Kafka<'s>>),
}

impl SourceEnd<'_> {
    fn options(&self) -> Value {
        match self {
            SourceEnd::MariaDb(end) => end.options(),
            SourceEnd::Kafka(end) => end.options(),
        }
    }

    fn apply(&mut self, scenario: &Scenario, step: &Step) -> Result<()> {
        let applied = match self {
            SourceEnd::MariaDb(end) => end.apply(&scenario.name, step),
            SourceEnd::Kafka(end) => end.apply(&scenario.name, step),
        };
        applied.with_context(|| format!("a step of {}: {step:?}", scenario.name))
    }
}

impl Run {
    /// Names that scenarios know the ends by.
    pub fn ends(&self) -> Vec<&'static str> {
        let mut ends = match self.source {
            SourceKind::MariaDb => vec!["mariadb"],
            SourceKind::Kafka(dialect) => vec!["kafka", dialect.name()],
        };
        if self.sink != SinkKind::Doris {
            ends.push("iceberg");
        }
        if self.sink != SinkKind::Iceberg {
            ends.push("doris");
        }
        ends
    }

    pub fn name(&self) -> String {
        let source = match self.source {
            SourceKind::MariaDb => "mariadb",
            SourceKind::Kafka(dialect) => dialect.name(),
        };
        let sink = match self.sink {
            SinkKind::Iceberg => "iceberg",
            SinkKind::Doris => "doris",
            SinkKind::Both => "iceberg and doris",
        };
        let mode = match self.mode {
            Mode::Plain => "plain",
            Mode::Restarted => "restarted",
            Mode::Killed => "killed",
            Mode::Parallel => "parallel",
            Mode::Moved => "moved",
        };
        match self.engine {
            Engine::Here => format!("{source} to {sink}, {mode}"),
            Engine::Flink(version) => format!("{source} to {sink}, {mode}, on flink {version}"),
        }
    }

    /// What is wrong with each scenario, which is nothing where all is well. An error is of all of them.
    pub fn run(&self, scenarios: &[&Scenario], servers: &Servers<'_>) -> Result<Vec<Result<()>>> {
        let name: String = self.name().chars().filter(char::is_ascii_alphanumeric).collect();
        let mut source = match self.source {
            SourceKind::MariaDb => SourceEnd::MariaDb(MariaDb::new(servers.mariadb, scenarios)?),
            SourceKind::Kafka(dialect) => {
                let kafka = Kafka::new(servers.broker, dialect, &name, scenarios)?;
                SourceEnd::Kafka(Box::new(kafka))
            }
        };
        for_each_step(scenarios, |s| &s.setup, |scenario, step| source.apply(scenario, step))?;
        let doris = (self.sink != SinkKind::Iceberg).then(Doris::new).transpose()?;
        let mut iceberg = None;
        let mut lakeward = Lakeward::in_temporary_folder(|folder| {
            iceberg = (self.sink != SinkKind::Doris).then(|| Iceberg::new(folder));
            self.pipeline(&name, &source, iceberg.as_ref(), doris.as_ref(), folder)
        })?;
        let mut flink = match self.engine {
            Engine::Here => None,
            Engine::Flink(version) => Some(Flink::start(version)?),
        };
        let driven = match &mut flink {
            None => self.drive(scenarios, &mut source, &mut lakeward),
            Some(flink) => self.drive_on_flink(scenarios, &mut source, &mut lakeward, flink),
        };
        let read = driven.and_then(|()| {
            let content = Held::read(scenarios, iceberg.as_ref(), doris.as_ref())?;
            match &flink {
                None => lakeward.stop()?,
                Some(flink) => flink.check_log()?,
            }
            check_log(&lakeward)?;
            Ok(content)
        });
        let _ = lakeward.kill();
        let kept = |lakeward: &mut Lakeward| lakeward.keep_folder().display().to_string();
        let held = match read {
            Ok(held) => held,
            Err(error) => {
                let tail = lakeward.tail(12);
                bail!("{error:#}\n{tail}\n  kept: {}", kept(&mut lakeward));
            }
        };
        let ends = self.ends();
        let mut outcomes: Vec<Result<()>> =
            scenarios.iter().map(|scenario| check(scenario, &ends, &held)).collect();
        if outcomes.iter().any(Result::is_err) {
            let kept = kept(&mut lakeward);
            for outcome in outcomes.iter_mut().filter(|o| o.is_err()) {
                let error = std::mem::replace(outcome, Ok(())).expect_err("just looked at");
                *outcome = Err(anyhow!("{error:#}\n  kept: {kept}"));
            }
        }
        Ok(outcomes)
    }

    fn pipeline(
        &self,
        name: &str,
        source: &SourceEnd<'_>,
        iceberg: Option<&Iceberg>,
        doris: Option<&Doris>,
        folder: &Path,
    ) -> Pipeline {
        let sinks: Vec<Value> =
            iceberg.map(Iceberg::options).into_iter().chain(doris.map(Doris::options)).collect();
        let sink = match <[Value; 1]>::try_from(sinks) {
            Ok([only]) => only,
            Err(several) => Value::Array(several),
        };
        let parallelism = match (self.mode, self.engine) {
            (Mode::Parallel, _) => 3,
            // Over both TaskManagers.
            (Mode::Killed, Engine::Flink(_)) => 2,
            _ => 1,
        };
        Pipeline(json!({
            "source": source.options(), "sink": sink,
            "pipeline": {
                "name": name, "checkpoint.interval": "500ms", "parallelism": parallelism,
                "state.dir": folder.join("state").display().to_string(),
                "restart-strategy.exponential-delay.initial-backoff": "500ms",
            },
        }))
    }

    fn drive(
        &self,
        scenarios: &[&Scenario],
        source: &mut SourceEnd<'_>,
        lakeward: &mut Lakeward,
    ) -> Result<()> {
        lakeward.start()?;
        match self.mode {
            Mode::Plain | Mode::Parallel => {
                lakeward.wait_streaming()?;
                for_each_step(scenarios, |s| &s.live, |s, step| source.apply(s, step))?;
            }
            Mode::Restarted => {
                lakeward.wait_streaming()?;
                let half = |s: &Scenario| s.live.len() / 2;
                for_each_step(scenarios, |s| &s.live[..half(s)], |s, step| source.apply(s, step))?;
                lakeward.stop()?;
                for_each_step(scenarios, |s| &s.live[half(s)..], |s, step| source.apply(s, step))?;
                lakeward.start()?;
            }
            Mode::Killed => self.drive_killed(scenarios, source, |_| {
                lakeward.kill()?;
                lakeward.start()
            })?,
            Mode::Moved => bail!("there is nowhere to move to"),
        }
        if !lakeward.is_up_within(Duration::from_secs(60))? {
            bail!("the run ended by itself");
        }
        lakeward.wait_caught_up()
    }

    /// As on one machine; the end is a bounded run that goes on from a savepoint.
    fn drive_on_flink(
        &self,
        scenarios: &[&Scenario],
        source: &mut SourceEnd<'_>,
        lakeward: &mut Lakeward,
        flink: &mut Flink,
    ) -> Result<()> {
        let half = |s: &Scenario| s.live.len() / 2;
        if self.mode == Mode::Moved {
            lakeward.start()?;
            lakeward.wait_streaming()?;
            let third = |s: &Scenario| s.live.len() / 3;
            for_each_step(scenarios, |s| &s.live[..third(s)], |s, step| source.apply(s, step))?;
            lakeward.stop()?;
            flink.start_run(lakeward, &[])?;
            let next = |s: &Scenario| third(s)..2 * third(s);
            for_each_step(scenarios, |s| &s.live[next(s)], |s, step| source.apply(s, step))?;
            flink.wait_checkpoints(lakeward, 3)?;
            lakeward.stop()?;
            let rest = |s: &Scenario| 2 * third(s)..;
            for_each_step(scenarios, |s| &s.live[rest(s)], |s, step| source.apply(s, step))?;
            lakeward.start_with(&["--from-flink", "--until", "caught-up"])?;
            return match lakeward.exit_within(Duration::from_secs(120))? {
                0 => Ok(()),
                code => bail!("the run that came back ended with {code}: {}", lakeward.tail(8)),
            };
        }
        flink.start_run(lakeward, &[])?;
        flink.wait_checkpoints(lakeward, 2)?;
        match self.mode {
            Mode::Plain | Mode::Parallel => {
                for_each_step(scenarios, |s| &s.live, |s, step| source.apply(s, step))?;
            }
            Mode::Restarted => {
                for_each_step(scenarios, |s| &s.live[..half(s)], |s, step| source.apply(s, step))?;
                lakeward.stop()?;
                for_each_step(scenarios, |s| &s.live[half(s)..], |s, step| source.apply(s, step))?;
                flink.start_run(lakeward, &[])?;
                flink.wait_checkpoints(lakeward, 2)?;
            }
            Mode::Killed => {
                self.drive_killed(scenarios, source, |n| flink.kill_a_task_manager(n))?;
            }
            Mode::Moved => {}
        }
        lakeward.stop()?;
        flink.catch_up(lakeward)
    }

    /// The source goes on in its own time while the pipeline is killed and started again.
    fn drive_killed(
        &self,
        scenarios: &[&Scenario],
        source: &mut SourceEnd<'_>,
        mut kill: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        const KILLS: usize = 5;
        let mut pauses = Random::new(&self.name());
        let mut pace = Random::new(&format!("pace of {}", self.name()));
        let steps = scenarios.iter().map(|s| s.live.len() as u64).sum::<u64>().max(1);
        // As long as the kills take together.
        let pause_ms = 12_000 / steps;
        std::thread::scope(|scope| {
            let changes = scope.spawn(move || {
                for_each_step(
                    scenarios,
                    |s| &s.live,
                    |scenario, step| {
                        std::thread::sleep(pace.up_to_ms(pause_ms.max(1)));
                        source.apply(scenario, step)
                    },
                )
            });
            for n in 0..KILLS {
                std::thread::sleep(pauses.up_to_ms(1_800));
                kill(n)?;
            }
            changes.join().map_err(|_| anyhow!("the source end panicked"))?
        })
    }
}

/// The first step of each scenario, then the second of each, and so on.
fn for_each_step<'s>(
    scenarios: &[&'s Scenario],
    steps: impl Fn(&'s Scenario) -> &'s [Step],
    mut f: impl FnMut(&'s Scenario, &'s Step) -> Result<()>,
) -> Result<()> {
    let most = scenarios.iter().map(|s| steps(s).len()).max().unwrap_or(0);
    for at in 0..most {
        for scenario in scenarios {
            if let Some(step) = steps(scenario).get(at) {
                f(scenario, step)?;
            }
        }
    }
    Ok(())
}

fn check_log(lakeward: &Lakeward) -> Result<()> {
    let log = lakeward.log();
    if log.contains(PASSWORD) {
        bail!("the password stands in the log");
    }
    match log.lines().find(|line| line.contains("panicked at")) {
        Some(line) => bail!("a panic: {line}"),
        None => Ok(()),
    }
}
