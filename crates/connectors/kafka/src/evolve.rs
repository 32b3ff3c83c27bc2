//! Changes of tables: what records ask for together, and what a DDL statement does.

use std::sync::Arc;

use hashbrown::HashMap;
use lakeward_core::{Column, ColumnPlace, DataType, Literal, SchemaChange, TableId, TableSchema};

use crate::declared::{Declared, DeclaredCache};
use crate::decode::{DecodeSettings, order_of};
use crate::format::{self, DdlChange, Message, Rows};
use crate::json::{self, Object};
use crate::partition::Chunk;
use crate::reader::Watermark;
use crate::shape::{Order, Origin, Past, Shape, ShapeState, Shapes};
use crate::types::{self, infer};

/// A column that records have.
#[derive(Debug, Clone)]
struct Wanted {
    name: Arc<str>,
    data_type: DataType,
    nullable: bool,
    origin: Origin,
}

/// What records ask of one table.
#[derive(Debug, Clone)]
pub struct Ask {
    table: TableId,
    shape: Option<Arc<Shape>>,
    columns: Vec<Wanted>,
    index: HashMap<Arc<str>, usize>,
    key: Vec<Arc<str>>,
    /// The last declaration at or behind the statement that changed the columns.
    complete: Option<Arc<Declared>>,
}

/// What records ask of all tables.
#[derive(Debug, Default)]
pub struct Survey(HashMap<TableId, Ask>);

impl Survey {
    /// Looks at a run of records up to the first DDL, and to the first row that must wait for one.
    pub fn of_chunk(
        &mut self,
        chunk: &Chunk,
        from: usize,
        shapes: &Shapes,
        settings: &DecodeSettings,
        watermark: Watermark,
        cache: &mut DeclaredCache,
    ) -> bool {
        for record in &chunk.records[from..] {
            let (key, value) = (chunk.key(record), chunk.value(record));
            match format::read(settings.format, key, value, cache) {
                Ok(Message::Rows(rows)) => {
                    let order = order_of(rows.commit_ms, record);
                    let held = shapes.hold(&rows.namespace, &rows.table);
                    if held.is_some_and(|hold| order > hold)
                        || watermark.is_before(order, chunk.there_ms(record))
                    {
                        return false;
                    }
                    self.rows(&rows, order, shapes, settings);
                }
                Ok(Message::Ddl(_)) => return false,
                Ok(Message::Marker) | Err(_) => {}
            }
        }
        true
    }

    fn rows(&mut self, rows: &Rows<'_>, order: Order, shapes: &Shapes, settings: &DecodeSettings) {
        let table = TableId::new(&*rows.namespace, &*rows.table);
        if !settings.rules.is_selected(&table) {
            return;
        }
        let ask = self.0.entry(table).or_insert_with_key(|table| Ask::new(table, shapes));
        if ask.shape.is_none() && ask.key.is_empty() {
            ask.key = match settings.rules.key(&ask.table) {
                Some(key) => key.to_vec(),
                None => rows.key.iter().map(|name| Arc::from(name.as_ref())).collect(),
            };
        }
        let altered = ask.shape.as_ref().and_then(|shape| shape.altered);
        if altered.is_some_and(|altered| order >= altered) {
            ask.complete = rows.declared.clone();
        }
        if let Some(declared) = &rows.declared {
            for column in &declared.0 {
                if ask.has_gone(&column.name, order) {
                    continue;
                }
                ask.column(
                    &column.name,
                    column.data_type,
                    column.nullable,
                    Origin::Message,
                    settings,
                );
            }
        }
        for change in &rows.changes {
            for image in [&change.after, &change.before].into_iter().flatten() {
                ask.image(image, rows.declared.as_deref(), order, settings);
            }
        }
    }

    /// The changes that make all of it fit. Tables that need none are left out.
    pub fn plans(self) -> Vec<Plan> {
        let mut plans: Vec<Plan> = self.0.into_values().filter_map(Ask::plan).collect();
        plans.sort_by(|a, b| a.table.cmp(&b.table));
        plans
    }
}

/// A step of one table, before it has a place in the order of all.
#[derive(Debug, Clone)]
pub struct Plan {
    pub table: TableId,
    pub changes: Vec<SchemaChange>,
    pub before: Option<Arc<TableSchema>>,
    /// `None` when the table is gone, or goes on under the name of `after`.
    pub after: Option<ShapeState>,
}

impl Plan {
    /// A table without a key.
    pub fn create(table: TableId, columns: Vec<Column>) -> Self {
        let origins = vec![Origin::Option; columns.len()];
        let schema = Arc::new(TableSchema::new(1, columns, Vec::new()));
        Self {
            table: table.clone(),
            changes: vec![SchemaChange::CreateTable],
            before: None,
            after: Some(ShapeState::new(table, schema, origins)),
        }
    }
}

impl Ask {
    fn new(table: &TableId, shapes: &Shapes) -> Self {
        let shape = shapes.tables.get(table).cloned();
        let columns: Vec<Wanted> = shape.iter().flat_map(|shape| wanted(shape)).collect();
        let index = columns.iter().enumerate().map(|(i, c)| (c.name.clone(), i)).collect();
        let (table, key) = (table.clone(), Vec::new());
        Self { table, shape, columns, index, key, complete: None }
    }

    /// True for a name that a change at `order` has from before a statement.
    fn has_gone(&self, name: &str, order: Order) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.past(name, order).is_some())
    }

    fn image(
        &mut self,
        image: &Object<'_>,
        declared: Option<&Declared>,
        order: Order,
        settings: &DecodeSettings,
    ) {
        for (at, (name, raw)) in image.0.iter().enumerate() {
            if declared.is_some_and(|d| d.find(name, at).is_some()) || self.has_gone(name, order) {
                continue;
            }
            if settings.rows.placeholders.iter().any(|p| **p == *raw.get()) {
                continue;
            }
            let known = self.index.get(name.as_ref()).map(|i| &self.columns[*i]);
            let accepted = known.is_some_and(|column| is_accepted(column, raw, settings));
            if let (Some(data_type), false) = (infer(raw), accepted) {
                self.column(name, data_type, true, Origin::Inferred, settings);
            } else if known.is_none() && settings.rules.type_of(&self.table, name).is_some() {
                self.column(name, DataType::String, true, Origin::Inferred, settings);
            }
        }
    }

    fn column(
        &mut self,
        name: &str,
        data_type: DataType,
        nullable: bool,
        origin: Origin,
        settings: &DecodeSettings,
    ) {
        if let Some(known) = self.index.get(name) {
            let column = &mut self.columns[*known];
            match (column.origin, origin) {
                (Origin::Option | Origin::Statement, _) | (Origin::Message, Origin::Inferred) => {}
                _ => {
                    column.data_type = types::join(column.data_type, data_type);
                    column.nullable |= nullable;
                }
            }
            return;
        }
        let (data_type, origin) = match settings.rules.type_of(&self.table, name) {
            Some(data_type) => (data_type, Origin::Option),
            None => (data_type, origin),
        };
        let name: Arc<str> = name.into();
        self.index.insert(name.clone(), self.columns.len());
        self.columns.push(Wanted { name, data_type, nullable, origin });
    }

    fn plan(self) -> Option<Plan> {
        let mut columns = self.columns;
        if let Some(complete) = &self.complete {
            columns.retain(|c| complete.find(&c.name, 0).is_some());
        }
        let Some(shape) = self.shape else {
            if columns.is_empty() {
                return None;
            }
            // A key that is not among the columns cannot be one.
            let has = |key: &Arc<str>| columns.iter().any(|c| c.name == *key);
            let key = if self.key.iter().all(has) { self.key } else { Vec::new() };
            return Some(created(self.table, columns, key));
        };
        let settled = self.complete.is_some();
        let order = shape.altered.filter(|_| settled).unwrap_or(Order::FIRST);
        stepped(&shape, columns, shape.schema.primary_key.clone(), order, settled)
    }
}

fn wanted(shape: &Shape) -> impl Iterator<Item = Wanted> {
    shape.schema.columns.iter().zip(&shape.origins).map(|(column, origin)| Wanted {
        name: column.name.clone(),
        data_type: column.data_type,
        nullable: column.nullable,
        origin: *origin,
    })
}

/// True where a column that was inferred takes a value that alone would have shown another type: a number in quotes.
fn is_accepted(
    column: &Wanted,
    raw: &serde_json::value::RawValue,
    settings: &DecodeSettings,
) -> bool {
    let is_number = matches!(column.data_type, DataType::Decimal { .. });
    column.origin == Origin::Inferred && is_number && json::kind(raw) == json::Kind::Text && {
        let decimals = crate::config::DecimalEncoding::Text;
        let dialect = crate::cell::Dialect { decimals, ..settings.rows.dialect.clone() };
        crate::cell::read(raw, &column.data_type, Default::default(), &dialect).is_ok()
    }
}

fn created(table: TableId, columns: Vec<Wanted>, key: Vec<Arc<str>>) -> Plan {
    let origins = columns.iter().map(|c| c.origin).collect();
    let columns = columns.into_iter().map(|c| column_of(c, &key)).collect();
    let schema = Arc::new(TableSchema::new(1, columns, key));
    Plan {
        table: table.clone(),
        changes: vec![SchemaChange::CreateTable],
        before: None,
        after: Some(ShapeState::new(table, schema, origins)),
    }
}

fn column_of(wanted: Wanted, key: &[Arc<str>]) -> Column {
    let nullable = wanted.nullable && !key.contains(&wanted.name);
    Column::new(wanted.name, wanted.data_type, nullable)
}

/// From a table as it is to one with these columns, by a statement at `order`; `None` when it is that already.
fn stepped(
    shape: &Shape,
    columns: Vec<Wanted>,
    key: Vec<Arc<str>>,
    order: Order,
    settles: bool,
) -> Option<Plan> {
    let before = &shape.schema;
    let mut changes = Vec::new();
    let is_back = |past: &Past| columns.iter().any(|c| c.name == past.name);
    let mut past: Vec<Past> = shape.past.iter().filter(|p| !is_back(p)).cloned().collect();
    for old in &before.columns {
        if !columns.iter().any(|c| c.name == old.name) {
            changes.push(SchemaChange::DropColumn { name: old.name.clone() });
            for earlier in past.iter_mut().filter(|p| p.now.as_ref() == Some(&old.name)) {
                earlier.now = None;
            }
            past.push(Past { name: old.name.clone(), now: None, until: order });
        }
    }
    let origins: Vec<Origin> = columns.iter().map(|c| c.origin).collect();
    let columns: Vec<Column> = columns
        .into_iter()
        .map(|wanted| match before.index_of(&wanted.name).map(|i| &before.columns[i]) {
            Some(old) => {
                let (name, from, to) = (wanted.name.clone(), old.data_type, wanted.data_type);
                if from != to {
                    changes.push(SchemaChange::AlterColumnType { name, from, to });
                }
                Column { data_type: to, ..old.clone() }
            }
            None => {
                let column = column_of(wanted, &key);
                let (place, existing_rows) = (ColumnPlace::Last, Literal::Null);
                let column = Column { nullable: true, ..column };
                changes.push(SchemaChange::AddColumn {
                    column: column.clone(),
                    place,
                    existing_rows,
                });
                column
            }
        })
        .collect();
    if key != before.primary_key {
        changes.push(SchemaChange::SetPrimaryKey { columns: key.clone() });
    }
    let altered = shape.altered.filter(|_| !settles);
    if changes.is_empty() {
        return None;
    }
    let mut schema = TableSchema::new(before.version + 1, columns, key);
    schema.comment = before.comment.clone();
    let table = shape.table.clone();
    let after =
        ShapeState { table: table.clone(), schema: Arc::new(schema), origins, altered, past };
    Some(Plan { table, changes, before: Some(before.clone()), after: Some(after) })
}

/// What a DDL does to a table as it is known; `None` when nothing follows from it.
pub fn of_ddl(
    shape: Option<&Shape>,
    table: &TableId,
    change: &DdlChange,
    order: Order,
    settings: &DecodeSettings,
) -> Option<Plan> {
    let rules = &settings.rules;
    if let DdlChange::Columns { declared, key } = change {
        let columns: Vec<Wanted> = declared
            .0
            .iter()
            .map(|c| {
                let own = rules.type_of(table, &c.name);
                let origin = if own.is_some() { Origin::Option } else { Origin::Statement };
                let data_type = own.unwrap_or(c.data_type);
                Wanted { name: c.name.clone(), data_type, nullable: c.nullable, origin }
            })
            .collect();
        let own_key = rules.key(table).map(<[_]>::to_vec);
        let key = own_key.or_else(|| key.clone());
        let Some(shape) = shape else {
            return Some(created(table.clone(), columns, key.unwrap_or_default()));
        };
        let columns = columns.into_iter().map(|mut wanted| {
            // What holds every value of the new type may stay as it is.
            let old =
                shape.schema.index_of(&wanted.name).map(|i| shape.schema.columns[i].data_type);
            if let Some(old) = old.filter(|old| types::join(*old, wanted.data_type) == *old) {
                wanted.data_type = old;
            }
            wanted
        });
        let key = key.unwrap_or_else(|| shape.schema.primary_key.clone());
        return stepped(shape, columns.collect(), key, order, true);
    }
    let shape = shape?;
    let before = Some(shape.schema.clone());
    let table = shape.table.clone();
    let step = |change, after| {
        Some(Plan { table: table.clone(), changes: vec![change], before: before.clone(), after })
    };
    match change {
        DdlChange::Columns { .. } => None,
        DdlChange::Drop => step(SchemaChange::DropTable, None),
        DdlChange::Truncate => step(SchemaChange::TruncateTable, Some(shape.state())),
        DdlChange::Rename { to } if rules.is_selected(to) => {
            let after = ShapeState { table: to.clone(), ..shape.state() };
            step(SchemaChange::RenameTable { to: to.clone() }, Some(after))
        }
        DdlChange::Rename { .. } => step(SchemaChange::DropTable, None),
        DdlChange::Altered { renames } => {
            let mut schema = (*shape.schema).clone();
            let mut changes = Vec::new();
            let renamed = |name: &Arc<str>| renames.iter().find(|(from, _)| from == name);
            for name in schema.columns.iter_mut().map(|c| &mut c.name) {
                if let Some((from, to)) = renamed(name) {
                    changes.push(SchemaChange::RenameColumn { from: from.clone(), to: to.clone() });
                    *name = to.clone();
                }
            }
            let mut past = shape.past.clone();
            for (from, to) in renames {
                for earlier in past.iter_mut().filter(|p| p.now.as_ref() == Some(from)) {
                    earlier.now = Some(to.clone());
                }
                past.retain(|p| p.name != *to);
                past.push(Past { name: from.clone(), now: Some(to.clone()), until: order });
            }
            // Names that were swapped stay names of columns.
            past.retain(|p| schema.index_of(&p.name).is_none());
            for name in &mut schema.primary_key {
                if let Some((_, to)) = renamed(name) {
                    *name = to.clone();
                }
            }
            schema.version += u32::from(!changes.is_empty());
            let after = ShapeState {
                schema: Arc::new(schema),
                altered: Some(order),
                past,
                ..shape.state()
            };
            Some(Plan { table, changes, before, after: Some(after) })
        }
    }
}

#[cfg(test)]
mod tests;
