//! One load: sent until its outcome is known. Its label makes that safe: Doris takes a label once, and tells what became
//! of it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lakeward_core::{Error, Result};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::answer::{LabelState, LoadAnswer, LoadStatus};
use super::cluster::{Cluster, Failure};
use super::{Backoff, now_ms};
use crate::metrics::SinkMetrics;

/// What is to be loaded.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) database: String,
    pub(crate) table: String,
    /// `None` for group commit, which takes no label.
    pub(crate) label: Option<String>,
    /// Besides the label, in the words of Stream Load.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) rows: u64,
}

/// A load whose rows are in the cluster: invisible until the second phase, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Loaded {
    pub(crate) label: Option<String>,
    /// `None` when the answer was lost; the label stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) txn_id: Option<i64>,
    pub(crate) rows: u64,
    pub(crate) size_bytes: u64,
    /// When the answer came, in milliseconds since the epoch.
    pub(crate) loaded_at_ms: i64,
}

/// What is known of a load after a try.
enum Outcome {
    Done(Option<i64>),
    /// The label is free: the same may be sent again.
    Again(Error),
    Throttled(Error),
}

/// Time for the answer beyond what the load itself may take.
const ANSWER_GRACE: Duration = Duration::from_secs(30);

impl Cluster {
    /// # Errors
    /// `DataInvalid` when rows were refused, `Config` for what the user must mend, `Transient` otherwise. The label is
    /// then free or its transaction aborted.
    pub(crate) async fn load(&self, load: &Load, metrics: &SinkMetrics) -> Result<Loaded> {
        let with_place = |e: Error| match &load.label {
            Some(label) => e.with("label", label),
            None => e,
        };
        let mut backoff = Backoff::default();
        let mut throttled_since = None;
        let mut failures = 0;
        loop {
            match self.try_load(load).await.map_err(with_place)? {
                Outcome::Done(txn_id) => {
                    metrics.loads.add(1);
                    metrics.loaded_bytes.add(load.body.len() as u64);
                    return Ok(Loaded {
                        label: load.label.clone(),
                        txn_id,
                        rows: load.rows,
                        size_bytes: load.body.len() as u64,
                        loaded_at_ms: now_ms(),
                    });
                }
                Outcome::Again(error) => {
                    failures += 1;
                    if failures > self.config.max_retries {
                        return Err(with_place(error));
                    }
                    metrics.load_retries.add(1);
                    tracing::warn!(failures, "a load failed and is sent again: {error}");
                }
                Outcome::Throttled(error) => {
                    let since = *throttled_since.get_or_insert_with(Instant::now);
                    metrics.throttled.add(1);
                    if since.elapsed() > self.config.throttle_timeout.0 {
                        return Err(with_place(error));
                    }
                    tracing::warn!(
                        table = %load.table,
                        "doris asks for slower loads; this one waits: {error}"
                    );
                }
            }
            backoff.wait().await;
        }
    }

    async fn try_load(&self, load: &Load) -> Result<Outcome> {
        let path =
            format!("/api/{}/{}/_stream_load", encoded(&load.database), encoded(&load.table));
        let mut headers = load.headers.clone();
        if let Some(label) = &load.label {
            headers.push(("label".into(), label.clone()));
        }
        let timeout = self.config.load_timeout.0 + ANSWER_GRACE;
        let sent = self.put::<LoadAnswer>(&path, headers, Some(load.body.clone()), timeout).await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(Failure::Refused(e)) => return Err(e),
            Err(Failure::Unknown(e)) => return self.resolve(load, e).await,
        };
        let error =
            |kind: fn(String) -> Error, what: &str| kind(format!("{what}: {}", answer.reason()));
        match answer.meaning() {
            LoadStatus::Success => Ok(Outcome::Done(answer.txn_id)),
            LoadStatus::LabelExists => {
                let e = error(Error::transient, "an earlier try of this load is not at its end");
                self.resolve(load, e).await
            }
            LoadStatus::Throttled => {
                Ok(Outcome::Throttled(error(Error::transient, "doris is overloaded")))
            }
            LoadStatus::BadRows => {
                let e = error(Error::data_invalid, "doris refuses rows of a load");
                let url = answer.error_url.filter(|url| !url.is_empty());
                Err(e.with("see", url.unwrap_or_else(|| "the backend's log".into())))
            }
            LoadStatus::Refused => Err(error(Error::config, "doris refuses a load")),
            LoadStatus::Failed => {
                let e = error(Error::transient, "a load failed");
                self.resolve(load, e).await
            }
        }
    }

    /// Asks what became of the label. A load that still runs is waited for, then aborted.
    async fn resolve(&self, load: &Load, error: Error) -> Result<Outcome> {
        let Some(label) = &load.label else {
            // Without a label nobody knows; the rows may come twice, as at-least-once says.
            return Ok(Outcome::Again(error));
        };
        let started = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            match self.label_state(&load.database, label).await? {
                LabelState::Precommitted | LabelState::Committed | LabelState::Visible => {
                    tracing::info!(%label, "the answer to a load was lost; its rows are there");
                    return Ok(Outcome::Done(None));
                }
                LabelState::Unknown | LabelState::Aborted => return Ok(Outcome::Again(error)),
                LabelState::Prepare if started.elapsed() > self.config.load_timeout.0 => {
                    self.abort(&load.database, label, None).await?;
                    return Ok(Outcome::Again(error));
                }
                LabelState::Prepare => backoff.wait().await,
            }
        }
    }
}

pub(super) fn encoded(part: &str) -> String {
    utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()
}
