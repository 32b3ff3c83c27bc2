//! A backend's HTTP interface: stream loads and their second phase.

use std::fmt::Write;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde_json::json;

use super::super::faults::{Fault, Moment};
use super::super::load::{Answer, Load, Options, abort};
use super::super::stand_in::{Shared, lock};
use super::super::transaction::Operation;
use super::{
    Handled, Reply, after, before, credentials, header, json_text, not_found, parameter, read_body,
    text,
};

pub async fn handle(
    shared: &Shared,
    index: usize,
    request: Request<Incoming>,
    segments: &[&str],
) -> Handled {
    let address = format!("127.0.0.1:{}", lock(shared).backends[index].http_port);
    match (request.method(), segments) {
        (&Method::PUT, ["api", database, table, "_stream_load"]) => {
            stream_load(shared, &address, database, table, request).await
        }
        (&Method::PUT, ["api", database, "_stream_load_2pc"])
        | (&Method::PUT, ["api", database, _, "_stream_load_2pc"]) => {
            second_phase(shared, database, request).await
        }
        (&Method::GET, ["api", "health"]) => {
            Ok(json_text(json!({"status": "OK", "msg": "To Be Added"}).to_string()))
        }
        (&Method::GET, ["api", "_load_error_log"]) => {
            let file = parameter(&request, "file").unwrap_or_default();
            Ok(match lock(shared).error_logs.get(&file) {
                Some(log) => text(StatusCode::OK, "text/plain", log.clone()),
                None => not_found(),
            })
        }
        _ => Ok(not_found()),
    }
}

async fn stream_load(
    shared: &Shared,
    backend: &str,
    database: &str,
    table: &str,
    request: Request<Incoming>,
) -> Handled {
    let refuse = |message: String| {
        let label = header(request.headers(), "label").to_owned();
        let two_phase_commit = header(request.headers(), "two_phase_commit") == "true";
        let answer = Answer {
            id: -1,
            label,
            two_phase_commit,
            status: "Fail",
            message,
            ..Answer::default()
        };
        json_text(answer.to_json(backend))
    };
    // The body of a load that is refused by its headers is not asked for.
    let options = match Options::from_headers(request.headers()) {
        Ok(options) => options,
        Err(why) => return Ok(refuse(why)),
    };
    let load = {
        let mut cluster = lock(shared);
        match credentials(request.headers()) {
            None => return Ok(refuse("[INTERNAL_ERROR]no valid Basic authorization".into())),
            Some((user, password)) if !cluster.is_account(&user, &password) => {
                let denied = format!("Access denied for {user}@127.0.0.1");
                return Ok(refuse(format!(
                    "[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = {denied}"
                )));
            }
            Some(_) => {}
        }
        match Load::begin(&mut cluster, database, table, options) {
            Ok(load) => load,
            Err(answer) => return Ok(json_text(answer.to_json(backend))),
        }
    };
    let id = load.id;
    // Aborts the transaction where the client, this node or the connection goes away.
    let mut open = OpenLoad { shared, database, id: Some(id) };
    let Ok(body) = read_body(request.into_body()).await else {
        return Ok(text(StatusCode::BAD_REQUEST, "text/plain", String::new()));
    };
    let fault = lock(shared).faults.take(Moment::Load, Some(table));
    if let Some(reply) = before(&fault).await? {
        return Ok(reply);
    }
    let read = match &fault {
        Some(Fault::Refuse(message)) => Err(message.clone()),
        Some(Fault::TooManyVersions) => Err(
            "[E-235]failed to init rowset builder. version count: 2001, exceed limit: 2000, tablet: \
             10005. Please reduce the frequency of loading data or adjust the max_tablet_version_num \
             in be.conf to a larger value."
                .to_owned(),
        ),
        _ => load.read(&body),
    };
    let hold = fault == Some(Fault::PublishTimeout);
    let answer = load.finish(&mut lock(shared), read, hold);
    open.id = None;
    after(fault, json_text(answer.to_json(backend))).await
}

/// A load that is being read; aborted if it is dropped as it is.
struct OpenLoad<'a> {
    shared: &'a Shared,
    database: &'a str,
    id: Option<i64>,
}

impl Drop for OpenLoad<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            abort(&mut lock(self.shared), self.database, id, "[CANCELLED]sender is gone");
        }
    }
}

async fn second_phase(shared: &Shared, database: &str, request: Request<Incoming>) -> Handled {
    let headers = request.headers();
    let (label, txn_id) = (header(headers, "label"), header(headers, "txn_id"));
    let operation = match header(headers, "txn_operation") {
        "commit" => Operation::Commit,
        "abort" => Operation::Abort,
        _ => {
            return Ok(refused(
                "INTERNAL_ERROR",
                "transaction operation should be 'commit' or 'abort'",
            ));
        }
    };
    let mut what = String::new();
    if !label.is_empty() {
        let _ = write!(what, "label [{label}] ");
    }
    let id = match txn_id {
        "" => None,
        text => {
            let _ = write!(what, "transaction [{text}] ");
            match text.parse::<i64>() {
                Ok(id) => Some(id),
                Err(_) => {
                    let message = format!("convert txn_id [{text}] failed, reason=stoull");
                    return Ok(refused("INTERNAL_ERROR", &message));
                }
            }
        }
    };
    let (moment, word) = match operation {
        Operation::Commit => (Moment::Commit, "commit"),
        Operation::Abort => (Moment::Abort, "abort"),
    };
    let fault = lock(shared).faults.take(moment, None);
    if let Some(reply) = before(&fault).await? {
        return Ok(reply);
    }
    if let Some(Fault::Refuse(message)) = &fault {
        return Ok(refused("INTERNAL_ERROR", message));
    }
    let done = {
        let mut cluster = lock(shared);
        cluster.advance();
        match credentials(headers) {
            Some((user, password)) if cluster.is_account(&user, &password) => {
                let hold = fault == Some(Fault::PublishTimeout);
                decide(&mut cluster, database, id, label, operation, hold)
            }
            _ => Err("errCode = 2, detailMessage = Access denied".to_owned()),
        }
    };
    let reply = match done {
        Ok(()) => {
            let msg = format!("{what}{word} successfully.");
            json_text(format!("{:#}", json!({ "status": "Success", "msg": msg })))
        }
        Err(message) => refused("ANALYSIS_ERROR", &format!("TStatus: {message}")),
    };
    after(fault, reply).await
}

fn decide(
    cluster: &mut super::super::cluster::Cluster,
    database: &str,
    id: Option<i64>,
    label: &str,
    operation: Operation,
    hold: bool,
) -> Result<(), String> {
    let detail = |message: String| format!("errCode = 2, detailMessage = {message}");
    let transactions = &mut cluster
        .databases
        .get_mut(database)
        .ok_or_else(|| detail(format!("unknown database, database={database}")))?
        .transactions;
    let id = match id {
        Some(id) => id,
        None => transactions.id_of_label(label, operation).map_err(|r| detail(r.message))?,
    };
    let done = match operation {
        Operation::Abort => transactions.abort(id, "User Abort"),
        Operation::Commit => cluster.commit(database, id, hold),
    };
    done.map_err(|r| detail(r.message))
}

/// A second phase that is refused: its status is the name of the error.
fn refused(status: &str, message: &str) -> Reply {
    json_text(format!("{:#}", json!({ "status": status, "msg": message })))
}
