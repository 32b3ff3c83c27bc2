//! Cells that the source did not send, such as columns that an update left alone under a minimal row image: their value
//! is the one of the row before it, in this run of changes or in the lake.

use std::collections::{BTreeMap, HashMap};

use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave;
use iceberg::spec::{NestedFieldRef, Schema};
use lakeward_core::{Error, ErrorKind, Result, ResultExt, RowKind};

use crate::buffer::Buffer;
use crate::collapse::{NONE, Outcome};
use crate::locator::Place;
use crate::read_rows::{FileToRead, read_positions};
use crate::table_state::TableHandle;

/// Where a missing cell's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// In another row of the run.
    Run(u32),
    /// In the lake, in the row that has the key of this row of the run.
    Lake(u32),
}

/// The missing cells of the rows that will be written.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Column, row, and where its value is.
    cells: Vec<(usize, u32, Origin)>,
    /// Rows of the run whose keys must be looked up, ascending.
    pub(crate) lookups: Vec<u32>,
}

/// Finds out what is missing. With `split`, other writers have other keys of the table.
///
/// # Errors
/// `DataInvalid` when there is no row before to take a value from.
pub(crate) fn find_wanted(buffer: &Buffer, outcome: &Outcome, split: bool) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    for row in &outcome.puts {
        let (batch, place) = buffer.locate(*row);
        let Some(missing) = &buffer.missing[batch] else { continue };
        for (column, bits) in missing.iter().enumerate() {
            if bits.as_ref().is_some_and(|bits| bits.value(place)) {
                let origin = trace(buffer, &outcome.previous, *row, column, split)?;
                wanted.cells.push((column, *row, origin));
                if let Origin::Lake(key_row) = origin {
                    wanted.lookups.push(key_row);
                }
            }
        }
    }
    wanted.lookups.sort_unstable();
    wanted.lookups.dedup();
    Ok(wanted)
}

fn trace(
    buffer: &Buffer,
    previous: &[u32],
    row: u32,
    column: usize,
    split: bool,
) -> Result<Origin> {
    let mut row = row;
    loop {
        // An insert that lacks cells is the second half of an update that changed the key: the row before it in the
        // stream is the delete of the old key, and that key's row holds the values.
        let moved = buffer.kinds[row as usize] == RowKind::Insert && !buffer.is_whole(row);
        let holder = match moved {
            true if split => return Err(moved_between_writers()),
            true if row > 0 && buffer.kinds[row as usize - 1] == RowKind::Delete => row - 1,
            true => return Err(nothing_before()),
            false => row,
        };
        match previous[holder as usize] {
            NONE => return Ok(Origin::Lake(holder)),
            before if buffer.kinds[before as usize] == RowKind::Delete => {
                return Err(nothing_before());
            }
            before if buffer.is_known(before, column) => return Ok(Origin::Run(before)),
            before => row = before,
        }
    }
}

/// Reads the rows that were looked up. `places` are those of `wanted.lookups`, in their order, as of now.
pub(crate) async fn read_lake(
    handle: &TableHandle,
    schema: &Schema,
    wanted: &Wanted,
    places: &[Option<Place>],
) -> Result<LakeRows> {
    let mut columns: Vec<usize> = wanted.cells.iter().map(|(column, ..)| *column).collect();
    columns.sort_unstable();
    columns.dedup();
    let fields: Vec<NestedFieldRef> =
        columns.iter().map(|c| schema.as_struct().fields()[*c].clone()).collect();
    let mut by_file: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for (key_row, place) in wanted.lookups.iter().zip(places) {
        let place = place.ok_or_else(nothing_before)?;
        by_file.entry(place.file).or_default().push((place.row, *key_row));
    }
    let state = handle.state()?;
    let mut rows = HashMap::new();
    let mut batches = Vec::with_capacity(by_file.len());
    let mut next = 0;
    for (ordinal, mut found) in by_file {
        found.sort_unstable();
        for (place, (_, key_row)) in found.iter().enumerate() {
            rows.insert(*key_row, next + place);
        }
        next += found.len();
        let path = handle
            .path_of(ordinal)
            .ok_or_else(|| Error::bug("the locator names a file that nobody knows"))?;
        let size_bytes = state.files.get(&ordinal).map(|file| file.size_bytes);
        let positions: Vec<u32> = found.iter().map(|(position, _)| *position).collect();
        let file = FileToRead { path, size_bytes };
        batches.push(read_positions(handle.file_io(), &file, &fields, &positions).await?);
    }
    Ok(LakeRows { columns, batches, rows })
}

/// Rows that were read back.
#[derive(Debug)]
pub(crate) struct LakeRows {
    /// Which columns of the schema were read.
    columns: Vec<usize>,
    batches: Vec<RecordBatch>,
    /// Row of the run → row among those read.
    rows: HashMap<u32, usize>,
}

/// The batches of the run with the missing cells of its rows filled in.
pub(crate) fn fill(buffer: &Buffer, wanted: &Wanted, lake: &LakeRows) -> Result<Vec<RecordBatch>> {
    let failed = "could not fill in the cells that the source did not send";
    let lake_batch = match lake.batches.first() {
        Some(first) => {
            Some(concat_batches(&first.schema(), &lake.batches).or_err(ErrorKind::Bug, failed)?)
        }
        None => None,
    };
    let mut by_target: BTreeMap<(usize, usize), Vec<(usize, Origin)>> = BTreeMap::new();
    for (column, row, origin) in &wanted.cells {
        let (batch, place) = buffer.locate(*row);
        by_target.entry((batch, *column)).or_default().push((place, *origin));
    }
    let mut batches = buffer.batches.clone();
    for ((batch, column), cells) in by_target {
        let mut arrays: Vec<&dyn Array> =
            buffer.batches.iter().map(|b| b.column(column).as_ref()).collect();
        let in_lake = lake.columns.binary_search(&column).ok();
        if let (Some(read), Some(place)) = (&lake_batch, in_lake) {
            arrays.push(read.column(place).as_ref());
        }
        let mut indices: Vec<(usize, usize)> =
            (0..buffer.batches[batch].num_rows()).map(|row| (batch, row)).collect();
        for (place, origin) in cells {
            indices[place] = match origin {
                Origin::Run(row) => buffer.locate(row),
                Origin::Lake(row) => (buffer.batches.len(), lake.rows[&row]),
            };
        }
        let filled = interleave(&arrays, &indices).or_err(ErrorKind::Bug, failed)?;
        let mut columns = batches[batch].columns().to_vec();
        columns[column] = filled;
        batches[batch] = RecordBatch::try_new(batches[batch].schema(), columns)
            .or_err(ErrorKind::Bug, failed)?;
    }
    Ok(batches)
}

fn nothing_before() -> Error {
    Error::data_invalid(
        "an update did not carry all columns, and the lake has no earlier row to take the others from; let the source log \
         whole rows (MySQL: binlog_row_image=FULL) and make a new snapshot of the table with --resnapshot",
    )
}

fn moved_between_writers() -> Error {
    Error::data_invalid(
        "an update changed the key of a row and did not carry all columns, which one writer alone could fill in; let the \
         source log whole rows (MySQL: binlog_row_image=FULL) or set pipeline.parallelism to 1",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, Int32Array};
    use arrow_buffer::BooleanBuffer;
    use arrow_schema::{DataType, Field, Schema as ArrowSchema};

    use super::*;
    use crate::collapse::collapse_keyed;

    use RowKind::{Delete, Insert, UpdateAfter};

    /// Rows of (key, value); a value of `None` was not sent.
    fn buffer(runs: &[&[(RowKind, i32, Option<i32>)]]) -> (Buffer, Vec<u64>) {
        let schema = Arc::new(ArrowSchema::new(vec![
            Field::new("k", DataType::Int32, true),
            Field::new("v", DataType::Int32, true),
        ]));
        let mut buffer = Buffer::default();
        let mut keys = Vec::new();
        for run in runs {
            let k: ArrayRef = Arc::new(Int32Array::from_iter_values(run.iter().map(|r| r.1)));
            let v: ArrayRef = Arc::new(run.iter().map(|r| r.2).collect::<Int32Array>());
            let missing: Vec<bool> = run.iter().map(|r| r.2.is_none()).collect();
            let kinds: Vec<RowKind> = run.iter().map(|r| r.0).collect();
            keys.extend(run.iter().map(|r| r.1 as u64));
            let rows = RecordBatch::try_new(schema.clone(), vec![k, v]).unwrap();
            buffer.push(rows, &kinds, Some(vec![None, Some(BooleanBuffer::from(missing))]));
        }
        (buffer, keys)
    }

    fn lake(values: &[(u32, i32)]) -> LakeRows {
        let schema = Arc::new(ArrowSchema::new(vec![Field::new("v", DataType::Int32, true)]));
        let column: ArrayRef = Arc::new(Int32Array::from_iter_values(values.iter().map(|v| v.1)));
        LakeRows {
            columns: vec![1],
            batches: vec![RecordBatch::try_new(schema, vec![column]).unwrap()],
            rows: values.iter().enumerate().map(|(i, v)| (v.0, i)).collect(),
        }
    }

    fn values(batches: &[RecordBatch], puts: &[u32], buffer: &Buffer) -> Vec<i32> {
        puts.iter()
            .map(|row| {
                let (batch, place) = buffer.locate(*row);
                batches[batch].column(1).as_primitive::<Int32Type>().value(place)
            })
            .collect()
    }

    #[test]
    fn values_come_from_the_run_or_the_lake() {
        let (buffer, keys) = buffer(&[
            &[(Insert, 1, Some(10)), (UpdateAfter, 2, None), (UpdateAfter, 1, None)],
            &[(UpdateAfter, 1, None), (UpdateAfter, 3, Some(30)), (UpdateAfter, 2, None)],
        ]);
        let outcome = collapse_keyed(&keys, &buffer.kinds, true);
        let wanted = find_wanted(&buffer, &outcome, false).unwrap();
        assert_eq!(wanted.lookups, vec![1]);
        let filled = fill(&buffer, &wanted, &lake(&[(1, 20)])).unwrap();
        assert_eq!(outcome.puts, vec![3, 4, 5]);
        assert_eq!(values(&filled, &outcome.puts, &buffer), vec![10, 30, 20]);
    }

    #[test]
    fn a_changed_key_takes_the_values_along() {
        let (buffer, keys) = buffer(&[&[
            (Delete, 1, None),
            (Insert, 5, None),
            (UpdateAfter, 5, None),
            (Delete, 5, None),
            (Insert, 6, None),
        ]]);
        let outcome = collapse_keyed(&keys, &buffer.kinds, true);
        let wanted = find_wanted(&buffer, &outcome, false).unwrap();
        assert_eq!(wanted.lookups, vec![0]);
        let filled = fill(&buffer, &wanted, &lake(&[(0, 77)])).unwrap();
        assert_eq!(outcome.puts, vec![4]);
        assert_eq!(values(&filled, &outcome.puts, &buffer), vec![77]);
        let error = find_wanted(&buffer, &outcome, true).expect_err("split");
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
    }

    #[test]
    fn nothing_to_take_from_is_loud() {
        for run in [
            &[(Delete, 1, None), (UpdateAfter, 1, None)][..],
            &[(UpdateAfter, 2, Some(1)), (Insert, 1, None)],
            &[(Insert, 1, None)],
        ] {
            let (buffer, keys) = buffer(&[run]);
            let outcome = collapse_keyed(&keys, &buffer.kinds, true);
            let error = find_wanted(&buffer, &outcome, false).expect_err("nothing there");
            assert_eq!(error.kind(), ErrorKind::DataInvalid);
        }
    }
}
