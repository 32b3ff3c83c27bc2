//! A frontend's HTTP interface: redirects, states of labels, statements, and what connectors ask about the cluster.

use std::fmt::Write;

use hyper::body::Incoming;
use hyper::header::{EXPECT, HeaderValue, LOCATION};
use hyper::{Method, Request, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value as Json, json};

use super::super::faults::{Fault, Moment};
use super::super::sql::{self, Answer, Session};
use super::super::stand_in::{Shared, lock};
use super::super::table::KeysModel;
use super::{
    Handled, Reply, after, before, common_error, credentials, envelope, failed, header, json_text,
    not_found, ok, parameter, read_body, text, unauthorized,
};

pub async fn handle(shared: &Shared, request: Request<Incoming>, segments: &[&str]) -> Handled {
    if let (&Method::GET, ["api", "health"]) = (request.method(), segments) {
        let cluster = lock(shared);
        let alive = cluster.backends.iter().filter(|b| b.alive).count();
        return Ok(ok(json!({
            "total_backend_num": cluster.backends.len(),
            "online_backend_num": alive,
        })));
    }
    let Some((user, password)) = credentials(request.headers()) else {
        return Ok(unauthorized("Need auth information."));
    };
    if !lock(shared).is_account(&user, &password) {
        return Ok(unauthorized(&format!("Access denied for {user}@127.0.0.1")));
    }
    match (request.method(), segments) {
        (&Method::PUT, ["api", _, table, "_stream_load"]) => {
            if request.headers().get(EXPECT).is_none() {
                return Ok(failed("There is no 100-continue header"));
            }
            redirect(shared, &request, Some(table), &user, &password).await
        }
        (&Method::PUT, ["api", _, "_stream_load_2pc"])
        | (&Method::PUT, ["api", _, _, "_stream_load_2pc"]) => {
            let headers = request.headers();
            if header(headers, "txn_id").is_empty() && header(headers, "label").is_empty() {
                return Ok(failed("No transaction id or label selected."));
            }
            if header(headers, "txn_operation").is_empty() {
                return Ok(failed("No transaction operation('commit' or 'abort') selected."));
            }
            redirect(shared, &request, None, &user, &password).await
        }
        (&Method::GET, ["api", database, "get_load_state"]) => {
            let label = parameter(&request, "label").unwrap_or_default();
            let fault = lock(shared).faults.take(Moment::LabelState, None);
            if let Some(reply) = before(&fault).await? {
                return Ok(reply);
            }
            let reply = label_state(shared, database, &label);
            after(fault, reply).await
        }
        (&Method::GET, ["api", "backends"]) => {
            let only_alive = parameter(&request, "is_alive").is_some_and(|v| v == "true");
            Ok(backends(shared, only_alive))
        }
        (&Method::GET, ["rest", "v2", "manager", "node", "frontends"]) => Ok(frontends(shared)),
        (&Method::GET, ["api", database, table, "_schema"]) => Ok(schema(shared, database, table)),
        (&Method::GET, ["api", "enable_light_schema_change", database, table]) => {
            let (database, table) = ((*database).to_owned(), (*table).to_owned());
            let Ok(body) = read_body(request.into_body()).await else { return Ok(not_found()) };
            Ok(light_schema_change(shared, &database, &table, &body))
        }
        (&Method::POST, ["api", "query", _, rest @ ..]) => {
            let database = rest.first().map(|d| (*d).to_owned());
            let Ok(body) = read_body(request.into_body()).await else { return Ok(not_found()) };
            Ok(query(shared, database, &user, &body).await)
        }
        _ => Ok(not_found()),
    }
}

/// 307 to a backend, with the credentials in the address.
async fn redirect(
    shared: &Shared,
    request: &Request<Incoming>,
    table: Option<&str>,
    user: &str,
    password: &str,
) -> Handled {
    let fault = lock(shared).faults.take(Moment::Redirect, table);
    if let Some(reply) = before(&fault).await? {
        return Ok(reply);
    }
    if let Some(Fault::Refuse(message)) = &fault {
        return Ok(failed(message));
    }
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let location = match &fault {
        Some(Fault::RedirectTo(address)) => format!("http://{address}{path}?{query}"),
        _ => {
            let Some(backend) = lock(shared).pick_backend() else {
                return Ok(failed("No backend load available., policy: computeNode=false"));
            };
            let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
            format!(
                "http://{}:{}@127.0.0.1:{}{path}?{query}",
                encode(user),
                encode(password),
                backend.http_port
            )
        }
    };
    let mut reply = text(StatusCode::TEMPORARY_REDIRECT, "text/html;charset=utf-8", String::new());
    let Ok(location) = HeaderValue::from_str(&location) else {
        return Ok(failed("the address of the request cannot be redirected"));
    };
    reply.headers_mut().insert(LOCATION, location);
    after(fault, reply).await
}

fn label_state(shared: &Shared, database: &str, label: &str) -> Reply {
    if label.is_empty() {
        return envelope(403, "Bad Request", json!("No label selected"));
    }
    let mut cluster = lock(shared);
    cluster.advance();
    match cluster.databases.get(database) {
        Some(database) => ok(json!(database.transactions.label_state(label))),
        None => common_error(&format!("unknown database, databaseName={database}")),
    }
}

fn backends(shared: &Shared, only_alive: bool) -> Reply {
    let cluster = lock(shared);
    let rows: Vec<Json> = cluster
        .backends
        .iter()
        .filter(|b| b.alive || !only_alive)
        .map(|b| json!({"ip": "127.0.0.1", "http_port": b.http_port, "is_alive": b.alive}))
        .collect();
    ok(json!({ "backends": rows }))
}

fn frontends(shared: &Shared) -> Reply {
    let cluster = lock(shared);
    let master = cluster.frontends.iter().position(|f| f.alive);
    let rows: Vec<[String; 8]> = cluster
        .frontends
        .iter()
        .enumerate()
        .map(|(index, f)| {
            [
                format!("fe_{index}"),
                "127.0.0.1".to_owned(),
                f.http_port.to_string(),
                f.mysql_port.to_string(),
                "FOLLOWER".to_owned(),
                (Some(index) == master).to_string(),
                f.alive.to_string(),
                sql::VERSION.to_owned(),
            ]
        })
        .collect();
    ok(json!({
        "column_names":
            ["Name", "Host", "HttpPort", "QueryPort", "Role", "IsMaster", "Alive", "Version"],
        "rows": rows,
    }))
}

fn schema(shared: &Shared, database: &str, table: &str) -> Reply {
    let mut cluster = lock(shared);
    let table = match cluster.table(database, table) {
        Ok(table) => table,
        Err(why) => return common_error(&why),
    };
    let properties: Vec<Json> = table
        .columns
        .iter()
        .map(|c| {
            let name = c.data_type.to_string().to_ascii_uppercase();
            let plain = name.split('(').next().unwrap_or_default().to_owned();
            json!({
                "name": c.name, "type": plain, "comment": c.comment, "is_key": c.is_key,
                "is_nullable": if c.nullable { "Yes" } else { "No" },
                "aggregation_type": "",
            })
        })
        .collect();
    let keys = match table.model {
        KeysModel::Unique => "UNIQUE_KEYS",
        KeysModel::Duplicate => "DUP_KEYS",
    };
    ok(json!({ "status": 200, "keysType": keys, "properties": properties }))
}

fn light_schema_change(shared: &Shared, database: &str, table: &str, body: &[u8]) -> Reply {
    let asked: Json = serde_json::from_slice(body).unwrap_or_default();
    let mut cluster = lock(shared);
    let found = match cluster.table(database, table) {
        Ok(found) => found,
        Err(why) => return common_error(&why),
    };
    if !found.has_light_schema_change() {
        return common_error(&format!("table {table} disable light schema change"));
    }
    let column = asked["columnName"].as_str().unwrap_or_default();
    let drops = asked["isDropColumn"].as_bool().unwrap_or(asked["isDropColumn"] == json!(1));
    if drops && found.column(column).is_some_and(|c| c.is_key) {
        return common_error(&format!(
            "Column {column} is primary key in materializedIndex that can't do the light schema \
             change"
        ));
    }
    json_text(json!({"msg": "success", "code": 0, "data": null, "count": 0}).to_string())
}

async fn query(shared: &Shared, database: Option<String>, user: &str, body: &[u8]) -> Reply {
    let asked: Json = serde_json::from_slice(body).unwrap_or_default();
    let Some(statement) = asked["stmt"].as_str().filter(|s| !s.is_empty()) else {
        return envelope(403, "Bad Request", json!("Missing statement request body"));
    };
    let mut session = Session::new(user.to_owned());
    session.database = database;
    match sql::execute(shared, &mut session, statement).await {
        Ok(Answer::Done { .. }) => ok(json!({ "type": "exec_status", "status": {}, "time": 0 })),
        Ok(Answer::Rows(result)) => {
            let meta: Vec<Json> = result
                .columns
                .iter()
                .map(|c| json!({"name": c.name, "type": c.kind.name()}))
                .collect();
            ok(json!({ "type": "result_set", "meta": meta, "data": result.rows, "time": 0 }))
        }
        Err(error) => {
            let mut message = String::from("Failed to execute sql: java.sql.SQLException: ");
            let _ = write!(message, "{}", error.message);
            common_error(&message)
        }
    }
}
