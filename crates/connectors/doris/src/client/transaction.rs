//! The second phase of a load, and what became of a label.

use std::time::Duration;

use lakeward_core::{Error, Result};

use super::Backoff;
use super::answer::{FrontendAnswer, LabelState, TransactionAnswer, shortened};
use super::cluster::{Cluster, Failure};
use super::stream_load::encoded;

const TIMEOUT: Duration = Duration::from_secs(120);
/// Commits of one transaction, before the attempt is given up. The position is kept: the next attempt commits it.
const MAX_TRIES: u32 = 8;

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Committed,
    /// It was committed before this call.
    Already,
    /// Its rows are gone: aborted by its timeout or by someone.
    Lost(LabelState),
}

impl Cluster {
    pub(crate) async fn label_state(&self, database: &str, label: &str) -> Result<LabelState> {
        let path = format!("/api/{}/get_load_state?label={}", encoded(database), encoded(label));
        let mut backoff = Backoff::default();
        let mut tries = 0;
        loop {
            let asked = self.get::<FrontendAnswer>(&path).await;
            let error = match asked {
                Ok(answer) => match answer.data.as_str().and_then(LabelState::parse) {
                    Some(state) => return Ok(state),
                    // With its database everything of it is gone.
                    None if answer.is_about("unknown database") => return Ok(LabelState::Unknown),
                    None => Error::transient(format!(
                        "doris does not tell the state of a label: {}",
                        shortened(&answer.msg)
                    ))
                    .with("label", label)
                    .with("code", answer.code),
                },
                Err(e) => e,
            };
            tries += 1;
            if !error.kind().is_retryable() || tries > self.config.max_retries {
                return Err(error);
            }
            backoff.wait().await;
        }
    }

    /// Makes a precommitted load visible. Calling it twice is calling it once.
    pub(crate) async fn commit(
        &self,
        database: &str,
        label: &str,
        txn_id: Option<i64>,
    ) -> Result<End> {
        let mut backoff = Backoff::default();
        for tries in 1.. {
            let why = match self.second_phase(database, label, txn_id, "commit").await {
                Ok(answer) if answer.status.eq_ignore_ascii_case("success") => {
                    return Ok(End::Committed);
                }
                Ok(answer) => Error::transient(format!(
                    "doris refuses the commit of a load: {}",
                    shortened(&answer.msg)
                )),
                Err(Failure::Refused(e)) => return Err(e.with("label", label)),
                Err(Failure::Unknown(e)) => e,
            };
            match self.label_state(database, label).await? {
                LabelState::Visible | LabelState::Committed => {
                    return Ok(if tries == 1 { End::Already } else { End::Committed });
                }
                LabelState::Precommitted | LabelState::Prepare if tries < MAX_TRIES => {
                    tracing::warn!(%label, tries, "a commit is tried again: {why}");
                    backoff.wait().await;
                }
                LabelState::Precommitted | LabelState::Prepare => {
                    return Err(why.with("label", label));
                }
                state @ (LabelState::Aborted | LabelState::Unknown) => return Ok(End::Lost(state)),
            }
        }
        Err(Error::bug("a commit ended without an outcome").with("label", label))
    }

    /// Takes a load back. One that is gone, or never was, is fine.
    ///
    /// # Errors
    /// `Bug` when it is committed: it belonged to the table.
    pub(crate) async fn abort(
        &self,
        database: &str,
        label: &str,
        txn_id: Option<i64>,
    ) -> Result<()> {
        let mut backoff = Backoff::default();
        for tries in 1.. {
            let why = match self.second_phase(database, label, txn_id, "abort").await {
                Ok(answer) if answer.status.eq_ignore_ascii_case("success") => return Ok(()),
                Ok(answer) => Error::transient(format!(
                    "doris refuses to abort a load: {}",
                    shortened(&answer.msg)
                )),
                Err(Failure::Refused(e)) => return Err(e.with("label", label)),
                Err(Failure::Unknown(e)) => e,
            };
            match self.label_state(database, label).await? {
                LabelState::Aborted | LabelState::Unknown => return Ok(()),
                LabelState::Visible | LabelState::Committed => {
                    return Err(Error::bug("a load that was to be taken back is committed")
                        .with("label", label));
                }
                LabelState::Prepare | LabelState::Precommitted if tries < MAX_TRIES => {
                    backoff.wait().await;
                }
                LabelState::Prepare | LabelState::Precommitted => {
                    return Err(why.with("label", label));
                }
            }
        }
        Err(Error::bug("an abort ended without an outcome").with("label", label))
    }

    async fn second_phase(
        &self,
        database: &str,
        label: &str,
        txn_id: Option<i64>,
        operation: &str,
    ) -> Result<TransactionAnswer, Failure> {
        let name = match txn_id {
            Some(id) => ("txn_id".to_string(), id.to_string()),
            None => ("label".to_string(), label.to_string()),
        };
        let headers = vec![name, ("txn_operation".to_string(), operation.to_string())];
        let path = format!("/api/{}/_stream_load_2pc", encoded(database));
        self.put(&path, headers, None, TIMEOUT).await
    }
}
