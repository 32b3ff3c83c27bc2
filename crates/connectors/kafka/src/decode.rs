//! A run of records to rows of tables as they are known, up to the first record that needs more than that. Pure, so that
//! partitions are decoded side by side.

use std::sync::Arc;

use hashbrown::HashMap;
use lakeward_core::{DataChange, Position, Result, RowKind, TableId};

use crate::bad_records::{BadRecordPolicy, BadRecords};
use crate::cell::Value;
use crate::config::Format;
use crate::declared::DeclaredCache;
use crate::format::{self, Change, Ddl, Message, Op, Reason, Rows};
use crate::json::Object;
use crate::partition::{Chunk, RecordEntry};
use crate::reader::Watermark;
use crate::row::{RowSettings, RowsBuilder, Trouble, project};
use crate::selector::TableRules;
use crate::shape::{Order, Shape, Shapes};

/// What does not change while a reader lives.
#[derive(Debug)]
pub struct DecodeSettings {
    pub format: Format,
    pub rules: TableRules,
    pub rows: RowSettings,
    pub bad_records: BadRecords,
}

/// What a capture system sent to other partitions before a record may arrive this much after it.
pub const GRACE_MS: i64 = 1_000;

/// One run to decode.
pub struct Job {
    pub chunk: Arc<Chunk>,
    /// The first record of the chunk that is not done yet.
    pub from: usize,
    pub shapes: Arc<Shapes>,
    pub settings: Arc<DecodeSettings>,
    pub cache: DeclaredCache,
    /// The topic's name and number, and the partition's.
    pub topic: Arc<str>,
    pub ordinal: u32,
    pub partition: i32,
    /// The sink holds these tables up to these offsets of this partition.
    pub floors: Arc<HashMap<TableId, i64>>,
    /// The record at `from` was found to be bad when the tables were asked to take it.
    pub refused: Option<Reason>,
    /// Rows behind it wait.
    pub watermark: Watermark,
}

/// Why decoding stopped before the end of a run.
#[derive(Debug)]
pub enum Stop {
    /// The record's table must be made or changed first.
    Evolve,
    /// With the time from which on the end of another partition says that nothing earlier will come of it.
    Ddl(Vec<Ddl>, Order, i64),
    /// The record's table waits for a DDL that comes first.
    Held(Order),
    /// Statements in other partitions may come first. With the time by which the record was there.
    Ahead(Order, i64),
    Bad(Reason),
}

/// What came out of a [`Job`].
pub struct Decoded {
    pub chunk: Arc<Chunk>,
    pub from: usize,
    /// The first record that is not done.
    pub until: usize,
    pub rows: Vec<(Arc<Shape>, DataChange)>,
    pub stop: Option<Stop>,
    pub cache: DeclaredCache,
    pub shapes: Arc<Shapes>,
    /// The newest change, by the source's clock.
    pub commit_ms: i64,
    /// The last record's place, as far as it has one.
    pub order: Option<Order>,
    pub markers: u64,
    pub bad_records: u64,
}

/// What became of a record.
enum Outcome {
    Done,
    Marker,
    Stop(Stop),
}

/// Where the rows of a record go.
enum Found {
    Builder(usize),
    /// The table is not known yet.
    Unknown,
    /// The table is not to be copied, or its sink holds the record already.
    Unwanted,
}

struct Run<'j> {
    job: &'j Job,
    builders: Vec<RowsBuilder>,
    by_table: HashMap<TableId, usize>,
    /// The builder of the last record.
    last: Option<usize>,
    commit_ms: i64,
    order: Option<Order>,
    bad_records: u64,
}

pub fn decode(mut job: Job) -> Result<Decoded> {
    let chunk = job.chunk.clone();
    let mut cache = std::mem::take(&mut job.cache);
    let mut run = Run {
        job: &job,
        builders: Vec::new(),
        by_table: HashMap::new(),
        last: None,
        commit_ms: 0,
        order: None,
        bad_records: 0,
    };
    let mut values = Vec::new();
    let (mut until, mut stop, mut markers) = (job.from, None, 0);
    while let Some(record) = chunk.records.get(until) {
        let refused = job.refused.as_ref().filter(|_| until == job.from);
        let outcome = match refused {
            Some(reason) => Err(reason.clone()),
            None => run.record(&chunk, record, &mut cache, &mut values),
        };
        match outcome {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Marker) => markers += 1,
            Ok(Outcome::Stop(why)) => {
                stop = Some(why);
                break;
            }
            Err(reason) => {
                if let Some(why) = run.bad(&chunk, record, reason) {
                    stop = Some(why);
                    break;
                }
            }
        }
        until += 1;
    }
    let (commit_ms, order, bad_records) = (run.commit_ms, run.order, run.bad_records);
    let mut rows = Vec::with_capacity(run.builders.len());
    for builder in run.builders.into_iter().filter(|b| !b.is_empty()) {
        let shape = builder.shape.clone();
        rows.push((shape, builder.finish()?));
    }
    let (from, shapes) = (job.from, job.shapes.clone());
    Ok(Decoded {
        chunk,
        from,
        until,
        rows,
        stop,
        cache,
        shapes,
        commit_ms,
        order,
        markers,
        bad_records,
    })
}

impl Run<'_> {
    fn record<'c>(
        &mut self,
        chunk: &'c Chunk,
        record: &RecordEntry,
        cache: &mut DeclaredCache,
        values: &mut Vec<Value<'c>>,
    ) -> Result<Outcome, Reason> {
        let settings = &self.job.settings;
        let message = format::read(settings.format, chunk.key(record), chunk.value(record), cache)?;
        let rows = match message {
            Message::Marker => return Ok(Outcome::Marker),
            Message::Ddl(mut all) => {
                all.retain(|ddl| {
                    settings.rules.is_selected(&ddl.table) && self.is_new(&ddl.table, record)
                });
                let Some(first) = all.first() else { return Ok(Outcome::Marker) };
                let order = order_of(first.commit_ms, record);
                let known_ms = (chunk.there_ms(record) + GRACE_MS).max(chunk.arrived_ms);
                return Ok(Outcome::Stop(Stop::Ddl(all, order, known_ms)));
            }
            Message::Rows(rows) => rows,
        };
        let order = order_of(rows.commit_ms, record);
        let shapes = &self.job.shapes;
        if shapes.hold(&rows.namespace, &rows.table).is_some_and(|hold| order > hold) {
            return Ok(Outcome::Stop(Stop::Held(order)));
        }
        let there_ms = chunk.there_ms(record);
        if self.job.watermark.is_before(order, there_ms) {
            return Ok(Outcome::Stop(Stop::Ahead(order, there_ms)));
        }
        let at = match self.builder_of(&rows, record) {
            Found::Builder(at) => at,
            Found::Unwanted => return Ok(Outcome::Marker),
            Found::Unknown => return Ok(Outcome::Stop(Stop::Evolve)),
        };
        values.clear();
        let shape = self.builders[at].shape.clone();
        if shape.altered.is_some_and(|altered| order >= altered) && lacks_a_column(&shape, &rows) {
            return Ok(Outcome::Stop(Stop::Evolve));
        }
        if has_another_key(&shape, &rows) && settings.rules.key(&shape.table).is_none() {
            return Err("its key has other columns than the table's".into());
        }
        let mut kinds = Vec::with_capacity(2);
        for change in &rows.changes {
            match images(&shape, &rows, change, order, &settings.rows, values, &mut kinds) {
                Ok(()) => {}
                Err(Trouble::Evolve) => return Ok(Outcome::Stop(Stop::Evolve)),
                Err(Trouble::Bad(reason)) => return Err(reason),
            }
        }
        let commit_ms = if rows.commit_ms > 0 { rows.commit_ms } else { record.timestamp_ms };
        let position = self.position(record);
        let builder = &mut self.builders[at];
        for (kind, row) in kinds.iter().zip(values.chunks(shape.schema.columns.len())) {
            builder.push(*kind, row);
        }
        builder.end_segment(position, commit_ms);
        self.commit_ms = self.commit_ms.max(commit_ms);
        self.order = self.order.max(Some(order));
        Ok(Outcome::Done)
    }

    fn position(&self, record: &RecordEntry) -> Position {
        let hi = u64::from(self.job.ordinal) << 32 | u64::from(self.job.partition.unsigned_abs());
        Position { hi, lo: record.offset.unsigned_abs() }
    }

    /// False for a record that the sink's table already holds.
    fn is_new(&self, table: &TableId, record: &RecordEntry) -> bool {
        self.job.floors.get(table).is_none_or(|floor| record.offset >= *floor)
    }

    fn builder_of(&mut self, rows: &Rows<'_>, record: &RecordEntry) -> Found {
        if let Some(at) = self.last.filter(|_| self.job.floors.is_empty()) {
            let table = &self.builders[at].shape.table;
            if *table.name == *rows.table && *table.namespace == *rows.namespace {
                return Found::Builder(at);
            }
        }
        let table = TableId::new(&*rows.namespace, &*rows.table);
        if !self.job.settings.rules.is_selected(&table) || !self.is_new(&table, record) {
            return Found::Unwanted;
        }
        let at = match self.by_table.get(&table) {
            Some(at) => *at,
            None => match self.job.shapes.tables.get(&table) {
                Some(shape) => {
                    self.builders.push(RowsBuilder::new(shape.clone()));
                    self.by_table.insert(table, self.builders.len() - 1);
                    self.builders.len() - 1
                }
                None => return Found::Unknown,
            },
        };
        self.last = Some(at);
        Found::Builder(at)
    }

    /// What the policy makes of a bad record; a stop where it must not be passed.
    fn bad(&mut self, chunk: &Chunk, record: &RecordEntry, reason: Reason) -> Option<Stop> {
        let bad = &self.job.settings.bad_records;
        if bad.policy == BadRecordPolicy::Fail {
            return Some(Stop::Bad(reason));
        }
        self.bad_records += 1;
        let (topic, partition, offset) = (&self.job.topic, self.job.partition, record.offset);
        tracing::warn!(%topic, partition, offset, "a record is left out: {reason}");
        if bad.policy == BadRecordPolicy::Skip {
            return None;
        }
        let at = match self.by_table.get(&bad.table) {
            Some(at) => *at,
            None => {
                let Some(shape) = self.job.shapes.tables.get(&bad.table) else {
                    return Some(Stop::Evolve);
                };
                self.builders.push(RowsBuilder::new(shape.clone()));
                self.by_table.insert(bad.table.clone(), self.builders.len() - 1);
                self.builders.len() - 1
            }
        };
        let bytes = |bytes: Option<&[u8]>| bytes.map_or(Value::Null, |b| Value::Bytes(b.to_vec()));
        let row = [
            Value::Text(topic.as_ref().into()),
            Value::Long(partition.into()),
            Value::Long(offset),
            Value::Long(record.timestamp_ms.saturating_mul(1000)),
            bytes(chunk.key(record)),
            bytes(chunk.value(record)),
            Value::Text(reason),
        ];
        let position = self.position(record);
        if self.builders[at].shape.schema.columns.len() == row.len() {
            self.builders[at].push(RowKind::Insert, &row);
            self.builders[at].end_segment(position, record.timestamp_ms);
        }
        None
    }
}

pub fn order_of(commit_ms: i64, record: &RecordEntry) -> Order {
    Order { commit_ms, record_ms: record.timestamp_ms }
}

/// True where the record names a key that is not the table's: rows would be told apart wrongly.
fn has_another_key(shape: &Shape, rows: &Rows<'_>) -> bool {
    let own = &shape.schema.primary_key;
    let is_own = |name: &std::borrow::Cow<'_, str>| own.iter().any(|key| **key == **name);
    let names = &rows.key;
    !own.is_empty() && !names.is_empty() && (names.len() != own.len() || !names.iter().all(is_own))
}

/// True where the record declares its columns and one of the table's is not among them.
fn lacks_a_column(shape: &Shape, rows: &Rows<'_>) -> bool {
    rows.declared.as_ref().is_some_and(|declared| {
        shape.schema.columns.iter().enumerate().any(|(i, c)| declared.find(&c.name, i).is_none())
    })
}

/// Appends the kinds and values of the rows that a change is for the sink: see [`DataChange`].
fn images<'c>(
    shape: &Shape,
    rows: &Rows<'c>,
    change: &Change<'c>,
    order: Order,
    settings: &RowSettings,
    values: &mut Vec<Value<'c>>,
    kinds: &mut Vec<RowKind>,
) -> Result<(), Trouble> {
    let declared = rows.declared.as_deref();
    let keyed = !shape.key.is_empty();
    let missing = |partial: bool| if partial { Value::Unavailable } else { Value::Null };
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let mut put = |kind, image: &Object<'c>, fallback, partial, values: &mut Vec<Value<'c>>| {
        let from = values.len();
        project(shape, declared, image, fallback, missing(partial), order, settings, values)?;
        let is_known = |v: &Value<'_>| !matches!(v, Value::Null | Value::Unavailable);
        if let Some(key) = shape.key.iter().find(|k| !is_known(&values[from + **k])) {
            let column = &shape.schema.columns[*key].name;
            return Err(Trouble::Bad(format!("the key column {column} has no value").into()));
        }
        kinds.push(kind);
        Ok(())
    };
    let no_image = |what: &'static str| Trouble::Bad(what.into());
    match change.op {
        Op::Insert => {
            let after = after.ok_or_else(|| no_image("an insert has no row"))?;
            put(RowKind::Insert, after, None, false, values)
        }
        Op::Delete => {
            let before = before.ok_or_else(|| no_image("a delete has no row"))?;
            put(RowKind::Delete, before, None, false, values)
        }
        Op::Update => {
            let after = after.ok_or_else(|| no_image("an update has no row"))?;
            // Only an image that may be incomplete takes its other columns from the one before.
            let rest = before.filter(|_| rows.partial);
            if !keyed {
                let before = before.ok_or_else(|| {
                    no_image("an update of a table without a key has no row before it")
                })?;
                put(RowKind::UpdateBefore, before, Some(after), false, values)?;
                return put(RowKind::UpdateAfter, after, rest, rows.partial, values);
            }
            match before.filter(|before| key_differs(shape, before, after)) {
                Some(before) => {
                    put(RowKind::Delete, before, Some(after), false, values)?;
                    put(
                        RowKind::Insert,
                        after,
                        Some(before).filter(|_| rows.partial),
                        rows.partial,
                        values,
                    )
                }
                None => put(RowKind::UpdateAfter, after, rest, rows.partial, values),
            }
        }
    }
}

/// Compared as it is written: a key that is only spelled differently is deleted and put again, which comes to the same.
fn key_differs(shape: &Shape, before: &Object<'_>, after: &Object<'_>) -> bool {
    shape.key.iter().any(|key| {
        let name = &shape.schema.columns[*key].name;
        let now = after.entry(name);
        let then = before.get(name).or(now);
        then.map(|raw| raw.get()) != now.map(|raw| raw.get())
    })
}

#[cfg(test)]
mod tests;
