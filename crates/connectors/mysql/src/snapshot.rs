//! Snapshot workers: each owns a connection and reads chunks, or whole tables, under a consistent view whose place in the
//! log is known.
//!
//! | server | the view's place |
//! |---|---|
//! | MariaDB | exact: `binlog_snapshot_file`, `binlog_snapshot_position` |
//! | MySQL with GTIDs | not before the reader's place at registration: the worker waits until the server has committed all that the reader had read |
//! | MySQL without GTIDs, and tables read whole | exact: the table is locked for reading while the view begins |
//!
//! A chunk also has a `high` place, taken while its table cannot change shape. When the reader has come that far and has
//! met no DDL of the table since registration, the chunk's columns are the ones that the reader knows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use lakeward_core::{Error, ErrorKind, Result, TableId, TableSchema};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use view::{begin_view, hold_shape, start_transaction};

use crate::catalog::log_end;
use crate::client::{Backoff, Client, ServerFacts, failure, run};
use crate::ddl::TableVersion;
use crate::offset::{FilePosition, GtidSet};
use crate::rows::SnapshotBuilder;
use crate::wire::{ColumnDefinition, Connection, ParamBytes, WireError};
use crate::{catalog, chunks};

/// Rows of one batch.
const BATCH_ROWS: usize = chunks::CHUNK_ROWS as usize;
const BATCH_BYTES: usize = 8 << 20;

mod view;

/// What a worker is asked to read.
#[derive(Clone)]
pub struct Job {
    pub table: TableId,
    pub version: TableVersion,
    /// The reader's count of the table's shapes at registration: an answer for an older shape is thrown away.
    pub epoch: u64,
    /// MySQL: transactions that the reader has read, which the view must hold.
    pub visible: Option<GtidSet>,
    /// The reader's place at registration.
    pub registered: FilePosition,
    /// MariaDB: the end of the last transaction that the reader has read, which the view must hold.
    pub last_group: Option<FilePosition>,
    pub part: Part,
}

#[derive(Clone)]
pub enum Part {
    Chunk {
        lane: usize,
        after: Option<Vec<ParamBytes>>,
        until: Option<Vec<ParamBytes>>,
        rows: u32,
    },
    /// All rows in one go.
    Whole,
}

/// A worker's answer.
pub struct Answer {
    pub table: TableId,
    pub epoch: u64,
    pub content: Content,
}

pub enum Content {
    Chunk(Chunk),
    /// Rows of a table that is read whole, as they come.
    Rows(RecordBatch),
    /// All its rows have been sent; they are the table as of this place.
    WholeDone {
        at: FilePosition,
    },
    /// Nothing usable was read.
    Failed {
        lane: Option<usize>,
        error: Error,
        /// Where the log ended then, when that could be asked: a reader short of it may yet meet the cause.
        at: Option<FilePosition>,
    },
}

/// The rows of one chunk.
pub struct Chunk {
    pub lane: usize,
    pub batches: Vec<RecordBatch>,
    /// The last row's key; `None` for an empty chunk.
    pub last: Option<Vec<ParamBytes>>,
    /// Fewer rows than asked for: nothing follows in this lane.
    pub is_end: bool,
    /// The view holds everything up to here, and maybe more.
    pub low: FilePosition,
    /// The view holds nothing beyond here.
    pub high: FilePosition,
}

/// Workers and the way to them.
pub struct SnapshotPool {
    jobs: mpsc::UnboundedSender<Job>,
    answers: mpsc::Receiver<Answer>,
    tasks: Vec<JoinHandle<()>>,
}

impl SnapshotPool {
    pub fn start(client: &Client, facts: &ServerFacts, workers: usize) -> Self {
        let (jobs, queue) = mpsc::unbounded_channel();
        // Few: a worker that is ahead of the reader waits here with its rows.
        let (sender, answers) = mpsc::channel(workers.max(1));
        let queue = Arc::new(Mutex::new(queue));
        let tasks = (0..workers.max(1))
            .map(|_| {
                let worker = Worker {
                    client: client.clone(),
                    facts: facts.clone(),
                    answers: sender.clone(),
                    connection: None,
                    builder: None,
                };
                tokio::spawn(worker.run(queue.clone()))
            })
            .collect();
        Self { jobs, answers, tasks }
    }

    pub fn submit(&self, job: Job) {
        // The workers live as long as this value does.
        let _ = self.jobs.send(job);
    }

    /// Waits for an answer. Cancel-safe.
    pub async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

impl Drop for SnapshotPool {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct Worker {
    client: Client,
    facts: ServerFacts,
    answers: mpsc::Sender<Answer>,
    connection: Option<Connection>,
    /// For the next chunk of the same table: it knows how much room a batch takes.
    builder: Option<SnapshotBuilder>,
}

impl Worker {
    async fn run(mut self, queue: Arc<Mutex<mpsc::UnboundedReceiver<Job>>>) {
        let mut backoff = Backoff::default();
        loop {
            let job = queue.lock().await.recv().await;
            let Some(job) = job else { return };
            let content = match self.read(&job).await {
                Ok(content) => {
                    backoff = Backoff::default();
                    content
                }
                Err(error) => {
                    // Whatever was going on in the session must not meet the next job.
                    self.connection = None;
                    if error.kind() == ErrorKind::Transient {
                        backoff.wait().await;
                    }
                    let at = self.log_end().await;
                    let lane = match job.part {
                        Part::Chunk { lane, .. } => Some(lane),
                        Part::Whole => None,
                    };
                    Content::Failed { lane, error, at }
                }
            };
            let answer = Answer { table: job.table, epoch: job.epoch, content };
            if self.answers.send(answer).await.is_err() {
                return;
            }
        }
    }

    async fn log_end(&mut self) -> Option<FilePosition> {
        let mut connection = self.client.connect_once().await.ok()?;
        let end = log_end(&mut connection, &self.facts).await.ok()?;
        self.connection = Some(connection);
        Some(end.at)
    }

    async fn read(&mut self, job: &Job) -> Result<Content> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.client.connect().await?,
        };
        let content = match &job.part {
            Part::Chunk { lane, after, until, rows } => {
                let (sql, params) = chunks::select(
                    &job.table,
                    &job.version.shape,
                    after.as_deref(),
                    until.as_deref(),
                    *rows,
                );
                let chunk = self.read_chunk(&mut connection, job, &sql, &params).await?;
                let is_end = chunk.count < *rows as usize;
                Content::Chunk(Chunk {
                    lane: *lane,
                    batches: chunk.batches,
                    last: chunk.last,
                    is_end,
                    low: chunk.low,
                    high: chunk.high,
                })
            }
            Part::Whole => self.read_whole(&mut connection, job).await?,
        };
        self.connection = Some(connection);
        Ok(content)
    }

    async fn read_chunk(
        &mut self,
        connection: &mut Connection,
        job: &Job,
        sql: &str,
        params: &[ParamBytes],
    ) -> Result<ChunkRows> {
        let low = begin_view(connection, &self.facts, job).await?;
        hold_shape(connection, &job.table).await?;
        let high = log_end(connection, &self.facts).await?.at;
        let doing = "could not read a chunk of the table";
        let failed = |e: WireError| failure(e, doing).with("table", &job.table);
        let statement = connection.prepare(sql).await.map_err(failed)?;
        let columns = connection.execute(&statement, params).await.map_err(failed)?;
        let keys = key_columns(&job.version, &columns);
        let mut builder = match self.builder.take() {
            Some(builder) if builder.is_for(&job.version.schema, &columns) => builder,
            _ => new_builder(job, &columns)?,
        };
        let mut out = ChunkRows { batches: Vec::new(), last: None, count: 0, low, high };
        let mut last_row = None;
        while let Some(row) = connection.next_row().await.map_err(failed)? {
            builder.append(&row).map_err(|e| e.with("table", &job.table))?;
            out.count += 1;
            last_row = Some(row);
            if builder.rows() >= BATCH_ROWS || builder.size_bytes() >= BATCH_BYTES {
                out.batches.push(builder.finish()?);
            }
        }
        if builder.rows() > 0 {
            out.batches.push(builder.finish()?);
        }
        if let Some(row) = last_row {
            let values = ParamBytes::from_row(&row, &columns, &keys).map_err(failed)?;
            let key: Option<Vec<_>> = values.into_iter().collect();
            let key = key.ok_or_else(|| {
                Error::data_invalid("a row has NULL in its primary key").with("table", &job.table)
            })?;
            out.last = Some(key);
        }
        connection.close_statement(statement).await.map_err(failed)?;
        run(connection, "COMMIT", doing).await?;
        self.builder = Some(builder);
        Ok(out)
    }

    async fn read_whole(&self, connection: &mut Connection, job: &Job) -> Result<Content> {
        let doing = "could not read the table";
        let failed = |e: WireError| failure(e, doing).with("table", &job.table);
        let at = self.begin_exact_view(connection, job).await?;
        hold_shape(connection, &job.table).await?;
        let sql = chunks::select_all(&job.table, &job.version.shape);
        let statement = connection.prepare(&sql).await.map_err(failed)?;
        let columns = connection.execute(&statement, &[]).await.map_err(failed)?;
        let mut builder = new_builder(job, &columns)?;
        loop {
            let row = connection.next_row().await.map_err(failed)?;
            let is_end = row.is_none();
            if let Some(row) = row {
                builder.append(&row).map_err(|e| e.with("table", &job.table))?;
            }
            let full = builder.rows() >= BATCH_ROWS || builder.size_bytes() >= BATCH_BYTES;
            if full || is_end && builder.rows() > 0 {
                let answer = Answer {
                    table: job.table.clone(),
                    epoch: job.epoch,
                    content: Content::Rows(builder.finish()?),
                };
                if self.answers.send(answer).await.is_err() {
                    return Err(Error::transient("the reader has ended"));
                }
            }
            if is_end {
                break;
            }
        }
        connection.close_statement(statement).await.map_err(failed)?;
        run(connection, "COMMIT", doing).await?;
        Ok(Content::WholeDone { at })
    }

    /// A view that is the table as of one place in the log, no more and no less.
    async fn begin_exact_view(
        &self,
        connection: &mut Connection,
        job: &Job,
    ) -> Result<FilePosition> {
        if self.facts.is_mariadb() {
            return begin_view(connection, &self.facts, job).await;
        }
        // While the lock is held no transaction that wrote to the table is between its place in the log and its commit.
        let mut locker = self.client.connect().await?;
        let lock = format!("LOCK TABLES {} READ", catalog::name(&job.table));
        locker.query(&lock).await.map_err(|e| {
            failure(
                e,
                "could not lock the table for the moment in which its snapshot begins; the account needs LOCK TABLES for \
                 tables without a primary key and on servers without GTIDs",
            )
            .with("table", &job.table)
        })?;
        let at = log_end(&mut locker, &self.facts).await?.at;
        start_transaction(connection).await?;
        run(&mut locker, "UNLOCK TABLES", "could not unlock the table").await?;
        locker.close().await;
        Ok(at)
    }
}

struct ChunkRows {
    batches: Vec<RecordBatch>,
    last: Option<Vec<ParamBytes>>,
    count: usize,
    low: FilePosition,
    high: FilePosition,
}

fn new_builder(job: &Job, columns: &[ColumnDefinition]) -> Result<SnapshotBuilder> {
    let schema: &Arc<TableSchema> = &job.version.schema;
    SnapshotBuilder::new(&job.version.shape, schema, columns)
        .map_err(|e| e.with("table", &job.table))
}

fn key_columns(version: &TableVersion, columns: &[ColumnDefinition]) -> Vec<usize> {
    let at = |key: &Arc<str>| columns.iter().position(|c| c.name.eq_ignore_ascii_case(key));
    version.shape.primary_key.iter().filter_map(at).collect()
}

/// How many workers to use.
pub fn worker_count(wanted: Option<u32>) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    wanted.map_or(cores.clamp(2, 8), |n| (n as usize).clamp(1, 64))
}
