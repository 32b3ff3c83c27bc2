//! The log's events to records: grouping, rows to batches, statements to schema events. No I/O: what needs the server is
//! left as a wish for the reader to fulfil.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use lakeward_core::{
    DataChange, DataType, Error, Position, Progress, Result, SchemaChange, SchemaEvent, Segment,
    StreamRecord, TableId, Target,
};
use tracing::{info, warn};

use crate::binlog::{
    DecoderState, Event, EventBody, EventHeader, EventType, QueryEvent, RowsEvent, TableMap,
    TimeZone, parse_event,
};
use crate::ddl::{
    Flavor, Outcome, SchemaHistory, Selection, SqlMode, Statement, StatementPlace, StatementTime,
    TransactionControl, XaStep, read,
};
use crate::metrics::SourceMetrics;
use crate::model::MysqlColumn;
use crate::offset::{FilePosition, Gtid, LogOffset, split};
use crate::rows::{RowPlan, TableBuilder};
use crate::selector::{TableSelector, is_ghost};
use crate::tables::{Intent, OpenBuilder, Phase, Run, TableSlot, Tables};
use crate::transaction::{
    Control, Group, GroupEnd, GroupRows, HELD_BYTES, Prepared, control_of, opens_transaction,
    xid_of,
};
use crate::types;

/// Rows of a batch; a batch is also closed when its rows take this many bytes.
const BATCH_ROWS: usize = 16_384;
const BATCH_BYTES: usize = 8 << 20;
/// Prepared XA transactions up to this size wait in memory.
const XA_HELD_BYTES: usize = 8 << 20;

/// Everything that reading the log changes.
pub struct LogCore {
    pub flavor: Flavor,
    pub selector: TableSelector,
    pub types: types::TypeOptions,
    pub schema_changes: bool,
    pub explicit_defaults: bool,
    pub attempt: u64,
    pub history: SchemaHistory,
    pub tables: Tables,
    pub prepared: Vec<Prepared>,
    pub metrics: SourceMetrics,
    /// Between two groups: everything before it has been handed to builders.
    pub boundary: LogOffset,
    /// Behind the last event.
    pub at: FilePosition,
    /// The newest commit before the boundary.
    pub commit_ms: i64,
    /// End of the last group that was read in this attempt.
    pub last_group: Option<FilePosition>,
    pub group: Option<Group>,
    /// Where a group that had gone out in part began, and how far it had got, when the connection was lost.
    pub resume_inside: Option<(FilePosition, FilePosition)>,
    /// The log before here is older than the shapes that are known: rows are read by them, DDL is passed over.
    pub shapes_from: Option<FilePosition>,
    pub decoder: Option<DecoderState>,
    maps: HashMap<u64, Route>,
    pub out: Vec<(Target, StreamRecord)>,
    /// Rows waiting in builders, roughly.
    pub held_bytes: usize,
    /// Tables whose shape is to be read from the catalog.
    pub asked: Vec<TableId>,
    /// Something was found out that may let a snapshot begin or go on.
    pub changed: bool,
    /// Rows committed before this are not wanted, in milliseconds since the epoch.
    pub not_before_ms: i64,
    /// An XA transaction whose rows have to be read from the log again: with the group that ends it.
    pub reread: Option<(Prepared, Group)>,
    /// What `time_zone=SYSTEM` means in the log: seconds east of UTC, where that never changes.
    pub system_offset_secs: Option<i32>,
}

/// What a table number of the log stands for.
enum Route {
    Ignored,
    Table { table: TableId, plan: Arc<RowPlan> },
}

impl LogCore {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        flavor: Flavor,
        selector: TableSelector,
        types: types::TypeOptions,
        history: SchemaHistory,
        metrics: SourceMetrics,
        boundary: LogOffset,
        commit_ms: i64,
        attempt: u64,
    ) -> Self {
        Self {
            flavor,
            selector,
            types,
            schema_changes: true,
            explicit_defaults: true,
            attempt,
            history,
            tables: Tables::default(),
            prepared: Vec::new(),
            metrics,
            at: boundary.at.clone(),
            boundary,
            commit_ms,
            last_group: None,
            group: None,
            resume_inside: None,
            shapes_from: None,
            decoder: None,
            maps: HashMap::new(),
            out: Vec::new(),
            held_bytes: 0,
            asked: Vec::new(),
            changed: true,
            not_before_ms: 0,
            reread: None,
            system_offset_secs: None,
        }
    }

    /// True between two groups, also where the next one's first events are held.
    pub fn is_at_boundary(&self) -> bool {
        self.reread.is_none() && !self.group.as_ref().is_some_and(Group::has_emitted)
    }

    /// The connection is gone: forgets what the next one sends again.
    pub fn disconnected(&mut self) {
        if let Some(group) = self.group.take()
            && group.has_emitted()
        {
            self.resume_inside = Some((group.start, self.at.clone()));
        }
        self.decoder = None;
        self.maps.clear();
    }

    /// What table numbers stand for has to be found out anew.
    pub fn forget_maps(&mut self) {
        self.maps.clear();
    }

    /// Takes one event.
    pub fn on_event(&mut self, raw: &Bytes) -> Result<()> {
        let header = EventHeader::parse(raw)?;
        self.metrics.events_read.add(1);
        self.metrics.bytes_read.add(raw.len() as u64);
        let before = self.advance(&header);
        if is_row_event(header.event_type) {
            return self.on_rows(raw, &header, before).map_err(|e| self.here(e));
        }
        let mut decoder = self.decoder.take().unwrap_or_default();
        let event = parse_event(raw, &mut decoder);
        self.decoder = Some(decoder);
        event
            .and_then(|event| self.on_parsed(raw, event, before))
            .map_err(|e| self.here(e))
    }

    fn here(&self, e: Error) -> Error {
        if e.context().iter().any(|(key, _)| *key == "position") {
            return e;
        }
        e.with("position", &self.at)
    }

    /// Moves behind the event and returns the place before it.
    fn advance(&mut self, header: &EventHeader) -> FilePosition {
        if header.is_artificial() || header.next_position == 0 {
            return self.at.clone();
        }
        let end = end_of(header, &self.at);
        let size = u64::from(header.size_bytes);
        let before = FilePosition::new(self.at.file.clone(), end.saturating_sub(size));
        self.at.pos = end;
        before
    }

    fn on_parsed(&mut self, raw: &Bytes, event: Event<'_>, before: FilePosition) -> Result<()> {
        let header = event.header;
        let seconds_ms = i64::from(header.timestamp_s) * 1000;
        match event.body {
            EventBody::Rotate { file, position } => {
                self.at = FilePosition::new(&*file, position);
                self.maps.clear();
                self.move_boundary();
                Ok(())
            }
            EventBody::MySqlGtid(gtid) => {
                let commit_us = gtid.original_commit_us.max(gtid.commit_us);
                let ms = if commit_us > 0 { (commit_us / 1000) as i64 } else { seconds_ms };
                self.begin(before, ms)?;
                self.with_group(|g| g.gtid = gtid.gtid.map(Gtid::MySql))
            }
            EventBody::MariaDbGtid(gtid) => {
                self.begin(before, seconds_ms)?;
                self.with_group(|g| {
                    g.gtid = Some(Gtid::MariaDb(gtid.gtid));
                    g.is_standalone = gtid.is_standalone();
                    g.is_transaction = !gtid.is_standalone();
                    g.is_void = gtid.is_alter_start() || gtid.is_alter_rollback();
                    if gtid.is_xa_prepare() {
                        g.xa = gtid.xa.as_ref().map(xid_of);
                    }
                })
            }
            EventBody::Query(query) => self.on_query(raw, &query, before, seconds_ms),
            EventBody::Xid(_) => self.end(GroupEnd::Commit),
            EventBody::XaPrepare(prepare) if prepare.one_phase => self.end(GroupEnd::Commit),
            EventBody::XaPrepare(prepare) => self.end(GroupEnd::XaPrepare(xid_of(&prepare.id))),
            EventBody::TransactionPayload(_) => {
                self.hold(raw)?;
                self.end(GroupEnd::Commit)
            }
            EventBody::Heartbeat { file, position } => {
                let file = if file.is_empty() { self.at.file.clone() } else { Arc::from(&*file) };
                let there = FilePosition { file, pos: position };
                if self.group.is_none() && there > self.at {
                    self.at = there;
                }
                self.move_boundary();
                Ok(())
            }
            EventBody::Incident => Err(Error::data_invalid(
                "the server says that its log has a gap here; start over with a new snapshot (--resnapshot)",
            )),
            EventBody::FormatDescription(_) => {
                self.maps.clear();
                self.move_boundary();
                Ok(())
            }
            _ => {
                self.move_boundary();
                Ok(())
            }
        }
    }

    /// Between groups everything read so far is behind us.
    fn move_boundary(&mut self) {
        if self.group.is_none() && self.at > self.boundary.at {
            self.boundary.at = self.at.clone();
        }
    }

    fn begin(&mut self, start: FilePosition, commit_ms: i64) -> Result<()> {
        // A statement's group has no end of its own on some servers.
        if self.group.is_some() {
            self.end(GroupEnd::Commit)?;
        }
        let position = self.boundary.position_of(&self.at);
        let mut group = Group::new(start, position, commit_ms);
        if let Some((start, consumed)) = self.resume_inside.take() {
            if start != group.start {
                return Err(Error::transient(
                    "after a lost connection the log does not go on with the transaction that was being read; restarting \
                     from the last checkpoint",
                ));
            }
            self.metrics.resumed.add(1);
            group.rows = GroupRows::Emitted { skip_until: Some(consumed) };
        }
        self.group = Some(group);
        Ok(())
    }

    fn with_group(&mut self, change: impl FnOnce(&mut Group)) -> Result<()> {
        match &mut self.group {
            Some(group) => {
                change(group);
                Ok(())
            }
            None => Err(Error::bug("an event of a transaction stands outside of one")),
        }
    }

    fn on_query(
        &mut self,
        raw: &Bytes,
        query: &QueryEvent<'_>,
        before: FilePosition,
        seconds_ms: i64,
    ) -> Result<()> {
        if self.group.is_none() {
            self.begin(before, seconds_ms)?;
        }
        match control_of(&query.sql) {
            Control::Begin => self.with_group(|g| g.is_transaction = true),
            Control::Commit => self.end(GroupEnd::Commit),
            Control::Rollback => self.end(GroupEnd::Rollback),
            Control::Savepoint => Ok(()),
            Control::Xa => self.on_xa(query),
            Control::Other => {
                let opens = opens_transaction(&query.sql);
                self.hold(raw)?;
                let goes_on = match &mut self.group {
                    Some(group) => {
                        group.is_transaction |= opens;
                        group.is_transaction && !group.is_standalone
                    }
                    None => true,
                };
                if goes_on { Ok(()) } else { self.end(GroupEnd::Commit) }
            }
        }
    }

    fn on_xa(&mut self, query: &QueryEvent<'_>) -> Result<()> {
        let text = query.text()?;
        let statements = read(&text, &self.mode_of(query), None)?;
        for statement in statements {
            let Statement::Transaction(TransactionControl::Xa(step, xid)) = statement else {
                continue;
            };
            match step {
                XaStep::Start => self.with_group(|g| {
                    g.is_transaction = true;
                    g.xa = Some(xid);
                })?,
                XaStep::End => {}
                XaStep::Prepare => self.end(GroupEnd::XaPrepare(xid))?,
                XaStep::Commit { one_phase: true } => self.end(GroupEnd::Commit)?,
                XaStep::Commit { one_phase: false } => self.end(GroupEnd::XaCommit(xid))?,
                XaStep::Rollback => self.end(GroupEnd::XaRollback(xid))?,
            }
        }
        Ok(())
    }

    fn on_rows(&mut self, raw: &Bytes, header: &EventHeader, before: FilePosition) -> Result<()> {
        if self.group.is_none() {
            self.begin(before, i64::from(header.timestamp_s) * 1000)?;
            self.with_group(|g| g.is_transaction = true)?;
        }
        self.hold(raw)
    }

    /// Keeps an event of the group for its end, or emits it where the group is too large for that.
    fn hold(&mut self, raw: &Bytes) -> Result<()> {
        let Some(group) = &mut self.group else { return Ok(()) };
        let limit = if group.xa.is_some() { XA_HELD_BYTES } else { HELD_BYTES };
        match &mut group.rows {
            GroupRows::Held { events, bytes } => {
                *bytes += raw.len();
                events.push(raw.clone());
                if *bytes <= limit {
                    return Ok(());
                }
                let held = std::mem::take(events);
                if group.xa.is_some() {
                    group.rows = GroupRows::Dropped;
                    return Ok(());
                }
                group.rows = GroupRows::Emitted { skip_until: None };
                self.apply_all(&held)
            }
            GroupRows::Emitted { .. } => self.apply(raw),
            GroupRows::Dropped => Ok(()),
        }
    }

    fn end(&mut self, end: GroupEnd) -> Result<()> {
        let Some(group) = &mut self.group else { return Ok(()) };
        match end {
            GroupEnd::Commit => {
                if let GroupRows::Held { events, .. } = &mut group.rows {
                    let held = std::mem::take(events);
                    self.apply_all(&held)?;
                }
            }
            GroupEnd::Rollback if group.has_emitted() => {
                return Err(Error::data_invalid(
                    "a transaction of more than 1 MB was rolled back after its rows had been logged; start over with a new \
                     snapshot (--resnapshot)",
                ));
            }
            GroupEnd::Rollback => {}
            GroupEnd::XaPrepare(xid) => {
                let events = match &mut group.rows {
                    GroupRows::Held { events, .. } => Some(std::mem::take(events)),
                    _ => None,
                };
                let from = group.start.clone();
                let (server, to) = (self.boundary.server.clone(), self.at.clone());
                self.prepared.retain(|p| p.xid != xid);
                self.prepared.push(Prepared { xid, server, from, to, events });
            }
            GroupEnd::XaCommit(xid) => {
                if let Some(i) = self.prepared.iter().position(|p| p.xid == xid) {
                    let mut prepared = self.prepared.swap_remove(i);
                    match prepared.events.take() {
                        Some(events) => {
                            // Its table numbers are of another time.
                            self.maps.clear();
                            self.apply_all(&events)?;
                            self.maps.clear();
                        }
                        None => {
                            self.maps.clear();
                            // The reader reads them, then calls `reread_done`.
                            if let Some(mut group) = self.group.take() {
                                group.rows = GroupRows::Emitted { skip_until: None };
                                self.reread = Some((prepared, group));
                            }
                            return Ok(());
                        }
                    }
                } else {
                    warn!(position = %self.at, "an XA transaction ends that was prepared before the pipeline began to read");
                }
            }
            GroupEnd::XaRollback(xid) => self.prepared.retain(|p| p.xid != xid),
        }
        self.finish_group();
        Ok(())
    }

    fn finish_group(&mut self) {
        if let Some(group) = self.group.take() {
            if let (Some(gtids), Some(gtid)) = (&mut self.boundary.gtids, &group.gtid) {
                gtids.add(gtid);
            }
            self.commit_ms = self.commit_ms.max(group.commit_ms);
        }
        self.boundary.at = self.at.clone();
        self.last_group = Some(self.at.clone());
    }

    /// The rows of the XA transaction that `reread` asked for have all been applied.
    pub fn reread_done(&mut self) {
        if let Some((_, group)) = self.reread.take() {
            self.group = Some(group);
            self.finish_group();
            self.maps.clear();
        }
    }

    /// Applies an event of the transaction that `reread` asked for; other events of that stream are passed over.
    pub fn reread_event(&mut self, raw: &Bytes, decoder: &mut DecoderState) -> Result<()> {
        let header = EventHeader::parse(raw)?;
        if header.event_type == EventType::FORMAT_DESCRIPTION {
            return parse_event(raw, decoder).map(|_| ());
        }
        if !is_row_event(header.event_type) {
            return Ok(());
        }
        let Some((prepared, group)) = self.reread.take() else { return Ok(()) };
        self.group = Some(group);
        let own = self.decoder.replace(decoder.clone());
        let result = self.apply(raw);
        self.decoder = own;
        if let Some(group) = self.group.take() {
            self.reread = Some((prepared, group));
        }
        result
    }

    /// Applies events whose group is known to count.
    fn apply_all(&mut self, events: &[Bytes]) -> Result<()> {
        for raw in events {
            self.apply(raw)?;
        }
        Ok(())
    }

    fn apply(&mut self, raw: &Bytes) -> Result<()> {
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
            EventBody::Query(query)
                if !skipped && control_of(&query.sql) == Control::Other =>
            {
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
        let route = self.route_of(map)?;
        self.maps.insert(map.table_id, route);
        Ok(())
    }

    fn route_of(&mut self, map: &TableMap<'_>) -> Result<Route> {
        let table = TableId::new(map.database, map.table);
        if is_ghost(&table) || !self.selector.is_selected(&table) {
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
        let Some(group) = &self.group else { return Ok(()) };
        let segment =
            Segment { end: 0, position: group.position, commit_ms: group.commit_ms };
        let Some(i) = self.tables.find(&table) else { return Ok(()) };
        if self.is_covered(&self.tables.slots[i], group) {
            return Ok(());
        }
        let mut cursor = plan.rows(rows)?;
        while !cursor.is_done() {
            if self.tables.slots[i].builder.is_none() {
                let Some(version) = self.history.get(&table) else { return Ok(()) };
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

    /// True where the table has the group's rows already.
    fn is_covered(&self, slot: &TableSlot, group: &Group) -> bool {
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

    fn on_statement(&mut self, query: &QueryEvent<'_>, timestamp_s: u32) -> Result<()> {
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
                self.refuse_dml(table.as_ref(), &query.database)?;
                continue;
            }
            self.note_ddl(&statement);
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
            // The catalog is being asked: its answer counts, unless this is newer.
            slot.last_ddl = Some(here);
            return Ok(());
        }
        if !self.schema_changes && event.before.is_some() {
            return Err(Error::schema_incompatible(
                "the table's schema changed while `schema-change.enabled` is false; change the target by hand and start over \
                 with a new snapshot of the table, or turn the option on",
            )
            .with("table", &table)
            .with("change", event.changes.first().map_or("none", SchemaChange::kind)));
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
            slot.floor = old.floor;
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
        let chunkable = self
            .history
            .get(table)
            .is_some_and(|v| crate::chunks::is_chunkable(&v.shape));
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

    /// A place for an event that the reader makes by itself: behind the log's event there, and different in each attempt.
    pub fn made_position(&self, slot: &TableSlot) -> Position {
        let here = self.boundary.position_of(&self.boundary.at);
        let floor = slot.floor.as_ref().map(|f| f.position_of(&f.at));
        let base = floor.map_or(here, |f| f.max(here));
        Position { hi: base.hi, lo: base.lo | (self.attempt % 0xffff + 1) }
    }
}

/// Where the event ends. The header has the low half of it; files can be larger than 4 GiB.
pub fn end_of(header: &EventHeader, at: &FilePosition) -> u64 {
    let end = at.pos & !0xffff_ffff | u64::from(header.next_position);
    if end < at.pos && at.pos - end > 1 << 31 { end + (1 << 32) } else { end }
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

pub fn data_type(options: &types::TypeOptions, column: &MysqlColumn) -> DataType {
    types::data_type(&column.column_type, options)
}

fn is_row_event(event_type: EventType) -> bool {
    use EventType as T;
    matches!(
        event_type,
        T::TABLE_MAP
            | T::WRITE_ROWS_V1
            | T::UPDATE_ROWS_V1
            | T::DELETE_ROWS_V1
            | T::WRITE_ROWS
            | T::UPDATE_ROWS
            | T::DELETE_ROWS
            | T::PARTIAL_UPDATE_ROWS
            | T::MARIADB_WRITE_ROWS_COMPRESSED_V1
            | T::MARIADB_UPDATE_ROWS_COMPRESSED_V1
            | T::MARIADB_DELETE_ROWS_COMPRESSED_V1
            | T::MARIADB_WRITE_ROWS_COMPRESSED
            | T::MARIADB_UPDATE_ROWS_COMPRESSED
            | T::MARIADB_DELETE_ROWS_COMPRESSED
    )
}

/// The key's columns are others, or of another type: a place in the old order means nothing in the new one.
fn is_rekeyed(event: &SchemaEvent) -> bool {
    let (Some(before), Some(after)) = (&event.before, &event.after) else { return false };
    let types = |s: &lakeward_core::TableSchema| {
        s.key_indices().iter().map(|i| s.columns[*i].data_type).collect::<Vec<_>>()
    };
    before.primary_key != after.primary_key || types(before) != types(after)
}
