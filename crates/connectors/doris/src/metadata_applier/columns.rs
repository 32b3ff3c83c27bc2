//! Column changes of one event: renames first, since they are simultaneous, then the rest in order.

use std::time::Duration;

use lakeward_core::{
    Column, ColumnPlace, Error, Result, SchemaChange, SchemaEvent, TableId, TableSchema,
};

use super::DorisMetadataApplier;
use crate::client::now_ms;
use crate::table::TableShape;
use crate::types::DorisType;
use crate::{ddl, schema_job};

/// A name that a column has for the moment in which two swap theirs.
const SWAPPED: &str = "lakeward_swap_";
const REPORT_EVERY_MS: i64 = schema_job::REPORT_EVERY.as_millis() as i64;

impl DorisMetadataApplier {
    pub(super) async fn change_columns(
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
    pub(super) async fn check_possible(
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
    pub(super) fn type_change(
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

    pub(super) async fn change_type(
        &self,
        table: &TableId,
        name: &str,
        after: &TableSchema,
    ) -> Result<()> {
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
    pub(super) async fn rewrite(
        &mut self,
        event: &SchemaEvent,
        after: &TableSchema,
    ) -> Result<bool> {
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
    pub(super) async fn rename_columns(&self, table: &TableId, event: &SchemaEvent) -> Result<()> {
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
    pub(super) fn has_new_names(&self, event: &SchemaEvent, shape: &TableShape) -> bool {
        let (Some(before), Some(after)) = (&event.before, &event.after) else { return false };
        let fits = |schema: &TableSchema| shape.agrees(schema).unwrap_or(false);
        fits(after) && !fits(before)
    }

    pub(super) async fn rename_column(&self, table: &TableId, from: &str, to: &str) -> Result<()> {
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
    pub(super) async fn alter(&self, table: &TableId, sql: &str) -> Result<()> {
        schema_job::wait(&self.session.cluster, table).await?;
        self.execute(sql).await
    }
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
