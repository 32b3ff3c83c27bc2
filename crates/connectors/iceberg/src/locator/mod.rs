//! The row locator: where each key's row is. Without it a delete could only say what it wants gone, and every reader
//! would have to search for it.
//!
//! A locator belongs to one writer instance and holds only the keys that fall to it. It is a cache: the table is the
//! truth, and whoever doubts the locator drops it and reads the key columns again.

mod entries;
mod keys;
mod rebuild;

pub(crate) use entries::{Key, Place};
pub use keys::KeyClass;
pub(crate) use keys::{KeyPlan, Keys};
pub(crate) use rebuild::{Share, rebuild};

use entries::Entries;
use keys::Wide;
use lakeward_core::{Error, Result, RowKind};

use crate::collapse::{self, Outcome, Removal};

#[derive(Debug)]
pub(crate) struct Locator {
    plan: KeyPlan,
    table: Table,
}

#[derive(Debug)]
enum Table {
    Narrow(Entries<u64>),
    Wide(Entries<Wide>),
}

/// What a run of changes takes away from the table.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(crate) places: Vec<Place>,
    /// Deletes that found no row.
    pub(crate) missed: u64,
}

impl Locator {
    pub(crate) fn new(plan: KeyPlan) -> Self {
        let table = match plan.class {
            KeyClass::K8 => Table::Narrow(Entries::new()),
            KeyClass::K16 | KeyClass::H16 => Table::Wide(Entries::new()),
        };
        Self { plan, table }
    }

    pub(crate) fn plan(&self) -> &KeyPlan {
        &self.plan
    }

    pub(crate) fn len(&self) -> usize {
        match &self.table {
            Table::Narrow(entries) => entries.len(),
            Table::Wide(entries) => entries.len(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.table {
            Table::Narrow(entries) => entries.memory_bytes(),
            Table::Wide(entries) => entries.memory_bytes(),
        }
    }

    /// Where the rows of some keys are.
    pub(crate) fn find(&self, keys: &Keys, rows: &[u32]) -> Result<Vec<Option<Place>>> {
        Ok(match (&self.table, keys) {
            (Table::Narrow(entries), Keys::Narrow(keys)) => {
                rows.iter().map(|row| entries.get(keys[*row as usize])).collect()
            }
            (Table::Wide(entries), Keys::Wide(keys)) => {
                rows.iter().map(|row| entries.get(keys[*row as usize])).collect()
            }
            _ => return Err(other_class()),
        })
    }

    /// Takes in rows that are in the table already.
    pub(crate) fn load(
        &mut self,
        keys: &Keys,
        rows: impl Iterator<Item = (usize, Place)>,
    ) -> Result<()> {
        let unique = self.plan.unique;
        match (&mut self.table, keys) {
            (Table::Narrow(entries), Keys::Narrow(keys)) => load(entries, keys, rows, unique),
            (Table::Wide(entries), Keys::Wide(keys)) => load(entries, keys, rows, unique),
            _ => return Err(other_class()),
        }
        Ok(())
    }

    /// Applies what a run of changes comes to. `places` are those of `outcome.puts`, in their order.
    pub(crate) fn apply(
        &mut self,
        keys: &Keys,
        outcome: &Outcome,
        places: &[Place],
    ) -> Result<Gone> {
        let unique = self.plan.unique;
        match (&mut self.table, keys) {
            (Table::Narrow(entries), Keys::Narrow(keys)) => {
                Ok(apply(entries, keys, outcome, places, unique))
            }
            (Table::Wide(entries), Keys::Wide(keys)) => {
                Ok(apply(entries, keys, outcome, places, unique))
            }
            _ => Err(other_class()),
        }
    }

    /// Gives unused memory back.
    pub(crate) fn shrink(&mut self) {
        match &mut self.table {
            Table::Narrow(entries) => entries.shrink(),
            Table::Wide(entries) => entries.shrink(),
        }
    }
}

impl KeyPlan {
    /// What a run of changes comes to, under this kind of key.
    pub(crate) fn collapse(&self, keys: &Keys, kinds: &[RowKind], chain: bool) -> Outcome {
        match (keys, self.unique) {
            (Keys::Narrow(keys), true) => collapse::collapse_keyed(keys, kinds, chain),
            (Keys::Wide(keys), true) => collapse::collapse_keyed(keys, kinds, chain),
            (Keys::Narrow(keys), false) => collapse::collapse_keyless(keys, kinds),
            (Keys::Wide(keys), false) => collapse::collapse_keyless(keys, kinds),
        }
    }
}

fn load<K: Key>(
    entries: &mut Entries<K>,
    keys: &[K],
    rows: impl Iterator<Item = (usize, Place)>,
    unique: bool,
) {
    for (row, place) in rows {
        match unique {
            true => _ = entries.put(keys[row], place),
            false => entries.add(keys[row], place),
        }
    }
}

fn apply<K: Key>(
    entries: &mut Entries<K>,
    keys: &[K],
    outcome: &Outcome,
    places: &[Place],
    unique: bool,
) -> Gone {
    let mut gone = Gone::default();
    // Removals first: of a table without a key they must not take the rows that come now.
    for Removal { row, born_here } in &outcome.deletes {
        let key = keys[*row as usize];
        let place = if unique { entries.remove(key) } else { entries.take(key) };
        match place {
            Some(place) => gone.places.push(place),
            None => gone.missed += u64::from(!born_here),
        }
    }
    for (row, place) in outcome.puts.iter().zip(places) {
        let key = keys[*row as usize];
        match unique {
            true => gone.places.extend(entries.put(key, *place)),
            false => entries.add(key, *place),
        }
    }
    gone
}

fn other_class() -> Error {
    Error::bug("keys of one class met a locator of another")
}
