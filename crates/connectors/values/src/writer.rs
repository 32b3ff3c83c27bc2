//! Gathers rows; a file is the rows of one `flush` as JSON.

use async_trait::async_trait;
use lakeward_core::{Committable, DataChange, Error, Result, SinkWriter, TableId};

use crate::Faults;
use crate::batch::from_batch;
use crate::lake::FileRow;

const VERSION: u32 = 1;

pub(crate) struct ValuesWriter {
    table: TableId,
    faults: Faults,
    rows: Vec<FileRow>,
    commit_ms: i64,
    files: Vec<Committable>,
}

impl ValuesWriter {
    pub(crate) fn new(table: TableId, faults: Faults) -> Self {
        Self { table, faults, rows: Vec::new(), commit_ms: 0, files: Vec::new() }
    }

    fn complete(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let payload = serde_json::to_vec(&rows)
            .map_err(|e| Error::bug("could not encode a file").with_source(e))?;
        self.files.push(Committable {
            table: self.table.clone(),
            version: VERSION,
            rows: rows.len() as u64,
            size_bytes: payload.len() as u64,
            payload,
            commit_ms: self.commit_ms,
        });
        Ok(())
    }
}

#[async_trait]
impl SinkWriter for ValuesWriter {
    async fn write(&mut self, change: DataChange) -> Result<()> {
        let values = from_batch(&change.rows)?;
        let mut segments = change.segments.iter().peekable();
        for (at, (values, kind)) in values.into_iter().zip(change.kinds).enumerate() {
            while segments.next_if(|s| s.end as usize <= at).is_some() {}
            let segment = segments
                .peek()
                .ok_or_else(|| Error::bug("a batch has rows outside of its segments"))?;
            self.commit_ms = self.commit_ms.max(segment.commit_ms);
            self.rows.push(FileRow {
                kind,
                version: change.schema.version,
                values,
                position: segment.position,
                snapshot: change.snapshot,
            });
        }
        Ok(())
    }

    fn buffered_bytes(&self) -> usize {
        self.rows.len() * 100
    }

    async fn flush(&mut self) -> Result<()> {
        self.complete()
    }

    async fn complete_files(&mut self) -> Result<Vec<Committable>> {
        self.complete()?;
        if !self.files.is_empty() {
            self.faults.step(format!("write {}", self.table)).await?;
        }
        Ok(std::mem::take(&mut self.files))
    }

    async fn table_changed(&mut self) -> Result<()> {
        Ok(())
    }
}
