//! Growing Arrow columns. A row's cells are pushed one by one; [`ColumnBuilder::truncate`] takes
//! the cells of a row back that turned out to be unreadable, so that columns never differ in
//! length.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, StringArray,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};
use lakeward_core::{DataType, Error, Literal, Result};

/// Fixed-width values with their validity.
#[derive(Debug)]
pub(crate) struct Fixed<T> {
    values: Vec<T>,
    nulls: NullBufferBuilder,
    /// What recent batches had: room for as much is made at the first value of the next one.
    expected: usize,
}

impl<T: Copy + Default> Fixed<T> {
    fn new() -> Self {
        Self { values: Vec::new(), nulls: NullBufferBuilder::new(0), expected: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        make_room(&mut self.values, self.expected);
        self.values.push(value);
        self.nulls.append_non_null();
    }

    fn push_null(&mut self) {
        make_room(&mut self.values, self.expected);
        self.values.push(T::default());
        self.nulls.append_null();
    }

    fn truncate(&mut self, length: usize) {
        self.values.truncate(length);
        self.nulls.truncate(length);
    }

    fn finish<A: ArrowPrimitiveType<Native = T>>(&mut self) -> PrimitiveArray<A>
    where
        T: ArrowNativeType,
    {
        let values = std::mem::take(&mut self.values);
        self.expected = room_after(self.expected, values.len());
        PrimitiveArray::new(ScalarBuffer::from(values), self.nulls.finish())
    }
}

/// Byte strings and text with their validity.
#[derive(Debug)]
pub(crate) struct Bytes {
    data: Vec<u8>,
    /// Where each value ends.
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    /// Values and bytes of recent batches.
    expected: (usize, usize),
}

impl Bytes {
    fn new() -> Self {
        Self {
            data: Vec::new(),
            ends: Vec::new(),
            nulls: NullBufferBuilder::new(0),
            expected: (0, 0),
        }
    }

    /// Where the bytes of the next value go; [`Bytes::end_value`] closes it.
    #[inline]
    pub(crate) fn data(&mut self) -> &mut Vec<u8> {
        make_room(&mut self.data, self.expected.1);
        &mut self.data
    }

    #[inline]
    pub(crate) fn end_value(&mut self) -> Result<()> {
        let end = i32::try_from(self.data.len()).map_err(|_| too_large())?;
        make_room(&mut self.ends, self.expected.0);
        self.ends.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) -> Result<()> {
        self.data().extend_from_slice(value);
        self.end_value()
    }

    fn push_null(&mut self) {
        make_room(&mut self.ends, self.expected.0);
        self.ends.push(self.data.len() as i32);
        self.nulls.append_null();
    }

    fn start(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.ends[row - 1] as usize }
    }

    fn truncate(&mut self, length: usize) {
        self.data.truncate(if length > self.ends.len() {
            self.data.len()
        } else {
            self.start(length)
        });
        self.ends.truncate(length);
        self.nulls.truncate(length);
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, Buffer, Option<arrow_buffer::NullBuffer>) {
        let (values, bytes) = self.expected;
        self.expected =
            (room_after(values, self.ends.len()), room_after(bytes, self.data.len() * 9 / 8));
        let ends = std::mem::take(&mut self.ends);
        let mut offsets = Vec::with_capacity(ends.len() + 1);
        offsets.push(0);
        offsets.extend(ends);
        let data = std::mem::take(&mut self.data);
        (OffsetBuffer::new(offsets.into()), Buffer::from_vec(data), self.nulls.finish())
    }
}

/// Instead of growing from nothing by doubling, which copies all values again and leaves up to as much room unused.
#[inline]
fn make_room<T>(values: &mut Vec<T>, expected: usize) {
    if values.capacity() == 0 {
        values.reserve_exact(expected);
    }
}

/// Room for the next batch: one small batch among large ones does not count for much.
fn room_after(expected: usize, seen: usize) -> usize {
    seen.max(expected - expected / 4)
}

#[cold]
fn too_large() -> Error {
    Error::data_invalid("the values of one batch take more than two gigabytes in this column")
}

/// One column under construction, in the Arrow layout of its [`DataType`].
#[derive(Debug)]
pub(crate) enum ColumnBuilder {
    Boolean(Fixed<bool>),
    Int8(Fixed<i8>),
    Int16(Fixed<i16>),
    Int32(Fixed<i32>),
    Int64(Fixed<i64>),
    Float32(Fixed<f32>),
    Float64(Fixed<f64>),
    Decimal { precision: u8, scale: i8, values: Fixed<i128> },
    Date(Fixed<i32>),
    Timestamp { utc: bool, values: Fixed<i64> },
    Text(Bytes),
    Binary(Bytes),
}

macro_rules! each {
    ($builder:expr, $values:ident => $do:expr) => {
        match $builder {
            ColumnBuilder::Boolean($values) => $do,
            ColumnBuilder::Int8($values) => $do,
            ColumnBuilder::Int16($values) => $do,
            ColumnBuilder::Int32($values) => $do,
            ColumnBuilder::Int64($values) => $do,
            ColumnBuilder::Float32($values) => $do,
            ColumnBuilder::Float64($values) => $do,
            ColumnBuilder::Decimal { values: $values, .. } => $do,
            ColumnBuilder::Date($values) => $do,
            ColumnBuilder::Timestamp { values: $values, .. } => $do,
            ColumnBuilder::Text($values) => $do,
            ColumnBuilder::Binary($values) => $do,
        }
    };
}

impl ColumnBuilder {
    pub(crate) fn new(data_type: &DataType) -> Self {
        match *data_type {
            DataType::Boolean => Self::Boolean(Fixed::new()),
            DataType::TinyInt => Self::Int8(Fixed::new()),
            DataType::SmallInt => Self::Int16(Fixed::new()),
            DataType::Int => Self::Int32(Fixed::new()),
            DataType::BigInt | DataType::Time { .. } => Self::Int64(Fixed::new()),
            DataType::Float => Self::Float32(Fixed::new()),
            DataType::Double => Self::Float64(Fixed::new()),
            DataType::Decimal { precision, scale } => {
                Self::Decimal { precision, scale, values: Fixed::new() }
            }
            DataType::Date => Self::Date(Fixed::new()),
            DataType::Timestamp { .. } => Self::Timestamp { utc: false, values: Fixed::new() },
            DataType::TimestampLtz { .. } => Self::Timestamp { utc: true, values: Fixed::new() },
            DataType::Char { .. }
            | DataType::Varchar { .. }
            | DataType::String
            | DataType::Json => Self::Text(Bytes::new()),
            DataType::Binary { .. } | DataType::Varbinary { .. } | DataType::Bytes => {
                Self::Binary(Bytes::new())
            }
        }
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        each!(self, values => values.push_null());
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        each!(self, values => values.truncate(length));
    }

    /// What the values take, without spare capacity.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Boolean(v) => v.values.len(),
            Self::Int8(v) => v.values.len(),
            Self::Int16(v) => v.values.len() * 2,
            Self::Int32(v) | Self::Date(v) => v.values.len() * 4,
            Self::Float32(v) => v.values.len() * 4,
            Self::Int64(v) | Self::Timestamp { values: v, .. } => v.values.len() * 8,
            Self::Float64(v) => v.values.len() * 8,
            Self::Decimal { values, .. } => values.values.len() * 16,
            Self::Text(v) | Self::Binary(v) => v.data.len() + v.ends.len() * 4,
        }
    }

    /// Pushes an integer into whichever integer column this is.
    #[inline]
    pub(crate) fn push_long(&mut self, value: i64) -> Result<()> {
        match self {
            Self::Boolean(v) => v.push(value != 0),
            Self::Int8(v) => v.push(i8::try_from(value).map_err(|_| mismatch())?),
            Self::Int16(v) => v.push(i16::try_from(value).map_err(|_| mismatch())?),
            Self::Int32(v) | Self::Date(v) => v.push(i32::try_from(value).map_err(|_| mismatch())?),
            Self::Int64(v) | Self::Timestamp { values: v, .. } => v.push(value),
            Self::Decimal { values, .. } => values.push(value.into()),
            _ => return Err(mismatch()),
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn push_decimal(&mut self, value: i128) -> Result<()> {
        match self {
            Self::Decimal { values, .. } => values.push(value),
            _ => return Err(mismatch()),
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn push_float(&mut self, value: f32) -> Result<()> {
        match self {
            Self::Float32(v) => v.push(value),
            _ => return Err(mismatch()),
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn push_double(&mut self, value: f64) -> Result<()> {
        match self {
            Self::Float64(v) => v.push(value),
            _ => return Err(mismatch()),
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Result<&mut Bytes> {
        match self {
            Self::Text(v) => Ok(v),
            _ => Err(mismatch()),
        }
    }

    #[inline]
    pub(crate) fn binary(&mut self) -> Result<&mut Bytes> {
        match self {
            Self::Binary(v) => Ok(v),
            _ => Err(mismatch()),
        }
    }

    pub(crate) fn push_literal(&mut self, literal: &Literal) -> Result<()> {
        match literal {
            Literal::Null => self.push_null(),
            Literal::Boolean(v) => self.push_long((*v).into())?,
            Literal::Long(v) => self.push_long(*v)?,
            Literal::Double(v) => match self {
                Self::Float32(values) => values.push(*v as f32),
                _ => self.push_double(*v)?,
            },
            Literal::Decimal(v) => self.push_decimal(*v)?,
            Literal::String(v) => self.text()?.push(v.as_bytes())?,
            Literal::Binary(v) => self.binary()?.push(v)?,
        }
        Ok(())
    }

    /// The values so far as an array; the builder is empty after it.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        Ok(match self {
            Self::Boolean(v) => {
                let values = BooleanBuffer::from(std::mem::take(&mut v.values));
                Arc::new(BooleanArray::new(values, v.nulls.finish()))
            }
            Self::Int8(v) => Arc::new(v.finish::<Int8Type>()),
            Self::Int16(v) => Arc::new(v.finish::<Int16Type>()),
            Self::Int32(v) => Arc::new(v.finish::<Int32Type>()),
            Self::Int64(v) => Arc::new(v.finish::<Int64Type>()),
            Self::Float32(v) => Arc::new(v.finish::<Float32Type>()),
            Self::Float64(v) => Arc::new(v.finish::<Float64Type>()),
            Self::Decimal { precision, scale, values } => Arc::new(
                values
                    .finish::<Decimal128Type>()
                    .with_precision_and_scale(*precision, *scale)
                    .map_err(|_| mismatch())?,
            ),
            Self::Date(v) => Arc::new(v.finish::<Date32Type>()),
            Self::Timestamp { utc, values } => {
                let array = values.finish::<TimestampMicrosecondType>();
                if *utc { Arc::new(array.with_timezone("+00:00")) } else { Arc::new(array) }
            }
            Self::Text(v) => {
                let (offsets, data, nulls) = v.finish();
                let array = StringArray::try_new(offsets, data, nulls)
                    .map_err(|_| Error::bug("a text column holds bytes that are not utf8"))?;
                Arc::new(array)
            }
            Self::Binary(v) => {
                let (offsets, data, nulls) = v.finish();
                Arc::new(BinaryArray::new(offsets, data, nulls))
            }
        })
    }
}

#[cold]
fn mismatch() -> Error {
    Error::bug("a value does not fit the layout of its column")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;

    #[test]
    fn a_row_taken_back_leaves_no_trace() {
        let types = [
            DataType::Boolean,
            DataType::Decimal { precision: 20, scale: 0 },
            DataType::String,
            DataType::TimestampLtz { precision: 6 },
        ];
        for data_type in types {
            let mut column = ColumnBuilder::new(&data_type);
            let push = |column: &mut ColumnBuilder| match column.text() {
                Ok(text) => text.push(b"ab").expect("small"),
                Err(_) => column.push_long(1).expect("fits"),
            };
            push(&mut column);
            column.push_null();
            push(&mut column);
            if let Ok(text) = column.text() {
                text.data().extend_from_slice(b"half a value");
            }
            column.truncate(2);
            push(&mut column);
            let array = column.finish().expect("fits");
            assert_eq!(array.data_type(), &data_type.arrow_type());
            assert_eq!((array.len(), array.null_count()), (3, 1));
            assert_eq!(array.slice(0, 1).to_data(), array.slice(2, 1).to_data());
            assert_eq!(column.finish().expect("empty").len(), 0);
        }
    }
}
