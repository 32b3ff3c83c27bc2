//! A catalog in an SQL database, with the table layout that PyIceberg and the Java JDBC catalog use.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use iceberg::MetadataLocation;
use iceberg::spec::TableMetadata;
use lakeward_core::{Error, ErrorKind, PipelineId, Result, TableId};
use tokio::sync::OnceCell;

use crate::catalog::connection::{Database, Failure, Outcome, Session};
use crate::catalog::uri::CatalogUri;
use crate::catalog::{Catalog, CatalogChange, CommitOutcome, LoadedTable};
use crate::config::IcebergConfig;
use crate::names::Incarnation;
use crate::storage::Lake;
use crate::store_error::StoreResultExt;

const TABLES: &str = "CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, \
    table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), \
    previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5), \
    PRIMARY KEY (catalog_name, table_namespace, table_name))";
const NAMESPACES: &str = "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, \
    namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL, \
    PRIMARY KEY (catalog_name, namespace, property_key))";
/// Ours. The token of a pipeline's last incarnation: whoever holds another one is fenced off.
const PIPELINES: &str = "CREATE TABLE IF NOT EXISTS lakeward_pipelines (catalog_name VARCHAR(255) NOT NULL, \
    pipeline_id VARCHAR(255) NOT NULL, attempt VARCHAR(32) NOT NULL, token VARCHAR(64) NOT NULL, \
    PRIMARY KEY (catalog_name, pipeline_id))";

const WAIT_MIN_MS: u64 = 20;
const WAIT_MAX_MS: u64 = 2_000;
const WARN_EVERY_S: u64 = 10;

/// A catalog over SQLite, Postgres or MySQL.
pub struct SqlCatalog {
    name: String,
    description: String,
    database: Database,
    /// Of SQLite. Made at the first write, so that looking leaves nothing behind.
    file: Option<PathBuf>,
    lake: Lake,
    schema: OnceCell<Layout>,
}

/// What the database's tables look like.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Tables made by older clients have no `iceberg_type`.
    has_type: bool,
}

impl fmt::Debug for SqlCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlCatalog({}, {})", self.name, self.description)
    }
}

impl SqlCatalog {
    pub async fn open(config: &IcebergConfig, lake: Lake) -> Result<Self> {
        let text = config.catalog.get("uri").ok_or_else(|| {
            Error::config(
                "the sql catalog needs catalog.properties.uri, such as sqlite:///data/catalog.db",
            )
        })?;
        let mut uri = CatalogUri::parse(text)?;
        if let CatalogUri::Postgres(server) | CatalogUri::MySql(server) = &mut uri {
            // The Java catalog takes the login apart from the address.
            let given = |key: &str| config.catalog.get(key).cloned();
            server.user = server.user.take().or_else(|| given("jdbc.user"));
            server.password = server.password.take().or_else(|| given("jdbc.password"));
        }
        Ok(Self {
            name: config.catalog_name().to_string(),
            description: uri.describe(),
            database: Database::open(&uri)?,
            file: match uri {
                CatalogUri::Sqlite(path) => Some(path),
                _ => None,
            },
            lake,
            schema: OnceCell::new(),
        })
    }

    /// False where there cannot be anything to read yet.
    fn exists(&self) -> bool {
        self.file.as_ref().is_none_or(|file| file.exists())
    }

    /// The tables of the catalog, made at first use.
    async fn layout(&self) -> Result<Layout> {
        if let Some(folder) = self.file.as_ref().and_then(|f| f.parent())
            && !folder.as_os_str().is_empty()
        {
            std::fs::create_dir_all(folder).map_err(|e| {
                Error::config("could not create the catalog's folder")
                    .with("folder", folder.display())
                    .with_source(e)
            })?;
        }
        self.schema
            .get_or_try_init(|| self.patiently("open", || self.create_tables()))
            .await
            .copied()
    }

    async fn create_tables(&self) -> Outcome<Layout> {
        // The usual case needs no write lock.
        let probe = "SELECT token FROM lakeward_pipelines WHERE catalog_name = ''";
        let ready = match self.database.rows(probe, &[], 1).await {
            Ok(_) => true,
            Err(Failure::Busy(e)) => return Err(Failure::Busy(e)),
            Err(_) => false,
        };
        if !ready {
            let suffix = self.database.table_suffix();
            let mut session = self.database.begin().await?;
            for statement in [TABLES, NAMESPACES, PIPELINES] {
                session.execute(&format!("{statement}{suffix}"), &[]).await?;
            }
            session.commit().await?;
        }
        let probe = "SELECT iceberg_type FROM iceberg_tables WHERE catalog_name = ''";
        let has_type = match self.database.rows(probe, &[], 1).await {
            Ok(_) => true,
            Err(Failure::Busy(e)) => return Err(Failure::Busy(e)),
            Err(_) => false,
        };
        Ok(Layout { has_type })
    }

    /// Repeats while the database is busy. Another program may hold its lock for minutes (a backup, a user's open
    /// transaction); that stalls us, and says so, but is no reason to fail.
    async fn patiently<T, F, Fut>(&self, what: &'static str, mut call: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Outcome<T>>,
    {
        let started = Instant::now();
        let mut wait_ms = WAIT_MIN_MS;
        let mut warned_s = 0;
        loop {
            match call().await {
                Ok(value) => {
                    if warned_s > 0 {
                        let waited_ms = started.elapsed().as_millis() as u64;
                        tracing::info!(catalog = %self.description, what, waited_ms, "the catalog answers again");
                    }
                    return Ok(value);
                }
                Err(Failure::Busy(error)) => {
                    let waited_s = started.elapsed().as_secs();
                    if waited_s >= warned_s + WARN_EVERY_S {
                        warned_s = waited_s;
                        tracing::warn!(catalog = %self.description, what, waited_s, %error,
                            "stalled: another program holds the catalog's lock; waiting for it");
                    }
                    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                    wait_ms = (wait_ms * 2).min(WAIT_MAX_MS);
                }
                Err(Failure::Duplicate(e) | Failure::Other(e)) => return Err(self.failed(what, e)),
            }
        }
    }

    fn failed(&self, what: &str, error: sqlx::Error) -> Error {
        let kind = match &error {
            sqlx::Error::Configuration(_) => ErrorKind::Config,
            sqlx::Error::Database(e) => match e.code().as_deref() {
                // Login and missing database: Postgres class 28, 3D000; MySQL 28000, 42000/1049.
                Some("28000" | "28P01" | "3D000") => ErrorKind::Config,
                _ => ErrorKind::Transient,
            },
            _ => ErrorKind::Transient,
        };
        Error::new(kind, format!("the catalog could not {what}"))
            .with("catalog", &self.description)
            .with_source(error)
    }

    async fn read(
        &self,
        sql: &str,
        arguments: &[&str],
        columns: usize,
    ) -> Result<Vec<Vec<Option<String>>>> {
        if !self.exists() {
            return Ok(Vec::new());
        }
        self.layout().await?;
        self.patiently("read", || self.database.rows(sql, arguments, columns)).await
    }

    async fn try_commit(
        &self,
        owner: &Incarnation,
        changes: &[CatalogChange],
        layout: Layout,
    ) -> Outcome<std::result::Result<CommitOutcome, Error>> {
        let mut session = self.database.begin().await?;
        let sql = format!(
            "SELECT token FROM lakeward_pipelines WHERE catalog_name = ? AND pipeline_id = ?{}",
            self.database.for_update()
        );
        let found = session.rows(&sql, &[&self.name, &owner.pipeline.0], 1).await?;
        let token = found.first().and_then(|row| row[0].as_deref());
        if token != Some(&*owner.token) {
            session.rollback().await?;
            return Ok(Err(Error::fenced(
                "another run of this pipeline has taken over; stop one of the two, or give them different names",
            )
            .with("pipeline", &owner.pipeline)
            .with("attempt", owner.attempt)));
        }
        let mut conflicts = Vec::new();
        for change in changes {
            if !self.apply(&mut session, change, layout).await? {
                conflicts.extend(change.table().cloned());
            }
        }
        if !conflicts.is_empty() {
            session.rollback().await?;
            return Ok(Ok(CommitOutcome::Conflict(conflicts)));
        }
        session.commit().await?;
        Ok(Ok(CommitOutcome::Done))
    }

    /// False on a conflict.
    async fn apply(
        &self,
        session: &mut Session,
        change: &CatalogChange,
        layout: Layout,
    ) -> Outcome<bool> {
        let key = "catalog_name = ? AND table_namespace = ? AND table_name = ?";
        match change {
            CatalogChange::Create { table, new } => {
                // Postgres aborts a transaction at a duplicate, so it is looked for first.
                let sql = format!("SELECT metadata_location FROM iceberg_tables WHERE {key}");
                let arguments: [&str; 3] = [&self.name, &table.namespace, &table.name];
                if !session.rows(&sql, &arguments, 1).await?.is_empty() {
                    return Ok(false);
                }
                let (column, value) =
                    if layout.has_type { (", iceberg_type", ", 'TABLE'") } else { ("", "") };
                let sql = format!(
                    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location{column}) \
                     VALUES (?, ?, ?, ?{value})"
                );
                let arguments: [&str; 4] =
                    [&self.name, &table.namespace, &table.name, &new.location];
                match session.execute(&sql, &arguments).await {
                    Ok(_) => Ok(true),
                    Err(Failure::Duplicate(_)) => Ok(false),
                    Err(other) => Err(other),
                }
            }
            CatalogChange::Update { table, base, new, .. } => {
                let sql = format!(
                    "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE {key} AND \
                     metadata_location = ?"
                );
                let arguments: [&str; 6] = [
                    &new.location,
                    &base.location,
                    &self.name,
                    &table.namespace,
                    &table.name,
                    &base.location,
                ];
                Ok(session.execute(&sql, &arguments).await? == 1)
            }
            CatalogChange::Drop { table, base } => {
                let sql =
                    format!("DELETE FROM iceberg_tables WHERE {key} AND metadata_location = ?");
                let arguments: [&str; 4] =
                    [&self.name, &table.namespace, &table.name, &base.location];
                Ok(session.execute(&sql, &arguments).await? == 1)
            }
            CatalogChange::Rename { from, to, base, new } => {
                let sql = format!("SELECT metadata_location FROM iceberg_tables WHERE {key}");
                let arguments: [&str; 3] = [&self.name, &to.namespace, &to.name];
                if !session.rows(&sql, &arguments, 1).await?.is_empty() {
                    return Ok(false);
                }
                let sql = format!(
                    "UPDATE iceberg_tables SET table_namespace = ?, table_name = ?, metadata_location = ?, \
                     previous_metadata_location = ? WHERE {key} AND metadata_location = ?"
                );
                let arguments: [&str; 8] = [
                    &to.namespace,
                    &to.name,
                    &new.location,
                    &base.location,
                    &self.name,
                    &from.namespace,
                    &from.name,
                    &base.location,
                ];
                Ok(session.execute(&sql, &arguments).await? == 1)
            }
            CatalogChange::SetNamespaceProperty { namespace, key, value } => {
                self.set_property(session, namespace, key, value).await?;
                Ok(true)
            }
        }
    }

    async fn set_property(
        &self,
        session: &mut Session,
        namespace: &str,
        key: &str,
        value: &str,
    ) -> Outcome<()> {
        let sql = "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ? AND property_key = ?";
        session.execute(sql, &[&self.name, namespace, key]).await?;
        let sql = "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value) \
                   VALUES (?, ?, ?, ?)";
        session.execute(sql, &[&self.name, namespace, key, value]).await?;
        Ok(())
    }

    async fn try_acquire(&self, pipeline: &PipelineId, attempt: &str, token: &str) -> Outcome<()> {
        let mut session = self.database.begin().await?;
        let sql = "DELETE FROM lakeward_pipelines WHERE catalog_name = ? AND pipeline_id = ?";
        session.execute(sql, &[&self.name, &pipeline.0]).await?;
        let sql = "INSERT INTO lakeward_pipelines (catalog_name, pipeline_id, attempt, token) VALUES (?, ?, ?, ?)";
        session.execute(sql, &[&self.name, &pipeline.0, attempt, token]).await?;
        session.commit().await
    }

    async fn try_ensure_namespace(&self, namespace: &str) -> Outcome<()> {
        let mut session = self.database.begin().await?;
        let sql = "SELECT property_key FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?";
        if session.rows(sql, &[&self.name, namespace], 1).await?.is_empty() {
            // Every client writes this property: a namespace exists by having one.
            match self.set_property(&mut session, namespace, "exists", "true").await {
                Ok(()) => {}
                // Another made it in this moment.
                Err(Failure::Duplicate(_)) => return session.rollback().await,
                Err(other) => return Err(other),
            }
        }
        session.commit().await
    }
}

#[async_trait]
impl Catalog for SqlCatalog {
    async fn check(&self) -> Result<String> {
        if !self.exists() {
            return Ok(format!("{} (does not exist yet)", self.description));
        }
        self.patiently("answer", || self.database.rows("SELECT 'ok'", &[], 1)).await?;
        Ok(self.description.clone())
    }

    async fn knows(&self, pipeline: &PipelineId) -> Result<bool> {
        if !self.exists() {
            return Ok(false);
        }
        self.layout().await?;
        let sql =
            "SELECT attempt FROM lakeward_pipelines WHERE catalog_name = ? AND pipeline_id = ?";
        Ok(!self.read(sql, &[&self.name, &pipeline.0], 1).await?.is_empty())
    }

    async fn acquire(&self, pipeline: &PipelineId, attempt: u64) -> Result<Incarnation> {
        self.layout().await?;
        let token = uuid::Uuid::new_v4().simple().to_string()[..8].to_string();
        let text = attempt.to_string();
        self.patiently("take the pipeline over", || self.try_acquire(pipeline, &text, &token))
            .await?;
        Ok(Incarnation { pipeline: pipeline.clone(), attempt, token: token.into() })
    }

    async fn load(&self, table: &TableId) -> Result<Option<LoadedTable>> {
        let Some(location) = self.location(table).await? else {
            return Ok(None);
        };
        let metadata = TableMetadata::read_from(self.lake.file_io(), &*location)
            .await
            .or_store("could not read the metadata file that the catalog names for the table (is the warehouse there?)")
            .map_err(|e| e.with("table", table).with("file", &location))?;
        Ok(Some(LoadedTable { metadata: Arc::new(metadata), location }))
    }

    async fn location(&self, table: &TableId) -> Result<Option<Arc<str>>> {
        let sql = "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?";
        let rows = self.read(sql, &[&self.name, &table.namespace, &table.name], 1).await?;
        Ok(rows.into_iter().next().and_then(|mut row| row.pop().flatten()).map(Arc::from))
    }

    async fn tables(&self) -> Result<Vec<(TableId, Arc<str>)>> {
        let sql = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables WHERE catalog_name = ? \
                   AND metadata_location IS NOT NULL ORDER BY table_namespace, table_name";
        let rows = self.read(sql, &[&self.name], 3).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let [namespace, name, location] = <[Option<String>; 3]>::try_from(row).ok()?;
                Some((TableId::new(namespace?, name?), Arc::from(location?)))
            })
            .collect())
    }

    async fn ensure_namespace(&self, namespace: &str) -> Result<()> {
        self.layout().await?;
        self.patiently("create the namespace", || self.try_ensure_namespace(namespace)).await
    }

    async fn namespace_properties(&self, namespace: &str) -> Result<BTreeMap<String, String>> {
        let sql = "SELECT property_key, property_value FROM iceberg_namespace_properties WHERE catalog_name = ? AND \
                   namespace = ?";
        let rows = self.read(sql, &[&self.name, namespace], 2).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let [key, value] = <[Option<String>; 2]>::try_from(row).ok()?;
                Some((key?, value.unwrap_or_default()))
            })
            .collect())
    }

    async fn stage(
        &self,
        base: Option<&LoadedTable>,
        metadata: TableMetadata,
    ) -> Result<LoadedTable> {
        // A foreign client may have named the last file in its own way; then the count starts over.
        let next =
            base.and_then(|base| MetadataLocation::from_str(&base.location).ok()).map_or_else(
                || MetadataLocation::new_with_metadata(metadata.location(), &metadata),
                |l| l.with_next_version().with_new_metadata(&metadata),
            );
        metadata
            .write_to(self.lake.file_io(), &next)
            .await
            .or_store("could not write the table's metadata")
            .map_err(|e| e.with("file", &next))?;
        Ok(LoadedTable { metadata: Arc::new(metadata), location: next.to_string().into() })
    }

    async fn commit(
        &self,
        owner: &Incarnation,
        changes: &[CatalogChange],
    ) -> Result<CommitOutcome> {
        let layout = self.layout().await?;
        self.patiently("commit", || self.try_commit(owner, changes, layout)).await?
    }
}

impl CatalogChange {
    /// The table that a conflict would be about.
    pub fn table(&self) -> Option<&TableId> {
        match self {
            Self::Create { table, .. } | Self::Update { table, .. } | Self::Drop { table, .. } => {
                Some(table)
            }
            Self::Rename { from, .. } => Some(from),
            Self::SetNamespaceProperty { .. } => None,
        }
    }
}
