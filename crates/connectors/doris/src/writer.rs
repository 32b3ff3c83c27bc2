//! Writes one table's rows: collapses them by key, and sends them as loads that wait for their commit.

use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{Committable, DataChange, Error, Result, SinkWriter, TableId, TableSchema};

use crate::client::{Load, LoadQueue, Loaded, now_ms};
use crate::collapse::{Buffer, Collapsed, Group};
use crate::committable::TableCommittable;
use crate::config::GroupCommit;
use crate::encode::{self, BodyFormat, HiddenColumns, Rows};
use crate::metrics::SinkMetrics;
use crate::sequence::SEQUENCE_FIELD;
use crate::session::Session;
use crate::table::{Binding, TableFacts};

/// Where a load's age against the cluster's patience is worth a warning.
const WARN_AT: f64 = 0.5;

pub(crate) struct DorisWriter {
    session: Arc<Session>,
    table: TableId,
    writer: usize,
    limit_bytes: usize,
    metrics: SinkMetrics,
    bound: Option<Bound>,
    buffer: Buffer,
    queue: LoadQueue,
    /// Finished loads since the last committable, in order.
    loads: Vec<Loaded>,
    counts: Counts,
    warned: bool,
}

/// What the rows since the last committable come to.
#[derive(Default)]
struct Counts {
    rows: u64,
    bytes: u64,
    commit_ms: i64,
}

/// What follows from the schema version of the rows that are being written.
struct Bound {
    schema: Arc<TableSchema>,
    facts: Arc<TableFacts>,
    binding: Binding,
}

impl DorisWriter {
    pub(crate) fn new(
        session: Arc<Session>,
        table: TableId,
        writer: usize,
        memory_bytes: usize,
        metrics: SinkMetrics,
    ) -> Self {
        let config = &session.cluster.config;
        // Loads that are visible at once must become so in order.
        let limit = if config.two_phase() { config.flush_queue_size } else { 1 };
        let queue = LoadQueue::new(session.cluster.clone(), metrics.clone(), limit);
        // Rows, their text, and the loads on the way.
        let limit_bytes = config.max_bytes.min(memory_bytes / (2 + limit)).max(1);
        Self {
            session,
            table,
            writer,
            limit_bytes,
            metrics,
            bound: None,
            buffer: Buffer::default(),
            queue,
            loads: Vec::new(),
            counts: Counts::default(),
            warned: false,
        }
    }

    async fn bind(&self, schema: &Arc<TableSchema>) -> Result<Bound> {
        let facts = self.session.table(&self.table).await?;
        if !schema.primary_key.is_empty() && !facts.unique {
            return Err(Error::config(
                "the table in doris is not of the unique key model, which updates and deletes need; drop it, and it is made \
                 anew",
            ));
        }
        let binding = facts.bind(schema);
        Ok(Bound { schema: schema.clone(), facts, binding })
    }

    /// Sends what is buffered.
    async fn send(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let Some(bound) = &self.bound else { return Err(Error::bug("rows have no schema")) };
        let config = self.session.cluster.config.clone();
        let Collapsed { batches, groups } =
            self.buffer.collapse(&bound.schema, config.enable_delete)?;
        for group in groups {
            let Some(bound) = &self.bound else { return Err(Error::bug("rows have no schema")) };
            let label = config
                .group_commit
                .eq(&GroupCommit::Off)
                .then(|| self.session.next_label(&self.table, self.writer));
            let load = self.load_of(bound, &batches, &group, label)?;
            self.counts.bytes += load.body.len() as u64;
            if let Some(done) = self.queue.push(load).await? {
                self.loads.push(done);
            }
        }
        Ok(())
    }

    fn load_of(
        &self,
        bound: &Bound,
        batches: &[arrow_array::RecordBatch],
        group: &Group,
        label: Option<String>,
    ) -> Result<Load> {
        let config = &self.session.cluster.config;
        let keyed = bound.facts.unique;
        if !group.whole && !bound.facts.merge_on_write {
            return Err(Error::data_invalid(
                "the source did not send whole rows, and the table in doris does not take partial updates; let the source \
                 log whole rows (MySQL: binlog_row_image=FULL)",
            ));
        }
        let columns: Vec<usize> =
            group.columns.iter().copied().filter(|c| bound.binding.names[*c].is_some()).collect();
        let rows = Rows {
            schema: &bound.schema,
            batches,
            rows: &group.rows,
            columns: &columns,
            names: &bound.binding.names,
            constants: if group.whole { &bound.binding.constants } else { &[] },
            hidden: HiddenColumns {
                delete_sign: keyed && group.whole,
                sequence: (keyed && bound.facts.has_sequence).then_some(SEQUENCE_FIELD),
            },
            zone_offset_seconds: config.zone_offset_seconds()?,
        };
        let format = config.format()?;
        let body = encode::encode(&rows, format)?;
        let body = encode::compress(body, config.compression()?)?;
        Ok(Load {
            database: self.table.namespace.to_string(),
            table: self.table.name.to_string(),
            label,
            headers: self.headers(&rows, format, group.whole)?,
            body: body.into(),
            rows: group.rows.len() as u64,
        })
    }

    fn headers(
        &self,
        rows: &Rows<'_>,
        format: BodyFormat,
        whole: bool,
    ) -> Result<Vec<(String, String)>> {
        let config = &self.session.cluster.config;
        let columns: Vec<String> =
            rows.header_names().iter().map(|n| crate::client::quoted(n)).collect();
        let mut headers: Vec<(&str, String)> = vec![
            ("columns", columns.join(",")),
            ("max_filter_ratio", "0".into()),
            // Under it, a partial update refuses a key that is not visible yet, as one from the same epoch is.
            ("strict_mode", whole.to_string()),
            ("timezone", config.timezone_header()?),
            ("timeout", config.load_timeout.0.as_secs().max(1).to_string()),
        ];
        match format {
            BodyFormat::Json => {
                headers.push(("format", "json".into()));
                headers.push(("read_json_by_line", "true".into()));
                headers.push(("strip_outer_array", "false".into()));
            }
            BodyFormat::Csv => {
                headers.push(("format", "csv".into()));
                headers.push(("column_separator", "\\x01".into()));
                headers.push(("line_delimiter", "\\x02".into()));
            }
            BodyFormat::Arrow => headers.push(("format", "arrow".into())),
        }
        if !whole {
            headers.push(("partial_columns", "true".into()));
        }
        if let Some(field) = rows.hidden.sequence {
            headers.push(("function_column.sequence_col", field.into()));
        }
        match config.group_commit {
            GroupCommit::Off => {
                headers.push(("two_phase_commit", config.two_phase().to_string()));
            }
            GroupCommit::Sync => headers.push(("group_commit", "sync_mode".into())),
            GroupCommit::Async => headers.push(("group_commit", "async_mode".into())),
        }
        let given = config.load_properties.iter().filter(|(key, _)| *key != "format");
        let given = given.map(|(key, value)| (key.clone(), value.clone()));
        Ok(headers.into_iter().map(|(k, v)| (k.to_string(), v)).chain(given).collect())
    }

    async fn finish(&mut self) -> Result<()> {
        self.send().await?;
        while let Some(done) = self.queue.next().await? {
            self.loads.push(done);
        }
        Ok(())
    }

    /// Loads that wait for their commit for too long are aborted by the cluster.
    fn check_age(&mut self) -> Result<()> {
        let config = &self.session.cluster.config;
        let Some(oldest) = self.loads.first().filter(|_| config.two_phase()) else { return Ok(()) };
        let age_ms = (now_ms() - oldest.loaded_at_ms).max(0);
        self.metrics.oldest_precommitted_ms.set(age_ms);
        let patience_ms = config.transaction_timeout.as_millis() as i64;
        if age_ms >= patience_ms {
            return Err(Error::transient(
                "a load waits for its commit longer than doris keeps it (sink.transaction-timeout); nothing is lost, its rows \
                 are read again. Let checkpoints be more frequent, or raise stream_load_default_precommit_timeout_second",
            )
            .with("seconds", age_ms / 1000));
        }
        if age_ms as f64 >= patience_ms as f64 * WARN_AT && !self.warned {
            self.warned = true;
            tracing::warn!(table = %self.table, age_seconds = age_ms / 1000, timeout_seconds = patience_ms / 1000,
                "a load waits for its checkpoint; doris aborts it at the timeout, and its rows are then read again");
        }
        Ok(())
    }
}

#[async_trait]
impl SinkWriter for DorisWriter {
    async fn write(&mut self, change: DataChange) -> Result<()> {
        if change.kinds.is_empty() {
            return Ok(());
        }
        self.check_age()?;
        let bound = self.bound.as_ref();
        if bound.is_none_or(|b| b.schema.version != change.schema.version) {
            self.send().await?;
            self.bound = Some(self.bind(&change.schema).await?);
        }
        self.counts.rows += change.kinds.len() as u64;
        let newest = change.segments.iter().map(|s| s.commit_ms).max().unwrap_or(0);
        self.counts.commit_ms = self.counts.commit_ms.max(newest);
        self.buffer.push(change);
        let full = self.buffer.bytes() >= self.limit_bytes
            || self.buffer.rows() >= self.session.cluster.config.max_rows;
        if full {
            self.send().await?;
        }
        Ok(())
    }

    fn buffered_bytes(&self) -> usize {
        self.buffer.bytes() + self.queue.bytes()
    }

    async fn flush(&mut self) -> Result<()> {
        self.finish().await
    }

    async fn complete_files(&mut self) -> Result<Vec<Committable>> {
        self.finish().await?;
        self.check_age()?;
        let counts = std::mem::take(&mut self.counts);
        if counts.rows == 0 {
            return Ok(Vec::new());
        }
        self.warned = false;
        let loads = std::mem::take(&mut self.loads);
        let two_phase = self.session.cluster.config.two_phase();
        let committable = TableCommittable {
            incarnation: self.session.incarnation,
            writer: self.writer,
            next_part: self.session.next_part(&self.table, self.writer),
            keyed: self.bound.as_ref().is_some_and(|b| !b.schema.primary_key.is_empty()),
            loads: if two_phase { loads } else { Vec::new() },
        };
        let Counts { rows, bytes, commit_ms } = counts;
        Ok(vec![committable.encode(&self.table, rows, bytes, commit_ms)?])
    }

    async fn table_changed(&mut self) -> Result<()> {
        self.send().await?;
        // Whoever changed it may be in another process.
        self.session.forget(&self.table);
        self.bound = None;
        Ok(())
    }
}
