//! The tables of an Iceberg sink's catalog.

use std::sync::Arc;

use async_trait::async_trait;
use iceberg::table::Table;
use iceberg::{NamespaceIdent, TableIdent};
use lakeward_core::{Error, ErrorKind, Result, ResultExt, TableId};
use lakeward_iceberg::catalog::{self, Catalog};
use lakeward_iceberg::config::IcebergConfig;
use lakeward_iceberg::storage::Lake;

use crate::catalog::{LakeCatalog, LakeTable};

/// Reads through the same catalog and storage as the sink writes.
#[derive(Debug)]
pub struct IcebergLake {
    catalog: Arc<dyn Catalog>,
    lake: Lake,
}

impl IcebergLake {
    pub async fn open(config: &IcebergConfig) -> Result<Self> {
        let lake = Lake::from_config(config)?;
        let catalog = catalog::open(config, &lake).await?;
        Ok(Self { catalog, lake })
    }
}

#[async_trait]
impl LakeCatalog for IcebergLake {
    async fn tables(&self) -> Result<Vec<LakeTable>> {
        let tables = self.catalog.tables().await?;
        let name = |(id, _): (TableId, Arc<str>)| LakeTable {
            namespace: id.namespace.to_string(),
            name: id.name.to_string(),
        };
        Ok(tables.into_iter().map(name).collect())
    }

    async fn load(&self, table: &LakeTable) -> Result<Table> {
        let id = TableId::new(table.namespace.as_str(), table.name.as_str());
        let loaded = self.catalog.load(&id).await?.ok_or_else(|| {
            Error::config("the table was dropped while the query began").with("table", &id)
        })?;
        let namespace = NamespaceIdent::new(table.namespace.clone());
        Table::builder()
            .file_io(self.lake.file_io().clone())
            .identifier(TableIdent::new(namespace, table.name.clone()))
            .metadata(loaded.metadata)
            .metadata_location(loaded.location.to_string())
            .runtime(iceberg::Runtime::current())
            .readonly(true)
            .build()
            .or_err(ErrorKind::Bug, "the table cannot be prepared for the query")
    }
}
