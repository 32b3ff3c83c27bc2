//! Values between the characters 1 and 2. Doris' rules for quoting leave a value that ends with the escape character in
//! doubt, so nothing is quoted: a value that has a separator in it, or that would read as NULL, is refused.

use lakeward_core::{Error, Result};

use super::Rows;
use super::column::{CellKind, typed};
use crate::collapse::CellSource;

pub(crate) const COLUMN_SEPARATOR: u8 = 1;
pub(crate) const LINE_DELIMITER: u8 = 2;
const NULL: &[u8] = b"\\N";

pub(super) fn encode(rows: &Rows<'_>) -> Result<Vec<u8>> {
    let columns = typed(rows)?;
    let mut out = Vec::with_capacity(rows.rows.len() * rows.columns.len() * 8);
    for row in rows.rows {
        for (at, column) in rows.columns.iter().enumerate() {
            if at > 0 {
                out.push(COLUMN_SEPARATOR);
            }
            let CellSource::At { batch, row } = row.cell(*column) else {
                out.extend_from_slice(NULL);
                continue;
            };
            let (batch, row) = (batch as usize, row as usize);
            let cell = &columns[batch][at];
            let of_column = |e: Error| e.with("column", &rows.schema.columns[*column].name);
            match cell.push(row, &mut out).map_err(of_column)? {
                CellKind::Null => out.extend_from_slice(NULL),
                CellKind::Bare | CellKind::Plain => {}
                CellKind::Text => {
                    let text = cell.as_text(row).unwrap_or_default().as_bytes();
                    let reserved = |b: &u8| matches!(*b, COLUMN_SEPARATOR | LINE_DELIMITER);
                    if text == NULL || text.iter().any(reserved) {
                        return Err(of_column(Error::data_invalid(
                            "a value cannot be written as csv without being read as something else; set \
                             sink.properties.format to json",
                        )));
                    }
                    out.extend_from_slice(text);
                }
            }
        }
        for (_, text) in rows.constants {
            out.push(COLUMN_SEPARATOR);
            out.extend_from_slice(text.as_ref().map_or(NULL, |t| t.as_bytes()));
        }
        if rows.hidden.delete_sign {
            out.extend_from_slice(&[COLUMN_SEPARATOR, if row.deletes { b'1' } else { b'0' }]);
        }
        if rows.hidden.sequence.is_some() {
            out.push(COLUMN_SEPARATOR);
            out.extend_from_slice(itoa::Buffer::new().format(row.sequence).as_bytes());
        }
        out.push(LINE_DELIMITER);
    }
    Ok(out)
}
