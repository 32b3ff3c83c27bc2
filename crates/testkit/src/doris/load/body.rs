//! Bodies: decompressed, and cut into rows of texts.

use std::io::Read;

use arrow_array::{Array, BinaryArray, LargeBinaryArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::options::{Compression, Format, Options};

/// One row: its fields by name or by position, or why it is none.
#[derive(Debug, PartialEq, Eq)]
pub enum RawRow {
    /// As many as the line has.
    Positions(Vec<Option<String>>),
    /// The order of the fields is that of the body.
    Names(Vec<(String, Option<String>)>),
    Broken(String),
}

/// # Errors
/// Where the body as a whole cannot be read: the message of the load's answer.
pub fn rows(body: &[u8], options: &Options) -> Result<Vec<RawRow>, String> {
    let plain;
    let body = match options.compression {
        Compression::None => body,
        other => {
            plain = decompress(body, other)
                .map_err(|e| format!("[INTERNAL_ERROR]could not decompress the body: {e}"))?;
            &plain
        }
    };
    match options.format {
        Format::Json => json(body, options),
        Format::Csv { header_lines } => Ok(csv(body, options, header_lines)),
        Format::Arrow => arrow(body),
    }
}

fn decompress(mut body: &[u8], compression: Compression) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match compression {
        Compression::None => body.read_to_end(&mut out),
        Compression::Gzip => flate2::read::MultiGzDecoder::new(body).read_to_end(&mut out),
        Compression::Deflate => flate2::read::ZlibDecoder::new(body).read_to_end(&mut out),
        Compression::Bzip2 => bzip2::read::MultiBzDecoder::new(body).read_to_end(&mut out),
        Compression::Lz4Frame => lz4_flex::frame::FrameDecoder::new(body).read_to_end(&mut out),
        Compression::Zstd => zstd::stream::Decoder::new(body)?.read_to_end(&mut out),
    }?;
    Ok(out)
}

fn json(body: &[u8], options: &Options) -> Result<Vec<RawRow>, String> {
    let text = std::str::from_utf8(body)
        .map_err(|_| "[DATA_QUALITY_ERROR]the body is not UTF-8".to_owned())?;
    let error = |e: serde_json::Error| {
        format!("[DATA_QUALITY_ERROR]Parse json data failed. code: 28, error info: {e}")
    };
    if options.read_json_by_line {
        let lines = text.split(options.line_delimiter.as_str());
        return Ok(lines.filter(|line| !line.trim().is_empty()).map(json_row).collect());
    }
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if text.trim_start().starts_with('[') {
        if !options.strip_outer_array {
            return Err(
                "[DATA_QUALITY_ERROR]JSON data is array-object, `strip_outer_array` must be \
                        TRUE."
                    .into(),
            );
        }
        let rows: Vec<&RawValue> = serde_json::from_str(text).map_err(error)?;
        return Ok(rows.into_iter().map(|row| json_row(row.get())).collect());
    }
    if options.strip_outer_array {
        return Err(
            "[DATA_QUALITY_ERROR]JSON data is not an array-object, `strip_outer_array` must \
                    be FALSE."
                .into(),
        );
    }
    serde_json::from_str::<&RawValue>(text).map_err(error)?;
    Ok(vec![json_row(text)])
}

/// Fields in the order of the text.
struct JsonFields(Vec<(String, Option<String>)>);

impl<'de> Deserialize<'de> for JsonFields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> serde::de::Visitor<'de> for Fields {
            type Value = JsonFields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<JsonFields, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    fields.push((name, json_text(value.get())));
                }
                Ok(JsonFields(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

fn json_row(text: &str) -> RawRow {
    match serde_json::from_str::<JsonFields>(text) {
        Ok(fields) => RawRow::Names(fields.0),
        Err(why) => RawRow::Broken(format!("Parse json data for JsonDoc failed. {why}")),
    }
}

/// The text of a JSON value; nothing for null. Booleans are 1 and 0, as Doris' reader has them.
fn json_text(raw: &str) -> Option<String> {
    match raw.as_bytes().first() {
        Some(b'n') => None,
        Some(b't') => Some("1".to_owned()),
        Some(b'f') => Some("0".to_owned()),
        Some(b'"') => serde_json::from_str(raw).ok(),
        _ => Some(raw.to_owned()),
    }
}

fn csv(body: &[u8], options: &Options, header_lines: usize) -> Vec<RawRow> {
    let mut lines = csv_lines(body, options);
    lines.drain(..lines.len().min(header_lines + options.skip_lines));
    lines.into_iter().map(|line| csv_row(line, options)).collect()
}

/// Cut at the delimiter, but not within enclosed fields.
fn csv_lines<'a>(body: &'a [u8], options: &Options) -> Vec<&'a [u8]> {
    let delimiter = options.line_delimiter.as_bytes();
    let (mut lines, mut begun, mut at, mut enclosed) = (Vec::new(), 0, 0, false);
    while at < body.len() {
        if enclosed && options.escape == Some(body[at]) {
            at += 2;
        } else if options.enclose == Some(body[at]) {
            enclosed = !enclosed;
            at += 1;
        } else if !enclosed && body[at..].starts_with(delimiter) {
            lines.push(&body[begun..at]);
            at += delimiter.len();
            begun = at;
        } else {
            at += 1;
        }
    }
    if begun < body.len() {
        lines.push(&body[begun..]);
    }
    lines
}

fn csv_row(line: &[u8], options: &Options) -> RawRow {
    let separator = options.column_separator.as_bytes();
    let mut fields = Vec::new();
    let (mut field, mut at) = (Vec::new(), 0);
    let (mut enclosed, mut was_enclosed) = (false, false);
    loop {
        let end = at >= line.len();
        if end || (!enclosed && line[at..].starts_with(separator)) {
            let Ok(mut text) = String::from_utf8(std::mem::take(&mut field)) else {
                return RawRow::Broken(
                    "Unable to display, only support csv data in utf8 codec".into(),
                );
            };
            if options.trim_double_quotes
                && text.len() > 1
                && text.starts_with('"')
                && text.ends_with('"')
            {
                text = text[1..text.len() - 1].to_owned();
            }
            fields.push((was_enclosed || text != "\\N").then_some(text));
            was_enclosed = false;
            if end {
                return RawRow::Positions(fields);
            }
            at += separator.len();
        } else if enclosed && options.escape == Some(line[at]) && at + 1 < line.len() {
            field.push(line[at + 1]);
            at += 2;
        } else if options.enclose == Some(line[at]) && (enclosed || field.is_empty()) {
            // A doubled sign stands for itself.
            if enclosed && line.get(at + 1).copied() == options.enclose {
                field.push(line[at]);
                at += 1;
            } else {
                enclosed = !enclosed;
                was_enclosed = true;
            }
            at += 1;
        } else {
            field.push(line[at]);
            at += 1;
        }
    }
}

fn arrow(body: &[u8]) -> Result<Vec<RawRow>, String> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let error = |e: arrow_schema::ArrowError| format!("[INTERNAL_ERROR]could not read Arrow: {e}");
    let reader = arrow_ipc::reader::StreamReader::try_new(body, None).map_err(error)?;
    let mut rows = Vec::new();
    let print = FormatOptions::new();
    for batch in reader {
        let batch = batch.map_err(error)?;
        let schema = batch.schema();
        let mut cells = Vec::new();
        for column in batch.columns() {
            cells.push(arrow_texts(column.as_ref(), &print).map_err(error)?);
        }
        for row in 0..batch.num_rows() {
            let names = schema.fields().iter().map(|f| f.name().clone());
            rows.push(RawRow::Names(names.zip(cells.iter().map(|c| c[row].clone())).collect()));
        }
    }
    Ok(rows)
}

fn arrow_texts(
    column: &dyn Array,
    print: &FormatOptions<'_>,
) -> Result<Vec<Option<String>>, arrow_schema::ArrowError> {
    let text = |bytes: Option<&[u8]>| bytes.map(|b| String::from_utf8_lossy(b).into_owned());
    if let Some(bytes) = column.as_any().downcast_ref::<BinaryArray>() {
        return Ok(bytes.iter().map(text).collect());
    }
    if let Some(bytes) = column.as_any().downcast_ref::<LargeBinaryArray>() {
        return Ok(bytes.iter().map(text).collect());
    }
    let printer = ArrayFormatter::try_new(column, print)?;
    (0..column.len())
        .map(|row| match column.is_null(row) {
            true => Ok(None),
            false => printer.value(row).try_to_string().map(Some),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;

    use super::*;

    fn read(headers: &[(&'static str, &str)], body: &[u8]) -> Result<Vec<RawRow>, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        rows(body, &Options::from_headers(&map).unwrap())
    }

    fn positions(fields: &[Option<&str>]) -> RawRow {
        RawRow::Positions(fields.iter().map(|f| f.map(str::to_owned)).collect())
    }

    #[test]
    fn csv_knows_null_enclosures_and_escapes() {
        let enclosed = [("column_separator", ","), ("enclose", "'"), ("escape", "\\")];
        assert_eq!(
            read(&enclosed, b"1,\\N,'a,\n''b\\'c',''\n2,'\\N',x,").unwrap(),
            [
                positions(&[Some("1"), None, Some("a,\n'b'c"), Some("")]),
                positions(&[Some("2"), Some("N"), Some("x"), Some("")]),
            ]
        );
        let names = [("format", "csv_with_names"), ("column_separator", "|")];
        assert_eq!(read(&names, b"a|b\n1|2\n").unwrap(), [positions(&[Some("1"), Some("2")])]);
    }

    #[test]
    fn json_by_line_and_in_an_array() {
        let row = RawRow::Names(vec![
            ("b".into(), Some("1.50".into())),
            ("a".into(), None),
            ("c".into(), Some("1".into())),
            ("d".into(), Some("{\"x\": 1}".into())),
        ]);
        let text = br#"{"b":1.50,"a":null,"c":true,"d":{"x": 1}}"#;
        let by_line = [("format", "json"), ("read_json_by_line", "true")];
        assert_eq!(read(&by_line, text).unwrap(), [row]);
        let broken = read(&by_line, b"{\"a\":1}\n{\"a\":").unwrap();
        assert!(matches!(&broken[..], [RawRow::Names(_), RawRow::Broken(_)]), "{broken:?}");
        let array = [("format", "json"), ("strip_outer_array", "true")];
        assert_eq!(read(&array, br#"[{"a":"1"},{"a":"2"}]"#).unwrap().len(), 2);
        assert!(read(&[("format", "json")], b"[{}]").is_err());
        assert!(read(&array, b"[{},").is_err());
    }

    #[test]
    fn compressed_csv() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, b"1\t2\n").unwrap();
        let body = gzip.finish().unwrap();
        let rows = read(&[("compress_type", "gz")], &body).unwrap();
        assert_eq!(rows, [positions(&[Some("1"), Some("2")])]);
        assert!(read(&[("compress_type", "gz")], b"1\t2\n").is_err());
    }
}
