//! Row images to Arrow columns, and snapshot rows into the same columns.
//!
//! A [`RowPlan`] joins a TABLE_MAP to the tracked table once; after that [`RowPlan::decode`] appends the rows of each event straight to a
//! [`TableBuilder`]. Snapshot rows go through [`TableBuilder::append_snapshot_row`] and give bit for bit the same values.

mod address;
mod cell;
mod check;
mod decimal;
mod image;
mod plan;
mod select;
mod snapshot;
mod table_builder;
mod temporal;

pub use plan::{RowPlan, RowsCursor};
pub(crate) use select::SnapshotBuilder;
pub use table_builder::TableBuilder;

pub(crate) use decimal::{DecimalLayout, append_canonical, unscaled_of_text};
pub(crate) use temporal::{date_time_us, days};
