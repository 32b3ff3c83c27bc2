//! The client side of the MySQL protocol: packets, login, text queries, prepared statements, and raw packets for the
//! binlog dump.
//!
//! It is here, and not taken from a driver, because both hot paths need the bytes as they come: row events go to the
//! decoder undigested, and snapshot rows go from the packet into columns without a value object in between. A key read
//! from one chunk goes back as the next chunk's parameter in the same bytes and the same type, so that only the server
//! ever compares keys.

mod auth;
mod packet;
mod query;
mod tls;

pub use packet::WireError;
pub use query::{ColumnDefinition, ParamBytes, ResultSet, Statement};
pub use tls::{SslMode, TlsOptions};

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use packet::PacketStream;

pub type WireResult<T> = std::result::Result<T, WireError>;

/// How to reach and enter a server.
#[derive(Clone)]
pub struct ConnectOptions {
    pub host: Arc<str>,
    pub port: u16,
    pub user: Arc<str>,
    pub password: Arc<str>,
    pub tls: TlsOptions,
    /// For the TCP connection and the login together.
    pub connect_timeout: Duration,
    /// The longest silence that is still taken for a server at work.
    pub read_timeout: Duration,
}

/// One connection.
pub struct Connection {
    packets: PacketStream,
    server_version: Arc<str>,
    thread_id: u32,
    secure: bool,
    read_timeout: Duration,
    /// A result set has been started and not been read to its end.
    rows_pending: bool,
}

impl Connection {
    pub async fn connect(options: &ConnectOptions) -> WireResult<Self> {
        match tokio::time::timeout(options.connect_timeout, Self::login(options)).await {
            Ok(result) => result,
            Err(_) => Err(WireError::Io(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "the server did not answer in time",
            ))),
        }
    }

    async fn login(options: &ConnectOptions) -> WireResult<Self> {
        let socket = TcpStream::connect((&*options.host, options.port)).await?;
        socket.set_nodelay(true)?;
        auth::login(socket, options).await
    }

    /// As the server writes it, such as `10.11.6-MariaDB-log` or `9.1.0`.
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// The server's number of this connection.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// True when the connection is encrypted.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    pub fn set_read_timeout(&mut self, timeout: Duration) {
        self.read_timeout = timeout;
    }

    /// Sends a command of raw bytes. The answer is read with [`Connection::read_packet`].
    pub async fn send_command(&mut self, command: &[u8]) -> WireResult<()> {
        if self.rows_pending {
            return Err(WireError::Protocol("a result set was not read to its end"));
        }
        self.packets.reset_sequence();
        self.packets.write(command).await
    }

    /// The next packet's payload. Cancel-safe. An error packet becomes an error.
    pub async fn read_packet(&mut self) -> WireResult<bytes::Bytes> {
        let packet = match tokio::time::timeout(self.read_timeout, self.packets.read()).await {
            Ok(packet) => packet?,
            Err(_) => {
                return Err(WireError::Io(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    "nothing was heard from the server for too long",
                )));
            }
        };
        match packet.first() {
            Some(0xff) => Err(packet::server_error(&packet)),
            Some(_) => Ok(packet),
            None => Err(WireError::Protocol("an empty packet")),
        }
    }

    /// A packet that has already arrived, without waiting.
    pub fn buffered_packet(&mut self) -> WireResult<Option<bytes::Bytes>> {
        match self.packets.buffered()? {
            Some(packet) if packet.first() == Some(&0xff) => Err(packet::server_error(&packet)),
            other => Ok(other),
        }
    }

    /// Says goodbye. Errors do not matter: the connection is gone either way.
    pub async fn close(mut self) {
        const COM_QUIT: u8 = 1;
        self.packets.reset_sequence();
        let _ = tokio::time::timeout(Duration::from_secs(1), self.packets.write(&[COM_QUIT])).await;
    }
}
