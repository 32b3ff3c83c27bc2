//! SQL over the lake, with DataFusion: reads the tables of a catalog as they are now, and writes the answer as text.
//!
//! Namespaces are schemas (`shop.orders`); a table whose name is unique needs none. Names are taken as the source spells
//! them, without folding to lower case; those with other characters than letters, digits and `_` go in double quotes.

mod catalog;
mod lake;
mod output;
mod query;
mod values;

pub use catalog::{LakeCatalog, LakeTable};
pub use lake::IcebergLake;
pub use output::Format;
pub use query::LakeQuery;
