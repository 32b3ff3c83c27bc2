//! The value that stands for the cluster: its nodes, their threads, and what a test does to them.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::cluster::{Cluster, NodeAddress, Settings};
use super::faults::{Fault, Moment, Received};
use super::{http, mysql};

/// What all nodes share.
pub(super) type Shared = Arc<Mutex<Cluster>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Frontend(usize),
    Backend(usize),
}

impl Role {
    pub fn name(self) -> String {
        match self {
            Self::Frontend(index) => format!("fe{index}"),
            Self::Backend(index) => format!("be{index}"),
        }
    }
}

/// A running cluster. Ends with this value.
#[derive(Debug)]
pub struct StandIn {
    shared: Shared,
    runtime: Option<Runtime>,
    frontends: Vec<Option<watch::Sender<bool>>>,
    backends: Vec<Option<watch::Sender<bool>>>,
}

/// The state, whatever a thread that held it died of.
pub(super) fn lock(shared: &Shared) -> MutexGuard<'_, Cluster> {
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl StandIn {
    pub fn start(settings: Settings) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("doris-stand-in")
            .enable_all()
            .build()?;
        let (frontends, backends) = (settings.frontends, settings.backends);
        let shared = Arc::new(Mutex::new(Cluster::new(settings)));
        let mut stand_in = Self {
            shared,
            runtime: Some(runtime),
            frontends: (0..frontends).map(|_| None).collect(),
            backends: (0..backends).map(|_| None).collect(),
        };
        for index in 0..frontends {
            let (http, mysql) = (bind(0)?, bind(0)?);
            let node =
                NodeAddress { http_port: port(&http)?, mysql_port: port(&mysql)?, alive: true };
            stand_in.cluster().frontends.push(node);
            stand_in.frontends[index] =
                Some(stand_in.serve(Role::Frontend(index), http, Some(mysql))?);
        }
        for index in 0..backends {
            let http = bind(0)?;
            let node = NodeAddress { http_port: port(&http)?, mysql_port: 0, alive: true };
            stand_in.cluster().backends.push(node);
            stand_in.backends[index] = Some(stand_in.serve(Role::Backend(index), http, None)?);
        }
        Ok(stand_in)
    }

    /// Accepts until the sender says stop or is gone, which also cuts the connections.
    fn serve(
        &self,
        role: Role,
        http: TcpListener,
        mysql: Option<TcpListener>,
    ) -> Result<watch::Sender<bool>> {
        let runtime = self.runtime.as_ref().context("the stand-in has ended")?;
        let (sender, stop) = watch::channel(false);
        let _entered = runtime.enter();
        let http = tokio::net::TcpListener::from_std(http)?;
        runtime.spawn(http::serve(role, http, self.shared.clone(), stop.clone()));
        if let Some(mysql) = mysql {
            let mysql = tokio::net::TcpListener::from_std(mysql)?;
            runtime.spawn(mysql::serve(mysql, self.shared.clone(), stop));
        }
        Ok(sender)
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        lock(&self.shared)
    }

    /// `host:port` of each frontend's HTTP server, the master first, as `fenodes` has them.
    pub fn fe_http(&self) -> Vec<String> {
        self.cluster().frontends.iter().map(|n| format!("127.0.0.1:{}", n.http_port)).collect()
    }

    /// Ports of the frontends' MySQL protocol.
    pub fn mysql_ports(&self) -> Vec<u16> {
        self.cluster().frontends.iter().map(|n| n.mysql_port).collect()
    }

    /// `host:port` of each backend's HTTP server, as `benodes` has them.
    pub fn be_http(&self) -> Vec<String> {
        self.cluster().backends.iter().map(|n| format!("127.0.0.1:{}", n.http_port)).collect()
    }

    pub fn user(&self) -> String {
        self.cluster().settings.user.clone()
    }

    pub fn password(&self) -> String {
        self.cluster().settings.password.clone()
    }

    /// The next requests at `moment` fail, `times` times.
    pub fn fail(&self, moment: Moment, fault: Fault, times: usize) {
        self.cluster().faults.add(moment, None, fault, times);
    }

    /// As [`StandIn::fail`], for loads of one table. The second phase does not name a table: its faults strike any.
    pub fn fail_table(&self, moment: Moment, table: &str, fault: Fault, times: usize) {
        self.cluster().faults.add(moment, Some(table), fault, times);
    }

    /// Faults that have not struck.
    pub fn pending_faults(&self) -> usize {
        self.cluster().faults.pending()
    }

    pub fn clear_faults(&self) {
        self.cluster().faults.clear();
    }

    /// Every undecided transaction is aborted by timeout, now.
    pub fn expire_transactions(&self) {
        let mut cluster = self.cluster();
        cluster.databases.values_mut().for_each(|d| d.transactions.expire_all());
    }

    /// Decided transactions and their labels are forgotten, as after `label_keep_max_second` (three days).
    pub fn forget_labels(&self) {
        let mut cluster = self.cluster();
        cluster.databases.values_mut().for_each(|d| d.transactions.forget_decided());
    }

    /// Makes visible what [`Fault::PublishTimeout`] held back.
    pub fn publish_pending(&self) {
        self.cluster().publish_pending();
    }

    /// Forgets deleted rows and their sequences, as a compaction does.
    pub fn compact(&self) {
        let mut cluster = self.cluster();
        cluster
            .databases
            .values_mut()
            .flat_map(|d| d.tables.values_mut())
            .for_each(|t| t.compact());
    }

    /// While held, heavy schema changes do not finish.
    pub fn hold_schema_changes(&self, hold: bool) {
        self.cluster().hold_schema_changes = hold;
    }

    /// The time that transactions begun from now on have, while they run and between their phases.
    pub fn set_transaction_timeouts(&self, load: Duration, precommit: Duration) {
        let mut cluster = self.cluster();
        cluster.settings.load_timeout = load;
        cluster.settings.precommit_timeout = precommit;
    }

    /// What all nodes have received through HTTP so far, oldest first.
    pub fn received(&self) -> Vec<Received> {
        self.cluster().received.clone()
    }

    /// Labels, ids and states of a database's transactions, oldest first.
    pub fn transactions(&self, database: &str) -> Vec<(String, i64, &'static str)> {
        let mut cluster = self.cluster();
        cluster.advance();
        let Some(database) = cluster.databases.get(database) else { return Vec::new() };
        let all = database.transactions.all();
        all.map(|t| (t.label.clone(), t.id, t.status.name())).collect()
    }

    /// Ends a frontend: its connections are cut, its ports refuse. The state is the cluster's and stays.
    pub fn stop_frontend(&mut self, index: usize) {
        self.frontends[index] = None;
        self.cluster().frontends[index].alive = false;
    }

    /// Starts it again, on the same ports.
    pub fn start_frontend(&mut self, index: usize) -> Result<()> {
        let node = self.cluster().frontends[index].clone();
        let (http, mysql) = (bind(node.http_port)?, bind(node.mysql_port)?);
        self.frontends[index] = Some(self.serve(Role::Frontend(index), http, Some(mysql))?);
        self.cluster().frontends[index].alive = true;
        Ok(())
    }

    /// Ends a backend; loads that it is reading are aborted. Until it is `noticed`, frontends still send clients there.
    pub fn stop_backend(&mut self, index: usize, noticed: bool) {
        self.backends[index] = None;
        self.cluster().backends[index].alive = !noticed;
    }

    pub fn start_backend(&mut self, index: usize) -> Result<()> {
        let node = self.cluster().backends[index].clone();
        self.backends[index] =
            Some(self.serve(Role::Backend(index), bind(node.http_port)?, None)?);
        self.cluster().backends[index].alive = true;
        Ok(())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Does not wait: it may run where waiting is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Binds a port again at once, also where connections of the last listener linger.
fn bind(port: u16) -> Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    // The listener that was here may need a moment to go.
    let mut tries = 0;
    while let Err(error) = socket.bind(&address.into()) {
        tries += 1;
        if port == 0 || tries > 200 {
            return Err(error).with_context(|| format!("could not bind 127.0.0.1:{port}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    socket.listen(256)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn port(listener: &TcpListener) -> Result<u16> {
    Ok(listener.local_addr()?.port())
}
