//! Rewrites data files without changing what the table says: fills a new column in, or makes one file of several. Rows
//! keep their order, so that where each of them went follows from its rank.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::filter::filter_record_batch;
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{NestedFieldRef, SchemaRef};
use lakeward_core::{DataType, Error, ErrorKind, Literal, Result, ResultExt};
use roaring::RoaringTreemap;

use crate::NewDataFile;
use crate::data_files::DataFileOptions;
use crate::names::FileNames;
use crate::open_file::OpenFile;
use crate::read_rows::{FileToRead, read_columns};
use crate::table_state::LiveFile;
use crate::types;

/// A column that gets one value in every row.
#[derive(Debug, Clone)]
pub(crate) struct Fill {
    pub(crate) field: i32,
    /// The source's type, which the value is of.
    pub(crate) data_type: DataType,
    pub(crate) value: Literal,
}

/// A file whose rows that are not deleted go into a merged one.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) file: Arc<LiveFile>,
    pub(crate) deleted: Arc<RoaringTreemap>,
}

/// What rewriting needs of the table.
#[derive(Debug, Clone)]
pub(crate) struct Rewriter<'a> {
    pub(crate) file_io: &'a FileIO,
    /// The schema that the new file is written with.
    pub(crate) schema: &'a SchemaRef,
    pub(crate) names: &'a FileNames,
    pub(crate) options: &'a DataFileOptions,
}

impl Rewriter<'_> {
    /// Writes the file anew with columns filled in. Every row keeps its position, deleted ones too.
    pub(crate) async fn fill(&self, file: &LiveFile, fills: &[Fill]) -> Result<NewDataFile> {
        let mut out = self.create(file).await?;
        self.copy(file, &mut out, |_, rows| self.filled(rows, fills)).await?;
        out.close(self.schema, file.spec_id).await
    }

    /// Makes one file of several of one partition and spec. Gives the place of each part's first row in it.
    pub(crate) async fn merge(&self, parts: &[Part]) -> Result<(NewDataFile, Vec<u64>)> {
        let Some(first) = parts.first() else {
            return Err(Error::bug("there is nothing to merge"));
        };
        let alike = |part: &Part| {
            part.file.spec_id == first.file.spec_id && part.file.partition == first.file.partition
        };
        if !parts.iter().all(alike) {
            return Err(Error::bug("files of different partitions cannot be merged"));
        }
        let mut out = self.create(&first.file).await?;
        let mut bases = Vec::with_capacity(parts.len());
        for part in parts {
            bases.push(u64::from(out.rows()));
            self.copy(&part.file, &mut out, |position, rows| keep(position, rows, &part.deleted))
                .await?;
        }
        Ok((out.close(self.schema, first.file.spec_id).await?, bases))
    }

    /// Beside the old file, which is in the folder of its partition.
    async fn create(&self, old: &LiveFile) -> Result<OpenFile> {
        let folder = old.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = format!("{folder}/{}", self.names.next(".parquet"));
        OpenFile::create(self.file_io, path, old.partition.clone(), self.schema, self.options, None)
            .await
    }

    async fn copy(
        &self,
        from: &LiveFile,
        to: &mut OpenFile,
        change: impl Fn(u32, RecordBatch) -> Result<RecordBatch>,
    ) -> Result<()> {
        let fields: &[NestedFieldRef] = self.schema.as_struct().fields();
        let file = FileToRead { path: from.path.clone(), size_bytes: Some(from.size_bytes) };
        let layout = types::arrow_schema(self.schema)?;
        let mut batches = read_columns(self.file_io, &file, fields, None).await?;
        let mut rows = 0;
        while let Some((position, batch)) = batches.try_next().await? {
            rows += batch.num_rows() as u64;
            let batch = change(position, batch)?;
            let batch = RecordBatch::try_new(layout.clone(), batch.columns().to_vec())
                .or_err(ErrorKind::Bug, "a data file does not have the columns that it must have")
                .map_err(|e| e.with("file", &from.path))?;
            to.write(&batch).await?;
        }
        if rows != from.rows {
            return Err(Error::bug("a data file does not have as many rows as the table says")
                .with("file", &from.path));
        }
        Ok(())
    }

    fn filled(&self, rows: RecordBatch, fills: &[Fill]) -> Result<RecordBatch> {
        let fields = self.schema.as_struct().fields();
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        for fill in fills {
            let place = fields
                .iter()
                .position(|field| field.id == fill.field)
                .ok_or_else(|| Error::bug("a column to fill in is not in the schema"))?;
            let array = fill.value.to_array(&fill.data_type, rows.num_rows())?;
            let layout = columns[place].data_type().clone();
            columns[place] = types::cast_exactly(&array, &layout, &fields[place].name)?;
        }
        RecordBatch::try_new(rows.schema(), columns)
            .or_err(ErrorKind::Bug, "a filled-in column does not fit the others")
    }
}

fn keep(position: u32, rows: RecordBatch, deleted: &RoaringTreemap) -> Result<RecordBatch> {
    let (start, end) = (u64::from(position), u64::from(position) + rows.num_rows() as u64);
    if deleted.range_cardinality(start..end) == 0 {
        return Ok(rows);
    }
    let mut mask = BooleanBufferBuilder::new(rows.num_rows());
    for position in start..end {
        mask.append(!deleted.contains(position));
    }
    filter_record_batch(&rows, &BooleanArray::new(mask.finish(), None))
        .or_err(ErrorKind::Bug, "could not leave deleted rows out")
}

#[cfg(test)]
mod tests {
    use arrow_array::Int32Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};
    use iceberg::spec::{NestedField, PrimitiveType, Schema, Struct, Type};
    use lakeward_core::PipelineId;
    use proptest::prelude::*;

    use super::*;
    use crate::names::Incarnation;

    fn schema(fields: &[(i32, PrimitiveType)]) -> SchemaRef {
        let fields = fields.iter().map(|(id, primitive)| {
            let field_type = Type::Primitive(primitive.clone());
            Arc::new(NestedField::optional(*id, format!("c{id}"), field_type))
        });
        Arc::new(Schema::builder().with_fields(fields).build().unwrap())
    }

    fn names() -> FileNames {
        let incarnation =
            Incarnation { pipeline: PipelineId("p".into()), attempt: 1, token: "t".into() };
        FileNames::new(&incarnation, "m")
    }

    async fn write(file_io: &FileIO, names: &FileNames, ordinal: u32, values: &[i32]) -> LiveFile {
        let schema = schema(&[(1, PrimitiveType::Int)]);
        let options = DataFileOptions::default();
        let path = format!("memory://t/data/{}", names.next(".parquet"));
        let mut file = OpenFile::create(file_io, path, Struct::empty(), &schema, &options, None)
            .await
            .unwrap();
        let column: ArrayRef = Arc::new(Int32Array::from(values.to_vec()));
        let layout = types::arrow_schema(&schema).unwrap();
        file.write(&RecordBatch::try_new(layout, vec![column]).unwrap()).await.unwrap();
        live(ordinal, &file.close(&schema, 0).await.unwrap())
    }

    fn live(ordinal: u32, new: &NewDataFile) -> LiveFile {
        LiveFile {
            ordinal,
            path: new.file.file_path().into(),
            rows: new.file.record_count(),
            size_bytes: new.file.file_size_in_bytes(),
            spec_id: new.spec_id,
            partition: new.file.partition().clone(),
            sequence_number: 1,
            manifest: "memory://m".into(),
            deleted: None,
            delete_files: Vec::new(),
            shared_deleted: Arc::default(),
        }
    }

    async fn read(file_io: &FileIO, new: &NewDataFile, schema: &SchemaRef) -> Vec<RecordBatch> {
        let file = FileToRead { path: new.file.file_path().into(), size_bytes: None };
        let rows = read_columns(file_io, &file, schema.as_struct().fields(), None).await.unwrap();
        rows.map_ok(|(_, rows)| rows).try_collect().await.unwrap()
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_filled_column_has_its_value_in_every_row() {
        wait(async {
            let (file_io, names) = (FileIO::new_with_memory(), names());
            let file = write(&file_io, &names, 0, &[3, 1, 2]).await;
            let wider = schema(&[(1, PrimitiveType::Long), (2, PrimitiveType::String)]);
            let rewriter = Rewriter {
                file_io: &file_io,
                schema: &wider,
                names: &names,
                options: &DataFileOptions::default(),
            };
            let fill = Fill {
                field: 2,
                data_type: DataType::Varchar { length: 5 },
                value: Literal::String("dd".into()),
            };
            let new = rewriter.fill(&file, &[fill]).await.unwrap();
            assert_eq!(new.file.record_count(), 3);
            assert_ne!(new.file.file_path(), &*file.path);
            let rows = read(&file_io, &new, &wider).await;
            assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().values(), &[3, 1, 2]);
            assert_eq!(rows[0].column(1).as_string::<i32>().iter().flatten().count(), 3);
            assert_eq!(rows[0].column(1).as_string::<i32>().value(2), "dd");
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merged_rows_are_where_their_rank_says(
            files in proptest::collection::vec(
                proptest::collection::vec((any::<i32>(), any::<bool>()), 1..40),
                1..5,
            ),
        ) {
            let (merged, parts, bases) = wait(async {
                let (file_io, names) = (FileIO::new_with_memory(), names());
                let schema = schema(&[(1, PrimitiveType::Int)]);
                let mut parts = Vec::new();
                for (ordinal, rows) in files.iter().enumerate() {
                    let values: Vec<i32> = rows.iter().map(|row| row.0).collect();
                    let deleted = rows.iter().enumerate().filter(|(_, row)| row.1);
                    parts.push(Part {
                        file: Arc::new(write(&file_io, &names, ordinal as u32, &values).await),
                        deleted: Arc::new(deleted.map(|(at, _)| at as u64).collect()),
                    });
                }
                let rewriter = Rewriter {
                    file_io: &file_io,
                    schema: &schema,
                    names: &names,
                    options: &DataFileOptions::default(),
                };
                let (new, bases) = rewriter.merge(&parts).await.unwrap();
                let batches = read(&file_io, &new, &schema).await;
                let merged: Vec<i32> = batches
                    .iter()
                    .flat_map(|b| b.column(0).as_primitive::<Int32Type>().values().to_vec())
                    .collect();
                assert_eq!(merged.len() as u64, new.file.record_count());
                (merged, parts, bases)
            });
            for ((rows, part), base) in files.iter().zip(&parts).zip(&bases) {
                for (position, (value, deleted)) in rows.iter().enumerate() {
                    let position = position as u64;
                    prop_assert_eq!(part.deleted.contains(position), *deleted);
                    if !deleted {
                        let dropped = part.deleted.range_cardinality(..position);
                        prop_assert_eq!(merged[(base + position - dropped) as usize], *value);
                    }
                }
            }
            let kept = files.iter().flatten().filter(|row| !row.1).count();
            prop_assert_eq!(merged.len(), kept);
        }
    }
}
