//! A single constant value, such as a column's default.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray,
    new_null_array,
};

use crate::{DataType, Error, Result};

/// A constant, read under a column's [`DataType`].
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Literal {
    Null,
    Boolean(bool),
    /// An integer; days for DATE; microseconds for TIME, TIMESTAMP and TIMESTAMP_LTZ.
    Long(i64),
    Double(f64),
    /// Unscaled value under the column's own scale.
    Decimal(i128),
    String(Arc<str>),
    Binary(Vec<u8>),
}

impl Literal {
    /// An array of `length` times this value in the layout of `data_type`.
    ///
    /// # Errors
    /// `Bug` when the literal cannot be a value of that type.
    pub fn to_array(&self, data_type: &DataType, length: usize) -> Result<ArrayRef> {
        let long = |v: i64| v;
        let array: ArrayRef = match (data_type, self) {
            (_, Literal::Null) => new_null_array(&data_type.arrow_type(), length),
            (DataType::Boolean, Literal::Boolean(v)) => {
                Arc::new(BooleanArray::from(vec![*v; length]))
            }
            (DataType::TinyInt, Literal::Long(v)) => Arc::new(Int8Array::from_value(
                i8::try_from(*v).map_err(|_| mismatch(data_type))?,
                length,
            )),
            (DataType::SmallInt, Literal::Long(v)) => Arc::new(Int16Array::from_value(
                i16::try_from(*v).map_err(|_| mismatch(data_type))?,
                length,
            )),
            (DataType::Int, Literal::Long(v)) => Arc::new(Int32Array::from_value(
                i32::try_from(*v).map_err(|_| mismatch(data_type))?,
                length,
            )),
            (DataType::BigInt | DataType::Time { .. }, Literal::Long(v)) => {
                Arc::new(Int64Array::from_value(long(*v), length))
            }
            (DataType::Date, Literal::Long(v)) => Arc::new(Date32Array::from_value(
                i32::try_from(*v).map_err(|_| mismatch(data_type))?,
                length,
            )),
            (DataType::Timestamp { .. }, Literal::Long(v)) => {
                Arc::new(TimestampMicrosecondArray::from_value(*v, length))
            }
            (DataType::TimestampLtz { .. }, Literal::Long(v)) => {
                Arc::new(TimestampMicrosecondArray::from_value(*v, length).with_timezone("+00:00"))
            }
            (DataType::Float, Literal::Double(v)) => {
                Arc::new(Float32Array::from_value(*v as f32, length))
            }
            (DataType::Double, Literal::Double(v)) => {
                Arc::new(Float64Array::from_value(*v, length))
            }
            (DataType::Decimal { precision, scale }, Literal::Decimal(v)) => Arc::new(
                Decimal128Array::from_value(*v, length)
                    .with_precision_and_scale(*precision, *scale)
                    .map_err(|_| mismatch(data_type))?,
            ),
            (
                DataType::Char { .. }
                | DataType::Varchar { .. }
                | DataType::String
                | DataType::Json,
                Literal::String(v),
            ) => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&**v, length))),
            (
                DataType::Binary { .. } | DataType::Varbinary { .. } | DataType::Bytes,
                Literal::Binary(v),
            ) => Arc::new(BinaryArray::from_iter_values(std::iter::repeat_n(v.as_slice(), length))),
            _ => return Err(mismatch(data_type)),
        };
        Ok(array)
    }
}

fn mismatch(data_type: &DataType) -> Error {
    Error::bug("a constant does not fit its column's type").with("type", data_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;

    #[test]
    fn arrays_have_the_types_layout() {
        let cases = [
            (DataType::TinyInt, Literal::Long(-5)),
            (DataType::Decimal { precision: 20, scale: 0 }, Literal::Decimal(18446744073709551615)),
            (DataType::TimestampLtz { precision: 6 }, Literal::Long(1)),
            (DataType::Json, Literal::String("{}".into())),
            (DataType::Bytes, Literal::Binary(vec![0, 255])),
            (DataType::Date, Literal::Null),
        ];
        for (data_type, literal) in cases {
            let array = literal.to_array(&data_type, 3).expect("fits");
            assert_eq!(array.data_type(), &data_type.arrow_type());
            assert_eq!(array.len(), 3);
        }
        assert!(Literal::Long(300).to_array(&DataType::TinyInt, 1).is_err());
        assert!(Literal::Long(3).to_array(&DataType::String, 1).is_err());
    }
}
