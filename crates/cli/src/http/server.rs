//! Serves the API.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use clap::ValueEnum;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::shape::{Point, WaitAnswer};
use super::wait::{NotReached, wait};
use super::{client, metrics, status};
use crate::exit::Failure;
use crate::job::Running;
use lakeward_pipeline::pipeline_file::PipelineFile;

const WAIT_DEFAULT_MS: u64 = 60_000;
/// How long answers in progress may take once the pipeline has ended.
const FINISH: Duration = Duration::from_secs(2);

/// A bound address that nobody is served at yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    port_was_free_choice: bool,
}

impl Server {
    pub async fn bind(file: &PipelineFile) -> Result<Self, String> {
        let wanted = &file.pipeline.http_address;
        let refused = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::AddrInUse => format!(
                "the address {wanted} of pipeline.http.address is in use; stop what uses it or choose another one"
            ),
            _ => format!("the address {wanted} of pipeline.http.address cannot be used: {e}"),
        };
        let listener = TcpListener::bind(wanted.as_str()).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let port_was_free_choice = wanted.ends_with(":0");
        Ok(Self { listener, address, port_was_free_choice })
    }

    pub fn serve(self, file: &PipelineFile, running: &Running) -> Result<Serving, Failure> {
        let address_file = self.port_was_free_choice.then(|| client::address_file(file));
        if let Some(path) = &address_file {
            std::fs::write(path, self.address.to_string()).map_err(|e| {
                let path = path.display();
                Failure::runtime(format!("the address file {path} cannot be written: {e}"))
            })?;
        }
        tracing::info!("status page and API at http://{}/", self.address);
        let (stop, stopped) = oneshot::channel::<()>();
        let router = router(Arc::new(running.clone()));
        let task = tokio::spawn(async move {
            let served = axum::serve(self.listener, router)
                .with_graceful_shutdown(async { stopped.await.unwrap_or(()) })
                .await;
            if let Err(e) = served {
                tracing::error!("the HTTP API has ended: {e}");
            }
        });
        Ok(Serving { stop, task, address_file })
    }
}

pub struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    address_file: Option<PathBuf>,
}

impl Serving {
    /// Lets those who wait hear of the pipeline's end.
    pub async fn finish(self) {
        let _ = self.stop.send(());
        if tokio::time::timeout(FINISH, self.task).await.is_err() {
            tracing::debug!("HTTP requests were cut off");
        }
        if let Some(path) = self.address_file
            && let Err(e) = std::fs::remove_file(&path)
        {
            tracing::debug!("the address file {} could not be removed: {e}", path.display());
        }
    }
}

fn router(running: Arc<Running>) -> Router {
    Router::new()
        .route("/", get(|| async { Html(include_str!("page.html")) }))
        .route("/healthz", get(health))
        .route("/metrics", get(prometheus))
        .route("/api/v1/status", get(full_status))
        .route("/api/v1/wait", get(wait_for))
        .with_state(running)
}

/// 200 while the pipeline runs or is on its way to, 503 once it has failed.
async fn health(State(running): State<Arc<Running>>) -> Response {
    let state = running.handle.status().state;
    let code = match state {
        lakeward_runtime::JobState::Failed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    (code, status::state_word(state)).into_response()
}

async fn prometheus(State(running): State<Arc<Running>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, metrics::text(&running)).into_response()
}

async fn full_status(State(running): State<Arc<Running>>) -> Response {
    Json(status::status_of(&running)).into_response()
}

#[derive(Debug, Deserialize)]
struct WaitQuery {
    until: Option<String>,
    timeout_ms: Option<u64>,
}

async fn wait_for(State(running): State<Arc<Running>>, Query(query): Query<WaitQuery>) -> Response {
    let pipeline = running.handle.status().pipeline.to_string();
    let point = query.until.as_deref().and_then(|word| Point::from_str(word, false).ok());
    let Some(point) = point else {
        let reason = Some("`until` must be one of streaming, caught-up".to_string());
        let answer = WaitAnswer { pipeline, until: None, reached: false, reason };
        return (StatusCode::BAD_REQUEST, Json(answer)).into_response();
    };
    let timeout = Duration::from_millis(query.timeout_ms.unwrap_or(WAIT_DEFAULT_MS));
    let (code, reason) = match wait(&running, point, timeout).await {
        Ok(()) => (StatusCode::OK, None),
        Err(NotReached::TimedOut(reason)) => (StatusCode::REQUEST_TIMEOUT, Some(reason)),
        Err(NotReached::Ended(reason)) => (StatusCode::CONFLICT, Some(reason)),
    };
    let answer = WaitAnswer { pipeline, until: Some(point), reached: reason.is_none(), reason };
    (code, Json(answer)).into_response()
}
