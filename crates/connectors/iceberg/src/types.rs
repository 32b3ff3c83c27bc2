//! Types: which Iceberg type a column gets, how Iceberg's types are laid out in Arrow, and how a source's batch takes
//! the shape of an Iceberg schema.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{
    DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef,
};
use iceberg::spec::{NestedField, PrimitiveType, Schema, SchemaRef, Type};
use lakeward_core::{DataType, Error, ErrorKind, Result, ResultExt, TableSchema};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

/// The Iceberg type that a column gets when its table is created or it is added.
pub fn iceberg_type(data_type: &DataType) -> PrimitiveType {
    match *data_type {
        DataType::Boolean => PrimitiveType::Boolean,
        DataType::TinyInt | DataType::SmallInt | DataType::Int => PrimitiveType::Int,
        DataType::BigInt | DataType::Time { .. } => PrimitiveType::Long,
        DataType::Float => PrimitiveType::Float,
        DataType::Double => PrimitiveType::Double,
        DataType::Decimal { precision, scale } => decimal_type(precision, scale),
        DataType::Date => PrimitiveType::Date,
        DataType::Timestamp { .. } => PrimitiveType::Timestamp,
        DataType::TimestampLtz { .. } => PrimitiveType::Timestamptz,
        DataType::Char { .. } | DataType::Varchar { .. } | DataType::String | DataType::Json => {
            PrimitiveType::String
        }
        DataType::Binary { .. } | DataType::Varbinary { .. } | DataType::Bytes => {
            PrimitiveType::Binary
        }
    }
}

/// Iceberg has no negative scales: such a number is written out with its zeros.
fn decimal_type(precision: u8, scale: i8) -> PrimitiveType {
    match u32::try_from(scale) {
        Ok(scale) => PrimitiveType::Decimal { precision: u32::from(precision), scale },
        Err(_) => match u32::from(precision) + u32::from(scale.unsigned_abs()) {
            precision @ ..=38 => PrimitiveType::Decimal { precision, scale: 0 },
            _ => PrimitiveType::String,
        },
    }
}

/// The Arrow layout that the writer gives a field. Binary values keep 32-bit offsets, as sources build them: in Parquet
/// both are the same.
pub(crate) fn arrow_type(field_type: &Type) -> Result<ArrowType> {
    match field_type {
        Type::Primitive(PrimitiveType::Binary) => Ok(ArrowType::Binary),
        other => iceberg::arrow::type_to_arrow_type(other)
            .or_err(ErrorKind::SchemaIncompatible, "a column's type has no arrow layout"),
    }
}

/// An Arrow field that carries the Iceberg field's id, as the Parquet writer wants it.
pub(crate) fn arrow_field(field: &NestedField) -> Result<Field> {
    let id = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_string(), field.id.to_string())]);
    Ok(Field::new(&field.name, arrow_type(&field.field_type)?, !field.required).with_metadata(id))
}

/// The Arrow schema that data files of an Iceberg schema are written with.
pub(crate) fn arrow_schema(schema: &Schema) -> Result<ArrowSchemaRef> {
    let fields =
        schema.as_struct().fields().iter().map(|f| arrow_field(f)).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ArrowSchema::new(fields)))
}

/// Casts without losing anything: a value that does not fit is an error, never a null.
pub(crate) fn cast_exactly(array: &ArrayRef, to: &ArrowType, column: &str) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    // Arrow's message would show the value.
    cast_with_options(array, to, &options).map_err(|_| {
        Error::data_invalid(
            "a value does not fit the column's type in the lake; change the source column's type or make a new snapshot \
             of the table",
        )
        .with("column", column)
        .with("from", array.data_type())
        .with("to", to)
    })
}

/// Gives the batches of one source schema version the columns of one Iceberg schema: bound by name, cast where the type
/// differs, null where the source has no such column.
#[derive(Debug, Clone)]
pub(crate) struct Conform {
    pub(crate) schema: SchemaRef,
    /// All fields nullable: a delete knows only its key.
    loose: ArrowSchemaRef,
    /// As the data file is written.
    strict: ArrowSchemaRef,
    /// Per Iceberg field, in its order, the source's column.
    columns: Vec<Option<usize>>,
}

impl Conform {
    pub(crate) fn new(source: &TableSchema, schema: SchemaRef) -> Result<Self> {
        let strict = arrow_schema(&schema)?;
        let loose: Vec<Field> =
            strict.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let columns = strict.fields().iter().map(|f| source.index_of(f.name())).collect();
        let unbound = source.columns.iter().find(|c| strict.index_of(&c.name).is_err());
        if let Some(column) = unbound {
            return Err(Error::bug("a column of the source is not in its schema in the lake")
                .with("column", &column.name)
                .with("schema version", source.version));
        }
        Ok(Self { schema, loose: Arc::new(ArrowSchema::new(loose)), strict, columns })
    }

    /// The source's column that feeds each Iceberg field.
    pub(crate) fn source_columns(&self) -> &[Option<usize>] {
        &self.columns
    }

    /// Positions of the source's primary key columns, in key order.
    pub(crate) fn key_columns(&self, source: &TableSchema) -> Vec<usize> {
        let keys = source.key_indices();
        keys.iter().filter_map(|key| self.columns.iter().position(|c| *c == Some(*key))).collect()
    }

    pub(crate) fn conform(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (source, field) in self.columns.iter().zip(self.loose.fields()) {
            columns.push(match source {
                None => new_null_array(field.data_type(), rows.num_rows()),
                Some(column) => {
                    let array = rows.column(*column);
                    match array.data_type() == field.data_type() {
                        true => array.clone(),
                        false => cast_exactly(array, field.data_type(), field.name())?,
                    }
                }
            });
        }
        rebuild(&self.loose, columns, rows.num_rows())
    }

    /// The batch with the file's own nullability.
    ///
    /// # Errors
    /// `DataInvalid` for a null in a required column.
    pub(crate) fn strict(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        for (field, column) in self.strict.fields().iter().zip(rows.columns()) {
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(Error::data_invalid(
                    "a row has no value in a column that is required in the lake; the key of a row must be known",
                )
                .with("column", field.name()));
            }
        }
        rebuild(&self.strict, rows.columns().to_vec(), rows.num_rows())
    }
}

fn rebuild(schema: &ArrowSchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .or_err(ErrorKind::Bug, "the columns of a batch do not fit together")
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Decimal128Type, Int32Type, Int64Type};
    use arrow_array::{Array, Int8Array, Int32Array, StringArray};
    use lakeward_core::Column;
    use proptest::prelude::*;

    use super::*;

    fn iceberg(fields: &[(i32, &str, PrimitiveType, bool)]) -> SchemaRef {
        let fields = fields.iter().map(|(id, name, primitive, required)| {
            Arc::new(NestedField::new(*id, *name, Type::Primitive(primitive.clone()), *required))
        });
        Arc::new(Schema::builder().with_fields(fields).build().expect("a schema"))
    }

    fn batch(schema: &TableSchema, columns: Vec<ArrayRef>) -> RecordBatch {
        RecordBatch::try_new(schema.arrow_schema(), columns).expect("a batch")
    }

    #[test]
    fn columns_are_bound_by_name_cast_and_filled() {
        let source = TableSchema::new(
            1,
            vec![
                Column::new("small", DataType::TinyInt, true),
                Column::new("id", DataType::Int, false),
            ],
            vec!["id".into()],
        );
        let target = iceberg(&[
            (4, "id", PrimitiveType::Long, true),
            (7, "gone", PrimitiveType::String, false),
            (2, "small", PrimitiveType::Int, false),
        ]);
        let conform = Conform::new(&source, target).expect("fits");
        let rows = batch(
            &source,
            vec![
                Arc::new(Int8Array::from(vec![Some(-1), None])),
                Arc::new(Int32Array::from(vec![7, 8])),
            ],
        );
        let out = conform.strict(&conform.conform(&rows).expect("conforms")).expect("no nulls");
        assert_eq!(out.column(0).as_primitive::<Int64Type>().values(), &[7, 8]);
        assert_eq!(out.column(1).null_count(), 2);
        assert_eq!(out.column(2).as_primitive::<Int32Type>().value(0), -1);
        assert!(out.column(2).is_null(1));
        assert_eq!(out.schema().field(1).metadata()[PARQUET_FIELD_ID_META_KEY], "7");
        assert_eq!(conform.key_columns(&source), vec![0]);
    }

    #[test]
    fn a_value_that_does_not_fit_is_loud_and_not_shown() {
        let source = TableSchema::new(1, vec![Column::new("n", DataType::String, true)], vec![]);
        let conform =
            Conform::new(&source, iceberg(&[(1, "n", PrimitiveType::Int, false)])).expect("binds");
        let rows = batch(&source, vec![Arc::new(StringArray::from(vec!["secret"]))]);
        let error = conform.conform(&rows).expect_err("does not fit");
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn a_null_key_is_loud() {
        let source = TableSchema::new(1, vec![Column::new("id", DataType::Int, false)], vec![]);
        let conform =
            Conform::new(&source, iceberg(&[(1, "id", PrimitiveType::Int, true)])).expect("binds");
        let rows = batch(&source, vec![Arc::new(Int32Array::from(vec![None::<i32>]))]);
        let loose = conform.conform(&rows).expect("a delete may know little");
        assert_eq!(conform.strict(&loose).expect_err("null").kind(), ErrorKind::DataInvalid);
    }

    #[test]
    fn every_type_lands_in_its_own_layout() {
        let types = [
            (DataType::Boolean, PrimitiveType::Boolean),
            (DataType::TinyInt, PrimitiveType::Int),
            (DataType::BigInt, PrimitiveType::Long),
            (DataType::Time { precision: 6 }, PrimitiveType::Long),
            (
                DataType::Decimal { precision: 20, scale: 0 },
                PrimitiveType::Decimal { precision: 20, scale: 0 },
            ),
            (
                DataType::Decimal { precision: 5, scale: -2 },
                PrimitiveType::Decimal { precision: 7, scale: 0 },
            ),
            (DataType::Timestamp { precision: 6 }, PrimitiveType::Timestamp),
            (DataType::TimestampLtz { precision: 6 }, PrimitiveType::Timestamptz),
            (DataType::Json, PrimitiveType::String),
            (DataType::Binary { length: 16 }, PrimitiveType::Binary),
        ];
        for (data_type, primitive) in types {
            assert_eq!(iceberg_type(&data_type), primitive);
            let layout = arrow_type(&Type::Primitive(primitive)).expect("has a layout");
            let empty = new_null_array(&data_type.arrow_type(), 1);
            cast_exactly(&empty, &layout, "c").expect("castable");
        }
    }

    proptest! {
        #[test]
        fn decimals_keep_their_value(values in proptest::collection::vec(-99999i128..=99999, 1..30)) {
            let narrow: ArrayRef = Arc::new(
                arrow_array::Decimal128Array::from(values.clone())
                    .with_precision_and_scale(5, 2)
                    .unwrap(),
            );
            let wide = cast_exactly(&narrow, &ArrowType::Decimal128(20, 2), "d").expect("widens");
            prop_assert_eq!(wide.as_primitive::<Decimal128Type>().values().to_vec(), values);
        }
    }
}
