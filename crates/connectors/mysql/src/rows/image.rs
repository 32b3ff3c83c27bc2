//! Row images cut into cells: bounds are checked here, so that decoders get exactly their bytes.

use lakeward_core::Result;

use super::check::CellFormat;
use crate::binlog::{ColumnBits, Cursor};

/// One cell of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell<'a> {
    /// The image does not have the column.
    Absent,
    Null,
    Value(&'a [u8]),
    /// A list of changes to the JSON document of the before-image.
    JsonDiff(&'a [u8]),
}

/// Reads one image. NULL bits count only the columns that are present.
#[inline]
pub(super) fn read_image<'a>(
    cursor: &mut Cursor<'a>,
    formats: &[CellFormat],
    bits: ColumnBits<'_>,
    present: usize,
    cells: &mut Vec<Cell<'a>>,
) -> Result<()> {
    read_cells(cursor, formats, bits, present, None, cells)
}

/// Reads the after-image of a PARTIAL_UPDATE_ROWS event: options stand before it, and one bit for
/// each JSON column of the table, present or not, which tells whether its cell is a list of
/// changes.
pub(super) fn read_partial_image<'a>(
    cursor: &mut Cursor<'a>,
    formats: &[CellFormat],
    json_columns: usize,
    bits: ColumnBits<'_>,
    present: usize,
    cells: &mut Vec<Cell<'a>>,
) -> Result<()> {
    const PARTIAL_JSON: u64 = 1;
    let options = cursor.packed_uint()?;
    let partial = if options & PARTIAL_JSON != 0 {
        Some(cursor.take(json_columns.div_ceil(8))?)
    } else {
        None
    };
    read_cells(cursor, formats, bits, present, partial, cells)
}

#[inline]
fn read_cells<'a>(
    cursor: &mut Cursor<'a>,
    formats: &[CellFormat],
    bits: ColumnBits<'_>,
    present: usize,
    partial: Option<&[u8]>,
    cells: &mut Vec<Cell<'a>>,
) -> Result<()> {
    let nulls = cursor.take(present.div_ceil(8))?;
    let all_present = present == formats.len();
    cells.clear();
    let mut nth = 0;
    let mut nth_json = 0;
    for (column, format) in formats.iter().enumerate() {
        let is_diff = partial.is_some_and(|bits| {
            format.is_json() && {
                let set = bits[nth_json / 8] >> (nth_json % 8) & 1 == 1;
                nth_json += 1;
                set
            }
        });
        if !all_present && !bits.has(column) {
            cells.push(Cell::Absent);
            continue;
        }
        let is_null = nulls[nth / 8] >> (nth % 8) & 1 == 1;
        nth += 1;
        cells.push(if is_null {
            Cell::Null
        } else {
            let bytes = format.width.take(cursor)?;
            if is_diff { Cell::JsonDiff(bytes) } else { Cell::Value(bytes) }
        });
    }
    Ok(())
}
