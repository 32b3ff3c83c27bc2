//! Rows of a SELECT in the binary protocol, from the packet straight into columns: no value object for each cell.

use std::sync::Arc;

use arrow_array::RecordBatch;
use lakeward_core::{Error, Result, TableSchema};

use super::TableBuilder;
use super::cell::{not_text, push_bits};
use super::decimal::{append_canonical, unscaled_of_text};
use super::temporal::{date_time_us, days};
use crate::binlog::{Cursor, be_uint, le_uint};
use crate::columns::ColumnBuilder;
use crate::model::{MysqlTable, MysqlType as T};
use crate::wire::ColumnDefinition;

/// Snapshot rows of one table under construction.
pub struct SnapshotBuilder {
    builder: TableBuilder,
    /// The form in which each column comes, in the table's order.
    forms: Vec<Form>,
    types: Vec<T>,
    schema: Arc<TableSchema>,
}

/// How a value's bytes are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Signed(u8),
    Unsigned(u8),
    Float,
    Double,
    /// Date with or without a time, behind a byte of length.
    Date,
    Time,
    Bytes,
}

impl SnapshotBuilder {
    /// `columns` is what the server says about the rows: all columns of the table, in its order.
    ///
    /// # Errors
    /// `Transient` when the columns are not the table's: it has changed since.
    pub fn new(
        table: &MysqlTable,
        schema: &Arc<TableSchema>,
        columns: &[ColumnDefinition],
    ) -> Result<Self> {
        if columns.len() != table.columns.len() {
            return Err(Error::transient("the table's columns are not those that were asked for"));
        }
        Ok(Self {
            builder: TableBuilder::new(table, schema.clone())?,
            forms: columns.iter().map(form_of).collect(),
            types: table.columns.iter().map(|c| c.column_type.clone()).collect(),
            schema: schema.clone(),
        })
    }

    /// Whether rows with these columns of this very version of a table can be taken.
    pub fn is_for(&self, schema: &Arc<TableSchema>, columns: &[ColumnDefinition]) -> bool {
        Arc::ptr_eq(schema, &self.schema)
            && columns.iter().map(form_of).eq(self.forms.iter().copied())
    }

    pub fn rows(&self) -> usize {
        self.builder.len()
    }

    pub fn size_bytes(&self) -> usize {
        self.builder.size_bytes()
    }

    /// Appends a row's packet, from its zero byte on.
    ///
    /// # Errors
    /// `DataInvalid`, naming the column, for a value that is none of the column's type. The builder is of no use after it.
    pub fn append(&mut self, packet: &[u8]) -> Result<()> {
        let mut cursor = Cursor::new(packet);
        cursor.skip(1)?;
        let nulls = cursor.take((self.forms.len() + 9) / 8)?;
        for (i, form) in self.forms.iter().enumerate() {
            let column = self.builder.column(i);
            if nulls[(i + 2) / 8] & 1 << ((i + 2) % 8) != 0 {
                column.push_null();
                continue;
            }
            let pushed = push(&self.types[i], *form, &mut cursor, column);
            if let Err(e) = pushed {
                return Err(e.with("column", self.builder.column_name(i)));
            }
        }
        self.builder.end_snapshot_row();
        Ok(())
    }

    /// The rows so far; the builder is empty after it.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        Ok(self.builder.finish()?.0)
    }
}

fn form_of(column: &ColumnDefinition) -> Form {
    let width = match column.column_type {
        1 => 1,
        2 | 13 => 2,
        3 | 9 => 4,
        8 => 8,
        4 => return Form::Float,
        5 => return Form::Double,
        7 | 10 | 12 => return Form::Date,
        11 => return Form::Time,
        _ => return Form::Bytes,
    };
    if column.is_unsigned() { Form::Unsigned(width) } else { Form::Signed(width) }
}

fn push(
    column_type: &T,
    form: Form,
    cursor: &mut Cursor<'_>,
    column: &mut ColumnBuilder,
) -> Result<()> {
    match form {
        Form::Signed(width) => {
            let bits = 64 - 8 * u32::from(width);
            let raw = le_uint(cursor.take(width.into())?);
            column.push_long((raw << bits).cast_signed() >> bits)
        }
        Form::Unsigned(width) => {
            let raw = le_uint(cursor.take(width.into())?);
            match column_type {
                T::BigInt { unsigned: true } => column.push_decimal(raw.into()),
                _ => column.push_long(raw.try_into().map_err(|_| unexpected())?),
            }
        }
        Form::Float => column.push_float(f32::from_bits(le_uint(cursor.take(4)?) as u32)),
        Form::Double => column.push_double(f64::from_bits(le_uint(cursor.take(8)?))),
        Form::Date => push_date(column_type, cursor, column),
        Form::Time => push_time(cursor, column),
        Form::Bytes => {
            let length = cursor.packed_len()?;
            push_bytes(column_type, cursor.take(length)?, column)
        }
    }
}

/// Trailing parts that are zero are left out.
fn push_date(column_type: &T, cursor: &mut Cursor<'_>, column: &mut ColumnBuilder) -> Result<()> {
    let length = usize::from(cursor.u8()?);
    let mut parts = Cursor::new(cursor.take(length)?);
    let mut date = (0, 0, 0);
    let mut time = (0, 0, 0);
    let mut micros = 0;
    if length >= 4 {
        date = (parts.u16()?.into(), parts.u8()?.into(), parts.u8()?.into());
    }
    if length >= 7 {
        time = (parts.u8()?.into(), parts.u8()?.into(), parts.u8()?.into());
    }
    if length >= 11 {
        micros = parts.u32()?.into();
    }
    let value = match column_type {
        T::Date => days(date.0, date.1, date.2).map(i64::from),
        _ => date_time_us(date, time, micros),
    };
    match value {
        Some(value) => column.push_long(value),
        None => {
            column.push_null();
            Ok(())
        }
    }
}

fn push_time(cursor: &mut Cursor<'_>, column: &mut ColumnBuilder) -> Result<()> {
    let length = usize::from(cursor.u8()?);
    let mut parts = Cursor::new(cursor.take(length)?);
    if length < 8 {
        return column.push_long(0);
    }
    let negative = parts.u8()? != 0;
    let days = i64::from(parts.u32()?);
    let hours = days * 24 + i64::from(parts.u8()?);
    let minutes = hours * 60 + i64::from(parts.u8()?);
    let seconds = minutes * 60 + i64::from(parts.u8()?);
    let micros = if length >= 12 { i64::from(parts.u32()?) } else { 0 };
    let total = seconds * 1_000_000 + micros;
    column.push_long(if negative { -total } else { total })
}

fn push_bytes(column_type: &T, bytes: &[u8], column: &mut ColumnBuilder) -> Result<()> {
    match column_type {
        T::Decimal { precision: 39.., .. } => {
            let values = column.text()?;
            append_canonical(bytes, values.data()).ok_or_else(unexpected)?;
            values.end_value()
        }
        T::Decimal { scale, .. } => {
            column.push_decimal(unscaled_of_text(bytes, *scale).ok_or_else(unexpected)?)
        }
        T::Bit { .. } if bytes.len() <= 8 => push_bits(be_uint(bytes), column),
        T::Geometry => column.binary()?.push(bytes.get(4..).ok_or_else(unexpected)?),
        T::Binary { length } => {
            let binary = column.binary()?;
            let missing = (*length as usize).checked_sub(bytes.len()).ok_or_else(unexpected)?;
            binary.data().extend_from_slice(bytes);
            binary.data().extend(std::iter::repeat_n(0, missing));
            binary.end_value()
        }
        _ => match column {
            ColumnBuilder::Text(text) => {
                std::str::from_utf8(bytes).map_err(|_| not_text())?;
                text.push(bytes)
            }
            _ => column.binary()?.push(bytes),
        },
    }
}

#[cold]
fn unexpected() -> Error {
    Error::data_invalid("a selected value does not have the form of its column's type")
}
