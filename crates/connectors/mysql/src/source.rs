//! MySQL and MariaDB as a [`Source`]: opening a reader anew or from its state.

use async_trait::async_trait;
use lakeward_core::{
    Error, Offset, Offsets, Result, Source, SourceCheck, SourceOpen, SourceReader, TableId,
};
use tracing::{info, warn};

use crate::backfill::{Backfill, BackfillOptions};
use crate::catalog::{log_start, purged};
use crate::check;
use crate::client::{Client, ServerFacts};
use crate::config::{MysqlConfig, StartupMode};
use crate::ddl::SchemaHistory;
use crate::establish::ReplicaIds;
use crate::log::LogCore;
use crate::metrics::SourceMetrics;
use crate::offset::{FilePosition, GtidSet, LogOffset, split};
use crate::reader::MysqlReader;
use crate::selector::{TableSelector, is_ghost};
use crate::shapes::{Shapes, read_all, start_place};
use crate::snapshot::worker_count;
use crate::state::{ReaderState, SnapshotState};
use crate::tables::{Intent, Lane, Phase, Run, TableSlot, Whole};
use crate::transaction::Prepared;
use crate::types::TypeOptions;
use crate::wire::Connection;

/// The source of a pipeline.
pub struct MysqlSource {
    config: MysqlConfig,
    client: Client,
    selector: TableSelector,
}

impl MysqlSource {
    pub fn new(config: MysqlConfig) -> Result<Self> {
        let client = Client::new(&config)?;
        let selector = TableSelector::new(&config.tables, config.tables_exclude.as_deref())?;
        config.server_ids()?;
        Ok(Self { config, client, selector })
    }

    pub fn config(&self) -> &MysqlConfig {
        &self.config
    }

    fn types(&self) -> TypeOptions {
        TypeOptions { tinyint1_as_boolean: self.config.treat_tinyint1_as_boolean_enabled }
    }

    /// A reader for a pipeline that has no checkpoint.
    async fn fresh(
        &self,
        connection: &mut Connection,
        facts: &ServerFacts,
        open: &SourceOpen,
    ) -> Result<LogCore> {
        let unclaimed = open.committed.keys().find(|t| !is_wanted(t, &open.resnapshot));
        if let Some(table) = unclaimed {
            return Err(Error::config(
                "the sink holds rows of this pipeline, but there is no checkpoint to go on from; restore the state directory, \
                 or read everything again with --resnapshot",
            )
            .with("table", table));
        }
        let shapes = read_all(connection, facts, &self.selector).await?;
        if shapes.tables.is_empty() {
            warn!(
                tables = self.config.tables,
                "no table matches yet; waiting for one to be created"
            );
        }
        for warning in self.selector.without_table(shapes.tables.iter().map(|(table, _)| table)) {
            warn!("{warning}");
        }
        let start = self.start(connection, facts, &shapes).await?;
        let history = self.history(facts, &shapes);
        let mut core = self.core(facts, history, start, 0, open);
        let with_snapshot =
            matches!(self.config.startup_mode, StartupMode::Initial | StartupMode::Snapshot);
        let from_the_past = matches!(
            self.config.startup_mode,
            StartupMode::EarliestOffset | StartupMode::SpecificOffset | StartupMode::Timestamp
        );
        if from_the_past {
            core.shapes_from = Some(shapes.until.at.clone());
        }
        if self.config.startup_mode == StartupMode::Timestamp {
            core.not_before_ms = self.config.startup_timestamp_millis.unwrap_or(0);
        }
        for (table, found) in shapes.tables {
            let intent =
                Intent { snapshot: with_snapshot, reset: is_wanted(&table, &open.resnapshot) };
            let metrics = core.metrics.table(&table);
            let mut slot = TableSlot::new(table, intent, metrics);
            let (from, until) = match from_the_past {
                // By the shapes of now, as far as they fit.
                true => (core.boundary.at.clone(), FilePosition::new("", 0)),
                false => (shapes.from.at.clone(), shapes.until.at.clone()),
            };
            slot.phase = Phase::Waiting { from, until, found };
            core.tables.insert(slot);
        }
        Ok(core)
    }

    async fn start(
        &self,
        connection: &mut Connection,
        facts: &ServerFacts,
        shapes: &Shapes,
    ) -> Result<LogOffset> {
        let offset = |at: FilePosition, gtids: Option<GtidSet>| LogOffset {
            server: facts.identity.clone(),
            at,
            gtids,
            era: 0,
        };
        match self.config.startup_mode {
            StartupMode::Initial | StartupMode::Snapshot | StartupMode::LatestOffset => {
                Ok(offset(shapes.from.at.clone(), shapes.from.gtids.clone()))
            }
            StartupMode::EarliestOffset | StartupMode::Timestamp => {
                if self.config.startup_mode == StartupMode::Timestamp
                    && self.config.startup_timestamp_millis.is_none()
                {
                    return Err(Error::config(
                        "`scan.startup.mode: timestamp` needs `scan.startup.timestamp-millis`",
                    ));
                }
                let at = log_start(connection).await?;
                let gtids = match facts.is_mariadb() {
                    true => crate::catalog::gtids_at(connection, &at).await?,
                    false if facts.gtid => purged(connection).await?,
                    false => None,
                };
                Ok(offset(at, gtids))
            }
            StartupMode::SpecificOffset => {
                let gtids = match &self.config.startup_gtid_set {
                    Some(text) if facts.is_mariadb() => Some(GtidSet::MariaDb(text.parse()?)),
                    Some(text) => Some(GtidSet::MySql(text.parse()?)),
                    None => None,
                };
                let skips = [self.config.startup_skip_events, self.config.startup_skip_rows];
                if skips.into_iter().flatten().any(|n| n > 0) {
                    return Err(Error::config(
                        "`scan.startup.specific-offset.skip-events` and `.skip-rows` are not supported; give the position \
                         behind them",
                    ));
                }
                match (&self.config.startup_file, gtids) {
                    (Some(file), gtids) => {
                        let at =
                            FilePosition::new(file.as_str(), self.config.startup_pos.unwrap_or(4));
                        Ok(offset(at, gtids))
                    }
                    (None, Some(gtids)) => Ok(offset(FilePosition::new("", 0), Some(gtids))),
                    (None, None) => Err(Error::config(
                        "`scan.startup.mode: specific-offset` needs `scan.startup.specific-offset.file` and `.pos`, or \
                         `scan.startup.specific-offset.gtid-set`",
                    )),
                }
            }
        }
    }

    /// A reader that goes on from a checkpoint.
    async fn restored(
        &self,
        connection: &mut Connection,
        facts: &ServerFacts,
        open: &SourceOpen,
        state: ReaderState,
    ) -> Result<LogCore> {
        info!(position = %state.offset, "going on from the checkpoint");
        let ReaderState { offset, commit_ms, history, tables, prepared } = state;
        let mut core = self.core(facts, history, offset, commit_ms, open);
        core.prepared = prepared.into_iter().map(Prepared::restored).collect();
        for (table, offsets) in &open.committed {
            if let Some(offset) = offsets.get(&split()) {
                core.tables.floors.insert(table.clone(), LogOffset::decode(offset)?);
            }
        }
        for state in tables {
            if !self.selector.is_selected(&state.table) {
                info!(table = %state.table, "no longer selected: its changes are not copied any more");
                continue;
            }
            let metrics = core.metrics.table(&state.table);
            let intent = Intent { snapshot: true, reset: state.announced };
            let mut slot = TableSlot::new(state.table.clone(), intent, metrics);
            slot.announced = state.announced;
            slot.rows_from = state.rows_from;
            slot.phase = Phase::Active;
            slot.run = match state.snapshot {
                SnapshotState::Done => Run::Done,
                SnapshotState::Lanes(lanes) => {
                    Run::Lanes(lanes.into_iter().map(Lane::new).collect())
                }
                SnapshotState::Whole => Run::Whole(Whole::Ready { reset: true }),
                SnapshotState::LeftOut => {
                    slot.phase = Phase::LeftOut;
                    Run::Done
                }
                SnapshotState::Pending => {
                    slot.phase = Phase::Asked;
                    Run::Done
                }
            };
            let is_finished = matches!(slot.run, Run::Done) && !matches!(slot.phase, Phase::Asked);
            let floor = core.tables.floors.get(&state.table).filter(|_| !is_finished);
            let is_beyond = match floor {
                Some(floor) => open.ahead.contains(&state.table) || !core.boundary.covers(floor)?,
                None => false,
            };
            if is_beyond {
                warn!(table = %state.table, "the sink is ahead of this snapshot: reading the table anew");
            }
            if is_beyond || is_wanted(&state.table, &open.resnapshot) {
                slot.phase = Phase::Asked;
                slot.intent.reset = true;
                slot.run = Run::Done;
            }
            if matches!(slot.phase, Phase::Asked) {
                core.asked.push(state.table);
            }
            core.tables.insert(slot);
        }
        for listed in crate::catalog::list_tables(connection, &self.selector).await? {
            if core.tables.find(&listed.table).is_some() || is_ghost(&listed.table) {
                continue;
            }
            // It may also have been created since the checkpoint; then the log will tell all of it, and its snapshot does
            // no harm.
            info!(table = %listed.table, "new in the selection: reading it");
            // What the sink holds of it beyond the checkpoint may have another shape.
            let reset = open.committed.contains_key(&listed.table)
                || is_wanted(&listed.table, &open.resnapshot);
            let intent = Intent { snapshot: true, reset };
            let metrics = core.metrics.table(&listed.table);
            core.asked.push(listed.table.clone());
            core.tables.insert(TableSlot::new(listed.table, intent, metrics));
        }
        Ok(core)
    }

    fn history(&self, facts: &ServerFacts, shapes: &Shapes) -> SchemaHistory {
        let mut history = SchemaHistory::new(&facts.charset, facts.lower_case_table_names);
        for (database, charset) in &shapes.database_charsets {
            history.set_database_charset(database, charset);
        }
        history
    }

    fn core(
        &self,
        facts: &ServerFacts,
        history: SchemaHistory,
        boundary: LogOffset,
        commit_ms: i64,
        open: &SourceOpen,
    ) -> LogCore {
        let mut core = LogCore::new(
            facts.flavor,
            self.selector.clone(),
            self.types(),
            history,
            SourceMetrics::new(&open.metrics),
            boundary,
            commit_ms,
            open.attempt,
        );
        core.schema_changes = self.config.schema_change_enabled;
        core.system_offset_secs = facts.system_offset_secs;
        core.explicit_defaults = facts.explicit_defaults;
        core
    }
}

/// True for a table that the user wants to be read again: `*`, `db.table`, or a pattern as in `tables`.
fn is_wanted(table: &TableId, resnapshot: &[String]) -> bool {
    resnapshot.iter().any(|wanted| {
        wanted == "*"
            || *wanted == table.to_string()
            || TableSelector::new(wanted, None).is_ok_and(|s| s.is_selected(table))
    })
}

#[async_trait]
impl Source for MysqlSource {
    async fn check(&self) -> Result<SourceCheck> {
        check::check(&self.config, &self.client, &self.selector, &self.types()).await
    }

    async fn open(&self, open: SourceOpen) -> Result<Box<dyn SourceReader>> {
        let mut connection = self.client.connect().await?;
        let facts = ServerFacts::read(&mut connection).await?;
        let ignored = self.config.without_effect();
        if !ignored.is_empty() {
            warn!("options without effect here: {}", ignored.join(", "));
        }
        for warning in check::row_log_settings(&mut connection, &facts).await? {
            warn!("{warning}");
        }
        let core = match &open.restored {
            None => self.fresh(&mut connection, &facts, &open).await?,
            Some(state) => {
                let state: ReaderState = state.to_json()?;
                if open.resnapshot.iter().any(|wanted| wanted == "*") {
                    // Nothing of the log before now is needed, and it may be gone.
                    let era = state.offset.era + 1;
                    let mut core = self.fresh(&mut connection, &facts, &open).await?;
                    core.boundary.era = era;
                    core
                } else {
                    self.restored(&mut connection, &facts, &open, state).await?
                }
            }
        };
        for wanted in open.resnapshot.iter().filter(|wanted| *wanted != "*") {
            let wanted = std::slice::from_ref(wanted);
            if !core.tables.slots.iter().any(|slot| is_wanted(&slot.id, wanted)) {
                return Err(Error::config(
                    "--resnapshot names a table that this pipeline does not copy; give it as database.table",
                )
                .with("table", &wanted[0]));
            }
        }
        let cascades = check::cascading_children(&mut connection, &facts, &self.selector).await?;
        core.metrics.cascade_tables.set(cascades.len() as i64);
        for table in &cascades {
            warn!(table = %table, "{}", check::CASCADE_WARNING);
        }
        connection.close().await;
        let ids = ReplicaIds::new(&self.config, &open.pipeline)?;
        let workers = worker_count(self.config.connection_pool_size);
        // Half of the memory for chunks, which take a little more as columns than they did on the way.
        let chunk_bytes = (open.memory_bytes / 2 / (workers + 2)).clamp(1 << 20, 16 << 20) as u64;
        let options = BackfillOptions {
            workers,
            chunk_size: self.config.chunk_size,
            chunk_bytes,
            concurrent: facts.gtid,
        };
        // A quarter for what the server is ahead; rows in columns take the rest.
        let ahead_bytes = (open.memory_bytes / 4).clamp(1 << 20, 64 << 20);
        let snapshot_only = self.config.startup_mode == StartupMode::Snapshot;
        let reader = MysqlReader::new(
            core,
            Backfill::new(options),
            self.client.clone(),
            facts,
            ids,
            ahead_bytes,
            snapshot_only,
            open.clock.clone(),
        );
        Ok(Box::new(reader))
    }

    async fn current_offsets(&self) -> Result<Offsets> {
        let mut connection = self.client.connect().await?;
        let facts = ServerFacts::read(&mut connection).await?;
        let end = start_place(&mut connection, &facts).await?;
        connection.close().await;
        let offset = LogOffset { server: facts.identity, at: end.at, gtids: end.gtids, era: 0 };
        Ok(Offsets::from([(split(), offset.encode()?)]))
    }

    fn covers(&self, reached: &Offset, offset: &Offset) -> Result<bool> {
        LogOffset::decode(reached)?.covers(&LogOffset::decode(offset)?)
    }
}
