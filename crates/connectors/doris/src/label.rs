//! Names of loads. A label says whose load it is, so that what a lost attempt left behind can be found and aborted.
//!
//! `lw_<pipeline>_<hash>_<table>_<incarnation>_<writer>_<part>`: at most 100 of the 128 characters that Doris allows.
//! Incarnations are counted in Doris, so a label is never used for two different bodies, whatever becomes of the state
//! directory.

use lakeward_core::{PipelineId, TableId};
use xxhash_rust::xxh3::xxh3_64;

/// What of the pipeline's name is put into labels, for people.
const NAME_CHARS: usize = 24;

/// Makes the labels of one incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels {
    /// Everything before the table's part.
    pipeline: String,
    incarnation: u64,
}

impl Labels {
    pub(crate) fn new(pipeline: &PipelineId, incarnation: u64) -> Self {
        let readable: String = pipeline
            .0
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(NAME_CHARS)
            .collect();
        let hash = xxh3_64(pipeline.0.as_bytes());
        Self { pipeline: format!("lw_{readable}_{hash:016x}"), incarnation }
    }

    pub(crate) fn of_part(&self, table: &TableId, writer: usize, part: u64) -> String {
        format!("{}{writer}_{part}", self.prefix(table))
    }

    /// What all labels of the pipeline begin with.
    pub(crate) fn of_pipeline(&self) -> &str {
        &self.pipeline
    }

    /// Those of another run.
    pub(crate) fn of_run(&self, incarnation: u64) -> Self {
        Self { pipeline: self.pipeline.clone(), incarnation }
    }

    /// What all labels of a table in this incarnation begin with.
    pub(crate) fn prefix(&self, table: &TableId) -> String {
        format!("{}_{:016x}_{}_", self.pipeline, table.stable_hash(), self.incarnation)
    }
}

/// A label of the pipeline, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// [`TableId::stable_hash`].
    pub(crate) table: u64,
    pub(crate) incarnation: u64,
}

impl Parsed {
    /// `None` for a label that is not the pipeline's.
    pub(crate) fn of(label: &str, labels: &Labels) -> Option<Self> {
        let mut rest = label.strip_prefix(&labels.pipeline)?.strip_prefix('_')?.split('_');
        let table = u64::from_str_radix(rest.next()?, 16).ok()?;
        let incarnation = rest.next()?.parse().ok()?;
        Some(Self { table, incarnation })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_are_what_doris_allows(name in ".*", db in ".*", table in ".*", n in any::<u64>(), part in any::<u64>()) {
            let labels = Labels::new(&PipelineId(name.into()), n);
            let table = TableId::new(db, table);
            let label = labels.of_part(&table, 1023, part);
            prop_assert!(label.len() <= 128, "{}", label);
            prop_assert!(label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b)));
            prop_assert!(label.starts_with(&labels.prefix(&table)));
            let parsed = Parsed { table: table.stable_hash(), incarnation: n };
            prop_assert_eq!(Parsed::of(&label, &labels), Some(parsed));
        }
    }

    #[test]
    fn labels_differ_in_every_part() {
        let a = Labels::new(&PipelineId("shop".into()), 1);
        let table = TableId::new("d", "t");
        let all = [
            a.of_part(&table, 0, 0),
            a.of_part(&table, 0, 1),
            a.of_part(&table, 1, 0),
            a.of_part(&TableId::new("d", "u"), 0, 0),
            Labels::new(&PipelineId("shop".into()), 2).of_part(&table, 0, 0),
            Labels::new(&PipelineId("shop!".into()), 1).of_part(&table, 0, 0),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|y| x != y), "{x}");
        }
    }

    #[test]
    fn an_incarnations_prefix_is_not_that_of_another() {
        let one = Labels::new(&PipelineId("p".into()), 1);
        let eleven = Labels::new(&PipelineId("p".into()), 11);
        let table = TableId::new("d", "t");
        assert!(!eleven.of_part(&table, 0, 0).starts_with(&one.prefix(&table)));
    }
}
