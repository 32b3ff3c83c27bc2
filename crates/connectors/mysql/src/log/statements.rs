//! Statements of the log: schema events, and what they do to tables and their snapshots.

use lakeward_core::{
    DataType, Error, Position, Result, SchemaChange, SchemaEvent, StreamRecord, TableId, Target,
};
use tracing::{info, warn};

use super::LogCore;
use crate::binlog::{QueryEvent, TimeZone};
use crate::ddl::{
    AlterClause, Flavor, Outcome, Selection, SqlMode, Statement, StatementPlace, StatementTime,
    TableBody, read,
};
use crate::model::MysqlColumn;
use crate::selector::is_ghost;
use crate::tables::{Intent, Phase, Run, TableSlot};
use crate::types;

impl LogCore {
    pub fn mode_of(&self, query: &QueryEvent<'_>) -> SqlMode {
        let bits = query.session.sql_mode().unwrap_or(0);
        // Older servers do not say.
        let explicit = match self.flavor {
            Flavor::MariaDb => query.session.mariadb_explicit_defaults_for_timestamp(),
            Flavor::MySql => query.session.explicit_defaults_for_timestamp,
        };
        let explicit = explicit.unwrap_or(self.explicit_defaults);
        SqlMode::from_bits(self.flavor, bits, explicit)
    }

    pub(super) fn on_statement(&mut self, query: &QueryEvent<'_>, timestamp_s: u32) -> Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        if group.is_void || self.shapes_from.as_ref().is_some_and(|from| self.at <= *from) {
            return Ok(());
        }
        let (position, commit_ms) = (group.position, group.commit_ms);
        let mode = self.mode_of(query);
        let text = match query.text() {
            Ok(text) => text,
            // Of a database that does not matter, it does not matter.
            Err(_) if !self.selector.may_select_in(&query.database) => return Ok(()),
            Err(e) => return Err(e),
        };
        let database = (!query.database.is_empty()).then_some(&*query.database);
        let place = StatementPlace {
            position,
            commit_ms,
            mode,
            time: StatementTime {
                micros: i64::from(timestamp_s) * 1_000_000
                    + i64::from(query.session.micros.unwrap_or(0)),
                has_fraction: query.session.micros.is_some(),
                offset_secs: query.session.time_zone.and_then(|zone| match zone {
                    TimeZone::Fixed { offset_secs } => Some(offset_secs),
                    TimeZone::System => self.system_offset_secs,
                    TimeZone::Named => None,
                }),
            },
        };
        for statement in read(&text, &mode, database)? {
            if let Statement::Dml { table } = &statement {
                if table.as_ref().is_some_and(|t| self.is_not_followed(t)) {
                    continue;
                }
                if let Err(e) = self.refuse_dml(table.as_ref(), &query.database) {
                    match table {
                        Some(table) => self.leave_out(table, e),
                        None => return Err(e),
                    }
                }
                continue;
            }
            self.note_ddl(&statement);
            let versioned =
                versioned(&statement).filter(|t| self.selector.is_selected(t) && !is_ghost(t));
            if let Some(table) = versioned {
                self.leave_out(table, crate::catalog::keeps_history_error());
            }
            let outcome = {
                let (types, selector) = (self.types, self.selector.clone());
                let by_type = move |c: &MysqlColumn| data_type(&types, c);
                let captured = move |t: &TableId| selector.is_selected(t);
                let selection =
                    Selection { is_captured: &captured, is_ghost: &is_ghost, types: &by_type };
                self.history.apply(&statement, &place, &selection)
            };
            self.on_outcome(outcome)?;
        }
        Ok(())
    }

    /// Tables that wait for the catalog's answer have to know of every statement about them, also of those of which the
    /// history, which does not know them yet, makes nothing.
    fn note_ddl(&mut self, statement: &Statement) {
        let here = self.at.clone();
        let mut note = |table: &TableId| {
            if let Some(slot) = self.tables.get_mut(table)
                && !slot.is_active()
            {
                slot.last_ddl = Some(here.clone());
            }
        };
        match statement {
            Statement::CreateTable(create) => note(&create.name),
            Statement::AlterTable(alter) => note(&alter.name),
            Statement::RenameTable { pairs } => {
                pairs.iter().for_each(|(from, to)| {
                    note(from);
                    note(to);
                });
            }
            Statement::DropTable { names, temporary: false } => names.iter().for_each(note),
            Statement::TruncateTable { name } => note(name),
            Statement::RowsChanged { tables, .. } | Statement::Unsure { tables, .. } => {
                tables.iter().for_each(note);
            }
            Statement::DropDatabase { name } => {
                for slot in &mut self.tables.slots {
                    if slot.id.namespace == *name && !slot.is_active() {
                        slot.last_ddl = Some(here.clone());
                    }
                }
            }
            _ => {}
        }
    }

    /// True for tables whose changes are passed over here: since they are read anew after this, or left out.
    fn is_not_followed(&self, table: &TableId) -> bool {
        self.tables.find(table).is_some_and(|i| !self.tables.slots[i].is_active())
    }

    /// A change that was logged as text has no rows to copy.
    fn refuse_dml(&self, table: Option<&TableId>, database: &str) -> Result<()> {
        let matters = match table {
            Some(table) => self.selector.is_selected(table) && !is_ghost(table),
            None => self.selector.may_select_in(database),
        };
        if !matters {
            return Ok(());
        }
        let error = Error::data_invalid(
            "a change was logged as a statement instead of rows, so its rows cannot be copied; set binlog_format=ROW for \
             all sessions, then start over with a new snapshot of the table (--resnapshot)",
        );
        Err(match table {
            Some(table) => error.with("table", table),
            None => error.with("database", database),
        })
    }

    /// Carries out what a statement did to the tables.
    pub fn on_outcome(&mut self, outcome: Outcome) -> Result<()> {
        if outcome == Outcome::default() {
            return Ok(());
        }
        self.maps.clear();
        self.changed = true;
        self.flush_all()?;
        for event in outcome.events {
            self.on_schema_event(event)?;
        }
        for table in outcome.reshaped {
            if let Some(slot) = self.tables.get_mut(&table) {
                slot.void_chunks();
            }
        }
        for table in outcome.reordered {
            let unfinished = |slot: &TableSlot| !matches!(slot.run, Run::Done);
            if self.tables.get_mut(&table).is_some_and(|slot| unfinished(slot)) {
                info!(table = %table, "reading the table anew: its keys may be sorted in another order");
                self.restart_snapshot(&table, true);
            }
        }
        for resnapshot in outcome.resnapshots {
            info!(table = %resnapshot.table, "reading the table anew: {}", resnapshot.reason);
            self.restart_snapshot(&resnapshot.table, false);
        }
        for doubt in outcome.doubts {
            let known = self.tables.get_mut(&doubt.table).is_some_and(|s| s.announced);
            self.ask(&doubt.table, &doubt.reason, known);
        }
        Ok(())
    }

    fn on_schema_event(&mut self, event: SchemaEvent) -> Result<()> {
        let table = event.table.clone();
        let here = self.at.clone();
        if let Some(slot) = self.tables.get_mut(&table)
            && !slot.is_active()
        {
            if slot.is_left_out()
                && event.after.is_none()
                && event.changes == [SchemaChange::DropTable]
            {
                let announced = slot.announced;
                self.tables.remove(&table);
                return if announced { self.emit_schema(event) } else { Ok(()) };
            }
            // The catalog is being asked: its answer counts, unless this is newer.
            slot.last_ddl = Some(here);
            return Ok(());
        }
        if !self.schema_changes && event.before.is_some() {
            let error = Error::schema_incompatible(
                "the table's schema changed while `schema-change.enabled` is false; change the target by hand and start over \
                 with a new snapshot of the table, or turn the option on",
            )
            .with("change", event.changes.first().map_or("none", SchemaChange::kind));
            self.leave_out(&table, error);
            return Ok(());
        }
        if self.tables.find(&table).is_none() {
            let intent = Intent { snapshot: false, reset: false };
            let mut slot = TableSlot::new(table.clone(), intent, self.metrics.table(&table));
            slot.phase = Phase::Active;
            self.tables.insert(slot);
        }
        let covered = match (&self.group, self.tables.find(&table)) {
            (Some(group), Some(i)) => {
                let slot = &self.tables.slots[i];
                let in_snapshot = slot.rows_from.is_some_and(|from| group.position <= from);
                if in_snapshot {
                    // The snapshot was read under the shape of after this DDL; which rows it saw is not worth guessing.
                    self.ask(&table, "its definition changed while it was read", true);
                    return Ok(());
                }
                self.is_covered(slot, group)
            }
            _ => false,
        };
        let renamed = event.changes.iter().find_map(|c| match c {
            SchemaChange::RenameTable { to } => Some(to.clone()),
            _ => None,
        });
        let dropped = event.after.is_none() && renamed.is_none();
        let rekeyed = is_rekeyed(&event);
        if !covered {
            self.emit_schema(event)?;
        }
        if let Some(to) = renamed {
            self.rename_slot(&table, &to);
        } else if dropped {
            self.tables.remove(&table);
        } else if let Some(slot) = self.tables.get_mut(&table) {
            slot.announced = true;
            slot.void_chunks();
            if rekeyed && !matches!(slot.run, Run::Done) {
                self.restart_snapshot(&table, true);
            }
        }
        Ok(())
    }

    fn rename_slot(&mut self, from: &TableId, to: &TableId) {
        let old = self.tables.remove(from);
        let intent = Intent { snapshot: false, reset: false };
        let mut slot = TableSlot::new(to.clone(), intent, self.metrics.table(to));
        slot.phase = Phase::Active;
        slot.announced = true;
        let unfinished = old.as_ref().is_some_and(|o| !matches!(o.run, Run::Done));
        if let Some(old) = old {
            slot.rows_from = old.rows_from;
            slot.row_bytes = old.row_bytes;
        }
        self.tables.insert(slot);
        if unfinished {
            self.restart_snapshot(to, true);
        }
    }

    /// Emits a schema event, with the progress before it that the contract asks for.
    pub fn emit_schema(&mut self, event: SchemaEvent) -> Result<()> {
        self.emit_progress()?;
        let target = Target::Hash(event.table.stable_hash());
        self.out.push((target, StreamRecord::Schema(event)));
        Ok(())
    }

    /// Reads all rows of a table again. `reset`: rows of an earlier try may be out that a table read whole must not repeat.
    pub fn restart_snapshot(&mut self, table: &TableId, reset: bool) {
        let chunkable =
            self.history.get(table).is_some_and(|v| crate::chunks::is_chunkable(&v.shape));
        if let Some(slot) = self.tables.get_mut(table) {
            slot.restart_run(chunkable, reset);
        }
    }

    /// Has the catalog asked for a table's shape, and the table read anew after that.
    pub fn ask(&mut self, table: &TableId, reason: &str, reset: bool) {
        warn!(table = %table, position = %self.at, "asking the catalog for the table's shape and reading it anew: {reason}");
        let here = self.at.clone();
        let intent = Intent { snapshot: true, reset };
        if self.tables.find(table).is_none() {
            let slot = TableSlot::new(table.clone(), intent, self.metrics.table(table));
            self.tables.insert(slot);
        }
        if let Some(slot) = self.tables.get_mut(table) {
            slot.phase = Phase::Asked;
            slot.intent = Intent { snapshot: true, reset: reset || slot.intent.reset };
            slot.last_ddl = Some(here);
            slot.void_chunks();
            slot.run = Run::Done;
            slot.builder = None;
        }
        if !self.asked.contains(table) {
            self.asked.push(table.clone());
        }
        self.changed = true;
        self.maps.clear();
    }

    /// A place for an event that the reader makes by itself: behind the log's event there, and different each time, also
    /// from what another attempt makes. No two events of the log are closer than their headers, 19 bytes.
    pub fn made_position(&mut self, table: &TableId) -> Position {
        let here = self.boundary.position_of(&self.boundary.at);
        let floor = self.tables.floors.get(table).map(|f| f.position_of(&f.at));
        let base = floor.map_or(here, |f| f.max(here));
        self.made.retain(|_, (at, _)| *at >= here);
        let (at, times) = self.made.entry(table.clone()).or_insert((base, 0));
        if *at != base {
            (*at, *times) = (base, 0);
        }
        let lo = (base.lo + (*times << 16)) | (self.attempt % 0xffff + 1);
        *times += 1;
        Position { hi: base.hi, lo }
    }
}

pub fn data_type(options: &types::TypeOptions, column: &MysqlColumn) -> DataType {
    types::data_type(&column.column_type, options)
}

/// The table that keeps its history from here on.
fn versioned(statement: &Statement) -> Option<&TableId> {
    match statement {
        Statement::CreateTable(create) => {
            let definition = match &create.body {
                TableBody::Definition(definition) | TableBody::AsSelect(Some(definition)) => {
                    definition
                }
                TableBody::Like(_) | TableBody::AsSelect(None) => return None,
            };
            definition.system_versioned.then_some(&create.name)
        }
        Statement::AlterTable(alter) => {
            let versions =
                |c: &AlterClause| matches!(c, AlterClause::SystemVersioning { add: true });
            alter.clauses.iter().any(versions).then_some(&alter.name)
        }
        _ => None,
    }
}

/// The key's columns are others, or of another type: a place in the old order means nothing in the new one.
fn is_rekeyed(event: &SchemaEvent) -> bool {
    let (Some(before), Some(after)) = (&event.before, &event.after) else { return false };
    let types = |s: &lakeward_core::TableSchema| {
        s.key_indices().iter().map(|i| s.columns[*i].data_type).collect::<Vec<_>>()
    };
    before.primary_key != after.primary_key || types(before) != types(after)
}
