//! Row images to values of a table's columns, and values to batches.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use lakeward_core::{DataChange, DataType, Error, Result, RowKind, Segment, Unavailable};
use serde_json::value::RawValue;

use crate::cell::{self, Dialect, Value};
use crate::config::DecimalEncoding;
use crate::declared::{Declared, Encoding};
use crate::format::Reason;
use crate::json::{self, Kind, Object};
use crate::shape::{Order, Origin, Past, Shape};
use crate::types::is_exact_double;

/// How rows are read, the same for all tables.
#[derive(Debug, Clone)]
pub struct RowSettings {
    pub dialect: Dialect,
    /// JSON texts that stand for a value that was not sent.
    pub placeholders: Vec<Box<str>>,
}

/// Why an image is no row of the table as it is known.
#[derive(Debug, PartialEq)]
pub enum Trouble {
    /// The table must change first.
    Evolve,
    Bad(Reason),
}

/// Appends an image's values in the columns' order to `out`. What the image does not have comes from `fallback`, and
/// otherwise is `missing`.
#[allow(clippy::too_many_arguments)]
pub fn project<'a>(
    shape: &Shape,
    declared: Option<&Declared>,
    image: &Object<'a>,
    fallback: Option<&Object<'a>>,
    missing: Value<'a>,
    order: Order,
    settings: &RowSettings,
    out: &mut Vec<Value<'a>>,
) -> Result<(), Trouble> {
    let from = out.len();
    let width = shape.schema.columns.len();
    out.resize(from + width, missing);
    if let Some(fallback) = fallback {
        fields(shape, declared, fallback, order, settings, &mut out[from..])?;
    }
    fields(shape, declared, image, order, settings, &mut out[from..])
}

fn fields<'a>(
    shape: &Shape,
    declared: Option<&Declared>,
    image: &Object<'a>,
    order: Order,
    settings: &RowSettings,
    row: &mut [Value<'a>],
) -> Result<(), Trouble> {
    for (at, (name, raw)) in image.0.iter().enumerate() {
        let past = shape.past(name, order);
        let name = match past {
            Some(Past { now: Some(now), .. }) => now,
            Some(_) => continue,
            None => name.as_ref(),
        };
        match shape.find(name, at) {
            Some(column) => row[column] = value(shape, column, declared, at, raw, settings)?,
            None if json::is_null(raw) && declared.is_none() => {}
            None => return Err(Trouble::Evolve),
        }
    }
    Ok(())
}

fn value<'a>(
    shape: &Shape,
    at_column: usize,
    declared: Option<&Declared>,
    at: usize,
    raw: &'a RawValue,
    settings: &RowSettings,
) -> Result<Value<'a>, Trouble> {
    if settings.placeholders.iter().any(|p| **p == *raw.get()) {
        return Ok(Value::Unavailable);
    }
    let column = &shape.schema.columns[at_column];
    let origin = shape.origins[at_column];
    let mut encoding = Encoding::Plain;
    if let Some(declared) = declared.and_then(|d| d.find(&column.name, at)) {
        encoding = declared.encoding;
        let is_fixed = matches!(origin, Origin::Option | Origin::Statement);
        if !is_fixed && !fits(&declared.data_type, &column.data_type) {
            return Err(Trouble::Evolve);
        }
    }
    let read = match origin {
        // A column of texts that look like base64 would have been inferred as one of texts.
        Origin::Inferred if matches!(column.data_type, DataType::Decimal { .. }) => {
            let decimals = DecimalEncoding::Text;
            let dialect = Dialect { decimals, ..settings.dialect.clone() };
            cell::read(raw, &column.data_type, encoding, &dialect)
        }
        _ => cell::read(raw, &column.data_type, encoding, &settings.dialect),
    };
    match (read, origin) {
        (Ok(_), Origin::Inferred) if loses(raw, &column.data_type) => Err(Trouble::Evolve),
        (Ok(value), _) => Ok(value),
        (Err(_), Origin::Inferred) => Err(Trouble::Evolve),
        (Err(_), _) => Err(Trouble::Bad(
            format!("a value does not fit column {} of type {}", column.name, column.data_type)
                .into(),
        )),
    }
}

/// True where the column has room for every value of the declared type.
fn fits(declared: &DataType, column: &DataType) -> bool {
    declared.widens_to(column) || crate::types::join(*declared, *column) == *column
}

/// True for a value that an inferred column takes but would not give back.
fn loses(raw: &RawValue, data_type: &DataType) -> bool {
    match (data_type, json::kind(raw)) {
        // Fifteen digits always come back.
        (DataType::Double, Kind::Number) => raw.get().len() > 15 && !is_exact_double(raw.get()),
        (DataType::Double, Kind::Text) | (DataType::Json, Kind::Text | Kind::Number) => true,
        (DataType::Boolean, kind) => !matches!(kind, Kind::Boolean | Kind::Null),
        _ => false,
    }
}

/// The cells of one column.
enum Cells {
    Boolean(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

/// Appends a value that [`cell::read`] made for the type, so that narrowing is safe; anything else is null.
macro_rules! append {
    ($builder:expr, $value:expr, $($pattern:pat => $cell:expr),+ $(,)?) => {
        match $value { $($pattern => $builder.append_value($cell),)+ _ => $builder.append_null() }
    };
}

impl Cells {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Cells::Boolean(BooleanBuilder::new()),
            DataType::TinyInt => Cells::Int8(Int8Builder::new()),
            DataType::SmallInt => Cells::Int16(Int16Builder::new()),
            DataType::Int => Cells::Int32(Int32Builder::new()),
            DataType::BigInt | DataType::Time { .. } => Cells::Int64(Int64Builder::new()),
            DataType::Float => Cells::Float32(Float32Builder::new()),
            DataType::Double => Cells::Float64(Float64Builder::new()),
            DataType::Decimal { .. } => {
                Cells::Decimal(Decimal128Builder::new().with_data_type(data_type.arrow_type()))
            }
            DataType::Date => Cells::Date(Date32Builder::new()),
            DataType::Timestamp { .. } | DataType::TimestampLtz { .. } => Cells::Timestamp(
                TimestampMicrosecondBuilder::new().with_data_type(data_type.arrow_type()),
            ),
            DataType::Char { .. }
            | DataType::Varchar { .. }
            | DataType::String
            | DataType::Json => Cells::Text(StringBuilder::new()),
            DataType::Binary { .. } | DataType::Varbinary { .. } | DataType::Bytes => {
                Cells::Bytes(BinaryBuilder::new())
            }
        }
    }

    fn append(&mut self, value: &Value<'_>) {
        match self {
            Cells::Boolean(b) => append!(b, value, Value::Boolean(v) => *v),
            Cells::Int8(b) => append!(b, value, Value::Long(v) => *v as i8),
            Cells::Int16(b) => append!(b, value, Value::Long(v) => *v as i16),
            Cells::Int32(b) => append!(b, value, Value::Long(v) => *v as i32),
            Cells::Int64(b) => append!(b, value, Value::Long(v) => *v),
            Cells::Float32(b) => append!(b, value, Value::Double(v) => *v as f32),
            Cells::Float64(b) => append!(b, value, Value::Double(v) => *v),
            Cells::Decimal(b) => append!(b, value, Value::Decimal(v) => *v),
            Cells::Date(b) => append!(b, value, Value::Long(v) => *v as i32),
            Cells::Timestamp(b) => append!(b, value, Value::Long(v) => *v),
            Cells::Text(b) => append!(b, value, Value::Text(v) => v.as_ref()),
            Cells::Bytes(b) => append!(b, value, Value::Bytes(v) => v),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Cells::Boolean(b) => Arc::new(b.finish()),
            Cells::Int8(b) => Arc::new(b.finish()),
            Cells::Int16(b) => Arc::new(b.finish()),
            Cells::Int32(b) => Arc::new(b.finish()),
            Cells::Int64(b) => Arc::new(b.finish()),
            Cells::Float32(b) => Arc::new(b.finish()),
            Cells::Float64(b) => Arc::new(b.finish()),
            Cells::Decimal(b) => Arc::new(b.finish()),
            Cells::Date(b) => Arc::new(b.finish()),
            Cells::Timestamp(b) => Arc::new(b.finish()),
            Cells::Text(b) => Arc::new(b.finish()),
            Cells::Bytes(b) => Arc::new(b.finish()),
        }
    }
}

/// Rows of one table under one version.
pub struct RowsBuilder {
    pub shape: Arc<Shape>,
    cells: Vec<Cells>,
    kinds: Vec<RowKind>,
    segments: Vec<Segment>,
    unavailable: Vec<Option<BooleanBufferBuilder>>,
}

impl RowsBuilder {
    pub fn new(shape: Arc<Shape>) -> Self {
        let columns = &shape.schema.columns;
        Self {
            cells: columns.iter().map(|c| Cells::new(&c.data_type)).collect(),
            kinds: Vec::new(),
            segments: Vec::new(),
            unavailable: columns.iter().map(|_| None).collect(),
            shape,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// One row: as many values as the table has columns.
    pub fn push(&mut self, kind: RowKind, row: &[Value<'_>]) {
        let before = self.kinds.len();
        for (column, value) in row.iter().enumerate() {
            self.cells[column].append(value);
            if *value == Value::Unavailable {
                let bits = self.unavailable[column]
                    .get_or_insert_with(|| BooleanBufferBuilder::new(before + 64));
                bits.append_n(before - bits.len(), false);
                bits.append(true);
            }
        }
        self.kinds.push(kind);
    }

    /// The rows since the last segment belong to it.
    pub fn end_segment(&mut self, position: lakeward_core::Position, commit_ms: i64) {
        let end = self.kinds.len() as u32;
        if self.segments.last().map_or(0, |s| s.end) < end {
            self.segments.push(Segment { end, position, commit_ms });
        }
    }

    pub fn finish(mut self) -> Result<DataChange> {
        let count = self.kinds.len();
        let columns = self.cells.iter_mut().map(Cells::finish).collect();
        let rows =
            RecordBatch::try_new(self.shape.schema.arrow_schema(), columns).map_err(|e| {
                Error::bug("rows of a table make no batch")
                    .with("table", &self.shape.table)
                    .with_source(e)
            })?;
        let any = self.unavailable.iter().any(Option::is_some);
        let bits = self.unavailable.into_iter().map(|bits| {
            bits.map(|mut bits| {
                bits.append_n(count - bits.len(), false);
                bits.finish()
            })
        });
        Ok(DataChange {
            table: self.shape.table.clone(),
            schema: self.shape.schema.clone(),
            kinds: self.kinds,
            rows,
            unavailable: any.then(|| Unavailable(bits.collect())),
            segments: self.segments,
            snapshot: false,
        })
    }
}
