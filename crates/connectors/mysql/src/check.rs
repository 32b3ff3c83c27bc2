//! What `check` looks at: the account, the settings, and what the log will never say.

use std::sync::Arc;

use lakeward_core::{ErrorKind, Result, SourceCheck, SourceTable, TableId};

use crate::catalog::log_end;
use crate::client::{Client, ServerFacts, failure};
use crate::config::MysqlConfig;
use crate::selector::TableSelector;
use crate::shapes::read_all;
use crate::types::{TypeOptions, table_schema};
use crate::wire::{Connection, WireError};

pub const CASCADE_WARNING: &str = "a foreign key with ON DELETE or ON UPDATE CASCADE or SET NULL changes rows of this table \
     without a word in the binlog: such changes cannot be copied; use triggers or application code instead, or read the \
     table again from time to time (--resnapshot)";

pub async fn check(
    config: &MysqlConfig,
    client: &Client,
    selector: &TableSelector,
    types: &TypeOptions,
) -> Result<SourceCheck> {
    let mut connection = client.connect().await?;
    let facts = ServerFacts::read(&mut connection).await?;
    let flavor = if facts.is_mariadb() { "MariaDB" } else { "MySQL" };
    let tls = if connection.is_secure() { "encrypted" } else { "not encrypted" };
    let mut check = SourceCheck {
        server: format!("{flavor} {} at {} ({tls})", facts.version, client.address()),
        ..SourceCheck::default()
    };
    privileges(&mut connection, &facts, &mut check).await?;
    if let Err(e) = log_end(&mut connection, &facts).await {
        check.errors.push(e.to_string());
        return Ok(check);
    }
    check.errors.extend(row_format(&mut connection).await?);
    check.warnings.extend(row_log_settings(&mut connection, &facts).await?);
    let shapes = read_all(&mut connection, &facts, selector).await?;
    if shapes.tables.is_empty() {
        check.errors.push(format!("no table of the server matches `tables: {}`", config.tables));
    }
    check.warnings.extend(selector.without_table(shapes.tables.iter().map(|(table, _)| table)));
    for (table, found) in shapes.tables {
        let Some(found) = found else { continue };
        match table_schema(&found.shape, 1, types) {
            Ok(schema) => {
                if schema.primary_key.is_empty() {
                    check.warnings.push(format!(
                        "{table} has no primary key: its snapshot is read in one go while the log waits, and starts over \
                         after an interruption"
                    ));
                }
                check.tables.push(SourceTable {
                    table,
                    schema: Arc::new(schema),
                    rows: Some(found.rows),
                });
            }
            Err(e) => check.errors.push(e.with("table", &table).to_string()),
        }
    }
    for table in cascading_children(&mut connection, &facts, selector).await? {
        check.warnings.push(format!("{table}: {CASCADE_WARNING}"));
    }
    connection.close().await;
    Ok(check)
}

async fn privileges(
    connection: &mut Connection,
    facts: &ServerFacts,
    check: &mut SourceCheck,
) -> Result<()> {
    let grants = connection
        .query("SHOW GRANTS")
        .await
        .map_err(|e| failure(e, "could not read the account's privileges"))?;
    let text: Vec<String> =
        grants.rows.iter().filter_map(|r| r.first()?.clone()).map(|g| g.to_uppercase()).collect();
    let has = |privilege: &str| {
        text.iter().any(|g| {
            let listed = g.split(" ON ").next().unwrap_or(g);
            listed.contains("ALL PRIVILEGES") || listed.contains(privilege)
        })
    };
    let client = has("REPLICATION CLIENT") || has("BINLOG MONITOR") || has("SUPER");
    let wanted = [
        (has("REPLICATION SLAVE"), "REPLICATION SLAVE"),
        (client, "REPLICATION CLIENT (BINLOG MONITOR on MariaDB)"),
        (has("SELECT"), "SELECT"),
    ];
    for (_, name) in wanted.iter().filter(|(has, _)| !has) {
        // Roles may hold what is not listed here, so this is not the last word.
        check.warnings.push(format!("the account seems to lack the privilege {name}"));
    }
    if !facts.is_mariadb() && !facts.gtid {
        check.warnings.push(
            "gtid_mode is off: each table is locked for reading for the moment in which its snapshot begins, the log waits \
             for snapshots, and a failover to another server needs a new snapshot"
                .into(),
        );
    }
    Ok(())
}

/// Settings without which there are no rows in the log.
async fn row_format(connection: &mut Connection) -> Result<Vec<String>> {
    let row = connection
        .query("SELECT @@global.binlog_format AS f")
        .await
        .map_err(|e| failure(e, "could not read the server's settings"))?;
    Ok(match row.value("f") {
        Some(f) if !f.eq_ignore_ascii_case("ROW") => {
            vec![format!("binlog_format is {f}; set it to ROW")]
        }
        _ => Vec::new(),
    })
}

/// Settings that make the log less than it could be.
pub async fn row_log_settings(
    connection: &mut Connection,
    facts: &ServerFacts,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if let Some(image) = variable(connection, "binlog_row_image").await?
        && !image.eq_ignore_ascii_case("FULL")
    {
        warnings.push(format!(
            "binlog_row_image is {image}: columns that a change does not touch may be missing from the log; set it to FULL"
        ));
    }
    if let Some(metadata) = variable(connection, "binlog_row_metadata").await?
        && !metadata.eq_ignore_ascii_case("FULL")
    {
        warnings.push(format!(
            "binlog_row_metadata is {metadata}: set it to FULL, so that the log names its columns and a missed change of a \
             table's definition shows at once"
        ));
    }
    let days = variable(connection, "expire_logs_days").await?.and_then(|v| v.parse::<f64>().ok());
    let seconds = variable(connection, "binlog_expire_logs_seconds")
        .await?
        .and_then(|v| v.parse::<f64>().ok());
    let kept = [days.map(|d| d * 86_400.0), seconds].into_iter().flatten().fold(0.0, f64::max);
    if kept > 0.0 && kept < 86_400.0 {
        let hours = kept / 3600.0;
        warnings.push(format!(
            "the server keeps its log for {hours:.1} hours only: a pipeline that stands longer needs a new snapshot; set \
             binlog_expire_logs_seconds to some days"
        ));
    }
    if facts.is_mariadb() && variable(connection, "gtid_strict_mode").await?.as_deref() == Some("0")
    {
        warnings.push(
            "gtid_strict_mode is off: set it on all servers that the pipeline may fail over to"
                .into(),
        );
    }
    Ok(warnings)
}

async fn variable(connection: &mut Connection, name: &str) -> Result<Option<String>> {
    match connection.query(&format!("SELECT @@global.{name}")).await {
        Ok(row) => Ok(row.scalar().map(str::to_string)),
        // This server does not have it.
        Err(WireError::Server { .. }) => Ok(None),
        Err(e) => Err(failure(e, "could not read the server's settings")),
    }
}

/// Selected tables whose rows a foreign key changes below the log.
pub async fn cascading_children(
    connection: &mut Connection,
    facts: &ServerFacts,
    selector: &TableSelector,
) -> Result<Vec<TableId>> {
    let sql = "SELECT DISTINCT CONSTRAINT_SCHEMA AS s, TABLE_NAME AS t FROM information_schema.REFERENTIAL_CONSTRAINTS \
               WHERE DELETE_RULE IN ('CASCADE','SET NULL','SET DEFAULT') \
               OR UPDATE_RULE IN ('CASCADE','SET NULL','SET DEFAULT') ORDER BY 1, 2";
    let found = connection
        .query(sql)
        .await
        .map_err(|e| failure(e, "could not look for cascading foreign keys"))?;
    let table =
        |r: &Vec<Option<String>>| Some(TableId::new(r.first()?.as_deref()?, r.get(1)?.as_deref()?));
    let found: Vec<TableId> =
        found.rows.iter().filter_map(table).filter(|t| selector.is_selected(t)).collect();
    // MariaDB 10.11 shows these rows only to accounts with more than SELECT on the table, and the definition to all.
    if !found.is_empty() || !facts.is_mariadb() {
        return Ok(found);
    }
    let mut found = Vec::new();
    for listed in crate::catalog::list_tables(connection, selector).await? {
        let sql = match crate::catalog::create_statement(connection, &listed.table).await {
            // Whatever is wrong with the table itself is said where it is read.
            Err(e) if e.kind() != ErrorKind::Transient => continue,
            sql => sql?,
        };
        if sql.is_some_and(|sql| cascades(&sql)) {
            found.push(listed.table);
        }
    }
    Ok(found)
}

fn cascades(create_table: &str) -> bool {
    let keys = create_table.lines().filter(|line| line.trim_start().starts_with("CONSTRAINT "));
    let mut keys = keys.filter(|line| line.contains(" FOREIGN KEY "));
    keys.any(|key| {
        ["DELETE", "UPDATE"].iter().any(|on| {
            let does = |what: &str| key.contains(&format!(" ON {on} {what}"));
            does("CASCADE") || does("SET NULL") || does("SET DEFAULT")
        })
    })
}
