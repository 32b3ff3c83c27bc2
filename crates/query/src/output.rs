//! Writes an answer as a table, as CSV or as JSON lines, batch by batch.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use lakeward_core::{ErrorKind, Result, ResultExt};

use crate::query::query_error;
use crate::values::Values;

/// Rows of a drawn table before another begins with its own widths, so that any answer fits into memory.
const PAGE_ROWS: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Table,
    /// With a header line; a null is an empty field, an empty text is `""`.
    Csv,
    /// One object per line.
    Json,
}

pub(crate) async fn write_all(
    mut stream: SendableRecordBatchStream,
    format: Format,
    out: &mut dyn Write,
) -> Result<()> {
    let schema = stream.schema();
    let mut printer = match format {
        Format::Table => Printer::Table(Page::new(&schema)),
        Format::Csv => {
            let names = schema.fields().iter().map(|f| csv_field(f.name()));
            let header = names.collect::<Vec<_>>().join(",");
            write_line(out, &header)?;
            Printer::Csv
        }
        Format::Json => {
            let names = schema.fields().iter().map(|f| serde_json::to_string(f.name()));
            let names = names.collect::<Result<Vec<_>, _>>();
            Printer::Json(names.or_err(ErrorKind::Bug, "a column's name is not text")?)
        }
    };
    while let Some(batch) = stream.next().await {
        printer.batch(&batch.map_err(query_error)?, out)?;
    }
    if let Printer::Table(page) = &mut printer {
        page.finish(out)?;
    }
    out.flush().or_err(ErrorKind::Transient, OUTPUT)
}

enum Printer {
    Table(Page),
    Csv,
    Json(Vec<String>),
}

impl Printer {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let columns = batch.columns().iter();
        let columns: Vec<Values<'_>> = match self {
            Printer::Json(_) => columns.map(Values::json).collect::<Result<_>>()?,
            _ => columns.map(Values::plain).collect::<Result<_>>()?,
        };
        for row in 0..batch.num_rows() {
            match self {
                Printer::Table(page) => page.row(&columns, row, out)?,
                Printer::Csv => {
                    let fields = columns.iter().map(|column| match column.is_null(row) {
                        true => Ok(String::new()),
                        false => column.text(row).map(|text| csv_field(&text)),
                    });
                    write_line(out, &fields.collect::<Result<Vec<_>>>()?.join(","))?;
                }
                Printer::Json(names) => {
                    let fields = names.iter().zip(&columns).map(|(name, column)| {
                        column.json_text(row).map(|value| format!("{name}:{value}"))
                    });
                    let fields = fields.collect::<Result<Vec<_>>>()?.join(",");
                    write_line(out, &format!("{{{fields}}}"))?;
                }
            }
        }
        Ok(())
    }
}

struct Page {
    table: Table,
    schema: SchemaRef,
    rows_total: usize,
}

impl Page {
    fn new(schema: &SchemaRef) -> Self {
        Self { table: Self::empty_table(schema), schema: schema.clone(), rows_total: 0 }
    }

    fn empty_table(schema: &SchemaRef) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(schema.fields().iter().map(|f| f.name().clone()));
        for (i, field) in schema.fields().iter().enumerate() {
            if let (true, Some(column)) = (field.data_type().is_numeric(), table.column_mut(i)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn row(&mut self, columns: &[Values<'_>], row: usize, out: &mut dyn Write) -> Result<()> {
        let cells = columns.iter().map(|column| match column.is_null(row) {
            true => Ok("NULL".to_string()),
            false => column.text(row),
        });
        self.table.add_row(cells.collect::<Result<Vec<_>>>()?);
        self.rows_total += 1;
        if self.table.row_count() == PAGE_ROWS {
            self.draw(out)?;
        }
        Ok(())
    }

    fn draw(&mut self, out: &mut dyn Write) -> Result<()> {
        let table = std::mem::replace(&mut self.table, Self::empty_table(&self.schema));
        for line in table.lines() {
            write_line(out, &line)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<()> {
        if self.table.row_count() > 0 || self.rows_total == 0 {
            self.draw(out)?;
        }
        let rows = if self.rows_total == 1 { "row" } else { "rows" };
        write_line(out, &format!("({} {rows})", self.rows_total))
    }
}

const OUTPUT: &str = "the answer cannot be written to the output";

fn write_line(out: &mut dyn Write, line: &str) -> Result<()> {
    writeln!(out, "{line}").or_err(ErrorKind::Transient, OUTPUT)
}

/// RFC 4180.
fn csv_field(text: &str) -> String {
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}
