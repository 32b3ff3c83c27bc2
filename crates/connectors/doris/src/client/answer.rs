//! The JSON that Doris answers with. HTTP says 200 whatever happened.

use serde::Deserialize;

/// Of a load.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoadAnswer {
    #[serde(rename = "TxnId")]
    pub(crate) txn_id: Option<i64>,
    #[serde(rename = "Status", alias = "status")]
    pub(crate) status: String,
    #[serde(rename = "Message", alias = "msg")]
    pub(crate) message: String,
    #[serde(rename = "NumberTotalRows")]
    pub(crate) total_rows: u64,
    #[serde(rename = "NumberLoadedRows")]
    pub(crate) loaded_rows: u64,
    #[serde(rename = "NumberFilteredRows")]
    pub(crate) filtered_rows: u64,
    #[serde(rename = "ErrorURL")]
    pub(crate) error_url: Option<String>,
}

/// What a load's answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadStatus {
    Success,
    LabelExists,
    /// The tablets have more versions than they may, or the database more transactions: wait.
    Throttled,
    /// Rows were refused.
    BadRows,
    /// The account, the table or the request is wrong: trying again changes nothing.
    Refused,
    /// Nothing that says that it would fail again.
    Failed,
}

impl LoadAnswer {
    pub(crate) fn meaning(&self) -> LoadStatus {
        match self.status.as_str() {
            // Committed, and visible soon.
            "Success" | "Publish Timeout" if self.filtered_rows == 0 => LoadStatus::Success,
            "Success" | "Publish Timeout" => LoadStatus::BadRows,
            "Label Already Exists" => LoadStatus::LabelExists,
            _ => self.failure(),
        }
    }

    fn failure(&self) -> LoadStatus {
        let message = self.message.to_ascii_lowercase();
        let has = |texts: &[&str]| texts.iter().any(|t| message.contains(t));
        if has(&["-235", "too_many_version", "too many versions", "e-235"])
            || has(&["current running txns on db", "exceed_limit", "too many tasks"])
        {
            return LoadStatus::Throttled;
        }
        if has(&["too many filtered rows", "data_quality_error", "data quality"]) {
            return LoadStatus::BadRows;
        }
        let refused = [
            "access denied",
            "unknown table",
            "unknown database",
            "no valid user",
            "table not found",
            "does not exist",
            "unknown column",
            "no valid backend host",
        ];
        match has(&refused) {
            true => LoadStatus::Refused,
            false => LoadStatus::Failed,
        }
    }

    /// The server's words, without what may hold row values.
    pub(crate) fn reason(&self) -> String {
        if self.meaning() == LoadStatus::BadRows {
            return format!("{} of {} rows were refused", self.filtered_rows, self.total_rows);
        }
        shortened(&self.message)
    }
}

/// Of the second phase.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TransactionAnswer {
    pub(crate) status: String,
    pub(crate) msg: String,
}

/// Of most of a frontend's own addresses.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FrontendAnswer {
    pub(crate) msg: String,
    pub(crate) code: i64,
    pub(crate) data: serde_json::Value,
}

impl FrontendAnswer {
    pub(crate) fn is_about(&self, text: &str) -> bool {
        let has = |t: &str| t.to_ascii_lowercase().contains(text);
        has(&self.msg) || self.data.as_str().is_some_and(has)
    }
}

/// What became of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelState {
    /// There is no such label, or it was forgotten.
    Unknown,
    /// The load is running.
    Prepare,
    /// All rows are there, invisible.
    Precommitted,
    /// Decided; visible soon.
    Committed,
    Visible,
    Aborted,
}

impl LabelState {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "UNKNOWN" => Self::Unknown,
            "PREPARE" => Self::Prepare,
            "PRECOMMITTED" => Self::Precommitted,
            "COMMITTED" => Self::Committed,
            "VISIBLE" => Self::Visible,
            "ABORTED" => Self::Aborted,
            _ => return None,
        })
    }
}

/// As much of a message as helps.
pub(crate) fn shortened(message: &str) -> String {
    const CHARS: usize = 300;
    let line = message.lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(json: &str) -> LoadStatus {
        serde_json::from_str::<LoadAnswer>(json).expect("an answer").meaning()
    }

    #[test]
    fn answers_are_understood() {
        let success = r#"{"TxnId": 7, "Status": "Success", "NumberLoadedRows": 2, "ErrorURL": ""}"#;
        assert_eq!(meaning(success), LoadStatus::Success);
        assert_eq!(meaning(r#"{"Status": "Publish Timeout"}"#), LoadStatus::Success);
        assert_eq!(
            meaning(r#"{"Status": "Label Already Exists", "ExistingJobStatus": "RUNNING"}"#),
            LoadStatus::LabelExists
        );
        let versions = r#"{"Status": "Fail", "Message": "[E-235]failed to init rowset builder. version count: 2001, exceed limit: 2000"}"#;
        assert_eq!(meaning(versions), LoadStatus::Throttled);
        let filtered = r#"{"Status": "Fail", "Message": "[DATA_QUALITY_ERROR]too many filtered rows", "NumberFilteredRows": 1}"#;
        assert_eq!(meaning(filtered), LoadStatus::BadRows);
        let denied = r#"{"status": "FAILED", "msg": "Access denied for root@127.0.0.1"}"#;
        assert_eq!(meaning(denied), LoadStatus::Refused);
        assert_eq!(meaning(r#"{"Status": "Fail", "Message": "[RPC_ERROR]x"}"#), LoadStatus::Failed);
        assert_eq!(
            meaning(r#"{"Status": "Success", "NumberFilteredRows": 3}"#),
            LoadStatus::BadRows
        );
    }

    #[test]
    fn long_messages_are_cut() {
        assert_eq!(shortened("a\nb"), "a");
        assert_eq!(shortened(&"ä".repeat(400)).chars().count(), 301);
    }
}
