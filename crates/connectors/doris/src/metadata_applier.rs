//! Applies DDL: creates tables, changes their columns, empties, renames and drops them.
//!
//! Doris has no transaction around DDL, so each statement is preceded by a look at the table: one that was done before a
//! crash is not done again. That an event is done is noted at its end.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lakeward_core::{
    Column, ColumnPlace, DdlId, DdlNeeds, Error, ErrorKind, MetadataApplier, Result, SchemaChange,
    SchemaEvent, TableId, TableSchema,
};

use crate::client::{SERVER_CODE, now_ms};
use crate::ddl;
use crate::progress::AppliedDdl;
use crate::schema_job;
use crate::session::Session;
use crate::table::{TableShape, name_of};
use crate::types::{DorisType, default_text};

/// A name that a column has for the moment in which two swap theirs.
const SWAPPED: &str = "lakeward_swap_";
const REPORT_EVERY_MS: i64 = schema_job::REPORT_EVERY.as_millis() as i64;

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

    async fn change_columns(
        &self,
        table: &TableId,
        event: &SchemaEvent,
        after: &TableSchema,
    ) -> Result<()> {
        self.check_possible(table, event, after).await?;
        self.rename_columns(table, event).await?;
        for change in &event.changes {
            match change {
                SchemaChange::AddColumn { column, place, existing_rows } => {
                    let shape = self.existing(table).await?;
                    if shape.find(&column.name).is_some() {
                        continue;
                    }
                    let after = predecessor(place, &shape, after, column);
                    let zone = self.zone_offset_seconds;
                    let sql =
                        ddl::add_column(table, column, existing_rows, after.as_deref(), zone)?;
                    self.alter(table, &sql).await?;
                }
                SchemaChange::DropColumn { name } => {
                    if self.existing(table).await?.find(name).is_some() {
                        self.alter(table, &ddl::drop_column(table, name)).await?;
                    }
                }
                SchemaChange::AlterColumnType { name, .. } => {
                    self.change_type(table, name, after).await?;
                }
                SchemaChange::CommentColumn { name, comment } => {
                    let comment = comment.as_deref().unwrap_or_default();
                    self.alter(table, &ddl::comment_column(table, name, comment)).await?;
                }
                SchemaChange::CommentTable { comment } => {
                    let comment = comment.as_deref().unwrap_or_default();
                    self.alter(table, &ddl::comment_table(table, comment)).await?;
                }
                SchemaChange::MoveColumn { name, .. } => {
                    tracing::info!(%table, column = %name,
                        "the column's place is not changed in doris; rows are loaded by name");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Refuses an event that cannot be applied as a whole, before anything is changed.
    async fn check_possible(
        &self,
        table: &TableId,
        event: &SchemaEvent,
        after: &TableSchema,
    ) -> Result<()> {
        let shape = self.existing(table).await?;
        let is_key = |name: &str| shape.find(name).is_some_and(|c| c.is_key);
        let refused = |message: &str, column: &str| {
            Err(Error::schema_incompatible(format!(
                "{message}; read the table anew with --resnapshot"
            ))
            .with("column", column))
        };
        for change in &event.changes {
            match change {
                SchemaChange::SetPrimaryKey { columns } => {
                    let columns: Vec<&str> = columns.iter().map(|c| &**c).collect();
                    return refused("doris cannot change a table's key", &columns.join(", "));
                }
                SchemaChange::DropColumn { name } if is_key(name) => {
                    return refused("doris cannot drop a column of the key", name);
                }
                SchemaChange::AddColumn { column, existing_rows, .. } => {
                    if after.primary_key.contains(&column.name) {
                        return refused("doris cannot add a column to the key", &column.name);
                    }
                    ddl::add_column(table, column, existing_rows, None, self.zone_offset_seconds)?;
                }
                SchemaChange::AlterColumnType { name, .. } => {
                    let Some((from, to)) = self.type_change(&shape, name, after)? else { continue };
                    if is_key(name) {
                        return refused(
                            "doris cannot change the type of a column by which a table is distributed",
                            name,
                        );
                    }
                    if !from.is_some_and(|from| from.converts_to(to)) {
                        return refused("doris cannot convert the column to its new type", name);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// From and to, when the column's type in Doris is not what it should be. The column is sought under its old name too.
    fn type_change(
        &self,
        shape: &TableShape,
        name: &str,
        after: &TableSchema,
    ) -> Result<Option<(Option<DorisType>, DorisType)>> {
        let Some(index) = after.index_of(name) else { return Ok(None) };
        let column = &after.columns[index];
        let to = DorisType::of(column, after.primary_key.contains(&column.name))?;
        let Some(found) = shape.find(name) else { return Ok(None) };
        Ok((found.data_type != Some(to)).then_some((found.data_type, to)))
    }

    async fn change_type(&self, table: &TableId, name: &str, after: &TableSchema) -> Result<()> {
        schema_job::wait(&self.session.cluster, table).await?;
        let shape = self.existing(table).await?;
        let Some((_, to)) = self.type_change(&shape, name, after)? else { return Ok(()) };
        let found = shape.find(name).ok_or_else(|| {
            Error::transient("the column to change is not in doris").with("column", name)
        })?;
        let comment = after.index_of(name).and_then(|i| after.columns[i].comment.as_deref());
        self.alter(table, &ddl::modify_column(table, found, to, comment)).await?;
        schema_job::wait(&self.session.cluster, table).await?;
        let now = self.existing(table).await?;
        match self.type_change(&now, name, after)? {
            None => Ok(()),
            Some(_) => Err(Error::schema_incompatible(
                "doris did not convert the column, most likely because a value does not fit the new type; read the table \
                 anew with --resnapshot",
            )
            .with("column", name)),
        }
    }

    /// Starts the next job of an event that only changes types. True when none is left to start or to wait for.
    async fn rewrite(&mut self, event: &SchemaEvent, after: &TableSchema) -> Result<bool> {
        let table = &event.table;
        if let Some(job) = schema_job::open(&self.session.cluster, table).await? {
            let rewrite = self.rewrites.get_mut(&event.id);
            if let Some(rewrite) = rewrite.filter(|r| now_ms() >= r.reported_ms + REPORT_EVERY_MS) {
                rewrite.reported_ms = now_ms();
                let since_ms = u64::try_from(now_ms() - rewrite.since_ms).unwrap_or(0);
                schema_job::report(table, &job, Duration::from_millis(since_ms));
            }
            return Ok(false);
        }
        self.check_possible(table, event, after).await?;
        let shape = self.existing(table).await?;
        for change in &event.changes {
            let SchemaChange::AlterColumnType { name, .. } = change else { continue };
            let Some((_, to)) = self.type_change(&shape, name, after)? else { continue };
            let Some(column) = shape.find(name) else { continue };
            let Some(rewrite) = self.rewrites.get_mut(&event.id) else { continue };
            // Its job has ended and changed nothing: applying it says so.
            if !rewrite.columns.insert(name.clone()) {
                return Ok(true);
            }
            let comment = after.index_of(name).and_then(|i| after.columns[i].comment.as_deref());
            self.execute(&ddl::modify_column(table, column, to, comment)).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Renames are simultaneous; Doris does one after the other, and a swap takes a name in between.
    async fn rename_columns(&self, table: &TableId, event: &SchemaEvent) -> Result<()> {
        let renames: Vec<(&str, &str)> = event
            .changes
            .iter()
            .filter_map(|change| match change {
                SchemaChange::RenameColumn { from, to } => Some((&**from, &**to)),
                _ => None,
            })
            .collect();
        let chained = renames.iter().any(|(_, to)| renames.iter().any(|(from, _)| from == to));
        if !chained {
            for (from, to) in renames {
                self.rename_column(table, from, to).await?;
            }
            return Ok(());
        }
        // All leave their names first. The position in the log makes the names in between ours.
        let between =
            |at: usize| format!("{SWAPPED}{}_{}_{at}", event.id.position.hi, event.id.position.lo);
        let left =
            |shape: &TableShape| (0..renames.len()).any(|at| shape.find(&between(at)).is_some());
        let shape = self.existing(table).await?;
        let begun = left(&shape);
        let ended = !begun && self.has_new_names(event, &shape);
        if ended {
            return Ok(());
        }
        for (at, (from, _)) in renames.iter().enumerate() {
            let shape = self.existing(table).await?;
            // Once one has its new name, all had left their old ones.
            let arrived = begun && (0..at).any(|b| shape.find(&between(b)).is_none());
            if shape.find(&between(at)).is_none() && !arrived && shape.find(from).is_some() {
                self.alter(table, &ddl::rename_column(table, from, &between(at))).await?;
            }
        }
        for (at, (_, to)) in renames.iter().enumerate() {
            if self.existing(table).await?.find(&between(at)).is_some() {
                self.alter(table, &ddl::rename_column(table, &between(at), to)).await?;
            }
        }
        Ok(())
    }

    /// Whether a swap was done before a crash: names alone do not tell, types may.
    fn has_new_names(&self, event: &SchemaEvent, shape: &TableShape) -> bool {
        let (Some(before), Some(after)) = (&event.before, &event.after) else { return false };
        let fits = |schema: &TableSchema| shape.agrees(schema).unwrap_or(false);
        fits(after) && !fits(before)
    }

    async fn rename_column(&self, table: &TableId, from: &str, to: &str) -> Result<()> {
        let shape = self.existing(table).await?;
        let only_case = from.eq_ignore_ascii_case(to);
        match (shape.find(from), shape.find(to)) {
            (Some(_), _) if only_case => {
                self.alter(table, &ddl::rename_column(table, from, to)).await
            }
            (Some(_), None) => self.alter(table, &ddl::rename_column(table, from, to)).await,
            (None, Some(_)) => Ok(()),
            _ => Err(Error::transient("the column to rename is not in doris").with("column", from)),
        }
    }

    /// Another change of the table may be on its way: only one at a time is taken.
    async fn alter(&self, table: &TableId, sql: &str) -> Result<()> {
        schema_job::wait(&self.session.cluster, table).await?;
        self.execute(sql).await
    }
}

/// The server said no, for a reason that time does not mend.
fn is_refusal(error: &Error) -> bool {
    let by_server = error.context().iter().any(|(key, _)| *key == SERVER_CODE);
    let message = error.message().to_ascii_lowercase();
    let busy = ["is not normal", "timeout", "timed out", "not master", "try again", "rpc"];
    by_server && !busy.iter().any(|text| message.contains(text))
}

/// The value column before a new one, when Doris has it.
fn predecessor(
    place: &ColumnPlace,
    shape: &TableShape,
    after: &TableSchema,
    column: &Column,
) -> Option<String> {
    let before = match place {
        ColumnPlace::After(name) => name.clone(),
        ColumnPlace::Last | ColumnPlace::First => {
            let at = after.index_of(&column.name)?.checked_sub(1)?;
            after.columns[at].name.clone()
        }
    };
    // Behind a key column a value column stands first, where other keys may follow.
    shape.find(&before).filter(|c| !c.is_key).map(|c| c.name.clone())
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
