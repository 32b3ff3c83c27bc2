//! Stream load: from headers and body to rows that a transaction holds.

mod body;
mod condition;
mod options;
mod plan;
mod quality;

use std::time::Instant;

use serde_json::{Map, Value as Json, json};

use super::cluster::Cluster;
use super::table::Table;
use super::transaction::refused_label;

pub use condition::Condition;
pub use options::Options;
use options::UpdateMode;
use plan::Plan;

/// A load whose transaction has begun, and whose body is to be read.
pub struct Load {
    pub database: String,
    pub table: String,
    pub options: Options,
    pub label: String,
    pub id: i64,
    plan: Plan,
    begun: Instant,
}

/// The answer of a load that has come to an end, one way or the other.
#[derive(Debug, Default)]
pub struct Answer {
    pub id: i64,
    pub label: String,
    pub comment: String,
    pub two_phase_commit: bool,
    pub group_commit: bool,
    /// `Success`, `Publish Timeout`, `Label Already Exists` or `Fail`.
    pub status: &'static str,
    pub existing_job_status: Option<&'static str>,
    pub message: String,
    pub total: usize,
    pub loaded: usize,
    pub filtered: usize,
    pub unselected: usize,
    pub bytes: usize,
    pub millis: u128,
    pub error_log: Option<String>,
    pub first_error: Option<String>,
}

impl Load {
    /// Begins the transaction and decides where each field goes.
    ///
    /// # Errors
    /// The answer that refuses the load; a transaction that had begun is aborted.
    pub fn begin(
        cluster: &mut Cluster,
        database: &str,
        table: &str,
        options: Options,
    ) -> Result<Self, Box<Answer>> {
        let label = match (&options.label, options.group_commit) {
            (Some(label), _) => label.clone(),
            (None, false) => uuid::Uuid::new_v4().to_string(),
            (None, true) => format!("group_commit_{}", uuid::Uuid::new_v4().simple()),
        };
        let refuse = |id: i64, message: String| {
            Box::new(Answer {
                id,
                label: label.clone(),
                comment: options.comment.clone(),
                two_phase_commit: options.two_phase_commit,
                group_commit: options.group_commit,
                status: "Fail",
                message,
                ..Answer::default()
            })
        };
        let analysis = |message: String| {
            format!("[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = {message}")
        };
        cluster.advance();
        if let Some(why) = refused_label(&label) {
            return Err(refuse(-1, analysis(why)));
        }
        let begun = Instant::now();
        let id = match cluster.begin(database, table, &label, options.timeout) {
            Ok(id) => id,
            Err(refusal) => {
                let mut answer = match refusal.existing_job_status {
                    None => refuse(-1, analysis(refusal.message)),
                    Some(_) => refuse(
                        -1,
                        format!(
                            "[LABEL_ALREADY_EXISTS]TStatus: errCode = 2, detailMessage = {}",
                            refusal.message
                        ),
                    ),
                };
                if refusal.existing_job_status.is_some() {
                    answer.status = "Label Already Exists";
                    answer.existing_job_status = refusal.existing_job_status;
                }
                return Err(answer);
            }
        };
        let offset = cluster.settings.offset_minutes;
        let planned = cluster.table(database, table).and_then(|t| Plan::new(t, &options, offset));
        match planned {
            Ok(plan) => Ok(Self {
                database: database.to_owned(),
                table: table.to_owned(),
                label,
                id,
                plan,
                begun,
                options,
            }),
            Err(why) => {
                abort(cluster, database, id, &why);
                Err(refuse(id, analysis(why)))
            }
        }
    }

    /// Reads the body. Works without the cluster, so that others can go on.
    pub fn read(&self, body: &[u8]) -> Result<Body, String> {
        let rows = body::rows(body, &self.options)?;
        Ok(Body { checked: quality::check(rows, &self.plan), bytes: body.len() })
    }

    /// Takes the rows into the transaction, and commits it unless that is for a second phase.
    pub fn finish(self, cluster: &mut Cluster, body: Result<Body, String>, hold: bool) -> Answer {
        cluster.advance();
        let mut answer = Answer {
            id: self.id,
            label: self.label.clone(),
            comment: self.options.comment.clone(),
            two_phase_commit: self.options.two_phase_commit,
            group_commit: self.options.group_commit,
            status: "Fail",
            ..Answer::default()
        };
        let decided = self.decide(cluster, body, hold, &mut answer);
        answer.millis = self.begun.elapsed().as_millis();
        match decided {
            Ok(status) => {
                answer.status = status;
                answer.message = "OK".into();
                if status == "Publish Timeout" {
                    answer.message = "[PUBLISH_TIMEOUT]transaction commit successfully, BUT data \
                                      will be visible later."
                        .into();
                }
            }
            Err(why) => {
                abort(cluster, &self.database, self.id, &why);
                answer.message = why;
            }
        }
        answer
    }

    fn decide(
        &self,
        cluster: &mut Cluster,
        body: Result<Body, String>,
        hold: bool,
        answer: &mut Answer,
    ) -> Result<&'static str, String> {
        let Body { mut checked, bytes } = body?;
        answer.bytes = bytes;
        let table = cluster
            .table(&self.database, &self.table)
            .map_err(|why| format!("[ANALYSIS_ERROR]{why}"))?;
        if checked.loaded.partial {
            check_new_rows(table, &self.plan, &mut checked)?;
        }
        answer.total = checked.total;
        answer.filtered = checked.filtered;
        answer.unselected = checked.unselected;
        answer.loaded = checked.loaded.rows.len();
        if !checked.reasons.is_empty() {
            let name = format!("__shard_0/error_log_insert_stmt_{:x}", self.id);
            cluster.error_logs.insert(name.clone(), checked.reasons.join("\n"));
            answer.first_error = checked.reasons.first().cloned();
            answer.error_log = Some(name);
        }
        let selected = checked.total - checked.unselected;
        if selected > 0 && checked.filtered as f64 / selected as f64 > self.options.max_filter_ratio
        {
            return Err("[DATA_QUALITY_ERROR]too many filtered rows".into());
        }
        let failed = |r: super::transaction::Refusal| {
            format!("[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = {}", r.message)
        };
        let transactions = &mut cluster.database(&self.database)?.transactions;
        transactions.precommit(self.id, checked.loaded).map_err(failed)?;
        if self.options.two_phase_commit {
            return Ok("Success");
        }
        cluster.commit(&self.database, self.id, hold).map_err(failed)?;
        Ok(if hold { "Publish Timeout" } else { "Success" })
    }
}

/// A body that has been read.
pub struct Body {
    checked: quality::Checked,
    bytes: usize,
}

/// A partial update of a row that is not there: refused in strict mode, otherwise a new row, which must be complete.
fn check_new_rows(
    table: &Table,
    plan: &Plan,
    checked: &mut quality::Checked,
) -> Result<(), String> {
    let keys = plan.columns.iter().filter(|c| c.is_key).count();
    let mut refused = 0;
    let mut incomplete = None;
    checked.loaded.rows.retain(|row| {
        let key: Vec<_> = row.values[..keys].iter().flatten().cloned().collect();
        if row.deleted || table.has_key(&key) {
            return true;
        }
        if plan.strict && plan.partial == UpdateMode::FixedColumns {
            refused += 1;
            return false;
        }
        let missing = (0..plan.columns.len())
            .find(|at| row.values[*at].is_none() && plan.defaults[*at].is_none());
        incomplete = incomplete.or(missing);
        true
    });
    if let Some(at) = incomplete {
        return Err(format!(
            "[INTERNAL_ERROR]the unmentioned column `{}` should have default value or be nullable for \
             newly inserted rows in non-strict mode partial update",
            plan.columns[at].name
        ));
    }
    for _ in 0..refused {
        checked.refuse(
            "Reason: the row is not in the table, which partial updates in strict mode \
                        need"
                .to_owned(),
        );
    }
    Ok(())
}

pub(super) fn abort(cluster: &mut Cluster, database: &str, id: i64, reason: &str) {
    if let Ok(database) = cluster.database(database) {
        // One that has expired meanwhile is aborted already.
        let _ = database.transactions.abort(id, reason);
    }
}

impl Answer {
    /// The text of the answer; `backend` is the `host:port` that serves the error log.
    pub fn to_json(&self, backend: &str) -> String {
        let mut out = Map::new();
        let mut put = |name: &str, value: Json| drop(out.insert(name.to_owned(), value));
        put("TxnId", json!(self.id));
        put("Label", json!(self.label));
        put("Comment", json!(self.comment));
        match self.group_commit {
            true => put("GroupCommit", json!(true)),
            false => put("TwoPhaseCommit", json!(self.two_phase_commit.to_string())),
        }
        put("Status", json!(self.status));
        if let Some(status) = self.existing_job_status {
            put("ExistingJobStatus", json!(status));
        }
        put("Message", json!(self.message));
        put("NumberTotalRows", json!(self.total));
        put("NumberLoadedRows", json!(self.loaded));
        put("NumberFilteredRows", json!(self.filtered));
        put("NumberUnselectedRows", json!(self.unselected));
        put("LoadBytes", json!(self.bytes));
        put("LoadTimeMs", json!(self.millis as u64));
        for name in [
            "BeginTxnTimeMs",
            "StreamLoadPutTimeMs",
            "ReadDataTimeMs",
            "WriteDataTimeMs",
            "ReceiveDataTimeMs",
            "CommitAndPublishTimeMs",
        ] {
            put(name, json!(0));
        }
        if let Some(log) = &self.error_log {
            put("ErrorURL", json!(format!("http://{backend}/api/_load_error_log?file={log}")));
        }
        if let Some(error) = &self.first_error {
            put("FirstErrorMsg", json!(error));
        }
        format!("{:#}\n", Json::Object(out))
    }
}
