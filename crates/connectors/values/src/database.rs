//! The model of a source database: runs statements, keeps a log of what they did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use lakeward_core::{
    Column, ColumnPlace, DataType, DdlId, Error, Literal, Position, Result, RowKind, SchemaChange,
    SchemaEvent, TableId, TableSchema,
};

use crate::batch::coerce;
use crate::sql::{Change, Clause, Comparison, Filter, Statement, parse};

/// One value per column, in the order of the table's schema.
pub type Row = Vec<Literal>;

/// Rows by table, each as column names and values in text, in order: what two databases are compared by.
pub type Contents = BTreeMap<String, Vec<BTreeMap<String, String>>>;

/// One entry of a transaction. Its position is `(number of the transaction, index of the row or event in it)`.
#[derive(Debug, Clone)]
pub enum Event {
    Row { table: TableId, schema: Arc<TableSchema>, kind: RowKind, row: Row },
    Ddl(SchemaEvent),
}

/// What was committed together. The first one has number 1.
pub type Transaction = Arc<Vec<Event>>;

#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) rows: Vec<Row>,
}

/// Clones are one database.
#[derive(Clone, Default)]
pub struct Database {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    tables: BTreeMap<TableId, Table>,
    /// Also of tables that are gone: a version is never given twice.
    versions: BTreeMap<TableId, u32>,
    log: Vec<Transaction>,
    open: Option<Vec<Event>>,
}

impl Database {
    /// Runs statements, separated by semicolons. Each is a transaction of its own unless `begin` and `commit` say otherwise.
    ///
    /// # Errors
    /// `Config` for what is not understood or names what is not there. Statements before it stay.
    pub fn run(&self, statements: &str) -> Result<()> {
        let statements = parse(statements)?;
        let mut inner = self.inner();
        statements.into_iter().try_for_each(|s| inner.run(s))
    }

    /// How many transactions the log holds.
    pub fn log_end(&self) -> u64 {
        self.inner().log.len() as u64
    }

    /// The transaction with that number.
    pub fn transaction(&self, number: u64) -> Option<Transaction> {
        let index = number.checked_sub(1)?;
        self.inner().log.get(usize::try_from(index).ok()?).cloned()
    }

    pub fn contents(&self) -> Contents {
        contents_of(&self.inner().tables)
    }

    /// What the database was after that many transactions.
    pub fn contents_at(&self, transactions: u64) -> Contents {
        contents_of(&self.tables_at(transactions))
    }

    pub fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        self.inner().tables.iter().map(|(id, t)| (id.clone(), t.schema.clone())).collect()
    }

    pub(crate) fn rows(&self, table: &TableId) -> Vec<Row> {
        self.inner().tables.get(table).map(|t| t.rows.clone()).unwrap_or_default()
    }

    pub(crate) fn tables_at(&self, transactions: u64) -> BTreeMap<TableId, Table> {
        let inner = self.inner();
        let mut tables = BTreeMap::new();
        for event in inner.log.iter().take(transactions as usize).flat_map(|t| t.iter()) {
            replay(&mut tables, event);
        }
        tables
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn contents_of(tables: &BTreeMap<TableId, Table>) -> Contents {
    let of_table = |table: &Table| {
        let mut rows: Vec<BTreeMap<String, String>> = table
            .rows
            .iter()
            .map(|row| {
                let names = table.schema.columns.iter().map(|c| c.name.to_string());
                names.zip(row.iter().map(show)).collect()
            })
            .collect();
        rows.sort();
        rows
    };
    tables.iter().map(|(id, t)| (id.to_string(), of_table(t))).collect()
}

/// A value as text, the same for equal values.
pub(crate) fn show(value: &Literal) -> String {
    match value {
        Literal::Null => "NULL".into(),
        Literal::Boolean(v) => v.to_string(),
        Literal::Long(v) => v.to_string(),
        Literal::Double(v) => v.to_string(),
        Literal::Decimal(v) => v.to_string(),
        Literal::String(v) => format!("'{v}'"),
        Literal::Binary(v) => format!("{v:x?}"),
    }
}

/// What an event of the log does to the tables. DDL that gives rows new values is followed row by row in `run`; here the
/// schema event alone must be enough, as it must be for a sink.
fn replay(tables: &mut BTreeMap<TableId, Table>, event: &Event) {
    match event {
        Event::Row { table, kind, row, .. } => {
            let Some(table) = tables.get_mut(table) else { return };
            match kind {
                RowKind::Insert | RowKind::UpdateAfter => {
                    let key = table.schema.key_indices();
                    let same = |r: &Row| !key.is_empty() && key.iter().all(|k| r[*k] == row[*k]);
                    match table.rows.iter_mut().find(|r| same(r)) {
                        Some(found) => found.clone_from(row),
                        None => table.rows.push(row.clone()),
                    }
                }
                RowKind::Delete | RowKind::UpdateBefore => {
                    if let Some(at) = table.rows.iter().position(|r| r == row) {
                        table.rows.remove(at);
                    }
                }
            }
        }
        Event::Ddl(event) => {
            let Some(after) = &event.after else {
                tables.remove(&event.table);
                return;
            };
            let mut table = tables
                .remove(&event.table)
                .unwrap_or_else(|| Table { schema: after.clone(), rows: Vec::new() });
            let mut name = event.table.clone();
            for change in &event.changes {
                match change {
                    SchemaChange::RenameTable { to } => name = to.clone(),
                    SchemaChange::TruncateTable => table.rows.clear(),
                    _ => {}
                }
            }
            let moved = table.rows.iter().map(|row| reshape(row, event, &table.schema)).collect();
            tables.insert(name, Table { schema: after.clone(), rows: moved });
        }
    }
}

/// A row of the schema before a DDL, as the schema after it has it.
fn reshape(row: &Row, event: &SchemaEvent, before: &TableSchema) -> Row {
    let Some(after) = &event.after else { return Row::new() };
    let mut named: BTreeMap<Arc<str>, Literal> =
        before.columns.iter().map(|c| c.name.clone()).zip(row.iter().cloned()).collect();
    let mut renamed = Vec::new();
    for change in &event.changes {
        if let SchemaChange::RenameColumn { from, to } = change {
            renamed.extend(named.remove(from).map(|value| (to.clone(), value)));
        }
    }
    named.extend(renamed);
    for change in &event.changes {
        if let SchemaChange::AddColumn { column, existing_rows, .. } = change {
            named.insert(column.name.clone(), existing_rows.clone());
        }
    }
    after.columns.iter().map(|c| named.remove(&c.name).unwrap_or(Literal::Null)).collect()
}

impl Inner {
    fn run(&mut self, statement: Statement) -> Result<()> {
        match statement {
            Statement::Begin => {
                self.open.get_or_insert_default();
                Ok(())
            }
            Statement::Commit => {
                self.commit();
                Ok(())
            }
            Statement::Insert { table, columns, rows } => self.insert(&table, columns, rows),
            Statement::Update { table, set, filter } => self.update(&table, &set, &filter),
            Statement::Delete { table, filter } => self.delete(&table, &filter),
            ddl => {
                self.commit();
                let (id, changes, after) = self.ddl(ddl)?;
                let before = self.tables.get(&id).map(|t| t.schema.clone());
                let position = Position { hi: self.log.len() as u64 + 1, lo: 0 };
                let event = Event::Ddl(SchemaEvent {
                    id: DdlId { table: id.clone(), position },
                    table: id,
                    changes,
                    before,
                    after: after.map(Arc::new),
                    position,
                    commit_ms: commit_ms(position.hi),
                });
                replay(&mut self.tables, &event);
                self.log.push(Arc::new(vec![event]));
                Ok(())
            }
        }
    }

    /// The table that the statement is about, the changes, and the schema after it.
    fn ddl(
        &mut self,
        statement: Statement,
    ) -> Result<(TableId, Vec<SchemaChange>, Option<TableSchema>)> {
        match statement {
            Statement::CreateTable { table, columns, key } => {
                if self.tables.contains_key(&table) {
                    return Err(Error::config("the table exists already").with("table", table));
                }
                let version = self.next_version(&table);
                let schema = TableSchema::new(version, columns, key);
                Ok((table, vec![SchemaChange::CreateTable], Some(schema)))
            }
            Statement::DropTable { table } => {
                self.table(&table)?;
                Ok((table, vec![SchemaChange::DropTable], None))
            }
            Statement::Truncate { table } => {
                let schema = (*self.table(&table)?.schema).clone();
                Ok((table, vec![SchemaChange::TruncateTable], Some(schema)))
            }
            Statement::RenameTable { from, to } => {
                if self.tables.contains_key(&to) {
                    return Err(Error::config("the table exists already").with("table", to));
                }
                let schema = (*self.table(&from)?.schema).clone();
                self.versions.insert(to.clone(), schema.version);
                Ok((from, vec![SchemaChange::RenameTable { to }], Some(schema)))
            }
            Statement::Alter { table, clauses } => {
                let mut schema = (*self.table(&table)?.schema).clone();
                let mut changes = Vec::new();
                for clause in clauses {
                    changes.push(alter(&mut schema, clause)?);
                }
                schema.version = self.next_version(&table);
                Ok((table, changes, Some(schema)))
            }
            other => Err(Error::bug("not a DDL statement").with("statement", format!("{other:?}"))),
        }
    }

    fn next_version(&mut self, table: &TableId) -> u32 {
        let version = self.versions.entry(table.clone()).or_insert(0);
        *version += 1;
        *version
    }

    fn insert(
        &mut self,
        id: &TableId,
        columns: Option<Vec<Arc<str>>>,
        rows: Vec<Vec<Literal>>,
    ) -> Result<()> {
        let schema = self.table(id)?.schema.clone();
        let names = columns
            .unwrap_or_else(|| schema.columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>());
        let mut changes = Vec::new();
        for values in rows {
            if values.len() != names.len() {
                return Err(Error::config("a row has another number of values than columns")
                    .with("table", id));
            }
            let mut row: Row =
                schema.columns.iter().map(|c| filled(c, c.default.clone())).collect();
            for (name, value) in names.iter().zip(values) {
                let at = column(&schema, name)?;
                row[at] = coerce(value, &schema.columns[at].data_type);
            }
            changes.push((RowKind::Insert, row));
        }
        self.apply(id, &schema, changes)
    }

    fn update(&mut self, id: &TableId, set: &[(Arc<str>, Change)], filter: &Filter) -> Result<()> {
        let table = self.table(id)?;
        let schema = table.schema.clone();
        let key = schema.key_indices();
        let mut changes = Vec::new();
        for old in matching(table, filter)? {
            let mut new = old.clone();
            for (name, change) in set {
                let at = column(&schema, name)?;
                new[at] = match (change, &old[at]) {
                    (Change::To(value), _) => coerce(value.clone(), &schema.columns[at].data_type),
                    (Change::Plus(plus), Literal::Long(value)) => Literal::Long(value + plus),
                    (Change::Plus(_), other) => other.clone(),
                };
            }
            if new == old {
                continue;
            }
            if key.is_empty() {
                changes.push((RowKind::UpdateBefore, old));
                changes.push((RowKind::UpdateAfter, new));
            } else if key.iter().all(|k| old[*k] == new[*k]) {
                changes.push((RowKind::UpdateAfter, new));
            } else {
                changes.push((RowKind::Delete, old));
                changes.push((RowKind::Insert, new));
            }
        }
        self.apply(id, &schema, changes)
    }

    fn delete(&mut self, id: &TableId, filter: &Filter) -> Result<()> {
        let table = self.table(id)?;
        let schema = table.schema.clone();
        let gone = matching(table, filter)?.into_iter().map(|row| (RowKind::Delete, row)).collect();
        self.apply(id, &schema, gone)
    }

    fn apply(
        &mut self,
        id: &TableId,
        schema: &Arc<TableSchema>,
        changes: Vec<(RowKind, Row)>,
    ) -> Result<()> {
        let key = schema.key_indices();
        let mut keys: BTreeSet<String> = BTreeSet::new();
        if !key.is_empty() {
            keys = self.table(id)?.rows.iter().map(|row| key_of(row, &key)).collect();
        }
        for (kind, row) in &changes {
            let of_row = key_of(row, &key);
            let fresh = match kind {
                _ if key.is_empty() => true,
                RowKind::Insert => keys.insert(of_row),
                RowKind::Delete => keys.remove(&of_row),
                RowKind::UpdateAfter | RowKind::UpdateBefore => keys.contains(&of_row),
            };
            if !fresh {
                return Err(Error::config("a statement breaks the primary key").with("table", id));
            }
        }
        let events: Vec<Event> = changes
            .into_iter()
            .map(|(kind, row)| Event::Row { table: id.clone(), schema: schema.clone(), kind, row })
            .collect();
        for event in &events {
            replay(&mut self.tables, event);
        }
        match &mut self.open {
            Some(open) => open.extend(events),
            None if events.is_empty() => {}
            None => self.log.push(Arc::new(events)),
        }
        Ok(())
    }

    fn commit(&mut self) {
        if let Some(events) = self.open.take().filter(|e| !e.is_empty()) {
            self.log.push(Arc::new(events));
        }
    }

    fn table(&self, id: &TableId) -> Result<&Table> {
        self.tables.get(id).ok_or_else(|| Error::config("no such table").with("table", id))
    }
}

/// Transactions are a second apart.
pub(crate) fn commit_ms(transaction: u64) -> i64 {
    1_600_000_000_000 + transaction as i64 * 1000
}

pub(crate) fn key_of(row: &Row, key: &[usize]) -> String {
    key.iter().map(|k| show(&row[*k])).collect::<Vec<_>>().join("|")
}

fn alter(schema: &mut TableSchema, clause: Clause) -> Result<SchemaChange> {
    Ok(match clause {
        Clause::Add { column: new, place } => {
            if schema.index_of(&new.name).is_some() {
                return Err(Error::config("the column exists already").with("column", new.name));
            }
            let at = match &place {
                ColumnPlace::First => 0,
                ColumnPlace::After(name) => column(schema, name)? + 1,
                ColumnPlace::Last => schema.columns.len(),
            };
            let existing_rows = filled(&new, new.default.clone());
            schema.columns.insert(at, new.clone());
            SchemaChange::AddColumn { column: new, place, existing_rows }
        }
        Clause::Drop(name) => {
            let at = column(schema, &name)?;
            if schema.primary_key.contains(&name) {
                return Err(Error::config("a key column cannot be dropped").with("column", name));
            }
            schema.columns.remove(at);
            SchemaChange::DropColumn { name }
        }
        Clause::Rename { from, to } => {
            if schema.index_of(&to).is_some() {
                return Err(Error::config("the column exists already").with("column", to));
            }
            let at = column(schema, &from)?;
            schema.columns[at].name = to.clone();
            for key in schema.primary_key.iter_mut().filter(|k| **k == from) {
                *key = to.clone();
            }
            SchemaChange::RenameColumn { from, to }
        }
        Clause::Modify(new) => {
            let at = column(schema, &new.name)?;
            let from = schema.columns[at].data_type;
            if !widens(from, new.data_type) {
                return Err(Error::config("only a widening of a column is understood")
                    .with("column", new.name));
            }
            schema.columns[at].data_type = new.data_type;
            SchemaChange::AlterColumnType { name: new.name, from, to: new.data_type }
        }
    })
}

fn widens(from: DataType, to: DataType) -> bool {
    use DataType::{BigInt, Int, SmallInt, String, TinyInt, Varchar};
    match (from, to) {
        (TinyInt, SmallInt | Int | BigInt) | (SmallInt, Int | BigInt) | (Int, BigInt) => true,
        (Varchar { length: a }, Varchar { length: b }) => b >= a,
        (Varchar { .. }, String) => true,
        _ => false,
    }
}

/// What a row has in a column that it does not name.
fn filled(column: &Column, default: Option<Literal>) -> Literal {
    match default {
        Some(value) => coerce(value, &column.data_type),
        None if column.nullable => Literal::Null,
        None => match column.data_type {
            DataType::Varchar { .. } | DataType::String => Literal::String("".into()),
            DataType::Boolean => Literal::Boolean(false),
            ref other => coerce(Literal::Long(0), other),
        },
    }
}

fn column(schema: &TableSchema, name: &str) -> Result<usize> {
    schema.index_of(name).ok_or_else(|| Error::config("no such column").with("column", name))
}

fn matching(table: &Table, filter: &Filter) -> Result<Vec<Row>> {
    let mut conditions = Vec::new();
    for (name, comparison, value) in filter {
        let at = column(&table.schema, name)?;
        conditions.push((
            at,
            *comparison,
            coerce(value.clone(), &table.schema.columns[at].data_type),
        ));
    }
    let holds = |row: &Row| {
        conditions.iter().all(|(at, comparison, value)| match comparison {
            Comparison::Equal => row[*at] == *value,
            Comparison::Less => order(&row[*at], value) == Some(std::cmp::Ordering::Less),
            Comparison::Greater => order(&row[*at], value) == Some(std::cmp::Ordering::Greater),
        })
    };
    Ok(table.rows.iter().filter(|row| holds(row)).cloned().collect())
}

fn order(a: &Literal, b: &Literal) -> Option<std::cmp::Ordering> {
    match (a, b) {
        (Literal::Long(a), Literal::Long(b)) => Some(a.cmp(b)),
        (Literal::Double(a), Literal::Double(b)) => a.partial_cmp(b),
        (Literal::Decimal(a), Literal::Decimal(b)) => Some(a.cmp(b)),
        (Literal::String(a), Literal::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_do_what_they_say_and_the_log_replays_to_the_same() {
        let database = Database::default();
        database
            .run(
                "create table t (id int primary key, v int, name varchar(9));
                 insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
                 begin; update t set v = v + 1 where id < 3; delete from t where id = 3; commit;
                 alter table t add column c int not null default 7 after id, rename column v to w;
                 update t set id = 9 where id = 1;
                 create table k (a int, b int); insert into k values (1, 1), (1, 1), (2, 2);
                 update k set b = 5 where a = 1; delete from k where a = 2;
                 rename table k to l; truncate table l; insert into l values (4, 4)",
            )
            .unwrap();
        let contents = database.contents();
        let row = |row: &[(&str, &str)]| -> BTreeMap<String, String> {
            row.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
        };
        assert_eq!(
            contents["shop.t"],
            [
                row(&[("id", "2"), ("c", "7"), ("w", "21"), ("name", "'b'")]),
                row(&[("id", "9"), ("c", "7"), ("w", "11"), ("name", "'a'")]),
            ]
        );
        assert_eq!(contents["shop.l"], [row(&[("a", "4"), ("b", "4")])]);
        assert!(!contents.contains_key("shop.k"));
        assert_eq!(database.contents_at(database.log_end()), contents);
        assert_eq!(database.contents_at(2)["shop.t"].len(), 3);
        assert_eq!(database.transaction(3).unwrap().len(), 3);
        for wrong in ["insert into t (id) values (2)", "insert into no values (1)", "drop table k"]
        {
            assert!(database.run(wrong).is_err(), "{wrong}");
        }
        assert_eq!(database.contents(), contents);
    }
}
