//! The sequence column: a key's rows are ordered by their place in the source's log, whenever and however often they are
//! loaded.
//!
//! Doris keeps, of several rows of a key, the one with the largest value of the hidden column `__DORIS_SEQUENCE_COL__`, and
//! of equal ones the one that came last. A [`Position`] is a pair of 64-bit numbers, so the column is a LARGEINT (128
//! bits, signed) and holds all of it: `hi * 2^64 + lo`. A BIGINT would not: MySQL's position alone has the number of
//! fail-overs, of the file, and of the byte. Rows of one source transaction have the same position; those of one key among
//! them are collapsed to the last one within a load, and loads of one writer are committed in their order.

use lakeward_core::{Error, Position, Result};

/// The column's type in `function_column.sequence_type`.
pub(crate) const SEQUENCE_TYPE: &str = "LARGEINT";

/// The field of a load that the header `function_column.sequence_col` makes the hidden column of.
pub(crate) const SEQUENCE_FIELD: &str = "__lakeward_sequence";

/// The column that says whether a row deletes its key.
pub(crate) const DELETE_SIGN: &str = "__DORIS_DELETE_SIGN__";

/// A position as a value of the sequence column: orders as the positions do.
///
/// # Errors
/// `Bug` for a position whose upper half has 64 bits, which no source gives.
pub(crate) fn of_position(position: Position) -> Result<i128> {
    let hi = i64::try_from(position.hi).map_err(|_| {
        Error::bug("a row's position is too large for the sequence column")
            .with("hi", position.hi)
            .with("lo", position.lo)
    })?;
    Ok(i128::from(hi) << 64 | i128::from(position.lo))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn order_is_kept(a in (0..=i64::MAX as u64, any::<u64>()), b in (0..=i64::MAX as u64, any::<u64>())) {
            let position = |(hi, lo)| Position { hi, lo };
            let (a, b) = (position(a), position(b));
            let (x, y) = (of_position(a).unwrap(), of_position(b).unwrap());
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            prop_assert!(x >= 0);
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(of_position(Position { hi: 1 << 63, lo: 0 }).is_err());
    }
}
