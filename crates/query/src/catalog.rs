//! The lake's namespaces and tables as DataFusion sees them. A table's metadata is loaded when a query names it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::{DataFusionError, Result as QueryResult};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::Expr;
use iceberg::spec::TableMetadata;
use iceberg::table::Table;
use iceberg_datafusion::IcebergStaticTableProvider;
use lakeward_core::{Error, ErrorKind, Result, ResultExt};

/// The name of one table in the lake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LakeTable {
    pub namespace: String,
    pub name: String,
}

/// Where the lake's tables are found.
#[async_trait]
pub trait LakeCatalog: Send + Sync {
    async fn tables(&self) -> Result<Vec<LakeTable>>;

    /// The table as it is now.
    async fn load(&self, table: &LakeTable) -> Result<Table>;
}

/// The schema of names that are unique in the whole lake. It is DataFusion's default one.
pub(crate) const UNIQUE_NAMES: &str = "public";

/// All namespaces, and [`UNIQUE_NAMES`] unless the lake has a namespace of that name.
pub(crate) struct Namespaces {
    lake: Arc<dyn LakeCatalog>,
    tables: Arc<BTreeMap<String, Vec<String>>>,
}

impl Namespaces {
    pub(crate) async fn read(lake: Arc<dyn LakeCatalog>) -> Result<Self> {
        let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for table in lake.tables().await? {
            tables.entry(table.namespace).or_default().push(table.name);
        }
        Ok(Self { lake, tables: Arc::new(tables) })
    }

    fn namespace(&self, name: &str) -> Namespace {
        Namespace { name: name.to_string(), lake: self.lake.clone(), tables: self.tables.clone() }
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.tables.iter()).finish()
    }
}

impl CatalogProvider for Namespaces {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    /// Also gives a schema for a name that does not exist: it is where the error about it is made, with what is near.
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(self.namespace(name)))
    }
}

struct Namespace {
    name: String,
    lake: Arc<dyn LakeCatalog>,
    tables: Arc<BTreeMap<String, Vec<String>>>,
}

impl Namespace {
    /// The one table that a name means: an exact match first, then one that differs only in case.
    fn find(&self, name: &str) -> QueryResult<LakeTable> {
        let places = self.tables.iter().flat_map(|(namespace, names)| {
            names
                .iter()
                .map(move |name| LakeTable { namespace: namespace.clone(), name: name.clone() })
        });
        let any = self.name == UNIQUE_NAMES && !self.tables.contains_key(UNIQUE_NAMES);
        let here: Vec<LakeTable> = places
            .filter(|t| {
                any || t.namespace == self.name || t.namespace.eq_ignore_ascii_case(&self.name)
            })
            .collect();
        let found: Vec<&LakeTable> = here.iter().filter(|t| t.name == name).collect();
        let found = match found.len() {
            0 => here.iter().filter(|t| t.name.to_lowercase() == name.to_lowercase()).collect(),
            _ => found,
        };
        let exact: Vec<&&LakeTable> = found.iter().filter(|t| t.namespace == self.name).collect();
        match (found.as_slice(), exact.as_slice()) {
            ([one], _) => Ok((*one).clone()),
            (_, [one]) => Ok((**one).clone()),
            ([], _) => Err(DataFusionError::Plan(self.unknown(name, any))),
            (several, _) => Err(DataFusionError::Plan(format!(
                "the table name {name} is not unique: say which of {}",
                several.iter().map(|t| quoted(t)).collect::<Vec<_>>().join(", ")
            ))),
        }
    }

    fn unknown(&self, name: &str, any: bool) -> String {
        let wanted =
            if any { name.to_string() } else { format!("{}.{name}", self.name) }.to_lowercase();
        let mut near: Vec<(usize, String)> = self
            .tables
            .iter()
            .flat_map(|(namespace, names)| names.iter().map(move |n| (namespace, n)))
            .map(|(namespace, other)| {
                let full = format!("{namespace}.{other}").to_lowercase();
                let other_name = other.to_lowercase();
                let distance = strsim::damerau_levenshtein(&wanted, &full)
                    .min(strsim::damerau_levenshtein(&name.to_lowercase(), &other_name));
                let table = LakeTable { namespace: namespace.clone(), name: other.clone() };
                (distance, quoted(&table))
            })
            .filter(|(distance, other)| *distance <= 2.max(other.len() / 3))
            .collect();
        near.sort();
        near.truncate(5);
        let near: Vec<String> = near.into_iter().map(|(_, name)| name).collect();
        match (near.is_empty(), self.tables.is_empty()) {
            (false, _) => format!("the lake has no table {wanted}; near is {}", near.join(", ")),
            (true, true) => format!("the lake has no table {wanted}; it is empty"),
            (true, false) => {
                format!("the lake has no table {wanted}; `show tables` lists what it has")
            }
        }
    }
}

/// A table's name as it is written in SQL.
fn quoted(table: &LakeTable) -> String {
    format!("{}.{}", quoted_part(&table.namespace), quoted_part(&table.name))
}

fn quoted_part(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[async_trait]
impl SchemaProvider for Namespace {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn table_names(&self) -> Vec<String> {
        self.tables.get(&self.name).cloned().unwrap_or_default()
    }

    async fn table(&self, name: &str) -> QueryResult<Option<Arc<dyn TableProvider>>> {
        let table = self.find(name)?;
        let external = |e: Error| DataFusionError::External(Box::new(e));
        let loaded = self.lake.load(&table).await.map_err(external)?;
        let loaded = under_current_schema(loaded).map_err(external)?;
        let rows = IcebergStaticTableProvider::try_new_from_table(loaded)
            .await
            .or_err(ErrorKind::Transient, "the table's metadata cannot be read")
            .map_err(|e| external(e.with("table", quoted(&table))))?;
        Ok(Some(Arc::new(Unfiltered { rows })))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }
}

/// A table whose rows are filtered by DataFusion alone. The scan of iceberg 0.10 drops rows that match when it filters by a
/// column that was widened after their file was written.
#[derive(Debug)]
struct Unfiltered {
    rows: IcebergStaticTableProvider,
}

#[async_trait]
impl TableProvider for Unfiltered {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        self.rows.table_type()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> QueryResult<Arc<dyn ExecutionPlan>> {
        self.rows.scan(session, projection, &[], limit).await
    }
}

/// The table with its newest snapshot put under its newest schema. A schema change is a commit of its own that makes no
/// snapshot, and a scan goes by the schema that the snapshot names: without this a new column could not be read until
/// the next rows are committed. Columns are bound by field id, so the newest schema reads every file right.
fn under_current_schema(table: Table) -> Result<Table> {
    let metadata = table.metadata();
    let current = metadata.current_schema_id();
    let Some(snapshot) = metadata.current_snapshot() else { return Ok(table) };
    if snapshot.schema_id() == Some(current) {
        return Ok(table);
    }
    let id = snapshot.snapshot_id();
    let encoding = "the table's metadata could not be prepared for the query";
    let mut json = serde_json::to_value(metadata).or_err(ErrorKind::Bug, encoding)?;
    let snapshots = json["snapshots"].as_array_mut().into_iter().flatten();
    for snapshot in snapshots.filter(|s| s["snapshot-id"].as_i64() == Some(id)) {
        snapshot["schema-id"] = current.into();
    }
    let metadata: TableMetadata = serde_json::from_value(json).or_err(ErrorKind::Bug, encoding)?;
    let mut builder = Table::builder()
        .file_io(table.file_io().clone())
        .identifier(table.identifier().clone())
        .metadata(metadata)
        .runtime(iceberg::Runtime::current())
        .readonly(true);
    if let Some(location) = table.metadata_location() {
        builder = builder.metadata_location(location);
    }
    builder.build().or_err(ErrorKind::Bug, encoding)
}
