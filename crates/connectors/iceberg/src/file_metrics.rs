//! A data file's column metrics, taken from its Parquet footer: what lets a reader skip the file.

use std::collections::HashMap;

use iceberg::spec::{Datum, PrimitiveType, Schema, Type};
use lakeward_core::{ErrorKind, Result, ResultExt};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

/// How many characters or bytes of a bound are kept, as Iceberg's `truncate(16)` metrics mode does.
const BOUND_LENGTH: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct FileMetrics {
    pub(crate) column_sizes: HashMap<i32, u64>,
    pub(crate) value_counts: HashMap<i32, u64>,
    pub(crate) null_counts: HashMap<i32, u64>,
    pub(crate) lower: HashMap<i32, Datum>,
    pub(crate) upper: HashMap<i32, Datum>,
    pub(crate) split_offsets: Vec<i64>,
}

impl FileMetrics {
    /// `schema` is the one that the file was written with.
    pub(crate) fn of(footer: &ParquetMetaData, schema: &Schema) -> Result<Self> {
        let mut metrics = Self::default();
        for group in footer.row_groups() {
            let mut start = i64::MAX;
            for chunk in group.columns() {
                let first = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
                start = start.min(first);
                let info = chunk.column_descr().self_type().get_basic_info();
                // Columns within lists and maps have no bounds of their own.
                if !info.has_id() || chunk.column_path().parts().len() > 1 {
                    continue;
                }
                let id = info.id();
                *metrics.column_sizes.entry(id).or_default() += chunk.compressed_size() as u64;
                *metrics.value_counts.entry(id).or_default() += chunk.num_values() as u64;
                let Some(statistics) = chunk.statistics() else { continue };
                *metrics.null_counts.entry(id).or_default() +=
                    statistics.null_count_opt().unwrap_or(0);
                if let Some(field) = schema.field_by_id(id)
                    && let Type::Primitive(primitive) = &*field.field_type
                {
                    metrics.widen(id, primitive, statistics)?;
                }
            }
            if start != i64::MAX {
                metrics.split_offsets.push(start);
            }
        }
        metrics.lower =
            metrics.lower.drain().map(|(id, datum)| (id, shorten_lower(datum))).collect();
        // A bound that cannot be shortened is left out: no bound is a true one.
        metrics.upper = metrics
            .upper
            .drain()
            .filter_map(|(id, datum)| Some((id, shorten_upper(datum)?)))
            .collect();
        Ok(metrics)
    }

    fn widen(&mut self, id: i32, primitive: &PrimitiveType, statistics: &Statistics) -> Result<()> {
        // Both may be cut by the Parquet writer, which then rounds them outward.
        if let Some(bytes) = statistics.min_bytes_opt() {
            let datum = datum(bytes, primitive, statistics)?;
            match self.lower.get(&id) {
                Some(lower) if *lower <= datum => {}
                _ => _ = self.lower.insert(id, datum),
            }
        }
        if let Some(bytes) = statistics.max_bytes_opt() {
            let datum = datum(bytes, primitive, statistics)?;
            match self.upper.get(&id) {
                Some(upper) if *upper >= datum => {}
                _ => _ = self.upper.insert(id, datum),
            }
        }
        Ok(())
    }
}

fn datum(bytes: &[u8], primitive: &PrimitiveType, statistics: &Statistics) -> Result<Datum> {
    let mut reversed;
    let bytes = match (primitive, statistics) {
        // Parquet's small decimals are little-endian integers, Iceberg's bounds are big-endian.
        (PrimitiveType::Decimal { .. }, Statistics::Int32(_) | Statistics::Int64(_)) => {
            reversed = bytes.to_vec();
            reversed.reverse();
            &reversed
        }
        _ => bytes,
    };
    Datum::try_from_bytes(bytes, primitive.clone())
        .or_err(ErrorKind::Bug, "a column's statistics do not fit its type")
}

fn shorten_lower(datum: Datum) -> Datum {
    match text_or_bytes(&datum) {
        Some(Cut::Text(text)) => Datum::string(text),
        Some(Cut::Bytes(bytes)) => Datum::binary(bytes),
        None => datum,
    }
}

fn shorten_upper(datum: Datum) -> Option<Datum> {
    match text_or_bytes(&datum) {
        Some(Cut::Text(text)) => next_text(&text).map(Datum::string),
        Some(Cut::Bytes(bytes)) => next_bytes(bytes).map(Datum::binary),
        None => Some(datum),
    }
}

enum Cut {
    Text(String),
    Bytes(Vec<u8>),
}

/// The head of a bound that is too long.
fn text_or_bytes(datum: &Datum) -> Option<Cut> {
    use iceberg::spec::PrimitiveLiteral::{Binary, String};
    match (datum.data_type(), datum.literal()) {
        (PrimitiveType::String, String(text)) => {
            let (end, _) = text.char_indices().nth(BOUND_LENGTH)?;
            Some(Cut::Text(text[..end].to_string()))
        }
        (PrimitiveType::Binary, Binary(bytes)) if bytes.len() > BOUND_LENGTH => {
            Some(Cut::Bytes(bytes[..BOUND_LENGTH].to_vec()))
        }
        _ => None,
    }
}

/// The least text that is greater than every text with this head.
fn next_text(head: &str) -> Option<String> {
    let mut chars: Vec<char> = head.chars().collect();
    while let Some(last) = chars.pop() {
        // Above the surrogates, which are no characters.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            _ => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

fn next_bytes(mut head: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = head.pop() {
        if last < u8::MAX {
            head.push(last + 1);
            return Some(head);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shortened_bounds_still_hold(text in "\\PC{0,40}", bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let whole = Datum::string(text.clone());
            prop_assert!(shorten_lower(whole.clone()) <= whole);
            if let Some(upper) = shorten_upper(whole.clone()) {
                prop_assert!(upper >= whole);
            }
            let whole = Datum::binary(bytes);
            prop_assert!(shorten_lower(whole.clone()) <= whole);
            if let Some(upper) = shorten_upper(whole.clone()) {
                prop_assert!(upper >= whole);
            }
        }
    }

    #[test]
    fn the_last_text_has_no_upper_bound() {
        let last: String = std::iter::repeat_n(char::MAX, 20).collect();
        assert_eq!(shorten_upper(Datum::string(&last)), None);
        assert_eq!(shorten_upper(Datum::binary(vec![0xff; 20])), None);
        let text = format!("{}\u{d7ff}tail", "a".repeat(15));
        let upper = shorten_upper(Datum::string(&text)).expect("has one");
        assert_eq!(upper, Datum::string(format!("{}\u{e000}", "a".repeat(15))));
    }
}
