//! How far the sink already holds each source table, read from the sink's tables themselves.

use std::collections::HashMap;
use std::sync::Arc;

use lakeward_core::{
    Offsets, PipelineId, Reached, Result, Sink, Source, SourceTable, TableId, TableProgress,
};
use lakeward_operators::{PipelineDefinition, Routes};

/// Finds, before each attempt, up to where rows of each source table are in the sink.
#[derive(Clone)]
pub struct Floors {
    id: PipelineId,
    source: Arc<dyn Source>,
    sink: Arc<dyn Sink>,
    routes: Arc<Routes>,
}

impl Floors {
    pub fn new(pipeline: &PipelineDefinition) -> Self {
        let PipelineDefinition { id, source, sink, routes, .. } = pipeline.clone();
        Self { id, source, sink, routes }
    }

    /// Source tables that every one of their sink tables holds rows of, and the offsets that all of these cover.
    pub async fn read(&self) -> Result<HashMap<TableId, Reached>> {
        let progress = self.sink.progress(&self.id).await?;
        // A table that was created and never committed to has no offsets.
        let reached = progress.into_iter().filter(|p| !p.offsets.is_empty());
        let reached: HashMap<TableId, TableProgress> =
            reached.map(|p| (p.table.clone(), p)).collect();
        self.of_source_tables(reached).await
    }

    async fn of_source_tables(
        &self,
        reached: HashMap<TableId, TableProgress>,
    ) -> Result<HashMap<TableId, Reached>> {
        if self.routes.is_empty() || reached.is_empty() {
            let reached = reached.into_iter().map(|(table, p)| {
                (table, Reached { offsets: p.offsets, checkpoint: p.checkpoint })
            });
            return Ok(reached.collect());
        }
        let tables = self.source.check().await?.tables;
        let mut floors = HashMap::new();
        for SourceTable { table, .. } in tables {
            let targets = self.routes.targets(&table)?;
            let found = targets.iter().map(|t| reached.get(&t.table));
            // A target that has nothing yet needs all of it.
            let Some(found) = found.collect::<Option<Vec<&TableProgress>>>() else { continue };
            let offsets: Vec<&Offsets> = found.iter().map(|p| &p.offsets).collect();
            let offsets = lowest(&*self.source, &offsets)?;
            let checkpoint = found.iter().map(|p| p.checkpoint).max();
            if let Some(checkpoint) = checkpoint.filter(|_| !offsets.is_empty()) {
                floors.insert(table, Reached { offsets, checkpoint });
            }
        }
        Ok(floors)
    }
}

/// What all of the offsets cover.
fn lowest(source: &dyn Source, offsets: &[&Offsets]) -> Result<Offsets> {
    let Some((first, rest)) = offsets.split_first() else { return Ok(Offsets::new()) };
    let mut floor = (*first).clone();
    for other in rest {
        floor.retain(|split, _| other.contains_key(split));
        for (split, offset) in &mut floor {
            if !source.covers(&other[split], offset)? {
                *offset = other[split].clone();
            }
        }
    }
    Ok(floor)
}
