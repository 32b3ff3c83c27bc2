//! A batch under construction: one column builder for each column of a table.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::SchemaRef;
use lakeward_core::{Error, Literal, Result, ResultExt, RowKind, TableSchema, Unavailable};

use crate::columns::ColumnBuilder;
use crate::model::MysqlTable;

/// Rows of one table under one schema version, live ones and snapshot ones alike. Rows are appended
/// whole or not at all.
#[derive(Debug)]
pub struct TableBuilder {
    schema: Arc<TableSchema>,
    arrow_schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    kinds: Vec<RowKind>,
    /// By column: the rows whose cell the source did not send.
    unavailable: Vec<Vec<u32>>,
}

impl TableBuilder {
    /// `schema` is `table` as [`crate::types::table_schema`] maps it: the same columns in the same
    /// order.
    ///
    /// # Errors
    /// `Bug` when it is not.
    pub fn new(table: &MysqlTable, schema: Arc<TableSchema>) -> Result<Self> {
        if table.columns.len() != schema.columns.len() {
            return Err(Error::bug("a table and its schema have different numbers of columns"));
        }
        let columns: Vec<_> =
            schema.columns.iter().map(|c| ColumnBuilder::new(&c.data_type)).collect();
        Ok(Self {
            arrow_schema: schema.arrow_schema(),
            unavailable: vec![Vec::new(); columns.len()],
            columns,
            kinds: Vec::new(),
            schema,
        })
    }

    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// What the rows take in memory, without spare capacity.
    pub fn size_bytes(&self) -> usize {
        self.kinds.len() + self.columns.iter().map(ColumnBuilder::size_bytes).sum::<usize>()
    }

    /// Closes a row of a SELECT whose columns have all been appended.
    pub(super) fn end_snapshot_row(&mut self) {
        self.end_row(RowKind::Insert);
    }

    /// The rows so far; the builder is empty after it.
    pub fn finish(&mut self) -> Result<(RecordBatch, Vec<RowKind>, Option<Unavailable>)> {
        let kinds = std::mem::take(&mut self.kinds);
        let unavailable = self.take_unavailable(kinds.len());
        let arrays =
            self.columns.iter_mut().map(ColumnBuilder::finish).collect::<Result<Vec<_>>>()?;
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(kinds.len()));
        let rows = RecordBatch::try_new_with_options(self.arrow_schema.clone(), arrays, &options)
            .or_err(
            lakeward_core::ErrorKind::Bug,
            "the columns of a batch do not fit together",
        )?;
        Ok((rows, kinds, unavailable))
    }

    fn take_unavailable(&mut self, rows: usize) -> Option<Unavailable> {
        if self.unavailable.iter().all(Vec::is_empty) {
            return None;
        }
        let mark = |cells: &mut Vec<u32>| {
            if cells.is_empty() {
                return None;
            }
            let mut bits = BooleanBufferBuilder::new(rows);
            bits.append_n(rows, false);
            cells.drain(..).for_each(|row| bits.set_bit(row as usize, true));
            Some(bits.finish())
        };
        Some(Unavailable(self.unavailable.iter_mut().map(mark).collect()))
    }

    pub(super) fn expect_columns(&self, count: usize) -> Result<()> {
        if count == self.columns.len() {
            Ok(())
        } else {
            Err(Error::bug("a table map's plan and a batch are of different schemas"))
        }
    }

    pub(super) fn column_name(&self, column: usize) -> &str {
        self.schema.columns.get(column).map_or("?", |c| &*c.name)
    }

    #[inline]
    pub(super) fn column(&mut self, column: usize) -> &mut ColumnBuilder {
        &mut self.columns[column]
    }

    pub(super) fn push_literal(&mut self, column: usize, literal: &Literal) -> Result<()> {
        self.columns[column].push_literal(literal)
    }

    pub(super) fn push_unavailable(&mut self, column: usize) {
        self.unavailable[column].push(self.kinds.len() as u32);
        self.columns[column].push_null();
    }

    #[inline]
    pub(super) fn end_row(&mut self, kind: RowKind) {
        self.kinds.push(kind);
    }

    /// Takes back every row from `rows` on, also one that is not closed.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.kinds.truncate(rows);
        self.columns.iter_mut().for_each(|c| c.truncate(rows));
        for cells in &mut self.unavailable {
            cells.truncate(cells.partition_point(|row| (*row as usize) < rows));
        }
    }
}
