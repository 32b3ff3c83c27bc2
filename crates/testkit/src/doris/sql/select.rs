//! SELECT, run by DataFusion over the rows that are visible when it begins.

use std::any::Any;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Date32Builder, Decimal128Builder, Decimal256Builder, Float32Builder,
    Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::i256;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, MemTable, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, visit_expressions_mut};

use super::super::stand_in::{Shared, lock};
use super::super::table::Table;
use super::super::temporal;
use super::super::types::DorisType;
use super::super::value::Value;
use super::lexer::Tokens;
use super::{Answer, Kind, ResultColumn, ResultSet, Session, SqlError, schema_tables, variables};

/// Metadata of a field: digits of a second that a DATETIME has.
const DIGITS: &str = "digits";

const CATALOG: &str = "internal";

pub async fn run(shared: &Shared, session: &Session, tokens: &Tokens) -> Result<Answer, SqlError> {
    let sql = variables::substitute(session, tokens)?;
    let sql = sql.trim().trim_end_matches(';');
    match select(shared, session, sql).await {
        Ok(result) => Ok(Answer::Rows(result)),
        Err(error) => {
            let error = error.strip_backtrace();
            let code = if error.contains("not found") { 1146 } else { 1105 };
            Err(SqlError::new(code, error))
        }
    }
}

async fn select(shared: &Shared, session: &Session, sql: &str) -> DataFusionResult<ResultSet> {
    let database = session.database.as_deref().unwrap_or(schema_tables::SCHEMA);
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, database)
        .with_create_default_catalog_and_schema(false)
        .with_target_partitions(1);
    config.options_mut().sql_parser.enable_ident_normalization = false;
    let context = SessionContext::new_with_config(config);
    context.register_catalog(CATALOG, Arc::new(Catalog { shared: shared.clone() }));
    let state = context.state();
    let mut statement = state.sql_to_statement(sql, &datafusion::config::Dialect::MySQL)?;
    let names = column_names(&state, &statement, shared, database)?;
    if let Statement::Statement(statement) = &mut statement {
        restore_case(statement.as_mut(), &names);
    }
    let plan = state.statement_to_plan(statement).await?;
    let frame = context.execute_logical_plan(plan).await?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await?;
    print(&schema, &batches).map_err(|e| DataFusionError::ArrowError(Box::new(e), None))
}

/// Names of the columns of all tables that the statement is about, by their lower case.
fn column_names(
    state: &datafusion::execution::SessionState,
    statement: &Statement,
    shared: &Shared,
    database: &str,
) -> DataFusionResult<HashMap<String, String>> {
    let mut names = HashMap::new();
    let cluster = lock(shared);
    for reference in state.resolve_table_references(statement)? {
        let schema = reference.schema().unwrap_or(database);
        let name = reference.table();
        if schema.eq_ignore_ascii_case(schema_tables::SCHEMA) {
            if let Some(Ok(batch)) = schema_tables::batch(&cluster, name) {
                let fields = batch.schema();
                let all = fields.fields().iter().map(|f| f.name().clone());
                names.extend(all.map(|n| (n.to_ascii_lowercase(), n)));
            }
        } else if let Some(table) = cluster.databases.get(schema).and_then(|d| d.tables.get(name)) {
            let all = table.columns.iter().map(|c| c.name.clone());
            names.extend(all.map(|n| (n.to_ascii_lowercase(), n)));
        }
    }
    Ok(names)
}

/// Names of columns do not care about case in Doris, but here.
fn restore_case(
    statement: &mut datafusion::sql::sqlparser::ast::Statement,
    names: &HashMap<String, String>,
) {
    let restore = |ident: &mut Ident| {
        if let Some(name) = names.get(&ident.value.to_ascii_lowercase()) {
            ident.value.clone_from(name);
        }
    };
    let _: ControlFlow<()> = visit_expressions_mut(statement, |expression| {
        match expression {
            Expr::Identifier(ident) => restore(ident),
            Expr::CompoundIdentifier(parts) => parts.last_mut().into_iter().for_each(restore),
            _ => {}
        }
        ControlFlow::Continue(())
    });
}

#[derive(Debug)]
struct Catalog {
    shared: Shared,
}

impl CatalogProvider for Catalog {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema_names(&self) -> Vec<String> {
        lock(&self.shared).databases.keys().cloned().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let name = match name.eq_ignore_ascii_case(schema_tables::SCHEMA) {
            true => schema_tables::SCHEMA.to_owned(),
            false => lock(&self.shared).databases.get_key_value(name)?.0.clone(),
        };
        Some(Arc::new(Schemas { shared: self.shared.clone(), name }))
    }
}

/// The tables of a database; their rows are copied when they are asked for.
#[derive(Debug)]
struct Schemas {
    shared: Shared,
    name: String,
}

#[async_trait]
impl SchemaProvider for Schemas {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn table_names(&self) -> Vec<String> {
        if self.name == schema_tables::SCHEMA {
            return schema_tables::TABLES.iter().map(|t| (*t).to_owned()).collect();
        }
        let cluster = lock(&self.shared);
        let database = cluster.databases.get(&self.name);
        database.map(|d| d.tables.keys().cloned().collect()).unwrap_or_default()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        let batch = {
            let cluster = lock(&self.shared);
            if self.name == schema_tables::SCHEMA {
                schema_tables::batch(&cluster, name).transpose()?
            } else {
                let database = cluster.databases.get(&self.name);
                database.and_then(|d| d.tables.get(name)).map(batch).transpose()?
            }
        };
        let Some(batch) = batch else { return Ok(None) };
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}

fn batch(table: &Table) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let array = array(&column.data_type, table.visible().map(|row| &row[at]))?;
        let mut field = Field::new(&column.name, array.data_type().clone(), true);
        if let DorisType::DateTime(digits) = column.data_type {
            field.set_metadata(HashMap::from([(DIGITS.to_owned(), digits.to_string())]));
        }
        fields.push(field);
        arrays.push(array);
    }
    let rows = table.visible().count();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
}

/// Builds an array from one variant of values; anything else is NULL.
macro_rules! collect {
    ($builder:expr, $values:expr, $($pattern:pat => $value:expr),+ $(,)?) => {{
        let mut builder = $builder;
        for value in $values {
            match value {
                $($pattern => builder.append_value($value),)+
                _ => builder.append_null(),
            }
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

fn array<'a>(
    data_type: &DorisType,
    values: impl Iterator<Item = &'a Value>,
) -> Result<ArrayRef, arrow_schema::ArrowError> {
    Ok(match data_type {
        DorisType::Boolean => collect!(BooleanBuilder::new(), values, Value::Boolean(v) => *v),
        DorisType::TinyInt => collect!(Int8Builder::new(), values, Value::Integer(v) => *v as i8),
        DorisType::SmallInt => {
            collect!(Int16Builder::new(), values, Value::Integer(v) => *v as i16)
        }
        DorisType::Int => collect!(Int32Builder::new(), values, Value::Integer(v) => *v as i32),
        DorisType::BigInt => collect!(Int64Builder::new(), values, Value::Integer(v) => *v as i64),
        DorisType::LargeInt => collect!(
            Decimal256Builder::new().with_precision_and_scale(39, 0)?,
            values,
            Value::Integer(v) => i256::from_i128(*v)
        ),
        DorisType::Float => collect!(Float32Builder::new(), values, Value::Float(v) => *v),
        DorisType::Double => collect!(Float64Builder::new(), values, Value::Double(v) => *v),
        DorisType::Decimal { precision, scale } => collect!(
            Decimal128Builder::new().with_precision_and_scale(*precision, *scale as i8)?,
            values,
            Value::Decimal(v) => *v
        ),
        DorisType::Date => collect!(Date32Builder::new(), values, Value::Date(v) => *v),
        DorisType::DateTime(_) => {
            collect!(TimestampMicrosecondBuilder::new(), values, Value::DateTime(v) => *v)
        }
        _ => collect!(StringBuilder::new(), values, Value::Text(v) => &**v),
    })
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean | DataType::Int8 => Kind::TinyInt,
        DataType::Int16 => Kind::SmallInt,
        DataType::Int32 => Kind::Int,
        DataType::Int64 | DataType::UInt64 | DataType::UInt32 => Kind::BigInt,
        DataType::Float32 => Kind::Float,
        DataType::Float64 => Kind::Double,
        DataType::Decimal128(..) => Kind::Decimal,
        DataType::Date32 => Kind::Date,
        DataType::Timestamp(..) => Kind::DateTime,
        _ => Kind::Text,
    }
}

fn print(schema: &Schema, batches: &[RecordBatch]) -> Result<ResultSet, arrow_schema::ArrowError> {
    let columns = schema
        .fields()
        .iter()
        .map(|f| ResultColumn { name: f.name().clone(), kind: kind(f.data_type()) })
        .collect();
    let mut rows = Vec::new();
    for batch in batches {
        let mut texts = Vec::new();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            texts.push(print_column(field, column)?);
        }
        for row in 0..batch.num_rows() {
            rows.push(texts.iter_mut().map(|column| column[row].take()).collect());
        }
    }
    Ok(ResultSet { columns, rows })
}

fn print_column(
    field: &Field,
    column: &ArrayRef,
) -> Result<Vec<Option<String>>, arrow_schema::ArrowError> {
    let options = FormatOptions::new();
    let printer = ArrayFormatter::try_new(column.as_ref(), &options)?;
    let digits = field.metadata().get(DIGITS).and_then(|d| d.parse::<u8>().ok());
    let mut texts = Vec::with_capacity(column.len());
    for row in 0..column.len() {
        if column.is_null(row) {
            texts.push(None);
            continue;
        }
        texts.push(Some(match column.data_type() {
            DataType::Boolean => u8::from(column.as_boolean().value(row)).to_string(),
            DataType::Float32 => {
                Value::Float(column.as_primitive::<arrow_array::types::Float32Type>().value(row))
                    .print(&DorisType::Float)
                    .unwrap_or_default()
            }
            DataType::Float64 => {
                Value::Double(column.as_primitive::<arrow_array::types::Float64Type>().value(row))
                    .print(&DorisType::Double)
                    .unwrap_or_default()
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                let micros = column.as_primitive::<TimestampMicrosecondType>().value(row);
                let digits = digits.unwrap_or(if micros % 1_000_000 == 0 { 0 } else { 6 });
                temporal::print_date_time(micros, digits)
            }
            _ => printer.value(row).try_to_string()?,
        }));
    }
    Ok(texts)
}
