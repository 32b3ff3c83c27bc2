//! The fastest client there can be: prepares a statement, executes it, and throws the rows away as packets.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use lakeward_testkit::server::Server;

const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
/// Long password, protocol 4.1, transactions, secure connection, plugin authentication.
const CAPABILITIES: u32 = 0x1 | 0x200 | 0x2000 | 0x8000 | 0x0008_0000;

/// Seconds that it takes to read the rows of a query, of which there are `rows`.
pub fn seconds(server: &Server, sql: &str, rows: u64) -> Result<f64> {
    // Once for the server's buffer pool.
    read(server, sql)?;
    let begun = Instant::now();
    let read = read(server, sql)?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(read == rows, "the reader saw {read} rows of {rows}");
    Ok(seconds)
}

/// Number of rows of a query, read with the binary protocol.
fn read(server: &Server, sql: &str) -> Result<u64> {
    let mut wire = Wire::connect(server)?;
    wire.send(0, &[&[COM_STMT_PREPARE], sql.as_bytes()].concat())?;
    let prepared = wire.receive()?.to_vec();
    if prepared.first() != Some(&0) {
        bail!("the statement was refused: {}", String::from_utf8_lossy(&prepared));
    }
    let statement = prepared.get(1..5).context("a short answer")?.to_vec();
    let columns = u16::from_le_bytes([prepared[5], prepared[6]]);
    // The columns and the packet that ends them.
    for _ in 0..=columns {
        wire.receive()?;
    }
    wire.send(0, &[&[COM_STMT_EXECUTE][..], &statement, &[0, 1, 0, 0, 0]].concat())?;
    // The number of columns, the columns, the end.
    for _ in 0..columns + 2 {
        wire.receive()?;
    }
    let mut rows = 0;
    loop {
        match wire.receive()? {
            [0xfe, rest @ ..] if rest.len() < 8 => return Ok(rows),
            [0xff, ..] => bail!("the server ended the result with an error"),
            _ => rows += 1,
        }
    }
}

struct Wire {
    stream: BufReader<UnixStream>,
    packet: Vec<u8>,
}

impl Wire {
    /// As root, who has no password on a test server.
    fn connect(server: &Server) -> Result<Self> {
        let stream = UnixStream::connect(server.socket())?;
        let mut wire = Self { stream: BufReader::with_capacity(1 << 18, stream), packet: vec![] };
        wire.receive()?;
        let mut hello = CAPABILITIES.to_le_bytes().to_vec();
        hello.extend((1_u32 << 24).to_le_bytes());
        hello.push(45);
        hello.extend([0; 23]);
        hello.extend(b"root\0\0mysql_native_password\0");
        wire.send(1, &hello)?;
        match wire.receive()?.first() {
            Some(0) => {}
            // Another method: with no password its answer is empty too.
            Some(0xfe) => {
                wire.send(3, &[])?;
                if wire.receive()?.first() != Some(&0) {
                    bail!("the server refused root");
                }
            }
            _ => bail!("the server refused root: {}", String::from_utf8_lossy(&wire.packet)),
        }
        Ok(wire)
    }

    fn send(&mut self, sequence: u8, body: &[u8]) -> Result<()> {
        let length = u32::try_from(body.len())?.to_le_bytes();
        let packet = [&length[..3], &[sequence], body].concat();
        self.stream.get_mut().write_all(&packet)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<&[u8]> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        self.packet.resize(length, 0);
        self.stream.read_exact(&mut self.packet)?;
        Ok(&self.packet)
    }
}
