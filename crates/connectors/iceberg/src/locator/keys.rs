//! Keys as the locator holds them: exact in 8 or 16 bytes where the key's types allow it, a keyed 128-bit hash elsewhere.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use iceberg::spec::{PrimitiveType, Schema, Type};
use lakeward_core::keys::canonical_values;
use lakeward_core::{Error, Result};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// How a table's keys are encoded. Widening a key column does not change its class, nor the encoding of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyClass {
    /// One integer, date or timestamp: an order-preserving 64-bit number, exact.
    K8,
    /// Two of those, one decimal or one UUID: an order-preserving 128-bit number, exact.
    K16,
    /// Anything else: a 128-bit hash under the table's own seed. With 64 bits two of a billion keys would be taken for one
    /// with a probability of some percent, and a wrong row deleted.
    H16,
}

/// What a row's key is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPlan {
    pub(crate) class: KeyClass,
    /// Field ids, in key order. All of the table's for one without a key.
    pub(crate) fields: Vec<i32>,
    /// False for a table without a key: equal rows are distinct.
    pub(crate) unique: bool,
    seed: u64,
}

/// The keys of some rows, in their order.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    Narrow(Vec<u64>),
    Wide(Vec<Wide>),
}

/// Two halves instead of a `u128`, whose alignment would make a locator entry a third larger. Ordered as the number.
pub(crate) type Wide = [u64; 2];

impl KeyPlan {
    /// `key` holds field ids in key order; empty for a table without a key.
    pub(crate) fn new(schema: &Schema, key: &[i32], table_seed: u64) -> Result<Self> {
        if key.is_empty() {
            let fields = schema.as_struct().fields().iter().map(|f| f.id).collect();
            return Ok(Self { class: KeyClass::H16, fields, unique: false, seed: table_seed });
        }
        let mut parts = Vec::with_capacity(key.len());
        for id in key {
            let field = schema
                .field_by_id(*id)
                .ok_or_else(|| Error::bug("a key column is not in the schema").with("field", id))?;
            parts.push(match (&*field.field_type, field.required) {
                // An exact encoding has no room for null.
                (Type::Primitive(primitive), true) => bytes_of(primitive),
                _ => None,
            });
        }
        let class = match parts.as_slice() {
            [Some(8)] => KeyClass::K8,
            [Some(16)] | [Some(8), Some(8)] => KeyClass::K16,
            _ => KeyClass::H16,
        };
        Ok(Self { class, fields: key.to_vec(), unique: true, seed: table_seed })
    }

    /// Encodes the key of each row. `columns` are the batch's columns of [`KeyPlan::fields`], in that order.
    ///
    /// # Errors
    /// `DataInvalid` for a null where the class has no room for one.
    pub(crate) fn encode(&self, rows: &RecordBatch, columns: &[usize]) -> Result<Keys> {
        let arrays: Vec<&dyn Array> = columns.iter().map(|c| rows.column(*c).as_ref()).collect();
        match (self.class, arrays.as_slice()) {
            (KeyClass::K8, [key]) => Ok(Keys::Narrow(ordered(*key)?)),
            (KeyClass::K16, [hi, lo]) => {
                let (hi, lo) = (ordered(*hi)?, ordered(*lo)?);
                Ok(Keys::Wide(hi.into_iter().zip(lo).map(|(hi, lo)| [hi, lo]).collect()))
            }
            (KeyClass::K16, [key]) => Ok(Keys::Wide(ordered_wide(*key)?)),
            (KeyClass::H16, _) => self.hash(&arrays, rows.num_rows()),
            _ => Err(Error::bug("a key has more columns than its class")),
        }
    }

    /// Room for the keys of so many rows.
    pub(crate) fn no_keys(&self, rows: usize) -> Keys {
        match self.class {
            KeyClass::K8 => Keys::Narrow(Vec::with_capacity(rows)),
            KeyClass::K16 | KeyClass::H16 => Keys::Wide(Vec::with_capacity(rows)),
        }
    }

    /// The sum of the hashes of the values that are not null: a column that is added with nulls, or moved, or renamed
    /// leaves the hashes of earlier rows as they are.
    fn hash(&self, arrays: &[&dyn Array], rows: usize) -> Result<Keys> {
        let mut sums = vec![0u128; rows];
        for (array, field) in arrays.iter().zip(&self.fields) {
            let seed = self.seed ^ (*field as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            canonical_values(*array, |row, value| {
                if let Some(value) = value {
                    sums[row] = sums[row].wrapping_add(xxh3_128_with_seed(value, seed));
                }
            })?;
        }
        Ok(Keys::Wide(sums.into_iter().map(halves).collect()))
    }
}

impl Keys {
    pub(crate) fn append(&mut self, more: Keys) -> Result<()> {
        match (self, more) {
            (Keys::Narrow(keys), Keys::Narrow(more)) => keys.extend(more),
            (Keys::Wide(keys), Keys::Wide(more)) => keys.extend(more),
            _ => return Err(Error::bug("keys of one class met keys of another")),
        }
        Ok(())
    }
}

/// Bytes of the exact encoding, where there is one.
fn bytes_of(primitive: &PrimitiveType) -> Option<usize> {
    match primitive {
        PrimitiveType::Int
        | PrimitiveType::Long
        | PrimitiveType::Date
        | PrimitiveType::Timestamp
        | PrimitiveType::Timestamptz => Some(8),
        PrimitiveType::Decimal { .. } | PrimitiveType::Uuid => Some(16),
        _ => None,
    }
}

fn halves(value: u128) -> Wide {
    [(value >> 64) as u64, value as u64]
}

fn ordered(array: &dyn Array) -> Result<Vec<u64>> {
    refuse_nulls(array)?;
    let flip = |v: i64| (v as u64) ^ (1 << 63);
    Ok(match array.data_type() {
        ArrowType::Int32 => {
            array.as_primitive::<Int32Type>().values().iter().map(|v| flip((*v).into())).collect()
        }
        ArrowType::Int64 => {
            array.as_primitive::<Int64Type>().values().iter().map(|v| flip(*v)).collect()
        }
        ArrowType::Date32 => {
            array.as_primitive::<Date32Type>().values().iter().map(|v| flip((*v).into())).collect()
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            let array = array.as_primitive::<TimestampMicrosecondType>();
            array.values().iter().map(|v| flip(*v)).collect()
        }
        other => return Err(unfit(other)),
    })
}

fn ordered_wide(array: &dyn Array) -> Result<Vec<Wide>> {
    refuse_nulls(array)?;
    Ok(match array.data_type() {
        ArrowType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            values.iter().map(|v| halves((*v as u128) ^ (1 << 127))).collect()
        }
        ArrowType::FixedSizeBinary(16) => {
            let array = array.as_fixed_size_binary();
            let wide = |row| {
                let bytes: [u8; 16] = array.value(row).try_into().expect("16 bytes each");
                halves(u128::from_be_bytes(bytes))
            };
            (0..array.len()).map(wide).collect()
        }
        other => return Err(unfit(other)),
    })
}

fn refuse_nulls(array: &dyn Array) -> Result<()> {
    if array.null_count() > 0 {
        return Err(Error::data_invalid(
            "a row has no value in a column of its key; the key of a row must be known",
        ));
    }
    Ok(())
}

fn unfit(data_type: &ArrowType) -> Error {
    Error::bug("a key column does not have the layout of its class").with("type", data_type)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, StringArray};
    use arrow_schema::{Field, Schema as ArrowSchema};
    use iceberg::spec::NestedField;
    use proptest::prelude::*;

    use super::*;

    fn schema(types: &[(PrimitiveType, bool)]) -> Schema {
        let fields = types.iter().enumerate().map(|(i, (primitive, required))| {
            let (id, field_type) = (i as i32 + 1, Type::Primitive(primitive.clone()));
            Arc::new(NestedField::new(id, format!("c{id}"), field_type, *required))
        });
        Schema::builder().with_fields(fields).build().expect("a schema")
    }

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let fields: Vec<Field> = columns
            .iter()
            .enumerate()
            .map(|(i, c)| Field::new(format!("c{i}"), c.data_type().clone(), true))
            .collect();
        RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns).expect("a batch")
    }

    fn wide(keys: Keys) -> Vec<Wide> {
        match keys {
            Keys::Wide(keys) => keys,
            Keys::Narrow(_) => panic!("narrow"),
        }
    }

    fn class(types: &[(PrimitiveType, bool)], key: &[i32]) -> KeyClass {
        KeyPlan::new(&schema(types), key, 0).expect("a plan").class
    }

    #[test]
    fn classes_follow_the_types() {
        use PrimitiveType::*;
        assert_eq!(class(&[(Int, true)], &[1]), KeyClass::K8);
        assert_eq!(class(&[(Int, false)], &[1]), KeyClass::H16);
        assert_eq!(class(&[(Int, true), (Timestamp, true)], &[2, 1]), KeyClass::K16);
        assert_eq!(class(&[(Decimal { precision: 20, scale: 0 }, true)], &[1]), KeyClass::K16);
        assert_eq!(class(&[(String, true)], &[1]), KeyClass::H16);
        assert_eq!(class(&[(Int, true), (Int, true), (Int, true)], &[1, 2, 3]), KeyClass::H16);
        assert_eq!(class(&[(Int, true)], &[]), KeyClass::H16);
    }

    proptest! {
        #[test]
        fn exact_encodings_keep_order(a in any::<i32>(), b in any::<i32>(), c in any::<i64>(), d in any::<i64>()) {
            let one = KeyPlan::new(&schema(&[(PrimitiveType::Int, true)]), &[1], 9).unwrap();
            let Keys::Narrow(keys) =
                one.encode(&batch(vec![Arc::new(Int32Array::from(vec![a, b]))]), &[0]).unwrap()
            else { panic!("wide") };
            prop_assert_eq!(keys[0].cmp(&keys[1]), a.cmp(&b));
            // The same key in a wider column is the same key.
            let Keys::Narrow(wider) = one
                .encode(&batch(vec![Arc::new(Int64Array::from(vec![a as i64, b as i64]))]), &[0])
                .unwrap()
            else { panic!("wide") };
            prop_assert_eq!(keys, wider);
            let two =
                KeyPlan::new(&schema(&[(PrimitiveType::Int, true), (PrimitiveType::Long, true)]), &[1, 2], 9)
                    .unwrap();
            let rows = batch(vec![
                Arc::new(Int32Array::from(vec![a, b])),
                Arc::new(Int64Array::from(vec![c, d])),
            ]);
            let keys = wide(two.encode(&rows, &[0, 1]).unwrap());
            prop_assert_eq!(keys[0].cmp(&keys[1]), (a, c).cmp(&(b, d)));
        }

        #[test]
        fn decimals_keep_order(a in -10i128.pow(37)..10i128.pow(37), b in -10i128.pow(37)..10i128.pow(37)) {
            let plan = KeyPlan::new(
                &schema(&[(PrimitiveType::Decimal { precision: 38, scale: 0 }, true)]),
                &[1],
                0,
            )
            .unwrap();
            let column = Decimal128Array::from(vec![a, b]).with_precision_and_scale(38, 0).unwrap();
            let keys = wide(plan.encode(&batch(vec![Arc::new(column)]), &[0]).unwrap());
            prop_assert_eq!(keys[0].cmp(&keys[1]), a.cmp(&b));
        }
    }

    #[test]
    fn an_added_null_column_keeps_the_hash_of_a_row() {
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let before = KeyPlan::new(&schema(&[(PrimitiveType::String, false)]), &[], 5).unwrap();
        let after = KeyPlan::new(
            &schema(&[(PrimitiveType::String, false), (PrimitiveType::Int, false)]),
            &[],
            5,
        )
        .unwrap();
        let narrow = wide(before.encode(&batch(vec![text.clone()]), &[0]).unwrap());
        let nulls: ArrayRef = Arc::new(Int32Array::from(vec![None::<i32>, None]));
        let full = wide(after.encode(&batch(vec![text.clone(), nulls]), &[0, 1]).unwrap());
        assert_eq!(narrow, full);
        let ones: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(1)]));
        let other = wide(after.encode(&batch(vec![text, ones]), &[0, 1]).unwrap());
        assert_ne!(narrow, other);
    }

    #[test]
    fn equal_values_in_different_columns_are_different_keys() {
        let types = [(PrimitiveType::String, false), (PrimitiveType::String, false)];
        let plan = KeyPlan::new(&schema(&types), &[1, 2], 5).unwrap();
        let a: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
        let b: ArrayRef = Arc::new(StringArray::from(vec![None, Some("x")]));
        let keys = wide(plan.encode(&batch(vec![a, b]), &[0, 1]).unwrap());
        assert_ne!(keys[0], keys[1]);
    }
}
