//! Rows that wait to be loaded, and what is left of them when a key's rows are collapsed to its last one.

use arrow_array::RecordBatch;
use hashbrown::HashMap;
use lakeward_core::keys::canonical_values;
use lakeward_core::{DataChange, Error, Result, RowKind, Segment, TableSchema, Unavailable};
use xxhash_rust::xxh3::Xxh3;

use crate::sequence;

/// Where a cell's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellSource {
    At {
        batch: u32,
        row: u32,
    },
    /// The source did not send it.
    Unknown,
}

/// One row of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    batch: u32,
    row: u32,
    /// The value of the sequence column.
    pub(crate) sequence: i128,
    pub(crate) deletes: bool,
    inserts: bool,
    /// Where each cell is, when not all of them are in the row itself.
    cells: Option<Box<[CellSource]>>,
}

impl Row {
    pub(crate) fn cell(&self, column: usize) -> CellSource {
        match &self.cells {
            Some(cells) => cells[column],
            None => CellSource::At { batch: self.batch, row: self.row },
        }
    }

    fn is_whole(&self) -> bool {
        self.deletes || self.cells.as_ref().is_none_or(|c| !c.contains(&CellSource::Unknown))
    }

    /// Takes from the key's earlier row what this one does not have.
    fn fill_from(&mut self, earlier: &Row) {
        if earlier.deletes {
            return;
        }
        let Some(cells) = &mut self.cells else { return };
        for (column, cell) in cells.iter_mut().enumerate() {
            if *cell == CellSource::Unknown {
                *cell = earlier.cell(column);
            }
        }
    }
}

/// Rows of one schema version, in order.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    batches: Vec<RecordBatch>,
    parts: Vec<Part>,
    rows: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Part {
    kinds: Vec<RowKind>,
    segments: Vec<Segment>,
    unavailable: Option<Unavailable>,
}

/// Rows that are to be loaded together: all have the same known columns.
#[derive(Debug)]
pub(crate) struct Group {
    /// For a whole row all columns.
    pub(crate) columns: Vec<usize>,
    pub(crate) whole: bool,
    pub(crate) rows: Vec<Row>,
}

/// What came of a buffer.
#[derive(Debug)]
pub(crate) struct Collapsed {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) groups: Vec<Group>,
}

impl Buffer {
    pub(crate) fn push(&mut self, change: DataChange) {
        self.rows += change.kinds.len();
        self.bytes += change.rows.get_array_memory_size() + change.kinds.len();
        self.batches.push(change.rows);
        self.parts.push(Part {
            kinds: change.kinds,
            segments: change.segments,
            unavailable: change.unavailable,
        });
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Leaves the buffer empty.
    ///
    /// # Errors
    /// `DataInvalid` for what Doris cannot follow: changed rows of a table without a key, and a new key whose other
    /// columns the source did not send.
    pub(crate) fn collapse(&mut self, schema: &TableSchema, delete: bool) -> Result<Collapsed> {
        let taken = std::mem::take(self);
        let key = schema.key_indices();
        let rows = if key.is_empty() { taken.appended()? } else { taken.upserted(schema, &key)? };
        let all: Vec<usize> = (0..schema.columns.len()).collect();
        let mut whole = Vec::new();
        let mut partial: HashMap<Vec<usize>, Vec<Row>> = HashMap::new();
        for row in rows {
            if row.deletes && !delete {
                continue;
            }
            if row.is_whole() {
                whole.push(row);
                continue;
            }
            if row.inserts {
                return Err(Error::data_invalid(
                    "the source did not send all columns of a row with a new key; let it log whole rows (MySQL: \
                     binlog_row_image=FULL)",
                ));
            }
            let known: Vec<usize> =
                all.iter().copied().filter(|c| row.cell(*c) != CellSource::Unknown).collect();
            partial.entry(known).or_default().push(row);
        }
        let mut groups = Vec::new();
        if !whole.is_empty() {
            groups.push(Group { columns: all, whole: true, rows: whole });
        }
        let mut partial: Vec<(Vec<usize>, Vec<Row>)> = partial.into_iter().collect();
        partial.sort_by(|a, b| a.0.cmp(&b.0));
        for (columns, rows) in partial {
            // Nothing but the key is known: nothing is to be changed.
            if columns.len() > key.len() {
                groups.push(Group { columns, whole: false, rows });
            }
        }
        Ok(Collapsed { batches: taken.batches, groups })
    }

    /// Every row as it came: a table without a key only grows.
    fn appended(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(self.rows);
        for (batch, part) in self.parts.iter().enumerate() {
            if part.kinds.iter().any(|k| *k != RowKind::Insert) {
                return Err(Error::data_invalid(
                    "rows of a table without a primary key were changed or deleted, which doris can only follow by a \
                     key; give the table a primary key, or leave it out",
                ));
            }
            if part.unavailable.is_some() {
                return Err(Error::data_invalid(
                    "the source did not send whole rows of a table without a primary key; let it log whole rows",
                ));
            }
            for row in 0..part.kinds.len() {
                rows.push(Row {
                    batch: batch as u32,
                    row: row as u32,
                    sequence: 0,
                    deletes: false,
                    inserts: true,
                    cells: None,
                });
            }
        }
        Ok(rows)
    }

    /// The last row of each key, in the order in which the keys were first seen.
    fn upserted(&self, schema: &TableSchema, key: &[usize]) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::with_capacity(self.rows);
        let mut seen: HashMap<u128, usize> = HashMap::with_capacity(self.rows);
        for (batch, part) in self.parts.iter().enumerate() {
            let hashes = key_hashes(&self.batches[batch], key)?;
            let mut segments = part.segments.iter().peekable();
            for (row, hash) in hashes.into_iter().enumerate() {
                while segments.peek().is_some_and(|s| s.end as usize <= row) {
                    segments.next();
                }
                let segment = segments
                    .peek()
                    .ok_or_else(|| Error::bug("rows came without their position"))?;
                let kind = part.kinds[row];
                if kind == RowKind::UpdateBefore {
                    continue;
                }
                let mut new = Row {
                    batch: batch as u32,
                    row: row as u32,
                    sequence: sequence::of_position(segment.position)?,
                    deletes: !kind.is_put(),
                    inserts: kind == RowKind::Insert,
                    cells: part.cells(batch, row, schema.columns.len(), key, !kind.is_put()),
                };
                match seen.entry(hash) {
                    hashbrown::hash_map::Entry::Vacant(entry) => {
                        entry.insert(rows.len());
                        rows.push(new);
                    }
                    hashbrown::hash_map::Entry::Occupied(entry) => {
                        let earlier = &mut rows[*entry.get()];
                        new.fill_from(earlier);
                        new.inserts |= earlier.inserts && !earlier.deletes;
                        *earlier = new;
                    }
                }
            }
        }
        Ok(rows)
    }
}

impl Part {
    /// `None` where all cells are in the row itself.
    fn cells(
        &self,
        batch: usize,
        row: usize,
        columns: usize,
        key: &[usize],
        deletes: bool,
    ) -> Option<Box<[CellSource]>> {
        let here = CellSource::At { batch: batch as u32, row: row as u32 };
        if deletes {
            let cell = |c| if key.contains(&c) { here } else { CellSource::Unknown };
            return Some((0..columns).map(cell).collect());
        }
        let Unavailable(missing) = self.unavailable.as_ref()?;
        let lacks =
            |c: usize| missing.get(c).and_then(Option::as_ref).is_some_and(|b| b.value(row));
        (0..columns).any(lacks).then(|| {
            (0..columns).map(|c| if lacks(c) { CellSource::Unknown } else { here }).collect()
        })
    }
}

/// 128 bits: no two keys of a load meet by chance.
fn key_hashes(rows: &RecordBatch, key: &[usize]) -> Result<Vec<u128>> {
    let mut hashers = vec![Xxh3::new(); rows.num_rows()];
    for column in key {
        canonical_values(rows.column(*column), |row, value| match value {
            Some(value) => {
                hashers[row].update(&(value.len() as u64).to_le_bytes());
                hashers[row].update(value);
            }
            None => hashers[row].update(&u64::MAX.to_le_bytes()),
        })?;
    }
    Ok(hashers.iter().map(Xxh3::digest128).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, StringArray};
    use arrow_buffer::BooleanBuffer;
    use lakeward_core::{Column, DataType, ErrorKind, Position, TableId};

    use super::*;

    fn schema(keyed: bool) -> TableSchema {
        let key = if keyed { vec!["id".into()] } else { vec![] };
        TableSchema::new(
            1,
            vec![
                Column::new("id", DataType::Int, false),
                Column::new("a", DataType::Int, true),
                Column::new("b", DataType::String, true),
            ],
            key,
        )
    }

    type Cells = (i32, Option<i32>, Option<&'static str>);

    fn change(
        keyed: bool,
        at: u64,
        rows: &[(RowKind, Cells)],
        missing: &[(usize, usize)],
    ) -> DataChange {
        let schema = Arc::new(schema(keyed));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|(_, c)| Some(c.0)).collect::<Int32Array>()),
            Arc::new(rows.iter().map(|(_, c)| c.1).collect::<Int32Array>()),
            Arc::new(rows.iter().map(|(_, c)| c.2).collect::<StringArray>()),
        ];
        let unavailable = (!missing.is_empty()).then(|| {
            let column = |c: usize| {
                BooleanBuffer::collect_bool(rows.len(), |row| missing.contains(&(row, c)))
            };
            Unavailable((0..3).map(|c| Some(column(c))).collect())
        });
        DataChange {
            table: TableId::new("d", "t"),
            rows: RecordBatch::try_new(schema.arrow_schema(), columns).expect("valid"),
            schema,
            kinds: rows.iter().map(|(kind, _)| *kind).collect(),
            unavailable,
            segments: vec![Segment {
                end: rows.len() as u32,
                position: Position { hi: 0, lo: at },
                commit_ms: 0,
            }],
            snapshot: false,
        }
    }

    fn collapsed(changes: Vec<DataChange>, keyed: bool) -> Result<Collapsed> {
        let mut buffer = Buffer::default();
        changes.into_iter().for_each(|c| buffer.push(c));
        buffer.collapse(&schema(keyed), true)
    }

    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};

    #[test]
    fn the_last_row_of_a_key_stays() {
        let first =
            change(true, 1, &[(Insert, (1, Some(1), None)), (Insert, (2, None, None))], &[]);
        let second =
            change(true, 2, &[(UpdateAfter, (1, Some(9), None)), (Delete, (2, None, None))], &[]);
        let all = collapsed(vec![first, second], true).expect("collapsed");
        assert_eq!(all.groups.len(), 1);
        let rows = &all.groups[0].rows;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].cell(1), CellSource::At { batch: 1, row: 0 });
        assert!(!rows[0].deletes && rows[1].deletes);
        assert_eq!((rows[0].sequence, rows[1].sequence), (2, 2));
    }

    #[test]
    fn cells_that_were_not_sent_come_from_the_keys_earlier_row() {
        let first = change(true, 1, &[(Insert, (1, Some(1), Some("x")))], &[]);
        let second = change(true, 2, &[(UpdateAfter, (1, Some(2), None))], &[(0, 2)]);
        let all = collapsed(vec![first, second], true).expect("collapsed");
        let row = &all.groups[0].rows[0];
        assert!(all.groups[0].whole);
        assert_eq!(row.cell(1), CellSource::At { batch: 1, row: 0 });
        assert_eq!(row.cell(2), CellSource::At { batch: 0, row: 0 });
    }

    #[test]
    fn rows_are_grouped_by_what_is_known_of_them() {
        let rows = [
            (UpdateAfter, (1, Some(2), None)),
            (UpdateAfter, (2, None, Some("y"))),
            (UpdateAfter, (3, Some(1), Some("z"))),
            (UpdateAfter, (4, None, None)),
        ];
        let missing = [(0, 2), (1, 1), (3, 1), (3, 2)];
        let all = collapsed(vec![change(true, 1, &rows, &missing)], true).expect("collapsed");
        let columns: Vec<&[usize]> = all.groups.iter().map(|g| &*g.columns).collect();
        assert_eq!(columns, [&[0, 1, 2][..], &[0, 1], &[0, 2]]);
        assert!(all.groups[0].whole && !all.groups[1].whole);
    }

    #[test]
    fn a_new_key_needs_all_its_columns() {
        let rows = [(Delete, (1, None, None)), (Insert, (2, Some(1), None))];
        let error = collapsed(vec![change(true, 1, &rows, &[(1, 2)])], true).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
    }

    #[test]
    fn a_table_without_key_only_grows() {
        let twice = [(Insert, (1, None, None)), (Insert, (1, None, None))];
        let all = collapsed(vec![change(false, 1, &twice, &[])], false).expect("appended");
        assert_eq!(all.groups[0].rows.len(), 2);
        let changed = [(UpdateBefore, (1, None, None)), (UpdateAfter, (2, None, None))];
        let error = collapsed(vec![change(false, 1, &changed, &[])], false).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
    }

    #[test]
    fn deletes_can_be_left_out() {
        let mut buffer = Buffer::default();
        buffer.push(change(true, 1, &[(Delete, (1, None, None))], &[]));
        assert!(buffer.collapse(&schema(true), false).expect("collapsed").groups.is_empty());
        assert!(buffer.is_empty() && buffer.bytes() == 0);
    }
}
