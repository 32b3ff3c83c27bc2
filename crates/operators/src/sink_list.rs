//! Several sinks behind one source: each gets every row and every DDL, and commits the same epochs.
//!
//! What one sink holds says nothing about another, so a table's progress is that of the sink that is furthest behind, and
//! a committable knows its sink.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::{join_all, try_join_all};
use lakeward_core::{
    Committable, CommittedTable, Committer, DataChange, DdlId, DdlNeeds, Epoch, EpochCommitted,
    EpochPublisher, Error, Member, MetadataApplier, Offsets, OperatorContext, Ownership,
    PipelineId, Result, SchemaEvent, Sink, SinkCheck, SinkWriter, Source, TableId, TableProgress,
    TableSchema,
};

/// Format version of this list's committables: the sink's number, its own version, its payload.
const COMMITTABLE_VERSION: u32 = 1;
/// Between the sinks' names for a table's new version.
const BETWEEN_VERSIONS: &str = "; ";
/// The sink's number and its version, before the payload.
const PREFIX_BYTES: usize = 1 + 4;

pub struct SinkList {
    sinks: Vec<(String, Arc<dyn Sink>)>,
    source: Arc<dyn Source>,
}

impl SinkList {
    /// Each sink with the name by which metrics and messages tell it from the others.
    ///
    /// # Errors
    /// `Config` for more than 255 sinks.
    pub fn new(sinks: Vec<(String, Arc<dyn Sink>)>, source: Arc<dyn Source>) -> Result<Self> {
        match sinks.len() {
            0..=255 => Ok(Self { sinks, source }),
            many => Err(Error::config("a pipeline has at most 255 sinks").with("sinks", many)),
        }
    }

    /// A sink's share of an operator's memory, and metrics of its own.
    fn context(&self, name: &str, context: &OperatorContext) -> OperatorContext {
        OperatorContext {
            metrics: context.metrics.with("sink", name),
            memory_bytes: context.memory_bytes / self.sinks.len().max(1),
            ..context.clone()
        }
    }

    fn of_both(&self, a: Offsets, b: &Offsets) -> Result<Offsets> {
        let mut both = Offsets::new();
        for (split, offset) in a {
            let Some(other) = b.get(&split) else { continue };
            let first_is_behind = self.source.covers(other, &offset)?;
            both.insert(split, if first_is_behind { offset } else { other.clone() });
        }
        Ok(both)
    }
}

#[async_trait]
impl Sink for SinkList {
    async fn check(
        &self,
        pipeline: &PipelineId,
        tables: &[(TableId, Arc<TableSchema>)],
    ) -> Result<SinkCheck> {
        let mut whole = SinkCheck::default();
        let mut targets = Vec::new();
        for (name, sink) in &self.sinks {
            let check = sink.check(pipeline, tables).await?;
            targets.push(check.target);
            whole.warnings.extend(check.warnings.into_iter().map(|w| format!("{name}: {w}")));
            whole.errors.extend(check.errors.into_iter().map(|e| format!("{name}: {e}")));
        }
        whole.target = targets.join(" and ");
        Ok(whole)
    }

    async fn knows(&self, pipeline: &PipelineId) -> Result<bool> {
        for (name, sink) in &self.sinks {
            if !sink.knows(pipeline).await.map_err(|e| e.with("sink", name))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<Ownership> {
        let mut each = Vec::with_capacity(self.sinks.len());
        for (name, sink) in &self.sinks {
            each.push(sink.acquire(pipeline, attempt).await.map_err(|e| e.with("sink", name))?);
        }
        let each = serde_json::to_string(&each)
            .map_err(|e| Error::bug("could not encode the ownership of sinks").with_source(e))?;
        Ok(Ownership(each))
    }

    async fn join(&self, pipeline: &PipelineId, member: &Member<'_>) -> Result<()> {
        let each: Vec<Ownership> = serde_json::from_str(&member.ownership.0)
            .map_err(|e| Error::bug("the ownership of sinks is damaged").with_source(e))?;
        if each.len() != self.sinks.len() {
            return Err(Error::bug("an attempt was joined with other sinks than it has"));
        }
        for ((name, sink), ownership) in self.sinks.iter().zip(&each) {
            let member = Member { ownership, ..*member };
            sink.join(pipeline, &member).await.map_err(|e| e.with("sink", name))?;
        }
        Ok(())
    }

    async fn progress(&self, pipeline: &PipelineId) -> Result<Vec<TableProgress>> {
        let mut least: BTreeMap<TableId, (usize, TableProgress)> = BTreeMap::new();
        for (_, sink) in &self.sinks {
            for progress in sink.progress(pipeline).await? {
                match least.entry(progress.table.clone()) {
                    btree_map::Entry::Vacant(entry) => {
                        entry.insert((1, progress));
                    }
                    btree_map::Entry::Occupied(mut entry) => {
                        let (seen, before) = entry.get_mut();
                        *seen += 1;
                        let offsets = std::mem::take(&mut before.offsets);
                        before.offsets = self.of_both(offsets, &progress.offsets)?;
                        before.checkpoint = before.checkpoint.max(progress.checkpoint);
                        before.ddl = before.ddl.min(progress.ddl);
                    }
                }
            }
        }
        let all = self.sinks.len();
        Ok(least
            .into_values()
            .map(|(seen, progress)| match seen == all {
                true => progress,
                // One of them has nothing yet. That another one has something must still be known.
                false => TableProgress { offsets: Offsets::new(), ddl: None, ..progress },
            })
            .collect())
    }

    async fn writer(
        &self,
        table: &TableId,
        context: &OperatorContext,
    ) -> Result<Box<dyn SinkWriter>> {
        let mut writers = Vec::new();
        for (name, sink) in &self.sinks {
            writers.push(sink.writer(table, &self.context(name, context)).await?);
        }
        Ok(Box::new(Writers(writers)))
    }

    async fn committer(&self, context: &OperatorContext) -> Result<Box<dyn Committer>> {
        let mut committers = Vec::new();
        for (name, sink) in &self.sinks {
            let committer = sink.committer(&self.context(name, context)).await?;
            committers.push((name.clone(), committer));
        }
        Ok(Box::new(Committers(committers)))
    }

    async fn metadata_applier(
        &self,
        context: &OperatorContext,
    ) -> Result<Box<dyn MetadataApplier>> {
        let mut appliers = Vec::new();
        for (name, sink) in &self.sinks {
            appliers.push(sink.metadata_applier(&self.context(name, context)).await?);
        }
        Ok(Box::new(Appliers(appliers)))
    }

    async fn epoch_publisher(
        &self,
        context: &OperatorContext,
    ) -> Result<Option<Box<dyn EpochPublisher>>> {
        let mut publishers = Vec::new();
        for (name, sink) in &self.sinks {
            let publisher = sink.epoch_publisher(&self.context(name, context)).await?;
            publishers.extend(publisher.map(|publisher| (name.clone(), publisher)));
        }
        let publishers = Publishers(publishers);
        Ok((!publishers.0.is_empty()).then(|| Box::new(publishers) as Box<dyn EpochPublisher>))
    }
}

struct Writers(Vec<Box<dyn SinkWriter>>);

#[async_trait]
impl SinkWriter for Writers {
    async fn write(&mut self, change: DataChange) -> Result<()> {
        try_join_all(self.0.iter_mut().map(|writer| writer.write(change.clone()))).await.map(drop)
    }

    fn buffered_bytes(&self) -> usize {
        self.0.iter().map(|writer| writer.buffered_bytes()).sum()
    }

    async fn flush(&mut self) -> Result<()> {
        try_join_all(self.0.iter_mut().map(|writer| writer.flush())).await.map(drop)
    }

    async fn complete_files(&mut self) -> Result<Vec<Committable>> {
        let completed = try_join_all(self.0.iter_mut().map(|w| w.complete_files())).await?;
        let of_sinks = completed.into_iter().enumerate();
        Ok(of_sinks.flat_map(|(i, all)| all.into_iter().map(move |c| wrap(i, c))).collect())
    }

    async fn table_changed(&mut self) -> Result<()> {
        try_join_all(self.0.iter_mut().map(|writer| writer.table_changed())).await.map(drop)
    }
}

fn wrap(sink: usize, committable: Committable) -> Committable {
    let mut payload = Vec::with_capacity(PREFIX_BYTES + committable.payload.len());
    payload.push(sink as u8);
    payload.extend(committable.version.to_le_bytes());
    payload.extend(&committable.payload);
    // All sinks get the same rows: they are counted once.
    let rows = if sink == 0 { committable.rows } else { 0 };
    Committable { version: COMMITTABLE_VERSION, payload, rows, ..committable }
}

fn unwrap(committable: Committable) -> Result<(usize, Committable)> {
    match committable.payload.split_at_checked(PREFIX_BYTES) {
        Some(([sink, version @ ..], payload)) if committable.version == COMMITTABLE_VERSION => {
            let version = version.iter().rev().fold(0, |v, byte| v << 8 | u32::from(*byte));
            let payload = payload.to_vec();
            Ok((usize::from(*sink), Committable { version, payload, ..committable }))
        }
        _ => Err(Error::config(
            "the checkpoint was written for one sink and this pipeline has several; keep the sinks of a pipeline, or \
             start one of another name",
        )
        .with("table", &committable.table)),
    }
}

struct Committers(Vec<(String, Box<dyn Committer>)>);

#[async_trait]
impl Committer for Committers {
    async fn commit(
        &mut self,
        epoch: &Epoch,
        tables: BTreeMap<TableId, Vec<Committable>>,
    ) -> Result<Vec<(TableId, Result<CommittedTable, Error>)>> {
        let mut of_sink: Vec<BTreeMap<TableId, Vec<Committable>>> =
            self.0.iter().map(|_| BTreeMap::new()).collect();
        for committable in tables.into_values().flatten() {
            let (sink, committable) = unwrap(committable)?;
            let of_sink = of_sink.get_mut(sink).ok_or_else(|| {
                Error::config("the checkpoint has files of a sink that this pipeline no longer has; put it back")
                    .with("table", &committable.table)
            })?;
            of_sink.entry(committable.table.clone()).or_default().push(committable);
        }
        let commits = self.0.iter_mut().zip(of_sink).map(|((name, committer), tables)| async {
            let outcome = match tables.is_empty() {
                true => Ok(Vec::new()),
                false => committer.commit(epoch, tables).await,
            };
            (name.as_str(), outcome)
        });
        // All of them to their end: what one has committed is committed whatever becomes of the others.
        let outcomes = join_all(commits).await;
        let mut whole: BTreeMap<TableId, Result<CommittedTable, Error>> = BTreeMap::new();
        for (name, outcome) in outcomes {
            for (table, outcome) in outcome.map_err(|e| e.with("sink", name))? {
                let outcome = outcome.map_err(|e| e.with("sink", name)).map(|committed| {
                    CommittedTable { version: format!("{name} {}", committed.version), ..committed }
                });
                match whole.entry(table) {
                    btree_map::Entry::Vacant(entry) => {
                        entry.insert(outcome);
                    }
                    btree_map::Entry::Occupied(mut entry) => match (entry.get_mut(), outcome) {
                        (Ok(whole), Ok(more)) => {
                            whole.version =
                                format!("{}{BETWEEN_VERSIONS}{}", whole.version, more.version);
                            whole.rows = whole.rows.max(more.rows);
                            whole.already &= more.already;
                        }
                        (whole @ Ok(_), Err(error)) => *whole = Err(error),
                        (Err(_), _) => {}
                    },
                }
            }
        }
        Ok(whole.into_iter().collect())
    }

    async fn restored(&mut self) -> Result<()> {
        for (name, committer) in &mut self.0 {
            committer.restored().await.map_err(|e| e.with("sink", name))?;
        }
        Ok(())
    }
}

struct Publishers(Vec<(String, Box<dyn EpochPublisher>)>);

#[async_trait]
impl EpochPublisher for Publishers {
    async fn publish(&mut self, epoch: &EpochCommitted) -> Result<()> {
        for (name, publisher) in &mut self.0 {
            let of_sink = |(table, versions): (&String, &String)| {
                version_of(versions, name).map(|version| (table.clone(), version))
            };
            let tables = epoch.tables.iter().filter_map(of_sink).collect();
            publisher.publish(&EpochCommitted { tables, ..epoch.clone() }).await?;
        }
        Ok(())
    }
}

/// One sink's part of what all sinks call a table's new version.
fn version_of(versions: &str, sink: &str) -> Option<String> {
    versions
        .split(BETWEEN_VERSIONS)
        .filter_map(|part| part.strip_prefix(sink)?.strip_prefix(' '))
        .map(str::to_string)
        .next()
}

struct Appliers(Vec<Box<dyn MetadataApplier>>);

#[async_trait]
impl MetadataApplier for Appliers {
    /// The most that one of them needs.
    fn needs(&self, event: &SchemaEvent) -> DdlNeeds {
        self.0.iter().map(|applier| applier.needs(event)).max().unwrap_or(DdlNeeds::Nothing)
    }

    async fn is_applied(&mut self, ddl: &DdlId) -> Result<bool> {
        for applier in &mut self.0 {
            if !applier.is_applied(ddl).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn prepare(&mut self, event: &SchemaEvent) -> Result<bool> {
        let mut all = true;
        for applier in &mut self.0 {
            all &= applier.prepare(event).await?;
        }
        Ok(all)
    }

    /// One after the other. A failure leaves the ones before it changed: the same DDL is a no-op there the next time.
    async fn apply(&mut self, event: &SchemaEvent) -> Result<()> {
        for applier in &mut self.0 {
            if !applier.is_applied(&event.id).await? {
                applier.apply(event).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lakeward_core::ErrorKind;

    use super::*;

    fn committable(version: u32, payload: &[u8]) -> Committable {
        Committable {
            table: TableId::new("d", "t"),
            version,
            payload: payload.to_vec(),
            rows: 7,
            size_bytes: 1,
            commit_ms: 2,
        }
    }

    #[test]
    fn a_committable_comes_back_to_its_sink_as_it_was() {
        for (sink, payload) in [(0, &b"abc"[..]), (1, b""), (254, b"x")] {
            let original = committable(0x0102_0304, payload);
            let wrapped = wrap(sink, original.clone());
            assert_eq!(wrapped.rows, if sink == 0 { 7 } else { 0 }, "rows count once");
            let (of, back) = unwrap(wrapped).unwrap();
            assert_eq!(
                (of, back.version, &back.payload),
                (sink, original.version, &original.payload)
            );
        }
    }

    #[test]
    fn what_one_sink_alone_had_stored_is_refused() {
        for foreign in [committable(COMMITTABLE_VERSION, b"abc"), committable(2, b"abcdefgh")] {
            let error = unwrap(foreign).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("d.t"), "{error}");
        }
    }

    #[test]
    fn each_sink_finds_its_own_version() {
        let versions = format!("lake 123{BETWEEN_VERSIONS}lake2 45,46");
        assert_eq!(version_of(&versions, "lake").as_deref(), Some("123"));
        assert_eq!(version_of(&versions, "lake2").as_deref(), Some("45,46"));
        assert_eq!(version_of(&versions, "other"), None);
    }
}
