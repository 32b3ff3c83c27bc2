//! Tables' shapes from the catalog, with the stretch of the log in which they were read.
//!
//! The catalog shows *now*, and the reader may be behind. So the log's end is asked before and after: where the log has no
//! DDL of a table between the two places, the shape read between them is the table's shape at the second one.

use lakeward_core::{Result, TableId};

use crate::catalog::{
    ListedTable, LogEnd, create_statement, database_charsets, gtids_at, list_tables, log_end, name,
};
use crate::chunks::integer_key;
use crate::client::{Client, ServerFacts, failure, quoted};
use crate::ddl::{SqlMode, read_table};
use crate::model::MysqlTable;
use crate::offset::GtidSet;
use crate::selector::{TableSelector, is_ghost};
use crate::tables::Found;
use crate::wire::Connection;

/// What the catalog says.
pub struct Shapes {
    pub from: LogEnd,
    pub until: LogEnd,
    /// `None`: there is no such table.
    pub tables: Vec<(TableId, Option<Found>)>,
    pub database_charsets: Vec<(String, String)>,
}

/// Reads the shapes of all selected tables, and of those named besides.
pub async fn read_all(
    connection: &mut Connection,
    facts: &ServerFacts,
    selector: &TableSelector,
) -> Result<Shapes> {
    let from = start_place(connection, facts).await?;
    let charsets = database_charsets(connection).await?;
    let listed = list_tables(connection, selector).await?;
    let mut tables = Vec::with_capacity(listed.len());
    for table in listed {
        if is_ghost(&table.table) {
            continue;
        }
        let found = read_one(connection, facts, &table, &charsets).await?;
        tables.push((table.table, found));
    }
    let until = log_end(connection, facts).await?;
    Ok(Shapes { from, until, tables, database_charsets: charsets })
}

/// Reads the shapes of some tables.
pub async fn read_some(client: Client, facts: ServerFacts, wanted: Vec<TableId>) -> Result<Shapes> {
    let mut connection = client.connect().await?;
    let from = log_end(&mut connection, &facts).await?;
    let charsets = database_charsets(&mut connection).await?;
    let mut tables = Vec::with_capacity(wanted.len());
    for table in wanted {
        let listed = ListedTable { table, rows: 0, row_bytes: 0 };
        let found = read_one(&mut connection, &facts, &listed, &charsets).await?;
        tables.push((listed.table, found));
    }
    let until = log_end(&mut connection, &facts).await?;
    connection.close().await;
    Ok(Shapes { from, until, tables, database_charsets: charsets })
}

/// The log's end with the GTIDs before it, for a reader that is to start there.
pub async fn start_place(connection: &mut Connection, facts: &ServerFacts) -> Result<LogEnd> {
    let mut end = log_end(connection, facts).await?;
    if facts.is_mariadb() {
        end.gtids = gtids_at(connection, &end.at).await?.filter(|g| !g.is_empty());
        // An empty set is a place too: before the first transaction.
        end.gtids.get_or_insert_with(|| GtidSet::MariaDb(Default::default()));
    }
    Ok(end)
}

async fn read_one(
    connection: &mut Connection,
    facts: &ServerFacts,
    listed: &ListedTable,
    charsets: &[(String, String)],
) -> Result<Option<Found>> {
    let table = &listed.table;
    let Some(sql) = create_statement(connection, table).await? else { return Ok(None) };
    let charset = charsets
        .iter()
        .find(|(database, _)| **database == *table.namespace)
        .map_or(&*facts.charset, |(_, charset)| charset);
    let shape = read_table(&sql, &SqlMode::new(facts.flavor), charset)
        .map_err(|e| e.with("table", table))?;
    let range = key_range(connection, table, &shape).await?;
    Ok(Some(Found { shape, rows: listed.rows, row_bytes: listed.row_bytes, range }))
}

async fn key_range(
    connection: &mut Connection,
    table: &TableId,
    shape: &MysqlTable,
) -> Result<Option<(i64, i64)>> {
    let Some(key) = integer_key(shape) else { return Ok(None) };
    let key = quoted(key);
    let sql = format!("SELECT MIN({key}), MAX({key}) FROM {}", name(table));
    match connection.query(&sql).await {
        Ok(row) => {
            let value = |i: usize| row.first()?.get(i)?.as_deref()?.parse().ok();
            Ok(value(0).zip(value(1)))
        }
        // The table went or changed a moment ago: the log will tell.
        Err(crate::wire::WireError::Server { .. }) => Ok(None),
        Err(e) => Err(failure(e, "could not read a table's key range").with("table", table)),
    }
}
