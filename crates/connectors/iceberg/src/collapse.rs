//! What is left of a run of changes: the last row of each key, in the order in which the rows came.

use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::SchemaRef as ArrowSchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use hashbrown::hash_table::{Entry, HashTable};
use lakeward_core::{ErrorKind, Result, ResultExt, RowKind};

use crate::locator::Key;

/// Rows are named by their place in the whole run.
pub(crate) const NONE: u32 = u32::MAX;

/// What a run of changes comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Rows to write, ascending.
    pub(crate) puts: Vec<u32>,
    /// One row for each row that the table loses without getting one of its key.
    pub(crate) deletes: Vec<Removal>,
    /// Per row the row of the same key before it, or [`NONE`]. Only where it was asked for.
    pub(crate) previous: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) row: u32,
    /// The run itself inserted the row first, so the table need not have it.
    pub(crate) born_here: bool,
}

/// The outcome for a table with a key.
pub(crate) fn collapse_keyed<K: Key>(keys: &[K], kinds: &[RowKind], chain: bool) -> Outcome {
    let rows = keys.len();
    let ascending = keys.windows(2).all(|pair| pair[0] < pair[1]);
    if ascending && kinds.iter().all(|kind| kind.is_put()) {
        let previous = if chain { vec![NONE; rows] } else { Vec::new() };
        return Outcome { puts: (0..rows as u32).collect(), deletes: Vec::new(), previous };
    }
    let mut previous = if chain { vec![NONE; rows] } else { Vec::new() };
    let mut last: HashTable<u32> = HashTable::with_capacity(rows);
    let mut alive = vec![false; rows];
    // Whether the first row of the key in this run is an insert.
    let mut born = vec![false; rows];
    for (row, key) in keys.iter().enumerate() {
        let same = |other: &u32| keys[*other as usize] == *key;
        alive[row] = true;
        match last.entry(key.mix(), same, |other| keys[*other as usize].mix()) {
            Entry::Occupied(mut entry) => {
                let before = std::mem::replace(entry.get_mut(), row as u32) as usize;
                alive[before] = false;
                born[row] = born[before];
                if chain {
                    previous[row] = before as u32;
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(row as u32);
                born[row] = kinds[row] == RowKind::Insert;
            }
        }
    }
    let mut outcome = Outcome { previous, ..Outcome::default() };
    for row in (0..rows).filter(|row| alive[*row]) {
        match kinds[row].is_put() {
            true => outcome.puts.push(row as u32),
            false => outcome.deletes.push(Removal { row: row as u32, born_here: born[row] }),
        }
    }
    outcome
}

/// The outcome for a table without a key: equal rows are distinct, and a removed row takes one of its equals away, one of
/// this run first.
pub(crate) fn collapse_keyless<K: Key>(keys: &[K], kinds: &[RowKind]) -> Outcome {
    let rows = keys.len();
    // The last row of each key that is still there, and per row the one before it.
    let mut last: HashTable<u32> = HashTable::new();
    let mut before = vec![NONE; rows];
    let mut alive = vec![false; rows];
    let mut outcome = Outcome::default();
    for (row, key) in keys.iter().enumerate() {
        let same = |other: &u32| keys[*other as usize] == *key;
        match last.entry(key.mix(), same, |other| keys[*other as usize].mix()) {
            Entry::Occupied(mut entry) if kinds[row].is_put() => {
                before[row] = std::mem::replace(entry.get_mut(), row as u32);
                alive[row] = true;
            }
            Entry::Vacant(entry) if kinds[row].is_put() => {
                entry.insert(row as u32);
                alive[row] = true;
            }
            Entry::Occupied(mut entry) => {
                let gone = *entry.get() as usize;
                alive[gone] = false;
                match before[gone] {
                    NONE => {
                        entry.remove();
                    }
                    earlier => *entry.get_mut() = earlier,
                }
            }
            Entry::Vacant(_) => {
                outcome.deletes.push(Removal { row: row as u32, born_here: false });
            }
        }
    }
    outcome.puts = (0..rows as u32).filter(|row| alive[*row as usize]).collect();
    outcome
}

/// Rows handed to the encoder at once: enough to keep its loops long, few enough to stay in the cache.
const CHUNK_ROWS: usize = 8192;

/// The rows to write, in order, in batches of a good size. `puts` are ascending places in the run of `batches`.
pub(crate) fn select_rows(
    schema: &ArrowSchemaRef,
    batches: &[RecordBatch],
    puts: &[u32],
) -> Result<Vec<RecordBatch>> {
    let mut out = Vec::new();
    let mut small: Vec<RecordBatch> = Vec::new();
    let mut small_rows = 0;
    let mut rest = puts;
    let mut start = 0u32;
    for batch in batches {
        let end = start + batch.num_rows() as u32;
        let (here, later) = rest.split_at(rest.partition_point(|row| *row < end));
        rest = later;
        let chosen = choose(batch, here, start)?;
        start = end;
        if chosen.num_rows() == 0 {
            continue;
        }
        if small_rows > 0 && small_rows + chosen.num_rows() > CHUNK_ROWS {
            out.push(join(schema, &mut small)?);
            small_rows = 0;
        }
        small_rows += chosen.num_rows();
        small.push(chosen);
    }
    if small_rows > 0 {
        out.push(join(schema, &mut small)?);
    }
    Ok(out)
}

fn choose(batch: &RecordBatch, rows: &[u32], start: u32) -> Result<RecordBatch> {
    if rows.len() == batch.num_rows() {
        return Ok(batch.clone());
    }
    if let (Some(first), Some(last)) = (rows.first(), rows.last())
        && (last - first) as usize + 1 == rows.len()
    {
        return Ok(batch.slice((first - start) as usize, rows.len()));
    }
    let mut mask = BooleanBufferBuilder::new(batch.num_rows());
    mask.append_n(batch.num_rows(), false);
    for row in rows {
        mask.set_bit((row - start) as usize, true);
    }
    filter_record_batch(batch, &BooleanArray::new(mask.finish(), None))
        .or_err(ErrorKind::Bug, "could not pick rows out of a batch")
}

fn join(schema: &ArrowSchemaRef, batches: &mut Vec<RecordBatch>) -> Result<RecordBatch> {
    if batches.len() == 1 {
        return Ok(batches.pop().expect("one"));
    }
    let joined = concat_batches(schema, batches.iter())
        .or_err(ErrorKind::Bug, "could not put batches together")?;
    batches.clear();
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt32Type;
    use arrow_array::{ArrayRef, UInt32Array};
    use arrow_schema::{DataType as ArrowType, Field, Schema};
    use proptest::prelude::*;

    use super::*;

    fn kind() -> impl Strategy<Value = RowKind> {
        prop_oneof![
            Just(RowKind::Insert),
            Just(RowKind::UpdateAfter),
            Just(RowKind::Delete),
            Just(RowKind::UpdateBefore),
        ]
    }

    proptest! {
        #[test]
        fn the_last_row_of_a_key_wins(run in proptest::collection::vec((0..8u64, kind()), 0..60)) {
            let (keys, kinds): (Vec<u64>, Vec<RowKind>) = run.into_iter().unzip();
            let outcome = collapse_keyed(&keys, &kinds, true);
            let mut model: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
            for (row, key) in keys.iter().enumerate() {
                let before = model.get(key).copied();
                prop_assert_eq!(outcome.previous[row], before.map_or(NONE, |b| b.0 as u32));
                let born = before.map_or(kinds[row] == RowKind::Insert, |b| b.1);
                model.insert(*key, (row, born));
            }
            let mut puts: Vec<u32> = Vec::new();
            let mut deletes: Vec<Removal> = Vec::new();
            for (row, born_here) in model.into_values() {
                let row = row as u32;
                match kinds[row as usize].is_put() {
                    true => puts.push(row),
                    false => deletes.push(Removal { row, born_here }),
                }
            }
            puts.sort_unstable();
            deletes.sort_unstable_by_key(|d| d.row);
            prop_assert_eq!(outcome.puts, puts);
            prop_assert_eq!(outcome.deletes, deletes);
        }

        #[test]
        fn keyless_rows_are_counted(run in proptest::collection::vec((0..5u64, kind()), 0..60)) {
            let (keys, kinds): (Vec<u64>, Vec<RowKind>) = run.into_iter().unzip();
            let outcome = collapse_keyless(&keys, &kinds);
            // Starting from a table that has enough of every row, both must leave the same counts.
            let mut model = [1000i64; 5];
            for (key, kind) in keys.iter().zip(&kinds) {
                model[*key as usize] += if kind.is_put() { 1 } else { -1 };
            }
            let mut counts = [1000i64; 5];
            for row in &outcome.puts {
                prop_assert!(kinds[*row as usize].is_put());
                counts[keys[*row as usize] as usize] += 1;
            }
            for removal in &outcome.deletes {
                prop_assert!(!kinds[removal.row as usize].is_put());
                counts[keys[removal.row as usize] as usize] -= 1;
            }
            prop_assert_eq!(model, counts);
            prop_assert!(outcome.puts.is_sorted());
        }

        #[test]
        fn rows_are_selected_in_order(
            sizes in proptest::collection::vec(0..2000usize, 0..12),
            seed in any::<u64>(),
            sparse in 1..40u64,
        ) {
            let schema = Arc::new(Schema::new(vec![Field::new("n", ArrowType::UInt32, false)]));
            let mut next = 0u32;
            let batches: Vec<RecordBatch> = sizes
                .iter()
                .map(|size| {
                    let values = next..next + *size as u32;
                    next += *size as u32;
                    let column: ArrayRef = Arc::new(UInt32Array::from_iter_values(values));
                    RecordBatch::try_new(schema.clone(), vec![column]).unwrap()
                })
                .collect();
            let puts: Vec<u32> =
                (0..next).filter(|n| (u64::from(*n) ^ seed).mix() % sparse == 0).collect();
            let out = select_rows(&schema, &batches, &puts).unwrap();
            let values: Vec<u32> = out
                .iter()
                .flat_map(|b| b.column(0).as_primitive::<UInt32Type>().values().to_vec())
                .collect();
            prop_assert_eq!(values, puts);
        }
    }
}
