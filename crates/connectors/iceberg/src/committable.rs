//! What a writer hands to the committer for one table: finished data files, and the positions of rows that are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use lakeward_core::{Committable, Error, ErrorKind, Result, ResultExt, RowKind, TableId};
use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::data_file_record::{DataFileRecord, NewDataFile};

/// The format of [`TableCommittable::encode`]. Every version that was ever written is read.
pub const COMMITTABLE_VERSION: u32 = 1;

/// Names one piece of a writer's work. `sequence` counts the committables of one writer instance for one table within
/// an attempt, so no two are equal.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct CommittableId {
    pub attempt: u64,
    pub writer: u32,
    pub sequence: u64,
}

/// Source rows by kind, as they came in, before collapsing by key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RowCounts {
    pub inserts: u64,
    pub updates: u64,
    pub deletes: u64,
    /// Deletes and keyless updates that found no row. Not part of `total`.
    pub missed: u64,
}

impl RowCounts {
    pub fn total(&self) -> u64 {
        self.inserts + self.updates + self.deletes
    }

    /// Counts rows as they came in. The first half of an update is not counted.
    pub(crate) fn count(&mut self, kinds: &[RowKind]) {
        for kind in kinds {
            match kind {
                RowKind::Insert => self.inserts += 1,
                RowKind::UpdateAfter => self.updates += 1,
                RowKind::Delete => self.deletes += 1,
                RowKind::UpdateBefore => {}
            }
        }
    }

    pub fn add(&mut self, other: &RowCounts) {
        self.inserts += other.inserts;
        self.updates += other.updates;
        self.deletes += other.deletes;
        self.missed += other.missed;
    }
}

/// The finished work of one writer for one table since its last committable.
///
/// `deletes` name rows of files that are live in the table, of files in earlier committables, or of files in this one;
/// they hold only positions that are new (a position is reported once). The committer merges them with what the table
/// already knows, and works from this value alone: it may come out of checkpoint state after a restart.
#[derive(Debug, Clone, PartialEq)]
pub struct TableCommittable {
    pub id: CommittableId,
    /// The Iceberg table that it was written for: work for a table that was dropped since is not for its successor.
    pub table_uuid: Uuid,
    pub files: Vec<NewDataFile>,
    /// Data file path → positions of rows that are gone.
    pub deletes: BTreeMap<Arc<str>, RoaringTreemap>,
    pub rows: RowCounts,
    /// The newest source commit in it, in milliseconds since the epoch.
    pub commit_ms: i64,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Wire {
    id: CommittableId,
    table_uuid: Uuid,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<DataFileRecord>,
    /// Path → base64 of the portable 64-bit roaring form.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    deletes: BTreeMap<Arc<str>, String>,
    rows: RowCounts,
    commit_ms: i64,
}

impl TableCommittable {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.deletes.is_empty() && self.rows.total() == 0
    }

    pub fn encode(&self, table: &TableId) -> Result<Committable> {
        let wire = Wire {
            id: self.id,
            table_uuid: self.table_uuid,
            files: self.files.iter().map(DataFileRecord::from_file).collect::<Result<_>>()?,
            deletes: self
                .deletes
                .iter()
                .map(|(path, positions)| Ok((path.clone(), encode_positions(positions)?)))
                .collect::<Result<_>>()?,
            rows: self.rows,
            commit_ms: self.commit_ms,
        };
        let payload = serde_json::to_vec(&wire)
            .or_err(ErrorKind::Bug, "could not encode a committable")
            .map_err(|e| e.with("table", table))?;
        Ok(Committable {
            table: table.clone(),
            version: COMMITTABLE_VERSION,
            payload,
            rows: self.rows.total(),
            size_bytes: self.files.iter().map(|f| f.file.file_size_in_bytes()).sum(),
            commit_ms: self.commit_ms,
        })
    }

    pub fn decode(committable: &Committable) -> Result<Self> {
        if committable.version != COMMITTABLE_VERSION {
            return Err(Error::config(
                "the checkpoint holds files in a format that this version of lakeward does not know; use the \
                 version that wrote it",
            )
            .with("table", &committable.table)
            .with("format", committable.version));
        }
        let damaged = "a committable in the checkpoint is damaged";
        let wire: Wire = serde_json::from_slice(&committable.payload)
            .or_err(ErrorKind::Bug, damaged)
            .map_err(|e| e.with("table", &committable.table))?;
        Ok(Self {
            id: wire.id,
            table_uuid: wire.table_uuid,
            files: wire
                .files
                .into_iter()
                .map(DataFileRecord::into_file)
                .collect::<Result<_>>()
                .map_err(|e| e.with("table", &committable.table))?,
            deletes: wire
                .deletes
                .into_iter()
                .map(|(path, text)| Ok((path, decode_positions(&text)?)))
                .collect::<Result<_>>()
                .map_err(|e| e.with("table", &committable.table))?,
            rows: wire.rows,
            commit_ms: wire.commit_ms,
        })
    }
}

fn encode_positions(positions: &RoaringTreemap) -> Result<String> {
    let mut bytes = Vec::with_capacity(positions.serialized_size());
    positions
        .serialize_into(&mut bytes)
        .or_err(ErrorKind::Bug, "could not encode delete positions")?;
    Ok(BASE64.encode(bytes))
}

fn decode_positions(text: &str) -> Result<RoaringTreemap> {
    const DAMAGED: &str = "delete positions in the checkpoint are damaged";
    let bytes = BASE64.decode(text).or_err(ErrorKind::Bug, DAMAGED)?;
    RoaringTreemap::deserialize_from(&bytes[..]).or_err(ErrorKind::Bug, DAMAGED)
}

#[cfg(test)]
mod tests {
    use iceberg::spec::{DataContentType, DataFileBuilder, DataFileFormat, Datum, Literal, Struct};
    use proptest::prelude::*;

    use super::*;

    fn literal() -> impl Strategy<Value = Option<Literal>> {
        prop_oneof![
            Just(None),
            any::<i32>().prop_map(|v| Some(Literal::int(v))),
            any::<i64>().prop_map(|v| Some(Literal::long(v))),
            any::<f64>()
                .prop_filter("NaN is not equal to itself", |v| !v.is_nan())
                .prop_map(|v| Some(Literal::double(v))),
            ".{0,12}".prop_map(|v| Some(Literal::string(v))),
            any::<i128>().prop_map(|v| Some(Literal::decimal(v))),
            proptest::collection::vec(any::<u8>(), 0..9).prop_map(|v| Some(Literal::binary(v))),
        ]
    }

    fn datum() -> impl Strategy<Value = Datum> {
        prop_oneof![
            any::<i32>().prop_map(Datum::int),
            any::<i64>().prop_map(Datum::timestamptz_micros),
            ".{0,12}".prop_map(Datum::string),
            any::<bool>().prop_map(Datum::bool),
            proptest::collection::vec(any::<u8>(), 0..9).prop_map(Datum::binary),
        ]
    }

    fn file() -> impl Strategy<Value = NewDataFile> {
        (
            "[a-z ]{1,20}",
            any::<u32>(),
            proptest::collection::vec(literal(), 0..4),
            proptest::collection::btree_map(1..20i32, datum(), 0..5),
            proptest::collection::btree_map(1..20i32, any::<u64>(), 0..5),
            proptest::option::of(0..5i32),
            proptest::option::of(proptest::collection::vec(any::<i64>(), 0..3)),
        )
            .prop_map(|(name, rows, partition, bounds, counts, order, offsets)| {
                let mut builder = DataFileBuilder::default();
                builder
                    .content(DataContentType::Data)
                    .file_path(format!("file:///lake/{name}"))
                    .file_format(DataFileFormat::Parquet)
                    .partition(Struct::from_iter(partition))
                    .record_count(u64::from(rows))
                    .file_size_in_bytes(u64::from(rows) * 3)
                    .partition_spec_id(2)
                    .column_sizes(counts.clone().into_iter().collect())
                    .value_counts(counts.into_iter().collect())
                    .lower_bounds(bounds.clone().into_iter().collect())
                    .upper_bounds(bounds.into_iter().collect())
                    .split_offsets(offsets);
                if let Some(order) = order {
                    builder.sort_order_id(order);
                }
                NewDataFile { file: builder.build().expect("complete"), spec_id: 2, schema_id: 7 }
            })
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(
            files in proptest::collection::vec(file(), 0..3),
            deletes in proptest::collection::btree_map(
                "[a-z/]{1,20}",
                proptest::collection::btree_set(any::<u64>(), 1..50),
                0..4,
            ),
            inserts in any::<u32>(),
            commit_ms in any::<i64>(),
        ) {
            let table = TableId::new("shop", "orders");
            let work = TableCommittable {
                id: CommittableId { attempt: 3, writer: 1, sequence: 9 },
                table_uuid: Uuid::from_u128(7),
                files,
                deletes: deletes
                    .into_iter()
                    .map(|(path, set)| (Arc::from(path), set.into_iter().collect()))
                    .collect(),
                rows: RowCounts { inserts: u64::from(inserts), ..RowCounts::default() },
                commit_ms,
            };
            let encoded = work.encode(&table).expect("encodes");
            prop_assert_eq!(encoded.rows, u64::from(inserts));
            prop_assert_eq!(TableCommittable::decode(&encoded).expect("decodes"), work);
        }

        #[test]
        fn damaged_bytes_are_an_error_not_a_panic(payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let committable = Committable {
                table: TableId::new("shop", "orders"),
                version: COMMITTABLE_VERSION,
                payload,
                rows: 0,
                size_bytes: 0,
                commit_ms: 0,
            };
            prop_assert!(TableCommittable::decode(&committable).is_err());
        }
    }

    #[test]
    fn an_unknown_format_names_the_way_out() {
        let committable = Committable {
            table: TableId::new("shop", "orders"),
            version: 99,
            payload: Vec::new(),
            rows: 0,
            size_bytes: 0,
            commit_ms: 0,
        };
        let error = TableCommittable::decode(&committable).expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("format 99"));
    }
}
