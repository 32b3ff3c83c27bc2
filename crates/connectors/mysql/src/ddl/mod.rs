//! DDL text to table shapes. Pure: statements in, values out; no server, no clock.
//!
//! [`read`] turns the text of a query event into [`Statement`]s. It is tolerant by design: it understands what changes a
//! table's columns, skips what does not, and says [`Statement::Unsure`] where it cannot tell, so that the source asks the
//! catalog instead of guessing. [`SchemaHistory`] keeps the shape of every table that matters and turns statements into
//! schema events.

mod alter;
mod apply;
mod charsets;
mod column;
mod column_type;
mod conversion;
mod create;
mod cursor;
mod diff;
mod history;
mod literal;
mod moment;
mod outcome;
mod reader;
mod rename;
mod shape;
mod statement;
mod step;
mod tokens;
mod transaction;

pub use charsets::{max_bytes_per_char, of_collation as charset_of_collation};
pub use diff::table_schema;
pub use history::SchemaHistory;
pub use literal::existing_rows;
pub use outcome::{
    Doubt, Outcome, Resnapshot, Selection, StatementPlace, StatementTime, TableVersion,
};
pub use reader::{read, read_column_type, read_table};
pub use statement::{
    AlterClause, AlterTable, ColumnDefinition, CreateTable, DeclaredCharset, DeclaredDefault,
    DeclaredType, Flavor, SqlMode, Statement, TableBody, TableDefinition, TransactionControl,
    XaStep, Xid,
};
