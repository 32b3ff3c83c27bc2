//! Row images to Arrow columns, and snapshot rows into the same columns.
//!
//! A [`RowPlan`] joins a TABLE_MAP to the tracked table once; after that [`RowPlan::decode`]
//! appends the rows of each event straight to a [`TableBuilder`]. Rows of a SELECT go through
//! [`SnapshotBuilder`] and give bit for bit the same values.

mod address;
mod cell;
mod check;
mod decimal;
mod image;
mod plan;
mod select;
mod table_builder;
mod temporal;

pub use plan::{RowPlan, RowsCursor};
pub(crate) use select::SnapshotBuilder;
pub use table_builder::TableBuilder;

pub(crate) use decimal::DecimalLayout;
