//! Row events to batches, and batches to the stream.

use std::sync::Arc;

use bytes::Bytes;
use lakeward_core::{
    DataChange, Error, Progress, Result, Segment, StreamRecord, TableFailure, TableId, Target,
};
use tracing::warn;

use super::{BATCH_BYTES, BATCH_ROWS, LogCore, Route};
use crate::binlog::{DecoderState, Event, EventBody, RowsEvent, TableMap, parse_event};
use crate::offset::split;
use crate::rows::{RowPlan, TableBuilder};
use crate::selector::is_ghost;
use crate::tables::{Intent, OpenBuilder, Phase, Run, TableSlot};
use crate::transaction::{Control, Group, GroupRows, control_of};

impl LogCore {
    /// Applies events whose group is known to count.
    pub(super) fn apply_all(&mut self, events: &[Bytes]) -> Result<()> {
        for raw in events {
            self.apply(raw)?;
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, raw: &Bytes) -> Result<()> {
        let mut decoder = self.decoder.take().unwrap_or_default();
        let result = self.apply_with(raw, &mut decoder);
        self.decoder = Some(decoder);
        result
    }

    fn apply_with(&mut self, raw: &Bytes, decoder: &mut DecoderState) -> Result<()> {
        let event = parse_event(raw, decoder)?;
        if let EventBody::TransactionPayload(payload) = &event.body {
            let mut inner = payload.events()?;
            while let Some(event) = inner.next(decoder)? {
                self.apply_event(event)?;
            }
            return Ok(());
        }
        self.apply_event(event)
    }

    fn apply_event(&mut self, event: Event<'_>) -> Result<()> {
        let skipped = match &self.group {
            Some(Group { rows: GroupRows::Emitted { skip_until: Some(until) }, .. }) => {
                self.at <= *until
            }
            _ => false,
        };
        match event.body {
            EventBody::TableMap(map) => self.on_table_map(&map),
            EventBody::Rows(rows) if !skipped => self.on_rows_event(&rows),
            EventBody::Query(query) if !skipped && control_of(&query.sql) == Control::Other => {
                self.on_statement(&query, event.header.timestamp_s)
            }
            _ => Ok(()),
        }
    }

    fn on_table_map(&mut self, map: &TableMap<'_>) -> Result<()> {
        match self.maps.get(&map.table_id) {
            Some(Route::Ignored) => return Ok(()),
            Some(Route::Table { plan, .. }) if plan.is_for(map) => return Ok(()),
            _ => {}
        }
        let route = match self.route_of(map) {
            Err(e) if e.kind().is_of_table() => {
                self.leave_out(&TableId::new(map.database, map.table), e);
                Route::Ignored
            }
            route => route?,
        };
        self.maps.insert(map.table_id, route);
        Ok(())
    }

    fn route_of(&mut self, map: &TableMap<'_>) -> Result<Route> {
        let table = TableId::new(map.database, map.table);
        if is_ghost(&table) || !self.selector.is_selected(&table) {
            return Ok(Route::Ignored);
        }
        if self.tables.passed_over.contains(&table) {
            return Ok(Route::Ignored);
        }
        let Some(slot) = self.tables.get_mut(&table) else {
            self.ask(&table, "its rows are in the log and it was not known", true);
            return Ok(Route::Ignored);
        };
        if !slot.is_active() {
            return Ok(Route::Ignored);
        }
        let Some(version) = self.history.get(&table).cloned() else {
            self.ask(&table, "its shape is not known", true);
            return Ok(Route::Ignored);
        };
        match RowPlan::new(&version.shape, map) {
            Ok(plan) => Ok(Route::Table { table, plan: Arc::new(plan) }),
            Err(e) if e.kind() == lakeward_core::ErrorKind::SchemaIncompatible => {
                if self.shapes_from.as_ref().is_some_and(|from| self.at < *from) {
                    return Err(Error::data_invalid(
                        "the table had another shape when these rows were written, and nothing tells which; start with \
                         scan.startup.mode `initial`",
                    )
                    .with("table", &table)
                    .with_source(e));
                }
                warn!(table = %table, "{e}");
                self.ask(&table, "its rows do not fit the shape that is known", true);
                Ok(Route::Ignored)
            }
            Err(e) => Err(e),
        }
    }

    fn on_rows_event(&mut self, rows: &RowsEvent<'_>) -> Result<()> {
        let Some(Route::Table { table, plan }) = self.maps.get(&rows.table_id) else {
            return Ok(());
        };
        let (table, plan) = (table.clone(), plan.clone());
        match self.take_rows(&table, &plan, rows) {
            Err(e) if e.kind().is_of_table() => {
                self.leave_out(&table, e);
                Ok(())
            }
            result => result,
        }
    }

    fn take_rows(&mut self, table: &TableId, plan: &RowPlan, rows: &RowsEvent<'_>) -> Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        let segment = Segment { end: 0, position: group.position, commit_ms: group.commit_ms };
        let Some(i) = self.tables.find(table) else { return Ok(()) };
        if self.is_covered(&self.tables.slots[i], group) {
            return Ok(());
        }
        let mut cursor = plan.rows(rows)?;
        while !cursor.is_done() {
            if self.tables.slots[i].builder.is_none() {
                let Some(version) = self.history.get(table) else { return Ok(()) };
                let builder = TableBuilder::new(&version.shape, version.schema.clone())?;
                self.tables.slots[i].builder = Some(OpenBuilder {
                    schema: version.schema.clone(),
                    rows: builder,
                    segments: Vec::new(),
                });
            }
            let Some(open) = &mut self.tables.slots[i].builder else { return Ok(()) };
            let added = cursor.decode_up_to(&mut open.rows, BATCH_BYTES)?;
            let end = open.rows.len() as u32;
            match open.segments.last_mut() {
                Some(last) if last.position == segment.position => last.end = end,
                _ if added > 0 => open.segments.push(Segment { end, ..segment }),
                _ => {}
            }
            self.metrics.rows_read.add(added as u64);
            let full = open.rows.len() >= BATCH_ROWS || !cursor.is_done();
            if full {
                flush(&mut self.tables.slots[i], &mut self.out)?;
            }
        }
        self.held_bytes += rows.size_bytes();
        // Counting exactly costs a look at each column of each table.
        if self.held_bytes >= BATCH_BYTES {
            self.flush_all()?;
        }
        Ok(())
    }

    /// The table cannot be copied any further. The pipeline decides whether the others go on.
    pub fn leave_out(&mut self, table: &TableId, error: Error) {
        if self.tables.find(table).is_none() {
            let intent = Intent { snapshot: true, reset: true };
            self.tables.insert(TableSlot::new(table.clone(), intent, self.metrics.table(table)));
        }
        let Some(slot) = self.tables.get_mut(table) else { return };
        slot.phase = Phase::LeftOut;
        slot.void_chunks();
        slot.run = Run::Done;
        slot.builder = None;
        for route in self.maps.values_mut() {
            if matches!(route, Route::Table { table: of, .. } if of == table) {
                *route = Route::Ignored;
            }
        }
        self.changed = true;
        let failure = TableFailure { table: table.clone(), error: self.here(error) };
        self.out.push((Target::Hash(table.stable_hash()), StreamRecord::Failure(failure)));
    }

    /// True where the table has the group's rows already.
    pub(super) fn is_covered(&self, slot: &TableSlot, group: &Group) -> bool {
        if slot.rows_from.is_some_and(|from| group.position <= from)
            || group.commit_ms < self.not_before_ms
        {
            return true;
        }
        slot.floor.as_ref().is_some_and(|floor| {
            if floor.server == self.boundary.server {
                return group.start < floor.at;
            }
            floor.gtids.as_ref().zip(group.gtid.as_ref()).is_some_and(|(s, g)| s.contains(g))
        })
    }

    /// Hands all waiting rows on.
    pub fn flush_all(&mut self) -> Result<()> {
        for slot in &mut self.tables.slots {
            flush(slot, &mut self.out)?;
        }
        self.held_bytes = 0;
        Ok(())
    }

    pub fn has_waiting_rows(&self) -> bool {
        self.tables.slots.iter().any(|s| s.builder.is_some())
    }

    /// Everything before the boundary is out.
    pub fn emit_progress(&mut self) -> Result<()> {
        let progress = Progress {
            split: split(),
            offset: self.boundary.encode()?,
            commit_ms: self.commit_ms,
            table: None,
        };
        self.out.push((Target::All, StreamRecord::Progress(progress)));
        self.metrics.log_file_number.set(self.boundary.at.file_number() as i64);
        self.metrics.log_position.set(self.boundary.at.pos as i64);
        Ok(())
    }
}

/// Hands a table's waiting rows on.
pub fn flush(slot: &mut TableSlot, out: &mut Vec<(Target, StreamRecord)>) -> Result<()> {
    let Some(mut open) = slot.builder.take() else { return Ok(()) };
    if open.rows.is_empty() {
        return Ok(());
    }
    let (rows, kinds, unavailable) = open.rows.finish()?;
    let change = DataChange {
        table: slot.id.clone(),
        schema: open.schema,
        kinds,
        rows,
        unavailable,
        segments: open.segments,
        snapshot: false,
    };
    if slot.oldest_chunk().is_some() {
        slot.touched.record(&change)?;
    }
    out.push((Target::Hash(slot.id.stable_hash()), StreamRecord::Data(change)));
    Ok(())
}
