//! The locator's table: key → place, in shards of open-addressing hash tables.

use std::collections::HashMap;
use std::hash::Hash;

use hashbrown::hash_table::{Entry, HashTable};

use super::keys::Wide;

/// Where a row is: a data file, by its ordinal in the table's handle, and the row's position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: u32,
    pub(crate) row: u32,
}

/// A key that fits an entry.
pub(crate) trait Key: Copy + Eq + Hash + Ord {
    /// Well mixed in its upper as in its lower bits.
    fn mix(self) -> u64;
}

impl Key for u64 {
    #[inline]
    fn mix(self) -> u64 {
        let product = u128::from(self).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        (product >> 64) as u64 ^ product as u64
    }
}

impl Key for Wide {
    #[inline]
    fn mix(self) -> u64 {
        (self[0] ^ self[1].rotate_left(32).wrapping_mul(0xd6e8_feb8_6659_fd93)).mix()
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot<K> {
    key: K,
    place: Place,
}

/// A table that grows is for a moment there twice; in shards that is a small part of the whole.
const SHARDS: usize = 64;

#[derive(Debug)]
pub(crate) struct Entries<K> {
    shards: Vec<HashTable<Slot<K>>>,
    /// The second and further rows of equal key, where rows have no key of their own.
    more: HashMap<K, Vec<Place>>,
    /// The highest key that was ever put: keys beyond it need no look.
    highest: Option<K>,
    len: usize,
}

impl<K: Key> Entries<K> {
    pub(crate) fn new() -> Self {
        let shards = std::iter::repeat_with(HashTable::new).take(SHARDS).collect();
        Self { shards, more: HashMap::new(), highest: None, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let slots: usize = self.shards.iter().map(|s| s.allocation_size()).sum();
        let more: usize =
            self.more.values().map(|v| v.capacity() * size_of::<Place>()).sum::<usize>()
                + self.more.capacity() * (size_of::<K>() + size_of::<Vec<Place>>());
        slots + more
    }

    #[inline]
    fn shard(&mut self, hash: u64) -> &mut HashTable<Slot<K>> {
        // The tables themselves use the lowest and the highest bits.
        &mut self.shards[(hash >> 40) as usize % SHARDS]
    }

    pub(crate) fn get(&self, key: K) -> Option<Place> {
        let hash = key.mix();
        let shard = &self.shards[(hash >> 40) as usize % SHARDS];
        shard.find(hash, |slot| slot.key == key).map(|slot| slot.place)
    }

    /// Sets the one place of a key and returns the earlier one.
    #[inline]
    pub(crate) fn put(&mut self, key: K, place: Place) -> Option<Place> {
        let hash = key.mix();
        if self.highest.is_none_or(|highest| key > highest) {
            self.highest = Some(key);
            self.len += 1;
            self.shard(hash).insert_unique(hash, Slot { key, place }, |slot| slot.key.mix());
            return None;
        }
        match self.shard(hash).entry(hash, |slot| slot.key == key, |slot| slot.key.mix()) {
            Entry::Occupied(mut entry) => {
                Some(std::mem::replace(&mut entry.get_mut().place, place))
            }
            Entry::Vacant(entry) => {
                entry.insert(Slot { key, place });
                self.len += 1;
                None
            }
        }
    }

    /// Removes the one place of a key.
    pub(crate) fn remove(&mut self, key: K) -> Option<Place> {
        let hash = key.mix();
        let entry = self.shard(hash).find_entry(hash, |slot| slot.key == key).ok()?;
        let place = entry.remove().0.place;
        self.len -= 1;
        Some(place)
    }

    /// Adds one more place of a key.
    pub(crate) fn add(&mut self, key: K, place: Place) {
        self.len += 1;
        let hash = key.mix();
        match self.shard(hash).entry(hash, |slot| slot.key == key, |slot| slot.key.mix()) {
            Entry::Occupied(_) => self.more.entry(key).or_default().push(place),
            Entry::Vacant(entry) => {
                entry.insert(Slot { key, place });
            }
        }
    }

    /// Removes one of the places of a key: the one that was added last.
    pub(crate) fn take(&mut self, key: K) -> Option<Place> {
        if !self.more.is_empty()
            && let Some(places) = self.more.get_mut(&key)
        {
            let place = places.pop();
            if places.is_empty() {
                self.more.remove(&key);
            }
            self.len -= 1;
            return place;
        }
        self.remove(key)
    }

    /// Gives memory back that deletes have left unused.
    pub(crate) fn shrink(&mut self) {
        for shard in &mut self.shards {
            if shard.len() * 4 < shard.capacity() {
                shard.shrink_to_fit(|slot| slot.key.mix());
            }
        }
        self.more.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Put(u64, Place),
        Remove(u64),
        Get(u64),
        Shrink,
    }

    fn place() -> impl Strategy<Value = Place> {
        (any::<u32>(), any::<u32>()).prop_map(|(file, row)| Place { file, row })
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = prop_oneof![0..50u64, any::<u64>()];
        prop_oneof![
            4 => (key.clone(), place()).prop_map(|(k, p)| Step::Put(k, p)),
            2 => key.clone().prop_map(Step::Remove),
            2 => key.prop_map(Step::Get),
            1 => Just(Step::Shrink),
        ]
    }

    proptest! {
        #[test]
        fn unique_entries_are_a_map(steps in proptest::collection::vec(step(), 0..300)) {
            let mut entries = Entries::<u64>::new();
            let mut model = HashMap::new();
            for step in steps {
                match step {
                    Step::Put(k, p) => prop_assert_eq!(entries.put(k, p), model.insert(k, p)),
                    Step::Remove(k) => prop_assert_eq!(entries.remove(k), model.remove(&k)),
                    Step::Get(k) => prop_assert_eq!(entries.get(k), model.get(&k).copied()),
                    Step::Shrink => entries.shrink(),
                }
                prop_assert_eq!(entries.len(), model.len());
            }
        }

        #[test]
        fn shared_keys_are_bags(steps in proptest::collection::vec((0..6u64, any::<bool>(), place()), 0..200)) {
            let mut entries = Entries::<Wide>::new();
            let mut model: HashMap<Wide, Vec<Place>> = HashMap::new();
            for (key, add, place) in steps {
                let key = [0, key];
                if add {
                    entries.add(key, place);
                    model.entry(key).or_default().push(place);
                } else {
                    let taken = entries.take(key);
                    let bag = model.entry(key).or_default();
                    prop_assert_eq!(taken.is_some(), !bag.is_empty());
                    if let Some(taken) = taken {
                        let at = bag.iter().position(|p| *p == taken);
                        prop_assert!(at.is_some(), "a place that was never added");
                        bag.swap_remove(at.unwrap());
                    }
                }
                prop_assert_eq!(entries.len(), model.values().map(Vec::len).sum::<usize>());
            }
        }
    }

    #[test]
    fn many_equal_keys_stay_fast() {
        let mut entries = Entries::<Wide>::new();
        for row in 0..300_000 {
            entries.add([1, 1], Place { file: 0, row });
        }
        for _ in 0..300_000 {
            assert!(entries.take([1, 1]).is_some());
        }
        assert_eq!(entries.take([1, 1]), None);
        entries.shrink();
        assert!(entries.memory_bytes() < 10_000, "{}", entries.memory_bytes());
    }

    #[test]
    fn an_entry_costs_sixteen_or_twenty_four_bytes() {
        assert_eq!(size_of::<Slot<u64>>(), 16);
        assert_eq!(size_of::<Slot<Wide>>(), 24);
    }
}
