//! Finds the columns whose values hardly repeat: a dictionary of them only costs time, and is given up in the end.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType as ArrowType;
use parquet::schema::types::ColumnPath;
use xxhash_rust::xxh3::xxh3_64;

/// Rows that are looked at.
const SAMPLE_ROWS: usize = 2_048;
/// Below this, chance decides.
const MIN_SAMPLE_ROWS: usize = 1_024;

/// The columns in which fewer than two in a hundred sampled values have been seen before.
pub(crate) fn distinct_columns(batch: &RecordBatch) -> Vec<ColumnPath> {
    let step = batch.num_rows().div_ceil(SAMPLE_ROWS).max(1);
    let schema = batch.schema_ref();
    let columns = schema.fields().iter().zip(batch.columns());
    columns
        .filter(|(_, column)| is_distinct(column, step))
        .map(|(field, _)| ColumnPath::new(vec![field.name().clone()]))
        .collect()
}

fn is_distinct(column: &dyn Array, step: usize) -> bool {
    let rows = (0..column.len()).step_by(step).filter(|row| column.is_valid(*row));
    let (seen, all) = match column.data_type() {
        ArrowType::Utf8 => {
            let values = column.as_string::<i32>();
            count(rows, |row| values.value(row).as_bytes())
        }
        ArrowType::Binary => {
            let values = column.as_binary::<i32>();
            count(rows, |row| values.value(row))
        }
        ArrowType::FixedSizeBinary(_) => {
            let values = column.as_fixed_size_binary();
            count(rows, |row| values.value(row))
        }
        other => {
            let Some(width) = other.primitive_width() else { return false };
            let data = column.to_data();
            let Some(buffer) = data.buffers().first() else { return false };
            let (bytes, offset) = (buffer.as_slice(), data.offset());
            count(rows, |row| &bytes[(offset + row) * width..(offset + row + 1) * width])
        }
    };
    all >= MIN_SAMPLE_ROWS && seen * 100 >= all * 98
}

/// Different values, and all of them.
fn count<'a>(
    rows: impl Iterator<Item = usize>,
    value: impl Fn(usize) -> &'a [u8],
) -> (usize, usize) {
    let mut seen = HashSet::with_capacity(SAMPLE_ROWS);
    let mut all = 0;
    for row in rows {
        seen.insert(xxh3_64(value(row)));
        all += 1;
    }
    (seen.len(), all)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

    use super::distinct_columns;

    #[test]
    fn columns_that_repeat_keep_their_dictionary() {
        let rows = 0..10_000_i64;
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("key", Arc::new(Int64Array::from_iter_values(rows.clone()))),
            ("some", Arc::new(Int64Array::from_iter_values(rows.clone().map(|n| n * 7919 % 900)))),
            (
                "text",
                Arc::new(StringArray::from_iter_values(rows.clone().map(|n| format!("t{n}")))),
            ),
            (
                "word",
                Arc::new(StringArray::from_iter_values(
                    rows.clone().map(|n| format!("t{}", n % 3)),
                )),
            ),
            (
                "rare",
                Arc::new(rows.clone().map(|n| (n % 50 == 0).then_some(n)).collect::<Int64Array>()),
            ),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let names = |batch: &RecordBatch| -> Vec<String> {
            distinct_columns(batch).iter().map(|c| c.string()).collect()
        };
        assert_eq!(names(&batch), ["key", "text"]);
        assert_eq!(names(&batch.slice(5_000, 5_000)), ["key", "text"]);
        assert!(names(&batch.slice(0, 1_000)).is_empty());
    }
}
