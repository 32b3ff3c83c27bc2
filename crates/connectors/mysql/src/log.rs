//! The log's events to records: grouping, rows to batches, statements to schema events. No I/O: what needs the server is
//! left as a wish for the reader to fulfil.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use lakeward_core::{Error, Position, Result, StreamRecord, TableId, Target};

use crate::binlog::{
    DecoderState, Event, EventBody, EventHeader, EventType, QueryEvent, parse_event,
};
use crate::ddl::{Flavor, SchemaHistory, Statement, TransactionControl, XaStep, read};
use crate::metrics::SourceMetrics;
use crate::offset::{FilePosition, Gtid, LogOffset};
use crate::rows::RowPlan;
use crate::selector::TableSelector;
use crate::tables::Tables;
use crate::transaction::{
    Control, Group, GroupEnd, GroupRows, Prepared, control_of, opens_transaction, xid_of,
};
use crate::types;

/// Rows of a batch; a batch is also closed when its rows take this many bytes.
const BATCH_ROWS: usize = 16_384;
const BATCH_BYTES: usize = 8 << 20;
/// Prepared XA transactions up to this size wait in memory.
const XA_HELD_BYTES: usize = 8 << 20;

mod groups;
mod rows;
mod statements;

pub use rows::flush;
pub use statements::data_type;

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
    /// How many events were made by the reader itself at a place, by table.
    made: HashMap<TableId, (Position, u64)>,
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
            made: HashMap::new(),
            system_offset_secs: None,
        }
    }

    /// True between two groups, also where the next one's first events are held.
    pub fn is_at_boundary(&self) -> bool {
        self.reread.is_none() && !self.group.as_ref().is_some_and(Group::has_emitted)
    }

    /// The connection is gone: forgets what the next one sends again.
    pub fn disconnected(&mut self) {
        if let Some(Group { start, rows: GroupRows::Emitted { skip_until }, .. }) =
            self.group.take()
        {
            // A second cut may come while what went out before the first is still being passed over.
            let out_to = skip_until.filter(|until| *until > self.at);
            self.resume_inside = Some((start, out_to.unwrap_or_else(|| self.at.clone())));
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
        event.and_then(|event| self.on_parsed(raw, event, before)).map_err(|e| self.here(e))
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
}

/// Where the event ends. The header has the low half of it; files can be larger than 4 GiB.
pub fn end_of(header: &EventHeader, at: &FilePosition) -> u64 {
    let end = at.pos & !0xffff_ffff | u64::from(header.next_position);
    if end < at.pos && at.pos - end > 1 << 31 { end + (1 << 32) } else { end }
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
