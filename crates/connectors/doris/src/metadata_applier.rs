//! Applies DDL: creates tables, changes their columns, empties, renames and drops them.
//!
//! Doris has no transaction around DDL, so each statement is preceded by a look at the table: one that was done before a
//! crash is not done again. That an event is done is noted at its end.

mod columns;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{
    Column, DdlId, DdlNeeds, Error, ErrorKind, MetadataApplier, Result, SchemaChange, SchemaEvent,
    TableId, TableSchema,
};

use crate::client::{SERVER_CODE, now_ms};
use crate::ddl;
use crate::progress::AppliedDdl;
use crate::session::Session;
use crate::table::{TableShape, name_of};
use crate::types::{DorisType, default_text};

/// Changes tables as the source's DDL says. See the module.
pub(crate) struct DorisMetadataApplier {
    session: Arc<Session>,
    zone_offset_seconds: i32,
    rewrites: HashMap<DdlId, Rewrite>,
}

/// A change that rewrites its table, and has been begun.
struct Rewrite {
    since_ms: i64,
    next_look_ms: i64,
    reported_ms: i64,
    /// Columns whose job was started.
    columns: BTreeSet<Arc<str>>,
}

impl DorisMetadataApplier {
    pub(crate) fn new(session: Arc<Session>) -> Result<Self> {
        let zone_offset_seconds = session.cluster.config.zone_offset_seconds()?;
        Ok(Self { session, zone_offset_seconds, rewrites: HashMap::new() })
    }

    async fn execute(&self, sql: &str) -> Result<()> {
        tracing::debug!(%sql, "a statement for doris");
        self.session.cluster.sql.execute_once(sql).await.map_err(|e| match e.kind() {
            // What the server itself refuses, it refuses again; unless the table is busy.
            ErrorKind::Transient if is_refusal(&e) => e.with_kind(ErrorKind::SchemaIncompatible),
            _ => e,
        })
    }

    async fn shape(&self, table: &TableId) -> Result<Option<TableShape>> {
        TableShape::read(&self.session.cluster, table).await
    }

    async fn existing(&self, table: &TableId) -> Result<TableShape> {
        self.shape(table).await?.ok_or_else(|| {
            Error::transient("the table to change is not in doris").with("table", table)
        })
    }

    async fn ddl_of(&self, table: &TableId) -> Result<Vec<AppliedDdl>> {
        let Session { progress, cluster, pipeline, .. } = &*self.session;
        progress.ddl(cluster, pipeline, table).await
    }

    async fn apply_once(&self, event: &SchemaEvent) -> Result<()> {
        let table = &event.table;
        let mut applied = self.ddl_of(table).await?;
        let has = |f: fn(&SchemaChange) -> bool| event.changes.iter().any(f);
        let renamed = event.changes.iter().find_map(|change| match change {
            SchemaChange::RenameTable { to } => Some(to.clone()),
            _ => None,
        });
        if has(|c| matches!(c, SchemaChange::DropTable)) {
            if applied.is_empty() {
                if self.shape(table).await?.is_some() {
                    tracing::warn!(%table, "the source has no such table any more; the one in doris is of another origin and stays");
                }
                return Ok(());
            }
            self.execute(&ddl::drop_table(table)).await?;
            self.forget_reached(table).await?;
            applied = applied.into_iter().map(AppliedDdl::without_effect).collect();
        } else if let Some(to) = renamed {
            self.rename_table(event, &to, &applied).await?;
        } else {
            let after = event.after.as_deref().ok_or_else(|| {
                Error::bug("a schema event has no columns after it").with("ddl", &event.id)
            })?;
            let resets = has(|c| matches!(c, SchemaChange::ResetTable));
            if resets || has(|c| matches!(c, SchemaChange::CreateTable)) {
                self.create_table(table, after, resets, !applied.is_empty()).await?;
                // The columns are those of this place in the log: what came after it is to be applied once more.
                applied.retain(|d| d.position() <= event.id.position);
                applied = applied.into_iter().map(AppliedDdl::without_effect).collect();
            } else {
                self.change_table(event, after).await?;
            }
        }
        applied.retain(|d| d.position() != event.id.position);
        applied.push(self.record_of(event));
        self.write_ddl(table, applied).await
    }

    async fn write_ddl(&self, table: &TableId, applied: Vec<AppliedDdl>) -> Result<()> {
        let Session { progress, cluster, pipeline, incarnation, .. } = &*self.session;
        progress.write_ddl(cluster, pipeline, table, *incarnation, applied).await?;
        self.session.forget(table);
        Ok(())
    }

    async fn forget_reached(&self, table: &TableId) -> Result<()> {
        let Session { progress, cluster, pipeline, incarnation, .. } = &*self.session;
        progress.forget_reached(cluster, pipeline, table, *incarnation).await
    }

    /// What rows of earlier versions need to know of the event.
    fn record_of(&self, event: &SchemaEvent) -> AppliedDdl {
        let mut record = AppliedDdl {
            hi: event.id.position.hi,
            lo: event.id.position.lo,
            version: event.after.as_ref().map_or(0, |s| s.version),
            renames: Vec::new(),
            dropped: Vec::new(),
            added: Vec::new(),
        };
        for change in &event.changes {
            match change {
                SchemaChange::RenameColumn { from, to } => {
                    record.renames.push((from.to_string(), to.to_string()));
                }
                SchemaChange::DropColumn { name } => record.dropped.push(name.to_string()),
                SchemaChange::AddColumn { column, existing_rows, .. } => {
                    let text =
                        default_text(&column.data_type, existing_rows, self.zone_offset_seconds);
                    record.added.push((column.name.to_string(), text));
                }
                _ => {}
            }
        }
        record
    }

    async fn create_table(
        &self,
        table: &TableId,
        after: &TableSchema,
        resets: bool,
        ours: bool,
    ) -> Result<()> {
        let config = &self.session.cluster.config;
        let create = ddl::create_table(table, after, config)?;
        let Some(shape) = self.shape(table).await? else {
            self.execute(&ddl::create_database(table)).await?;
            return self.execute(&create).await;
        };
        let agrees = shape.agrees(after)?;
        if resets {
            self.forget_reached(table).await?;
            if agrees {
                return self.execute(&ddl::truncate_table(table)).await;
            }
            self.execute(&ddl::drop_table(table)).await?;
            return self.execute(&create).await;
        }
        let probe = format!("SELECT 1 FROM {} LIMIT 1", name_of(table));
        let empty = self.session.cluster.sql.rows(&probe).await?.is_empty();
        match (agrees, ours) {
            (true, true) => Ok(()),
            (true, false) if empty => Ok(()),
            // Made by an attempt that ended before it loaded anything: nothing depends on its columns.
            (false, true) if empty => {
                self.execute(&ddl::drop_table(table)).await?;
                self.execute(&create).await
            }
            (true, false) => Err(Error::config(
                "a table of this name exists in doris and holds rows of another origin; drop it, or route the source's \
                 table to another name",
            )),
            (false, true) => Err(Error::config(
                "the table in doris has other columns than the source's; read it anew with --resnapshot, or drop it",
            )),
            (false, false) => Err(Error::config(
                "a table of this name exists in doris with other columns; drop it, or route the source's table to another \
                 name",
            )),
        }
    }

    async fn rename_table(
        &self,
        event: &SchemaEvent,
        to: &TableId,
        applied: &[AppliedDdl],
    ) -> Result<()> {
        let from = &event.table;
        if to.namespace != from.namespace {
            return Err(Error::schema_incompatible(
                "doris cannot move a table to another database; route both names to one table, or read it anew with \
                 --resnapshot",
            )
            .with("to", to));
        }
        match (self.shape(from).await?, self.shape(to).await?) {
            (Some(_), None) => self.execute(&ddl::rename_table(from, &to.name)).await?,
            // Done before a crash.
            (None, Some(_)) => {}
            (Some(_), Some(_)) => {
                return Err(Error::schema_incompatible(
                    "the table cannot be renamed in doris: a table of the new name exists there",
                )
                .with("to", to));
            }
            (None, None) => {
                return Err(Error::transient("the table to rename is not in doris"));
            }
        }
        let Session { progress, cluster, pipeline, incarnation, .. } = &*self.session;
        let reached = progress.reached(cluster, pipeline).await?.remove(from);
        if let Some(mut reached) = reached {
            // Its new name has labels of its own.
            reached.next_parts.clear();
            reached.incarnation = *incarnation;
            let checkpoint = lakeward_core::CheckpointId(0);
            let moved = [(to.clone(), reached)];
            progress.write_reached(cluster, pipeline, checkpoint, &moved).await?;
        }
        self.forget_reached(from).await?;
        let mut applied = applied.to_vec();
        applied.push(self.record_of(event));
        self.write_ddl(to, applied).await?;
        if let Some(after) = event.after.as_deref() {
            self.change_columns(to, event, after).await?;
        }
        Ok(())
    }

    async fn change_table(&self, event: &SchemaEvent, after: &TableSchema) -> Result<()> {
        if event.changes.iter().any(|c| matches!(c, SchemaChange::TruncateTable)) {
            self.execute(&ddl::truncate_table(&event.table)).await?;
        }
        self.change_columns(&event.table, event, after).await
    }
}

/// The server said no, for a reason that time does not mend.
fn is_refusal(error: &Error) -> bool {
    let by_server = error.context().iter().any(|(key, _)| *key == SERVER_CODE);
    let message = error.message().to_ascii_lowercase();
    let busy = ["is not normal", "timeout", "timed out", "not master", "try again", "rpc"];
    by_server && !busy.iter().any(|text| message.contains(text))
}

#[async_trait]
impl MetadataApplier for DorisMetadataApplier {
    fn needs(&self, event: &SchemaEvent) -> DdlNeeds {
        let one = |change: &SchemaChange| match change {
            SchemaChange::CreateTable
            | SchemaChange::CommentColumn { .. }
            | SchemaChange::CommentTable { .. }
            | SchemaChange::MoveColumn { .. }
            | SchemaChange::AlterColumnNullable { .. } => DdlNeeds::Nothing,
            SchemaChange::DropTable
            | SchemaChange::TruncateTable
            | SchemaChange::ResetTable
            | SchemaChange::RenameTable { .. }
            | SchemaChange::SetPrimaryKey { .. } => DdlNeeds::RowsCommitted,
            // Loads that wait for their commit keep the columns that they were made with, and Doris fills in the rest.
            SchemaChange::AddColumn { .. }
            | SchemaChange::DropColumn { .. }
            | SchemaChange::RenameColumn { .. } => DdlNeeds::FilesComplete,
            SchemaChange::AlterColumnType { from, to, name } => {
                let of =
                    |data_type| DorisType::of(&Column::new(name.clone(), data_type, true), false);
                match (of(*from), of(*to)) {
                    (Ok(a), Ok(b)) if a.is_light_change(b) => DdlNeeds::FilesComplete,
                    // The rewriting waits for every older load of the table.
                    _ => DdlNeeds::RowsCommitted,
                }
            }
        };
        event.changes.iter().map(one).max().unwrap_or(DdlNeeds::Nothing)
    }

    async fn is_applied(&mut self, ddl: &DdlId) -> Result<bool> {
        let applied = self.ddl_of(&ddl.table).await?;
        Ok(applied.iter().any(|d| d.position() == ddl.position))
    }

    async fn prepare(&mut self, event: &SchemaEvent) -> Result<bool> {
        let only_types = |c: &SchemaChange| {
            matches!(
                c,
                SchemaChange::AlterColumnType { .. } | SchemaChange::AlterColumnNullable { .. }
            )
        };
        let rewrites = self.needs(event) == DdlNeeds::RowsCommitted;
        let Some(after) = event.after.as_deref() else { return Ok(true) };
        if !rewrites || !event.changes.iter().all(only_types) {
            return Ok(true);
        }
        let now_ms = now_ms();
        let known = self.rewrites.contains_key(&event.id);
        let rewrite = self.rewrites.entry(event.id.clone()).or_insert(Rewrite {
            since_ms: now_ms,
            next_look_ms: now_ms,
            reported_ms: now_ms,
            columns: BTreeSet::new(),
        });
        if now_ms < rewrite.next_look_ms {
            return Ok(false);
        }
        // Often at first, then once in a while.
        rewrite.next_look_ms = now_ms + ((now_ms - rewrite.since_ms) / 4).clamp(100, 5_000);
        if !known {
            self.session.check_owner().await?;
            if self.is_applied(&event.id).await? {
                return Ok(true);
            }
        }
        self.rewrite(event, after).await
    }

    async fn apply(&mut self, event: &SchemaEvent) -> Result<()> {
        self.rewrites.remove(&event.id);
        let with_place = |e: Error| e.with("table", &event.table).with("ddl", &event.id);
        self.session.check_owner().await.map_err(with_place)?;
        self.apply_once(event).await.map_err(with_place)
    }
}
