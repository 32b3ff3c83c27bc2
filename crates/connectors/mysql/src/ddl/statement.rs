//! What a statement says, as far as it concerns tables and transactions.

use std::sync::Arc;

use lakeward_core::{ColumnPlace, TableId};

use crate::model::{MysqlDefault, MysqlType};

/// Which of the two families wrote the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Flavor {
    MySql,
    MariaDb,
}

/// What of the session's settings decides how a statement is read and what it does. They are those of the statement, as
/// the query event's status variables give them, not the server's present ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlMode {
    pub flavor: Flavor,
    /// `"` quotes names instead of strings.
    pub ansi_quotes: bool,
    /// `\` is an ordinary character in strings.
    pub no_backslash_escapes: bool,
    /// REAL is FLOAT.
    pub real_as_float: bool,
    /// MariaDB's `sql_mode=ORACLE`: other names for types, DATE has a time.
    pub oracle: bool,
    /// A value that does not fit makes the statement fail. Where this is off, an ALTER may bend values silently.
    pub strict: bool,
    /// Fractions of a second that a column does not hold are rounded; otherwise they are cut.
    pub rounds_fractions: bool,
    /// Off: TIMESTAMP columns are NOT NULL unless they say NULL, and the first one maintains itself.
    pub explicit_defaults_for_timestamp: bool,
}

impl SqlMode {
    /// The defaults of current servers.
    pub fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            ansi_quotes: false,
            no_backslash_escapes: false,
            real_as_float: false,
            oracle: false,
            strict: true,
            rounds_fractions: flavor == Flavor::MySql,
            explicit_defaults_for_timestamp: true,
        }
    }

    /// From the `sql_mode` bits of a query event's status variables.
    pub fn from_bits(flavor: Flavor, bits: u64, explicit_defaults_for_timestamp: bool) -> Self {
        let has = |bit: u32| bits & (1u64 << bit) != 0;
        Self {
            flavor,
            ansi_quotes: has(2),
            no_backslash_escapes: has(20),
            real_as_float: has(0),
            oracle: flavor == Flavor::MariaDb && has(9),
            strict: has(21) || has(22),
            rounds_fractions: match flavor {
                // TIME_TRUNCATE_FRACTIONAL
                Flavor::MySql => !has(32),
                // TIME_ROUND_FRACTIONAL
                Flavor::MariaDb => has(34),
            },
            explicit_defaults_for_timestamp,
        }
    }
}

/// One statement of a query event. Names are resolved against the statement's current database.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    CreateTable(CreateTable),
    AlterTable(AlterTable),
    /// In the order of the statement; each pair sees the names that the ones before it left.
    RenameTable {
        pairs: Vec<(TableId, TableId)>,
    },
    DropTable {
        names: Vec<TableId>,
        temporary: bool,
    },
    TruncateTable {
        name: TableId,
    },
    CreateDatabase {
        name: Arc<str>,
        or_replace: bool,
        charset: Option<Arc<str>>,
    },
    AlterDatabase {
        name: Arc<str>,
        charset: Option<Arc<str>>,
    },
    DropDatabase {
        name: Arc<str>,
    },
    Transaction(TransactionControl),
    /// Rows of these tables come or go without row events: DROP, TRUNCATE, EXCHANGE and CONVERT PARTITION; DISCARD and
    /// IMPORT TABLESPACE.
    RowsChanged {
        tables: Vec<TableId>,
        cause: &'static str,
    },
    /// INSERT, UPDATE, DELETE, REPLACE or LOAD logged as text: its rows are not in the log. `table` is `None` where the
    /// text does not say plainly which table it writes.
    Dml {
        table: Option<TableId>,
    },
    /// Changes the shape of these tables in a way that the text alone does not tell.
    Unsure {
        tables: Vec<TableId>,
        reason: &'static str,
    },
    /// Changes no table's shape or rows.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionControl {
    Begin,
    Commit,
    Rollback,
    /// SAVEPOINT, RELEASE SAVEPOINT and ROLLBACK TO: the transaction goes on.
    Savepoint,
    Xa(XaStep, Xid),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XaStep {
    Start,
    End,
    Prepare,
    Commit { one_phase: bool },
    Rollback,
}

/// The name of a distributed transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Xid {
    pub gtrid: Vec<u8>,
    pub bqual: Vec<u8>,
    pub format_id: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    pub name: TableId,
    pub if_not_exists: bool,
    pub or_replace: bool,
    pub temporary: bool,
    pub body: TableBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableBody {
    Definition(TableDefinition),
    Like(TableId),
    /// The columns come from the query, after those that the statement itself defines.
    AsSelect(Option<TableDefinition>),
}

/// What stands between CREATE TABLE's name and its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableDefinition {
    pub columns: Vec<ColumnDefinition>,
    pub primary_key: Vec<Arc<str>>,
    pub charset: Option<Arc<str>>,
    pub comment: Option<Arc<str>>,
    /// WITH SYSTEM VERSIONING.
    pub system_versioned: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    pub name: TableId,
    pub if_exists: bool,
    /// MariaDB's ALTER IGNORE: bends values and drops duplicate rows instead of failing.
    pub ignore: bool,
    pub clauses: Vec<AlterClause>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AlterClause {
    AddColumn {
        column: ColumnDefinition,
        place: Option<ColumnPlace>,
        if_not_exists: bool,
    },
    DropColumn {
        name: Arc<str>,
        if_exists: bool,
    },
    /// CHANGE, and MODIFY, which is CHANGE to the same name.
    ChangeColumn {
        from: Arc<str>,
        column: ColumnDefinition,
        place: Option<ColumnPlace>,
        if_exists: bool,
    },
    RenameColumn {
        from: Arc<str>,
        to: Arc<str>,
        if_exists: bool,
    },
    /// `MysqlDefault::None` inside is DROP DEFAULT.
    SetDefault {
        name: Arc<str>,
        default: DeclaredDefault,
        if_exists: bool,
    },
    SetInvisible {
        name: Arc<str>,
        invisible: bool,
    },
    AddPrimaryKey {
        columns: Vec<Arc<str>>,
        if_not_exists: bool,
    },
    DropPrimaryKey,
    /// Matters only because ALTER IGNORE and online schema change tools lose duplicate rows to it.
    AddUniqueKey,
    /// `None` stands for the database's default.
    ConvertCharset {
        charset: Option<Arc<str>>,
    },
    DefaultCharset {
        charset: Arc<str>,
    },
    Comment {
        comment: Option<Arc<str>>,
    },
    SystemVersioning {
        add: bool,
    },
    RenameTo {
        table: TableId,
    },
}

/// A column as the text declares it, before the table's character set and key are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    pub name: Arc<str>,
    pub column_type: DeclaredType,
    pub charset: DeclaredCharset,
    /// `None` where the text says neither NULL nor NOT NULL.
    pub nullable: Option<bool>,
    pub default: DeclaredDefault,
    /// Digits after the point of FLOAT(m,d) and DOUBLE(m,d), to which values are rounded.
    pub float_scale: Option<u8>,
    pub auto_increment: bool,
    pub generated: bool,
    pub virtual_column: bool,
    /// MariaDB's GENERATED ALWAYS AS ROW START or ROW END.
    pub row_period: bool,
    pub invisible: bool,
    pub compressed: bool,
    pub primary_key: bool,
    pub unique: bool,
    pub comment: Option<Arc<str>>,
}

/// A default with what its meaning depends on: `BIT DEFAULT 1` and `BIT DEFAULT '1'` differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclaredDefault {
    Known(MysqlDefault),
    /// A number without quotes.
    Number(Arc<str>),
}

/// A type as written. Those whose size or kind depends on the character set are not settled yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclaredType {
    Settled(MysqlType),
    Char {
        length: u32,
    },
    Varchar {
        length: u32,
    },
    /// TINYTEXT to LONGTEXT by the size of the length prefix.
    Text {
        length_bytes: u8,
    },
    /// TEXT(n): the smallest TEXT that holds n characters.
    TextOf {
        length: u64,
    },
    Enum {
        labels: Arc<[Arc<str>]>,
    },
    Set {
        labels: Arc<[Arc<str>]>,
    },
}

/// A column's character set as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclaredCharset {
    /// The table's.
    Inherit,
    Named(Arc<str>),
}
