//! Rows events into a [`TableBuilder`], by a plan that is made once for each table map.

use lakeward_core::{Error, Literal, Result, RowKind, TableId};

use super::check::{CellFormat, cell_format};
use super::image::{Cell, read_image, read_partial_image};
use super::table_builder::TableBuilder;
use crate::binlog::{ColumnBits, Cursor, RowsEvent, RowsKind, TableMap};
use crate::model::{MysqlColumn, MysqlTable};
use crate::{ddl, json, types};

/// How the rows of one table map are read under one version of the tracked schema.
#[derive(Debug, Clone)]
pub struct RowPlan {
    table: TableId,
    definition: Box<[u8]>,
    formats: Vec<CellFormat>,
    /// What a row of an INSERT has in a column that its image leaves out.
    defaults: Vec<Option<Literal>>,
    /// Positions of the primary key.
    key: Vec<usize>,
    json_columns: usize,
}

impl RowPlan {
    /// Joins a table map to the tracked schema.
    ///
    /// # Errors
    /// `SchemaIncompatible`, naming table and column, when the two disagree: the schema has to be
    /// read again.
    pub fn new(table: &MysqlTable, map: &TableMap<'_>) -> Result<Self> {
        let id = TableId::new(map.database, map.table);
        let name = |e: Error| e.with("table", &id);
        if map.column_count != table.columns.len() {
            return Err(name(
                Error::schema_incompatible(
                    "the binlog and the known schema of the table disagree about the number of columns; its definition has to be read again",
                )
                .with("in the binlog", map.column_count)
                .with("known", table.columns.len()),
            ));
        }
        let stored = map.columns().map_err(name)?;
        let optional = map.optional().map_err(name)?;
        let mut formats = Vec::with_capacity(stored.len());
        for (index, (column, stored)) in table.columns.iter().zip(stored).enumerate() {
            formats.push(cell_format(column, stored, &optional, index).map_err(name)?);
        }
        let defaults = table.columns.iter().map(default_of_absent).collect();
        let key = table.primary_key.iter().filter_map(|k| table.index_of(k)).collect();
        let json_columns = formats.iter().filter(|f| f.is_json()).count();
        Ok(Self {
            table: id,
            definition: map.definition().into(),
            formats,
            defaults,
            key,
            json_columns,
        })
    }

    /// True when the table map is the one that this plan was made for, apart from its number.
    pub fn is_for(&self, map: &TableMap<'_>) -> bool {
        *self.definition == *map.definition()
    }

    /// Appends all rows of an event; returns how many rows (kinds) were appended. On an error
    /// nothing of the failed row is left in the builder; rows before it are.
    pub fn decode(&self, event: &RowsEvent<'_>, builder: &mut TableBuilder) -> Result<usize> {
        self.rows(event)?.decode_up_to(builder, usize::MAX)
    }

    /// Reads an event in steps, for events too large for one batch.
    pub fn rows<'a>(&'a self, event: &'a RowsEvent<'a>) -> Result<RowsCursor<'a>> {
        if event.column_count != self.formats.len() && !event.is_empty() {
            return Err(Error::transient(
                "a rows event has another number of columns than its table map",
            )
            .with("table", &self.table));
        }
        let after = event.columns_after.unwrap_or(event.columns);
        Ok(RowsCursor {
            plan: self,
            event,
            rest: Cursor::new(&event.rows),
            before_present: event.columns.present(),
            after_present: after.present(),
            before: Vec::with_capacity(self.formats.len()),
            after: Vec::with_capacity(self.formats.len()),
        })
    }

    fn column_error(&self, builder: &TableBuilder, column: usize, error: Error) -> Error {
        error.with("table", &self.table).with("column", builder.column_name(column))
    }
}

/// `None` where only the server knows it.
fn default_of_absent(column: &MysqlColumn) -> Option<Literal> {
    let data_type = types::data_type(&column.column_type, &types::TypeOptions::default());
    ddl::existing_rows(column, &data_type, None)
}

/// The rows of one event, not all read yet.
pub struct RowsCursor<'a> {
    plan: &'a RowPlan,
    event: &'a RowsEvent<'a>,
    rest: Cursor<'a>,
    before_present: usize,
    after_present: usize,
    before: Vec<Cell<'a>>,
    after: Vec<Cell<'a>>,
}

impl RowsCursor<'_> {
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// Appends whole rows until none is left or the builder holds `size_bytes`; returns how many
    /// were appended.
    pub fn decode_up_to(&mut self, builder: &mut TableBuilder, size_bytes: usize) -> Result<usize> {
        builder.expect_columns(self.plan.formats.len())?;
        let start = builder.len();
        // Counting the size costs a look at each column, so it is done once in so many bytes read.
        let mut unchecked_bytes = usize::MAX;
        while !self.rest.is_empty() {
            if size_bytes < usize::MAX && unchecked_bytes >= size_bytes / 16 {
                if builder.size_bytes() >= size_bytes {
                    break;
                }
                unchecked_bytes = 0;
            }
            let rows = builder.len();
            let left = self.rest.remaining();
            if let Err(error) = self.decode_row(builder) {
                builder.truncate(rows);
                return Err(error);
            }
            unchecked_bytes = unchecked_bytes.saturating_add(left - self.rest.remaining());
            if self.rest.remaining() == left {
                return Err(Error::transient("a rows event has a row of no bytes")
                    .with("table", &self.plan.table));
            }
        }
        Ok(builder.len() - start)
    }

    fn decode_row(&mut self, builder: &mut TableBuilder) -> Result<()> {
        let plan = self.plan;
        let named = |e: Error| e.with("table", &plan.table);
        let event = self.event;
        read_image(
            &mut self.rest,
            &plan.formats,
            event.columns,
            self.before_present,
            &mut self.before,
        )
        .map_err(named)?;
        match event.kind {
            RowsKind::Insert => self.insert(builder),
            RowsKind::Delete => self.delete(builder),
            RowsKind::Update => {
                let bits = event.columns_after.unwrap_or(event.columns);
                self.read_after(bits).map_err(named)?;
                self.update(builder)
            }
        }
    }

    fn read_after(&mut self, bits: ColumnBits<'_>) -> Result<()> {
        let (rest, formats) = (&mut self.rest, &self.plan.formats);
        if self.event.partial_json {
            let json_columns = self.plan.json_columns;
            read_partial_image(
                rest,
                formats,
                json_columns,
                bits,
                self.after_present,
                &mut self.after,
            )
        } else {
            read_image(rest, formats, bits, self.after_present, &mut self.after)
        }
    }

    fn insert(&self, builder: &mut TableBuilder) -> Result<()> {
        let plan = self.plan;
        for (column, cell) in self.before.iter().enumerate() {
            match (cell, &plan.defaults[column]) {
                (Cell::Absent, Some(default)) => builder.push_literal(column, default),
                (Cell::Absent, None) => Err(Error::data_invalid(
                    "an inserted row leaves out a column whose default only the server knows; set binlog_row_image=FULL",
                )),
                _ => push_cell(&plan.formats[column], *cell, Cell::Absent, column, builder),
            }
            .map_err(|e| plan.column_error(builder, column, e))?;
        }
        builder.end_row(RowKind::Insert);
        Ok(())
    }

    fn delete(&self, builder: &mut TableBuilder) -> Result<()> {
        self.push_before(builder, RowKind::Delete)
    }

    /// The old row: all of it without a key, else at least the key.
    fn push_before(&self, builder: &mut TableBuilder, kind: RowKind) -> Result<()> {
        let plan = self.plan;
        for (column, cell) in self.before.iter().enumerate() {
            if *cell == Cell::Absent && (plan.key.is_empty() || plan.key.contains(&column)) {
                return Err(plan.column_error(builder, column, partial_image()));
            }
            push_cell(&plan.formats[column], *cell, Cell::Absent, column, builder)
                .map_err(|e| plan.column_error(builder, column, e))?;
        }
        builder.end_row(kind);
        Ok(())
    }

    /// The new row: what the after-image leaves out did not change.
    fn push_after(&self, builder: &mut TableBuilder, kind: RowKind, complete: bool) -> Result<()> {
        let plan = self.plan;
        for (column, format) in plan.formats.iter().enumerate() {
            let (before, after) = (self.before[column], self.after[column]);
            let cell = if after == Cell::Absent { before } else { after };
            if cell == Cell::Absent && complete {
                return Err(plan.column_error(builder, column, partial_image()));
            }
            push_cell(format, cell, before, column, builder)
                .map_err(|e| plan.column_error(builder, column, e))?;
        }
        builder.end_row(kind);
        Ok(())
    }

    fn update(&self, builder: &mut TableBuilder) -> Result<()> {
        let key = &self.plan.key;
        if key.is_empty() {
            self.push_before(builder, RowKind::UpdateBefore)?;
            return self.push_after(builder, RowKind::UpdateAfter, true);
        }
        let unchanged = |column: &usize| {
            let after = self.after[*column];
            after == Cell::Absent || after == self.before[*column]
        };
        if key.iter().all(unchanged) {
            return self.push_after(builder, RowKind::UpdateAfter, false);
        }
        self.push_before(builder, RowKind::Delete)?;
        self.push_after(builder, RowKind::Insert, true)
    }
}

#[cold]
fn partial_image() -> Error {
    Error::data_invalid(
        "a changed row leaves out a column that is needed; set binlog_row_image=FULL (also in the session that wrote it)",
    )
}

#[inline]
fn push_cell(
    format: &CellFormat,
    cell: Cell<'_>,
    before: Cell<'_>,
    column: usize,
    builder: &mut TableBuilder,
) -> Result<()> {
    match cell {
        Cell::Value(bytes) => format.decoder.push(bytes, builder.column(column)),
        Cell::Null => {
            builder.column(column).push_null();
            Ok(())
        }
        Cell::Absent => {
            builder.push_unavailable(column);
            Ok(())
        }
        Cell::JsonDiff(diff) => {
            let Cell::Value(base) = before else {
                return Err(Error::data_invalid(
                    "an update holds only the changed parts of a JSON document and not the document; set binlog_row_value_options='' or binlog_row_image=FULL",
                ));
            };
            let text = builder.column(column).text()?;
            json::append_changed(base, diff, text.data())?;
            text.end_value()
        }
    }
}
