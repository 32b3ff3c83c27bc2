//! The server side of the MySQL protocol: handshake, commands, text results.

mod packet;

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::faults::{Fault, Moment};
use super::sql::{self, Answer, MYSQL_VERSION, ResultSet, Session, SqlError};
use super::stand_in::{Shared, lock};
use packet::{Login, Wire};

static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// Until `stop` changes or its sender is gone.
pub(super) async fn serve(listener: TcpListener, shared: Shared, mut stop: watch::Receiver<bool>) {
    loop {
        let stream = tokio::select! {
            _ = stop.changed() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
        };
        let shared = shared.clone();
        let mut stop = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = stop.changed() => {}
                // A client that goes away is the end of its connection, and nothing to report.
                _ = connection(stream, shared) => {}
            }
        });
    }
}

const QUIT: u8 = 0x01;
const INIT_DB: u8 = 0x02;
const QUERY: u8 = 0x03;
const FIELD_LIST: u8 = 0x04;
const PING: u8 = 0x0e;
const STATEMENT_PREPARE: u8 = 0x16;
const SET_OPTION: u8 = 0x1b;
const RESET_CONNECTION: u8 = 0x1f;

async fn connection(stream: TcpStream, shared: Shared) -> std::io::Result<()> {
    let _ = stream.set_nodelay(true);
    let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
    let mut wire = Wire::new(stream);
    let nonce = packet::nonce();
    wire.write(&packet::greeting(id, MYSQL_VERSION, &nonce)).await?;
    let mut login = Login::parse(&wire.read().await?)?;
    if login.plugin != packet::NATIVE_PASSWORD {
        wire.write(&packet::auth_switch(&nonce)).await?;
        login.token = wire.read().await?;
    }
    let (user, password) = {
        let cluster = lock(&shared);
        (cluster.settings.user.clone(), cluster.settings.password.clone())
    };
    if login.user != user || !packet::is_token_of(&password, &nonce, &login.token) {
        let using = if login.token.is_empty() { "NO" } else { "YES" };
        let error = SqlError::new(
            1045,
            format!("Access denied for user '{}@127.0.0.1' (using password: {using})", login.user),
        );
        return wire.write(&packet::error(&error)).await;
    }
    let mut session = Session::new(login.user);
    session.connection_id = id;
    if let Some(database) = login.database.filter(|d| !d.is_empty()) {
        let entered = sql::enter(&lock(&shared), &mut session, &database);
        if let Err(error) = entered {
            return wire.write(&packet::error(&error)).await;
        }
    }
    wire.write(&packet::ok(0)).await?;
    loop {
        wire.begin();
        let command = wire.read().await?;
        match command.split_first() {
            None | Some((&QUIT, _)) => return Ok(()),
            Some((&QUERY, text)) => {
                let lost = {
                    let mut cluster = lock(&shared);
                    cluster
                        .faults
                        .take_matching(Moment::Statement, &[Fault::LoseAnswer, Fault::Cut])
                };
                if lost == Some(Fault::Cut) {
                    return Ok(());
                }
                let answer = match std::str::from_utf8(text) {
                    Ok(text) => sql::execute(&shared, &mut session, text).await,
                    Err(_) => Err(SqlError::new(1105, "the statement is not UTF-8")),
                };
                if lost.is_some() {
                    return Ok(());
                }
                match answer {
                    Ok(Answer::Done { affected_rows }) => {
                        wire.write(&packet::ok(affected_rows)).await?;
                    }
                    Ok(Answer::Rows(result)) => send(&mut wire, &result).await?,
                    Err(error) => wire.write(&packet::error(&error)).await?,
                }
            }
            Some((&INIT_DB, name)) => {
                let name = String::from_utf8_lossy(name);
                let entered = sql::enter(&lock(&shared), &mut session, &name);
                match entered {
                    Ok(()) => wire.write(&packet::ok(0)).await?,
                    Err(error) => wire.write(&packet::error(&error)).await?,
                }
            }
            Some((&PING, _)) => wire.write(&packet::ok(0)).await?,
            Some((&RESET_CONNECTION, _)) => {
                session.variables.clear();
                wire.write(&packet::ok(0)).await?;
            }
            Some((&FIELD_LIST | &SET_OPTION, _)) => wire.write(&packet::end()).await?,
            Some((&STATEMENT_PREPARE, _)) => {
                let error = SqlError::new(
                    1295,
                    "This command is not supported in the prepared statement protocol yet",
                );
                wire.write(&packet::error(&error)).await?;
            }
            Some((code, _)) => {
                let error = SqlError::new(1047, format!("Unknown command({code})"));
                wire.write(&packet::error(&error)).await?;
            }
        }
    }
}

async fn send(wire: &mut Wire, result: &ResultSet) -> std::io::Result<()> {
    wire.queue(&packet::count(result.columns.len()));
    for column in &result.columns {
        wire.queue(&packet::column(column));
    }
    wire.queue(&packet::end());
    for row in &result.rows {
        wire.queue(&packet::row(row));
        wire.flush_if_large().await?;
    }
    wire.queue(&packet::end());
    wire.flush().await
}
