//! The first metadata of a table: where it is, how it is partitioned, which properties it has.

use std::collections::HashMap;

use iceberg::spec::{
    FormatVersion, Schema, SortOrder, TableMetadata, TableMetadataBuilder, UnboundPartitionField,
    UnboundPartitionSpec,
};
use lakeward_core::{Error, ErrorKind, Result, ResultExt, TableId};

use crate::config::IcebergConfig;
use crate::partition_key::PartitionField;

/// Properties that every new table has unless the user says otherwise.
const DEFAULTS: [(&str, &str); 6] = [
    ("write.parquet.compression-codec", "zstd"),
    ("write.metadata.delete-after-commit.enabled", "true"),
    ("write.metadata.previous-versions-max", "20"),
    ("write.delete.mode", "merge-on-read"),
    ("write.update.mode", "merge-on-read"),
    ("write.merge.mode", "merge-on-read"),
];

/// Kept by the format itself, not as properties.
const RESERVED: [&str; 1] = ["format-version"];

pub(crate) struct NewTable<'a> {
    pub(crate) table: &'a TableId,
    pub(crate) schema: Schema,
    pub(crate) config: &'a IcebergConfig,
    /// How many tables of this name there were before.
    pub(crate) earlier: u32,
    pub(crate) properties: HashMap<String, String>,
}

pub(crate) fn metadata(new: NewTable<'_>) -> Result<TableMetadata> {
    let partition = new.config.partition_keys()?;
    let spec = spec(&new.schema, partition.of(new.table))?;
    let mut properties: HashMap<String, String> =
        DEFAULTS.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let given = new.config.table.iter().filter(|(k, _)| !RESERVED.contains(&k.as_str()));
    properties.extend(given.map(|(k, v)| (k.clone(), v.clone())));
    properties.extend(new.properties);
    let location = location(new.config.warehouse()?, new.table, new.earlier);
    TableMetadataBuilder::new(
        new.schema,
        spec,
        SortOrder::unsorted_order(),
        location,
        FormatVersion::V2,
        properties,
    )
    .and_then(|builder| builder.build())
    .map(|built| built.metadata)
    .or_err(ErrorKind::Config, "the table cannot be made with the given options")
}

fn spec(schema: &Schema, fields: &[PartitionField]) -> Result<UnboundPartitionSpec> {
    let mut builder = UnboundPartitionSpec::builder();
    for field in fields {
        let source_id = schema.field_id_by_name(&field.column).ok_or_else(|| {
            Error::config("the option partition.key names a column that the table does not have")
                .with("column", &field.column)
        })?;
        let unbound = UnboundPartitionField::builder()
            .source_id(source_id)
            .name(field.name())
            .transform(field.transform)
            .build();
        builder = builder
            .add_partition_fields([unbound])
            .or_err(ErrorKind::Config, "the option partition.key cannot be used")?;
    }
    Ok(builder.build())
}

/// A folder of its own for every table that ever had the name, since a dropped table's files stay.
fn location(warehouse: &str, table: &TableId, earlier: u32) -> String {
    let (namespace, name) = (folder_name(&table.namespace), folder_name(&table.name));
    let suffix = if earlier == 0 { String::new() } else { format!("-{}", earlier + 1) };
    format!("{warehouse}/{namespace}/{name}{suffix}")
}

/// A name that means the same to every reader: their URL parsers disagree about everything else.
fn folder_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_string();
    }
    let safe: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32;
    format!("{safe}.{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_plain_and_distinct() {
        assert_eq!(folder_name("orders_2"), "orders_2");
        let odd = folder_name("a b/c?d#%é");
        assert!(odd.is_ascii() && !odd.contains(['/', '?', '#', '%', ' ']), "{odd}");
        assert_ne!(folder_name("a b"), folder_name("a?b"));
        assert_ne!(folder_name(".."), "..");
        let table = TableId::new("d", "t");
        assert_eq!(location("file:///w", &table, 0), "file:///w/d/t");
        assert_eq!(location("file:///w", &table, 1), "file:///w/d/t-2");
    }
}
