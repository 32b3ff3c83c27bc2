//! The state that all nodes share: databases, tables, transactions, accounts.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::faults::{Faults, Received};
use super::schema_change::{ColumnChange, JobState, Outcome, SchemaChangeJob, default_value};
use super::table::{LoadedRows, Table};
use super::transaction::{Refusal, TransactionStatus, Transactions};

/// What a cluster is set to; the values in parentheses are Doris' defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Frontends (1); the first one that runs is the master.
    pub frontends: usize,
    /// Backends (1).
    pub backends: usize,
    /// Time a load may take when it does not say so itself (600 s).
    pub load_timeout: Duration,
    /// Time a precommitted transaction waits for its second phase (3600 s).
    pub precommit_timeout: Duration,
    /// Minutes east of Greenwich of a load that names no zone (Asia/Shanghai).
    pub offset_minutes: i32,
    /// Time a heavy schema change runs once it may begin.
    pub schema_change_time: Duration,
    /// Account with all rights.
    pub user: String,
    pub password: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            frontends: 1,
            backends: 1,
            load_timeout: Duration::from_secs(600),
            precommit_timeout: Duration::from_secs(3600),
            offset_minutes: 480,
            schema_change_time: Duration::from_millis(200),
            user: "root".to_owned(),
            password: String::new(),
        }
    }
}

#[derive(Debug, Default)]
pub struct Database {
    pub id: i64,
    pub tables: BTreeMap<String, Table>,
    pub transactions: Transactions,
}

#[derive(Debug)]
pub struct Cluster {
    pub settings: Settings,
    pub databases: BTreeMap<String, Database>,
    pub(super) faults: Faults,
    pub(super) received: Vec<Received>,
    /// Text of the rows that a load refused, by the name in its `ErrorURL`.
    pub(super) error_logs: HashMap<String, String>,
    pub(super) next_id: i64,
    next_transaction: i64,
    /// Transactions that are committed and not published, oldest first: database and id.
    unpublished: Vec<(String, i64)>,
    pub(super) frontends: Vec<NodeAddress>,
    pub(super) backends: Vec<NodeAddress>,
    next_backend: usize,
    pub(super) hold_schema_changes: bool,
}

/// A frontend or backend, as the others know it.
#[derive(Debug, Clone)]
pub(super) struct NodeAddress {
    pub http_port: u16,
    /// Of a frontend.
    pub mysql_port: u16,
    pub alive: bool,
}

impl Cluster {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            databases: BTreeMap::new(),
            faults: Faults::default(),
            received: Vec::new(),
            error_logs: HashMap::new(),
            next_id: 10_001,
            next_transaction: 1_001,
            unpublished: Vec::new(),
            frontends: Vec::new(),
            backends: Vec::new(),
            next_backend: 0,
            hold_schema_changes: false,
        }
    }

    pub fn new_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    pub fn database(&mut self, name: &str) -> Result<&mut Database, String> {
        self.databases.get_mut(name).ok_or_else(|| format!("Unknown database '{name}'"))
    }

    pub fn table(&mut self, database: &str, table: &str) -> Result<&mut Table, String> {
        self.database(database)?
            .tables
            .get_mut(table)
            .ok_or_else(|| format!("Unknown table '{table}'"))
    }

    pub(super) fn is_account(&self, user: &str, password: &str) -> bool {
        user == self.settings.user && password == self.settings.password
    }

    /// The next backend that lives, round robin.
    pub(super) fn pick_backend(&mut self) -> Option<NodeAddress> {
        for _ in 0..self.backends.len() {
            self.next_backend = (self.next_backend + 1) % self.backends.len();
            let node = &self.backends[self.next_backend];
            if node.alive {
                return Some(node.clone());
            }
        }
        None
    }

    pub fn begin(
        &mut self,
        database: &str,
        table: &str,
        label: &str,
        timeout: Option<Duration>,
    ) -> Result<i64, Refusal> {
        let table = self.table(database, table)?.id;
        let (load, precommit) = (self.settings.load_timeout, self.settings.precommit_timeout);
        self.next_transaction += 1;
        let id = self.next_transaction;
        let transactions = &mut self.database(database)?.transactions;
        transactions.begin(id, label, table, timeout.unwrap_or(load), precommit)?;
        Ok(id)
    }

    /// Decides a precommitted transaction, and publishes its rows unless they are held back.
    pub fn commit(&mut self, database: &str, id: i64, hold: bool) -> Result<(), Refusal> {
        self.database(database)?.transactions.commit(id)?;
        self.unpublished.push((database.to_owned(), id));
        if !hold {
            self.publish_table_of(database, id);
        }
        Ok(())
    }

    /// Loads of a table are published in the order of their commits: this one, and those that wait before it.
    fn publish_table_of(&mut self, database: &str, id: i64) {
        let Some(table) = self.transaction_table(database, id) else { return };
        let due: Vec<(String, i64)> = self
            .unpublished
            .iter()
            .filter(|(db, id)| db == database && self.transaction_table(db, *id) == Some(table))
            .cloned()
            .collect();
        self.unpublished.retain(|waiting| !due.contains(waiting));
        for (database, id) in due {
            self.publish(&database, id);
        }
    }

    pub fn publish_pending(&mut self) {
        for (database, id) in std::mem::take(&mut self.unpublished) {
            self.publish(&database, id);
        }
    }

    fn transaction_table(&self, database: &str, id: i64) -> Option<i64> {
        Some(self.databases.get(database)?.transactions.get(id)?.table)
    }

    fn publish(&mut self, database: &str, id: i64) {
        let Some(database) = self.databases.get_mut(database) else { return };
        let Some(transaction) = database.transactions.get_mut(id) else { return };
        transaction.status = TransactionStatus::Visible;
        let (table, rows) = (transaction.table, std::mem::take(&mut transaction.rows));
        // The rows of a table that has been dropped meanwhile go with it.
        if let Some(table) = database.tables.values_mut().find(|t| t.id == table) {
            publish_rows(table, rows);
        }
    }

    /// Commits rows at once, as INSERT does.
    pub fn insert(&mut self, database: &str, table: &str, rows: LoadedRows) -> Result<i64, String> {
        let label = format!("label_{}", uuid::Uuid::new_v4().simple());
        let id = self.begin(database, table, &label, None).map_err(|r| r.message)?;
        let transactions = &mut self.database(database)?.transactions;
        transactions.precommit(id, rows).map_err(|r| r.message)?;
        self.commit(database, id, false).map_err(|r| r.message)?;
        Ok(id)
    }

    pub fn alter(
        &mut self,
        database: &str,
        table: &str,
        changes: &[ColumnChange],
    ) -> Result<(), String> {
        let job = self.new_id();
        let watershed = self.next_transaction;
        let table = self.table(database, table)?;
        if let Outcome::Job(target) = table.alter(changes)? {
            table.jobs.push(SchemaChangeJob {
                id: job,
                watershed,
                state: JobState::WaitingTransactions,
                message: String::new(),
                created: now_text(),
                finished: None,
                running_since: None,
                target,
            });
        }
        self.advance();
        Ok(())
    }

    /// What time brings: transactions that expire, schema changes that go on. Called before anything is answered.
    pub fn advance(&mut self) {
        let now = Instant::now();
        let (held, takes) = (self.hold_schema_changes, self.settings.schema_change_time);
        for database in self.databases.values_mut() {
            database.transactions.expire(now);
            for table in database.tables.values_mut() {
                let Some(at) = table.jobs.iter().position(|job| job.state.is_open()) else {
                    continue;
                };
                let job = &mut table.jobs[at];
                let waits = database
                    .transactions
                    .all()
                    .any(|t| t.table == table.id && t.id <= job.watershed && t.status.is_running());
                if job.state == JobState::WaitingTransactions && !waits {
                    job.state = JobState::Running;
                    job.running_since = Some(now);
                }
                let due = job.running_since.is_some_and(|since| now.duration_since(since) >= takes);
                if job.state == JobState::Running && due && !held {
                    let target = std::mem::take(&mut job.target);
                    let done = table.install(target);
                    let job = &mut table.jobs[at];
                    job.finished = Some(now_text());
                    match done {
                        Ok(()) => job.state = JobState::Finished,
                        Err(why) => {
                            job.state = JobState::Cancelled;
                            job.message = why;
                        }
                    }
                }
            }
        }
    }
}

fn publish_rows(table: &mut Table, rows: LoadedRows) {
    let defaults: Vec<_> = table
        .columns
        .iter()
        .map(|c| default_value(c).expect("the default was checked with the column"))
        .collect();
    table.publish(rows, &defaults);
}

pub(super) fn now_text() -> String {
    chrono::Utc::now().format("%Y-%m-%d %H:%M:%S").to_string()
}
