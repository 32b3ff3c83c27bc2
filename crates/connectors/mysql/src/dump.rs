//! The log as the server sends it: a task owns the socket and hands raw events over, as many bytes ahead as it may.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lakeward_core::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::client::{Client, ServerFacts, failure, literal, run};
use crate::offset::{FilePosition, GtidSet};
use crate::wire::{Connection, WireError};

/// Events of one hand-over, unless a single one is larger.
const BATCH_BYTES: usize = 256 * 1024;
const PERMIT_BYTES: usize = 1024;

/// Where a dump starts.
#[derive(Debug, Clone)]
pub enum StartAt {
    Position(FilePosition),
    /// After these transactions, wherever this server has them.
    After(GtidSet),
}

/// What the server is told about us.
#[derive(Debug, Clone)]
pub struct Replica {
    pub server_id: u32,
    /// Shown by SHOW REPLICAS.
    pub name: String,
    pub heartbeat: Duration,
}

/// Raw events in order. Memory is given back when it is dropped.
pub struct EventBatch {
    pub events: Vec<Bytes>,
    _permit: OwnedSemaphorePermit,
}

/// A running dump.
pub struct DumpStream {
    receiver: mpsc::Receiver<Result<EventBatch>>,
    task: JoinHandle<()>,
}

impl DumpStream {
    /// Connects and asks for the log. `ahead_bytes` is how much may wait for the reader.
    pub async fn open(
        client: &Client,
        facts: &ServerFacts,
        start: &StartAt,
        replica: &Replica,
        ahead_bytes: usize,
    ) -> Result<Self> {
        let mut connection = client.connect_once().await?;
        request(&mut connection, facts, start, replica).await?;
        // One heartbeat may be late, and the one after it may be lost with the connection.
        connection.set_read_timeout(replica.heartbeat * 3 + Duration::from_secs(5));
        let (sender, receiver) = mpsc::channel(64);
        let permits = (ahead_bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS / 2);
        let task = tokio::spawn(pump(connection, sender, permits));
        Ok(Self { receiver, task })
    }

    /// Waits for events. Cancel-safe. After an error the stream is over.
    pub async fn next(&mut self) -> Result<EventBatch> {
        match self.receiver.recv().await {
            Some(batch) => batch,
            None => Err(Error::transient("the log stream has ended")),
        }
    }
}

impl Drop for DumpStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pump(
    mut connection: Connection,
    sender: mpsc::Sender<Result<EventBatch>>,
    permits: usize,
) {
    let budget = Arc::new(Semaphore::new(permits));
    loop {
        let batch = match read_batch(&mut connection).await {
            Ok(events) => events,
            Err(e) => {
                let _ = sender.send(Err(lost(e))).await;
                return;
            }
        };
        let bytes: usize = batch.iter().map(Bytes::len).sum();
        let wanted = (bytes / PERMIT_BYTES + 1).min(permits);
        let Ok(permit) = budget.clone().acquire_many_owned(wanted as u32).await else { return };
        if sender.send(Ok(EventBatch { events: batch, _permit: permit })).await.is_err() {
            return;
        }
    }
}

async fn read_batch(connection: &mut Connection) -> Result<Vec<Bytes>, WireError> {
    let mut events = Vec::new();
    let mut bytes = 0;
    let mut packet = connection.read_packet().await?;
    loop {
        match packet[0] {
            0x00 => {
                bytes += packet.len();
                events.push(packet.slice(1..));
            }
            0xfe => {
                return Err(WireError::Io(std::io::Error::new(
                    std::io::ErrorKind::UnexpectedEof,
                    "the server ended the log",
                )));
            }
            _ => return Err(WireError::Protocol("an unknown packet in the log stream")),
        }
        if bytes >= BATCH_BYTES {
            return Ok(events);
        }
        // An error behind complete events is met again by the next read.
        match connection.buffered_packet()? {
            Some(next) => packet = next,
            None => return Ok(events),
        }
    }
}

async fn request(
    connection: &mut Connection,
    facts: &ServerFacts,
    start: &StartAt,
    replica: &Replica,
) -> Result<()> {
    let doing = "could not ask the server for its log";
    let nanos = replica.heartbeat.as_nanos();
    run(
        connection,
        &format!(
            "SET @master_heartbeat_period={nanos}, @source_heartbeat_period={nanos}, \
             @master_binlog_checksum=@@global.binlog_checksum, @source_binlog_checksum=@@global.binlog_checksum, \
             @slave_uuid=UUID(), @replica_uuid=UUID()"
        ),
        doing,
    )
    .await?;
    if facts.is_mariadb() {
        // 4: knows GTIDs and the annotations around them.
        run(connection, "SET @mariadb_slave_capability=4", doing).await?;
    }
    connection.send_command(&register_command(replica)).await.map_err(|e| failure(e, doing))?;
    connection.read_packet().await.map_err(|e| match e {
        // Where the privilege is missing, some servers name nothing but the account.
        WireError::Server { code: 1045 | 1227, .. } => {
            failure(e, "the account may not read the log; it needs GRANT REPLICATION SLAVE ON *.*")
        }
        e => failure(e, doing),
    })?;
    let command = match start {
        StartAt::Position(at) => match u32::try_from(at.pos) {
            Ok(pos) => dump_command(&at.file, pos, replica.server_id),
            Err(_) if !facts.is_mariadb() => {
                gtid_command(&at.file, at.pos, replica.server_id, false, &[])
            }
            Err(_) => {
                return Err(Error::transient(
                    "the position lies beyond 4 GiB of its log file, where MariaDB can only be asked by GTID",
                )
                .with("position", at));
            }
        },
        StartAt::After(GtidSet::MySql(set)) => {
            gtid_command("", 4, replica.server_id, true, &set.encode())
        }
        StartAt::After(GtidSet::MariaDb(set)) => {
            let state = literal(&set.to_string());
            run(
                connection,
                &format!("SET @slave_connect_state={state}, @slave_gtid_strict_mode=1"),
                doing,
            )
            .await?;
            dump_command("", 4, replica.server_id)
        }
    };
    connection.send_command(&command).await.map_err(|e| failure(e, doing))
}

fn register_command(replica: &Replica) -> Vec<u8> {
    let mut out = vec![0x15];
    out.extend_from_slice(&replica.server_id.to_le_bytes());
    let name = &replica.name.as_bytes()[..replica.name.len().min(60)];
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    // User and password, which a replica may report, are nobody's business. Then port, rank and the source's id.
    out.extend_from_slice(&[0; 12]);
    out
}

fn dump_command(file: &str, pos: u32, server_id: u32) -> Vec<u8> {
    let mut out = vec![0x12];
    out.extend_from_slice(&pos.to_le_bytes());
    out.extend_from_slice(&0u16.to_le_bytes());
    out.extend_from_slice(&server_id.to_le_bytes());
    out.extend_from_slice(file.as_bytes());
    out
}

fn gtid_command(file: &str, pos: u64, server_id: u32, by_gtid: bool, set: &[u8]) -> Vec<u8> {
    const THROUGH_GTID: u16 = 4;
    let mut out = vec![0x1e];
    out.extend_from_slice(&(if by_gtid { THROUGH_GTID } else { 0 }).to_le_bytes());
    out.extend_from_slice(&server_id.to_le_bytes());
    out.extend_from_slice(&(file.len() as u32).to_le_bytes());
    out.extend_from_slice(file.as_bytes());
    out.extend_from_slice(&pos.to_le_bytes());
    out.extend_from_slice(&(set.len() as u32).to_le_bytes());
    out.extend_from_slice(set);
    out
}

/// Context key of an error that says that another client uses our server id.
pub const CLASH: &str = "server-id";

/// The server uses one number for everything that stops a dump; its text tells what it was.
fn lost(e: WireError) -> Error {
    let error = failure(e, "the log stream was interrupted");
    if error.kind() != ErrorKind::OffsetLost {
        return error;
    }
    let text = error.to_string().to_lowercase();
    if text.contains("same server_uuid/server_id") {
        return error.with_kind(ErrorKind::Transient).with(CLASH, "in use by another client");
    }
    if text.contains("binary log is not open") {
        return Error::config(
            "the server writes no binary log any more; turn it on (log_bin), and read the tables anew with --resnapshot: what \
             has changed meanwhile is in no log",
        )
        .with_source(error);
    }
    let is_gone = [
        "could not find",
        "purged",
        "impossible position",
        "missing",
        "not found",
        "not in the",
        "more gtids",
    ]
    .iter()
    .any(|word| text.contains(word));
    if !is_gone {
        return error.with_kind(ErrorKind::Transient);
    }
    Error::offset_lost(
        "the server no longer has its log from where this pipeline is; read the tables anew with --resnapshot",
    )
    .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_documented_form() {
        assert_eq!(
            dump_command("b.1", 0x0102_0304, 9),
            [0x12, 4, 3, 2, 1, 0, 0, 9, 0, 0, 0, b'b', b'.', b'1']
        );
        let command = gtid_command("", 4, 9, true, &[7]);
        assert_eq!(command[..11], [0x1e, 4, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(command[11..], [4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7]);
        let replica = Replica { server_id: 9, name: "n".into(), heartbeat: Duration::from_secs(1) };
        assert_eq!(register_command(&replica).len(), 1 + 4 + 2 + 1 + 1 + 2 + 4 + 4);
    }

    #[test]
    fn only_a_lost_position_is_an_offset_lost() {
        let server =
            |message: &str| lost(WireError::Server { code: 1236, message: message.into() });
        let gone = server("Could not find first log file name in binary log index file");
        assert_eq!(gone.kind(), ErrorKind::OffsetLost);
        assert!(gone.to_string().contains("--resnapshot"), "{gone}");
        let clash = server(
            "A slave with the same server_uuid/server_id as this slave has connected to the master",
        );
        assert_eq!(clash.kind(), ErrorKind::Transient);
        let off = server("Binary log is not open");
        assert_eq!(off.kind(), ErrorKind::Config);
        assert!(off.to_string().contains("log_bin"), "{off}");
        assert!(clash.context().iter().any(|(key, _)| *key == CLASH));
    }
}
