//! An Arrow IPC stream. Numbers keep their Arrow types; what Doris has no equal Arrow type for (LARGEINT, instants in a
//! zone, bytes) goes as the text that the other formats use.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder,
    Int64Builder, StringBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};
use lakeward_core::{Error, Result};

use super::Rows;
use super::column::{CellKind, TypedColumn, typed};
use crate::collapse::CellSource;
use crate::sequence::DELETE_SIGN;

pub(super) fn encode(rows: &Rows<'_>) -> Result<Vec<u8>> {
    let columns = typed(rows)?;
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (at, column) in rows.columns.iter().enumerate() {
        let name = rows.name(*column);
        let array = gather(rows, &columns, at, *column).map_err(|e| e.with("column", name))?;
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    for (name, text) in rows.constants {
        let mut constant = StringBuilder::new();
        rows.rows.iter().for_each(|_| constant.append_option(text.as_ref()));
        push(name, Arc::new(constant.finish()), &mut fields, &mut arrays);
    }
    if rows.hidden.delete_sign {
        let mut signs = Int8Builder::with_capacity(rows.rows.len());
        rows.rows.iter().for_each(|row| signs.append_value(i8::from(row.deletes)));
        push(DELETE_SIGN, Arc::new(signs.finish()), &mut fields, &mut arrays);
    }
    if let Some(name) = rows.hidden.sequence {
        let mut sequence = StringBuilder::new();
        let mut buffer = itoa::Buffer::new();
        rows.rows.iter().for_each(|row| sequence.append_value(buffer.format(row.sequence)));
        push(name, Arc::new(sequence.finish()), &mut fields, &mut arrays);
    }
    let failed = |e| Error::bug("could not encode rows as Arrow IPC").with_source(e);
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(failed)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).map_err(failed)?;
    writer.write(&batch).map_err(failed)?;
    writer.into_inner().map_err(failed)
}

fn push(name: &str, array: ArrayRef, fields: &mut Vec<Field>, arrays: &mut Vec<ArrayRef>) {
    fields.push(Field::new(name, array.data_type().clone(), true));
    arrays.push(array);
}

macro_rules! gather_typed {
    ($rows:expr, $columns:expr, $at:expr, $index:expr, $variant:ident, $builder:ty) => {{
        let mut builder = <$builder>::new();
        for row in $rows.rows {
            let value = match row.cell($index) {
                CellSource::At { batch, row } => match &$columns[batch as usize][$at] {
                    TypedColumn::$variant(array) => {
                        arrow_array::Array::is_valid(array, row as usize)
                            .then(|| array.value(row as usize))
                    }
                    _ => None,
                },
                CellSource::Unknown => None,
            };
            builder.append_option(value);
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

fn gather(
    rows: &Rows<'_>,
    columns: &[Vec<TypedColumn<'_>>],
    at: usize,
    index: usize,
) -> Result<ArrayRef> {
    let Some(first) = columns.first() else {
        return Err(Error::bug("a load without rows was to be encoded"));
    };
    Ok(match &first[at] {
        TypedColumn::Boolean(_) => {
            gather_typed!(rows, columns, at, index, Boolean, BooleanBuilder)
        }
        TypedColumn::Int8(_) => gather_typed!(rows, columns, at, index, Int8, Int8Builder),
        TypedColumn::Int16(_) => gather_typed!(rows, columns, at, index, Int16, Int16Builder),
        TypedColumn::Int32(_) => gather_typed!(rows, columns, at, index, Int32, Int32Builder),
        TypedColumn::Int64(_) => gather_typed!(rows, columns, at, index, Int64, Int64Builder),
        TypedColumn::Float(_) => gather_typed!(rows, columns, at, index, Float, Float32Builder),
        TypedColumn::Double(_) => gather_typed!(rows, columns, at, index, Double, Float64Builder),
        TypedColumn::Text(_) => gather_typed!(rows, columns, at, index, Text, StringBuilder),
        _ => texts(rows, columns, at, index)?,
    })
}

fn texts(
    rows: &Rows<'_>,
    columns: &[Vec<TypedColumn<'_>>],
    at: usize,
    index: usize,
) -> Result<ArrayRef> {
    let mut builder = StringBuilder::new();
    let mut text = Vec::new();
    for row in rows.rows {
        let CellSource::At { batch, row } = row.cell(index) else {
            builder.append_null();
            continue;
        };
        text.clear();
        match columns[batch as usize][at].push(row as usize, &mut text)? {
            CellKind::Null => builder.append_null(),
            _ => {
                let text = std::str::from_utf8(&text)
                    .map_err(|e| Error::bug("a value's text is not UTF-8").with_source(e))?;
                builder.append_value(text);
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}
