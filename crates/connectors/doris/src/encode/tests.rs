//! Bodies in every format.

use std::io::Read;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    StringArray, TimestampMicrosecondArray,
};
use arrow_ipc::reader::StreamReader;
use lakeward_core::{Column, DataChange, DataType, ErrorKind, Position, RowKind, Segment, TableId};

use super::*;
use crate::collapse::Buffer;
use crate::sequence::SEQUENCE_FIELD;

struct Fixture {
    schema: TableSchema,
    batches: Vec<RecordBatch>,
    rows: Vec<Row>,
    names: Vec<Option<String>>,
}

fn fixture(text: &str) -> Fixture {
    let decimal = DataType::Decimal { precision: 20, scale: 0 };
    let types = [
        ("id", DataType::BigInt),
        ("text", DataType::String),
        ("flag", DataType::Boolean),
        ("big", decimal),
        ("real", DataType::Double),
        ("day", DataType::Date),
        ("at", DataType::TimestampLtz { precision: 3 }),
        ("raw", DataType::Bytes),
    ];
    let columns = types.iter().map(|(name, t)| Column::new(*name, *t, true)).collect();
    let schema = TableSchema::new(1, columns, vec!["id".into()]);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2])),
        Arc::new(StringArray::from(vec![Some(text), None])),
        Arc::new(BooleanArray::from(vec![Some(true), None])),
        Arc::new(
            Decimal128Array::from(vec![Some(18_446_744_073_709_551_615), None])
                .with_precision_and_scale(20, 0)
                .expect("fits"),
        ),
        Arc::new(Float64Array::from(vec![Some(0.1), None])),
        Arc::new(Date32Array::from(vec![Some(19_782), None])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(1_500), None]).with_timezone("+00:00")),
        Arc::new(BinaryArray::from_opt_vec(vec![Some(&[0xff, 0]), None])),
    ];
    let mut buffer = Buffer::default();
    buffer.push(DataChange {
        table: TableId::new("d", "t"),
        rows: RecordBatch::try_new(schema.arrow_schema(), arrays).expect("valid"),
        schema: Arc::new(schema.clone()),
        kinds: vec![RowKind::Insert, RowKind::Delete],
        unavailable: None,
        segments: vec![Segment { end: 2, position: Position { hi: 0, lo: 7 }, commit_ms: 0 }],
        snapshot: false,
    });
    let mut collapsed = buffer.collapse(&schema, true).expect("collapsed");
    let names = schema.columns.iter().map(|c| Some(c.name.to_string())).collect();
    Fixture { schema, batches: collapsed.batches, rows: collapsed.groups.remove(0).rows, names }
}

fn body(fixture: &Fixture, format: BodyFormat) -> Result<Vec<u8>> {
    let columns: Vec<usize> = (0..fixture.schema.columns.len()).collect();
    let rows = Rows {
        schema: &fixture.schema,
        batches: &fixture.batches,
        rows: &fixture.rows,
        columns: &columns,
        names: &fixture.names,
        constants: &[("later".to_string(), Some("x".to_string()))],
        hidden: HiddenColumns { delete_sign: true, sequence: Some(SEQUENCE_FIELD) },
        zone_offset_seconds: 3600,
    };
    encode(&rows, format)
}

#[test]
fn json_lines() {
    let mut fixture = fixture("a \"b\"\n");
    fixture.names[2] = Some("flag2".into());
    let text = String::from_utf8(body(&fixture, BodyFormat::Json).expect("encoded")).expect("utf8");
    assert_eq!(
        text,
        "{\"id\":1,\"text\":\"a \\\"b\\\"\\n\",\"flag2\":true,\"big\":\"18446744073709551615\",\"real\":0.1,\
         \"day\":\"2024-02-29\",\"at\":\"1970-01-01 01:00:00.001\",\"raw\":\"/wA=\",\"later\":\"x\",\
         \"__DORIS_DELETE_SIGN__\":0,\"__lakeward_sequence\":\"7\"}\n\
         {\"id\":2,\"__DORIS_DELETE_SIGN__\":1,\"__lakeward_sequence\":\"7\"}\n"
    );
}

#[test]
fn csv_refuses_what_it_cannot_hold() {
    let text = body(&fixture("a,\"b\"\n"), BodyFormat::Csv).expect("encoded");
    let lines: Vec<&[u8]> = text.split(|b| *b == 2).collect();
    assert_eq!(lines.len(), 3);
    let cells: Vec<&[u8]> = lines[0].split(|b| *b == 1).collect();
    assert_eq!(cells[1], b"a,\"b\"\n");
    assert_eq!(cells.len(), 11);
    let deleted: Vec<&[u8]> = lines[1].split(|b| *b == 1).collect();
    assert_eq!((deleted[1], deleted[9]), (&b"\\N"[..], &b"1"[..]));
    for bad in ["a\u{1}b", "\u{2}", "\\N"] {
        let error = body(&fixture(bad), BodyFormat::Csv).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
        assert!(error.to_string().contains("column text"), "{error}");
    }
}

#[test]
fn arrow_streams() {
    let bytes = body(&fixture("x"), BodyFormat::Arrow).expect("encoded");
    let mut reader = StreamReader::try_new(bytes.as_slice(), None).expect("a stream");
    let batch = reader.next().expect("a batch").expect("read");
    assert_eq!(batch.num_rows(), 2);
    let of = |name: &str| batch.column_by_name(name).expect("a column").clone();
    assert_eq!(of("big").as_string::<i32>().value(0), "18446744073709551615");
    assert_eq!(of(SEQUENCE_FIELD).as_string::<i32>().value(1), "7");
    assert_eq!(of("later").as_string::<i32>().value(0), "x");
    assert!(arrow_array::Array::is_null(&of("text"), 1));
}

#[test]
fn compressed_bodies_are_what_they_were() {
    let body = b"abcabcabcabc".repeat(100);
    let gz = compress(body.clone(), Compression::Gzip).expect("compressed");
    let mut back = Vec::new();
    flate2::read::GzDecoder::new(gz.as_slice()).read_to_end(&mut back).expect("read");
    assert_eq!(back, body);
    let lz4 = compress(body.clone(), Compression::Lz4).expect("compressed");
    back.clear();
    lz4_flex::frame::FrameDecoder::new(lz4.as_slice()).read_to_end(&mut back).expect("read");
    assert_eq!(back, body);
    let zstd = compress(body.clone(), Compression::Zstd).expect("compressed");
    assert_eq!(zstd::decode_all(zstd.as_slice()).expect("read"), body);
    assert_eq!(compress(body.clone(), Compression::None).expect("same"), body);
}
