//! Statements: text queries for the few rows of a question, prepared ones for the many rows of a table.

use std::sync::Arc;

use bytes::Bytes;

use super::packet::{Reader, put_string, server_error};
use super::{Connection, WireError, WireResult};

const COM_QUERY: u8 = 3;
const COM_PING: u8 = 14;
const COM_STMT_PREPARE: u8 = 22;
const COM_STMT_EXECUTE: u8 = 23;
const COM_STMT_CLOSE: u8 = 25;

/// Status bit: another result set follows.
const MORE_RESULTS: u16 = 8;

/// The answer to a text query.
#[derive(Debug, Default)]
pub struct ResultSet {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl ResultSet {
    pub fn first(&self) -> Option<&[Option<String>]> {
        self.rows.first().map(Vec::as_slice)
    }

    /// The first row's value in a column found by its name, which is safer than by its place: the servers' SHOW
    /// statements differ.
    pub fn value(&self, column: &str) -> Option<&str> {
        let i = self.columns.iter().position(|c| c.eq_ignore_ascii_case(column))?;
        self.first()?.get(i)?.as_deref()
    }

    /// The first row's first value.
    pub fn scalar(&self) -> Option<&str> {
        self.first()?.first()?.as_deref()
    }
}

/// What the server says about a result column.
#[derive(Debug, Clone)]
pub struct ColumnDefinition {
    pub name: Arc<str>,
    /// The protocol's type byte.
    pub column_type: u8,
    pub flags: u16,
    pub charset: u16,
    pub decimals: u8,
}

impl ColumnDefinition {
    pub fn is_unsigned(&self) -> bool {
        const UNSIGNED: u16 = 32;
        self.flags & UNSIGNED != 0
    }
}

/// A prepared statement of one connection.
#[derive(Debug)]
pub struct Statement {
    id: u32,
    pub params: u16,
}

/// A parameter in the binary protocol's own form, as it was read from a row of the same protocol.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ParamBytes {
    pub column_type: u8,
    pub unsigned: bool,
    pub bytes: Vec<u8>,
}

impl Connection {
    /// Runs a statement and keeps its rows. For questions with few rows.
    pub async fn query(&mut self, sql: &str) -> WireResult<ResultSet> {
        let mut command = Vec::with_capacity(sql.len() + 1);
        command.push(COM_QUERY);
        command.extend_from_slice(sql.as_bytes());
        self.send_command(&command).await?;
        let mut result = ResultSet::default();
        loop {
            let packet = self.read_packet().await?;
            if packet[0] == 0x00 {
                if ok_status(&packet)? & MORE_RESULTS == 0 {
                    return Ok(result);
                }
                continue;
            }
            if packet[0] == 0xfb {
                return Err(WireError::Protocol("the server asks for a local file"));
            }
            let count = Reader(&packet).length()?.unwrap_or(0);
            result = ResultSet::default();
            for column in self.read_columns(count as usize).await? {
                result.columns.push(column.name.to_string());
            }
            loop {
                let packet = self.read_packet().await?;
                if let Some(status) = end_status(&packet)? {
                    if status & MORE_RESULTS == 0 {
                        return Ok(result);
                    }
                    break;
                }
                let mut r = Reader(&packet);
                let mut row = Vec::with_capacity(result.columns.len());
                for _ in 0..result.columns.len() {
                    row.push(r.string()?.map(|b| String::from_utf8_lossy(b).into_owned()));
                }
                result.rows.push(row);
            }
        }
    }

    pub async fn ping(&mut self) -> WireResult<()> {
        self.send_command(&[COM_PING]).await?;
        self.read_packet().await.map(|_| ())
    }

    pub async fn prepare(&mut self, sql: &str) -> WireResult<Statement> {
        let mut command = Vec::with_capacity(sql.len() + 1);
        command.push(COM_STMT_PREPARE);
        command.extend_from_slice(sql.as_bytes());
        self.send_command(&command).await?;
        let packet = self.read_packet().await?;
        let mut r = Reader(&packet);
        r.u8()?;
        let id = r.u32()?;
        let columns = r.u16()?;
        let params = r.u16()?;
        self.read_columns(usize::from(params)).await?;
        self.read_columns(usize::from(columns)).await?;
        Ok(Statement { id, params })
    }

    /// Starts a prepared statement and returns its columns. Its rows must all be read with [`Connection::next_row`].
    pub async fn execute(
        &mut self,
        statement: &Statement,
        params: &[ParamBytes],
    ) -> WireResult<Vec<ColumnDefinition>> {
        if params.len() != usize::from(statement.params) {
            return Err(WireError::Protocol("a statement got the wrong number of parameters"));
        }
        let mut command = Vec::with_capacity(64);
        command.push(COM_STMT_EXECUTE);
        command.extend_from_slice(&statement.id.to_le_bytes());
        command.push(0);
        command.extend_from_slice(&1u32.to_le_bytes());
        if !params.is_empty() {
            command.resize(command.len() + params.len().div_ceil(8), 0);
            command.push(1);
            for p in params {
                command.push(p.column_type);
                command.push(if p.unsigned { 0x80 } else { 0 });
            }
            for p in params {
                command.extend_from_slice(&p.bytes);
            }
        }
        self.send_command(&command).await?;
        let packet = self.read_packet().await?;
        if packet[0] == 0x00 {
            return Ok(Vec::new());
        }
        let count = Reader(&packet).length()?.unwrap_or(0);
        let columns = self.read_columns(count as usize).await?;
        self.rows_pending = true;
        Ok(columns)
    }

    /// The next row's packet in the binary protocol (from its zero byte on), `None` at the end.
    pub async fn next_row(&mut self) -> WireResult<Option<Bytes>> {
        let packet = match self.buffered_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => match self.read_packet().await {
                Ok(packet) => packet,
                Err(e) => return self.rows_failed(e),
            },
            Err(e) => return self.rows_failed(e),
        };
        if end_status(&packet)?.is_some() {
            self.rows_pending = false;
            return Ok(None);
        }
        Ok(Some(packet))
    }

    fn rows_failed<T>(&mut self, e: WireError) -> WireResult<T> {
        // An error packet ends the rows; the connection itself goes on.
        if matches!(e, WireError::Server { .. }) {
            self.rows_pending = false;
        }
        Err(e)
    }

    pub async fn close_statement(&mut self, statement: Statement) -> WireResult<()> {
        let mut command = vec![COM_STMT_CLOSE];
        command.extend_from_slice(&statement.id.to_le_bytes());
        // The server does not answer this one.
        self.send_command(&command).await
    }

    async fn read_columns(&mut self, count: usize) -> WireResult<Vec<ColumnDefinition>> {
        let mut columns = Vec::with_capacity(count.min(4096));
        if count == 0 {
            return Ok(columns);
        }
        for _ in 0..count {
            let packet = self.read_packet().await?;
            columns.push(read_column(&packet)?);
        }
        let packet = self.read_packet().await?;
        match end_status(&packet)? {
            Some(_) => Ok(columns),
            None => Err(WireError::Protocol("the column list does not end")),
        }
    }
}

fn read_column(packet: &[u8]) -> WireResult<ColumnDefinition> {
    let mut r = Reader(packet);
    for _ in 0..4 {
        r.string()?;
    }
    let name = String::from_utf8_lossy(r.string()?.unwrap_or_default()).as_ref().into();
    r.string()?;
    r.length()?;
    let charset = r.u16()?;
    r.u32()?;
    let column_type = r.u8()?;
    let flags = r.u16()?;
    let decimals = r.u8()?;
    Ok(ColumnDefinition { name, column_type, flags, charset, decimals })
}

fn ok_status(packet: &[u8]) -> WireResult<u16> {
    let mut r = Reader(&packet[1..]);
    r.length()?;
    r.length()?;
    r.u16()
}

/// The status flags of an EOF packet; `None` for any other packet.
fn end_status(packet: &[u8]) -> WireResult<Option<u16>> {
    match packet.first() {
        Some(0xfe) if packet.len() < 9 => {
            let mut r = Reader(&packet[1..]);
            r.u16()?;
            r.u16().map(Some)
        }
        Some(0xff) => Err(server_error(packet)),
        _ => Ok(None),
    }
}

impl ParamBytes {
    /// A text parameter.
    pub fn text(text: &str) -> Self {
        const VAR_STRING: u8 = 253;
        let mut bytes = Vec::with_capacity(text.len() + 1);
        put_string(&mut bytes, text.as_bytes());
        Self { column_type: VAR_STRING, unsigned: false, bytes }
    }

    /// A 64-bit number.
    pub fn long(value: i64) -> Self {
        const LONGLONG: u8 = 8;
        Self { column_type: LONGLONG, unsigned: false, bytes: value.to_le_bytes().to_vec() }
    }

    /// Cuts the values out of a row of the binary protocol. `None` in place of a NULL.
    ///
    /// # Errors
    /// `Protocol` when the row does not have the columns' form.
    pub fn from_row(
        row: &[u8],
        columns: &[ColumnDefinition],
        wanted: &[usize],
    ) -> WireResult<Vec<Option<ParamBytes>>> {
        let mut r = Reader(row);
        r.u8()?;
        let nulls = r.take((columns.len() + 9) / 8)?;
        let mut out = vec![None; wanted.len()];
        for (i, column) in columns.iter().enumerate() {
            if nulls[(i + 2) / 8] & (1 << ((i + 2) % 8)) != 0 {
                continue;
            }
            let start = r.0;
            skip_value(&mut r, column.column_type)?;
            if let Some(at) = wanted.iter().position(|&w| w == i) {
                // The server reads parameters of fewer types than it sends: YEAR and MEDIUMINT have the bytes of SHORT and LONG.
                let column_type = match column.column_type {
                    13 => 2,
                    9 => 3,
                    other => other,
                };
                out[at] = Some(ParamBytes {
                    column_type,
                    unsigned: column.is_unsigned(),
                    bytes: start[..start.len() - r.0.len()].to_vec(),
                });
            }
        }
        Ok(out)
    }
}

fn skip_value(r: &mut Reader<'_>, column_type: u8) -> WireResult<()> {
    match column_type {
        // TINY
        1 => r.take(1).map(|_| ()),
        // SHORT, YEAR
        2 | 13 => r.take(2).map(|_| ()),
        // LONG, FLOAT, INT24
        3 | 4 | 9 => r.take(4).map(|_| ()),
        // DOUBLE, LONGLONG
        5 | 8 => r.take(8).map(|_| ()),
        // NULL
        6 => Ok(()),
        // TIMESTAMP, DATE, TIME, DATETIME: a byte of length before them
        7 | 10 | 11 | 12 => {
            let n = r.u8()?;
            r.take(usize::from(n)).map(|_| ())
        }
        _ => r.string().map(|_| ()),
    }
}
