//! Random changes, flushes, barriers and restarts: what the files hold is what a plain map holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, StringArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_select::take::take_record_batch;
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{
    FormatVersion, NestedField, PartitionSpec, Schema, SortOrder, TableMetadataBuilder, Transform,
    Type, UnboundPartitionSpec,
};
use lakeward_core::{
    Column, DataType, ErrorKind, PipelineId, Position, Segment, TableId, Unavailable, keys,
};
use proptest::prelude::*;

use super::model::Model;
use super::*;
use crate::NewDataFile;
use crate::locator::KeyClass;
use crate::names::Incarnation;
use crate::properties;
use crate::read_rows::{FileToRead, read_columns};
use crate::table_state::{LiveFile, TableState};
use crate::types::iceberg_type;

pub(super) type Row = (i32, Option<String>, Option<i64>);

/// What a table of the test looks like: `id`, `s`, `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Key `id`.
    Narrow,
    /// Key `s, id`, hashed.
    Hashed,
    Keyless,
}

#[derive(Debug, Clone)]
pub(super) struct Setup {
    kind: Kind,
    writers: usize,
    buffer_bytes: usize,
    partition: Option<(&'static str, Transform)>,
    target_size_bytes: u64,
}

pub(super) struct Lake {
    pub(super) handle: Arc<TableHandle>,
    pub(super) schema: Arc<TableSchema>,
    setup: Setup,
    pub(super) writers: Vec<TableWriter>,
    attempt: u64,
    /// Rows that are in no batch yet.
    pub(super) rows: Vec<(RowKind, Row, [bool; 3])>,
}

pub(super) fn source_schema(kind: Kind) -> TableSchema {
    let key: &[&str] = match kind {
        Kind::Narrow => &["id"],
        Kind::Hashed => &["s", "id"],
        Kind::Keyless => &[],
    };
    TableSchema::new(
        1,
        vec![
            Column::new("id", DataType::Int, false),
            Column::new("s", DataType::Varchar { length: 20 }, true),
            Column::new("n", DataType::BigInt, true),
        ],
        key.iter().map(|k| Arc::from(*k)).collect(),
    )
}

fn lake_schema(source: &TableSchema) -> Schema {
    let fields = source.columns.iter().enumerate().map(|(i, column)| {
        let field_type = Type::Primitive(iceberg_type(&column.data_type));
        let required = source.primary_key.contains(&column.name);
        Arc::new(NestedField::new(i as i32 + 1, &*column.name, field_type, required))
    });
    Schema::builder().with_schema_id(0).with_fields(fields).build().unwrap()
}

/// An empty table as the catalog would have created it.
pub(super) async fn table_handle(
    schema: &TableSchema,
    partition: Option<(&str, Transform)>,
    file_io: FileIO,
    root: &str,
) -> Arc<TableHandle> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let lake_schema = lake_schema(schema);
    let spec = match partition {
        None => UnboundPartitionSpec::builder().build(),
        Some((column, transform)) => {
            let bound = PartitionSpec::builder(lake_schema.clone())
                .add_partition_field(column, "p", transform)
                .unwrap();
            bound.build().unwrap().into_unbound()
        }
    };
    let location = format!("{root}/t{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let ids = properties::encode_schema_ids(&BTreeMap::from([(1, 0)])).unwrap();
    let properties = HashMap::from([(properties::SCHEMA_IDS.to_string(), ids)]);
    let order = SortOrder::unsorted_order();
    let metadata = TableMetadataBuilder::new(
        lake_schema,
        spec,
        order,
        location,
        FormatVersion::V2,
        properties,
    )
    .unwrap()
    .build()
    .unwrap()
    .metadata;
    let handle = TableHandle::new(TableId::new("d", "t"), file_io);
    let state = TableState {
        metadata: Arc::new(metadata),
        metadata_location: "memory://lake/m".into(),
        files: BTreeMap::new(),
        shared_deletes: Vec::new(),
        manifests: Vec::new(),
    };
    let guard = handle.lock().await;
    handle.install(&guard, Some(state));
    drop(guard);
    Arc::new(handle)
}

/// What the committer does to the table's state.
pub(super) async fn commit(handle: &TableHandle) {
    let guard = handle.lock().await;
    let mut state = (*handle.state().unwrap()).clone();
    let pending = handle.pending();
    for new in pending.iter().flat_map(|work| &work.files) {
        let ordinal = handle.ordinal_of(new.file.file_path());
        state.files.insert(ordinal, Arc::new(live(ordinal, new)));
    }
    for (path, positions) in pending.iter().flat_map(|work| &work.deletes) {
        let ordinal = handle.ordinal_of(path);
        let file = Arc::make_mut(state.files.get_mut(&ordinal).expect("a known file"));
        let known = file.deleted.get_or_insert_default();
        assert!(known.is_disjoint(positions), "a position was reported twice");
        assert!(positions.max().is_some_and(|last| last < file.rows));
        *Arc::make_mut(known) |= positions;
    }
    handle.install(&guard, Some(state));
    handle.settle(&guard, pending.iter().map(|work| work.id));
}

impl Lake {
    pub(super) async fn new(setup: Setup) -> Self {
        let schema = source_schema(setup.kind);
        let handle =
            table_handle(&schema, setup.partition, FileIO::new_with_memory(), "memory://lake")
                .await;
        let mut lake = Self {
            handle,
            schema: Arc::new(schema),
            setup,
            writers: Vec::new(),
            attempt: 0,
            rows: Vec::new(),
        };
        lake.restart();
        lake
    }

    /// New writers, as after a crash right behind a barrier.
    pub(super) fn restart(&mut self) {
        self.attempt += 1;
        let parallelism = self.setup.writers;
        let writer = |index| {
            let incarnation = Incarnation {
                pipeline: PipelineId("p".into()),
                attempt: self.attempt,
                token: "t".into(),
            };
            let options = WriterOptions {
                share: Share { index, parallelism },
                attempt: self.attempt,
                names: FileNames::new(&incarnation, format!("w{index}")),
                buffer_bytes: self.setup.buffer_bytes,
                files: DataFileOptions {
                    target_size_bytes: self.setup.target_size_bytes,
                    ..DataFileOptions::default()
                },
                fail_on_missing: true,
                metrics: MetricGroup::default(),
            };
            TableWriter::new(self.handle.clone(), options)
        };
        self.writers = (0..parallelism).map(writer).collect();
    }

    /// Sends the gathered rows to the writers that own them.
    pub(super) async fn cut(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let id: ArrayRef = Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.1.0)));
        let s: ArrayRef = Arc::new(rows.iter().map(|r| r.1.1.clone()).collect::<StringArray>());
        let n: ArrayRef = Arc::new(rows.iter().map(|r| r.1.2).collect::<Int64Array>());
        let batch = RecordBatch::try_new(self.schema.arrow_schema(), vec![id, s, n]).unwrap();
        let key = self.schema.key_indices();
        let hashes = keys::row_hashes(self.handle.table(), &batch, &key).unwrap();
        let count = self.writers.len() as u64;
        for (index, writer) in self.writers.iter_mut().enumerate() {
            let mine: Vec<u32> = (0..rows.len() as u32)
                .filter(|row| hashes[*row as usize] % count == index as u64)
                .collect();
            if mine.is_empty() {
                continue;
            }
            let missing = (0..3)
                .map(|column| {
                    let bits = mine.iter().map(|row| rows[*row as usize].2[column]);
                    Some(bits.collect::<BooleanBuffer>())
                })
                .collect::<Vec<_>>();
            let any = mine.iter().any(|row| rows[*row as usize].2.contains(&true));
            let change = DataChange {
                table: self.handle.table().clone(),
                schema: self.schema.clone(),
                kinds: mine.iter().map(|row| rows[*row as usize].0).collect(),
                rows: take_record_batch(&batch, &UInt32Array::from(mine.clone())).unwrap(),
                unavailable: any.then_some(Unavailable(missing)),
                segments: vec![Segment {
                    end: mine.len() as u32,
                    position: Position::default(),
                    commit_ms: 1,
                }],
                snapshot: false,
            };
            writer.write(change).await?;
        }
        Ok(())
    }

    pub(super) async fn barrier(&mut self, commit: bool) -> Result<()> {
        self.cut().await?;
        for writer in &mut self.writers {
            let done = writer.complete_files().await?;
            assert!(done.len() <= 1);
            for committable in done {
                // What travels is bytes.
                assert_eq!(
                    TableCommittable::decode(&committable)?.encode(self.handle.table())?,
                    committable
                );
            }
        }
        if commit {
            self::commit(&self.handle).await;
        }
        Ok(())
    }

    /// All rows of the committed table, sorted.
    pub(super) async fn contents(&self) -> Vec<Row> {
        let state = self.handle.state().unwrap();
        let fields = state.metadata.current_schema().as_struct().fields().to_vec();
        let mut rows = Vec::new();
        for file in state.files.values() {
            let to_read = FileToRead { path: file.path.clone(), size_bytes: None };
            let batches: Vec<(u32, RecordBatch)> =
                read_columns(self.handle.file_io(), &to_read, &fields, None)
                    .await
                    .unwrap()
                    .try_collect()
                    .await
                    .unwrap();
            let total: usize = batches.iter().map(|b| b.1.num_rows()).sum();
            assert_eq!(total as u64, file.rows);
            for (first, batch) in batches {
                for row in 0..batch.num_rows() {
                    let position = u64::from(first) + row as u64;
                    if file.deleted.as_ref().is_some_and(|gone| gone.contains(position)) {
                        continue;
                    }
                    rows.push(row_of(&batch, row));
                }
            }
        }
        rows.sort();
        rows
    }
}

fn row_of(batch: &RecordBatch, row: usize) -> Row {
    let (s, n) = (batch.column(1).as_string::<i32>(), batch.column(2).as_primitive::<Int64Type>());
    (
        batch.column(0).as_primitive::<Int32Type>().value(row),
        s.is_valid(row).then(|| s.value(row).to_string()),
        n.is_valid(row).then(|| n.value(row)),
    )
}

fn live(ordinal: u32, new: &NewDataFile) -> LiveFile {
    LiveFile {
        ordinal,
        path: new.file.file_path().into(),
        rows: new.file.record_count(),
        size_bytes: new.file.file_size_in_bytes(),
        spec_id: new.spec_id,
        partition: new.file.partition().clone(),
        sequence_number: 1,
        manifest: "memory://m".into(),
        deleted: None,
        delete_files: Vec::new(),
        shared_deleted: Arc::default(),
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Puts a row; the flags leave cells out where the source could.
    Put(i32, Option<String>, Option<i64>, [bool; 2]),
    Remove(usize),
    /// Gives a row another key.
    Move(usize, i32, bool),
    Cut,
    Flush,
    Barrier {
        commit: bool,
    },
    Restart,
    Invalidate,
}

fn step() -> impl Strategy<Value = Step> {
    let text = prop_oneof![Just(None), "[ab]{0,2}".prop_map(Some)];
    let number = prop_oneof![Just(None), (0..3i64).prop_map(Some)];
    prop_oneof![
        12 => (0..12i32, text, number, any::<[bool; 2]>())
            .prop_map(|(id, s, n, left_out)| Step::Put(id, s, n, left_out)),
        5 => any::<usize>().prop_map(Step::Remove),
        3 => (any::<usize>(), 0..12i32, any::<bool>()).prop_map(|(a, b, c)| Step::Move(a, b, c)),
        4 => Just(Step::Cut),
        1 => Just(Step::Flush),
        2 => any::<bool>().prop_map(|commit| Step::Barrier { commit }),
        1 => Just(Step::Restart),
        1 => Just(Step::Invalidate),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let partition = prop_oneof![
        Just(None),
        Just(Some(("n", Transform::Identity))),
        Just(Some(("s", Transform::Truncate(1)))),
        Just(Some(("id", Transform::Bucket(3)))),
    ];
    (
        prop_oneof![Just(Kind::Narrow), Just(Kind::Hashed), Just(Kind::Keyless)],
        1..4usize,
        prop_oneof![Just(1usize), Just(300), Just(1 << 20)],
        partition,
        prop_oneof![Just(1u64), Just(1 << 20)],
    )
        .prop_map(|(kind, writers, buffer_bytes, partition, target_size_bytes)| Setup {
            kind,
            writers,
            buffer_bytes,
            partition,
            target_size_bytes,
        })
}

async fn run(setup: Setup, steps: Vec<Step>) -> std::result::Result<(), TestCaseError> {
    let mut lake = Lake::new(setup.clone()).await;
    let mut model = Model { kind: setup.kind, rows: Vec::new() };
    for step in steps {
        match step {
            Step::Put(id, s, n, left_out) => model.put((id, s, n), left_out, &mut lake.rows),
            Step::Remove(at) => model.remove(at, &mut lake.rows),
            Step::Move(at, id, partial) => {
                model.shift(at, id, partial && setup.writers == 1, &mut lake.rows);
            }
            Step::Cut => lake.cut().await.unwrap(),
            Step::Flush => {
                lake.cut().await.unwrap();
                for writer in &mut lake.writers {
                    writer.flush().await.unwrap();
                }
            }
            Step::Barrier { commit } => {
                lake.barrier(commit).await.unwrap();
                if commit {
                    let mut expected = model.rows.clone();
                    expected.sort();
                    prop_assert_eq!(lake.contents().await, expected);
                }
            }
            Step::Restart => {
                lake.barrier(true).await.unwrap();
                lake.restart();
            }
            Step::Invalidate => {
                let guard = lake.handle.lock().await;
                lake.handle.invalidate_locators(&guard);
            }
        }
    }
    lake.barrier(true).await.unwrap();
    let mut expected = model.rows.clone();
    expected.sort();
    prop_assert_eq!(lake.contents().await, expected);
    for writer in &lake.writers {
        prop_assert_eq!(writer.buffered_bytes(), 0);
    }
    Ok(())
}

pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_lake_equals_the_source(
        setup in setup(),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        wait(run(setup, steps))?;
    }
}

pub(super) fn plain(kind: Kind) -> Setup {
    Setup { kind, writers: 1, buffer_bytes: 1 << 20, partition: None, target_size_bytes: 1 << 20 }
}

#[test]
fn a_delete_without_a_row_is_loud_when_asked() {
    wait(async {
        let mut lake = Lake::new(plain(Kind::Narrow)).await;
        lake.rows.push((RowKind::Delete, (1, None, None), [false; 3]));
        let error = lake.barrier(false).await.expect_err("no such row");
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
        assert!(error.to_string().contains("table d.t"), "{error}");
    });
}

#[test]
fn rows_that_come_and_go_within_a_run_leave_no_file() {
    wait(async {
        let mut lake = Lake::new(plain(Kind::Narrow)).await;
        lake.rows.push((RowKind::Insert, (1, None, Some(1)), [false; 3]));
        lake.rows.push((RowKind::Delete, (1, None, None), [false; 3]));
        lake.barrier(true).await.unwrap();
        assert!(lake.handle.state().unwrap().files.is_empty());
    });
}

#[test]
fn equal_rows_without_a_key_stay_distinct() {
    wait(async {
        let mut lake = Lake::new(plain(Kind::Keyless)).await;
        let row = (1, Some("x".to_string()), None);
        for _ in 0..3 {
            lake.rows.push((RowKind::Insert, row.clone(), [false; 3]));
        }
        lake.barrier(true).await.unwrap();
        lake.rows.push((RowKind::Delete, row.clone(), [false; 3]));
        lake.barrier(true).await.unwrap();
        assert_eq!(lake.contents().await, vec![row.clone(), row]);
        let plan = lake.writers[0].bound.as_ref().map(|b| b.plan.class);
        assert_eq!(plan, Some(KeyClass::H16));
    });
}
