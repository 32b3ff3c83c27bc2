//! The sink's storage: tables in memory that outlive attempts, and notice what must never happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use lakeward_core::{
    CheckpointId, DdlId, EpochCommitted, Error, Literal, Offsets, PipelineId, Position, Result,
    RowKind, SchemaChange, SchemaEvent, TableId, TableProgress, TableSchema,
};
use serde::{Deserialize, Serialize};

use crate::Contents;
use crate::database::show;

/// A change of one row, as a file of this sink holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileRow {
    pub(crate) kind: RowKind,
    pub(crate) version: u32,
    pub(crate) values: Vec<Literal>,
    pub(crate) position: Position,
    pub(crate) snapshot: bool,
}

/// What one writer instance hands over at once. Void when the table it was written for is gone, or another one has its name:
/// whoever drops or renames a table has its rows committed before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataFile {
    pub(crate) table_number: u64,
    pub(crate) rows: Vec<FileRow>,
}

/// Clones are one lake.
#[derive(Clone, Default)]
pub struct Lake {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    tables: BTreeMap<TableId, LakeTable>,
    /// DDL that took a table away from its name, which another table may have by now.
    gone: BTreeSet<(TableId, Position)>,
    owners: BTreeMap<PipelineId, u64>,
    violations: Vec<String>,
    epochs: Vec<(EpochCommitted, Contents)>,
    commits: u64,
    tables_made: u64,
}

#[derive(Default)]
struct LakeTable {
    /// No two tables ever have the same.
    number: u64,
    next_id: u32,
    /// The current columns: name and id, in order.
    columns: Vec<(Arc<str>, u32)>,
    key: Vec<u32>,
    /// The columns of each source version.
    versions: BTreeMap<u32, Vec<u32>>,
    rows: Vec<BTreeMap<u32, Literal>>,
    /// Offsets of every commit, oldest first.
    history: Vec<(CheckpointId, Offsets)>,
    /// A reset can go back behind DDL that then comes again, so the last one alone does not tell.
    ddl: BTreeSet<Position>,
    /// Changes since the table's content last started over.
    applied: BTreeSet<(Position, u8)>,
    /// Where that was.
    emptied: Option<Position>,
}

impl Lake {
    pub fn contents(&self) -> Contents {
        let inner = self.inner();
        inner.tables.iter().map(|(id, table)| (id.to_string(), table.contents())).collect()
    }

    /// Tables that never got a row. One that a pipeline made and died, before its first checkpoint, nobody knows of.
    pub fn untouched(&self) -> Vec<String> {
        let inner = self.inner();
        let untouched = inner.tables.iter().filter(|(_, table)| table.history.is_empty());
        untouched.map(|(id, _)| id.to_string()).collect()
    }

    /// What must never happen and did.
    pub fn violations(&self) -> Vec<String> {
        self.inner().violations.clone()
    }

    /// Epochs in the order in which they were published, and what the lake held then.
    pub fn epochs(&self) -> Vec<(EpochCommitted, Contents)> {
        self.inner().epochs.clone()
    }

    /// Commits of tables that changed something.
    pub fn commits(&self) -> u64 {
        self.inner().commits
    }

    pub(crate) fn acquire(&self, pipeline: &PipelineId, attempt: u64) {
        self.inner().owners.insert(pipeline.clone(), attempt);
    }

    pub(crate) fn check_owner(&self, pipeline: &PipelineId, attempt: u64) -> Result<()> {
        match self.inner().owners.get(pipeline) {
            Some(owner) if *owner == attempt => Ok(()),
            owner => Err(Error::fenced("another run of the pipeline owns the lake")
                .with("owner", format!("{owner:?}"))
                .with("attempt", attempt)),
        }
    }

    pub(crate) fn progress(&self) -> Vec<TableProgress> {
        let inner = self.inner();
        let progress = |(id, table): (&TableId, &LakeTable)| {
            let (checkpoint, offsets) = table.history.last()?.clone();
            Some(TableProgress {
                table: id.clone(),
                checkpoint,
                offsets,
                ddl: table.ddl.last().copied(),
            })
        };
        inner.tables.iter().filter_map(progress).collect()
    }

    pub(crate) fn publish(&self, epoch: &EpochCommitted) {
        let contents = self.contents();
        let mut inner = self.inner();
        if inner.epochs.last().is_none_or(|(last, _)| last.offsets != epoch.offsets) {
            inner.epochs.push((epoch.clone(), contents));
        }
    }

    pub(crate) fn table_number(&self, id: &TableId) -> Result<u64> {
        let inner = self.inner();
        let table = inner.tables.get(id).ok_or_else(|| {
            Error::schema_incompatible("rows for a table that is not in the lake").with("table", id)
        })?;
        Ok(table.number)
    }

    /// All or nothing. `None` when the table holds the epoch already.
    pub(crate) fn commit(
        &self,
        id: &TableId,
        checkpoint: CheckpointId,
        offsets: &Offsets,
        files: Vec<DataFile>,
    ) -> Option<u64> {
        let mut inner = self.inner();
        let mut violations = Vec::new();
        let table = inner.tables.get_mut(id)?;
        if table.history.iter().any(|(held, at)| *held == checkpoint && at == offsets) {
            return None;
        }
        let number = table.number;
        let rows = files.into_iter().filter(|f| f.table_number == number).flat_map(|f| f.rows);
        for row in rows {
            if let Some(violation) = table.apply(row) {
                violations.push(format!("{id} at checkpoint {checkpoint}: {violation}"));
            }
        }
        table.history.push((checkpoint, offsets.clone()));
        inner.violations.extend(violations);
        inner.commits += 1;
        Some(inner.commits)
    }

    pub(crate) fn is_applied(&self, ddl: &DdlId) -> bool {
        let inner = self.inner();
        inner.is_applied(&ddl.table, ddl.position)
    }

    pub(crate) fn apply(&self, event: &SchemaEvent) -> Result<()> {
        let mut inner = self.inner();
        if inner.is_applied(&event.table, event.position) {
            return Ok(());
        }
        let creates = event
            .changes
            .iter()
            .any(|c| matches!(c, SchemaChange::CreateTable | SchemaChange::ResetTable));
        let mut table = match inner.tables.remove(&event.table) {
            Some(table) => table,
            None if creates => {
                inner.tables_made += 1;
                LakeTable { number: inner.tables_made, ..LakeTable::default() }
            }
            // Dropped or renamed before: the same statement again.
            None => return Ok(()),
        };
        let mut name = event.table.clone();
        for change in &event.changes {
            if let SchemaChange::RenameTable { to } = change {
                name = to.clone();
            }
        }
        if event.after.is_none() || name != event.table {
            inner.gone.insert((event.table.clone(), event.position));
        }
        let Some(after) = &event.after else { return Ok(()) };
        let violations = table.change(event, after);
        table.ddl.insert(event.position);
        if let Some(lost) = inner.tables.insert(name.clone(), table)
            && !lost.rows.is_empty()
        {
            inner.violations.push(format!("{name} was overwritten by a rename"));
        }
        inner.violations.extend(violations.into_iter().map(|v| format!("{}: {v}", event.id)));
        Ok(())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Inner {
    fn is_applied(&self, id: &TableId, position: Position) -> bool {
        self.tables.get(id).is_some_and(|t| t.ddl.contains(&position))
            || self.gone.contains(&(id.clone(), position))
    }
}

impl LakeTable {
    fn contents(&self) -> Vec<BTreeMap<String, String>> {
        let cell =
            |row: &BTreeMap<u32, Literal>, id: &u32| show(row.get(id).unwrap_or(&Literal::Null));
        let named = |row: &BTreeMap<u32, Literal>| {
            self.columns.iter().map(|(name, id)| (name.to_string(), cell(row, id))).collect()
        };
        let mut rows: Vec<BTreeMap<String, String>> = self.rows.iter().map(named).collect();
        rows.sort();
        rows
    }

    /// Says what is wrong about it.
    fn apply(&mut self, row: FileRow) -> Option<String> {
        let FileRow { kind, version, values, position, snapshot } = row;
        let at = format!("{} at {}:{}", kind.short(), position.hi, position.lo);
        let Some(ids) = self.versions.get(&version) else {
            return Some(format!("{at} has version {version}, which the table never had"));
        };
        let row: BTreeMap<u32, Literal> = ids.iter().copied().zip(values).collect();
        let mut wrong = None;
        if !snapshot && !self.applied.insert((position, kind as u8)) {
            wrong = Some(format!("{at} was applied twice"));
        }
        if self.emptied.is_some_and(|emptied| position < emptied) {
            wrong = Some(format!("{at} came after the table was emptied"));
        }
        let keyed = !self.key.is_empty();
        let found = self.rows.iter().position(|held| match keyed {
            true => self.key.iter().all(|k| held.get(k) == row.get(k)),
            false => {
                // Columns that came later hold what existing rows were given.
                row.iter().all(|(id, value)| held.get(id).unwrap_or(&Literal::Null) == value)
            }
        });
        match (kind.is_put(), found) {
            (true, Some(found)) if keyed => {
                if kind == RowKind::Insert && !snapshot {
                    wrong = wrong.or_else(|| Some(format!("{at} finds its key taken")));
                }
                self.rows[found].extend(row);
            }
            (true, _) => self.rows.push(row),
            (false, Some(found)) => {
                self.rows.remove(found);
            }
            (false, None) => wrong = wrong.or_else(|| Some(format!("{at} finds no row"))),
        }
        wrong
    }

    /// Columns after a DDL, and what it does to the rows.
    fn change(&mut self, event: &SchemaEvent, after: &TableSchema) -> Vec<String> {
        let mut violations = Vec::new();
        let mut by_name: BTreeMap<Arc<str>, u32> = self.columns.iter().cloned().collect();
        let mut renamed = Vec::new();
        for change in &event.changes {
            if let SchemaChange::RenameColumn { from, to } = change {
                renamed.extend(by_name.remove(from).map(|id| (to.clone(), id)));
            }
        }
        by_name.extend(renamed);
        for change in &event.changes {
            match change {
                SchemaChange::TruncateTable | SchemaChange::ResetTable => {
                    self.early(event, &mut violations);
                    self.rows.clear();
                    self.applied.clear();
                    if matches!(change, SchemaChange::ResetTable) {
                        self.ddl.retain(|position| *position < event.position);
                    }
                    // Rows of a snapshot have the snapshot's own position.
                    self.emptied =
                        matches!(change, SchemaChange::TruncateTable).then_some(event.position);
                }
                SchemaChange::DropColumn { name } => {
                    by_name.remove(name);
                }
                SchemaChange::AddColumn { column, existing_rows, .. } => {
                    let id = self.new_column();
                    by_name.insert(column.name.clone(), id);
                    if *existing_rows != Literal::Null {
                        self.early(event, &mut violations);
                        for row in &mut self.rows {
                            row.insert(id, existing_rows.clone());
                        }
                    }
                }
                _ => {}
            }
        }
        let mut columns = Vec::with_capacity(after.columns.len());
        for column in &after.columns {
            let id = by_name.get(&column.name).copied().unwrap_or_else(|| self.new_column());
            columns.push((column.name.clone(), id));
        }
        let id_of = |name: &Arc<str>| columns.iter().find(|(n, _)| n == name).map(|(_, id)| *id);
        self.key = after.primary_key.iter().filter_map(id_of).collect();
        self.versions.insert(after.version, columns.iter().map(|(_, id)| *id).collect());
        self.columns = columns;
        violations
    }

    /// Rows that belong after a DDL must not be there when it runs.
    fn early(&self, event: &SchemaEvent, violations: &mut Vec<String>) {
        if let Some((position, _)) = self.applied.last()
            && *position > event.position
        {
            let Position { hi, lo } = position;
            violations.push(format!("runs after a row at {hi}:{lo} was committed"));
        }
    }

    fn new_column(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }
}
