//! Partitions: which rows of a batch fall into which partition of a table.

use std::collections::HashMap;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_row::{RowConverter, SortField};
use iceberg::arrow::arrow_primitive_to_literal;
use iceberg::spec::{PartitionSpecRef, Schema, Struct, Transform, Type};
use iceberg::transform::{BoxedTransformFunction, create_transform_function};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Splits batches of one schema by one partition spec.
#[derive(Debug)]
pub(crate) struct Partitioner {
    spec: PartitionSpecRef,
    fields: Vec<PartitionField>,
}

#[derive(Debug)]
struct PartitionField {
    name: String,
    source: usize,
    transform: Transform,
    function: BoxedTransformFunction,
    result: Type,
}

/// The rows of one partition in a batch, ascending.
#[derive(Debug)]
pub(crate) struct PartitionRows {
    pub(crate) partition: Struct,
    pub(crate) rows: UInt32Array,
}

impl Partitioner {
    pub(crate) fn new(spec: PartitionSpecRef, schema: &Schema) -> Result<Self> {
        let partition_type = spec.partition_type(schema).or_err(
            ErrorKind::SchemaIncompatible,
            "the table's partition spec does not fit its columns",
        )?;
        let mut fields = Vec::with_capacity(spec.fields().len());
        for (field, result) in spec.fields().iter().zip(partition_type.fields()) {
            let source = schema
                .as_struct()
                .fields()
                .iter()
                .position(|f| f.id == field.source_id)
                .ok_or_else(|| {
                Error::schema_incompatible(
                    "the table is partitioned by a column that its rows do not have",
                )
                .with("partition", &field.name)
            })?;
            let function = create_transform_function(&field.transform).or_err(
                ErrorKind::SchemaIncompatible,
                "the table is partitioned by a transform that is not known here",
            )?;
            fields.push(PartitionField {
                name: field.name.clone(),
                source,
                transform: field.transform,
                function,
                result: (*result.field_type).clone(),
            });
        }
        Ok(Self { spec, fields })
    }

    pub(crate) fn spec_id(&self) -> i32 {
        self.spec.spec_id()
    }

    pub(crate) fn is_unpartitioned(&self) -> bool {
        self.fields.is_empty()
    }

    /// Groups the rows of a batch, in the order in which their partitions first occur.
    pub(crate) fn split(&self, batch: &RecordBatch) -> Result<Vec<PartitionRows>> {
        let values = self.values(batch)?;
        let sort = values.iter().map(|v| SortField::new(v.data_type().clone())).collect();
        let groups = RowConverter::new(sort)
            .and_then(|converter| converter.convert_columns(&values))
            .or_err(ErrorKind::Bug, "could not compare partition values")?;
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        let mut rows: Vec<Vec<u32>> = Vec::new();
        for row in 0..batch.num_rows() {
            let place = *places.entry(groups.row(row).data()).or_insert_with(|| {
                rows.push(Vec::new());
                rows.len() - 1
            });
            rows[place].push(row as u32);
        }
        let firsts = UInt32Array::from_iter_values(rows.iter().map(|r| r[0]));
        let mut partitions = self.literals(&values, &firsts)?;
        Ok(partitions
            .drain(..)
            .zip(rows)
            .map(|(partition, rows)| PartitionRows { partition, rows: rows.into() })
            .collect())
    }

    fn values(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.fields
            .iter()
            .map(|field| {
                field
                    .function
                    .transform(batch.column(field.source).clone())
                    .or_err(ErrorKind::DataInvalid, "could not compute a partition value")
                    .map_err(|e| e.with("partition", &field.name))
            })
            .collect()
    }

    fn literals(&self, values: &[ArrayRef], rows: &UInt32Array) -> Result<Vec<Struct>> {
        let mut columns = Vec::with_capacity(values.len());
        for (field, array) in self.fields.iter().zip(values) {
            let firsts = arrow_select::take::take(array, rows, None)
                .or_err(ErrorKind::Bug, "could not pick partition values")?;
            // The crate's conversion knows binary values with 64-bit offsets only, and wants the result type's layout.
            let layout = iceberg::arrow::type_to_arrow_type(&field.result)
                .or_err(ErrorKind::SchemaIncompatible, "a partition's type has no arrow layout")?;
            let firsts = crate::types::cast_exactly(&firsts, &layout, &field.name)?;
            columns.push(
                arrow_primitive_to_literal(&firsts, &field.result)
                    .or_err(ErrorKind::Bug, "could not read partition values")?,
            );
        }
        let tuple = |row: usize| columns.iter().map(|c| c[row].clone()).collect::<Vec<_>>();
        Ok((0..rows.len()).map(|row| Struct::from_iter(tuple(row))).collect())
    }

    /// The folder of a partition below the table's data folder, as Hive writes it, each part escaped.
    pub(crate) fn folder(&self, partition: &Struct) -> String {
        let part = |(field, value): (&PartitionField, Option<&iceberg::spec::Literal>)| {
            let value = field.transform.to_human_string(&field.result, value);
            format!("{}={}", escape(&field.name), escape(&value))
        };
        self.fields.iter().zip(partition.iter()).map(part).collect::<Vec<_>>().join("/")
    }
}

/// Long values would make names that file systems refuse.
const MAX_PART_BYTES: usize = 100;
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

fn escape(text: &str) -> String {
    let mut escaped = utf8_percent_encode(text, KEPT).to_string();
    if escaped.len() > MAX_PART_BYTES {
        let mut end = MAX_PART_BYTES;
        // Not within an escape.
        while escaped[..end].rfind('%').is_some_and(|at| end - at < 3) {
            end -= 1;
        }
        escaped.truncate(end);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{
        Array, BinaryArray, Date32Array, Decimal128Array, Int32Array, Int64Array, StringArray,
        TimestampMicrosecondArray,
    };
    use iceberg::spec::{
        Literal, NestedField, PartitionSpec, PrimitiveLiteral, PrimitiveType, SchemaRef,
    };
    use proptest::prelude::*;

    use super::*;

    fn schema() -> SchemaRef {
        let types = [
            PrimitiveType::Int,
            PrimitiveType::Long,
            PrimitiveType::String,
            PrimitiveType::Binary,
            PrimitiveType::Date,
            PrimitiveType::Timestamp,
            PrimitiveType::Timestamptz,
            PrimitiveType::Decimal { precision: 20, scale: 2 },
        ];
        let fields = types.into_iter().enumerate().map(|(i, primitive)| {
            let id = i as i32 + 1;
            Arc::new(NestedField::optional(id, format!("c{id}"), Type::Primitive(primitive)))
        });
        Arc::new(Schema::builder().with_fields(fields).build().unwrap())
    }

    fn batch(n: &[Option<i64>]) -> RecordBatch {
        let int: Vec<Option<i32>> = n.iter().map(|v| v.map(|v| v as i32)).collect();
        let text: Vec<Option<String>> = n.iter().map(|v| v.map(|v| format!("n/é {v}"))).collect();
        let binary: Vec<Option<Vec<u8>>> =
            n.iter().map(|v| v.map(|v| v.to_be_bytes()[5..].to_vec())).collect();
        let micros: Vec<Option<i64>> =
            n.iter().map(|v| v.map(|v| v.saturating_mul(1_000_000) / 7)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(int.clone())),
            Arc::new(Int64Array::from(n.to_vec())),
            Arc::new(StringArray::from(text)),
            Arc::new(BinaryArray::from_iter(binary)),
            Arc::new(Date32Array::from(int)),
            Arc::new(TimestampMicrosecondArray::from(micros.clone())),
            Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("+00:00")),
            Arc::new(
                Decimal128Array::from_iter(n.iter().map(|v| v.map(i128::from)))
                    .with_precision_and_scale(20, 2)
                    .unwrap(),
            ),
        ];
        let loose = crate::types::arrow_schema(&schema()).unwrap();
        RecordBatch::try_new(loose, columns).unwrap()
    }

    fn transforms(source: usize) -> Vec<Transform> {
        let mut all = vec![Transform::Identity, Transform::Bucket(7)];
        match source {
            0 | 1 | 2 | 3 | 7 => all.push(Transform::Truncate(3)),
            4 => all.extend([Transform::Year, Transform::Month, Transform::Day]),
            _ => all.extend([Transform::Year, Transform::Month, Transform::Day, Transform::Hour]),
        }
        all
    }

    fn partitioner(fields: &[(usize, Transform)]) -> Partitioner {
        let schema = schema();
        let mut spec = PartitionSpec::builder(schema.clone()).with_spec_id(3);
        for (source, transform) in fields {
            let name = format!("p{source}");
            spec = spec.add_partition_field(format!("c{}", source + 1), name, *transform).unwrap();
        }
        Partitioner::new(Arc::new(spec.build().unwrap()), &schema).unwrap()
    }

    proptest! {
        #[test]
        fn every_row_is_in_the_partition_of_its_value(
            n in proptest::collection::vec(proptest::option::of(-2_000_000i64..2_000_000), 1..60),
        ) {
            let batch = batch(&n);
            for source in 0..8 {
                for transform in transforms(source) {
                    let partitioner = partitioner(&[(source, transform)]);
                    let parts = partitioner.split(&batch).unwrap();
                    let mut seen: Vec<u32> = Vec::new();
                    let function = create_transform_function(&transform).unwrap();
                    let schema = schema();
                    let field = &schema.as_struct().fields()[source];
                    for part in &parts {
                        for row in part.rows.values() {
                            seen.push(*row);
                            // One value at a time, by the crate's other way to compute it.
                            let value = datum(&batch, source, *row as usize, &field.field_type);
                            let expected = value.map(|datum| {
                                if let (3, Transform::Truncate(width)) = (source, transform) {
                                    // The crate computes this one for arrays only.
                                    let Literal::Primitive(PrimitiveLiteral::Binary(bytes)) =
                                        Literal::Primitive(datum.literal().clone())
                                    else { panic!("bytes") };
                                    let end = bytes.len().min(width as usize);
                                    return Literal::binary(bytes[..end].to_vec());
                                }
                                let datum = function.transform_literal(&datum).unwrap().unwrap();
                                Literal::Primitive(datum.literal().clone())
                            });
                            prop_assert_eq!(part.partition[0].as_ref(), expected.as_ref(), "{} {}", source, transform);
                        }
                    }
                    seen.sort_unstable();
                    prop_assert_eq!(seen, (0..n.len() as u32).collect::<Vec<_>>());
                    let mut distinct: Vec<_> = parts.iter().map(|p| format!("{:?}", p.partition)).collect();
                    distinct.sort();
                    distinct.dedup();
                    prop_assert_eq!(distinct.len(), parts.len());
                }
            }
        }
    }

    fn datum(
        batch: &RecordBatch,
        source: usize,
        row: usize,
        field_type: &Type,
    ) -> Option<iceberg::spec::Datum> {
        use iceberg::spec::Datum;
        let column = batch.column(source);
        if column.is_null(row) {
            return None;
        }
        let Type::Primitive(primitive) = field_type else { panic!("a primitive") };
        Some(match source {
            2 => Datum::string(column.as_string::<i32>().value(row)),
            3 => Datum::binary(column.as_binary::<i32>().value(row).to_vec()),
            7 => {
                let digits = column.as_primitive::<arrow_array::types::Decimal128Type>().value(row);
                Datum::try_from_bytes(&digits.to_be_bytes(), primitive.clone()).unwrap()
            }
            _ => {
                let number = arrow_cast::cast(column, &arrow_schema::DataType::Int64).unwrap();
                let number = number.as_primitive::<Int64Type>().value(row);
                match primitive {
                    PrimitiveType::Int => Datum::int(number as i32),
                    PrimitiveType::Date => Datum::date(number as i32),
                    PrimitiveType::Timestamp => Datum::timestamp_micros(number),
                    PrimitiveType::Timestamptz => Datum::timestamptz_micros(number),
                    _ => Datum::long(number),
                }
            }
        })
    }

    #[test]
    fn folders_are_escaped() {
        let partitioner = partitioner(&[(2, Transform::Identity), (4, Transform::Day)]);
        let parts = partitioner.split(&batch(&[Some(1), None])).unwrap();
        assert_eq!(partitioner.folder(&parts[0].partition), "p2=n%2F%C3%A9%201/p4=1970-01-02");
        assert_eq!(partitioner.folder(&parts[1].partition), "p2=null/p4=null");
        assert!(escape(&"é".repeat(99)).len() <= MAX_PART_BYTES);
        assert!(!escape(&"é".repeat(99)).ends_with('%'));
    }

    #[test]
    fn several_fields_make_a_tuple() {
        let partitioner = partitioner(&[(0, Transform::Identity), (1, Transform::Truncate(10))]);
        let parts = partitioner.split(&batch(&[Some(1), Some(12), Some(1), Some(13)])).unwrap();
        let rows: Vec<Vec<u32>> = parts.iter().map(|p| p.rows.values().to_vec()).collect();
        assert_eq!(rows, vec![vec![0, 2], vec![1], vec![3]]);
        assert_eq!(parts[1].partition[1], Some(Literal::long(10)));
        assert_eq!(partitioner.spec_id(), 3);
        assert!(!partitioner.is_unpartitioned());
    }
}
