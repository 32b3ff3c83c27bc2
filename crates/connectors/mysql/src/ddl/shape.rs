//! What CREATE and ALTER make of a table's columns, as the servers do it.

use std::sync::Arc;

use lakeward_core::ColumnPlace;

use super::statement::{
    AlterClause, AlterTable, ColumnDefinition, DeclaredCharset, DeclaredType, TableDefinition,
};
use super::{Flavor, SqlMode};
use crate::model::{MysqlColumn, MysqlDefault, MysqlTable, MysqlType};

/// A table after an ALTER, with where its columns come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Reshaped {
    pub table: MysqlTable,
    /// For each column of `table`: its index before, and whether the statement declares it anew; `None` where it is new.
    pub origins: Vec<Option<Origin>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub index: usize,
    /// By CHANGE or MODIFY.
    pub redeclared: bool,
}

impl TableDefinition {
    /// The table, where its database has this default character set.
    pub fn resolve(&self, database_charset: &Arc<str>, mode: &SqlMode) -> MysqlTable {
        let charset = self.charset.clone().unwrap_or_else(|| database_charset.clone());
        let mut columns: Vec<MysqlColumn> =
            self.columns.iter().map(|column| column.resolve(&charset, mode)).collect();
        if self.system_versioned && !self.columns.iter().any(|column| column.row_period) {
            columns.extend(hidden_row_period());
        }
        promote_first_timestamp(columns.iter_mut().map(|column| (column, true)), mode);
        let mut table = MysqlTable {
            columns,
            primary_key: self.primary_key.clone(),
            charset,
            comment: self.comment.clone(),
        };
        settle_key(&mut table);
        table
    }
}

impl AlterTable {
    /// The table after this statement.
    ///
    /// # Errors
    /// What the statement asks for cannot be done to `before`, so `before` is not what the server had.
    pub fn reshape(
        &self,
        before: &MysqlTable,
        database_charset: &Arc<str>,
        mode: &SqlMode,
    ) -> Result<Reshaped, String> {
        let mut draft = Draft::new(self, before, database_charset, mode);
        // MySQL makes a TINYBLOB of most of them.
        let may_shrink = mode.flavor == Flavor::MySql && draft.convert_to.is_some();
        if may_shrink && self.redeclares_blobs() {
            return Err("it converts the table and redeclares a BLOB or TEXT at once".into());
        }
        draft.existing_columns(before)?;
        draft.new_and_moved_columns(before)?;
        draft.primary_key = self.primary_key(before);
        draft.versioning();
        draft.finish(before)
    }

    fn redeclares_blobs(&self) -> bool {
        self.clauses.iter().any(|clause| {
            let AlterClause::ChangeColumn { column, .. } = clause else { return false };
            matches!(
                column.column_type,
                DeclaredType::Text { .. }
                    | DeclaredType::TextOf { .. }
                    | DeclaredType::Settled(MysqlType::Blob { .. })
            )
        })
    }

    fn primary_key(&self, before: &MysqlTable) -> Vec<Arc<str>> {
        let mut key = before.primary_key.clone();
        for clause in &self.clauses {
            match clause {
                AlterClause::DropPrimaryKey => key.clear(),
                AlterClause::DropColumn { name, .. } => key.retain(|k| !same(k, name)),
                _ => {}
            }
        }
        let renames: Vec<(&Arc<str>, &Arc<str>)> = self
            .clauses
            .iter()
            .filter_map(|clause| match clause {
                AlterClause::ChangeColumn { from, column, .. } => Some((from, &column.name)),
                AlterClause::RenameColumn { from, to, .. } => Some((from, to)),
                _ => None,
            })
            .collect();
        for part in &mut key {
            if let Some((_, to)) = renames.iter().find(|(from, _)| same(part, from)) {
                *part = Arc::clone(to);
            }
        }
        for clause in &self.clauses {
            match clause {
                AlterClause::AddPrimaryKey { columns, if_not_exists } => {
                    if key.is_empty() || !if_not_exists {
                        key.clone_from(columns);
                    }
                }
                AlterClause::AddColumn { column, .. }
                | AlterClause::ChangeColumn { column, .. }
                    if column.primary_key =>
                {
                    key = vec![column.name.clone()];
                }
                _ => {}
            }
        }
        key
    }
}

struct Slot {
    column: MysqlColumn,
    origin: Option<Origin>,
}

struct Draft<'a> {
    alter: &'a AlterTable,
    mode: &'a SqlMode,
    slots: Vec<Slot>,
    primary_key: Vec<Arc<str>>,
    charset: Arc<str>,
    convert_to: Option<Arc<str>>,
}

impl<'a> Draft<'a> {
    fn new(
        alter: &'a AlterTable,
        before: &MysqlTable,
        database_charset: &Arc<str>,
        mode: &'a SqlMode,
    ) -> Self {
        let (mut default, mut convert_to) = (None, None);
        for clause in &alter.clauses {
            match clause {
                AlterClause::ConvertCharset { charset: to } => {
                    convert_to = Some(to.clone().unwrap_or_else(|| database_charset.clone()));
                }
                AlterClause::DefaultCharset { charset: to } => default = Some(to.clone()),
                _ => {}
            }
        }
        let charset =
            default.or_else(|| convert_to.clone()).unwrap_or_else(|| before.charset.clone());
        Self { alter, mode, slots: Vec::new(), primary_key: Vec::new(), charset, convert_to }
    }

    /// Drops, renames and changes each column where it stands.
    fn existing_columns(&mut self, before: &MysqlTable) -> Result<(), String> {
        for clause in &self.alter.clauses {
            let (name, if_exists) = match clause {
                AlterClause::DropColumn { name, if_exists }
                | AlterClause::ChangeColumn { from: name, if_exists, .. }
                | AlterClause::RenameColumn { from: name, if_exists, .. }
                | AlterClause::SetDefault { name, if_exists, .. } => (name, *if_exists),
                AlterClause::SetInvisible { name, .. } => (name, false),
                _ => continue,
            };
            if before.index_of(name).is_none() && !if_exists {
                return Err(format!("it changes column {name}, which is not known"));
            }
        }
        for (index, old) in before.columns.iter().enumerate() {
            let Some(slot) = self.existing_column(index, old) else { continue };
            self.slots.push(slot);
        }
        Ok(())
    }

    fn existing_column(&self, index: usize, old: &MysqlColumn) -> Option<Slot> {
        let mut column = old.clone();
        let mut redeclared = false;
        for clause in &self.alter.clauses {
            match clause {
                AlterClause::DropColumn { name, .. } if same(name, &old.name) => return None,
                AlterClause::ChangeColumn { from, column: definition, .. }
                    if same(from, &old.name) =>
                {
                    redeclared = true;
                    column = self.resolve(definition);
                }
                AlterClause::RenameColumn { from, to, .. } if same(from, &old.name) => {
                    column.name = to.clone();
                }
                _ => {}
            }
        }
        // Wherever these stand, they come after the column's own declaration.
        for clause in &self.alter.clauses {
            match clause {
                AlterClause::SetDefault { name, default, .. }
                    if same(name, &old.name) && !column.generated =>
                {
                    column.default = default.resolve(&column, self.mode);
                }
                AlterClause::SetInvisible { name, invisible } if same(name, &old.name) => {
                    column.invisible = *invisible;
                }
                _ => {}
            }
        }
        if let (Some(charset), false) = (&self.convert_to, redeclared) {
            convert(&mut column, charset);
        }
        Some(Slot { column, origin: Some(Origin { index, redeclared }) })
    }

    /// In the statement's order, each placed among those that stand already.
    fn new_and_moved_columns(&mut self, before: &MysqlTable) -> Result<(), String> {
        for clause in &self.alter.clauses {
            match clause {
                AlterClause::AddColumn { column, place, if_not_exists } => {
                    let name = &column.name;
                    let is_there = self.position(name).is_some();
                    if *if_not_exists && (is_there || before.index_of(name).is_some()) {
                        continue;
                    }
                    if is_there {
                        return Err(format!("it adds column {name}, which is known already"));
                    }
                    let slot = Slot { column: self.resolve(column), origin: None };
                    self.insert(slot, place.as_ref())?;
                }
                AlterClause::ChangeColumn { column, place: Some(place), .. } => {
                    let Some(at) = self.position(&column.name) else { continue };
                    let slot = self.slots.remove(at);
                    self.insert(slot, Some(place))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn insert(&mut self, slot: Slot, place: Option<&ColumnPlace>) -> Result<(), String> {
        let at = match place {
            None | Some(ColumnPlace::Last) => self.slots.len(),
            Some(ColumnPlace::First) => 0,
            Some(ColumnPlace::After(after)) => {
                1 + self
                    .position(after)
                    .ok_or_else(|| format!("it puts a column after {after}, which is not known"))?
            }
        };
        self.slots.insert(at, slot);
        Ok(())
    }

    /// CONVERT TO also overrides the character sets that the statement itself gives to columns.
    fn resolve(&self, definition: &ColumnDefinition) -> MysqlColumn {
        let is_binary = definition.charset == DeclaredCharset::Named("binary".into());
        match &self.convert_to {
            Some(charset) if !is_binary => {
                let charset = DeclaredCharset::Named(charset.clone());
                let definition = ColumnDefinition { charset, ..definition.clone() };
                definition.resolve(&self.charset, self.mode)
            }
            _ => definition.resolve(&self.charset, self.mode),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| same(&slot.column.name, name))
    }

    /// MariaDB keeps the hidden columns of a versioned table at the end.
    fn versioning(&mut self) {
        let (hidden, mut slots): (Vec<Slot>, Vec<Slot>) = std::mem::take(&mut self.slots)
            .into_iter()
            .partition(|s| is_hidden_row_period(&s.column));
        let mut versioned = !hidden.is_empty();
        for clause in &self.alter.clauses {
            if let AlterClause::SystemVersioning { add } = clause {
                versioned = *add;
            }
        }
        let declares_period = self.alter.clauses.iter().any(
            |clause| matches!(clause, AlterClause::AddColumn { column, .. } if column.row_period),
        );
        if versioned && !hidden.is_empty() {
            slots.extend(hidden);
        } else if versioned && !declares_period {
            let new = hidden_row_period();
            slots.extend(new.into_iter().map(|column| Slot { column, origin: None }));
        }
        self.slots = slots;
    }

    fn finish(mut self, before: &MysqlTable) -> Result<Reshaped, String> {
        let declared = self.slots.iter_mut().map(|slot| {
            let is_declared = slot.origin.is_none_or(|origin| origin.redeclared);
            (&mut slot.column, is_declared)
        });
        promote_first_timestamp(declared, self.mode);
        let mut comment = before.comment.clone();
        for clause in &self.alter.clauses {
            if let AlterClause::Comment { comment: new } = clause {
                comment.clone_from(new);
            }
        }
        let (columns, origins) = self.slots.into_iter().map(|s| (s.column, s.origin)).unzip();
        let mut table =
            MysqlTable { columns, primary_key: self.primary_key, charset: self.charset, comment };
        settle_key(&mut table);
        for (i, column) in table.columns.iter().enumerate() {
            if table.index_of(&column.name) != Some(i) {
                return Err(format!("it makes two columns of the name {}", column.name));
            }
        }
        if let Some(missing) = table.primary_key.iter().find(|k| table.index_of(k).is_none()) {
            return Err(format!("its primary key names column {missing}, which is not known"));
        }
        Ok(Reshaped { table, origins })
    }
}

/// Column names are compared without regard to case.
pub fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!a.is_ascii() && a.to_lowercase() == b.to_lowercase())
}

/// Key columns are NOT NULL and are spelled as the columns are.
fn settle_key(table: &mut MysqlTable) {
    for part in &mut table.primary_key {
        let Some(column) = table.columns.iter_mut().find(|c| same(&c.name, part)) else { continue };
        *part = column.name.clone();
        column.nullable = false;
        if column.default == MysqlDefault::Null {
            column.default = MysqlDefault::None;
        }
    }
}

/// Without `explicit_defaults_for_timestamp` the first TIMESTAMP of a table maintains itself, where nothing else is said,
/// and others that are declared take the zero date.
fn promote_first_timestamp<'c>(
    columns: impl Iterator<Item = (&'c mut MysqlColumn, bool)>,
    mode: &SqlMode,
) {
    if mode.explicit_defaults_for_timestamp {
        return;
    }
    let timestamps = columns.filter(|(c, _)| matches!(c.column_type, MysqlType::Timestamp { .. }));
    for (i, (column, is_declared)) in timestamps.enumerate() {
        let says_nothing =
            !column.nullable && !column.generated && column.default == MysqlDefault::None;
        if is_declared && says_nothing {
            column.default = match i {
                0 => MysqlDefault::Now,
                _ => MysqlDefault::Text("0000-00-00 00:00:00".into()),
            };
        }
    }
}

/// CONVERT TO CHARACTER SET. TEXT grows where the new character set needs more bytes for as many characters.
fn convert(column: &mut MysqlColumn, to: &Arc<str>) {
    use super::charsets::max_bytes_per_char as width;
    let declared = match &column.column_type {
        MysqlType::Char { length, .. } => DeclaredType::Char { length: *length },
        MysqlType::Varchar { length, .. } => DeclaredType::Varchar { length: *length },
        MysqlType::Text { length_bytes, charset } if width(to) > width(charset) => {
            let bytes = (1u64 << (8 * length_bytes.clamp(&1, &4))) - 1;
            DeclaredType::TextOf { length: bytes / u64::from(width(charset)) }
        }
        MysqlType::Text { length_bytes, .. } => DeclaredType::Text { length_bytes: *length_bytes },
        // Binary columns stay so, and so do the ENUMs and SETs of binary labels.
        MysqlType::Enum { charset, .. } | MysqlType::Set { charset, .. }
            if **charset == *"binary" =>
        {
            return;
        }
        MysqlType::Enum { labels, .. } => DeclaredType::Enum { labels: labels.clone() },
        MysqlType::Set { labels, .. } => DeclaredType::Set { labels: labels.clone() },
        _ => return,
    };
    column.column_type = declared.settle(to);
}

/// The columns that MariaDB adds to a table WITH SYSTEM VERSIONING that declares none. Row events hold them.
fn hidden_row_period() -> [MysqlColumn; 2] {
    ["row_start", "row_end"].map(|name| MysqlColumn {
        name: name.into(),
        column_type: MysqlType::Timestamp { fsp: 6 },
        nullable: false,
        default: MysqlDefault::None,
        auto_increment: false,
        generated: true,
        virtual_column: false,
        invisible: true,
        compressed: false,
        float_scale: None,
        comment: None,
    })
}

fn is_hidden_row_period(column: &MysqlColumn) -> bool {
    column.generated && column.invisible && matches!(&*column.name, "row_start" | "row_end")
}
