//! What a writer has done and not yet handed over.

use std::collections::BTreeMap;
use std::sync::Arc;

use lakeward_core::{DataChange, Error, Result};
use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::NewDataFile;
use crate::committable::{CommittableId, RowCounts, TableCommittable};
use crate::locator::Place;
use crate::table_state::TableHandle;

/// What was done since the last committable.
#[derive(Default)]
pub(super) struct Work {
    pub(super) table_uuid: Uuid,
    pub(super) files: Vec<NewDataFile>,
    pub(super) deletes: BTreeMap<Arc<str>, RoaringTreemap>,
    pub(super) rows: RowCounts,
    pub(super) commit_ms: i64,
}

impl Work {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.deletes.is_empty() && self.rows.total() == 0
    }

    pub(super) fn count(&mut self, change: &DataChange) {
        self.rows.count(&change.kinds);
        for segment in &change.segments {
            self.commit_ms = self.commit_ms.max(segment.commit_ms);
        }
    }

    /// Records that these rows are gone.
    pub(super) fn delete(&mut self, handle: &TableHandle, gone: Vec<Place>) -> Result<()> {
        let mut places: Vec<Option<(u32, u32)>> =
            gone.into_iter().map(|place| Some((place.file, place.row))).collect();
        handle.translate_all(&mut places);
        let mut places: Vec<(u32, u32)> = places.into_iter().flatten().collect();
        places.sort_unstable();
        for rows in places.chunk_by(|a, b| a.0 == b.0) {
            let path = handle
                .path_of(rows[0].0)
                .ok_or_else(|| Error::bug("the locator names a file that nobody knows"))?;
            self.deletes.entry(path).or_default().extend(rows.iter().map(|row| u64::from(row.1)));
        }
        Ok(())
    }

    pub(super) fn committable(&self, id: CommittableId) -> TableCommittable {
        TableCommittable {
            id,
            table_uuid: self.table_uuid,
            files: self.files.clone(),
            deletes: self.deletes.clone(),
            rows: self.rows,
            commit_ms: self.commit_ms,
        }
    }
}
