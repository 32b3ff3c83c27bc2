//! What the demo's pipeline runs in: one process, or a Flink cluster.

use std::time::Duration;

use anyhow::Result;
use lakeward_testkit::flink::{Flink, VERSIONS};
use lakeward_testkit::lakeward::Lakeward;

use crate::{flink, setup};

const PATIENCE: Duration = Duration::from_secs(600);

pub enum Engine {
    Here,
    Flink(Box<Flink>),
}

impl Engine {
    pub fn start(wanted: crate::Engine) -> Result<Self> {
        if wanted == crate::Engine::Here {
            return Ok(Self::Here);
        }
        setup::flink_releases()?;
        flink::build(&flink::Options::default())?;
        let newest = VERSIONS[VERSIONS.len() - 1];
        let flink = Flink::start(newest)?;
        super::note(&format!(
            "Flink {newest}, a JobManager and two TaskManagers: {}",
            flink.cluster().address()
        ));
        Ok(Self::Flink(Box::new(flink)))
    }

    /// Copies everything that is there.
    pub fn begin(&self, lakeward: &mut Lakeward) -> Result<()> {
        match self {
            Self::Here => {
                lakeward.start()?;
                lakeward.wait("caught-up", PATIENCE)
            }
            Self::Flink(flink) => {
                flink.catch_up(lakeward)?;
                flink.start_run(lakeward, &[])?;
                flink.wait_checkpoints(lakeward, 1)
            }
        }
    }

    /// Kills what does the work, and says what that was.
    pub fn kill(&mut self, lakeward: &mut Lakeward) -> Result<&'static str> {
        match self {
            Self::Here => {
                lakeward.kill()?;
                lakeward.start()?;
                Ok("kill -9, and started again")
            }
            Self::Flink(flink) => {
                flink.kill_a_task_manager(0)?;
                Ok("kill -9 of a TaskManager; another one takes its place")
            }
        }
    }

    /// Returns once the lake has all that is in the source.
    pub fn catch_up(&self, lakeward: &mut Lakeward) -> Result<()> {
        match self {
            Self::Here => {
                lakeward.is_up_within(Duration::from_secs(60))?;
                lakeward.wait("caught-up", PATIENCE)
            }
            Self::Flink(flink) => {
                lakeward.stop()?;
                flink.catch_up(lakeward)
            }
        }
    }

    pub fn end(&self, lakeward: &mut Lakeward) -> Result<()> {
        match self {
            Self::Here => lakeward.stop(),
            Self::Flink(_) => Ok(()),
        }
    }
}
