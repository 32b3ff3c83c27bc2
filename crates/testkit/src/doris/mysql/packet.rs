//! Packets of the MySQL protocol, as a server reads and writes them.

use std::io::{Error, ErrorKind, Result};

use mysql_common::scramble::scramble_native;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::sql::{Kind, ResultColumn, SqlError};

pub const NATIVE_PASSWORD: &str = "mysql_native_password";

const NONCE_BYTES: usize = 20;
const LARGEST_PACKET: usize = 0xff_ffff;
const FLUSH_AT_BYTES: usize = 256 * 1024;
/// A statement may be this long, as `max_allowed_packet` says.
const LONGEST_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

const CONNECT_WITH_DATABASE: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const PLUGIN_AUTH: u32 = 1 << 19;
const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
/// Long password and flags, found rows, transactions, 20 bytes of nonce.
const CAPABILITIES: u32 = 0b111
    | CONNECT_WITH_DATABASE
    | PROTOCOL_41
    | 1 << 13
    | 1 << 15
    | PLUGIN_AUTH
    | PLUGIN_AUTH_LENENC;

const AUTOCOMMIT: u16 = 2;
const UTF8MB4: u8 = 45;
const BINARY: u8 = 63;

/// Frames packets and counts them.
pub struct Wire {
    stream: TcpStream,
    sequence: u8,
    out: Vec<u8>,
}

impl Wire {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, sequence: 0, out: Vec::new() }
    }

    /// A new command begins.
    pub fn begin(&mut self) {
        self.sequence = 0;
    }

    pub async fn read(&mut self) -> Result<Vec<u8>> {
        let mut message = Vec::new();
        loop {
            let mut head = [0_u8; 4];
            self.stream.read_exact(&mut head).await?;
            let length =
                usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            self.sequence = head[3].wrapping_add(1);
            let begun = message.len();
            if begun + length > LONGEST_MESSAGE_BYTES {
                return Err(Error::new(ErrorKind::InvalidData, "a packet is too large"));
            }
            message.resize(begun + length, 0);
            self.stream.read_exact(&mut message[begun..]).await?;
            if length < LARGEST_PACKET {
                return Ok(message);
            }
        }
    }

    pub fn queue(&mut self, message: &[u8]) {
        let mut rest = message;
        loop {
            let (now, later) = rest.split_at(rest.len().min(LARGEST_PACKET));
            let length = now.len();
            self.out.extend([
                length as u8,
                (length >> 8) as u8,
                (length >> 16) as u8,
                self.sequence,
            ]);
            self.out.extend(now);
            self.sequence = self.sequence.wrapping_add(1);
            rest = later;
            if length < LARGEST_PACKET {
                return;
            }
        }
    }

    pub async fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        self.stream.flush().await
    }

    pub async fn flush_if_large(&mut self) -> Result<()> {
        if self.out.len() > FLUSH_AT_BYTES { self.flush().await } else { Ok(()) }
    }

    pub async fn write(&mut self, message: &[u8]) -> Result<()> {
        self.queue(message);
        self.flush().await
    }
}

/// Twenty letters that no other connection gets.
pub fn nonce() -> [u8; NONCE_BYTES] {
    let text = uuid::Uuid::new_v4().simple().to_string();
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&text.as_bytes()[..NONCE_BYTES]);
    nonce
}

pub fn greeting(connection: u32, version: &str, nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
    let mut out = vec![10];
    out.extend(version.as_bytes());
    out.push(0);
    out.extend(connection.to_le_bytes());
    out.extend(&nonce[..8]);
    out.push(0);
    out.extend((CAPABILITIES as u16).to_le_bytes());
    out.push(UTF8MB4);
    out.extend(AUTOCOMMIT.to_le_bytes());
    out.extend(((CAPABILITIES >> 16) as u16).to_le_bytes());
    out.push(NONCE_BYTES as u8 + 1);
    out.extend([0; 10]);
    out.extend(&nonce[8..]);
    out.push(0);
    out.extend(NATIVE_PASSWORD.as_bytes());
    out.push(0);
    out
}

pub fn auth_switch(nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
    let mut out = vec![0xfe];
    out.extend(NATIVE_PASSWORD.as_bytes());
    out.push(0);
    out.extend(nonce);
    out.push(0);
    out
}

/// What a client answers to the greeting.
pub struct Login {
    pub user: String,
    pub token: Vec<u8>,
    pub database: Option<String>,
    pub plugin: String,
}

impl Login {
    pub fn parse(message: &[u8]) -> Result<Self> {
        let mut reader = Reader(message);
        let capabilities = u32::from_le_bytes(reader.take(4)?.try_into().map_err(|_| short())?);
        if capabilities & PROTOCOL_41 == 0 {
            return Err(Error::new(ErrorKind::InvalidData, "the client is too old"));
        }
        reader.take(4 + 1 + 23)?;
        let user = reader.until_zero()?;
        let length = match capabilities & PLUGIN_AUTH_LENENC {
            0 => usize::from(reader.take(1)?[0]),
            _ => reader.length()?,
        };
        let token = reader.take(length)?.to_vec();
        let database = match capabilities & CONNECT_WITH_DATABASE {
            0 => None,
            _ => Some(reader.until_zero()?),
        };
        let plugin = match capabilities & PLUGIN_AUTH {
            0 => NATIVE_PASSWORD.to_owned(),
            _ => reader.until_zero()?,
        };
        Ok(Self { user, token, database, plugin })
    }
}

/// Whether the token proves that the client has the password.
pub fn is_token_of(password: &str, nonce: &[u8; NONCE_BYTES], token: &[u8]) -> bool {
    match scramble_native(nonce, password.as_bytes()) {
        None => token.is_empty(),
        Some(expected) => token == expected,
    }
}

struct Reader<'a>(&'a [u8]);

fn short() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "a packet is too short")
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn until_zero(&mut self) -> Result<String> {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        Ok(text)
    }

    fn length(&mut self) -> Result<usize> {
        Ok(match self.take(1)?[0] {
            0xfc => usize::from(u16::from_le_bytes(self.take(2)?.try_into().map_err(|_| short())?)),
            small @ 0..=0xfa => small.into(),
            _ => return Err(short()),
        })
    }
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..=0xfa => out.push(length as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend((length as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend(&(length as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend((length as u64).to_le_bytes());
        }
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    push_length(out, text.len());
    out.extend(text.as_bytes());
}

pub fn ok(affected_rows: u64) -> Vec<u8> {
    let mut out = vec![0];
    push_length(&mut out, affected_rows as usize);
    out.push(0);
    out.extend(AUTOCOMMIT.to_le_bytes());
    out.extend([0, 0]);
    out
}

pub fn end() -> Vec<u8> {
    let status = AUTOCOMMIT.to_le_bytes();
    vec![0xfe, 0, 0, status[0], status[1]]
}

pub fn error(error: &SqlError) -> Vec<u8> {
    let mut out = vec![0xff];
    out.extend(error.code.to_le_bytes());
    out.push(b'#');
    out.extend(error.state().as_bytes());
    out.extend(error.message.as_bytes());
    out
}

pub fn count(columns: usize) -> Vec<u8> {
    let mut out = Vec::new();
    push_length(&mut out, columns);
    out
}

pub fn column(column: &ResultColumn) -> Vec<u8> {
    let (code, charset) = match column.kind {
        Kind::TinyInt => (1, BINARY),
        Kind::SmallInt => (2, BINARY),
        Kind::Int => (3, BINARY),
        Kind::Float => (4, BINARY),
        Kind::Double => (5, BINARY),
        Kind::BigInt => (8, BINARY),
        Kind::Date => (10, BINARY),
        Kind::DateTime => (12, BINARY),
        Kind::Decimal => (246, BINARY),
        Kind::Text => (253, UTF8MB4),
    };
    let mut out = Vec::new();
    for text in ["def", "", "", "", &column.name, &column.name] {
        push_text(&mut out, text);
    }
    out.push(0x0c);
    out.extend(u16::from(charset).to_le_bytes());
    out.extend(255_u32.to_le_bytes());
    out.push(code);
    out.extend([0, 0, 0, 0, 0]);
    out
}

pub fn row(values: &[Option<String>]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        match value {
            None => out.push(0xfb),
            Some(text) => push_text(&mut out, text),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_login_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Login::parse(&bytes);
        }
    }
}
