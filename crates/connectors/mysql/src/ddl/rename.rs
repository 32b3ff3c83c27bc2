//! RENAME TABLE across captured and other names.
//!
//! A statement is reduced to its net moves: which table ends under which name. What a name's target must do follows from
//! who held the name before and who holds it after:
//!
//! | before → after | |
//! |---|---|
//! | captured → captured name | the target's table is renamed |
//! | an online schema change tool's table → the captured name that it was made for | schema changes in place |
//! | any other table → captured name | the name's content starts over, from a snapshot |
//! | captured → other name | the target's table is dropped |

use std::collections::BTreeMap;

use lakeward_core::{SchemaChange, TableId};

use super::apply::{Altered, is_text_key};
use super::history::{Entry, SchemaHistory};
use super::outcome::{Outcome, Resnapshot, Selection, StatementPlace, TableVersion, event};

/// A table and the name under which it ends, both as the history spells them.
struct Move {
    from: TableId,
    to: TableId,
    /// What was known of it under the old name.
    entry: Option<Entry>,
}

impl SchemaHistory {
    /// `changes` come first in the event of the table that moves: ALTER TABLE … RENAME does both at once.
    pub(super) fn rename(
        &mut self,
        pairs: &[(TableId, TableId)],
        changes: &[SchemaChange],
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        self.rename_with(pairs, Some(changes), place, selection, out);
    }

    /// As `rename`, where the rows of the table that moves must be read anew.
    pub(super) fn rename_anew(
        &mut self,
        pairs: &[(TableId, TableId)],
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        self.rename_with(pairs, None, place, selection, out);
    }

    fn rename_with(
        &mut self,
        pairs: &[(TableId, TableId)],
        changes: Option<&[SchemaChange]>,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let mut moves = self.net_moves(pairs);
        // Everyone leaves before anyone arrives, so that swaps need no order. The counters of versions stay with names.
        let mut held: BTreeMap<TableId, Option<TableVersion>> = BTreeMap::new();
        for m in &mut moves {
            if let Some(entry) = self.entries.get_mut(&self.key(&m.from)) {
                m.entry = Some(entry.clone());
                held.insert(m.from.clone(), entry.in_target());
                entry.clear();
            }
        }
        let renamed: Vec<bool> = moves
            .iter()
            .map(|m| changes.is_some() && self.is_plain_rename(m, &moves, selection))
            .collect();
        for (m, _) in moves.iter().zip(&renamed).filter(|(_, renamed)| !**renamed) {
            let is_refilled = moves.iter().any(|other| other.to == m.from);
            let last = held.get(&m.from).cloned().flatten();
            if selection.captures(&m.from)
                && !(is_refilled && !moved_in(m, &moves, &renamed))
                && let Some(last) = last
            {
                let change = vec![SchemaChange::DropTable];
                out.events.push(event(&m.from, change, Some(&last), None, place));
                out.reshaped.push(m.from.clone());
            }
        }
        let mut waiting: Vec<(Move, bool)> = moves.into_iter().zip(renamed).collect();
        // Renames in the target go one after another: whoever makes room goes first.
        while !waiting.is_empty() {
            let free = waiting.iter().position(|(m, renamed)| {
                !renamed || !waiting.iter().any(|(other, r)| *r && other.from == m.to)
            });
            let (m, renamed) = waiting.remove(free.unwrap_or(0));
            let before = match held.get(&m.to) {
                Some(left) => left.clone(),
                None => self.entry(&m.to).in_target(),
            };
            if renamed {
                self.renamed(m, changes.unwrap_or_default(), place, selection, out);
            } else {
                self.arrived(m, before, place, selection, out);
            }
        }
    }

    /// Which table ends where; those that end where they began are left out.
    fn net_moves(&self, pairs: &[(TableId, TableId)]) -> Vec<Move> {
        let mut now: Vec<(TableId, TableId)> = Vec::new();
        for (from, to) in pairs {
            let (from, to) = (self.spelled(from), self.spelled(to));
            match now.iter_mut().find(|(_, at)| *at == from) {
                Some((_, at)) => *at = to,
                None => now.push((from, to)),
            }
        }
        now.retain(|(from, to)| from != to);
        now.into_iter().map(|(from, to)| Move { from, to, entry: None }).collect()
    }

    /// True where the target's table can simply take the new name: both names are captured, its shape is known, and
    /// neither a ring of names nor a stranger under its old name stands in the way.
    fn is_plain_rename(&self, m: &Move, moves: &[Move], selection: &Selection<'_>) -> bool {
        let is_known = |m: &Move| m.entry.as_ref().is_some_and(|e| e.current.is_some());
        let both =
            |m: &Move| selection.captures(&m.from) && selection.captures(&m.to) && is_known(m);
        if !both(m) {
            return false;
        }
        // Who comes into the old name, and who comes into theirs: all must be plain, and none may be the first again.
        let mut name = &m.from;
        while let Some(next) = moves.iter().find(|other| other.to == *name) {
            if !both(next) || next.from == m.to || next.from == m.from {
                return false;
            }
            name = &next.from;
        }
        true
    }

    fn renamed(
        &mut self,
        m: Move,
        changes: &[SchemaChange],
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let Some(Entry { version, current: Some(current), .. }) = m.entry else { return };
        let entry = self.entry(&m.to);
        // Above both names' counters: the rows carry on under the new name.
        entry.version = entry.version.max(version);
        let after = entry.set((*current.shape).clone(), selection.types);
        let mut changes = changes.to_vec();
        changes.push(SchemaChange::RenameTable { to: m.to.clone() });
        out.events.push(event(&m.from, changes, Some(&current), Some(&after), place));
        out.reshaped.extend([m.from, m.to]);
    }

    /// A table comes under a name in any other way than a plain rename.
    fn arrived(
        &mut self,
        m: Move,
        before: Option<TableVersion>,
        place: &StatementPlace,
        selection: &Selection<'_>,
        out: &mut Outcome,
    ) {
        let known = m.entry.and_then(|e| Some((e.current?, e.lineage)));
        if !selection.captures(&m.to) {
            match known {
                Some((current, _)) => {
                    self.entry(&m.to).set((*current.shape).clone(), selection.types);
                }
                None => {
                    let key = self.key(&m.to);
                    self.entries.remove(&key);
                }
            }
            return;
        }
        let Some((current, lineage)) = known else {
            let entry = self.entry(&m.to);
            let reason = format!("{}, which was not known, is renamed to it", m.from);
            entry.current = before;
            return self.doubt(&m.to, &reason, true, selection, out);
        };
        let is_tool = (selection.is_ghost)(&m.from);
        if let (Some(lineage), Some(before), true) = (lineage, &before, is_tool) {
            let (came, concerns) = lineage.came(&before.shape);
            // What the tool was told about collations is in no statement about this table.
            let mut columns = current.shape.columns.iter();
            let reorders = columns.any(|c| is_text_key(&current.shape, c));
            let altered = Altered { shape: (*current.shape).clone(), came, concerns, reorders };
            return self.step(&m.to, before, altered, place, selection, out);
        }
        let after = self.entry(&m.to).set((*current.shape).clone(), selection.types);
        let change = match before {
            Some(_) => SchemaChange::ResetTable,
            None => SchemaChange::CreateTable,
        };
        out.events.push(event(&m.to, vec![change], before.as_ref(), Some(&after), place));
        out.reshaped.push(m.to.clone());
        let reason = format!("{} was renamed to it", m.from);
        out.resnapshots.push(Resnapshot { table: m.to, reason, reset: true });
    }
}

/// True where the name that `m` leaves is filled by a plain rename: then the target must first drop what is there.
fn moved_in(m: &Move, moves: &[Move], renamed: &[bool]) -> bool {
    moves.iter().zip(renamed).any(|(other, renamed)| *renamed && other.to == m.from)
}
