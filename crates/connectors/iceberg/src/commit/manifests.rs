//! Writes manifests: entries of one content and one partition spec.

use std::sync::Arc;

use iceberg::spec::{
    DataFile, DataFileBuilder, Literal, ManifestContentType, ManifestEntry, ManifestFile,
    ManifestWriterBuilder, PrimitiveLiteral, PrimitiveType, SchemaRef, Struct, StructType,
    TableMetadata,
};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};

use crate::storage::Lake;
use crate::store_error::StoreResultExt;

/// What a manifest says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// New in this snapshot; takes its sequence number.
    Added,
    Existing {
        snapshot_id: i64,
        sequence_number: i64,
        file_sequence_number: i64,
    },
    /// Gone since this snapshot.
    Deleted {
        sequence_number: i64,
        file_sequence_number: i64,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) status: Status,
    pub(crate) file: DataFile,
}

impl Entry {
    /// An entry that was read, kept or marked as gone.
    pub(crate) fn of(entry: &ManifestEntry, keep: bool) -> Result<Self> {
        let (Some(snapshot_id), Some(sequence_number), Some(file_sequence_number)) =
            (entry.snapshot_id(), entry.sequence_number(), entry.file_sequence_number)
        else {
            return Err(Error::data_invalid("a manifest entry has no sequence number")
                .with("file", entry.file_path()));
        };
        let status = if keep {
            Status::Existing { snapshot_id, sequence_number, file_sequence_number }
        } else {
            Status::Deleted { sequence_number, file_sequence_number }
        };
        Ok(Self { status, file: entry.data_file().clone() })
    }
}

/// Where and for what a manifest is written.
pub(crate) struct Target<'a> {
    pub(crate) location: String,
    pub(crate) spec_id: i32,
    pub(crate) content: ManifestContentType,
    pub(crate) snapshot_id: i64,
    pub(crate) metadata: &'a TableMetadata,
}

pub(crate) async fn write(
    lake: &Lake,
    target: Target<'_>,
    entries: Vec<Entry>,
) -> Result<ManifestFile> {
    let failed = "could not write a manifest";
    let metadata = target.metadata;
    let spec = metadata.partition_spec_by_id(target.spec_id).ok_or_else(|| {
        Error::data_invalid("a file is of a partition spec that the table does not have")
    })?;
    let schema = schema_of_spec(metadata, target.spec_id)?;
    let partition_type = spec
        .partition_type(&schema)
        .or_err(ErrorKind::DataInvalid, "a partition spec has no type")?;
    let output = lake.file_io().new_output(&target.location).or_store(failed)?;
    let builder =
        ManifestWriterBuilder::new(output, Some(target.snapshot_id), schema, (**spec).clone());
    let mut writer = match target.content {
        ManifestContentType::Data => builder.build_v2_data(),
        ManifestContentType::Deletes => builder.build_v2_deletes(),
    };
    for entry in entries {
        let file = with_partition_type(entry.file, target.spec_id, &partition_type)?;
        match entry.status {
            Status::Added => writer.add_file(file, -1),
            Status::Existing { snapshot_id, sequence_number, file_sequence_number } => writer
                .add_existing_file(file, snapshot_id, sequence_number, Some(file_sequence_number)),
            Status::Deleted { sequence_number, file_sequence_number } => {
                writer.add_delete_file(file, sequence_number, Some(file_sequence_number))
            }
        }
        .or_err(ErrorKind::Bug, "a manifest entry is not valid")?;
    }
    writer.write_manifest_file().await.or_store(failed).map_err(|e| e.with("file", target.location))
}

/// The schema that a spec's source columns are found in: the current one, or, where one of them was dropped, the newest
/// that still has them all.
pub(crate) fn schema_of_spec(metadata: &TableMetadata, spec_id: i32) -> Result<SchemaRef> {
    let spec = metadata.partition_spec_by_id(spec_id).ok_or_else(|| {
        Error::data_invalid("a file is of a partition spec that the table does not have")
    })?;
    let has_all = |schema: &&SchemaRef| {
        spec.fields().iter().all(|field| schema.field_by_id(field.source_id).is_some())
    };
    if has_all(&metadata.current_schema()) {
        return Ok(metadata.current_schema().clone());
    }
    metadata
        .schemas_iter()
        .filter(has_all)
        .max_by_key(|schema| schema.schema_id())
        .cloned()
        .ok_or_else(|| {
            Error::data_invalid("no schema of the table has the columns of a partition spec")
        })
}

/// The file with its partition tuple in the spec's types: a tuple that was written before its column was widened is
/// narrower.
fn with_partition_type(file: DataFile, spec_id: i32, to: &StructType) -> Result<DataFile> {
    let fits = file.partition().iter().zip(to.fields()).all(|(value, field)| {
        value.is_none_or(|v| widen(v, field.field_type.as_primitive_type()).is_none())
    });
    if fits {
        return Ok(file);
    }
    let partition =
        Struct::from_iter(file.partition().iter().zip(to.fields()).map(|(value, field)| {
            value.map(|v| {
                widen(v, field.field_type.as_primitive_type()).unwrap_or_else(|| v.clone())
            })
        }));
    rebuild_with_partition(&file, spec_id, partition)
}

/// The literal in a wider type, or `None` where it is of that type already.
fn widen(value: &Literal, to: Option<&PrimitiveType>) -> Option<Literal> {
    match (value, to?) {
        (Literal::Primitive(PrimitiveLiteral::Int(v)), PrimitiveType::Long) => {
            Some(Literal::long(i64::from(*v)))
        }
        (Literal::Primitive(PrimitiveLiteral::Float(v)), PrimitiveType::Double) => {
            Some(Literal::double(f64::from(v.0)))
        }
        _ => None,
    }
}

fn rebuild_with_partition(file: &DataFile, spec_id: i32, partition: Struct) -> Result<DataFile> {
    let mut builder = DataFileBuilder::default();
    builder
        .content(file.content_type())
        .file_path(file.file_path().to_string())
        .file_format(file.file_format())
        .partition(partition)
        .partition_spec_id(spec_id)
        .record_count(file.record_count())
        .file_size_in_bytes(file.file_size_in_bytes())
        .column_sizes(file.column_sizes().clone())
        .value_counts(file.value_counts().clone())
        .null_value_counts(file.null_value_counts().clone())
        .nan_value_counts(file.nan_value_counts().clone())
        .lower_bounds(file.lower_bounds().clone())
        .upper_bounds(file.upper_bounds().clone())
        .key_metadata(file.key_metadata().map(<[u8]>::to_vec))
        .split_offsets(file.split_offsets().map(<[i64]>::to_vec))
        .equality_ids(file.equality_ids())
        .first_row_id(file.first_row_id())
        .referenced_data_file(file.referenced_data_file())
        .content_offset(file.content_offset())
        .content_size_in_bytes(file.content_size_in_bytes());
    if let Some(id) = file.sort_order_id() {
        builder.sort_order_id(id);
    }
    builder.build().or_err(ErrorKind::Bug, "a data file's entry is incomplete")
}

/// Groups of manifests that are worth merging: many of about one size. Each pass costs what it merges, and a file passes
/// through few of them in its life, so the cost of a commit does not grow with the number of commits.
pub(crate) fn merge_groups(manifests: &[ManifestFile], min_count: usize) -> Vec<Vec<usize>> {
    const TIERS_BYTES: [i64; 3] = [32 << 10, 512 << 10, 8 << 20];
    let mut groups: std::collections::BTreeMap<(i32, bool, usize), Vec<usize>> = Default::default();
    for (index, manifest) in manifests.iter().enumerate() {
        let tier = TIERS_BYTES.iter().position(|limit| manifest.manifest_length < *limit);
        if let Some(tier) = tier {
            let deletes = manifest.content == ManifestContentType::Deletes;
            groups.entry((manifest.partition_spec_id, deletes, tier)).or_default().push(index);
        }
    }
    groups.into_values().filter(|group| group.len() >= min_count).collect()
}

/// The manifest as its snapshot's list will show it.
pub(crate) fn assigned(mut manifest: ManifestFile, sequence_number: i64) -> ManifestFile {
    if manifest.sequence_number < 0 {
        manifest.sequence_number = sequence_number;
    }
    if manifest.min_sequence_number < 0 {
        manifest.min_sequence_number = sequence_number;
    }
    manifest
}

pub(crate) fn path_of(manifest: &ManifestFile) -> Arc<str> {
    manifest.manifest_path.as_str().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(length: i64, content: ManifestContentType) -> ManifestFile {
        ManifestFile {
            manifest_path: String::new(),
            manifest_length: length,
            partition_spec_id: 0,
            content,
            sequence_number: -1,
            min_sequence_number: -1,
            added_snapshot_id: 1,
            added_files_count: Some(1),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(1),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: None,
            key_metadata: None,
            first_row_id: None,
        }
    }

    #[test]
    fn only_many_manifests_of_one_kind_and_size_are_merged() {
        let mut manifests = vec![manifest(7_000, ManifestContentType::Data); 31];
        manifests.push(manifest(7_000, ManifestContentType::Deletes));
        manifests.push(manifest(100_000, ManifestContentType::Data));
        assert!(merge_groups(&manifests, 32).is_empty());
        manifests.push(manifest(9_000, ManifestContentType::Data));
        let groups = merge_groups(&manifests, 32);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].len(), 32);
        assert!(!groups[0].contains(&31) && !groups[0].contains(&32));
    }

    #[test]
    fn partition_values_follow_a_widened_column() {
        assert_eq!(widen(&Literal::int(7), Some(&PrimitiveType::Long)), Some(Literal::long(7)));
        assert_eq!(widen(&Literal::long(7), Some(&PrimitiveType::Long)), None);
        assert_eq!(widen(&Literal::int(7), Some(&PrimitiveType::Date)), None);
    }
}
