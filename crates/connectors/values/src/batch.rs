//! Rows as Arrow batches and back.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::DataType as ArrowType;
use arrow_select::concat::concat;
use lakeward_core::{Error, Literal, Result, TableSchema};

use crate::Row;

/// A value as its column's type stores it: a script writes `1` also where a decimal is meant.
pub(crate) fn coerce(value: Literal, data_type: &lakeward_core::DataType) -> Literal {
    use lakeward_core::DataType;
    match (data_type, value) {
        (DataType::Double | DataType::Float, Literal::Long(v)) => Literal::Double(v as f64),
        (DataType::Decimal { scale, .. }, Literal::Long(v)) => {
            Literal::Decimal(i128::from(v) * 10i128.pow(u32::from(scale.unsigned_abs())))
        }
        (DataType::Decimal { scale, .. }, Literal::Double(v)) => {
            Literal::Decimal((v * 10f64.powi(i32::from(*scale))).round() as i128)
        }
        (_, value) => value,
    }
}

pub(crate) fn to_batch(schema: &TableSchema, rows: &[Row]) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(schema.columns.len());
    for (at, column) in schema.columns.iter().enumerate() {
        let cells = rows
            .iter()
            .map(|row| row[at].to_array(&column.data_type, 1))
            .collect::<Result<Vec<_>>>()?;
        let cells: Vec<&dyn Array> = cells.iter().map(|c| &**c).collect();
        columns.push(match cells.is_empty() {
            true => Literal::Null.to_array(&column.data_type, 0)?,
            false => concat(&cells).map_err(|e| refused(column, e))?,
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.arrow_schema(), columns, &options)
        .map_err(|e| Error::bug("arrow refused a batch of rows").with_source(e))
}

pub(crate) fn from_batch(batch: &RecordBatch) -> Result<Vec<Row>> {
    let mut rows = vec![Row::with_capacity(batch.num_columns()); batch.num_rows()];
    for column in batch.columns() {
        for (at, row) in rows.iter_mut().enumerate() {
            row.push(cell(column, at)?);
        }
    }
    Ok(rows)
}

fn cell(array: &dyn Array, at: usize) -> Result<Literal> {
    if array.is_null(at) {
        return Ok(Literal::Null);
    }
    Ok(match array.data_type() {
        ArrowType::Boolean => Literal::Boolean(array.as_boolean().value(at)),
        ArrowType::Int8 => Literal::Long(array.as_primitive::<Int8Type>().value(at).into()),
        ArrowType::Int16 => Literal::Long(array.as_primitive::<Int16Type>().value(at).into()),
        ArrowType::Int32 => Literal::Long(array.as_primitive::<Int32Type>().value(at).into()),
        ArrowType::Int64 => Literal::Long(array.as_primitive::<Int64Type>().value(at)),
        ArrowType::Float64 => Literal::Double(array.as_primitive::<Float64Type>().value(at)),
        ArrowType::Decimal128(..) => {
            Literal::Decimal(array.as_primitive::<Decimal128Type>().value(at))
        }
        ArrowType::Utf8 => Literal::String(array.as_string::<i32>().value(at).into()),
        other => {
            return Err(
                Error::config("the values connector does not know this type").with("type", other)
            );
        }
    })
}

fn refused(column: &lakeward_core::Column, e: arrow_schema::ArrowError) -> Error {
    Error::bug("arrow refused a column of values").with("column", &column.name).with_source(e)
}

#[cfg(test)]
mod tests {
    use lakeward_core::{Column, DataType};

    use super::*;

    #[test]
    fn rows_come_back() {
        let types = [
            DataType::Boolean,
            DataType::TinyInt,
            DataType::Int,
            DataType::BigInt,
            DataType::Double,
            DataType::Decimal { precision: 10, scale: 2 },
            DataType::String,
        ];
        let columns =
            types.iter().map(|t| Column::new(t.to_string(), *t, true)).collect::<Vec<_>>();
        let schema = TableSchema::new(1, columns, vec![]);
        let rows: Vec<Row> = vec![
            vec![
                Literal::Boolean(true),
                Literal::Long(-5),
                Literal::Long(1 << 30),
                Literal::Long(i64::MIN),
                Literal::Double(0.5),
                Literal::Decimal(1234),
                Literal::String("é".into()),
            ],
            vec![Literal::Null; 7],
        ];
        assert_eq!(from_batch(&to_batch(&schema, &rows).unwrap()).unwrap(), rows);
        assert!(to_batch(&schema, &[]).unwrap().num_rows() == 0);
        let decimal = DataType::Decimal { precision: 10, scale: 2 };
        assert_eq!(coerce(Literal::Double(1.25), &decimal), Literal::Decimal(125));
        assert_eq!(coerce(Literal::Long(3), &decimal), Literal::Decimal(300));
    }
}
