//! The headers of a stream load.

use std::time::Duration;

use hyper::HeaderMap;

use super::super::temporal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Csv { header_lines: usize },
    Json,
    Arrow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Bzip2,
    Lz4Frame,
    Deflate,
    Zstd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeType {
    Append,
    Delete,
    Merge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    Upsert,
    FixedColumns,
    FlexibleColumns,
}

/// What a load asks for.
#[derive(Debug, Clone)]
pub struct Options {
    pub label: Option<String>,
    pub two_phase_commit: bool,
    pub group_commit: bool,
    pub format: Format,
    pub compression: Compression,
    pub column_separator: String,
    pub line_delimiter: String,
    pub enclose: Option<u8>,
    pub escape: Option<u8>,
    pub trim_double_quotes: bool,
    pub skip_lines: usize,
    pub read_json_by_line: bool,
    pub strip_outer_array: bool,
    pub columns: Option<String>,
    pub hidden_columns: Vec<String>,
    pub sequence_column: Option<String>,
    pub merge_type: MergeType,
    pub delete_condition: Option<String>,
    pub where_condition: Option<String>,
    pub update_mode: UpdateMode,
    pub max_filter_ratio: f64,
    pub strict_mode: bool,
    pub offset_minutes: Option<i32>,
    pub timeout: Option<Duration>,
    pub comment: String,
}

/// Headers that mean something to Doris and that this stand-in cannot honour.
const NOT_MODELLED: &[&str] = &["jsonpaths", "json_root", "partitions", "temporary_partitions"];

impl Options {
    /// # Errors
    /// The message of the load's answer.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, String> {
        let text = |name: &str| {
            let value = headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let is = |name: &str, word: &str| text(name).is_some_and(|v| v.eq_ignore_ascii_case(word));
        if let Some(header) = NOT_MODELLED.iter().find(|h| text(h).is_some()) {
            return Err(format!("[NOT_IMPLEMENTED_ERROR]the stand-in does not know `{header}`"));
        }
        let two_phase_commit = text("two_phase_commit").is_some_and(|v| v == "true");
        let format = format(text("format").as_deref())?;
        let compression = compression(text("compress_type").as_deref())?;
        if format == Format::Json && compression != Compression::None {
            return Err("[INTERNAL_ERROR]compress data of JSON format is not supported.".into());
        }
        let strict_mode = match text("strict_mode") {
            None => false,
            Some(v) if v.eq_ignore_ascii_case("true") => true,
            Some(v) if v.eq_ignore_ascii_case("false") => false,
            Some(_) => {
                return Err(
                    "[INVALID_ARGUMENT]Invalid strict mode format. Must be bool type".into()
                );
            }
        };
        let max_filter_ratio = number::<f64>("max_filter_ratio", text("max_filter_ratio"))?;
        if max_filter_ratio.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio)) {
            return Err("[ANALYSIS_ERROR]max filter ratio should in [0, 1]".into());
        }
        let seconds = number::<u64>("timeout", text("timeout"))?;
        let offset_minutes = match text("timezone") {
            None => None,
            Some(zone) => Some(temporal::offset(&zone).ok_or_else(|| {
                format!("[ANALYSIS_ERROR]Unknown or incorrect time zone: '{zone}'")
            })?),
        };
        let options = Self {
            label: text("label"),
            two_phase_commit,
            group_commit: group_commit(text("group_commit").as_deref())?,
            format,
            compression,
            column_separator: text("column_separator").map_or("\t".into(), |t| unescape(&t)),
            line_delimiter: text("line_delimiter").map_or("\n".into(), |t| unescape(&t)),
            enclose: text("enclose").map(|t| t.as_bytes()[0]),
            escape: text("escape").map(|t| t.as_bytes()[0]),
            trim_double_quotes: is("trim_double_quotes", "true"),
            skip_lines: number("skip_lines", text("skip_lines"))?.unwrap_or(0),
            read_json_by_line: is("read_json_by_line", "true"),
            strip_outer_array: is("strip_outer_array", "true"),
            columns: text("columns"),
            hidden_columns: text("hidden_columns")
                .map(|t| t.split(',').map(|c| c.trim().to_owned()).collect())
                .unwrap_or_default(),
            sequence_column: text("function_column.sequence_col"),
            merge_type: merge_type(text("merge_type").as_deref())?,
            delete_condition: text("delete"),
            where_condition: text("where"),
            update_mode: update_mode(
                text("unique_key_update_mode").as_deref(),
                is("partial_columns", "true"),
            )?,
            max_filter_ratio: max_filter_ratio.unwrap_or(0.0),
            strict_mode,
            offset_minutes,
            timeout: seconds.map(Duration::from_secs),
            comment: text("comment").unwrap_or_default(),
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        if self.group_commit && self.label.is_some() {
            return Err(
                "[INVALID_ARGUMENT]label and group_commit can't be set at the same time".into()
            );
        }
        if self.group_commit && self.two_phase_commit {
            return Err(
                "[INVALID_ARGUMENT]two_phase_commit and group_commit can't be set at the same time"
                    .into(),
            );
        }
        if self.group_commit && self.update_mode != UpdateMode::Upsert {
            return Err("[INVALID_ARGUMENT]group_commit does not support partial update".into());
        }
        match (self.merge_type, &self.delete_condition) {
            (MergeType::Merge, None) => {
                return Err(
                    "[ANALYSIS_ERROR]Excepted DELETE ON clause when merge type is MERGE.".into()
                );
            }
            (MergeType::Append | MergeType::Delete, Some(_)) => {
                return Err("[ANALYSIS_ERROR]not support DELETE ON clause when merge type is not \
                            MERGE."
                    .into());
            }
            _ => {}
        }
        if self.format == Format::Json && self.read_json_by_line && self.strip_outer_array {
            return Err("[ANALYSIS_ERROR]Use one of read_json_by_line and strip_outer_array".into());
        }
        if self.update_mode == UpdateMode::FlexibleColumns
            && (self.format != Format::Json || self.columns.is_some())
        {
            return Err(
                "[ANALYSIS_ERROR]flexible partial update only support json format as input \
                        file and no columns header"
                    .into(),
            );
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(name: &str, text: Option<String>) -> Result<Option<T>, String> {
    match text {
        None => Ok(None),
        Some(text) => match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("[INVALID_ARGUMENT]Invalid {name} format, {text}")),
        },
    }
}

fn format(text: Option<&str>) -> Result<Format, String> {
    Ok(match text.unwrap_or("csv").to_ascii_lowercase().as_str() {
        "csv" => Format::Csv { header_lines: 0 },
        "csv_with_names" => Format::Csv { header_lines: 1 },
        "csv_with_names_and_types" => Format::Csv { header_lines: 2 },
        "json" => Format::Json,
        "arrow" => Format::Arrow,
        other => return Err(format!("[INTERNAL_ERROR]unknown data format, format={other}")),
    })
}

fn compression(text: Option<&str>) -> Result<Compression, String> {
    Ok(match text.unwrap_or_default().to_ascii_lowercase().as_str() {
        "" => Compression::None,
        "gz" => Compression::Gzip,
        "bz2" => Compression::Bzip2,
        "lz4" | "lz4frame" => Compression::Lz4Frame,
        "deflate" => Compression::Deflate,
        "zstd" => Compression::Zstd,
        other => return Err(format!("[INTERNAL_ERROR]unknown compress type: {other}")),
    })
}

fn merge_type(text: Option<&str>) -> Result<MergeType, String> {
    Ok(match text.unwrap_or("append").to_ascii_lowercase().as_str() {
        "append" => MergeType::Append,
        "delete" => MergeType::Delete,
        "merge" => MergeType::Merge,
        other => return Err(format!("[INVALID_ARGUMENT]Invalid merge type {other}")),
    })
}

fn update_mode(text: Option<&str>, partial_columns: bool) -> Result<UpdateMode, String> {
    Ok(match text.unwrap_or_default().to_ascii_uppercase().as_str() {
        "" if partial_columns => UpdateMode::FixedColumns,
        "" | "UPSERT" => UpdateMode::Upsert,
        "UPDATE_FIXED_COLUMNS" => UpdateMode::FixedColumns,
        "UPDATE_FLEXIBLE_COLUMNS" => UpdateMode::FlexibleColumns,
        other => {
            return Err(format!("[INVALID_ARGUMENT]Invalid unique_key_partial_mode {other}"));
        }
    })
}

fn group_commit(text: Option<&str>) -> Result<bool, String> {
    match text.unwrap_or("off_mode").to_ascii_lowercase().as_str() {
        "off_mode" => Ok(false),
        "sync_mode" | "async_mode" => Ok(true),
        _ => Err("[INVALID_ARGUMENT]group_commit can only be [async_mode, sync_mode, off_mode]"
            .to_owned()),
    }
}

/// `\x01` is a byte, `\t` and `\n` are what they are in C.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let (c, used) = match tail.as_bytes() {
            [b'x' | b'X', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (u8::from_str_radix(&tail[1..3], 16).map_or('\\', char::from), 3)
            }
            [b't', ..] => ('\t', 1),
            [b'n', ..] => ('\n', 1),
            [b'r', ..] => ('\r', 1),
            _ => ('\\', 0),
        };
        out.push(c);
        rest = &tail[used..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &str)]) -> Result<Options, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        Options::from_headers(&map)
    }

    #[test]
    fn defaults_are_those_of_doris() {
        let options = read(&[]).unwrap();
        assert_eq!(options.format, Format::Csv { header_lines: 0 });
        assert_eq!(
            (options.column_separator.as_str(), options.line_delimiter.as_str()),
            ("\t", "\n")
        );
        assert!(
            !options.strict_mode && !options.two_phase_commit && options.max_filter_ratio == 0.0
        );
    }

    #[test]
    fn separators_in_hex() {
        let options =
            read(&[("column_separator", "\\x01"), ("line_delimiter", "\\x02\\n")]).unwrap();
        assert_eq!(options.column_separator, "\u{1}");
        assert_eq!(options.line_delimiter, "\u{2}\n");
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for headers in [
            &[("format", "json"), ("compress_type", "gz")][..],
            &[("group_commit", "async_mode"), ("label", "a")],
            &[("group_commit", "async_mode"), ("two_phase_commit", "true")],
            &[("merge_type", "MERGE")],
            &[("delete", "a=1")],
            &[("format", "xml")],
            &[("strict_mode", "yes")],
            &[("timezone", "Mars/Olympus")],
            &[("max_filter_ratio", "2")],
        ] {
            assert!(read(headers).is_err(), "{headers:?}");
        }
    }
}
