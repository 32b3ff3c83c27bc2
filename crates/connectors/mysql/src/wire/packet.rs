//! Packets on the socket: three bytes of length, a sequence number, the payload.

use std::fmt;
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::WireResult;

const MAX_PAYLOAD: usize = 0xff_ffff;
const READ_SIZE: usize = 128 * 1024;

/// What went wrong below SQL, or what the server said.
#[derive(Debug)]
pub enum WireError {
    Io(io::Error),
    Server {
        code: u16,
        message: String,
    },
    /// The server sent what the protocol does not allow here.
    Protocol(&'static str),
    /// The server asks for a way of login that is not available.
    Login(String),
    Tls(String),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Io(e) => e.fmt(f),
            WireError::Server { code, message } => write!(f, "server error {code}: {message}"),
            WireError::Protocol(what) => write!(f, "protocol error: {what}"),
            WireError::Login(what) => f.write_str(what),
            WireError::Tls(what) => write!(f, "tls: {what}"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<io::Error> for WireError {
    fn from(e: io::Error) -> Self {
        WireError::Io(e)
    }
}

/// Reads an error packet (first byte 0xff).
pub fn server_error(packet: &[u8]) -> WireError {
    let code = packet.get(1..3).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    let mut text = packet.get(3..).unwrap_or_default();
    if text.first() == Some(&b'#') {
        text = text.get(6..).unwrap_or_default();
    }
    WireError::Server { code, message: String::from_utf8_lossy(text).into_owned() }
}

pub trait Socket: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Socket for T {}

pub struct PacketStream {
    socket: Box<dyn Socket>,
    buffer: BytesMut,
    sequence: u8,
    /// The first parts of a payload that is longer than one packet can hold.
    parts: BytesMut,
}

impl PacketStream {
    pub fn new(socket: Box<dyn Socket>, sequence: u8) -> Self {
        Self {
            socket,
            buffer: BytesMut::with_capacity(READ_SIZE),
            sequence,
            parts: BytesMut::new(),
        }
    }

    /// Gives the socket back, for the step to TLS. Nothing may have arrived beyond what was read.
    pub fn into_socket(self) -> WireResult<(Box<dyn Socket>, u8)> {
        if !self.buffer.is_empty() {
            // Bytes from before the encryption must never be taken for encrypted ones.
            return Err(WireError::Protocol("the server spoke before the encryption began"));
        }
        Ok((self.socket, self.sequence))
    }

    pub fn reset_sequence(&mut self) {
        self.sequence = 0;
    }

    /// Cancel-safe: what has arrived stays in the buffer.
    pub async fn read(&mut self) -> WireResult<Bytes> {
        loop {
            if let Some(packet) = self.buffered()? {
                return Ok(packet);
            }
            self.buffer.reserve(READ_SIZE);
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Err(WireError::Io(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                )));
            }
        }
    }

    /// A packet that is already complete in the buffer.
    pub fn buffered(&mut self) -> WireResult<Option<Bytes>> {
        loop {
            let Some(header) = self.buffer.get(..4) else { return Ok(None) };
            let length =
                usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            if self.buffer.len() < 4 + length {
                self.buffer.reserve(4 + length - self.buffer.len());
                return Ok(None);
            }
            self.sequence = header[3].wrapping_add(1);
            self.buffer.advance(4);
            let payload = self.buffer.split_to(length);
            if length == MAX_PAYLOAD {
                self.parts.extend_from_slice(&payload);
            } else if self.parts.is_empty() {
                return Ok(Some(payload.freeze()));
            } else {
                self.parts.extend_from_slice(&payload);
                return Ok(Some(std::mem::take(&mut self.parts).freeze()));
            }
        }
    }

    pub async fn write(&mut self, payload: &[u8]) -> WireResult<()> {
        let mut rest = payload;
        loop {
            let (part, tail) = rest.split_at(rest.len().min(MAX_PAYLOAD));
            let mut frame = Vec::with_capacity(part.len() + 4);
            frame.extend_from_slice(&(part.len() as u32).to_le_bytes()[..3]);
            frame.push(self.sequence);
            frame.extend_from_slice(part);
            self.sequence = self.sequence.wrapping_add(1);
            self.socket.write_all(&frame).await?;
            rest = tail;
            if part.len() < MAX_PAYLOAD {
                break;
            }
        }
        self.socket.flush().await?;
        Ok(())
    }
}

/// Reads from the front of a payload.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, n: usize) -> WireResult<&'a [u8]> {
        if n > self.0.len() {
            return Err(WireError::Protocol("a packet ends too early"));
        }
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        Ok(head)
    }

    pub fn u8(&mut self) -> WireResult<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> WireResult<u16> {
        let b = self.take(2)?;
        Ok(u16::from_le_bytes([b[0], b[1]]))
    }

    pub fn u32(&mut self) -> WireResult<u32> {
        let b = self.take(4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// Bytes up to a zero byte, or to the end where there is none.
    pub fn until_zero(&mut self) -> &'a [u8] {
        let n = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        let text = &self.0[..n];
        self.0 = self.0.get(n + 1..).unwrap_or_default();
        text
    }

    /// A length-encoded integer; `None` for the mark of NULL.
    pub fn length(&mut self) -> WireResult<Option<u64>> {
        let n = match self.u8()? {
            0xfb => return Ok(None),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            small => return Ok(Some(u64::from(small))),
        };
        let mut bytes = [0; 8];
        bytes[..n].copy_from_slice(self.take(n)?);
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    /// A length-encoded string; `None` for NULL.
    pub fn string(&mut self) -> WireResult<Option<&'a [u8]>> {
        match self.length()? {
            None => Ok(None),
            Some(n) => {
                let n = usize::try_from(n)
                    .map_err(|_| WireError::Protocol("a string is longer than memory"))?;
                self.take(n).map(Some)
            }
        }
    }
}

/// Appends a length-encoded integer.
pub fn put_length(out: &mut Vec<u8>, n: u64) {
    match n {
        0..=0xfa => out.push(n as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(n as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&(n as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&n.to_le_bytes());
        }
    }
}

/// Appends a length-encoded string.
pub fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_length(out, text.len() as u64);
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_round_trip() {
        for n in [0, 250, 251, 255, 65_535, 65_536, 0xff_ffff, 0x100_0000, u64::from(u32::MAX) + 9]
        {
            let mut out = Vec::new();
            put_length(&mut out, n);
            let mut reader = Reader(&out);
            assert_eq!(reader.length().unwrap(), Some(n));
            assert!(reader.0.is_empty());
        }
    }

    #[tokio::test]
    async fn packets_survive_any_cut_and_long_payloads() {
        let (a, b) = tokio::io::duplex(1 << 16);
        let mut sender = PacketStream::new(Box::new(a), 0);
        let mut receiver = PacketStream::new(Box::new(b), 0);
        let sizes = [1usize, MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 3];
        let task = tokio::spawn(async move {
            for (i, size) in sizes.into_iter().enumerate() {
                sender.write(&vec![i as u8; size]).await.unwrap();
            }
            sender
        });
        for (i, size) in sizes.into_iter().enumerate() {
            // Dropping the future again and again loses nothing.
            let packet = loop {
                tokio::select! {
                    biased;
                    packet = receiver.read() => break packet.unwrap(),
                    _ = tokio::task::yield_now() => {}
                }
            };
            assert_eq!(packet.len(), size);
            assert!(packet.iter().all(|&b| b == i as u8));
        }
        drop(task.await.unwrap());
        assert!(matches!(receiver.read().await, Err(WireError::Io(_))));
    }
}
