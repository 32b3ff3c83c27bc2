//! One request over one connection. Redirects are an answer like any other: whoever asked decides where to go next.
//!
//! Stream Load wants `Expect: 100-continue`: a frontend answers the head of a load with the address of a backend, and must
//! not be sent the rows. So a body waits until the server asks for it, or until it stayed silent for a while.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::{Endpoint, Scheme};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may take to ask for a body before it is sent unasked.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(2);
/// Answers are small; what is larger is none.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// What was asked of one node.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    /// `Some` asks the server for leave before it is sent.
    pub(super) body: Option<Bytes>,
    pub(super) timeout: Duration,
}

/// What a node answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why there is no answer. Texts of the libraries beneath hold neither headers nor bodies.
#[derive(Debug)]
pub(super) struct NoAnswer {
    pub(super) what: String,
    /// The certificate was refused: trying again changes nothing.
    pub(super) untrusted: bool,
}

impl NoAnswer {
    fn new(what: impl std::fmt::Display) -> Self {
        Self { what: what.to_string(), untrusted: false }
    }
}

/// A body that is sent once leave for it has come.
struct Waiting {
    leave: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    data: Option<Bytes>,
    length: u64,
}

impl http_body::Body for Waiting {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        if let Some(leave) = &mut self.leave {
            std::task::ready!(leave.as_mut().poll(cx));
            self.leave = None;
        }
        Poll::Ready(self.data.take().map(|data| Ok(http_body::Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.length)
    }
}

pub(super) async fn send(
    endpoint: &Endpoint,
    authorization: Option<&HeaderValue>,
    ask: &Ask,
    tls: &Arc<ClientConfig>,
) -> Result<Answer, NoAnswer> {
    let timed_out = || NoAnswer::new(format!("no answer within {} s", ask.timeout.as_secs()));
    let exchange = exchange(endpoint, authorization, ask, tls);
    tokio::time::timeout(ask.timeout, exchange).await.map_err(|_| timed_out())?
}

async fn exchange(
    endpoint: &Endpoint,
    authorization: Option<&HeaderValue>,
    ask: &Ask,
    tls: &Arc<ClientConfig>,
) -> Result<Answer, NoAnswer> {
    let request = request(endpoint, authorization, ask)?;
    let connect = TcpStream::connect((endpoint.host.as_str(), endpoint.port));
    let socket = tokio::time::timeout(CONNECT_TIMEOUT, connect)
        .await
        .map_err(|_| NoAnswer::new("the connection was not taken in time"))?
        .map_err(NoAnswer::new)?;
    // Heads and bodies are written whole.
    socket.set_nodelay(true).map_err(NoAnswer::new)?;
    match endpoint.scheme {
        Scheme::Http => over(TokioIo::new(socket), request).await,
        Scheme::Https => {
            let name = ServerName::try_from(endpoint.host.clone())
                .map_err(|_| NoAnswer::new("the host is not a name a certificate could carry"))?;
            let connector = tokio_rustls::TlsConnector::from(tls.clone());
            let socket = connector.connect(name, socket).await.map_err(|e| NoAnswer {
                untrusted: e.kind() == std::io::ErrorKind::InvalidData,
                what: e.to_string(),
            })?;
            over(TokioIo::new(socket), request).await
        }
    }
}

fn request(
    endpoint: &Endpoint,
    authorization: Option<&HeaderValue>,
    ask: &Ask,
) -> Result<Request<Waiting>, NoAnswer> {
    let mut request = Request::builder()
        .method(ask.method.clone())
        .uri(&ask.path)
        .header(http::header::HOST, endpoint.authority())
        .header(http::header::CONNECTION, "close");
    for (name, value) in &ask.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(NoAnswer::new)?;
        // Column names may be any UTF-8.
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(NoAnswer::new)?;
        request = request.header(name, value);
    }
    if let Some(value) = authorization {
        request = request.header(http::header::AUTHORIZATION, value);
    }
    let Some(body) = &ask.body else {
        let body = Waiting { leave: None, data: None, length: 0 };
        let body = if ask.method == Method::PUT {
            request.header(http::header::CONTENT_LENGTH, 0).body(body)
        } else {
            request.body(body)
        };
        return body.map_err(NoAnswer::new);
    };
    let (given, leave) = oneshot::channel();
    let leave = async move {
        // Asked for, or the connection is at its end, or it took too long: sending is right in any case.
        let _ = tokio::time::timeout(CONTINUE_TIMEOUT, leave).await;
    };
    let length = body.len() as u64;
    let waiting = Waiting { leave: Some(Box::pin(leave)), data: Some(body.clone()), length };
    let mut request = request
        .header(http::header::EXPECT, "100-continue")
        .header(http::header::CONTENT_LENGTH, length)
        .body(waiting)
        .map_err(NoAnswer::new)?;
    let given = Mutex::new(Some(given));
    hyper::ext::on_informational(&mut request, move |answer| {
        if answer.status() == StatusCode::CONTINUE {
            let given = given.lock().unwrap_or_else(|e| e.into_inner()).take();
            if let Some(given) = given {
                // Nobody waits any more when the time was up.
                let _ = given.send(());
            }
        }
    });
    Ok(request)
}

async fn over<S>(socket: S, request: Request<Waiting>) -> Result<Answer, NoAnswer>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(socket).await.map_err(NoAnswer::new)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(NoAnswer::new)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(NoAnswer::new)?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    };
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // The connection ends with the answer when the server closes it; the answer says what became of it.
        _ = &mut connection => answer.await,
    }
}
