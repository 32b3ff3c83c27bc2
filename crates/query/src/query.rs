//! A session over the lake.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{SessionConfig, SessionContext};
use lakeward_core::{Error, Result};

use crate::catalog::{LakeCatalog, Namespaces, UNIQUE_NAMES};
use crate::output::{Format, write_all};

/// The name of the one catalog of a session.
const CATALOG: &str = "lake";

/// Answers SQL over the tables of one catalog. Reads only: statements that would change something are refused.
pub struct LakeQuery {
    session: SessionContext,
}

impl LakeQuery {
    pub async fn open(lake: Arc<dyn LakeCatalog>) -> Result<Self> {
        let namespaces = Namespaces::read(lake).await?;
        let mut config = SessionConfig::new()
            .with_default_catalog_and_schema(CATALOG, UNIQUE_NAMES)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true);
        let parser = &mut config.options_mut().sql_parser;
        // `Orders` and `orders` may be two tables.
        parser.enable_ident_normalization = false;
        // `price = 0.1` is meant exactly.
        parser.parse_float_as_decimal = true;
        let session = SessionContext::new_with_config(config);
        session.register_catalog(CATALOG, Arc::new(namespaces));
        Ok(Self { session })
    }

    /// Runs one statement and writes its answer.
    pub async fn run(&self, sql: &str, format: Format, out: &mut dyn Write) -> Result<()> {
        let read_only = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let answer = self.session.sql_with_options(sql, read_only).await.map_err(query_error)?;
        let stream = answer.execute_stream().await.map_err(query_error)?;
        write_all(stream, format, out).await
    }
}

impl fmt::Debug for LakeQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LakeQuery")
    }
}

/// DataFusion's error as one sentence of ours.
pub(crate) fn query_error(e: DataFusionError) -> Error {
    match e {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            query_error(*inner)
        }
        DataFusionError::Shared(inner) => Error::config(one_line(&inner.to_string())),
        DataFusionError::Plan(message) => Error::config(one_line(&message)),
        DataFusionError::SQL(inner, _) => {
            Error::config(one_line(&format!("the statement is not valid SQL: {inner}")))
        }
        DataFusionError::SchemaError(inner, _) => Error::config(one_line(&inner.to_string())),
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::transient("the query failed").with_source(other),
        },
        other => Error::transient(one_line(&format!("the query failed: {other}"))),
    }
}

fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.trim_end_matches('.').to_string()
}
