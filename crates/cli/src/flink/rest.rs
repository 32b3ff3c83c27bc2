//! Flink's REST interface, as far as a pipeline needs it.

use std::path::Path;
use std::time::Duration;

use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(60);
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(600);
const BOUNDARY: &str = "lakeward-jar-boundary-5f3b";

pub struct Rest {
    address: String,
    http: reqwest::Client,
}

impl Rest {
    /// # Errors
    /// `Config` when the address is no URL of a server, or has a password in it: it is written down and shown.
    pub fn new(address: &str) -> Result<Self> {
        let url = reqwest::Url::parse(address).ok();
        let url = url.filter(|url| ["http", "https"].contains(&url.scheme())).ok_or_else(|| {
            Error::config("Flink's address is not a URL; it looks like http://jobmanager:8081")
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::config(
                "Flink's address must not have a user and a password in it, since it is written down and shown",
            ));
        }
        let address = address.trim_end_matches('/').to_string();
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .build()
            .or_err(ErrorKind::Bug, "could not make an HTTP client")?;
        Ok(Self { address, http })
    }

    async fn answer(&self, what: &str, request: reqwest::RequestBuilder) -> Result<Value> {
        let at = |e: Error| e.with("flink", &self.address);
        let answer = request
            .send()
            .await
            .or_err(ErrorKind::Transient, format!("Flink could not be asked to {what}"))
            .map_err(at)?;
        let status = answer.status();
        let text = answer
            .text()
            .await
            .or_err(ErrorKind::Transient, format!("Flink's answer was cut off ({what})"))
            .map_err(at)?;
        if !status.is_success() {
            let said: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            let said = said["errors"].as_array().and_then(|e| e.last()).unwrap_or(&said).clone();
            let said = said.as_str().map_or_else(|| said.to_string(), cause_of);
            return Err(at(Error::config(format!("Flink refused to {what}: {said}"))));
        }
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text)
            .or_err(ErrorKind::Config, "that is no Flink: its answer is not JSON")
            .map_err(at)
    }

    async fn get(&self, what: &str, path: &str) -> Result<Value> {
        self.answer(what, self.http.get(format!("{}{path}", self.address))).await
    }

    async fn post(&self, what: &str, path: &str, body: &Value) -> Result<Value> {
        self.answer(what, self.http.post(format!("{}{path}", self.address)).json(body)).await
    }

    pub async fn version(&self) -> Result<String> {
        let answer = self.get("say its version", "/config").await?;
        Ok(text(&answer, "flink-version"))
    }

    /// A key of the JobManager's configuration.
    pub async fn configuration(&self, key: &str) -> Result<Option<String>> {
        let answer = self.get("show its configuration", "/jobmanager/config").await?;
        let entries = answer.as_array().into_iter().flatten();
        let found = entries.filter(|e| e["key"] == key).map(|e| text(e, "value")).next();
        Ok(found.filter(|value| !value.is_empty()))
    }

    pub async fn upload(&self, jar: &Path) -> Result<String> {
        let content = tokio::fs::read(jar)
            .await
            .or_err(ErrorKind::Config, "the job's jar cannot be read")
            .map_err(|e| e.with("file", jar.display()))?;
        let mut body = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"lakeward-flink.jar\"\r\n\
             Content-Type: application/java-archive\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(&content);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        let request = self
            .http
            .post(format!("{}/jars/upload", self.address))
            .header("Content-Type", format!("multipart/form-data; boundary={BOUNDARY}"))
            .body(body);
        let answer = self.answer("take the job's jar", request).await?;
        let file = text(&answer, "filename");
        Ok(file.rsplit('/').next().unwrap_or_default().to_string())
    }

    /// A jar that stays behind does no harm.
    pub async fn delete_jar(&self, jar: &str) {
        let request = self.http.delete(format!("{}/jars/{jar}", self.address));
        if let Err(e) = self.answer("delete the job's jar", request).await {
            tracing::debug!("{e}");
        }
    }

    /// Starts the job; gives back its id.
    pub async fn run(
        &self,
        jar: &str,
        arguments: &[String],
        savepoint: Option<&str>,
    ) -> Result<String> {
        let mut body = json!({ "programArgsList": arguments });
        if let Some(path) = savepoint {
            body["savepointPath"] = json!(path);
        }
        // The job's graph is built for it; on a busy JobManager that takes its time.
        let request = self.http.post(format!("{}/jars/{jar}/run", self.address)).json(&body);
        let answer = self.answer("run the job", request.timeout(SUBMIT_TIMEOUT)).await?;
        Ok(text(&answer, "jobid"))
    }

    pub async fn job(&self, id: &str) -> Result<Value> {
        self.get("show the job", &format!("/jobs/{id}")).await
    }

    pub async fn is_running(&self, id: &str) -> bool {
        let job = self.job(id).await;
        job.is_ok_and(|job| {
            !["FINISHED", "FAILED", "CANCELED"].contains(&text(&job, "state").as_str())
        })
    }

    pub async fn checkpoints(&self, id: &str) -> Result<Value> {
        self.get("show the job's checkpoints", &format!("/jobs/{id}/checkpoints")).await
    }

    /// Where the newest checkpoint or savepoint of a job is that did not come to its end, as far as Flink still knows it.
    pub async fn last_checkpoint(&self, id: &str) -> Option<String> {
        let job = self.job(id).await.ok()?;
        if text(&job, "state") == "FINISHED" {
            return None;
        }
        let checkpoints = self.checkpoints(id).await.ok()?;
        let latest = &checkpoints["latest"];
        let newest = [&latest["completed"], &latest["savepoint"]]
            .into_iter()
            .max_by_key(|c| c["id"].as_u64())?;
        let path = text(newest, "external_path");
        path.contains(':').then_some(path)
    }

    /// What the job failed with.
    pub async fn cause(&self, id: &str) -> Option<String> {
        let answer =
            self.get("show the job's exceptions", &format!("/jobs/{id}/exceptions")).await.ok()?;
        let newest = answer["exceptionHistory"]["entries"].get(0)?;
        let stack = newest["stacktrace"].as_str().or_else(|| answer["root-exception"].as_str())?;
        Some(cause_of(stack))
    }

    /// Asks for a checkpoint now. An older Flink cannot be asked.
    pub async fn trigger_checkpoint(&self, id: &str) -> Result<()> {
        let path = format!("/jobs/{id}/checkpoints");
        self.post("take a checkpoint", &path, &json!({})).await.map(drop)
    }

    /// Starts to stop the job with a savepoint; gives back the request's id.
    pub async fn stop(&self, id: &str, folder: Option<&str>) -> Result<String> {
        let mut body = json!({ "drain": false });
        if let Some(folder) = folder {
            body["targetDirectory"] = json!(folder);
        }
        let answer = self.post("stop with a savepoint", &format!("/jobs/{id}/stop"), &body).await?;
        Ok(text(&answer, "request-id"))
    }

    /// Where the savepoint is, once it is there.
    pub async fn savepoint(&self, id: &str, request: &str) -> Result<Option<String>> {
        let path = format!("/jobs/{id}/savepoints/{request}");
        let answer = self.get("show the savepoint", &path).await?;
        if answer["status"]["id"] != "COMPLETED" {
            return Ok(None);
        }
        let operation = &answer["operation"];
        match operation["location"].as_str() {
            Some(location) => Ok(Some(location.to_string())),
            None => {
                let cause = operation["failure-cause"]["stack-trace"].as_str().unwrap_or_default();
                Err(Error::transient(format!("the savepoint failed: {}", cause_of(cause))))
            }
        }
    }
}

pub(super) fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_string()
}

/// The innermost cause of a Java stack trace, in one line.
fn cause_of(stack: &str) -> String {
    let is_message = |line: &&str| !line.trim_start().starts_with("at ") && !line.trim().is_empty();
    let messages: Vec<&str> = stack.lines().filter(is_message).collect();
    let innermost = messages.iter().rev().find(|line| line.starts_with("Caused by: "));
    let line = innermost.or(messages.first()).copied().unwrap_or("no cause was given");
    let line = line.trim_start_matches("Caused by: ");
    // The exception's class says nothing to someone who reads the sentence behind it.
    let ours = line.split_once("LakewardException: ").map_or(line, |(_, message)| message);
    ours.trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_cause_is_told() {
        let stack = "java.lang.RuntimeException: outer\n\tat a.b(C.java:1)\nCaused by: \
                     io.lakeward.flink.nativelib.LakewardException: the table is gone (table a.b)\n\tat x.y(Z.java)\n\t... 3 more\n";
        assert_eq!(cause_of(stack), "the table is gone (table a.b)");
        assert_eq!(cause_of("java.lang.X: just this"), "java.lang.X: just this");
        assert_eq!(cause_of(""), "no cause was given");
    }

    #[test]
    fn an_address_is_a_url() {
        assert!(Rest::new("jobmanager:8081").is_err());
        assert!(Rest::new("http://jobmanager:8081/").is_ok());
        let refused = Rest::new("http://admin:hidden@jobmanager:8081").err().unwrap();
        assert!(!refused.to_string().contains("hidden"), "{refused}");
    }
}
