//! Asks a running pipeline.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::shape::{Point, WaitAnswer};
use lakeward_pipeline::pipeline_file::PipelineFile;

/// How long a pipeline that was just started may take to listen.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// Where the address of a pipeline stands that was told to take any free port.
pub fn address_file(file: &PipelineFile) -> PathBuf {
    file.state_dir().join("http.address")
}

pub struct Client {
    pipeline: String,
    address: String,
    address_file: Option<PathBuf>,
    http: reqwest::Client,
}

enum Asked {
    Text(String),
    NobodyThere,
}

impl Client {
    pub fn of(file: &PipelineFile) -> Self {
        let wanted = &file.pipeline.http_address;
        let address_file = wanted.ends_with(":0").then(|| address_file(file));
        Self {
            pipeline: file.pipeline.name.clone(),
            address: reachable(wanted),
            address_file,
            // A proxy of the environment is not for a process on this machine.
            http: reqwest::Client::builder().no_proxy().build().unwrap_or_default(),
        }
    }

    /// The JSON of the status.
    pub async fn status_text(&self, timeout: Duration) -> Result<String, String> {
        match self.ask("/api/v1/status", timeout).await? {
            Asked::Text(text) => Ok(text),
            Asked::NobodyThere => Err(self.nobody_there()),
        }
    }

    pub async fn wait(&self, until: Point, timeout: Duration) -> Result<(), String> {
        let started = Instant::now();
        let word = until.to_possible_value().map(|v| v.get_name().to_string()).unwrap_or_default();
        loop {
            let left = timeout.saturating_sub(started.elapsed());
            let path = format!("/api/v1/wait?until={word}&timeout_ms={}", left.as_millis());
            match self.ask(&path, left + Duration::from_secs(10)).await? {
                Asked::Text(text) => return self.answer(&text),
                Asked::NobodyThere if started.elapsed() < GRACE.min(timeout) => {
                    tokio::time::sleep(PAUSE).await;
                }
                Asked::NobodyThere => return Err(self.nobody_there()),
            }
        }
    }

    fn answer(&self, text: &str) -> Result<(), String> {
        let answer: WaitAnswer = serde_json::from_str(text)
            .map_err(|e| format!("what listens at {} is not this lakeward: {e}", self.address))?;
        if answer.pipeline != self.pipeline {
            return Err(format!(
                "the pipeline {} listens at {}, not {}",
                answer.pipeline, self.address, self.pipeline
            ));
        }
        match answer.reason {
            _ if answer.reached => Ok(()),
            Some(reason) => Err(reason),
            None => Err("not reached".to_string()),
        }
    }

    async fn ask(&self, path: &str, timeout: Duration) -> Result<Asked, String> {
        let address = match &self.address_file {
            None => self.address.clone(),
            Some(file) => match std::fs::read_to_string(file) {
                Ok(address) => reachable(address.trim()),
                Err(_) => return Ok(Asked::NobodyThere),
            },
        };
        let answer = self.http.get(format!("http://{address}{path}")).timeout(timeout).send().await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(e) if e.is_connect() => return Ok(Asked::NobodyThere),
            Err(e) if e.is_timeout() => {
                return Err(format!("the pipeline at {address} does not answer"));
            }
            Err(_) => return Err(ended()),
        };
        answer.text().await.map(Asked::Text).map_err(|_| ended())
    }

    fn nobody_there(&self) -> String {
        match &self.address_file {
            None => format!("the pipeline is not running: nothing listens at {}", self.address),
            Some(_) => {
                "the pipeline is not running: its state directory names no address".to_string()
            }
        }
    }
}

fn ended() -> String {
    "the pipeline ended while it was asked".to_string()
}

/// An address to connect to, for one to listen at.
fn reachable(address: &str) -> String {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "8083"));
    match host {
        "0.0.0.0" => format!("127.0.0.1:{port}"),
        "[::]" => format!("[::1]:{port}"),
        host => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn wildcard_addresses_are_reached_at_home() {
        assert_eq!(super::reachable("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(super::reachable("[::]:1"), "[::1]:1");
        assert_eq!(super::reachable("db1:9"), "db1:9");
    }
}
