//! CREATE DATABASE and CREATE TABLE, with what Doris refuses of them.

use std::collections::BTreeMap;

use super::super::cluster::{Cluster, Database};
use super::super::schema_change::check_order;
use super::super::table::{Column, KeysModel, Sequence, Table};
use super::super::types::DorisType;
use super::lexer::{Token, Tokens};
use super::{Answer, DONE, Session, SqlError, column, names, table_name};

/// Properties that Doris knows; others it refuses.
const PROPERTIES: &[&str] = &[
    "bloom_filter_columns",
    "colocate_with",
    "compaction_policy",
    "compression",
    "disable_auto_compaction",
    "enable_duplicate_without_keys_by_default",
    "enable_mow_light_delete",
    "enable_single_replica_compaction",
    "enable_unique_key_merge_on_write",
    "enable_unique_key_skip_bitmap_column",
    "estimate_partition_size",
    "file_cache_ttl_seconds",
    "function_column.sequence_col",
    "function_column.sequence_type",
    "group_commit_data_bytes",
    "group_commit_interval_ms",
    "in_memory",
    "inverted_index_storage_format",
    "is_being_synced",
    "light_schema_change",
    "min_load_replica_num",
    "replication_allocation",
    "replication_num",
    "row_store_columns",
    "skip_write_index_on_load",
    "storage_format",
    "storage_medium",
    "storage_policy",
    "store_row_column",
];

/// Beginnings of families of properties.
const PROPERTY_FAMILIES: &[&str] = &["binlog.", "dynamic_partition.", "time_series_compaction_"];

pub fn run(
    cluster: &mut Cluster,
    session: &Session,
    tokens: &mut Tokens,
) -> Result<Answer, SqlError> {
    tokens.expect("create")?;
    if tokens.accept("database") || tokens.accept("schema") {
        return create_database(cluster, tokens);
    }
    if !tokens.accept("table") {
        return Err(tokens.unexpected("DATABASE or TABLE"));
    }
    let lenient = tokens.accept("if not exists");
    let (database, name) = table_name(session, tokens)?;
    let definition = Definition::parse(tokens)?;
    tokens.end()?;
    names::check_table(&name)?;
    let alive = cluster.backends.iter().filter(|b| b.alive).count();
    let id = cluster.new_id();
    let database = cluster.database(&database)?;
    if database.tables.contains_key(&name) {
        return match lenient {
            true => Ok(DONE),
            false => Err(SqlError::new(1050, format!("Table '{name}' already exists"))),
        };
    }
    let table = definition.build(id, name, alive)?;
    database.tables.insert(table.name.clone(), table);
    Ok(DONE)
}

fn create_database(cluster: &mut Cluster, tokens: &mut Tokens) -> Result<Answer, SqlError> {
    let lenient = tokens.accept("if not exists");
    let name = tokens.name()?;
    if tokens.accept("properties") {
        tokens.parenthesized()?;
    }
    tokens.end()?;
    names::check_database(&name)?;
    if cluster.databases.contains_key(&name) {
        return match lenient {
            true => Ok(DONE),
            false => {
                Err(SqlError::new(1007, format!("Can't create database '{name}'; database exists")))
            }
        };
    }
    let id = cluster.new_id();
    cluster.databases.insert(name, Database { id, ..Database::default() });
    Ok(DONE)
}

/// A CREATE TABLE after its name.
#[derive(Debug, Default)]
struct Definition {
    columns: Vec<Column>,
    model: Option<KeysModel>,
    keys: Vec<String>,
    comment: String,
    partition: Option<Partition>,
    distribution: Option<Distribution>,
    properties: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Partition {
    text: String,
    automatic: bool,
    columns: Vec<String>,
}

#[derive(Debug)]
struct Distribution {
    text: String,
    columns: Vec<String>,
}

impl Definition {
    fn parse(tokens: &mut Tokens) -> Result<Self, SqlError> {
        let mut definition = Self::default();
        tokens.expect_sign('(')?;
        loop {
            if tokens.accept("index") {
                while !matches!(tokens.peek(), None | Some(Token::Sign(',' | ')'))) {
                    match tokens.peek() {
                        Some(Token::Sign('(')) => drop(tokens.parenthesized()?),
                        _ => drop(tokens.next()),
                    }
                }
            } else {
                let mut column = column::parse(tokens)?;
                column.id = u32::try_from(definition.columns.len()).unwrap_or(u32::MAX);
                definition.columns.push(column);
            }
            if !tokens.accept_sign(',') {
                break;
            }
        }
        tokens.expect_sign(')')?;
        if tokens.accept("engine") {
            tokens.accept_sign('=');
            let engine = tokens.name()?;
            if !engine.eq_ignore_ascii_case("olap") {
                return Err(SqlError::new(1286, format!("Unknown storage engine '{engine}'")));
            }
        }
        let model = if tokens.accept("unique key") {
            Some(KeysModel::Unique)
        } else if tokens.accept("duplicate key") {
            Some(KeysModel::Duplicate)
        } else if tokens.accept("aggregate key") {
            return Err(SqlError::refused("the stand-in does not know aggregate tables"));
        } else {
            None
        };
        if model.is_some() {
            tokens.expect_sign('(')?;
            definition.keys = tokens.names()?;
        }
        definition.model = model;
        if tokens.accept("comment") {
            definition.comment = tokens.text()?;
        }
        definition.partition = partition(tokens)?;
        definition.distribution = distribution(tokens)?;
        if tokens.accept("properties") {
            definition.properties = properties(tokens)?;
        }
        Ok(definition)
    }

    fn build(mut self, id: i64, name: String, alive: usize) -> Result<Table, SqlError> {
        let model = self.model.unwrap_or(KeysModel::Duplicate);
        self.mark_keys()?;
        let columns = &self.columns;
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|c| c.name.eq_ignore_ascii_case(&column.name)) {
                return Err(SqlError::new(
                    1060,
                    format!("Duplicate column name '{}'", column.name),
                ));
            }
            if let Some(why) = column.data_type.refused_as_key().filter(|_| column.is_key) {
                return Err(SqlError::refused(format!("{why}[{}].", column.name)));
            }
        }
        check_order(columns)?;
        let mut bound = Vec::new();
        if let Some(partition) = &self.partition {
            bound.extend(check_partition(columns, partition, model)?);
        }
        let Some(distribution) = &self.distribution else {
            return Err(SqlError::refused("Create olap table should contain distribution desc"));
        };
        if model == KeysModel::Unique && distribution.columns.is_empty() {
            return Err(SqlError::refused(
                "Create unique keys table should not contain random distribution desc",
            ));
        }
        for column in &distribution.columns {
            bound.push(check_distribution(columns, column, model)?);
        }
        check_properties(&self.properties, alive)?;
        let sequence = sequence(columns, &self.properties, model)?;
        let mut table = Table::new(id, name, model, self.columns);
        table.comment = self.comment;
        table.partition = self.partition.map(|p| p.text);
        table.distribution = self.distribution.map(|d| d.text).unwrap_or_default();
        table.distribution_columns = bound;
        table.properties = self.properties;
        table.sequence = sequence;
        Ok(table)
    }

    /// The key columns are the first ones, in their order.
    fn mark_keys(&mut self) -> Result<(), SqlError> {
        if self.model.is_none() {
            return self.mark_sort_keys();
        }
        for (at, key) in self.keys.iter().enumerate() {
            let Some(column) = self.columns.get_mut(at) else {
                return Err(SqlError::refused(
                    "The number of key columns should be less than the \
                                              number of columns.",
                ));
            };
            if !column.name.eq_ignore_ascii_case(key) {
                return Err(SqlError::refused(format!(
                    "Key columns should be a ordered prefix of the schema. KeyColumns[{at}] (starts \
                     from zero) is {key}, but corresponding column is {} in the previous columns \
                     declaration.",
                    column.name
                )));
            }
            column.is_key = true;
        }
        match self.columns[self.keys.len()..].iter().find(|c| c.is_key) {
            Some(late) => Err(SqlError::refused(format!(
                "The column {} is declared as a key and is not in the key list",
                late.name
            ))),
            None => Ok(()),
        }
    }

    /// A table that names no keys is sorted by the first columns, up to three and 36 bytes.
    fn mark_sort_keys(&mut self) -> Result<(), SqlError> {
        for column in self.columns.iter_mut().take(3) {
            if column.data_type.refused_as_key().is_some() {
                break;
            }
            column.is_key = true;
            if matches!(column.data_type, DorisType::VarChar(_)) {
                break;
            }
        }
        match self.columns.first().is_some_and(|c| c.is_key) {
            true => Ok(()),
            false => Err(SqlError::refused(
                "Olap table first column can't be a type that keys cannot have; use VARCHAR instead",
            )),
        }
    }
}

fn partition(tokens: &mut Tokens) -> Result<Option<Partition>, SqlError> {
    let begun = tokens.position();
    let automatic = tokens.accept("auto");
    if !tokens.accept("partition by") {
        return match automatic {
            true => Err(tokens.unexpected("PARTITION BY")),
            false => Ok(None),
        };
    }
    if !tokens.accept("range") && !tokens.accept("list") {
        return Err(tokens.unexpected("RANGE or LIST"));
    }
    let inside = tokens.parenthesized()?;
    tokens.parenthesized()?;
    let text = tokens.source()[begun..tokens.end_of_last()].to_owned();
    let mut columns = Vec::new();
    let inner = Tokens::read(&inside)?;
    for (at, (token, ..)) in inner.all().iter().enumerate() {
        let called = matches!(inner.all().get(at + 1), Some((Token::Sign('('), ..)));
        if let (Token::Word(name) | Token::Name(name), false) = (token, called) {
            columns.push(name.clone());
        }
    }
    Ok(Some(Partition { text, automatic, columns }))
}

fn distribution(tokens: &mut Tokens) -> Result<Option<Distribution>, SqlError> {
    let begun = tokens.position();
    if !tokens.accept("distributed by") {
        return Ok(None);
    }
    let mut columns = Vec::new();
    if tokens.accept("hash") {
        tokens.expect_sign('(')?;
        columns = tokens.names()?;
    } else {
        tokens.expect("random")?;
    }
    if tokens.accept("buckets") && !tokens.accept("auto") && tokens.number()?.parse() == Ok(0) {
        return Err(SqlError::refused("Number of hash distribution should be greater than zero."));
    }
    let text = tokens.source()[begun..tokens.end_of_last()].to_owned();
    Ok(Some(Distribution { text, columns }))
}

/// `("a" = "b", …)`.
pub fn properties(tokens: &mut Tokens) -> Result<BTreeMap<String, String>, SqlError> {
    let mut properties = BTreeMap::new();
    tokens.expect_sign('(')?;
    loop {
        let name = tokens.text()?;
        tokens.expect_sign('=')?;
        properties.insert(name, tokens.text()?);
        if !tokens.accept_sign(',') {
            break;
        }
    }
    tokens.expect_sign(')')?;
    Ok(properties)
}

fn find<'a>(columns: &'a [Column], name: &str, what: &str) -> Result<&'a Column, SqlError> {
    columns
        .iter()
        .find(|c| c.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| SqlError::refused(format!("{what} column({name}) doesn't exist.")))
}

fn check_partition(
    columns: &[Column],
    partition: &Partition,
    model: KeysModel,
) -> Result<Vec<u32>, SqlError> {
    let mut ids = Vec::new();
    for name in &partition.columns {
        let column = find(columns, name, "Partition")?;
        if !column.is_key && model == KeysModel::Unique {
            return Err(SqlError::refused("The partition column could not be aggregated column"));
        }
        if matches!(column.data_type, DorisType::Float | DorisType::Double | DorisType::String) {
            return Err(SqlError::refused(format!(
                "{} type should not be used in partition column [{name}].",
                column.data_type
            )));
        }
        if partition.automatic && column.nullable {
            return Err(SqlError::refused(format!(
                "AUTO RANGE PARTITION doesn't support NULL column: {name} must be NOT NULL"
            )));
        }
        ids.push(column.id);
    }
    Ok(ids)
}

fn check_distribution(columns: &[Column], name: &str, model: KeysModel) -> Result<u32, SqlError> {
    let column = find(columns, name, "Distribution")?;
    if model == KeysModel::Unique && !column.is_key {
        return Err(SqlError::refused(format!("Distribution column[{name}] is not key column")));
    }
    if column.data_type.refused_as_key().is_some() {
        return Err(SqlError::refused(format!(
            "{} Type should not be used in distribution column[{name}].",
            column.data_type
        )));
    }
    Ok(column.id)
}

fn check_properties(properties: &BTreeMap<String, String>, alive: usize) -> Result<(), SqlError> {
    for (name, value) in properties {
        let known = PROPERTIES.contains(&name.as_str())
            || PROPERTY_FAMILIES.iter().any(|family| name.starts_with(family));
        if !known {
            return Err(SqlError::refused(format!("Unknown properties: {{{name}={value}}}")));
        }
    }
    let text = properties.get("replication_num").cloned().or_else(|| {
        let allocation = properties.get("replication_allocation")?;
        Some(allocation.rsplit(':').next()?.trim().to_owned())
    });
    let replicas: usize = match text {
        None => 3,
        Some(text) => text
            .parse()
            .map_err(|_| SqlError::refused(format!("Invalid replication_num format: {text}")))?,
    };
    if replicas == 0 {
        return Err(SqlError::refused("Total replica num should between 1 and 32767"));
    }
    if replicas > alive {
        return Err(SqlError::refused(format!(
            "replication num should be less than the number of available backends. replication num \
             is {replicas}, available backend num is {alive}"
        )));
    }
    Ok(())
}

fn sequence(
    columns: &[Column],
    properties: &BTreeMap<String, String>,
    model: KeysModel,
) -> Result<Sequence, SqlError> {
    let by_type = properties.get("function_column.sequence_type");
    let by_column = properties.get("function_column.sequence_col");
    let fits = |t: &DorisType| t.is_integer() || t.is_date_like();
    let wrong = || SqlError::refused("sequence type only support integer types and date types");
    let sequence = match (by_type, by_column) {
        (None, None) => return Ok(Sequence::None),
        (Some(_), Some(_)) => {
            return Err(SqlError::refused(
                "sequence_col and sequence_type cannot be set at the same time",
            ));
        }
        (Some(name), None) => match DorisType::from_name(name, &[]) {
            Some(Ok(data_type)) if fits(&data_type) => Sequence::Hidden(data_type),
            _ => return Err(wrong()),
        },
        (None, Some(name)) => {
            let column = find(columns, name, "The specified sequence")?;
            if !fits(&column.data_type) {
                return Err(wrong());
            }
            Sequence::Column(column.id)
        }
    };
    match model {
        KeysModel::Unique => Ok(sequence),
        KeysModel::Duplicate => Err(SqlError::refused("sequence column only support UNIQUE_KEYS")),
    }
}
