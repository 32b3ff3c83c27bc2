//! Load transactions of one database: labels, states, timeouts.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::table::LoadedRows;

/// A label may be used again after an abort; any other state keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// The load is running.
    Prepare,
    Precommitted,
    /// Decided, but not to be seen yet.
    Committed,
    Visible,
    Aborted,
}

impl TransactionStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "PREPARE",
            Self::Precommitted => "PRECOMMITTED",
            Self::Committed => "COMMITTED",
            Self::Visible => "VISIBLE",
            Self::Aborted => "ABORTED",
        }
    }

    pub fn is_running(self) -> bool {
        matches!(self, Self::Prepare | Self::Precommitted | Self::Committed)
    }

    /// What `ExistingJobStatus` says of a label that is taken.
    fn job_status(self) -> &'static str {
        match self {
            Self::Prepare | Self::Aborted => "RUNNING",
            Self::Precommitted => "PRECOMMITTED",
            Self::Committed | Self::Visible => "FINISHED",
        }
    }
}

#[derive(Debug)]
pub struct Transaction {
    pub id: i64,
    pub label: String,
    pub table: i64,
    pub status: TransactionStatus,
    /// Why it was aborted.
    pub reason: String,
    /// The time it began at, as a text.
    pub prepared: String,
    prepared_at: Instant,
    precommitted_at: Option<Instant>,
    timeout: Duration,
    precommit_timeout: Duration,
    pub rows: LoadedRows,
}

/// Why a transaction could not be begun, committed or aborted: the words of the server, and for a label that is taken
/// the state of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub existing_job_status: Option<&'static str>,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { message, existing_job_status: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Commit,
    Abort,
}

#[derive(Debug, Default)]
pub struct Transactions {
    by_id: BTreeMap<i64, Transaction>,
    by_label: HashMap<String, Vec<i64>>,
}

impl Transactions {
    pub fn begin(
        &mut self,
        id: i64,
        label: &str,
        table: i64,
        timeout: Duration,
        precommit_timeout: Duration,
    ) -> Result<(), Refusal> {
        if let Some(existing) =
            self.of_label(label).find(|t| t.status != TransactionStatus::Aborted)
        {
            return Err(Refusal {
                message: format!(
                    "Label [{label}] has already been used, relate to txn [{}]",
                    existing.id
                ),
                existing_job_status: Some(existing.status.job_status()),
            });
        }
        self.by_label.entry(label.to_owned()).or_default().push(id);
        self.by_id.insert(
            id,
            Transaction {
                id,
                label: label.to_owned(),
                table,
                status: TransactionStatus::Prepare,
                reason: String::new(),
                prepared: super::cluster::now_text(),
                prepared_at: Instant::now(),
                precommitted_at: None,
                timeout,
                precommit_timeout: precommit_timeout.max(timeout),
                rows: LoadedRows::default(),
            },
        );
        Ok(())
    }

    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Transaction> {
        self.by_id.values()
    }

    pub fn get(&self, id: i64) -> Option<&Transaction> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: i64) -> Option<&mut Transaction> {
        self.by_id.get_mut(&id)
    }

    /// The state that `get_load_state` answers: that of the newest transaction of the label.
    pub fn label_state(&self, label: &str) -> &'static str {
        self.of_label(label).last().map_or("UNKNOWN", |t| t.status.name())
    }

    pub fn of_label(&self, label: &str) -> impl Iterator<Item = &Transaction> {
        self.by_label.get(label).into_iter().flatten().filter_map(|id| self.by_id.get(id))
    }

    /// The id behind a label. Only a transaction that can still be decided is found, so that a repeated commit by label
    /// cannot be told from a label that never was.
    pub fn id_of_label(&self, label: &str, operation: Operation) -> Result<i64, Refusal> {
        if self.of_label(label).next().is_none() {
            return Err(format!("transaction not found, label={label}").into());
        }
        let found = self.of_label(label).find(|t| match operation {
            Operation::Commit => t.status == TransactionStatus::Precommitted,
            Operation::Abort => {
                matches!(t.status, TransactionStatus::Precommitted | TransactionStatus::Prepare)
            }
        });
        match found {
            Some(transaction) => Ok(transaction.id),
            None => Err(format!("running transaction not found, label={label}").into()),
        }
    }

    /// The rows are in place; they wait for the commit.
    pub fn precommit(&mut self, id: i64, rows: LoadedRows) -> Result<(), Refusal> {
        let transaction = self.by_id.get_mut(&id).ok_or_else(|| not_found(id))?;
        match transaction.status {
            TransactionStatus::Prepare => {
                transaction.status = TransactionStatus::Precommitted;
                transaction.precommitted_at = Some(Instant::now());
                transaction.rows = rows;
                Ok(())
            }
            TransactionStatus::Aborted => Err(transaction.reason.clone().into()),
            status => Err(format!("transaction is already {}", status.name()).into()),
        }
    }

    /// The second phase. On success the rows can be published.
    pub fn commit(&mut self, id: i64) -> Result<&mut Transaction, Refusal> {
        let transaction = self.by_id.get_mut(&id).ok_or_else(|| not_found(id))?;
        let refused = match transaction.status {
            TransactionStatus::Precommitted => {
                transaction.status = TransactionStatus::Committed;
                return Ok(transaction);
            }
            TransactionStatus::Prepare => "is prepare, not pre-committed.".to_owned(),
            TransactionStatus::Committed => "is already committed, not pre-committed.".to_owned(),
            TransactionStatus::Visible => "is already visible, not pre-committed.".to_owned(),
            TransactionStatus::Aborted => {
                format!("is already aborted. abort reason: {}", transaction.reason)
            }
        };
        Err(format!("transaction [{id}] {refused}").into())
    }

    pub fn abort(&mut self, id: i64, reason: &str) -> Result<(), Refusal> {
        let transaction = self.by_id.get_mut(&id).ok_or_else(|| not_found(id))?;
        match transaction.status {
            TransactionStatus::Prepare | TransactionStatus::Precommitted => {
                transaction.abort(reason);
                Ok(())
            }
            TransactionStatus::Aborted => Err(format!(
                "transaction [{id}] is already aborted, abort reason: {}",
                transaction.reason
            )
            .into()),
            status => {
                let name = status.name();
                Err(format!("transaction [{id}] is already {name}, could not abort.").into())
            }
        }
    }

    /// Aborts what has waited too long.
    pub fn expire(&mut self, now: Instant) {
        for transaction in self.by_id.values_mut() {
            let late = match transaction.status {
                TransactionStatus::Prepare => {
                    now.duration_since(transaction.prepared_at) > transaction.timeout
                }
                TransactionStatus::Precommitted => transaction
                    .precommitted_at
                    .is_some_and(|at| now.duration_since(at) > transaction.precommit_timeout),
                _ => false,
            };
            if late {
                transaction.abort("timeout by txn manager");
            }
        }
    }

    /// As if the timeout of every undecided transaction had passed.
    pub fn expire_all(&mut self) {
        for transaction in self.by_id.values_mut() {
            if matches!(
                transaction.status,
                TransactionStatus::Prepare | TransactionStatus::Precommitted
            ) {
                transaction.abort("timeout by txn manager");
            }
        }
    }

    /// Forgets decided transactions and their labels, as `label_keep_max_second` does.
    pub fn forget_decided(&mut self) {
        self.by_id.retain(|_, t| t.status.is_running());
        for ids in self.by_label.values_mut() {
            ids.retain(|id| self.by_id.contains_key(id));
        }
        self.by_label.retain(|_, ids| !ids.is_empty());
    }
}

impl Transaction {
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    fn abort(&mut self, reason: &str) {
        self.status = TransactionStatus::Aborted;
        self.reason = reason.to_owned();
        self.rows = LoadedRows::default();
    }
}

fn not_found(id: i64) -> Refusal {
    format!("transaction [{id}] not found.").into()
}

/// Why Doris would not take a label, if it would not.
pub fn refused_label(label: &str) -> Option<String> {
    let fits = (1..=128).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b));
    (!fits).then(|| format!("Label format error. regex: ^[-_A-Za-z0-9:]{{1,128}}$, label: {label}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn begun() -> Transactions {
        let mut transactions = Transactions::default();
        transactions.begin(7, "a", 1, HOUR, HOUR).unwrap();
        transactions
    }

    #[test]
    fn a_label_is_taken_until_its_transaction_is_aborted() {
        let mut transactions = begun();
        let refused = transactions.begin(8, "a", 1, HOUR, HOUR).unwrap_err();
        assert_eq!(refused.existing_job_status, Some("RUNNING"));
        assert_eq!(refused.message, "Label [a] has already been used, relate to txn [7]");
        transactions.precommit(7, LoadedRows::default()).unwrap();
        let refused = transactions.begin(8, "a", 1, HOUR, HOUR).unwrap_err();
        assert_eq!(refused.existing_job_status, Some("PRECOMMITTED"));
        transactions.abort(7, "User Abort").unwrap();
        transactions.begin(8, "a", 1, HOUR, HOUR).unwrap();
        assert_eq!(transactions.label_state("a"), "PREPARE");
        assert_eq!(transactions.label_state("b"), "UNKNOWN");
    }

    #[test]
    fn each_decision_is_taken_once() {
        let mut transactions = begun();
        let early = transactions.commit(7).unwrap_err();
        assert_eq!(early.message, "transaction [7] is prepare, not pre-committed.");
        transactions.precommit(7, LoadedRows::default()).unwrap();
        transactions.commit(7).unwrap().status = TransactionStatus::Visible;
        let again = transactions.commit(7).unwrap_err();
        assert_eq!(again.message, "transaction [7] is already visible, not pre-committed.");
        let abort = transactions.abort(7, "User Abort").unwrap_err();
        assert_eq!(abort.message, "transaction [7] is already VISIBLE, could not abort.");
        let by_label = transactions.id_of_label("a", Operation::Commit).unwrap_err();
        assert_eq!(by_label.message, "running transaction not found, label=a");
        assert_eq!(transactions.abort(9, "").unwrap_err().message, "transaction [9] not found.");
    }

    #[test]
    fn what_waits_too_long_is_aborted() {
        let mut transactions = begun();
        transactions.precommit(7, LoadedRows::default()).unwrap();
        transactions.expire(Instant::now() + HOUR / 2);
        assert_eq!(transactions.label_state("a"), "PRECOMMITTED");
        transactions.expire(Instant::now() + HOUR * 2);
        let late = transactions.commit(7).unwrap_err();
        assert_eq!(
            late.message,
            "transaction [7] is already aborted. abort reason: timeout by txn manager"
        );
    }

    #[test]
    fn labels() {
        assert_eq!(refused_label("lw_db-1:2"), None);
        for bad in ["", "a b", "ä", "a.b", &"x".repeat(129)] {
            assert!(refused_label(bad).is_some(), "{bad}");
        }
    }
}
