//! Rows of a source table fitted to the columns that the sink table has.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use lakeward_core::{DataChange, Error, Result, TableSchema, Unavailable};
use serde::{Deserialize, Serialize};

/// The sink's columns of a table and, for each, the source column whose values it takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Projection {
    schema: Arc<TableSchema>,
    /// `None` where the sink simply has the source's columns.
    from: Option<Vec<Option<Arc<str>>>>,
}

impl Projection {
    pub fn identity(schema: Arc<TableSchema>) -> Self {
        Self { schema, from: None }
    }

    pub(crate) fn new(schema: Arc<TableSchema>, from: Vec<Option<Arc<str>>>) -> Self {
        Self { schema, from: Some(from) }
    }

    pub(crate) fn is_identity(&self) -> bool {
        self.from.is_none()
    }

    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    pub(crate) fn schema_arc(&self) -> Arc<TableSchema> {
        self.schema.clone()
    }

    /// For each sink column the source column that fills it.
    pub(crate) fn sources(&self) -> Vec<Option<Arc<str>>> {
        match &self.from {
            Some(from) => from.clone(),
            None => self.schema.columns.iter().map(|c| Some(c.name.clone())).collect(),
        }
    }

    /// The change with the sink's columns. Costs nothing where the two sides are alike.
    ///
    /// # Errors
    /// `DataInvalid` when a value does not fit the sink column's type.
    pub fn apply(&self, change: DataChange) -> Result<DataChange> {
        let Some(from) = &self.from else { return Ok(change) };
        let rows = change.rows.num_rows();
        let mut columns = Vec::with_capacity(from.len());
        let mut unavailable = Vec::with_capacity(from.len());
        for (column, from) in self.schema.columns.iter().zip(from) {
            let wanted = column.data_type.arrow_type();
            let source = from.as_deref().and_then(|f| change.schema.index_of(f));
            let Some(i) = source else {
                columns.push(new_null_array(&wanted, rows));
                unavailable.push(None);
                continue;
            };
            let values = change.rows.column(i);
            let options = CastOptions { safe: false, ..Default::default() };
            columns.push(if *values.data_type() == wanted {
                values.clone()
            } else {
                // Arrow's own message would show the value.
                cast_with_options(values, &wanted, &options).map_err(|_| {
                    Error::data_invalid(
                        "a value does not fit the sink column's type; change schema.change.behavior or resnapshot the table",
                    )
                    .with("table", &change.table)
                    .with("column", &column.name)
                    .with("type", column.data_type)
                })?
            });
            unavailable
                .push(change.unavailable.as_ref().and_then(|u| u.0.get(i).cloned().flatten()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(self.schema.arrow_schema(), columns, &options)
            .map_err(|e| Error::bug("could not project rows").with_source(e))?;
        let unavailable = change.unavailable.is_some().then_some(Unavailable(unavailable));
        Ok(DataChange { schema: self.schema.clone(), rows, unavailable, ..change })
    }
}
