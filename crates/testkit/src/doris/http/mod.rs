//! HTTP servers of the nodes: accepting, routing, answering.

mod backend;
mod frontend;

use std::fmt;

use base64::Engine;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::faults::{Fault, Received};
use super::stand_in::{Role, Shared, lock};

type Reply = Response<Full<Bytes>>;

/// An answer, or the connection's end without one.
type Handled = Result<Reply, Cut>;

/// The connection ends here, by a fault's will.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for Cut {}

/// Until `stop` changes or its sender is gone.
pub(super) async fn serve(
    role: Role,
    listener: TcpListener,
    shared: Shared,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let stream = tokio::select! {
            _ = stop.changed() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
        };
        // Small answers go out at once.
        let _ = stream.set_nodelay(true);
        let shared = shared.clone();
        let mut stop = stop.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| handle(role, shared.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = stop.changed() => {}
                // A client that goes away, or a cut: either is the end of the connection, and nothing to report.
                _ = connection => {}
            }
        });
    }
}

async fn handle(role: Role, shared: Shared, request: Request<Incoming>) -> Handled {
    record(role, &shared, &request);
    let path = request.uri().path().to_owned();
    let path = percent_encoding::percent_decode_str(&path).decode_utf8_lossy().into_owned();
    let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
    match role {
        Role::Frontend(_) => frontend::handle(&shared, request, &segments).await,
        Role::Backend(index) => backend::handle(&shared, index, request, &segments).await,
    }
}

fn record(role: Role, shared: &Shared, request: &Request<Incoming>) {
    let headers = request.headers();
    let shown = headers.iter().filter(|(name, _)| **name != AUTHORIZATION);
    let received = Received {
        node: role.name(),
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        headers: shown
            .map(|(name, value)| {
                (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect(),
        has_authorization: headers.contains_key(AUTHORIZATION),
    };
    lock(shared).received.push(received);
}

/// User and password of Basic authentication.
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let encoded = value.strip_prefix("Basic ")?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// A parameter of the address.
fn parameter(request: &Request<Incoming>, name: &str) -> Option<String> {
    let query = request.uri().query()?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(key, _)| *key == name)?.1;
    let plain = value.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&plain).decode_utf8_lossy().into_owned())
}

async fn read_body(body: Incoming) -> Result<Bytes, hyper::Error> {
    Ok(body.collect().await?.to_bytes())
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Reply {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}

fn json_text(body: String) -> Reply {
    text(StatusCode::OK, "application/json", body)
}

/// The envelope of the frontend's REST answers: HTTP 200 whatever `code` says.
fn envelope(code: i32, msg: &str, data: Json) -> Reply {
    json_text(json!({ "msg": msg, "code": code, "data": data, "count": 0 }).to_string())
}

fn ok(data: Json) -> Reply {
    envelope(0, "success", data)
}

fn common_error(message: &str) -> Reply {
    envelope(1, "Error", json!(message))
}

fn unauthorized(message: &str) -> Reply {
    envelope(401, "Unauthorized", json!(message))
}

/// The older form of answers that load requests get from a frontend.
fn failed(message: &str) -> Reply {
    json_text(json!({ "status": "FAILED", "msg": message }).to_string())
}

fn not_found() -> Reply {
    text(StatusCode::NOT_FOUND, "text/plain", "Not Found".to_owned())
}

/// What a fault does before the work: waits, cuts, or answers in its place.
async fn before(fault: &Option<Fault>) -> Result<Option<Reply>, Cut> {
    match fault {
        Some(Fault::Cut) => Err(Cut),
        Some(Fault::HttpStatus(status)) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Ok(Some(text(status, "text/plain", String::new())))
        }
        _ => Ok(None),
    }
}

/// What a fault does after the work.
async fn after(fault: Option<Fault>, reply: Reply) -> Handled {
    match fault {
        Some(Fault::LoseAnswer) => Err(Cut),
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            Ok(reply)
        }
        _ => Ok(reply),
    }
}
