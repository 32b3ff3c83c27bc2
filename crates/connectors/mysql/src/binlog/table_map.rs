//! TABLE_MAP: which table a number stands for, how its columns are stored, and what
//! `binlog_row_metadata` adds.

use lakeward_core::Result;

use super::cursor::{Cursor, be_uint, malformed};
use super::format::FormatDescription;
use super::header::EventType;

/// Type numbers as TABLE_MAP has them.
pub mod code {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    pub const TYPED_ARRAY: u8 = 20;
    /// MariaDB's COMPRESSED columns.
    pub const BLOB_COMPRESSED: u8 = 140;
    pub const VARCHAR_COMPRESSED: u8 = 141;
    pub const VECTOR: u8 = 242;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const TINY_BLOB: u8 = 249;
    pub const MEDIUM_BLOB: u8 = 250;
    pub const LONG_BLOB: u8 = 251;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// A table as its row events store it. Zero-copy: most table maps repeat an earlier one and are
/// only compared with it ([`TableMap::definition`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap<'a> {
    pub table_id: u64,
    pub database: &'a str,
    pub table: &'a str,
    pub column_count: usize,
    types: &'a [u8],
    metadata: &'a [u8],
    optional: &'a [u8],
    definition: &'a [u8],
    is_mariadb: bool,
}

/// How one column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnMetadata {
    pub type_code: u8,
    pub metadata: u16,
}

impl<'a> TableMap<'a> {
    pub(super) fn parse(body: &'a [u8], format: &FormatDescription) -> Result<Self> {
        let mut cursor = Cursor::new(body);
        let table_id = cursor.uint(format.table_id_bytes(EventType::TABLE_MAP))?;
        cursor.skip(2)?;
        let definition = cursor.rest();
        let database = name(&mut cursor)?;
        let table = name(&mut cursor)?;
        let column_count = cursor.packed_len()?;
        let types = cursor.take(column_count)?;
        let metadata_length = cursor.packed_len()?;
        let metadata = cursor.take(metadata_length)?;
        cursor.skip(column_count.div_ceil(8))?;
        let optional = cursor.rest();
        let is_mariadb = format.is_mariadb();
        Ok(Self {
            table_id,
            database,
            table,
            column_count,
            types,
            metadata,
            optional,
            definition,
            is_mariadb,
        })
    }

    /// All of the event that describes the table: equal bytes mean an equal table.
    pub fn definition(&self) -> &'a [u8] {
        self.definition
    }

    /// How each column is stored, in the table's order.
    pub fn columns(&self) -> Result<Vec<ColumnMetadata>> {
        let mut cursor = Cursor::new(self.metadata);
        self.types
            .iter()
            .map(|type_code| {
                let metadata = match *type_code {
                    // The real type and the length's upper bits share the first byte.
                    code::STRING | code::ENUM | code::SET | code::NEWDECIMAL => {
                        be_uint(cursor.take(2)?) as u16
                    }
                    code::VARCHAR | code::VAR_STRING | code::BIT | code::VARCHAR_COMPRESSED => {
                        cursor.u16()?
                    }
                    code::FLOAT
                    | code::DOUBLE
                    | code::TIMESTAMP2
                    | code::DATETIME2
                    | code::TIME2
                    | code::BLOB_COMPRESSED
                    | code::VECTOR
                    | code::JSON
                    | code::TINY_BLOB
                    | code::MEDIUM_BLOB
                    | code::LONG_BLOB
                    | code::BLOB
                    | code::GEOMETRY => cursor.u8()?.into(),
                    code::TYPED_ARRAY => return Err(malformed("a column is a typed array")),
                    _ => 0,
                };
                Ok(ColumnMetadata { type_code: *type_code, metadata })
            })
            .collect()
    }

    /// What `binlog_row_metadata` adds; all empty where the server writes none.
    pub fn optional(&self) -> Result<OptionalMetadata<'a>> {
        OptionalMetadata::parse(self.optional, &self.columns()?, self.is_mariadb)
    }
}

fn name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    let length = usize::from(cursor.u8()?);
    let bytes = cursor.take(length)?;
    if cursor.u8()? != 0 {
        return Err(malformed("a name does not end where it should"));
    }
    std::str::from_utf8(bytes).map_err(|_| malformed("a name is not utf8"))
}

/// What `binlog_row_metadata` adds about each column. Every list is either empty or has one entry
/// for each column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionalMetadata<'a> {
    /// `None` for columns without a sign.
    pub unsigned: Vec<Option<bool>>,
    /// Collation numbers of character columns.
    pub collations: Vec<Option<u32>>,
    pub names: Vec<&'a [u8]>,
    /// Labels of ENUM and SET columns, in the column's character set.
    pub labels: Vec<Vec<&'a [u8]>>,
}

impl<'a> OptionalMetadata<'a> {
    fn parse(bytes: &'a [u8], columns: &[ColumnMetadata], is_mariadb: bool) -> Result<Self> {
        let mut found = Self::default();
        // MariaDB has a collation for geometry too; MySQL has none. Seen with 10.11 and 9.7.
        let is_character = |column: &ColumnMetadata| {
            column.is_character() || is_mariadb && column.type_code == code::GEOMETRY
        };
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let field = cursor.u8()?;
            let length = cursor.packed_len()?;
            let value = cursor.take(length)?;
            let is_enum_or_set = |c: &ColumnMetadata| c.is_enum() || c.is_set();
            match field {
                1 => found.unsigned = unsigned(value, columns),
                2 => default_collations(value, columns, is_character, &mut found.collations)?,
                3 => each_collation(value, columns, is_character, &mut found.collations)?,
                4 => found.names = names(value, columns.len())?,
                5 => labels(value, columns, ColumnMetadata::is_set, &mut found.labels)?,
                6 => labels(value, columns, ColumnMetadata::is_enum, &mut found.labels)?,
                10 => default_collations(value, columns, is_enum_or_set, &mut found.collations)?,
                11 => each_collation(value, columns, is_enum_or_set, &mut found.collations)?,
                // Geometry types, keys, visibility, dimensions and whatever comes later.
                _ => {}
            }
        }
        Ok(found)
    }
}

/// One bit for each numeric column, highest bit first.
fn unsigned(bits: &[u8], columns: &[ColumnMetadata]) -> Vec<Option<bool>> {
    let mut next = 0;
    let sign = |column: &ColumnMetadata| {
        column.is_numeric().then(|| {
            let bit = bits.get(next / 8).map(|b| b >> (7 - next % 8) & 1 == 1);
            next += 1;
            bit.unwrap_or(false)
        })
    };
    columns.iter().map(sign).collect()
}

/// One collation for all, then pairs of column (among those of this kind) and collation.
fn default_collations(
    bytes: &[u8],
    columns: &[ColumnMetadata],
    of_kind: impl Fn(&ColumnMetadata) -> bool,
    into: &mut Vec<Option<u32>>,
) -> Result<()> {
    let mut cursor = Cursor::new(bytes);
    let default = cursor.packed_uint()? as u32;
    let indices: Vec<usize> = (0..columns.len()).filter(|i| of_kind(&columns[*i])).collect();
    into.resize(columns.len(), None);
    indices.iter().for_each(|i| into[*i] = Some(default));
    while !cursor.is_empty() {
        let nth = cursor.packed_len()?;
        let collation = cursor.packed_uint()? as u32;
        if let Some(i) = indices.get(nth) {
            into[*i] = Some(collation);
        }
    }
    Ok(())
}

fn each_collation(
    bytes: &[u8],
    columns: &[ColumnMetadata],
    of_kind: impl Fn(&ColumnMetadata) -> bool,
    into: &mut Vec<Option<u32>>,
) -> Result<()> {
    let mut cursor = Cursor::new(bytes);
    into.resize(columns.len(), None);
    for (slot, _) in into.iter_mut().zip(columns).filter(|(_, c)| of_kind(c)) {
        if cursor.is_empty() {
            break;
        }
        *slot = Some(cursor.packed_uint()? as u32);
    }
    Ok(())
}

fn names(bytes: &[u8], count: usize) -> Result<Vec<&[u8]>> {
    let mut cursor = Cursor::new(bytes);
    let mut names = Vec::new();
    while !cursor.is_empty() {
        let length = cursor.packed_len()?;
        names.push(cursor.take(length)?);
    }
    if names.len() == count {
        Ok(names)
    } else {
        Err(malformed("it has not one name for each column"))
    }
}

fn labels<'a>(
    bytes: &'a [u8],
    columns: &[ColumnMetadata],
    of_kind: impl Fn(&ColumnMetadata) -> bool,
    into: &mut Vec<Vec<&'a [u8]>>,
) -> Result<()> {
    let mut cursor = Cursor::new(bytes);
    into.resize(columns.len(), Vec::new());
    for (slot, _) in into.iter_mut().zip(columns).filter(|(_, c)| of_kind(c)) {
        if cursor.is_empty() {
            break;
        }
        for _ in 0..cursor.packed_len()? {
            let length = cursor.packed_len()?;
            slot.push(cursor.take(length)?);
        }
    }
    Ok(())
}

impl ColumnMetadata {
    /// ENUM and SET hide behind STRING: the first byte of the metadata tells.
    fn real_type(&self) -> u8 {
        match self.type_code {
            code::STRING => match (self.metadata >> 8) as u8 {
                real @ (code::ENUM | code::SET) => real,
                _ => code::STRING,
            },
            other => other,
        }
    }

    pub fn is_enum(&self) -> bool {
        self.real_type() == code::ENUM
    }

    pub fn is_set(&self) -> bool {
        self.real_type() == code::SET
    }

    /// CHAR, BINARY and MariaDB's types that are stored like them.
    pub fn is_string(&self) -> bool {
        self.real_type() == code::STRING
    }

    /// The bytes of an ENUM or SET value.
    pub fn packed_bytes(&self) -> usize {
        (self.metadata & 0xff).into()
    }

    /// Types that take part in the list of signs. YEAR does on MariaDB and MySQL alike.
    fn is_numeric(&self) -> bool {
        matches!(
            self.type_code,
            code::TINY
                | code::SHORT
                | code::INT24
                | code::LONG
                | code::LONGLONG
                | code::NEWDECIMAL
                | code::FLOAT
                | code::DOUBLE
                | code::YEAR
        )
    }

    /// Types that take part in the list of character sets; binary ones do, under the collation
    /// `binary`.
    fn is_character(&self) -> bool {
        matches!(
            self.real_type(),
            code::STRING
                | code::VAR_STRING
                | code::VARCHAR
                | code::VARCHAR_COMPRESSED
                | code::BLOB
                | code::BLOB_COMPRESSED
                | code::TINY_BLOB
                | code::MEDIUM_BLOB
                | code::LONG_BLOB
        )
    }

    /// The length in bytes of a CHAR, BINARY, ENUM or SET column. Lengths above 255 keep two bits,
    /// inverted, in the type.
    pub fn string_bytes(&self) -> usize {
        let (first, low) = ((self.metadata >> 8) as u8, self.metadata & 0xff);
        if first & 0x30 == 0x30 {
            low.into()
        } else {
            usize::from(low | (u16::from(first & 0x30) ^ 0x30) << 4)
        }
    }
}
