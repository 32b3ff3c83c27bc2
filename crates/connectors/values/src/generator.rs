//! Random statements that fit the database: same seed, same statements.

use std::sync::Arc;

use lakeward_core::{DataType, Literal, Result, TableId, TableSchema};

use crate::database::show;
use crate::{Database, Random, Row};

/// How often what is done, relative to each other.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    pub inserts: u64,
    pub updates: u64,
    pub deletes: u64,
    /// Updates that change the key.
    pub moves: u64,
    pub columns: u64,
    pub truncates: u64,
    /// DROP and CREATE of tables.
    pub tables: u64,
    pub renames: u64,
    /// Names that change hands: swaps of two tables, and names that another table had before.
    pub swaps: u64,
}

impl Mix {
    pub const ROWS: Mix = Mix {
        inserts: 40,
        updates: 30,
        deletes: 10,
        moves: 5,
        columns: 0,
        truncates: 0,
        tables: 0,
        renames: 0,
        swaps: 0,
    };
    pub const ALL: Mix = Mix { columns: 8, truncates: 3, tables: 2, renames: 2, ..Mix::ROWS };
    pub const NAMES: Mix = Mix { swaps: 25, tables: 6, ..Mix::ALL };
}

impl Mix {
    fn weights(&self) -> [(Kind, u64); 9] {
        [
            (Kind::Insert, self.inserts),
            (Kind::Update, self.updates),
            (Kind::Delete, self.deletes),
            (Kind::Move, self.moves),
            (Kind::Column, self.columns),
            (Kind::Truncate, self.truncates),
            (Kind::Table, self.tables),
            (Kind::Rename, self.renames),
            (Kind::Swap, self.swaps),
        ]
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Insert,
    Update,
    Delete,
    Move,
    Column,
    Truncate,
    Table,
    Rename,
    Swap,
}

pub struct Generator {
    random: Random,
    mix: Mix,
    /// For keys and names that were never used.
    fresh: u64,
}

impl Generator {
    pub fn new(seed: u64, mix: Mix) -> Self {
        Self { random: Random::new(seed), mix, fresh: 0 }
    }

    pub fn set_mix(&mut self, mix: Mix) {
        self.mix = mix;
    }

    /// Runs that many statements, some of them together in a transaction. Gives them back.
    ///
    /// # Errors
    /// A statement that the database refuses, which is a defect of the generator.
    pub fn run(&mut self, database: &Database, statements: usize) -> Result<Vec<String>> {
        let mut script = Vec::with_capacity(statements);
        let mut open = false;
        let mut say = |text: String| {
            script.push(text.clone());
            database.run(&text).map_err(|e| e.with("statement", text))
        };
        for _ in 0..statements {
            if !open && self.random.chance(20) {
                open = true;
                say("begin".into())?;
            }
            say(self.statement(database))?;
            if open && self.random.chance(40) {
                open = false;
                say("commit".into())?;
            }
        }
        say("commit".into())?;
        Ok(script)
    }

    fn statement(&mut self, database: &Database) -> String {
        let tables = database.tables();
        let Some((id, schema)) = self.random.pick(&tables).cloned() else {
            return self.create();
        };
        let rows = database.rows(&id);
        let row = self.random.pick(&rows).cloned();
        match (self.kind(), row) {
            (Kind::Update, Some(row)) => self.update(&id, &schema, &row),
            (Kind::Delete, Some(row)) => {
                format!("delete from {id} where {}", filter(&schema, &row))
            }
            (Kind::Move, Some(row)) if !schema.primary_key.is_empty() => {
                let key = &schema.primary_key[0];
                format!("update {id} set {key} = {} where {}", self.fresh(), filter(&schema, &row))
            }
            (Kind::Column, _) => self.column(&id, &schema),
            (Kind::Truncate, _) => format!("truncate table {id}"),
            (Kind::Table, _) if tables.len() > 1 && self.random.chance(50) => {
                match self.random.chance(50) {
                    true => format!("drop table {id}"),
                    // At once again under the same name.
                    false => format!("drop table {id}; {}", self.create_as(&id.to_string())),
                }
            }
            (Kind::Table, _) => self.create(),
            (Kind::Rename, _) => format!("rename table {id} to t{}", self.fresh()),
            (Kind::Swap, _) => self.swap(&id, &tables),
            _ => self.insert(&id, &schema),
        }
    }

    fn swap(&mut self, id: &TableId, tables: &[(TableId, Arc<TableSchema>)]) -> String {
        let is_taken = |name: &str| tables.iter().any(|(t, _)| *t.name == *name);
        let free: Vec<&str> = ["p", "q", "r"].into_iter().filter(|name| !is_taken(name)).collect();
        let others: Vec<&TableId> = tables.iter().map(|(t, _)| t).filter(|t| *t != id).collect();
        let (free, other) = (self.random.pick(&free).copied(), self.random.pick(&others).copied());
        match (self.random.below(3), free, other) {
            (0, Some(free), _) => format!("rename table {id} to {free}"),
            (1, Some(free), _) => self.create_as(free),
            (_, _, Some(other)) => {
                let between = format!("t{}", self.fresh());
                format!(
                    "rename table {id} to {between}; rename table {other} to {id}; rename table {between} to {other}"
                )
            }
            _ => format!("rename table {id} to t{}", self.fresh()),
        }
    }

    fn kind(&mut self) -> Kind {
        let weights = self.mix.weights();
        let mut at = self.random.below(weights.iter().map(|(_, w)| w).sum());
        for (kind, weight) in weights {
            if at < weight {
                return kind;
            }
            at -= weight;
        }
        Kind::Insert
    }

    fn create(&mut self) -> String {
        let name = format!("t{}", self.fresh());
        self.create_as(&name)
    }

    fn create_as(&mut self, name: &str) -> String {
        let key = match self.random.below(4) {
            0 => "",
            1 => ", primary key (id, a)",
            _ => ", primary key (id)",
        };
        format!("create table {name} (id int, a int not null, b varchar(20), c decimal(9, 2){key})")
    }

    fn insert(&mut self, id: &TableId, schema: &TableSchema) -> String {
        let rows: Vec<String> = (0..1 + self.random.below(4))
            .map(|_| {
                let values: Vec<String> = (schema.columns.iter())
                    .map(|c| match schema.primary_key.first() == Some(&c.name) {
                        true => self.fresh().to_string(),
                        false => self.value(&c.data_type, c.nullable && !is_key(schema, &c.name)),
                    })
                    .collect();
                format!("({})", values.join(", "))
            })
            .collect();
        format!("insert into {id} values {}", rows.join(", "))
    }

    fn update(&mut self, id: &TableId, schema: &TableSchema, row: &Row) -> String {
        let others: Vec<_> =
            schema.columns.iter().filter(|c| !is_key(schema, &c.name)).cloned().collect();
        let Some(column) = self.random.pick(&others).cloned() else {
            return self.insert(id, schema);
        };
        let value = self.value(&column.data_type, column.nullable);
        format!("update {id} set {} = {value} where {}", column.name, filter(schema, row))
    }

    fn column(&mut self, id: &TableId, schema: &TableSchema) -> String {
        let place = match self.random.below(3) {
            0 => " first".into(),
            1 => format!(" after {}", schema.columns[0].name),
            _ => String::new(),
        };
        let any: Vec<Arc<str>> = schema.columns.iter().map(|c| c.name.clone()).collect();
        let plain: Vec<Arc<str>> = any.iter().filter(|c| !is_key(schema, c)).cloned().collect();
        let ints: Vec<Arc<str>> = (schema.columns.iter())
            .filter(|c| c.data_type == DataType::Int)
            .map(|c| c.name.clone())
            .collect();
        let (any, ints) = (self.random.pick(&any).cloned(), self.random.pick(&ints).cloned());
        let fresh = self.fresh();
        match (self.random.below(6), self.random.pick(&plain), any, ints) {
            (0, Some(gone), _, _) if plain.len() > 1 => {
                format!("alter table {id} drop column {gone}")
            }
            (1, _, Some(from), _) => format!("alter table {id} rename column {from} to n{fresh}"),
            (2, _, _, Some(int)) => format!("alter table {id} modify column {int} bigint"),
            (3, ..) => format!("alter table {id} add column n{fresh} int default {fresh}{place}"),
            (4, ..) => format!("alter table {id} add column n{fresh} varchar(9) not null{place}"),
            _ => format!("alter table {id} add column n{fresh} int{place}"),
        }
    }

    fn value(&mut self, data_type: &DataType, nullable: bool) -> String {
        if nullable && self.random.chance(15) {
            return "null".into();
        }
        // Few different values, so that rows without a key are equal now and then.
        let n = self.random.below(5);
        match data_type {
            DataType::Varchar { .. } | DataType::String => format!("'x{n}'"),
            _ => n.to_string(),
        }
    }

    fn fresh(&mut self) -> u64 {
        self.fresh += 1;
        self.fresh
    }
}

fn is_key(schema: &TableSchema, column: &str) -> bool {
    schema.primary_key.iter().any(|k| **k == *column)
}

/// Finds the row by its key, or by all it has.
fn filter(schema: &TableSchema, row: &Row) -> String {
    let keyless = schema.primary_key.is_empty();
    let conditions: Vec<String> = schema
        .columns
        .iter()
        .zip(row)
        .filter(|(c, _)| keyless || is_key(schema, &c.name))
        .map(|(c, value)| match (value, c.data_type) {
            // Decimals are written with their point.
            (Literal::Decimal(v), DataType::Decimal { scale: 2, .. }) => {
                format!("{} = {}.{:02}", c.name, v / 100, v % 100)
            }
            (value, _) => format!("{} = {}", c.name, show(value).to_lowercase()),
        })
        .collect();
    conditions.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_statements_and_the_log_tells_it_all() {
        for seed in 0..50 {
            let run = || {
                let database = Database::default();
                let script = Generator::new(seed, Mix::ALL).run(&database, 120).expect("runs");
                (script, database)
            };
            let (script, database) = run();
            assert_eq!(script, run().0);
            assert_eq!(database.contents(), database.contents_at(database.log_end()), "{seed}");
        }
    }
}
