//! Applies DDL: creates tables, changes their schemas, empties, renames and drops them. Each event is one commit.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::TableUpdate;
use iceberg::spec::{TableMetadata, TableMetadataBuilder, UnboundPartitionSpec};
use lakeward_core::{
    Clock, DdlId, DdlNeeds, Error, ErrorKind, Literal, MetadataApplier, Result, ResultExt,
    SchemaChange, SchemaEvent, TableId, TableSchema,
};

use crate::applied::{self, Gone};
use crate::catalog::{CatalogChange, CommitOutcome, LoadedTable};
use crate::changelog;
use crate::commit::snapshot::{Changes, Start};
use crate::config::WriteMode;
use crate::data_files::DataFileOptions;
use crate::new_table;
use crate::properties;
use crate::rewrite::{Fill, Rewriter};
use crate::schema_change::{self, ExtraColumns};
use crate::session::Session;
use crate::table_state::{CommitGuard, Move, TableHandle, TableState};

/// How often a change is built anew because another program was faster.
const MAX_ROUNDS: usize = 20;

/// Changes tables as the source's DDL says. See the module.
pub struct IcebergMetadataApplier {
    session: Arc<Session>,
    clock: Arc<dyn Clock>,
}

/// What became of one try.
enum Try {
    Done,
    /// Another program changed the table in between.
    Again,
}

/// A metadata change of an existing table that is ready to be sent.
struct Plan {
    start: Start,
    changes: Changes,
    moves: Vec<(u32, Move)>,
    /// Rows or keys are not what locators know.
    forget_locators: bool,
}

impl IcebergMetadataApplier {
    pub(crate) fn new(session: Arc<Session>, clock: Arc<dyn Clock>) -> Self {
        Self { session, clock }
    }

    fn extra(&self) -> &'static ExtraColumns {
        match self.session.env.config.write_mode {
            WriteMode::V2Position => &[],
            WriteMode::AppendChangelog => &changelog::COLUMNS,
        }
    }

    async fn apply_once(
        &self,
        event: &SchemaEvent,
        handle: &TableHandle,
        commit: &CommitGuard,
    ) -> Result<Try> {
        let has = |f: fn(&SchemaChange) -> bool| event.changes.iter().any(f);
        if has(|c| matches!(c, SchemaChange::DropTable)) {
            return self.drop_table(event, handle, commit).await;
        }
        if let Some(to) = event.changes.iter().find_map(|c| match c {
            SchemaChange::RenameTable { to } => Some(to),
            _ => None,
        }) {
            return self.rename_table(event, handle, to, commit).await;
        }
        let after = event.after.as_deref().ok_or_else(|| {
            Error::bug("a schema event has no columns after it").with("ddl", &event.id)
        })?;
        let Some(state) = handle.state().ok() else {
            let creates = |c: &SchemaChange| {
                matches!(c, SchemaChange::CreateTable | SchemaChange::ResetTable)
            };
            if !event.changes.iter().any(creates) {
                return Err(Error::transient("the table to change is not in the catalog"));
            }
            return self.create_table(event, handle, after, commit).await;
        };
        let creates = has(|c| matches!(c, SchemaChange::CreateTable));
        let starts_over =
            has(|c| matches!(c, SchemaChange::ResetTable)) || creates && self.is_remnant(&state)?;
        let plan = if starts_over {
            self.reset(event, &state, after)?
        } else if creates {
            self.adopt(event, &state, after)?
        } else {
            self.change(event, handle, &state, after).await?
        };
        self.send(handle, &state, plan, commit).await
    }

    async fn create_table(
        &self,
        event: &SchemaEvent,
        handle: &TableHandle,
        after: &TableSchema,
        commit: &CommitGuard,
    ) -> Result<Try> {
        let env = &self.session.env;
        let table = &event.table;
        env.catalog.ensure_namespace(&table.namespace).await?;
        let gone = self.gone(table).await?;
        let schema = schema_change::first_schema(after, self.extra())?;
        let metadata = new_table::metadata(new_table::NewTable {
            table,
            schema,
            config: &env.config,
            earlier: gone.count,
            properties: self.properties(event, after, None)?,
        })?;
        let new = env.catalog.stage(None, metadata).await?;
        env.lake.make_durable([&*new.location]).await?;
        let change = CatalogChange::Create { table: table.clone(), new };
        self.commit(vec![change], handle, commit).await
    }

    /// A table that an attempt of this pipeline made before it ended without a commit: nothing depends on its columns.
    fn is_remnant(&self, state: &TableState) -> Result<bool> {
        let metadata = &state.metadata;
        let pipeline = &self.session.incarnation.pipeline;
        let created = metadata.properties().get(properties::CREATED_BY);
        Ok(created.is_some_and(|p| **p == *pipeline.0)
            && metadata.current_snapshot().is_none()
            && properties::marker(metadata, pipeline)?.is_none())
    }

    /// A table that exists already: ours, or one that the user made beforehand for us to fill.
    fn adopt(&self, event: &SchemaEvent, state: &TableState, after: &TableSchema) -> Result<Plan> {
        let metadata = &state.metadata;
        let pipeline = &self.session.incarnation.pipeline;
        let ours = applied::is_of(metadata, pipeline)?;
        if !schema_change::agrees(metadata.current_schema(), after, self.extra()) {
            let message = if ours {
                "the lake's table has other columns than the source's; read it anew with --resnapshot, or drop it"
            } else {
                "a table of this name exists in the lake with other columns; drop it, or route the source's table to \
                 another name"
            };
            return Err(Error::config(message));
        }
        self.check_owner(metadata)?;
        if !ours && !state.files.is_empty() {
            return Err(Error::config(
                "a table of this name exists in the lake and holds rows of another origin; drop it, or route the source's \
                 table to another name",
            ));
        }
        let mut properties = self.properties(event, after, Some(metadata))?;
        properties.insert(
            properties::SCHEMA_IDS.into(),
            schema_ids(metadata, after, metadata.current_schema_id())?,
        );
        let changes = Changes { properties, ..Changes::default() };
        Ok(Plan { start: Start::of(state), changes, moves: Vec::new(), forget_locators: false })
    }

    /// Refuses a table that another pipeline made, with rows or without: it writes there too, or will.
    fn check_owner(&self, metadata: &TableMetadata) -> Result<()> {
        let pipeline = &self.session.incarnation.pipeline;
        match metadata.properties().get(properties::CREATED_BY) {
            Some(creator) if !applied::is_of(metadata, pipeline)? => Err(Error::config(
                "the table is another pipeline's; drop it, or route the source's table to another name",
            )
            .with("pipeline", creator)),
            _ => Ok(()),
        }
    }

    /// The content starts over under new columns, and so does our progress.
    fn reset(&self, event: &SchemaEvent, state: &TableState, after: &TableSchema) -> Result<Plan> {
        let metadata = &state.metadata;
        self.check_owner(metadata)?;
        let pipeline = &self.session.incarnation.pipeline;
        let schema = schema_change::reset_schema(
            metadata.current_schema(),
            metadata.last_column_id(),
            after,
            self.extra(),
        )?;
        let mut start = with_schema(state, schema)?;
        start = rebuild(start, |builder| {
            builder.remove_properties(&[
                properties::max_committed_checkpoint_id(pipeline),
                properties::offsets(pipeline),
            ])
        })?;
        let mut properties = self.properties(event, after, Some(metadata))?;
        // Rows of earlier versions come no more.
        properties.insert(
            properties::SCHEMA_IDS.into(),
            properties::encode_schema_ids(
                &[(after.version, start.metadata.current_schema_id())].into(),
            )?,
        );
        let mut changes = Changes { properties, ..Changes::default() };
        changes.removed = state.files.keys().copied().collect();
        changes.summary = [
            (properties::SUMMARY_PIPELINE.to_string(), pipeline.to_string()),
            (properties::SUMMARY_RESET.to_string(), "true".to_string()),
        ]
        .into();
        Ok(Plan { start, changes, moves: Vec::new(), forget_locators: true })
    }

    /// Column changes, comments, and TRUNCATE.
    async fn change(
        &self,
        event: &SchemaEvent,
        handle: &TableHandle,
        state: &TableState,
        after: &TableSchema,
    ) -> Result<Plan> {
        let metadata = &state.metadata;
        let next = schema_change::next_schema(
            metadata.current_schema(),
            metadata.last_column_id(),
            event,
            after,
            self.extra(),
        )?;
        let start = with_schema(state, next.schema)?;
        let mut properties = self.properties(event, after, Some(metadata))?;
        let schema_id = start.metadata.current_schema_id();
        properties.insert(properties::SCHEMA_IDS.into(), schema_ids(metadata, after, schema_id)?);
        let mut changes = Changes { properties, ..Changes::default() };
        let mut plan =
            Plan { start, changes: Changes::default(), moves: Vec::new(), forget_locators: false };
        let truncates = event.changes.iter().any(|c| matches!(c, SchemaChange::TruncateTable));
        if truncates && self.session.env.config.write_mode == WriteMode::V2Position {
            changes.removed = state.files.keys().copied().collect();
            plan.forget_locators = true;
        } else if !next.fills.is_empty() {
            plan.moves =
                self.fill(handle, state, &plan.start.metadata, &next.fills, &mut changes).await?;
        }
        let keys = |m: &TableMetadata| {
            let mut ids: Vec<i32> = m.current_schema().identifier_field_ids().collect();
            ids.sort_unstable();
            ids
        };
        plan.forget_locators |= keys(metadata) != keys(&plan.start.metadata);
        plan.changes = changes;
        Ok(plan)
    }

    /// Writes a constant into rows that exist: each file is copied with the new column, row by row, so that positions stay.
    async fn fill(
        &self,
        handle: &TableHandle,
        state: &TableState,
        metadata: &TableMetadata,
        fills: &[Fill],
        changes: &mut Changes,
    ) -> Result<Vec<(u32, Move)>> {
        let options = DataFileOptions::default().with_table_properties(metadata.properties())?;
        let rewriter = Rewriter {
            file_io: handle.file_io(),
            schema: metadata.current_schema(),
            names: &self.session.names,
            options: &options,
        };
        let mut moves = Vec::new();
        for file in state.files.values() {
            let new = rewriter.fill(file, fills).await?;
            let deleted = handle.deleted_rows(file).await?;
            if !deleted.is_empty() {
                changes.added_deletes.insert(new.file.file_path().into(), deleted);
            }
            let to = handle.ordinal_of(new.file.file_path());
            moves.push((file.ordinal, Move { to, base: 0, dropped: Arc::default() }));
            changes.added.push(new);
            changes.removed.insert(file.ordinal);
        }
        Ok(moves)
    }

    async fn send(
        &self,
        handle: &TableHandle,
        state: &TableState,
        plan: Plan,
        commit: &CommitGuard,
    ) -> Result<Try> {
        let Plan { start, changes, moves, forget_locators } = plan;
        let env = &self.session.env;
        let base = LoadedTable {
            metadata: state.metadata.clone(),
            location: state.metadata_location.clone(),
        };
        let touches_files = !changes.added.is_empty() || !changes.removed.is_empty();
        // A reset is a snapshot even of an empty table: what came before it says nothing about progress any more.
        let snapshot = touches_files || changes.summary.contains_key(properties::SUMMARY_RESET);
        let mut written: Vec<String> =
            changes.added.iter().map(|f| f.file.file_path().to_string()).collect();
        let (metadata, updates, next) = if snapshot {
            let workshop = self.session.workshop(self.clock.now_ms());
            let prepared = workshop.prepare(handle, state, start, changes).await?;
            written.extend(prepared.written);
            (prepared.metadata, prepared.updates, prepared.state)
        } else {
            let start = rebuild(start, |builder| builder.set_properties(changes.properties))?;
            (start.metadata, start.updates, state.clone())
        };
        let new = env.catalog.stage(Some(&base), metadata).await?;
        written.push(new.location.to_string());
        env.lake.make_durable(&written).await?;
        let change = CatalogChange::Update {
            table: handle.table().clone(),
            base,
            new: new.clone(),
            updates,
        };
        match env.catalog.commit(&self.session.incarnation, &[change]).await? {
            CommitOutcome::Done => {}
            CommitOutcome::Conflict(_) => {
                self.session.reload(handle, commit).await?;
                return Ok(Try::Again);
            }
        }
        let mut next = next;
        next.metadata = new.metadata.clone();
        next.metadata_location = new.location.clone();
        let guard = handle.lock().await;
        handle.install(&guard, Some(next));
        handle.add_moves(&guard, moves);
        if forget_locators {
            handle.invalidate_locators(&guard);
        }
        Ok(Try::Done)
    }

    async fn drop_table(
        &self,
        event: &SchemaEvent,
        handle: &TableHandle,
        commit: &CommitGuard,
    ) -> Result<Try> {
        let Ok(state) = handle.state() else { return Ok(Try::Done) };
        if !applied::is_of(&state.metadata, &self.session.incarnation.pipeline)? {
            tracing::warn!(table = %event.table, "the source has no such table any more; the lake's is of another origin and stays");
            return Ok(Try::Done);
        }
        let base = LoadedTable {
            metadata: state.metadata.clone(),
            location: state.metadata_location.clone(),
        };
        let changes = vec![
            CatalogChange::Drop { table: event.table.clone(), base },
            self.note_gone(event).await?,
        ];
        let outcome = self.commit(changes, handle, commit).await?;
        if matches!(outcome, Try::Done) && self.session.env.config.drop_table_purge {
            let folder = state.metadata.location();
            if let Err(error) = self.session.env.lake.delete_folder(folder).await {
                tracing::warn!(table = %event.table, %folder, %error, "the dropped table's files stay behind");
            }
        }
        Ok(outcome)
    }

    async fn rename_table(
        &self,
        event: &SchemaEvent,
        handle: &TableHandle,
        to: &TableId,
        commit: &CommitGuard,
    ) -> Result<Try> {
        let env = &self.session.env;
        let Ok(state) = handle.state() else {
            return Err(Error::transient("the table to rename is not in the catalog"));
        };
        env.catalog.ensure_namespace(&to.namespace).await?;
        let target = self.session.handle(to).await?;
        if target.state().is_ok() {
            return Err(Error::schema_incompatible(
                "the table cannot be renamed in the lake: a table of the new name exists there",
            )
            .with("to", to));
        }
        let mut start = Start::of(&state);
        if let Some(after) = event.after.as_deref() {
            let current = state.metadata.current_schema();
            let last = state.metadata.last_column_id();
            let next = schema_change::next_schema(current, last, event, after, self.extra())?;
            start = with_schema(&state, next.schema)?;
            let mut properties = self.properties(event, after, Some(&state.metadata))?;
            let id = start.metadata.current_schema_id();
            properties
                .insert(properties::SCHEMA_IDS.into(), schema_ids(&state.metadata, after, id)?);
            start = rebuild(start, |builder| builder.set_properties(properties))?;
        }
        let base = LoadedTable {
            metadata: state.metadata.clone(),
            location: state.metadata_location.clone(),
        };
        let new = env.catalog.stage(Some(&base), start.metadata).await?;
        env.lake.make_durable([&*new.location]).await?;
        let rename = CatalogChange::Rename { from: event.table.clone(), to: to.clone(), base, new };
        let changes = vec![rename, self.note_gone(event).await?];
        let outcome = self.commit(changes, handle, commit).await?;
        if matches!(outcome, Try::Done) {
            let commit = target.lock_for_commit().await;
            self.session.reload_changed(&target, &commit).await?;
        }
        Ok(outcome)
    }

    /// Sends changes after which the table is to be loaded anew.
    async fn commit(
        &self,
        changes: Vec<CatalogChange>,
        handle: &TableHandle,
        commit: &CommitGuard,
    ) -> Result<Try> {
        let env = &self.session.env;
        match env.catalog.commit(&self.session.incarnation, &changes).await? {
            CommitOutcome::Done => {
                self.session.reload_changed(handle, commit).await?;
                Ok(Try::Done)
            }
            CommitOutcome::Conflict(_) => {
                self.session.reload(handle, commit).await?;
                Ok(Try::Again)
            }
        }
    }

    async fn gone(&self, table: &TableId) -> Result<Gone> {
        let properties = self.session.env.catalog.namespace_properties(&table.namespace).await?;
        Ok(Gone::read(&properties, table))
    }

    async fn note_gone(&self, event: &SchemaEvent) -> Result<CatalogChange> {
        let mut gone = self.gone(&event.table).await?;
        gone.add(&self.session.incarnation.pipeline, event.id.position);
        Ok(CatalogChange::SetNamespaceProperty {
            namespace: event.table.namespace.clone(),
            key: Gone::key(&event.table),
            value: gone.encode()?,
        })
    }

    /// What every DDL writes into the table's properties.
    fn properties(
        &self,
        event: &SchemaEvent,
        after: &TableSchema,
        before: Option<&TableMetadata>,
    ) -> Result<HashMap<String, String>> {
        let pipeline = &self.session.incarnation.pipeline;
        let mut applied = before.map(|m| applied::of_table(m, pipeline)).unwrap_or_default();
        if event
            .changes
            .iter()
            .any(|c| matches!(c, SchemaChange::CreateTable | SchemaChange::ResetTable))
        {
            // The columns are those of this place in the log again: what came after it is to be applied once more.
            applied.retain(|p| *p <= event.id.position);
        }
        let mut properties = HashMap::from([(
            properties::applied_ddl(pipeline),
            applied::with(applied, event.id.position),
        )]);
        if before.is_none() {
            properties.insert(properties::CREATED_BY.into(), pipeline.to_string());
            properties.insert(
                properties::SCHEMA_IDS.into(),
                properties::encode_schema_ids(&[(after.version, 0)].into())?,
            );
        }
        if let Some(comment) = &after.comment {
            properties.insert("comment".into(), comment.to_string());
        }
        Ok(properties)
    }
}

/// The property that maps source schema versions to schema ids, with one more.
fn schema_ids(metadata: &TableMetadata, after: &TableSchema, schema_id: i32) -> Result<String> {
    let mut ids = properties::schema_ids(metadata)?;
    ids.insert(after.version, schema_id);
    properties::encode_schema_ids(&ids)
}

/// Makes a schema current, with a partition spec whose columns it still has.
fn with_schema(state: &TableState, schema: iceberg::spec::Schema) -> Result<Start> {
    let spec = state.metadata.default_partition_spec();
    let has = |source: i32| schema.field_by_id(source).is_some();
    let complete = spec.fields().iter().all(|f| has(f.source_id));
    let remaining: Vec<_> = spec
        .fields()
        .iter()
        .filter(|f| has(f.source_id))
        .map(|f| f.clone().into_unbound())
        .collect();
    rebuild(Start::of(state), |builder| {
        let builder = builder.add_current_schema(schema)?;
        if complete {
            return Ok(builder);
        }
        let spec = UnboundPartitionSpec::builder().add_partition_fields(remaining)?.build();
        builder.add_default_partition_spec(spec)
    })
}

fn rebuild(
    start: Start,
    change: impl FnOnce(TableMetadataBuilder) -> iceberg::Result<TableMetadataBuilder>,
) -> Result<Start> {
    let failed = "the lake's table does not take the change";
    let Start { metadata, mut updates, previous } = start;
    let built = change(metadata.into_builder(previous))
        .and_then(|builder| builder.build())
        .or_err(ErrorKind::SchemaIncompatible, failed)?;
    let changes: Vec<TableUpdate> = built.changes;
    updates.extend(changes);
    Ok(Start { metadata: built.metadata, updates, previous: None })
}

#[async_trait]
impl MetadataApplier for IcebergMetadataApplier {
    fn needs(&self, event: &SchemaEvent) -> DdlNeeds {
        let one = |change: &SchemaChange| match change {
            SchemaChange::CreateTable => DdlNeeds::Nothing,
            SchemaChange::CommentColumn { .. } | SchemaChange::CommentTable { .. }
                if self.session.is_alone() =>
            {
                DdlNeeds::Nothing
            }
            SchemaChange::DropTable
            | SchemaChange::TruncateTable
            | SchemaChange::ResetTable
            | SchemaChange::RenameTable { .. } => DdlNeeds::RowsCommitted,
            SchemaChange::AddColumn { existing_rows, .. } if *existing_rows != Literal::Null => {
                DdlNeeds::RowsCommitted
            }
            // Writers elsewhere find their rows again in the catalog alone.
            _ if !self.session.is_alone() => DdlNeeds::RowsCommitted,
            _ => DdlNeeds::FilesComplete,
        };
        let rank = |needs: &DdlNeeds| match needs {
            DdlNeeds::Nothing => 0,
            DdlNeeds::FilesComplete => 1,
            DdlNeeds::RowsCommitted => 2,
        };
        event.changes.iter().map(one).max_by_key(rank).unwrap_or(DdlNeeds::Nothing)
    }

    async fn is_applied(&mut self, ddl: &DdlId) -> Result<bool> {
        let pipeline = &self.session.incarnation.pipeline;
        let handle = self.session.handle(&ddl.table).await?;
        if let Ok(state) = handle.state()
            && applied::of_table(&state.metadata, pipeline).contains(&ddl.position)
        {
            return Ok(true);
        }
        Ok(self.gone(&ddl.table).await?.has(pipeline, ddl.position))
    }

    async fn apply(&mut self, event: &SchemaEvent) -> Result<()> {
        let with_place = |e: Error| e.with("table", &event.table).with("ddl", &event.id);
        let handle = self.session.handle(&event.table).await.map_err(with_place)?;
        let commit = handle.lock_for_commit().await;
        for _ in 0..MAX_ROUNDS {
            match self.apply_once(event, &handle, &commit).await.map_err(with_place)? {
                Try::Done => return Ok(()),
                // The other program may have been an earlier try of ours whose answer was lost.
                Try::Again if self.is_applied(&event.id).await? => return Ok(()),
                Try::Again => {}
            }
        }
        Err(with_place(Error::transient(
            "other programs change the table faster than this pipeline can",
        )))
    }
}
