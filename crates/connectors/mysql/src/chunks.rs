//! Chunks: how a table is cut along its primary key, and the statements that read the pieces.
//!
//! Only the server compares keys. A chunk begins behind the last key of the one before it, which goes back to the server
//! in the bytes in which it came.

use lakeward_core::TableId;

use crate::catalog;
use crate::client::quoted;
use crate::model::{MysqlTable, MysqlType};
use crate::state::LaneState;
use crate::wire::ParamBytes;

/// Rows of a chunk when the user does not say. Larger ones are slower: more of them lies in memory, out of the caches, and
/// reading overlaps less with writing. As many as make one batch.
pub const CHUNK_ROWS: u32 = 16_384;
/// Rows of the first chunk of a table of which nothing is known.
const FIRST_CHUNK_ROWS: u32 = 1_024;

/// True where the table has a primary key by whose order the server can page. The order of ENUM and SET is not that of
/// their comparison with text, BIT cannot be a parameter, and TEXT and BLOB have only a prefix in the key.
pub fn is_chunkable(shape: &MysqlTable) -> bool {
    !shape.primary_key.is_empty()
        && shape.primary_key.iter().all(|key| {
            shape.column(key).is_some_and(|c| {
                !matches!(
                    c.column_type,
                    MysqlType::Enum { .. }
                        | MysqlType::Set { .. }
                        | MysqlType::Bit { .. }
                        | MysqlType::Text { .. }
                        | MysqlType::Blob { .. }
                        | MysqlType::Json
                        | MysqlType::Geometry
                        | MysqlType::Vector { .. }
                )
            })
        })
}

/// How many rows to ask for at once. An explicit wish is kept. `row_bytes` is what a row takes, as far as it is known.
pub fn chunk_rows(wanted: Option<u32>, row_bytes: u64, chunk_bytes: u64) -> u32 {
    match wanted {
        Some(rows) => rows.max(1),
        None if row_bytes == 0 => FIRST_CHUNK_ROWS,
        None => u32::try_from(chunk_bytes / row_bytes).unwrap_or(u32::MAX).clamp(16, CHUNK_ROWS),
    }
}

/// The one integer column that makes up the key, for which ranges can be made without reading the table.
pub fn integer_key(shape: &MysqlTable) -> Option<&str> {
    let [key] = shape.primary_key.as_slice() else { return None };
    let is_integer = match shape.column(key)?.column_type {
        MysqlType::TinyInt { .. }
        | MysqlType::SmallInt { .. }
        | MysqlType::MediumInt { .. }
        | MysqlType::Int { .. } => true,
        MysqlType::BigInt { unsigned } => !unsigned,
        _ => false,
    };
    is_integer.then_some(key)
}

/// Ranges of equal width. Keys need not be spread evenly: a lane with few rows is merely done sooner.
pub fn integer_lanes(min: i64, max: i64, lanes: usize) -> Vec<LaneState> {
    let width = (i128::from(max) - i128::from(min) + 1) / lanes.max(1) as i128;
    let mut out = Vec::with_capacity(lanes);
    let mut after = None;
    if width > 0 {
        for i in 1..lanes {
            let edge = (i128::from(min) + width * i as i128 - 1) as i64;
            let key = Some(vec![ParamBytes::long(edge)]);
            out.push(LaneState { after: after.take(), until: key.clone(), done: false });
            after = key;
        }
    }
    out.push(LaneState { after, until: None, done: false });
    out
}

/// The statement of one chunk, with its parameters.
pub fn select(
    table: &TableId,
    shape: &MysqlTable,
    after: Option<&[ParamBytes]>,
    until: Option<&[ParamBytes]>,
    rows: u32,
) -> (String, Vec<ParamBytes>) {
    let keys: Vec<String> = shape.primary_key.iter().map(|k| quoted(k)).collect();
    let mut conditions = Vec::new();
    let mut params = Vec::new();
    for (bound, last, between) in [(after, ">", ">"), (until, "<=", "<")] {
        if let Some(bound) = bound {
            conditions.push(compare(&keys, last, between));
            params.extend(compare_params(bound));
        }
    }
    let condition = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let sql = format!(
        "SELECT {} FROM {} FORCE INDEX (PRIMARY){condition} ORDER BY {} LIMIT {rows}",
        column_list(shape),
        catalog::name(table),
        keys.join(", "),
    );
    (sql, params)
}

/// The statement that reads a table as a whole.
pub fn select_all(table: &TableId, shape: &MysqlTable) -> String {
    format!("SELECT {} FROM {}", column_list(shape), catalog::name(table))
}

/// Names, since `*` leaves out invisible columns.
fn column_list(shape: &MysqlTable) -> String {
    let names: Vec<String> = shape.columns.iter().map(|c| quoted(&c.name)).collect();
    names.join(", ")
}

/// `(a, b) > (?, ?)` in a form for which the servers use the key: they read a row comparison as a filter.
fn compare(keys: &[String], last: &str, between: &str) -> String {
    let Some((first, rest)) = keys.split_first() else { return "TRUE".into() };
    if rest.is_empty() {
        return format!("{first} {last} ?");
    }
    let inner = compare(rest, last, between);
    format!("({first} {between}= ? AND ({first} {between} ? OR ({first} = ? AND {inner})))")
}

fn compare_params(bound: &[ParamBytes]) -> Vec<ParamBytes> {
    let mut out = Vec::new();
    for (i, value) in bound.iter().enumerate() {
        let times = if i + 1 == bound.len() { 1 } else { 3 };
        out.extend(std::iter::repeat_n(value.clone(), times));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MysqlColumn, MysqlDefault};

    fn table(keys: &[(&str, MysqlType)]) -> MysqlTable {
        let column = |(name, column_type): &(&str, MysqlType)| MysqlColumn {
            name: (*name).into(),
            column_type: column_type.clone(),
            nullable: false,
            default: MysqlDefault::None,
            auto_increment: false,
            generated: false,
            virtual_column: false,
            invisible: false,
            compressed: false,
            float_scale: None,
            comment: None,
        };
        MysqlTable {
            columns: keys.iter().map(column).collect(),
            primary_key: keys.iter().map(|(n, _)| (*n).into()).collect(),
            charset: "utf8mb4".into(),
            comment: None,
        }
    }

    #[test]
    fn statements_page_by_the_key() {
        let int = MysqlType::Int { unsigned: false };
        let shape = table(&[("a", int.clone()), ("b", int)]);
        let id = TableId::new("d", "t");
        let bound = [ParamBytes::long(1), ParamBytes::long(2)];
        let (sql, params) = select(&id, &shape, Some(&bound), None, 10);
        assert_eq!(
            sql,
            "SELECT `a`, `b` FROM `d`.`t` FORCE INDEX (PRIMARY) WHERE (`a` >= ? AND (`a` > ? OR (`a` = ? AND `b` > ?))) \
             ORDER BY `a`, `b` LIMIT 10"
        );
        assert_eq!(params.len(), 4);
        let (sql, params) = select(&id, &shape, None, Some(&bound), 10);
        assert!(sql.contains("WHERE (`a` <= ? AND (`a` < ? OR (`a` = ? AND `b` <= ?)))"), "{sql}");
        assert_eq!(params.len(), 4);
        assert_eq!(select(&id, &shape, Some(&bound), Some(&bound), 1).1.len(), 8);
    }

    #[test]
    fn what_cannot_be_paged_is_read_whole() {
        assert!(!is_chunkable(&table(&[])));
        let labels = std::sync::Arc::from(["x".into()]);
        assert!(!is_chunkable(&table(&[(
            "e",
            MysqlType::Enum { labels, charset: "utf8".into() }
        )])));
        assert!(is_chunkable(&table(&[("v", MysqlType::Varbinary { length: 9 })])));
    }

    #[test]
    fn lanes_cover_everything_once() {
        for (min, max, lanes) in [(0, 99, 4), (i64::MIN, i64::MAX, 8), (5, 5, 4), (-3, 4, 3)] {
            let list = integer_lanes(min, max, lanes);
            assert!(list[0].after.is_none() && list[list.len() - 1].until.is_none());
            for pair in list.windows(2) {
                assert_eq!(pair[0].until, pair[1].after);
            }
        }
    }

    #[test]
    fn chunk_sizes() {
        assert_eq!(chunk_rows(Some(3), 1_000_000, 1 << 24), 3);
        assert_eq!(chunk_rows(None, 10, 1 << 24), CHUNK_ROWS);
        assert_eq!(chunk_rows(None, 1 << 18, 1 << 24), 64);
        assert_eq!(chunk_rows(None, 0, 1 << 24), FIRST_CHUNK_ROWS);
    }
}
