//! What becomes of a schema change on its way to the sink.

use std::sync::Arc;

use lakeward_core::{Column, Error, Literal, Result, SchemaChange, SchemaEvent, TableSchema};

use crate::projection::Projection;

/// `pipeline.schema.change.behavior`, in Flink CDC's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SchemaChangeBehavior {
    /// Any change of an existing table fails the table.
    Exception,
    /// The sink follows the source in everything; what it cannot express fails the table. The default here.
    #[default]
    Evolve,
    /// As `Evolve`, but rows are fitted to the old columns where the sink cannot follow.
    TryEvolve,
    /// The sink never loses data: dropped columns stay, a changed type becomes a new column beside the renamed old one,
    /// TRUNCATE and DROP are not passed on.
    Lenient,
    /// The sink keeps the columns it was created with.
    Ignore,
}

#[derive(Debug, Clone, Default)]
pub struct SchemaPolicy {
    pub behavior: SchemaChangeBehavior,
    /// Kinds or parts of kinds (`drop.column`, `drop`, `column`); empty means all.
    pub include: Vec<String>,
    /// As `include`; wins over it.
    pub exclude: Vec<String>,
}

/// What is to be done for one event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    /// What the sink is to apply; `None` when nothing reaches it.
    pub event: Option<SchemaEvent>,
    /// The sink's columns afterwards and where their values come from; `None` when the table is gone.
    pub sink: Option<Projection>,
}

impl SchemaPolicy {
    fn passes(&self, change: &SchemaChange) -> bool {
        let kind = change.kind();
        let named = |list: &[String]| list.iter().any(|w| matches_kind(w, kind));
        if matches!(change, SchemaChange::CreateTable) {
            return !named(&self.exclude);
        }
        (self.include.is_empty() || named(&self.include)) && !named(&self.exclude)
    }

    /// Decides about `event`, given what the sink has now.
    ///
    /// # Errors
    /// `SchemaIncompatible` when the policy forbids the change.
    pub(crate) fn decide(
        &self,
        event: &SchemaEvent,
        sink: Option<&Projection>,
    ) -> Result<Decision> {
        let starts_over = event
            .changes
            .iter()
            .any(|c| matches!(c, SchemaChange::CreateTable | SchemaChange::ResetTable));
        let Some(sink) = sink.filter(|_| !starts_over) else {
            return self.start(event, sink);
        };
        if self.behavior == SchemaChangeBehavior::Exception {
            return Err(Error::schema_incompatible(
                "the source table was changed and schema.change.behavior is exception; set another behavior or \
                 resnapshot the table",
            )
            .with("table", &event.table)
            .with("change", event.changes.first().map_or("none", SchemaChange::kind)));
        }
        let all_pass = event.changes.iter().all(|c| self.passes(c));
        let follows =
            matches!(self.behavior, SchemaChangeBehavior::Evolve | SchemaChangeBehavior::TryEvolve);
        if follows && all_pass && sink.is_identity() {
            return Ok(Decision {
                event: Some(event.clone()),
                sink: event.after.clone().map(Projection::identity),
            });
        }
        self.rewrite(event, sink)
    }

    /// A table appears or starts over: the sink takes the source's columns. Under `lenient` and `ignore` a table that the
    /// sink still has goes on with what it has.
    fn start(&self, event: &SchemaEvent, sink: Option<&Projection>) -> Result<Decision> {
        let Some(after) = &event.after else {
            // The end of a table that the sink may have from an attempt that this one knows nothing of.
            let follows = matches!(
                self.behavior,
                SchemaChangeBehavior::Evolve | SchemaChangeBehavior::TryEvolve
            );
            let passes = follows && event.changes.iter().all(|c| self.passes(c));
            return Ok(Decision { event: passes.then(|| event.clone()), sink: None });
        };
        let creates = event.changes.iter().any(|c| matches!(c, SchemaChange::CreateTable));
        let keeps =
            matches!(self.behavior, SchemaChangeBehavior::Lenient | SchemaChangeBehavior::Ignore);
        if let Some(sink) = sink.filter(|s| creates && keeps && *s.schema() != **after) {
            let mut rewriting = Rewriting::new(sink);
            rewriting.adopt(after, self.behavior == SchemaChangeBehavior::Lenient);
            return Ok(rewriting.decision(event));
        }
        let passes = event.changes.iter().all(|c| self.passes(c));
        Ok(Decision {
            event: passes.then(|| event.clone()),
            sink: Some(Projection::identity(after.clone())),
        })
    }

    /// The event as the sink is to see it, where it does not simply follow.
    fn rewrite(&self, event: &SchemaEvent, sink: &Projection) -> Result<Decision> {
        let lenient = self.behavior == SchemaChangeBehavior::Lenient;
        let ignore = self.behavior == SchemaChangeBehavior::Ignore;
        let mut rewriting = Rewriting::new(sink);
        let renames: Vec<_> = event
            .changes
            .iter()
            .filter_map(|c| match c {
                SchemaChange::RenameColumn { from, to } => Some((from.clone(), to.clone())),
                _ => None,
            })
            .collect();
        let rename_passes = !ignore
            && event
                .changes
                .iter()
                .filter(|c| matches!(c, SchemaChange::RenameColumn { .. }))
                .all(|c| self.passes(c));
        rewriting.rename(&renames, rename_passes);
        for change in &event.changes {
            let passes = !ignore && self.passes(change);
            match change {
                SchemaChange::RenameColumn { .. } => {}
                SchemaChange::DropTable | SchemaChange::TruncateTable if lenient || !passes => {}
                SchemaChange::DropTable => {
                    rewriting.changes.push(change.clone());
                    return Ok(Decision { event: Some(rewriting.event(event, None)), sink: None });
                }
                SchemaChange::AddColumn { column, existing_rows, .. } if passes => {
                    rewriting.add(column, existing_rows.clone());
                }
                SchemaChange::AddColumn { .. } => {}
                SchemaChange::DropColumn { name } => rewriting.drop(name, passes && !lenient),
                SchemaChange::AlterColumnType { name, .. } if passes => {
                    let to = event
                        .after
                        .as_ref()
                        .and_then(|s| s.index_of(name).map(|i| s.columns[i].clone()));
                    if let Some(to) = to {
                        rewriting.change_type(&to, lenient);
                    }
                }
                SchemaChange::AlterColumnType { .. } => {}
                SchemaChange::AlterColumnNullable { name, nullable } => {
                    if passes && (*nullable || !lenient) {
                        rewriting.nullable(name, *nullable);
                    }
                }
                SchemaChange::MoveColumn { .. } | SchemaChange::CommentTable { .. } if !passes => {}
                SchemaChange::CommentColumn { .. } | SchemaChange::SetPrimaryKey { .. }
                    if !passes => {}
                // Order means nothing once the two sides differ.
                SchemaChange::MoveColumn { .. } => {}
                SchemaChange::CommentColumn { name, comment } => {
                    rewriting.comment(name, comment.clone());
                }
                SchemaChange::SetPrimaryKey { columns } => rewriting.primary_key(columns)?,
                other => rewriting.changes.push(other.clone()),
            }
        }
        Ok(rewriting.decision(event))
    }
}

/// A word names a kind when it is the kind or one of its parts: `drop` names `drop.column` and `drop.table`.
fn matches_kind(word: &str, kind: &str) -> bool {
    kind == word
        || kind.split('.').any(|part| part == word)
        || kind.starts_with(&format!("{word}."))
}

/// The sink's side of a table while an event is being fitted to it.
struct Rewriting {
    before: Arc<TableSchema>,
    schema: TableSchema,
    /// For each column of `schema` the source column that fills it.
    from: Vec<Option<Arc<str>>>,
    changes: Vec<SchemaChange>,
}

impl Rewriting {
    fn new(sink: &Projection) -> Self {
        let before = sink.schema_arc();
        Self { schema: (*before).clone(), from: sink.sources(), before, changes: Vec::new() }
    }

    fn filled_by(&self, source: &str) -> Option<usize> {
        self.from.iter().position(|f| f.as_deref() == Some(source))
    }

    fn rename(&mut self, renames: &[(Arc<str>, Arc<str>)], passes: bool) {
        let moved: Vec<_> = renames
            .iter()
            .filter_map(|(from, to)| self.filled_by(from).map(|i| (i, to.clone())))
            .collect();
        for (i, to) in moved {
            self.from[i] = Some(to.clone());
            if passes && self.schema.columns[i].name != to {
                let from = self.schema.columns[i].name.clone();
                self.rename_in_key(&from, &to);
                self.schema.columns[i].name = to.clone();
                self.changes.push(SchemaChange::RenameColumn { from, to });
            }
        }
    }

    fn rename_in_key(&mut self, from: &str, to: &Arc<str>) {
        for key in self.schema.primary_key.iter_mut().filter(|k| &***k == from) {
            *key = to.clone();
        }
    }

    fn add(&mut self, column: &Column, existing_rows: Literal) {
        let mut column = column.clone();
        column.name = self.free_name(&column.name);
        column.nullable = true;
        let source = column.name.clone();
        self.changes.push(SchemaChange::AddColumn {
            column: column.clone(),
            place: lakeward_core::ColumnPlace::Last,
            existing_rows,
        });
        self.schema.columns.push(column);
        self.from.push(Some(source));
    }

    /// Moves a column that has this name out of the way, so that the name is free for a new one.
    fn free_name(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(i) = self.schema.index_of(name) {
            let old: Arc<str> = self.unused(&format!("{name}_v{}", self.schema.version)).into();
            self.changes.push(SchemaChange::RenameColumn { from: name.clone(), to: old.clone() });
            self.rename_in_key(&name.clone(), &old);
            self.schema.columns[i].name = old;
            self.from[i] = None;
        }
        name.clone()
    }

    fn unused(&self, wanted: &str) -> String {
        let mut name = wanted.to_string();
        while self.schema.index_of(&name).is_some() {
            name.push('_');
        }
        name
    }

    fn drop(&mut self, source: &str, passes: bool) {
        let Some(i) = self.filled_by(source) else { return };
        if passes {
            let name = self.schema.columns.remove(i).name;
            self.from.remove(i);
            self.changes.push(SchemaChange::DropColumn { name });
        } else {
            self.from[i] = None;
            let name = self.schema.columns[i].name.clone();
            self.set_nullable(i, name, true);
        }
    }

    fn change_type(&mut self, to: &Column, lenient: bool) {
        let Some(i) = self.filled_by(&to.name) else { return };
        let from = self.schema.columns[i].data_type;
        if from == to.data_type {
            return;
        }
        if lenient && !from.widens_to(&to.data_type) {
            let name = self.schema.columns[i].name.clone();
            self.from[i] = None;
            let mut column = to.clone();
            column.name = name;
            self.set_nullable(i, column.name.clone(), true);
            self.add(&column, Literal::Null);
        } else {
            self.schema.columns[i].data_type = to.data_type;
            let name = self.schema.columns[i].name.clone();
            self.changes.push(SchemaChange::AlterColumnType { name, from, to: to.data_type });
        }
    }

    fn nullable(&mut self, source: &str, nullable: bool) {
        if let Some(i) = self.filled_by(source) {
            let name = self.schema.columns[i].name.clone();
            self.set_nullable(i, name, nullable);
        }
    }

    fn set_nullable(&mut self, i: usize, name: Arc<str>, nullable: bool) {
        if self.schema.columns[i].nullable != nullable {
            self.schema.columns[i].nullable = nullable;
            self.changes.push(SchemaChange::AlterColumnNullable { name, nullable });
        }
    }

    fn comment(&mut self, source: &str, comment: Option<Arc<str>>) {
        if let Some(i) = self.filled_by(source) {
            let name = self.schema.columns[i].name.clone();
            self.schema.columns[i].comment = comment.clone();
            self.changes.push(SchemaChange::CommentColumn { name, comment });
        }
    }

    fn primary_key(&mut self, columns: &[Arc<str>]) -> Result<()> {
        let mut names = Vec::new();
        for source in columns {
            let i = self.filled_by(source).ok_or_else(|| {
                Error::schema_incompatible(
                    "the new primary key has a column that the sink table does not follow",
                )
                .with("column", source)
            })?;
            names.push(self.schema.columns[i].name.clone());
        }
        self.schema.primary_key = names.clone();
        self.changes.push(SchemaChange::SetPrimaryKey { columns: names });
        Ok(())
    }

    /// Takes on the columns of a table that was created anew under the same name, without losing any of the old ones.
    fn adopt(&mut self, source: &TableSchema, grow: bool) {
        for i in 0..self.from.len() {
            let kept = self.from[i].as_deref().is_some_and(|f| source.index_of(f).is_some());
            if !kept {
                self.from[i] = None;
            }
        }
        for column in &source.columns {
            match self.schema.index_of(&column.name) {
                Some(i) => {
                    self.from[i] = Some(column.name.clone());
                    if grow {
                        self.change_type(column, true);
                    }
                }
                None if grow => self.add(column, Literal::Null),
                None => {}
            }
        }
    }

    fn event(&self, event: &SchemaEvent, after: Option<Arc<TableSchema>>) -> SchemaEvent {
        SchemaEvent {
            table: event.table.clone(),
            id: event.id.clone(),
            changes: self.changes.clone(),
            before: Some(self.before.clone()),
            after,
            position: event.position,
            commit_ms: event.commit_ms,
        }
    }

    fn decision(mut self, event: &SchemaEvent) -> Decision {
        if !self.changes.is_empty()
            && let Some(after) = &event.after
        {
            self.schema.version = after.version;
        }
        let schema = Arc::new(self.schema.clone());
        let event = (!self.changes.is_empty()).then(|| self.event(event, Some(schema.clone())));
        Decision { event, sink: Some(Projection::new(schema, self.from)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lakeward_core::{ColumnPlace, DataType, DdlId, Position, TableId};

    fn schema(version: u32, columns: &[(&str, DataType)]) -> Arc<TableSchema> {
        let columns = columns.iter().map(|(n, t)| Column::new(*n, *t, false)).collect();
        Arc::new(TableSchema::new(version, columns, vec!["id".into()]))
    }

    fn event(
        changes: Vec<SchemaChange>,
        before: &Arc<TableSchema>,
        after: Option<&Arc<TableSchema>>,
    ) -> SchemaEvent {
        let table = TableId::new("d", "t");
        let position = Position { hi: 1, lo: 1 };
        SchemaEvent {
            id: DdlId { table: table.clone(), position },
            table,
            changes,
            before: Some(before.clone()),
            after: after.cloned(),
            position,
            commit_ms: 0,
        }
    }

    fn decide(behavior: SchemaChangeBehavior, event: &SchemaEvent, sink: &Projection) -> Decision {
        SchemaPolicy { behavior, ..SchemaPolicy::default() }.decide(event, Some(sink)).unwrap()
    }

    fn names(p: &Projection) -> Vec<&str> {
        p.schema().columns.iter().map(|c| &*c.name).collect()
    }

    const INT: DataType = DataType::Int;

    #[test]
    fn evolve_follows_and_exception_refuses() {
        let before = schema(0, &[("id", INT), ("a", INT)]);
        let after = schema(1, &[("id", INT)]);
        let drop =
            event(vec![SchemaChange::DropColumn { name: "a".into() }], &before, Some(&after));
        let sink = Projection::identity(before.clone());
        let decision = decide(SchemaChangeBehavior::Evolve, &drop, &sink);
        assert_eq!(decision.event, Some(drop.clone()));
        assert_eq!(decision.sink, Some(Projection::identity(after)));
        let exception =
            SchemaPolicy { behavior: SchemaChangeBehavior::Exception, ..SchemaPolicy::default() };
        assert_eq!(
            exception.decide(&drop, Some(&sink)).unwrap_err().kind(),
            lakeward_core::ErrorKind::SchemaIncompatible
        );
    }

    #[test]
    fn lenient_keeps_dropped_columns_and_sets_changed_types_beside() {
        let before = schema(0, &[("id", INT), ("a", INT), ("b", DataType::String)]);
        let after = schema(1, &[("id", INT), ("b", INT)]);
        let changes = vec![
            SchemaChange::DropColumn { name: "a".into() },
            SchemaChange::AlterColumnType { name: "b".into(), from: DataType::String, to: INT },
        ];
        let sink = Projection::identity(before.clone());
        let decision =
            decide(SchemaChangeBehavior::Lenient, &event(changes, &before, Some(&after)), &sink);
        let sink = decision.sink.unwrap();
        assert_eq!(names(&sink), ["id", "a", "b_v0", "b"]);
        assert_eq!(
            sink.sources(),
            [Some("id".into()), None, None, Some("b".into())] as [Option<Arc<str>>; 4]
        );
        assert_eq!(sink.schema().columns[3].data_type, INT);
        for swallowed in [SchemaChange::TruncateTable, SchemaChange::DropTable] {
            let after = (swallowed == SchemaChange::TruncateTable).then_some(&after);
            assert_eq!(
                decide(
                    SchemaChangeBehavior::Lenient,
                    &event(vec![swallowed], &before, after),
                    &sink
                )
                .event,
                None
            );
        }
    }

    #[test]
    fn a_table_that_only_the_sink_may_know_is_dropped_where_drops_are_followed() {
        use SchemaChangeBehavior as B;
        let before = schema(0, &[("id", INT)]);
        let drop = event(vec![SchemaChange::DropTable], &before, None);
        for behavior in [B::Evolve, B::TryEvolve, B::Lenient, B::Ignore, B::Exception] {
            let policy = SchemaPolicy { behavior, ..SchemaPolicy::default() };
            let passed = policy.decide(&drop, None).unwrap().event;
            assert_eq!(
                passed.is_some(),
                matches!(behavior, B::Evolve | B::TryEvolve),
                "{behavior:?}"
            );
        }
        let kept = SchemaPolicy { exclude: vec!["drop.table".into()], ..SchemaPolicy::default() };
        assert_eq!(kept.decide(&drop, None).unwrap().event, None);
    }

    #[test]
    fn ignore_follows_renames_under_the_old_name() {
        let before = schema(0, &[("id", INT), ("a", INT)]);
        let after = schema(1, &[("id", INT), ("z", INT), ("n", INT)]);
        let column = after.columns[2].clone();
        let changes = vec![
            SchemaChange::RenameColumn { from: "a".into(), to: "z".into() },
            SchemaChange::AddColumn {
                column,
                place: ColumnPlace::Last,
                existing_rows: Literal::Null,
            },
        ];
        let sink = Projection::identity(before.clone());
        let decision =
            decide(SchemaChangeBehavior::Ignore, &event(changes, &before, Some(&after)), &sink);
        assert_eq!(decision.event, None);
        let sink = decision.sink.unwrap();
        assert_eq!(names(&sink), ["id", "a"]);
        assert_eq!(sink.sources()[1], Some("z".into()));
    }

    #[test]
    fn excluded_kinds_are_matched_by_part() {
        let policy = SchemaPolicy { exclude: vec!["drop".into()], ..SchemaPolicy::default() };
        assert!(!policy.passes(&SchemaChange::DropTable));
        assert!(!policy.passes(&SchemaChange::DropColumn { name: "a".into() }));
        assert!(policy.passes(&SchemaChange::TruncateTable));
        let policy = SchemaPolicy { include: vec!["column".into()], ..SchemaPolicy::default() };
        assert!(policy.passes(&SchemaChange::DropColumn { name: "a".into() }));
        assert!(policy.passes(&SchemaChange::CreateTable));
        assert!(!policy.passes(&SchemaChange::TruncateTable));
    }
}
