//! How fast row events become Arrow columns: `decode_speed LOG TABLE.sql [rounds]`.
//!
//! LOG is a binlog file, TABLE.sql the SHOW CREATE TABLE of the one table whose rows are decoded
//! (its name is that of the table in the log). Prints rows, the batches' bytes and the best round's
//! nanoseconds per row, on one core.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use lakeward_mysql::binlog::{DecoderState, EventBody, EventHeader, parse_event};
use lakeward_mysql::ddl::{Flavor, SqlMode, read_table};
use lakeward_mysql::model::MysqlTable;
use lakeward_mysql::rows::{RowPlan, TableBuilder};
use lakeward_mysql::types::{TypeOptions, table_schema};

const BATCH_BYTES: usize = 8 << 20;

struct Round {
    rows: usize,
    size_bytes: usize,
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, log, table, rest @ ..] = &arguments[..] else {
        return Err("usage: decode_speed LOG TABLE.sql [rounds]".into());
    };
    let rounds: usize = rest.first().map_or(Ok(5), |r| r.parse())?;
    let log = std::fs::read(log)?;
    let create = std::fs::read_to_string(table)?;
    let table = read_table(&create, &SqlMode::new(Flavor::MariaDb), "utf8mb4")?;
    let mut best = f64::INFINITY;
    let mut round = decode(&log, &table)?;
    for _ in 0..rounds {
        let start = Instant::now();
        round = decode(&log, &table)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let nanoseconds = best * 1e9 / round.rows as f64;
    println!(
        "{} rows, {} bytes of columns, {nanoseconds:.0} ns per row",
        round.rows, round.size_bytes
    );
    Ok(())
}

fn decode(log: &[u8], table: &MysqlTable) -> Result<Round, Box<dyn Error>> {
    let schema = Arc::new(table_schema(table, 1, &TypeOptions::default())?);
    let mut builder = TableBuilder::new(table, schema)?;
    let mut state = DecoderState::default();
    let mut plan: Option<(u64, RowPlan)> = None;
    let mut round = Round { rows: 0, size_bytes: 0 };
    let mut at = 4;
    while at < log.len() {
        let size = EventHeader::parse(&log[at..])?.size_bytes as usize;
        let event = parse_event(&log[at..at + size], &mut state)?;
        at += size;
        match event.body {
            EventBody::TableMap(map) => {
                if let Ok(made) = RowPlan::new(table, &map) {
                    plan = Some((map.table_id, made));
                }
            }
            EventBody::Rows(rows) => {
                let Some((_, plan)) = plan.as_ref().filter(|(id, _)| *id == rows.table_id) else {
                    continue;
                };
                round.rows += plan.decode(&rows, &mut builder)?;
                if builder.size_bytes() >= BATCH_BYTES {
                    round.size_bytes += builder.size_bytes();
                    builder.finish()?;
                }
            }
            _ => {}
        }
    }
    round.size_bytes += builder.size_bytes();
    Ok(round)
}
