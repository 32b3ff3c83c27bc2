//! The grammar of the option `partition.key`: `db.t1:truncate[10](id),region;db.t2:day(create_time)`.

use std::collections::BTreeMap;

use iceberg::spec::Transform;
use lakeward_core::{Error, Result, TableId};

/// One field of a partition spec, before it is bound to a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionField {
    pub column: String,
    pub transform: Transform,
}

impl PartitionField {
    /// The field's name in the spec, as Spark and Flink would name it.
    pub fn name(&self) -> String {
        match self.transform {
            Transform::Identity => self.column.clone(),
            Transform::Bucket(_) => format!("{}_bucket", self.column),
            Transform::Truncate(_) => format!("{}_trunc", self.column),
            other => format!("{}_{other}", self.column),
        }
    }
}

/// Partition fields by table name (`namespace.name` in the lake).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionKeys(BTreeMap<String, Vec<PartitionField>>);

impl PartitionKeys {
    pub fn parse(text: &str) -> Result<Self> {
        let mut tables = BTreeMap::new();
        for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            let (table, fields) = part.split_once(':').ok_or_else(|| {
                bad("a table and its fields are separated by ':', as in db.t:day(created)", part)
            })?;
            let table = table.trim().to_string();
            if !table.contains('.') {
                return Err(bad("the table must be named with its namespace, as in db.t", part));
            }
            let fields = fields
                .split(',')
                .map(|field| parse_field(field.trim(), part))
                .collect::<Result<Vec<_>>>()?;
            if tables.insert(table, fields).is_some() {
                return Err(bad("the table is named twice", part));
            }
        }
        Ok(Self(tables))
    }

    pub fn of(&self, table: &TableId) -> &[PartitionField] {
        self.0.get(&table.to_string()).map_or(&[], Vec::as_slice)
    }

    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn parse_field(field: &str, part: &str) -> Result<PartitionField> {
    let Some((transform, rest)) = field.split_once('(') else {
        if field.is_empty() || field.contains([')', '[', ']']) {
            return Err(bad("a partition field is a column or transform(column)", part));
        }
        return Ok(PartitionField { column: field.to_string(), transform: Transform::Identity });
    };
    let column = rest
        .strip_suffix(')')
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .ok_or_else(|| bad("a transform takes one column in parentheses", part))?;
    let transform = match transform.trim().to_ascii_lowercase().as_str() {
        "identity" => Transform::Identity,
        "hour" | "hours" => Transform::Hour,
        "day" | "days" | "date" => Transform::Day,
        "month" | "months" => Transform::Month,
        "year" | "years" => Transform::Year,
        other => parse_sized(other).ok_or_else(|| {
            bad(
                "known transforms are identity, year, month, day, hour, bucket[n] and truncate[n]",
                part,
            )
        })?,
    };
    Ok(PartitionField { column: column.to_string(), transform })
}

fn parse_sized(text: &str) -> Option<Transform> {
    let (name, rest) = text.split_once('[')?;
    let size: u32 = rest.strip_suffix(']')?.trim().parse().ok().filter(|n| *n > 0)?;
    match name.trim() {
        "bucket" => Some(Transform::Bucket(size)),
        "truncate" => Some(Transform::Truncate(size)),
        _ => None,
    }
}

fn bad(why: &str, part: &str) -> Error {
    Error::config(format!("the option partition.key cannot be read: {why}")).with("in", part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_documented_example_is_read() {
        let keys = PartitionKeys::parse("db.t1:truncate[10](id), region;db.t2:day(create_time);")
            .expect("valid");
        let fields = keys.of(&TableId::new("db", "t1"));
        assert_eq!(fields[0].transform, Transform::Truncate(10));
        assert_eq!(fields[0].name(), "id_trunc");
        assert_eq!(fields[1].transform, Transform::Identity);
        assert_eq!(fields[1].name(), "region");
        assert_eq!(keys.of(&TableId::new("db", "t2"))[0].name(), "create_time_day");
        assert!(keys.of(&TableId::new("db", "t3")).is_empty());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "t1:id",
            "db.t1",
            "db.t1:",
            "db.t1:bucket[0](id)",
            "db.t1:bucket(id)",
            "db.t1:week(d)",
            "db.t1:day()",
            "db.t1:day(d",
            "db.t1:a;db.t1:b",
        ] {
            assert!(PartitionKeys::parse(text).is_err(), "{text} was taken");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z.:;,\\[\\]() 0-9]{0,40}") {
            let _ = PartitionKeys::parse(&text);
        }
    }
}
