//! A table as its source has it, and the changes that the source would log.

use lakeward_core::RowKind;

use super::tests::{Kind, Row};

/// The table that the source has, and the changes that it would log.
pub(super) struct Model {
    pub(super) kind: Kind,
    pub(super) rows: Vec<Row>,
}

impl Model {
    fn same_key(&self, a: &Row, b: &Row) -> bool {
        match self.kind {
            Kind::Narrow => a.0 == b.0,
            Kind::Hashed => a.0 == b.0 && a.1 == b.1,
            Kind::Keyless => false,
        }
    }

    fn key_only(&self, row: &Row) -> Row {
        match self.kind {
            Kind::Narrow => (row.0, None, None),
            Kind::Hashed => (row.0, row.1.clone(), None),
            Kind::Keyless => row.clone(),
        }
    }

    pub(super) fn put(
        &mut self,
        mut row: Row,
        left_out: [bool; 2],
        out: &mut Vec<(RowKind, Row, [bool; 3])>,
    ) {
        if self.kind == Kind::Hashed {
            row.1.get_or_insert_default();
        }
        let found = self.rows.iter().position(|other| self.same_key(other, &row));
        let Some(at) = found else {
            out.push((RowKind::Insert, row.clone(), [false; 3]));
            self.rows.push(row);
            return;
        };
        let mut missing = [false, left_out[0] && self.kind == Kind::Narrow, left_out[1]];
        let mut sent = row.clone();
        if missing[1] {
            (row.1, sent.1) = (self.rows[at].1.clone(), None);
        }
        if missing[2] {
            (row.2, sent.2) = (self.rows[at].2, None);
        }
        if self.kind == Kind::Keyless {
            missing = [false; 3];
        }
        out.push((RowKind::UpdateAfter, sent, missing));
        self.rows[at] = row;
    }

    pub(super) fn remove(&mut self, at: usize, out: &mut Vec<(RowKind, Row, [bool; 3])>) {
        if self.rows.is_empty() {
            return;
        }
        let row = self.rows.swap_remove(at % self.rows.len());
        let unknown = match self.kind {
            Kind::Narrow => [false, true, true],
            Kind::Hashed => [false, false, true],
            Kind::Keyless => [false; 3],
        };
        out.push((RowKind::Delete, self.key_only(&row), unknown));
    }

    pub(super) fn shift(
        &mut self,
        at: usize,
        id: i32,
        partial: bool,
        out: &mut Vec<(RowKind, Row, [bool; 3])>,
    ) {
        if self.rows.is_empty() {
            return;
        }
        let at = at % self.rows.len();
        let old = self.rows[at].clone();
        let new = (id, old.1.clone(), old.2);
        if self.kind == Kind::Keyless {
            out.push((RowKind::UpdateBefore, old, [false; 3]));
            out.push((RowKind::UpdateAfter, new.clone(), [false; 3]));
        } else {
            if self.rows.iter().any(|other| self.same_key(other, &new)) {
                return;
            }
            out.push((RowKind::Delete, self.key_only(&old), [false; 3]));
            let (sent, missing) = match partial {
                true => ((id, new.1.clone(), None), [false, false, true]),
                false => (new.clone(), [false; 3]),
            };
            out.push((RowKind::Insert, sent, missing));
        }
        self.rows[at] = new;
    }
}
