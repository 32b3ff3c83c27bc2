//! Records as bytes: for held rows in checkpoint state, spilled rows on disk, and frames between processes.
//!
//! A frame is `kind: u8 | header length: u32 LE | header: JSON | body length: u64 LE | body | XXH3-64 of all that: u64 LE`.
//! The body of data is the row kinds, one byte each, followed by an Arrow IPC stream with one batch; the body of a
//! committable is its payload. Frames can be concatenated. The checksum is looked at first, since Arrow's reader trusts
//! what it reads and panics on damaged bytes.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    Committable, DataChange, Error, ErrorKind, Result, RowKind, Segment, StreamRecord,
    TableFailure, TableId, TableSchema, Unavailable,
};

const DATA: u8 = 1;
const SCHEMA: u8 = 2;
const MARK: u8 = 3;
const COMMITTABLE: u8 = 4;
const PROGRESS: u8 = 5;
const COMMITTED: u8 = 6;
const FAILURE: u8 = 7;

#[derive(Serialize, Deserialize)]
struct DataHeader {
    table: TableId,
    schema: Arc<TableSchema>,
    segments: Vec<Segment>,
    snapshot: bool,
    rows: usize,
    /// Per column the indices of the rows whose cell was not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unavailable: Option<Vec<Option<Vec<u32>>>>,
}

#[derive(Serialize, Deserialize)]
struct CommittableHeader {
    table: TableId,
    version: u32,
    rows: u64,
    size_bytes: u64,
    commit_ms: i64,
}

/// An error becomes its kind and the whole of its text.
#[derive(Serialize, Deserialize)]
struct FailureHeader {
    table: TableId,
    kind: ErrorKind,
    message: String,
}

/// Appends the record's frame to `out`.
///
/// # Errors
/// `Bug` when Arrow refuses the batch.
pub fn encode(record: &StreamRecord, out: &mut Vec<u8>) -> Result<()> {
    match record {
        StreamRecord::Data(change) => {
            let header = DataHeader {
                table: change.table.clone(),
                schema: change.schema.clone(),
                segments: change.segments.clone(),
                snapshot: change.snapshot,
                rows: change.kinds.len(),
                unavailable: change.unavailable.as_ref().map(indices_of),
            };
            let mut body: Vec<u8> = change.kinds.iter().map(|k| *k as u8).collect();
            write_batch(&change.rows, &mut body)?;
            frame(DATA, &header, &body, out)
        }
        StreamRecord::Schema(event) => frame(SCHEMA, event, &[], out),
        StreamRecord::Mark(mark) => frame(MARK, mark, &[], out),
        StreamRecord::Committable(c) => {
            let header = CommittableHeader {
                table: c.table.clone(),
                version: c.version,
                rows: c.rows,
                size_bytes: c.size_bytes,
                commit_ms: c.commit_ms,
            };
            frame(COMMITTABLE, &header, &c.payload, out)
        }
        StreamRecord::Progress(progress) => frame(PROGRESS, progress, &[], out),
        StreamRecord::Committed(epoch) => frame(COMMITTED, epoch, &[], out),
        StreamRecord::Failure(failure) => {
            let (table, error) = (failure.table.clone(), &failure.error);
            let header = FailureHeader { table, kind: error.kind(), message: error.to_string() };
            frame(FAILURE, &header, &[], out)
        }
    }
}

/// Takes one frame from the front of `input` and moves it on; `None` at its end.
///
/// # Errors
/// `Bug` when the bytes are no frame: they were damaged or written by a newer version.
pub fn decode(input: &mut &[u8]) -> Result<Option<StreamRecord>> {
    let whole = *input;
    let Some((&kind, mut rest)) = whole.split_first() else { return Ok(None) };
    let header_length = u32::from_le_bytes(take_array(&mut rest)?) as usize;
    let header = take(&mut rest, header_length)?;
    let body_length =
        usize::try_from(u64::from_le_bytes(take_array(&mut rest)?)).map_err(|_| damaged())?;
    let body = take(&mut rest, body_length)?;
    let content = &whole[..whole.len() - rest.len()];
    if u64::from_le_bytes(take_array(&mut rest)?) != xxh3_64(content) {
        return Err(damaged());
    }
    *input = rest;
    let record = match kind {
        DATA => StreamRecord::Data(decode_data(header, body)?),
        SCHEMA => StreamRecord::Schema(json(header)?),
        MARK => StreamRecord::Mark(json(header)?),
        COMMITTABLE => {
            let h: CommittableHeader = json(header)?;
            StreamRecord::Committable(Committable {
                table: h.table,
                version: h.version,
                payload: body.to_vec(),
                rows: h.rows,
                size_bytes: h.size_bytes,
                commit_ms: h.commit_ms,
            })
        }
        PROGRESS => StreamRecord::Progress(json(header)?),
        COMMITTED => StreamRecord::Committed(json(header)?),
        FAILURE => {
            let FailureHeader { table, kind, message } = json(header)?;
            StreamRecord::Failure(TableFailure { table, error: Error::new(kind, message) })
        }
        _ => return Err(damaged()),
    };
    Ok(Some(record))
}

fn decode_data(header: &[u8], body: &[u8]) -> Result<DataChange> {
    let h: DataHeader = json(header)?;
    let mut rest = body;
    let kinds =
        take(&mut rest, h.rows)?.iter().map(|b| row_kind(*b)).collect::<Result<Vec<_>>>()?;
    let rows = read_batch(rest)?;
    if rows.num_rows() != h.rows || rows.num_columns() != h.schema.columns.len() {
        return Err(damaged());
    }
    let unavailable = match h.unavailable {
        Some(columns) => Some(Unavailable(
            columns
                .into_iter()
                .map(|c| c.map(|c| buffer_of(&c, h.rows)).transpose())
                .collect::<Result<_>>()?,
        )),
        None => None,
    };
    Ok(DataChange {
        table: h.table,
        schema: h.schema,
        kinds,
        rows,
        unavailable,
        segments: h.segments,
        snapshot: h.snapshot,
    })
}

fn frame<H: Serialize>(kind: u8, header: &H, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let header = serde_json::to_vec(header)
        .map_err(|e| Error::bug("could not encode a record's header").with_source(e))?;
    let length =
        u32::try_from(header.len()).map_err(|_| Error::bug("a record's header is too large"))?;
    let start = out.len();
    out.push(kind);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(&(body.len() as u64).to_le_bytes());
    out.extend_from_slice(body);
    let checksum = xxh3_64(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
    Ok(())
}

fn write_batch(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let failed = |e| Error::bug("could not encode rows as Arrow IPC").with_source(e);
    let mut writer = StreamWriter::try_new(out, batch.schema_ref()).map_err(failed)?;
    writer.write(batch).map_err(failed)?;
    writer.finish().map_err(failed)
}

fn read_batch(bytes: &[u8]) -> Result<RecordBatch> {
    let failed = |e| Error::bug("could not decode rows from Arrow IPC").with_source(e);
    let mut reader = StreamReader::try_new(bytes, None).map_err(failed)?;
    match reader.next() {
        Some(batch) => batch.map_err(failed),
        None => Err(damaged()),
    }
}

fn indices_of(unavailable: &Unavailable) -> Vec<Option<Vec<u32>>> {
    let column = |b: &BooleanBuffer| b.set_indices().map(|i| i as u32).collect();
    unavailable.0.iter().map(|c| c.as_ref().map(column)).collect()
}

fn buffer_of(indices: &[u32], rows: usize) -> Result<BooleanBuffer> {
    let mut builder = BooleanBufferBuilder::new(rows);
    builder.append_n(rows, false);
    for i in indices {
        if *i as usize >= rows {
            return Err(damaged());
        }
        builder.set_bit(*i as usize, true);
    }
    Ok(builder.finish())
}

fn row_kind(byte: u8) -> Result<RowKind> {
    Ok(match byte {
        0 => RowKind::Insert,
        1 => RowKind::UpdateBefore,
        2 => RowKind::UpdateAfter,
        3 => RowKind::Delete,
        _ => return Err(damaged()),
    })
}

fn json<T: DeserializeOwned>(header: &[u8]) -> Result<T> {
    serde_json::from_slice(header).map_err(|e| damaged().with_source(e))
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    let (head, tail) = input.split_at_checked(length).ok_or_else(damaged)?;
    *input = tail;
    Ok(head)
}

fn take_array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N]> {
    take(input, N)?.try_into().map_err(|_| damaged())
}

fn damaged() -> Error {
    Error::bug("a stored record is damaged or was written by a newer version of lakeward")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, DataType, DdlId, Position, SchemaChange, SchemaEvent};
    use arrow_array::{ArrayRef, Int32Array, StringArray};
    use proptest::prelude::*;

    fn sample(ids: Vec<Option<i32>>, names: Vec<Option<String>>, missing: Vec<u32>) -> DataChange {
        let schema = Arc::new(TableSchema::new(
            3,
            vec![
                Column::new("id", DataType::Int, false),
                Column::new("name", DataType::Varchar { length: 9 }, true),
            ],
            vec!["id".into()],
        ));
        let n = ids.len();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int32Array::from(ids)), Arc::new(StringArray::from(names))];
        DataChange {
            table: TableId::new("shop", "orders"),
            rows: RecordBatch::try_new(schema.arrow_schema(), columns).expect("valid"),
            schema,
            kinds: (0..n).map(|i| row_kind((i % 4) as u8).expect("valid")).collect(),
            unavailable: Some(Unavailable(vec![
                None,
                Some(buffer_of(&missing, n).expect("valid")),
            ])),
            segments: vec![Segment {
                end: n as u32,
                position: Position { hi: 1, lo: 2 },
                commit_ms: 5,
            }],
            snapshot: false,
        }
    }

    proptest! {
        #[test]
        fn data_survives_the_round_trip(rows in prop::collection::vec((any::<Option<i32>>(), any::<Option<String>>()), 1..40)) {
            let (ids, names): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
            let missing = (0..ids.len() as u32).filter(|i| i % 3 == 0).collect();
            let change = sample(ids, names, missing);
            let mut bytes = Vec::new();
            encode(&StreamRecord::Data(change.clone()), &mut bytes).unwrap();
            encode(&StreamRecord::Data(change.clone()), &mut bytes).unwrap();
            let mut input = bytes.as_slice();
            for _ in 0..2 {
                let Some(StreamRecord::Data(back)) = decode(&mut input).unwrap() else { panic!("data expected") };
                prop_assert_eq!(&back.rows, &change.rows);
                prop_assert_eq!(&back.kinds, &change.kinds);
                prop_assert_eq!(&back.unavailable, &change.unavailable);
                prop_assert_eq!(&back.segments, &change.segments);
                prop_assert_eq!(&back.schema, &change.schema);
            }
            prop_assert!(decode(&mut input).unwrap().is_none());
        }

        #[test]
        fn damaged_frames_are_errors_not_panics(cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            encode(&StreamRecord::Data(sample(vec![Some(1)], vec![None], vec![0])), &mut bytes).unwrap();
            let cut = cut.index(bytes.len());
            if cut > 0 {
                prop_assert!(decode(&mut &bytes[..cut]).is_err());
            }
            let at = flip.index(bytes.len());
            bytes[at] ^= 0xff;
            prop_assert!(decode(&mut bytes.as_slice()).is_err());
        }
    }

    #[test]
    fn schema_events_survive_the_round_trip() {
        let table = TableId::new("a.b", "c");
        let position = Position { hi: 1, lo: u64::MAX };
        let event = SchemaEvent {
            table: table.clone(),
            id: DdlId { table, position },
            changes: vec![SchemaChange::TruncateTable],
            before: None,
            after: None,
            position,
            commit_ms: 1,
        };
        let mut bytes = Vec::new();
        encode(&StreamRecord::Schema(event.clone()), &mut bytes).unwrap();
        match decode(&mut bytes.as_slice()).unwrap() {
            Some(StreamRecord::Schema(back)) => assert_eq!(back, event),
            other => panic!("{other:?}"),
        }
    }
}
