//! Gathers rows; a file is the rows of one `flush` as JSON.

use async_trait::async_trait;
use lakeward_core::{Committable, DataChange, Error, Result, SinkWriter, TableId};

use crate::batch::from_batch;
use crate::lake::{DataFile, FileRow};
use crate::{Faults, Lake};

const VERSION: u32 = 1;

pub(crate) struct ValuesWriter {
    table: TableId,
    lake: Lake,
    faults: Faults,
    table_number: Option<u64>,
    rows: Vec<FileRow>,
    commit_ms: i64,
    files: Vec<Committable>,
}

impl ValuesWriter {
    pub(crate) fn new(table: TableId, lake: Lake, faults: Faults) -> Self {
        let (rows, files) = (Vec::new(), Vec::new());
        Self { table, lake, faults, table_number: None, rows, commit_ms: 0, files }
    }

    fn complete(&mut self) -> Result<()> {
        let Some(table_number) = self.table_number.filter(|_| !self.rows.is_empty()) else {
            return Ok(());
        };
        let file = DataFile { table_number, rows: std::mem::take(&mut self.rows) };
        let payload = serde_json::to_vec(&file)
            .map_err(|e| Error::bug("could not encode a file").with_source(e))?;
        self.files.push(Committable {
            table: self.table.clone(),
            version: VERSION,
            rows: file.rows.len() as u64,
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
        if self.table_number.is_none() {
            self.table_number = Some(self.lake.table_number(&self.table)?);
        }
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
