//! WRITE, UPDATE and DELETE rows: everything up to the row images, which [`crate::rows`] reads.

use std::borrow::Cow;

use lakeward_core::Result;

use super::compressed::inflate;
use super::cursor::{Cursor, malformed};
use super::format::FormatDescription;
use super::header::EventType;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowsKind {
    Insert,
    Update,
    Delete,
}

/// Which columns an image has: one bit each, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnBits<'a> {
    bits: &'a [u8],
    count: usize,
}

impl<'a> ColumnBits<'a> {
    fn parse(cursor: &mut Cursor<'a>, count: usize) -> Result<Self> {
        Ok(Self { bits: cursor.take(count.div_ceil(8))?, count })
    }

    #[inline]
    pub fn has(&self, column: usize) -> bool {
        column < self.count && self.bits.get(column / 8).is_some_and(|b| b >> (column % 8) & 1 == 1)
    }

    /// How many columns the image has.
    pub fn present(&self) -> usize {
        (0..self.count).filter(|c| self.has(*c)).count()
    }

    pub fn is_full(&self) -> bool {
        self.present() == self.count
    }
}

/// Rows of one table, changed by one statement in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsEvent<'a> {
    pub kind: RowsKind,
    pub table_id: u64,
    /// The statement ends here: the table ids it used are forgotten.
    pub ends_statement: bool,
    /// After-images may hold JSON as a list of changes to the before-image.
    pub partial_json: bool,
    pub column_count: usize,
    /// For UPDATE and DELETE the columns before, for INSERT those after.
    pub columns: ColumnBits<'a>,
    /// The columns after an UPDATE.
    pub columns_after: Option<ColumnBits<'a>>,
    pub(crate) rows: Cow<'a, [u8]>,
}

/// A statement that ended without rows: only the flag in it counts.
pub const NO_TABLE: u64 = 0xff_ffff;

impl<'a> RowsEvent<'a> {
    pub(super) fn parse(
        event_type: EventType,
        body: &'a [u8],
        format: &FormatDescription,
    ) -> Result<Self> {
        use EventType as T;
        let (kind, second_version, compressed) = match event_type {
            T::WRITE_ROWS_V1 => (RowsKind::Insert, false, false),
            T::UPDATE_ROWS_V1 => (RowsKind::Update, false, false),
            T::DELETE_ROWS_V1 => (RowsKind::Delete, false, false),
            T::WRITE_ROWS => (RowsKind::Insert, true, false),
            T::UPDATE_ROWS | T::PARTIAL_UPDATE_ROWS => (RowsKind::Update, true, false),
            T::DELETE_ROWS => (RowsKind::Delete, true, false),
            T::MARIADB_WRITE_ROWS_COMPRESSED_V1 => (RowsKind::Insert, false, true),
            T::MARIADB_UPDATE_ROWS_COMPRESSED_V1 => (RowsKind::Update, false, true),
            T::MARIADB_DELETE_ROWS_COMPRESSED_V1 => (RowsKind::Delete, false, true),
            T::MARIADB_WRITE_ROWS_COMPRESSED => (RowsKind::Insert, true, true),
            T::MARIADB_UPDATE_ROWS_COMPRESSED => (RowsKind::Update, true, true),
            T::MARIADB_DELETE_ROWS_COMPRESSED => (RowsKind::Delete, true, true),
            _ => return Err(malformed("it is not a rows event")),
        };
        let mut cursor = Cursor::new(body);
        let table_id = cursor.uint(format.table_id_bytes(event_type))?;
        let flags = cursor.u16()?;
        if second_version {
            // Partition and NDB information; its length counts itself.
            let extra = usize::from(cursor.u16()?);
            cursor
                .skip(extra.checked_sub(2).ok_or_else(|| malformed("its extra data is short"))?)?;
        }
        let column_count = cursor.packed_len()?;
        let columns = ColumnBits::parse(&mut cursor, column_count)?;
        let columns_after = match kind {
            RowsKind::Update => Some(ColumnBits::parse(&mut cursor, column_count)?),
            _ => None,
        };
        let rows = if compressed {
            Cow::Owned(inflate(cursor.rest())?)
        } else {
            Cow::Borrowed(cursor.rest())
        };
        Ok(Self {
            kind,
            table_id,
            ends_statement: flags & 1 != 0,
            partial_json: event_type == T::PARTIAL_UPDATE_ROWS,
            column_count,
            columns,
            columns_after,
            rows,
        })
    }

    /// What its rows take, unpacked.
    pub fn size_bytes(&self) -> usize {
        self.rows.len()
    }

    /// It names no table and has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
