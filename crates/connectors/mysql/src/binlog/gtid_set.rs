//! Sets of transactions as values: parse, print, add, compare.

mod mariadb;
mod mysql;
#[cfg(test)]
mod tests;

pub use mariadb::{MariaDbGtid, MariaDbGtidSet};
pub use mysql::{MySqlGtid, MySqlGtidSet, Tag};
