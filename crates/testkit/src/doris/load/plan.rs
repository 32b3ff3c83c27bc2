//! Which field of a body goes to which column of the table, decided before the body is read.

use super::super::schema_change::default_value;
use super::super::table::{Column, DELETE_SIGN, KeysModel, SEQUENCE_COLUMN, Sequence, Table};
use super::super::types::DorisType;
use super::super::value::Value;
use super::condition::Condition;
use super::options::{MergeType, Options, UpdateMode};

/// A field that the body has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// Position among the columns of the table; nothing for a field that only others are made of.
    pub column: Option<usize>,
    pub is_delete_sign: bool,
    pub is_sequence: bool,
}

#[derive(Debug)]
pub struct Plan {
    pub fields: Vec<Field>,
    pub columns: Vec<Column>,
    /// What a column gets that the row does not have; nothing where such a row is refused.
    pub defaults: Vec<Option<Value>>,
    /// Type of the hidden sequence column.
    pub sequence_type: Option<DorisType>,
    pub delete: MergeType,
    pub delete_condition: Option<Condition>,
    pub where_condition: Option<Condition>,
    pub partial: UpdateMode,
    pub strict: bool,
    pub offset_minutes: i32,
}

impl Plan {
    /// # Errors
    /// The message of the load's answer.
    pub fn new(table: &Table, options: &Options, offset_minutes: i32) -> Result<Self, String> {
        let unique = table.model == KeysModel::Unique;
        if options.merge_type != MergeType::Append && !unique {
            return Err("load by MERGE or DELETE is only supported in unique tables.".into());
        }
        let partial = options.update_mode != UpdateMode::Upsert;
        if partial && !table.is_merge_on_write() {
            return Err("Only unique key merge on write support partial update".into());
        }
        if options.update_mode == UpdateMode::FlexibleColumns
            && table.property("enable_unique_key_skip_bitmap_column") != Some("true")
        {
            return Err(format!(
                "Flexible partial update can only support table with skip bitmap hidden column. \
                 But table {} doesn't have it. You can use `ALTER TABLE {} ENABLE FEATURE \
                 \"UPDATE_FLEXIBLE_COLUMNS\";` to add it to the table.",
                table.name, table.name
            ));
        }
        if options.group_commit && table.open_job().is_some() {
            return Err(format!(
                "table {} is in schema change, group commit is blocked",
                table.name
            ));
        }
        let mut fields = match &options.columns {
            Some(list) => named_fields(table, list)?,
            None => all_fields(table, &options.hidden_columns),
        };
        if fields.iter().any(|f| f.is_delete_sign) && !unique {
            return Err(format!("unknown reference column, column={DELETE_SIGN}"));
        }
        plan_sequence(table, options, &mut fields)?;
        let given = (0..table.columns.len())
            .map(|at| fields.iter().any(|f| f.column == Some(at)))
            .collect::<Vec<_>>();
        let mut defaults = Vec::new();
        for (column, given) in table.columns.iter().zip(&given) {
            let default = match &column.default {
                None if !column.nullable => None,
                _ => Some(default_value(column)?),
            };
            if !given && !partial && default.is_none() {
                return Err(format!("Column has no default value. column: {}", column.name));
            }
            if !given && partial && column.is_key {
                return Err(format!(
                    "Partial update should include all key columns, missing: {}",
                    column.name
                ));
            }
            defaults.push(default);
        }
        Ok(Self {
            fields,
            columns: table.columns.clone(),
            defaults,
            sequence_type: match &table.sequence {
                Sequence::Hidden(data_type) => Some(data_type.clone()),
                _ => None,
            },
            delete: options.merge_type,
            delete_condition: condition(options.delete_condition.as_deref())?,
            where_condition: condition(options.where_condition.as_deref())?,
            partial: options.update_mode,
            strict: options.strict_mode,
            offset_minutes: options.offset_minutes.unwrap_or(offset_minutes),
        })
    }
}

fn condition(text: Option<&str>) -> Result<Option<Condition>, String> {
    text.map(Condition::parse).transpose()
}

fn field(table: &Table, name: &str) -> Field {
    Field {
        name: name.to_owned(),
        column: table.position(name),
        is_delete_sign: name.eq_ignore_ascii_case(DELETE_SIGN),
        is_sequence: name.eq_ignore_ascii_case(SEQUENCE_COLUMN),
    }
}

fn all_fields(table: &Table, hidden: &[String]) -> Vec<Field> {
    let visible = table.columns.iter().map(|c| c.name.as_str());
    visible.chain(hidden.iter().map(String::as_str)).map(|name| field(table, name)).collect()
}

/// The header `columns`: names of fields, and columns that are set to a field.
fn named_fields(table: &Table, list: &str) -> Result<Vec<Field>, String> {
    let mut fields: Vec<Field> = Vec::new();
    for item in list.split(',') {
        let (name, expression) = match item.split_once('=') {
            Some((name, expression)) => (unquote(name), Some(unquote(expression))),
            None => (unquote(item), None),
        };
        let Some(source) = expression else {
            fields.push(field(table, name));
            continue;
        };
        let Some(from) = fields.iter_mut().find(|f| f.name.eq_ignore_ascii_case(source)) else {
            return Err(format!(
                "the stand-in does not evaluate the expression in `columns` for {name}"
            ));
        };
        if from.column.is_some() {
            return Err(format!(
                "the stand-in takes a field of `columns` for one column: {source}"
            ));
        }
        let target = field(table, name);
        if target.column.is_none() && !target.is_delete_sign && !target.is_sequence {
            return Err(format!("unknown reference column, column={name}"));
        }
        from.column = target.column;
        from.is_delete_sign |= target.is_delete_sign;
        from.is_sequence |= target.is_sequence;
    }
    Ok(fields)
}

fn unquote(text: &str) -> &str {
    text.trim().trim_matches('`')
}

fn plan_sequence(table: &Table, options: &Options, fields: &mut [Field]) -> Result<(), String> {
    let needed =
        || format!("Table {} has sequence column, need to specify the sequence column", table.name);
    match (&table.sequence, options.sequence_column.as_deref()) {
        (Sequence::None, None) => match fields.iter().any(|f| f.is_sequence) {
            true => Err(format!("unknown reference column, column={SEQUENCE_COLUMN}")),
            false => Ok(()),
        },
        (Sequence::None, Some(_)) => {
            Err(format!("There is no sequence column in the table {}", table.name))
        }
        (Sequence::Hidden(_), Some(name)) => {
            let Some(source) = fields.iter_mut().find(|f| f.name.eq_ignore_ascii_case(name)) else {
                return Err(format!(
                    "There is no sequence column {name} in the columns of the load"
                ));
            };
            source.is_sequence = true;
            Ok(())
        }
        (Sequence::Hidden(_), None) => match options.update_mode {
            UpdateMode::Upsert => Err(needed()),
            // The row keeps the sequence that it has.
            UpdateMode::FixedColumns | UpdateMode::FlexibleColumns => Ok(()),
        },
        (Sequence::Column(id), _) => {
            let given =
                fields.iter().any(|f| f.column.is_some_and(|at| table.columns[at].id == *id));
            let by_default = table
                .columns
                .iter()
                .any(|c| c.id == *id && c.default.as_deref() == Some("CURRENT_TIMESTAMP"));
            match given || by_default || options.update_mode != UpdateMode::Upsert {
                true => Ok(()),
                false => Err(needed()),
            }
        }
    }
}
