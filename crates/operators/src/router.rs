//! Routing: source tables under the names of their sink tables, merged where several share one.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{
    CheckpointId, Collector, Error, Operator, Result, State, StreamRecord, TableFailure, TableId,
    Target,
};

use crate::merge::MergedTable;
use crate::route::Routes;
use crate::state;

pub struct Router {
    routes: Arc<Routes>,
    tables: BTreeMap<TableId, MergedTable>,
}

impl Router {
    pub fn new(routes: Arc<Routes>) -> Self {
        Self { routes, tables: BTreeMap::new() }
    }
}

#[async_trait]
impl Operator for Router {
    async fn open(&mut self, restored: Option<State>, _out: &mut Collector) -> Result<()> {
        if let Some(restored) = restored {
            for (table, _) in state::read::<MergedTable>(&restored)? {
                self.tables.insert(table.target.clone(), table);
            }
        }
        Ok(())
    }

    async fn process(&mut self, record: StreamRecord, out: &mut Collector) -> Result<()> {
        let table = match &record {
            StreamRecord::Data(change) => &change.table,
            StreamRecord::Schema(event) => &event.table,
            StreamRecord::Failure(failure) => &failure.table,
            _ => {
                out.emit(Target::All, record);
                return Ok(());
            }
        };
        for target in self.routes.targets(table)? {
            let hash = Target::Hash(target.table.stable_hash());
            let merged = self
                .tables
                .entry(target.table.clone())
                .or_insert_with(|| MergedTable::new(target.table));
            match &record {
                StreamRecord::Data(change) => {
                    out.emit(hash, StreamRecord::Data(merged.data(change.clone())?));
                }
                StreamRecord::Schema(event) => {
                    if let Some(event) = merged.schema(event.clone(), target.shard_key)? {
                        out.emit(hash, StreamRecord::Schema(event));
                    }
                }
                // Of several tables in one, the failed one takes the whole with it: nobody could tell what is missing.
                StreamRecord::Failure(failure) => {
                    let failure = TableFailure {
                        table: merged.target.clone(),
                        error: Error::new(failure.error.kind(), failure.error.to_string())
                            .with("source_table", &failure.table),
                    };
                    out.emit(hash, StreamRecord::Failure(failure));
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn prepare_snapshot(
        &mut self,
        _checkpoint: CheckpointId,
        _out: &mut Collector,
    ) -> Result<()> {
        Ok(())
    }

    async fn snapshot_state(&mut self, _checkpoint: CheckpointId) -> Result<State> {
        let mut writer = state::StateWriter::default();
        for table in self.tables.values() {
            writer.entry(table, [])?;
        }
        Ok(writer.finish())
    }

    async fn checkpoint_complete(
        &mut self,
        _checkpoint: CheckpointId,
        _out: &mut Collector,
    ) -> Result<()> {
        Ok(())
    }

    async fn finish(&mut self, _out: &mut Collector) -> Result<()> {
        Ok(())
    }
}
