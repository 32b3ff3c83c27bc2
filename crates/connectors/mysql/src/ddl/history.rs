//! The shapes of tables over the log's course.

use std::collections::BTreeMap;
use std::sync::Arc;

use lakeward_core::{DataType, SchemaChange, TableId, TableSchema};

use super::apply::{Altered, Lineage, alter};
use super::charsets;
use super::diff::table_schema;
use super::outcome::{Doubt, Outcome, Resnapshot, Selection, StatementPlace, TableVersion, event};
use super::statement::{AlterClause, AlterTable, CreateTable, Statement, TableBody};
use super::step::{Step, reasons};
use crate::model::{MysqlColumn, MysqlTable};

/// What is known of one name.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Entry {
    pub name: TableId,
    /// The last version given to this name. It goes on counting when the table is dropped and created again.
    pub version: u32,
    /// `None`: there is no such table, or it is in doubt.
    pub current: Option<TableVersion>,
    pub doubt: Option<InDoubt>,
    /// Of tables that an online schema change tool created.
    pub lineage: Option<Lineage>,
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct InDoubt {
    /// What the target holds.
    pub last: Option<TableVersion>,
    /// The rows that the target holds are not those of the table, whatever its shape.
    pub restart: bool,
}

/// The present shape of each table that is captured or may become so, with its version. Persisted with the reader's
/// state, so that replayed statements give the same versions.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct SchemaHistory {
    server_charset: Arc<str>,
    lower_case_table_names: u8,
    database_charsets: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(with = "entries")]
    pub(super) entries: BTreeMap<TableId, Entry>,
}

impl SchemaHistory {
    /// `server_charset` is `character_set_server`; `lower_case_table_names` the server's variable of that name.
    pub fn new(server_charset: &str, lower_case_table_names: u8) -> Self {
        Self {
            server_charset: charsets::canonical(server_charset),
            lower_case_table_names,
            database_charsets: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    /// A database's default character set, for CREATE TABLE statements that name none.
    pub fn set_database_charset(&mut self, database: &str, charset: &str) {
        let database = self.fold(database);
        self.database_charsets.insert(database, charsets::canonical(charset));
    }

    /// Takes a shape read from the catalog at a position that the log has not passed.
    pub fn insert(
        &mut self,
        table: &TableId,
        shape: MysqlTable,
        types: &dyn Fn(&MysqlColumn) -> DataType,
    ) -> TableVersion {
        let entry = self.entry(table);
        match entry.current.clone() {
            Some(current) if *current.shape == shape => current,
            _ => entry.set(shape, types),
        }
    }

    /// Drops what is known of a table, but not its version.
    pub fn remove(&mut self, table: &TableId) {
        if let Some(entry) = self.entries.get_mut(&self.key(table)) {
            entry.clear();
        }
    }

    pub fn get(&self, table: &TableId) -> Option<&TableVersion> {
        self.entries.get(&self.key(table))?.current.as_ref()
    }

    /// Every table whose shape is known, captured or not.
    pub fn tables(&self) -> impl Iterator<Item = (&TableId, &TableVersion)> {
        self.entries.values().filter_map(|e| Some((&e.name, e.current.as_ref()?)))
    }

    /// Applies a statement.
    pub fn apply(
        &mut self,
        statement: &Statement,
        place: &StatementPlace,
        selection: &Selection<'_>,
    ) -> Outcome {
        let mut out = Outcome::default();
        match statement {
            Statement::CreateTable(create) => self.create(create, place, selection, &mut out),
            Statement::AlterTable(alter) => self.alter(alter, place, selection, &mut out),
            Statement::RenameTable { pairs } => {
                self.rename(pairs, &[], place, selection, &mut out);
            }
            Statement::DropTable { temporary: true, .. } => {}
            Statement::DropTable { names, .. } => {
                for name in names {
                    self.drop(name, place, selection, &mut out);
                }
            }
            Statement::TruncateTable { name } => self.truncate(name, place, selection, &mut out),
            Statement::CreateDatabase { name, or_replace, charset } => {
                if *or_replace {
                    self.drop_database(name, place, selection, &mut out);
                }
                let charset = charset.clone().unwrap_or_else(|| self.server_charset.clone());
                // CREATE … IF NOT EXISTS of one that exists changes nothing; which it was, the log does not say.
                let database = self.fold(name);
                self.database_charsets.entry(database).or_insert(charset);
            }
            Statement::AlterDatabase { name, charset: Some(charset) } => {
                self.set_database_charset(name, charset);
            }
            Statement::DropDatabase { name } => {
                self.drop_database(name, place, selection, &mut out);
            }
            Statement::RowsChanged { tables, cause } => {
                self.rows_changed(tables, cause, place, selection, &mut out);
            }
            Statement::Unsure { tables, reason } => {
                for table in tables {
                    self.doubt(table, reason, false, selection, &mut out);
                }
            }
            Statement::AlterDatabase { .. }
            | Statement::Transaction(_)
            | Statement::Dml { .. }
            | Statement::Other => {}
        }
        out
    }

    /// Settles a [`Doubt`] with what the catalog says now; `None`: there is no such table. Also for the source's own
    /// doubts, such as a row event that does not fit the known shape.
    pub fn adopt(
        &mut self,
        table: &TableId,
        shape: Option<MysqlTable>,
        place: &StatementPlace,
        selection: &Selection<'_>,
    ) -> Outcome {
        let mut out = Outcome::default();
        let entry = self.entry(table);
        let name = entry.name.clone();
        let doubt = entry
            .doubt
            .take()
            .unwrap_or_else(|| InDoubt { last: entry.current.take(), restart: false });
        let Some(shape) = shape else {
            entry.clear();
            if let Some(last) = doubt.last {
                let change = vec![SchemaChange::DropTable];
                out.events.push(event(&name, change, Some(&last), None, place));
            }
            return out;
        };
        if let Some(last) = &doubt.last
            && *last.shape == shape
            && !doubt.restart
        {
            entry.current = Some(last.clone());
            return out;
        }
        let version = entry.set(shape, selection.types);
        let change = match doubt.last {
            Some(_) => SchemaChange::ResetTable,
            None => SchemaChange::CreateTable,
        };
        out.events.push(event(&name, vec![change], doubt.last.as_ref(), Some(&version), place));
        out.reshaped.push(name.clone());
        let reason = "the log does not tell how the table came to its present shape".to_owned();
        out.resnapshots.push(Resnapshot { table: name, reason, reset: true });
        out
    }

    pub(super) fn key(&self, table: &TableId) -> TableId {
        TableId { namespace: self.fold(&table.namespace), name: self.fold(&table.name) }
    }

    fn fold(&self, name: &str) -> Arc<str> {
        match self.lower_case_table_names {
            0 => Arc::from(name),
            _ => Arc::from(name.to_lowercase()),
        }
    }

    /// The entry of a name, made where there is none.
    pub(super) fn entry(&mut self, table: &TableId) -> &mut Entry {
        let key = self.key(table);
        let name = if self.lower_case_table_names == 1 { key.clone() } else { table.clone() };
        self.entries.entry(key).or_insert_with(|| Entry {
            name,
            version: 0,
            current: None,
            doubt: None,
            lineage: None,
        })
    }

    /// A table's name as this history spells it.
    pub(super) fn spelled(&self, table: &TableId) -> TableId {
        let key = self.key(table);
        match self.entries.get(&key) {
            Some(entry) => entry.name.clone(),
            None if self.lower_case_table_names == 1 => key,
            None => table.clone(),
        }
    }

    fn database_charset(&self, database: &str) -> Arc<str> {
        self.database_charsets.get(&self.fold(database)).unwrap_or(&self.server_charset).clone()
    }

    /// A table that may be renamed into capture: an online schema change tool's, or a neighbour of captured ones.
    fn is_tracked(&self, table: &TableId, selection: &Selection<'_>) -> bool {
        let namespace = self.fold(&table.namespace);
        selection.captures(table)
            || (selection.is_ghost)(table)
            || self
                .entries
                .iter()
                .any(|(key, e)| key.namespace == namespace && selection.captures(&e.name))
    }

    fn create(
        &mut self,
        create: &CreateTable,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let name = self.spelled(&create.name);
        if create.temporary || (create.if_not_exists && self.get(&name).is_some()) {
            return;
        }
        if !self.is_tracked(&name, selection) {
            return;
        }
        let shape = match &create.body {
            TableBody::Definition(definition) => {
                Ok(definition.resolve(&self.database_charset(&name.namespace), &place.mode))
            }
            TableBody::Like(like) => self
                .get(like)
                .map(|version| (*version.shape).clone())
                .ok_or("it is created like a table that is not known"),
            TableBody::AsSelect(_) => Err("it is created from a query"),
        };
        let shape = match shape {
            Ok(shape) => shape,
            Err(reason) => return self.doubt(&name, reason, false, selection, out),
        };
        let entry = self.entry(&name);
        let before = entry.in_target();
        let lineage = (selection.is_ghost)(&name).then(|| Lineage::of_new(&shape));
        let is_same = before.as_ref().is_some_and(|before| *before.shape == shape);
        let version = entry.set(shape, selection.types);
        entry.lineage = lineage;
        if selection.captures(&name) {
            // A target that holds the same columns holds this table already, unless it was replaced.
            let change = match before.is_some() && !(is_same && !create.or_replace) {
                true => SchemaChange::ResetTable,
                false => SchemaChange::CreateTable,
            };
            out.events.push(event(&name, vec![change], before.as_ref(), Some(&version), place));
            out.reshaped.push(name);
        }
    }

    fn alter(
        &mut self,
        statement: &AlterTable,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let name = self.spelled(&statement.name);
        let renames: Vec<(TableId, TableId)> = statement
            .clauses
            .iter()
            .filter_map(|clause| match clause {
                AlterClause::RenameTo { table } => Some((name.clone(), table.clone())),
                _ => None,
            })
            .collect();
        let charset = self.database_charset(&name.namespace);
        let Some(before) = self.get(&name).cloned() else {
            self.doubt(&name, "it is altered and was not known", false, selection, out);
            return self.rename(&renames, &[], place, selection, out);
        };
        let altered = match alter(&before.shape, statement, &charset, place, selection.types) {
            Ok(altered) => altered,
            Err(reason) => {
                let reason = format!("an ALTER does not fit what is known of it: {reason}");
                self.doubt(&name, &reason, false, selection, out);
                return self.rename(&renames, &[], place, selection, out);
            }
        };
        let entry = self.entry(&name);
        entry.lineage = entry.lineage.take().map(|l| l.after(&before.shape, statement, &altered));
        if !selection.captures(&name) {
            entry.set(altered.shape, selection.types);
            return self.rename(&renames, &[], place, selection, out);
        }
        if renames.is_empty() {
            return self.step(&name, &before, altered, place, selection, out);
        }
        let step = Step::new(&before, &altered, entry.version + 1, selection);
        entry.set(altered.shape, selection.types);
        // The one event of both is made by the rename.
        let carried = if step.concerns.is_empty() { Some(step.changes) } else { None };
        match carried {
            Some(changes) => self.rename(&renames, &changes, place, selection, out),
            None => self.rename_anew(&renames, place, selection, out),
        }
    }

    /// A captured table goes from one shape to the next under its name.
    pub(super) fn step(
        &mut self,
        name: &TableId,
        before: &TableVersion,
        altered: Altered,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let entry = self.entry(name);
        let step = Step::new(before, &altered, entry.version + 1, selection);
        if *before.shape != altered.shape {
            out.reshaped.push(name.clone());
        }
        if altered.reorders {
            out.reordered.push(name.clone());
        }
        let after = TableVersion {
            shape: Arc::new(altered.shape),
            schema: Arc::new(match step.changes.is_empty() {
                // Nothing that a target sees: its rows stay of the same version.
                true => TableSchema { version: before.schema.version, ..step.schema },
                false => step.schema,
            }),
        };
        entry.version = entry.version.max(after.schema.version);
        entry.current = Some(after.clone());
        if !step.changes.is_empty() {
            out.events.push(event(name, step.changes, Some(before), Some(&after), place));
        }
        if !step.concerns.is_empty() {
            out.resnapshots.push(Resnapshot {
                table: name.clone(),
                reason: reasons(&step.concerns),
                reset: step.reset,
            });
        }
    }

    pub(super) fn drop(
        &mut self,
        name: &TableId,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let name = self.spelled(name);
        let Some(entry) = self.entries.get_mut(&self.key(&name)) else { return };
        let before = entry.in_target();
        entry.clear();
        if !selection.captures(&name) {
            let key = self.key(&name);
            self.entries.remove(&key);
        } else if let Some(before) = before {
            let change = vec![SchemaChange::DropTable];
            out.events.push(event(&name, change, Some(&before), None, place));
            out.reshaped.push(name);
        }
    }

    fn drop_database(
        &mut self,
        database: &str,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let database = self.fold(database);
        let inside = self.entries.keys().filter(|key| key.namespace == database);
        for name in inside.cloned().collect::<Vec<_>>() {
            self.drop(&name, place, selection, out);
        }
        self.database_charsets.remove(&database);
    }

    fn truncate(
        &mut self,
        name: &TableId,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let name = self.spelled(name);
        if !selection.captures(&name) {
            return;
        }
        match self.get(&name) {
            Some(version) => {
                let change = vec![SchemaChange::TruncateTable];
                out.events.push(event(&name, change, Some(version), Some(version), place));
            }
            None => self.doubt(&name, "it is truncated and was not known", true, selection, out),
        }
    }

    fn rows_changed(
        &mut self,
        tables: &[TableId],
        cause: &str,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        for (i, table) in tables.iter().enumerate() {
            let name = self.spelled(table);
            let reason = format!("rows changed without row events: {cause}");
            // CONVERT makes the second table appear or go.
            let appears = i > 0 && cause.starts_with("convert");
            match self.get(&name).filter(|_| !appears) {
                _ if !selection.captures(&name) => {}
                Some(version) => {
                    let change = vec![SchemaChange::ResetTable];
                    out.events.push(event(&name, change, Some(version), Some(version), place));
                    out.resnapshots.push(Resnapshot { table: name, reason, reset: true });
                }
                None => self.doubt(&name, &reason, true, selection, out),
            }
        }
    }

    /// Forgets a shape that the log no longer tells.
    pub(super) fn doubt(
        &mut self,
        table: &TableId,
        reason: &str,
        restart: bool,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let name = self.spelled(table);
        if !selection.captures(&name) {
            let key = self.key(&name);
            self.entries.remove(&key);
            return;
        }
        let entry = self.entry(&name);
        let last = entry.in_target();
        let restart = restart || entry.doubt.as_ref().is_some_and(|d| d.restart);
        entry.clear();
        entry.doubt = Some(InDoubt { last, restart });
        out.doubts.push(Doubt { table: name, reason: reason.to_owned() });
    }
}

impl Entry {
    /// Takes a new shape under the next version.
    pub fn set(
        &mut self,
        shape: MysqlTable,
        types: &dyn Fn(&MysqlColumn) -> DataType,
    ) -> TableVersion {
        self.version += 1;
        let schema = Arc::new(table_schema(self.version, &shape, types));
        let version = TableVersion { shape: Arc::new(shape), schema };
        self.current = Some(version.clone());
        self.doubt = None;
        version
    }

    pub fn clear(&mut self) {
        self.current = None;
        self.doubt = None;
        self.lineage = None;
    }

    /// What the target holds of the table.
    pub fn in_target(&self) -> Option<TableVersion> {
        self.current.clone().or_else(|| self.doubt.as_ref()?.last.clone())
    }
}

/// JSON has no maps with keys that are not strings.
mod entries {
    use std::collections::BTreeMap;

    use lakeward_core::TableId;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Entry;

    pub fn serialize<S: Serializer>(
        entries: &BTreeMap<TableId, Entry>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(entries.iter())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<TableId, Entry>, D::Error> {
        Ok(Vec::<(TableId, Entry)>::deserialize(deserializer)?.into_iter().collect())
    }
}
