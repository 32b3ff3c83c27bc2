//! How the log stream is opened: on which server we are, from where to read there, and under which replica id.

use std::time::Duration;

use lakeward_core::{Error, PipelineId, Result};
use tracing::{info, warn};
use xxhash_rust::xxh3::xxh3_64;

use crate::catalog::gtids_at;
use crate::client::{Backoff, Client, ServerFacts};
use crate::config::MysqlConfig;
use crate::dump::{DumpStream, Replica, StartAt};
use crate::offset::{GtidSet, LogOffset};
use crate::wire::Connection;

/// Ids that are tried when none is configured.
const DERIVED_IDS: u32 = 16;

/// The ids under which this pipeline may show as a replica.
#[derive(Debug, Clone)]
pub struct ReplicaIds {
    candidates: Vec<u32>,
    name: String,
    heartbeat: Duration,
}

impl ReplicaIds {
    pub fn new(config: &MysqlConfig, pipeline: &PipelineId) -> Result<Self> {
        let candidates = match config.server_ids()? {
            Some(range) => range.take(1024).collect(),
            None => {
                // High enough not to meet ids that people give, below 2^31 for tools that take them as signed.
                let base = 100_000_000 + (xxh3_64(pipeline.0.as_bytes()) % 2_000_000_000) as u32;
                (base..base + DERIVED_IDS).collect()
            }
        };
        Ok(Self {
            candidates,
            name: format!("lakeward/{pipeline}"),
            heartbeat: config.heartbeat_interval.0.max(Duration::from_millis(500)),
        })
    }

    /// Another client uses the id: it is not tried again.
    ///
    /// # Errors
    /// `Config` when there is no other.
    pub fn give_up(&mut self, id: u32) -> Result<()> {
        if self.candidates.len() <= 1 {
            return Err(Error::config(format!(
                "another client reads this server's log under `server-id` {id}; give each pipeline and replica its own, or \
                 a range such as {id}-{}",
                id.saturating_add(3)
            )));
        }
        self.candidates.retain(|c| *c != id);
        Ok(())
    }

    async fn choose(&self, connection: &mut Connection, facts: &ServerFacts) -> Result<Replica> {
        let used = replicas(connection, facts).await;
        let taken_by = |id: u32| {
            if id == facts.server_id {
                return Some("the server itself".to_string());
            }
            // One of our own name is what is left of an earlier run; the server ends it when we come.
            let other = used.iter().find(|(i, name)| *i == id && *name != self.shown_name());
            other.map(|(_, name)| name.clone())
        };
        let free = self.candidates.iter().find(|id| taken_by(**id).is_none());
        match free {
            Some(id) => Ok(Replica {
                server_id: *id,
                name: self.shown_name().to_string(),
                heartbeat: self.heartbeat,
            }),
            None => {
                let id = self.candidates.first().copied().unwrap_or_default();
                Err(Error::config(format!(
                    "`server-id` {id} is in use by {}; give each pipeline and replica its own",
                    taken_by(id).unwrap_or_default()
                ))
                .with("server", facts.identity.as_ref()))
            }
        }
    }

    fn shown_name(&self) -> &str {
        let mut end = self.name.len().min(60);
        while !self.name.is_char_boundary(end) {
            end -= 1;
        }
        &self.name[..end]
    }
}

/// The replicas that the server knows of. Without the privilege to see them, none: a clash then shows when it happens.
async fn replicas(connection: &mut Connection, facts: &ServerFacts) -> Vec<(u32, String)> {
    let newer = !facts.is_mariadb() && facts.version_number >= (8, 0, 22);
    let sql = if newer { "SHOW REPLICAS" } else { "SHOW SLAVE HOSTS" };
    let Ok(set) = connection.query(sql).await else { return Vec::new() };
    let column = |name: &str| set.columns.iter().position(|c| c.eq_ignore_ascii_case(name));
    let (Some(id), Some(host)) = (column("Server_id"), column("Host")) else { return Vec::new() };
    set.rows
        .iter()
        .filter_map(|r| Some((r.get(id)?.as_deref()?.parse().ok()?, r.get(host)?.clone()?)))
        .collect()
}

/// What is needed to open the stream, again and again.
#[derive(Clone)]
pub struct StreamRequest {
    pub client: Client,
    pub resume: LogOffset,
    pub ids: ReplicaIds,
    pub ahead_bytes: usize,
    /// Rows of a transaction that was cut have been emitted: only the same server can go on behind them.
    pub mid_transaction: bool,
}

/// An open stream.
pub struct Established {
    pub dump: DumpStream,
    pub facts: ServerFacts,
    pub replica: Replica,
    pub start: StartAt,
    /// The server is another one than the offset's.
    pub moved: bool,
}

/// Opens the stream, however long the server stays away.
pub async fn establish(request: StreamRequest) -> Result<Established> {
    let mut backoff = Backoff::default();
    loop {
        match attempt(&request).await {
            Err(e) if e.kind().is_retryable() && !request.mid_transaction_moved(&e) => {
                warn!(server = request.client.address(), attempt = backoff.attempts, "{e}");
                backoff.wait().await;
            }
            other => return other,
        }
    }
}

/// Context key of an error after which only a restart from the checkpoint helps.
const RESTART: &str = "restart";

impl StreamRequest {
    fn mid_transaction_moved(&self, e: &Error) -> bool {
        e.context().iter().any(|(key, _)| *key == RESTART)
    }
}

async fn attempt(request: &StreamRequest) -> Result<Established> {
    let mut control = request.client.connect_once().await?;
    let facts = ServerFacts::read(&mut control).await?;
    let (start, moved) = start_at(&mut control, &facts, &request.resume).await?;
    if moved && request.mid_transaction {
        return Err(Error::transient(
            "the connection was lost inside a transaction and leads to another server now; restarting from the last \
             checkpoint",
        )
        .with(RESTART, "from the checkpoint"));
    }
    let replica = request.ids.choose(&mut control, &facts).await?;
    let dump =
        DumpStream::open(&request.client, &facts, &start, &replica, request.ahead_bytes).await?;
    control.close().await;
    info!(server = %facts.identity, from = %request.resume, id = replica.server_id, "reading the log");
    Ok(Established { dump, facts, replica, start, moved })
}

/// From where to read on this server what follows `resume`.
async fn start_at(
    control: &mut Connection,
    facts: &ServerFacts,
    resume: &LogOffset,
) -> Result<(StartAt, bool)> {
    let same = *facts.identity == *resume.server;
    let gtids = resume.gtids.as_ref().filter(|g| {
        matches!((g, facts.is_mariadb()), (GtidSet::MySql(_), false) | (GtidSet::MariaDb(_), true))
    });
    if facts.is_mariadb() {
        if same {
            // The id alone does not prove that it is the same server with the same files.
            let here = gtids_at(control, &resume.at).await?;
            // As text: one GTID for each domain, whichever servers wrote before.
            let equal = here.as_ref().map(ToString::to_string) == gtids.map(ToString::to_string);
            if gtids.is_none() || equal {
                return Ok((StartAt::Position(resume.at.clone()), false));
            }
        }
        return match gtids.filter(|g| !g.is_empty()) {
            Some(gtids) => Ok((StartAt::After(gtids.clone()), true)),
            // Nothing had been written when the position was taken: the log's beginning is the same place.
            None if same => Ok((StartAt::Position(resume.at.clone()), false)),
            None => Err(another_server(facts, resume)),
        };
    }
    match gtids {
        Some(gtids) if facts.gtid => Ok((StartAt::After(gtids.clone()), !same)),
        _ if same => Ok((StartAt::Position(resume.at.clone()), false)),
        _ => Err(another_server(facts, resume)),
    }
}

fn another_server(facts: &ServerFacts, resume: &LogOffset) -> Error {
    Error::offset_lost(
        "the stored position is of another server and has no GTIDs that this one knows, so nothing says where to go on; \
         point the pipeline to the server it read before, or start over with a new snapshot (--resnapshot)",
    )
    .with("position", resume)
    .with("of server", resume.server.as_ref())
    .with("this server", facts.identity.as_ref())
}
