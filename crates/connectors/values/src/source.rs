//! The source: a [`Database`] read as a server with a change log would be.

use async_trait::async_trait;
use lakeward_core::{
    Offset, Offsets, Result, Source, SourceCheck, SourceOpen, SourceReader, SourceTable, SplitId,
};

use crate::reader::{ReaderState, ValuesReader};
use crate::{Database, Faults};

/// How a reader goes about it. Each attempt cuts batches elsewhere, as a real one does.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub seed: u64,
    /// Most transactions that one call takes.
    pub transactions: u64,
    /// Most rows that one batch holds.
    pub batch_rows: u64,
    /// Most rows that a call takes from a table's snapshot.
    pub snapshot_rows: u64,
    /// Longest pause before a call does something.
    pub pause_ms: u64,
    /// How often, in percent, a call stops inside a transaction, or keeps rows back for the next one.
    pub cut_percent: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            seed: 0,
            transactions: 3,
            batch_rows: 5,
            snapshot_rows: 4,
            pause_ms: 8,
            cut_percent: 30,
        }
    }
}

#[derive(Clone)]
pub struct ValuesSource {
    pub database: Database,
    pub faults: Faults,
    pub pace: Pace,
}

impl ValuesSource {
    pub fn new(database: Database, faults: Faults, pace: Pace) -> Self {
        Self { database, faults, pace }
    }
}

impl ValuesSource {
    /// How many transactions an offset covers, once its snapshot is done.
    ///
    /// # Errors
    /// `OffsetLost` when it is not one of this source's.
    pub fn transactions(offsets: &Offsets) -> Result<Option<u64>> {
        let Some(offset) = offsets.get(&split()) else { return Ok(None) };
        let state = ReaderState::of(offset)?;
        Ok(state.snapshot.is_none().then_some(state.log))
    }
}

/// The one log.
pub(crate) fn split() -> SplitId {
    SplitId("log".into())
}

#[async_trait]
impl Source for ValuesSource {
    async fn check(&self) -> Result<SourceCheck> {
        let tables = self.database.tables().into_iter();
        let tables = tables
            .map(|(table, schema)| SourceTable {
                rows: Some(self.database.rows(&table).len() as u64),
                table,
                schema,
            })
            .collect();
        Ok(SourceCheck { server: "values".into(), tables, ..SourceCheck::default() })
    }

    async fn open(&self, open: SourceOpen) -> Result<Box<dyn SourceReader>> {
        self.faults.step("source:open").await?;
        Ok(Box::new(ValuesReader::open(self, open)?))
    }

    async fn current_offsets(&self) -> Result<Offsets> {
        let state = ReaderState { log: self.database.log_end(), snapshot: None };
        Ok([(split(), state.offset()?)].into())
    }

    fn covers(&self, reached: &Offset, offset: &Offset) -> Result<bool> {
        Ok(ReaderState::of(reached)?.covers(&ReaderState::of(offset)?))
    }
}
