//! Commits files into the lake, table by table.

use std::collections::BTreeMap;

use async_trait::async_trait;
use lakeward_core::{
    Committable, CommittedTable, Committer, Epoch, Error, OperatorContext, PipelineId, Result,
    TableId,
};

use crate::ValuesSink;
use crate::lake::DataFile;

pub(crate) struct ValuesCommitter {
    sink: ValuesSink,
    pipeline: PipelineId,
    attempt: u64,
}

impl ValuesCommitter {
    pub(crate) fn new(sink: ValuesSink, context: &OperatorContext) -> Self {
        Self { sink, pipeline: context.pipeline.clone(), attempt: context.attempt }
    }

    fn one(&self, epoch: &Epoch, table: &TableId, files: &[Committable]) -> Result<CommittedTable> {
        let mut decoded: Vec<DataFile> = Vec::with_capacity(files.len());
        for file in files {
            let file = serde_json::from_slice(&file.payload)
                .map_err(|e| Error::bug("could not decode a file").with_source(e))?;
            decoded.push(file);
        }
        let count = decoded.iter().map(|f| f.rows.len() as u64).sum();
        let version = self.sink.lake.commit(table, epoch.checkpoint, &epoch.offsets, decoded);
        Ok(CommittedTable {
            version: version.map(|v| v.to_string()).unwrap_or_default(),
            rows: if version.is_some() { count } else { 0 },
            already: version.is_none(),
        })
    }
}

#[async_trait]
impl Committer for ValuesCommitter {
    async fn commit(
        &mut self,
        epoch: &Epoch,
        tables: BTreeMap<TableId, Vec<Committable>>,
    ) -> Result<Vec<(TableId, Result<CommittedTable, Error>)>> {
        let faults = &self.sink.faults;
        let mut outcomes = Vec::with_capacity(tables.len());
        for (table, files) in tables {
            faults.step(format!("commit {table} {}:before", epoch.checkpoint)).await?;
            self.sink.lake.check_owner(&self.pipeline, self.attempt)?;
            let outcome = self.one(epoch, &table, &files);
            faults.step(format!("commit {table} {}:after", epoch.checkpoint)).await?;
            outcomes.push((table, outcome));
        }
        Ok(outcomes)
    }
}
