//! Where tables are looked up and where a commit becomes visible.

mod connection;
mod sql;
mod uri;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::TableUpdate;
use iceberg::spec::{TableMetadata, TableMetadataRef};
use lakeward_core::{Error, PipelineId, Result, TableId};

use crate::config::IcebergConfig;
use crate::names::Incarnation;
use crate::storage::Lake;

pub use sql::SqlCatalog;

/// A table's metadata and the file that holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedTable {
    pub metadata: TableMetadataRef,
    pub location: Arc<str>,
}

/// One step of an atomic commit.
#[derive(Debug, Clone)]
pub enum CatalogChange {
    /// The table must not exist.
    Create { table: TableId, new: LoadedTable },
    /// The table must still be at `base`. `updates` lead from `base` to `new`, for catalogs that apply them themselves.
    Update { table: TableId, base: LoadedTable, new: LoadedTable, updates: Vec<TableUpdate> },
    /// The entry goes; files stay.
    Drop { table: TableId, base: LoadedTable },
    /// The entry goes over to another name; the location stays. `new` is where its metadata is then.
    Rename { from: TableId, to: TableId, base: LoadedTable, new: LoadedTable },
    /// Sets a property of a namespace, which exists.
    SetNamespaceProperty { namespace: Arc<str>, key: String, value: String },
}

/// What became of a commit whose answer came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    Done,
    /// Nothing was changed: these tables are not (any more) as the changes say.
    Conflict(Vec<TableId>),
}

/// A catalog of Iceberg tables.
///
/// A commit is atomic over all its changes and is refused as `Fenced` when another incarnation has acquired the pipeline
/// since. When `commit` returns an error of another kind the outcome is unknown: the caller loads the tables again and
/// looks. A catalog that is merely busy (locked, deadlocked) is waited for, without limit, with a warning now and then.
#[async_trait]
pub trait Catalog: Send + Sync + fmt::Debug {
    /// Reaches the catalog without changing anything and describes it, without secrets.
    async fn check(&self) -> Result<String>;

    /// Whether the pipeline was ever taken over here.
    async fn knows(&self, pipeline: &PipelineId) -> Result<bool>;

    /// Takes the pipeline over: from now on commits of its earlier incarnations are refused.
    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<Incarnation>;

    async fn load(&self, table: &TableId) -> Result<Option<LoadedTable>>;

    /// The metadata location of a table, without reading it.
    async fn location(&self, table: &TableId) -> Result<Option<Arc<str>>>;

    /// Every table of the catalog with its metadata location.
    async fn tables(&self) -> Result<Vec<(TableId, Arc<str>)>>;

    async fn ensure_namespace(&self, namespace: &str) -> Result<()>;

    async fn namespace_properties(&self, namespace: &str) -> Result<BTreeMap<String, String>>;

    /// Puts new metadata where `commit` can make it current. What is staged and not committed is an orphan.
    async fn stage(
        &self,
        base: Option<&LoadedTable>,
        metadata: TableMetadata,
    ) -> Result<LoadedTable>;

    async fn commit(&self, owner: &Incarnation, changes: &[CatalogChange])
    -> Result<CommitOutcome>;
}

/// Opens the catalog that the options name.
pub async fn open(config: &IcebergConfig, lake: &Lake) -> Result<Arc<dyn Catalog>> {
    let kind = config.catalog.get("type").map(|k| k.to_ascii_lowercase());
    let jdbc = config.catalog.get("catalog-impl").is_some_and(|c| c.ends_with(".JdbcCatalog"));
    match kind.as_deref() {
        Some("sql" | "jdbc") => {}
        None if jdbc => {}
        Some(other) => {
            return Err(Error::config(
                "this version writes through SQL catalogs only: set catalog.properties.type to sql and \
                 catalog.properties.uri to sqlite:///path, postgresql://… or mysql://…",
            )
            .with("catalog.properties.type", other));
        }
        None => {
            return Err(Error::config(
                "the iceberg sink needs catalog.properties.type: sql, with catalog.properties.uri",
            ));
        }
    }
    Ok(Arc::new(SqlCatalog::open(config, lake.clone()).await?))
}
