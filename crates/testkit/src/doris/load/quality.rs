//! Rows of texts become rows of values, or are refused with a reason.

use super::super::table::{Column, LoadedRow, LoadedRows};
use super::super::types::DorisType;
use super::super::value::{Unfit, Value};
use super::body::RawRow;
use super::options::{MergeType, UpdateMode};
use super::plan::Plan;

/// Reasons that are kept; the rest is counted.
const KEPT_REASONS: usize = 100;

#[derive(Debug, Default)]
pub struct Checked {
    pub loaded: LoadedRows,
    pub total: usize,
    pub filtered: usize,
    pub unselected: usize,
    pub reasons: Vec<String>,
}

impl Checked {
    pub fn refuse(&mut self, reason: String) {
        self.filtered += 1;
        if self.reasons.len() < KEPT_REASONS {
            self.reasons.push(reason);
        }
    }
}

/// Goes through the rows of a body.
pub fn check(rows: Vec<RawRow>, plan: &Plan) -> Checked {
    let mut checked = Checked { total: rows.len(), ..Checked::default() };
    checked.loaded.columns = plan.columns.iter().map(|c| c.id).collect();
    checked.loaded.types = plan.columns.iter().map(|c| c.data_type.clone()).collect();
    checked.loaded.partial = plan.partial != UpdateMode::Upsert;
    for row in rows {
        let fields = match fields(row, plan) {
            Ok(fields) => fields,
            Err(why) => {
                checked.refuse(format!("Reason: {why}"));
                continue;
            }
        };
        let text_of = |name: &str| {
            let at = plan.fields.iter().position(|f| f.name.eq_ignore_ascii_case(name))?;
            fields[at].as_ref()?.as_deref()
        };
        if plan.where_condition.as_ref().is_some_and(|c| !c.holds(text_of)) {
            checked.unselected += 1;
            continue;
        }
        let deleted = match plan.delete {
            MergeType::Append => None,
            MergeType::Delete => Some(true),
            MergeType::Merge => {
                Some(plan.delete_condition.as_ref().is_some_and(|c| c.holds(text_of)))
            }
        };
        match values(&fields, plan, deleted) {
            Ok(row) => checked.loaded.rows.push(row),
            Err(why) => {
                let source: Vec<&str> = fields
                    .iter()
                    .map(|f| f.as_ref().and_then(|f| f.as_deref()).unwrap_or("\\N"))
                    .collect();
                checked.refuse(format!("Reason: {why}. src line [{}]; ", source.join("\t")));
            }
        }
    }
    checked
}

/// One text for each field of the plan; the outer `None` where the row does not have the field.
fn fields(row: RawRow, plan: &Plan) -> Result<Vec<Option<Option<String>>>, String> {
    match row {
        RawRow::Broken(why) => Err(why),
        RawRow::Positions(texts) => {
            if texts.len() != plan.fields.len() {
                let word = if texts.len() > plan.fields.len() { "more" } else { "less" };
                return Err(format!(
                    "actual column number in csv file is  {word} than  schema column number.actual \
                     number: {}, schema column number: {}",
                    texts.len(),
                    plan.fields.len()
                ));
            }
            Ok(texts.into_iter().map(Some).collect())
        }
        RawRow::Names(mut named) => {
            let mut texts = Vec::with_capacity(plan.fields.len());
            for field in &plan.fields {
                let at = named.iter().rposition(|(name, _)| *name == field.name);
                texts.push(at.map(|at| named[at].1.take()));
            }
            if texts.iter().all(Option::is_none) {
                return Err("All fields is null, this is a invalid row.".to_owned());
            }
            Ok(texts)
        }
    }
}

fn values(
    fields: &[Option<Option<String>>],
    plan: &Plan,
    deleted: Option<bool>,
) -> Result<LoadedRow, String> {
    let mut values: Vec<Option<Value>> = vec![None; plan.columns.len()];
    let mut sequence = None;
    let mut sign = false;
    for (field, text) in plan.fields.iter().zip(fields) {
        let Some(text) = text else { continue };
        if field.is_delete_sign {
            let value = convert(text.as_deref(), &DorisType::TinyInt, plan)?;
            sign = !matches!(value, Value::Null | Value::Integer(0));
        }
        if let (true, Some(data_type)) = (field.is_sequence, &plan.sequence_type) {
            sequence = Some(convert(text.as_deref(), data_type, plan)?);
        }
        if let Some(at) = field.column {
            let column = &plan.columns[at];
            let value = convert(text.as_deref(), &column.data_type, plan)
                .map_err(|why| format!("column_name[{}], {why}", column.name))?;
            if value.is_null() && !column.nullable {
                return Err(no_null(column));
            }
            values[at] = Some(value);
        }
    }
    let partial = plan.partial != UpdateMode::Upsert;
    for (at, column) in plan.columns.iter().enumerate() {
        if values[at].is_some() || (partial && !column.is_key) {
            continue;
        }
        values[at] = Some(plan.defaults[at].clone().ok_or_else(|| no_null(column))?);
    }
    if !partial && plan.sequence_type.is_some() && sequence.is_none() {
        sequence = Some(Value::Null);
    }
    Ok(LoadedRow { values, sequence, deleted: deleted.unwrap_or(sign) })
}

fn no_null(column: &Column) -> String {
    format!(
        "column_name[{}], null value for not null column, type={}",
        column.name, column.data_type
    )
}

/// What cannot be converted is NULL, or refused in strict mode; what breaks a limit is refused.
fn convert(text: Option<&str>, as_type: &DorisType, plan: &Plan) -> Result<Value, String> {
    let Some(text) = text else { return Ok(Value::Null) };
    match Value::parse(text, as_type, plan.offset_minutes) {
        Ok(value) => Ok(value),
        Err(Unfit::Limit(why)) => Err(why),
        Err(Unfit::Conversion(why)) if plan.strict => Err(why),
        Err(Unfit::Conversion(_)) => Ok(Value::Null),
    }
}
