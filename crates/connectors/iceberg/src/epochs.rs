//! The table `lakeward.__lakeward_epochs`: one row per epoch, written when all of its tables are committed. Whoever
//! reads the tables at the snapshots of one row sees them as the source was at one moment.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use async_trait::async_trait;
use bytes::Bytes;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, NestedField, PrimitiveType, Schema, Struct,
    Type,
};
use lakeward_core::{
    Clock, Epoch, EpochCommitted, EpochPublisher, Error, ErrorKind, Result, ResultExt, TableId,
};
use parquet::arrow::ArrowWriter;

use crate::NewDataFile;
use crate::catalog::{CatalogChange, CommitOutcome, LoadedTable};
use crate::commit::snapshot::{Changes, Start};
use crate::commit::work::{Work, holds_epoch, mark_progress};
use crate::new_table::{self, NewTable};
use crate::properties;
use crate::session::Session;
use crate::table_state::{CommitGuard, TableHandle};
use crate::types;

pub const NAMESPACE: &str = "lakeward";
pub const TABLE: &str = "__lakeward_epochs";

/// Rows that the newest file takes before another one is begun. Each epoch writes it anew, so that there are few files.
const TAIL_ROWS: usize = 256;
const MAX_ROUNDS: usize = 50;

/// Appends rows to the epochs table. See the module.
pub struct IcebergEpochPublisher {
    session: Arc<Session>,
    clock: Arc<dyn Clock>,
    /// The rows of the newest file that this instance wrote, and its ordinal.
    tail: VecDeque<Row>,
    tail_file: Option<u32>,
}

#[derive(Debug, Clone)]
struct Row {
    pipeline: String,
    epoch: i64,
    committed_us: i64,
    source_committed_us: Option<i64>,
    rows: i64,
    offsets: String,
    tables: String,
}

impl IcebergEpochPublisher {
    pub(crate) fn new(session: Arc<Session>, clock: Arc<dyn Clock>) -> Self {
        Self { session, clock, tail: VecDeque::new(), tail_file: None }
    }

    async fn create(&self, handle: &TableHandle, commit: &CommitGuard) -> Result<()> {
        let env = &self.session.env;
        env.catalog.ensure_namespace(NAMESPACE).await?;
        let properties = HashMap::from([(
            properties::CREATED_BY.to_string(),
            self.session.incarnation.pipeline.to_string(),
        )]);
        let metadata = new_table::metadata(NewTable {
            table: handle.table(),
            schema: schema()?,
            config: &env.config,
            earlier: 0,
            properties,
        })?;
        let new = env.catalog.stage(None, metadata).await?;
        env.lake.make_durable([&*new.location]).await?;
        let change = CatalogChange::Create { table: handle.table().clone(), new };
        // On a conflict another pipeline made it in this moment, which is as good.
        env.catalog.commit(&self.session.incarnation, &[change]).await?;
        self.session.reload(handle, commit).await?;
        Ok(())
    }

    /// Returns false when another pipeline was faster.
    async fn try_publish(
        &mut self,
        handle: &TableHandle,
        commit: &CommitGuard,
        committed: &EpochCommitted,
    ) -> Result<bool> {
        let env = &self.session.env;
        let state = handle.state()?;
        let epoch = Epoch {
            checkpoint: committed.checkpoint,
            offsets: committed.offsets.clone(),
            commit_ms: committed.commit_ms,
        };
        if holds_epoch(&state, &self.session.incarnation, &epoch)? {
            return Ok(true);
        }
        let now_ms = self.clock.now_ms();
        let tail_is_live = self.tail_file.is_some_and(|o| state.files.contains_key(&o));
        if !tail_is_live || self.tail.len() >= TAIL_ROWS {
            self.tail.clear();
            self.tail_file = None;
        }
        let mut rows = self.tail.clone();
        rows.push_back(row(&self.session.incarnation.pipeline.0, committed, now_ms)?);
        let location =
            format!("{}/data/{}", state.metadata.location(), self.session.names.next(".parquet"));
        let schema = state.metadata.current_schema();
        let bytes = encode(schema, rows.make_contiguous())?;
        let file = data_file(&location, rows.len(), bytes.len())?;
        env.lake.write(&location, bytes).await?;
        let mut changes = Changes {
            added: vec![NewDataFile {
                file,
                spec_id: state.metadata.default_partition_spec_id(),
                schema_id: schema.schema_id(),
            }],
            ..Changes::default()
        };
        changes.removed.extend(self.tail_file);
        let work = Work { commit_ms: committed.commit_ms, ..Work::default() };
        mark_progress(&mut changes, &self.session.incarnation, &epoch, &work)?;
        let mut prepared = self
            .session
            .workshop(now_ms)
            .prepare(handle, &state, Start::of(&state), changes)
            .await?;
        let base = LoadedTable {
            metadata: state.metadata.clone(),
            location: state.metadata_location.clone(),
        };
        let new = env.catalog.stage(Some(&base), prepared.metadata.clone()).await?;
        prepared.written.extend([location.clone(), new.location.to_string()]);
        env.lake.make_durable(&prepared.written).await?;
        let change = CatalogChange::Update {
            table: handle.table().clone(),
            base,
            new: new.clone(),
            updates: prepared.updates,
        };
        match env.catalog.commit(&self.session.incarnation, &[change]).await? {
            CommitOutcome::Done => {}
            CommitOutcome::Conflict(_) => {
                self.session.reload(handle, commit).await?;
                return Ok(false);
            }
        }
        let mut next = prepared.state;
        next.metadata = new.metadata.clone();
        next.metadata_location = new.location.clone();
        {
            let guard = handle.lock().await;
            handle.install(&guard, Some(next));
        }
        self.tail = rows;
        self.tail_file = Some(handle.ordinal_of(&location));
        self.session.clean_up(&new, prepared.expired, prepared.expired_metadata).await;
        Ok(true)
    }
}

/// The table's name in the lake.
pub fn table() -> TableId {
    TableId::new(NAMESPACE, TABLE)
}

fn schema() -> Result<Schema> {
    let columns = [
        ("pipeline", PrimitiveType::String, true),
        ("epoch", PrimitiveType::Long, true),
        ("committed_at", PrimitiveType::Timestamptz, true),
        ("source_committed_at", PrimitiveType::Timestamptz, false),
        ("rows", PrimitiveType::Long, true),
        ("offsets", PrimitiveType::String, true),
        ("tables", PrimitiveType::String, true),
    ];
    let docs = [
        "the pipeline's name",
        "the checkpoint that the epoch is the content of",
        "when the last of its tables was committed",
        "when the source committed its newest row",
        "source rows in it",
        "the source position up to which everything is in the lake, as JSON",
        "changed tables and the ids of their snapshots, as JSON",
    ];
    let fields =
        columns.into_iter().zip(docs).zip(1..).map(|(((name, primitive, required), doc), id)| {
            Arc::new(NestedField::new(id, name, Type::Primitive(primitive), required).with_doc(doc))
        });
    Schema::builder()
        .with_fields(fields)
        .build()
        .or_err(ErrorKind::Bug, "the epochs table has no schema")
}

fn row(pipeline: &str, committed: &EpochCommitted, now_ms: i64) -> Result<Row> {
    let failed = "could not encode an epoch";
    // Snapshot ids as numbers, so that they can be used as they are.
    let tables: BTreeMap<&str, serde_json::Value> = committed
        .tables
        .iter()
        .map(|(table, version)| {
            let id = version.parse::<i64>().map_or_else(|_| version.as_str().into(), Into::into);
            (table.as_str(), id)
        })
        .collect();
    Ok(Row {
        pipeline: pipeline.to_string(),
        epoch: i64::try_from(committed.checkpoint.0).or_err(ErrorKind::Bug, failed)?,
        committed_us: now_ms.saturating_mul(1000),
        source_committed_us: (committed.commit_ms > 0)
            .then(|| committed.commit_ms.saturating_mul(1000)),
        rows: i64::try_from(committed.rows).or_err(ErrorKind::Bug, failed)?,
        offsets: properties::encode_offsets(&committed.offsets)?,
        tables: serde_json::to_string(&tables).or_err(ErrorKind::Bug, failed)?,
    })
}

fn encode(schema: &Schema, rows: &[Row]) -> Result<Bytes> {
    let failed = "could not encode the epochs file";
    let text = |of: fn(&Row) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
    };
    let long = |of: fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let instant = |of: fn(&Row) -> Option<i64>| -> ArrayRef {
        let values: TimestampMicrosecondArray = rows.iter().map(of).collect();
        Arc::new(values.with_timezone("+00:00"))
    };
    let columns = vec![
        text(|r| &r.pipeline),
        long(|r| r.epoch),
        instant(|r| Some(r.committed_us)),
        instant(|r| r.source_committed_us),
        long(|r| r.rows),
        text(|r| &r.offsets),
        text(|r| &r.tables),
    ];
    let schema = types::arrow_schema(schema)?;
    let batch = RecordBatch::try_new(schema.clone(), columns).or_err(
        ErrorKind::Config,
        "the table lakeward.__lakeward_epochs has other columns than this version writes; rename it",
    )?;
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, schema, None).or_err(ErrorKind::Bug, failed)?;
    writer.write(&batch).or_err(ErrorKind::Bug, failed)?;
    writer.close().or_err(ErrorKind::Bug, failed)?;
    Ok(out.into())
}

fn data_file(location: &str, rows: usize, size: usize) -> Result<iceberg::spec::DataFile> {
    DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(location.to_string())
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::empty())
        .record_count(rows as u64)
        .file_size_in_bytes(size as u64)
        .build()
        .or_err(ErrorKind::Bug, "the epochs file has no entry")
}

#[async_trait]
impl EpochPublisher for IcebergEpochPublisher {
    async fn publish(&mut self, epoch: &EpochCommitted) -> Result<()> {
        // Nothing changed for whoever reads: the last row still tells the truth.
        if epoch.tables.is_empty() {
            return Ok(());
        }
        self.session.env.faults.at("before-epoch-row")?;
        let handle = self.session.handle(&table()).await?;
        let commit = handle.lock_for_commit().await;
        if handle.state().is_err() {
            self.create(&handle, &commit).await?;
        }
        for _ in 0..MAX_ROUNDS {
            if self.try_publish(&handle, &commit, epoch).await? {
                return self.session.env.faults.at("after-epoch-row");
            }
        }
        Err(Error::transient("other pipelines write epochs faster than this one can")
            .with("table", table()))
    }
}

#[cfg(test)]
mod tests {
    use lakeward_core::CheckpointId;

    use super::*;

    #[test]
    fn a_row_holds_snapshot_ids_as_numbers() {
        let committed = EpochCommitted {
            checkpoint: CheckpointId(7),
            committer: (0, 1),
            offsets: BTreeMap::new(),
            commit_ms: 5,
            tables: BTreeMap::from([("d.t".to_string(), "123".to_string())]),
            rows: 2,
            held: false,
        };
        let row = row("p", &committed, 9).expect("encodes");
        assert_eq!(row.tables, r#"{"d.t":123}"#);
        assert_eq!(row.source_committed_us, Some(5000));
        let schema = schema().expect("schema");
        assert!(encode(&schema, &[row]).expect("encodes").len() > 100);
    }
}
