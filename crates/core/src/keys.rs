//! Hashes of keys: which of several instances a row belongs to, and what makes two keys equal.
//!
//! A key keeps its hash when its column is widened (`INT` to `BIGINT`, `FLOAT` to `DOUBLE`, more digits of a decimal, a
//! longer string), renamed or moved, since rows written before and after such a change must meet in one place.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result, TableId};

/// Where each row of a table goes: `hash % parallelism`, by the values of its key columns in any order: a key whose columns
/// change places stays where it is. Two keys with the same values in other columns meet; the hash is no identity.
///
/// Rows of a table without key columns all go where [`TableId::stable_hash`] says: equal rows must meet in one instance, and what makes two
/// rows equal changes with every added or dropped column.
///
/// # Errors
/// `Bug` for a column whose Arrow layout no [`crate::DataType`] has.
pub fn row_hashes(table: &TableId, rows: &RecordBatch, key_columns: &[usize]) -> Result<Vec<u64>> {
    if key_columns.is_empty() {
        return Ok(vec![table.stable_hash(); rows.num_rows()]);
    }
    let mut hashes = vec![0u64; rows.num_rows()];
    for &column in key_columns {
        canonical_values(rows.column(column), |row, value| {
            if let Some(value) = value {
                hashes[row] = hashes[row].wrapping_add(xxh3_64(value));
            }
        })?;
    }
    Ok(hashes)
}

/// Hands over each value of a column, in order, as bytes in which equal values of differently wide types are equal;
/// `None` for null. The bytes are a value's identity; their order means nothing.
///
/// # Errors
/// `Bug` for an Arrow layout that no [`crate::DataType`] has.
pub fn canonical_values(
    array: &dyn Array,
    mut take: impl FnMut(usize, Option<&[u8]>),
) -> Result<()> {
    match array.data_type() {
        ArrowType::Boolean => {
            let values = array.as_boolean();
            for row in 0..values.len() {
                match values.is_valid(row) {
                    true => take(row, Some(&i64::from(values.value(row)).to_le_bytes())),
                    false => take(row, None),
                }
            }
        }
        ArrowType::Int8 => fixed::<Int8Type, 8>(array, |v| i64::from(v).to_le_bytes(), take),
        ArrowType::Int16 => fixed::<Int16Type, 8>(array, |v| i64::from(v).to_le_bytes(), take),
        ArrowType::Int32 => fixed::<Int32Type, 8>(array, |v| i64::from(v).to_le_bytes(), take),
        ArrowType::Int64 => fixed::<Int64Type, 8>(array, i64::to_le_bytes, take),
        ArrowType::Date32 => fixed::<Date32Type, 8>(array, |v| i64::from(v).to_le_bytes(), take),
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            fixed::<TimestampMicrosecondType, 8>(array, i64::to_le_bytes, take)
        }
        ArrowType::Float32 => {
            fixed::<Float32Type, 8>(array, |v| f64::from(v).to_bits().to_le_bytes(), take)
        }
        ArrowType::Float64 => fixed::<Float64Type, 8>(array, |v| v.to_bits().to_le_bytes(), take),
        ArrowType::Decimal128(_, scale) => decimals(array, *scale, take),
        ArrowType::Utf8 => {
            bytes(array.as_string::<i32>().iter().map(|v| v.map(str::as_bytes)), take)
        }
        ArrowType::LargeUtf8 => {
            bytes(array.as_string::<i64>().iter().map(|v| v.map(str::as_bytes)), take)
        }
        ArrowType::Binary => bytes(array.as_binary::<i32>().iter(), take),
        ArrowType::LargeBinary => bytes(array.as_binary::<i64>().iter(), take),
        ArrowType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().iter(), take),
        other => {
            return Err(Error::bug("a column of this layout cannot be hashed").with("type", other));
        }
    }
    Ok(())
}

fn fixed<T: ArrowPrimitiveType, const N: usize>(
    array: &dyn Array,
    encode: impl Fn(T::Native) -> [u8; N],
    mut take: impl FnMut(usize, Option<&[u8]>),
) {
    let array = array.as_primitive::<T>();
    let values = array.values();
    match array.nulls() {
        None => {
            for (row, value) in values.iter().enumerate() {
                take(row, Some(&encode(*value)));
            }
        }
        Some(nulls) => {
            for (row, value) in values.iter().enumerate() {
                match nulls.is_valid(row) {
                    true => take(row, Some(&encode(*value))),
                    false => take(row, None),
                }
            }
        }
    }
}

/// A decimal without a fraction is the integer that it equals; another one is its digits without trailing zeros.
fn decimals(array: &dyn Array, scale: i8, mut take: impl FnMut(usize, Option<&[u8]>)) {
    let array = array.as_primitive::<Decimal128Type>();
    for row in 0..array.len() {
        if array.is_null(row) {
            take(row, None);
            continue;
        }
        let (mut digits, mut scale) = (array.value(row), scale);
        while scale > 0 && digits % 10 == 0 {
            digits /= 10;
            scale -= 1;
        }
        match i64::try_from(digits) {
            Ok(small) if scale == 0 => take(row, Some(&small.to_le_bytes())),
            _ => {
                let mut encoded = [0u8; 17];
                encoded[..16].copy_from_slice(&digits.to_le_bytes());
                encoded[16] = scale as u8;
                take(row, Some(&encoded));
            }
        }
    }
}

fn bytes<'a>(
    values: impl Iterator<Item = Option<&'a [u8]>>,
    mut take: impl FnMut(usize, Option<&[u8]>),
) {
    for (row, value) in values.enumerate() {
        take(row, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BinaryArray, Decimal128Array, Int32Array, Int64Array, StringArray,
    };
    use arrow_schema::{Field, Schema};
    use proptest::prelude::*;

    use super::*;

    fn hashes(columns: Vec<ArrayRef>) -> Vec<u64> {
        let fields: Vec<Field> = columns
            .iter()
            .enumerate()
            .map(|(i, c)| Field::new(format!("c{i}"), c.data_type().clone(), true))
            .collect();
        let keys: Vec<usize> = (0..columns.len()).collect();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a batch");
        row_hashes(&TableId::new("d", "t"), &rows, &keys).expect("hashes")
    }

    fn decimal(values: Vec<i128>, precision: u8, scale: i8) -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap())
    }

    proptest! {
        #[test]
        fn widening_keeps_the_hash(values in proptest::collection::vec(any::<i32>(), 1..40)) {
            let int: ArrayRef = Arc::new(Int32Array::from(values.clone()));
            let long: ArrayRef =
                Arc::new(Int64Array::from_iter_values(values.iter().map(|v| i64::from(*v))));
            let narrow = decimal(values.iter().map(|v| i128::from(*v)).collect(), 20, 0);
            let wide = decimal(values.iter().map(|v| i128::from(*v) * 100).collect(), 30, 2);
            let expected = hashes(vec![int]);
            prop_assert_eq!(&expected, &hashes(vec![long]));
            prop_assert_eq!(&expected, &hashes(vec![narrow]));
            prop_assert_eq!(&expected, &hashes(vec![wide]));
        }
    }

    #[test]
    fn different_keys_differ() {
        let a: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None, Some(1)]));
        let b: ArrayRef = Arc::new(Int32Array::from(vec![Some(2), Some(2), Some(0), None]));
        let all = hashes(vec![a, b]);
        for (i, x) in all.iter().enumerate() {
            for y in &all[i + 1..] {
                assert_ne!(x, y);
            }
        }
    }

    #[test]
    fn the_order_of_the_columns_does_not_count() {
        let a: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(7), None]));
        let b: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("y")]));
        assert_eq!(hashes(vec![a.clone(), b.clone()]), hashes(vec![b, a]));
    }

    #[test]
    fn text_and_bytes_are_the_same_key() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "", "é"]));
        let binary: ArrayRef =
            Arc::new(BinaryArray::from(vec!["a".as_bytes(), b"", "é".as_bytes()]));
        assert_eq!(hashes(vec![text]), hashes(vec![binary]));
    }

    #[test]
    fn rows_without_a_key_stay_together() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        let schema = Schema::new(vec![Field::new("a", ArrowType::Int32, true)]);
        let rows = RecordBatch::try_new(Arc::new(schema), vec![column]).expect("a batch");
        let table = TableId::new("d", "t");
        let all = row_hashes(&table, &rows, &[]).expect("hashes");
        assert_eq!(all, vec![table.stable_hash(); 3]);
    }
}
