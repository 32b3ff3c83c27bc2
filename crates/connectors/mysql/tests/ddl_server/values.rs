//! A table's values as comparable text, and what they must be after an ALTER.

use std::collections::BTreeMap;

use lakeward_core::{Literal, SchemaChange};
use lakeward_mysql::model::{MysqlColumn, MysqlTable, MysqlType};
use lakeward_testkit::sql::{Session, quote};

use crate::data_type;

/// Per column name, the sorted values of all rows. Columns whose rows are not told apart by a key are compared as bags.
pub type Values = BTreeMap<String, Vec<Option<String>>>;

/// The session's time zone is UTC here.
pub fn all(session: &mut Session, table: &MysqlTable) -> Values {
    let expressions: Vec<String> = table.columns.iter().map(expression).collect();
    let sql = format!("SELECT {} FROM t", expressions.join(", "));
    let rows = session.rows(&sql).unwrap_or_else(|e| panic!("{sql}: {e:#}"));
    let mut values = Values::new();
    for (i, column) in table.columns.iter().enumerate() {
        let mut of_column: Vec<Option<String>> = rows.iter().map(|row| row[i].clone()).collect();
        of_column.sort();
        values.insert(column.name.to_string(), of_column);
    }
    values
}

/// The value in the form that [`text`] gives a literal.
fn expression(column: &MysqlColumn) -> String {
    let name = quote(&column.name);
    match column.column_type {
        // ZEROFILL is for display only.
        MysqlType::Bit { .. }
        | MysqlType::TinyInt { .. }
        | MysqlType::SmallInt { .. }
        | MysqlType::MediumInt { .. }
        | MysqlType::Int { .. }
        | MysqlType::BigInt { .. } => format!("{name} + 0"),
        MysqlType::Float | MysqlType::Double => format!("CAST({name} AS DOUBLE)"),
        MysqlType::Date => format!("NULLIF(DATEDIFF({name}, '1970-01-01'), NULL)"),
        MysqlType::DateTime { .. } | MysqlType::Timestamp { .. } => {
            format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {name})")
        }
        MysqlType::Time { .. } => {
            format!("TIMESTAMPDIFF(MICROSECOND, '2000-01-01', TIMESTAMP('2000-01-01', {name}))")
        }
        MysqlType::Binary { .. }
        | MysqlType::Varbinary { .. }
        | MysqlType::Blob { .. }
        | MysqlType::Geometry
        | MysqlType::Vector { .. } => format!("HEX({name})"),
        MysqlType::Year => format!("{name} + 0"),
        _ => format!("CONCAT({name}, '')"),
    }
}

fn text(literal: &Literal, column: &MysqlColumn) -> Option<String> {
    Some(match literal {
        Literal::Null => return None,
        Literal::Boolean(value) => u8::from(*value).to_string(),
        Literal::Long(value) => value.to_string(),
        Literal::Double(value) => value.to_string(),
        Literal::Decimal(value) => {
            let scale = match column.column_type {
                MysqlType::Decimal { scale, .. } => usize::from(scale),
                _ => 0,
            };
            let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            let sign = if *value < 0 { "-" } else { "" };
            let point = if scale > 0 { "." } else { "" };
            format!("{sign}{whole}{point}{fraction}")
        }
        Literal::String(value) => value.to_string(),
        Literal::Binary(bytes) => bytes.iter().map(|b| format!("{b:02X}")).collect(),
    })
}

pub fn check(
    old: &MysqlTable,
    before: &Values,
    new: &MysqlTable,
    after: &Values,
    changes: &[SchemaChange],
    context: &str,
) {
    let added = |name: &str| {
        changes.iter().find_map(|change| match change {
            SchemaChange::AddColumn { column, existing_rows, .. } if *column.name == *name => {
                Some(existing_rows)
            }
            _ => None,
        })
    };
    let old_name = |name: &str| {
        let renamed = changes.iter().find_map(|change| match change {
            SchemaChange::RenameColumn { from, to } if **to == *name => Some(from.to_string()),
            _ => None,
        });
        renamed.unwrap_or_else(|| name.to_owned())
    };
    for column in &new.columns {
        let name = &*column.name;
        let is = &after[name];
        if let Some(literal) = added(name) {
            let promised = text(literal, column);
            for value in is {
                let same = match (value, &promised) {
                    (Some(value), Some(promised)) => same_text(value, promised, column),
                    (None, None) => true,
                    _ => false,
                };
                assert!(same, "{context}\n{name}: {value:?} where {promised:?} was promised");
            }
            continue;
        }
        let old_name = old_name(name);
        let was = &before[&old_name];
        let from = old.column(&old_name).map(data_type);
        if from.map(|f| f.arrow_type()) == Some(data_type(column).arrow_type()) {
            assert_eq!(was, is, "{context}\n{name} changed its values without a word");
        }
    }
}

fn same_text(value: &str, promised: &str, column: &MysqlColumn) -> bool {
    match column.column_type {
        MysqlType::Float | MysqlType::Double => {
            value.parse::<f64>().ok().map(|v| v as f32)
                == promised.parse::<f64>().ok().map(|v| v as f32)
        }
        _ => value == promised,
    }
}
