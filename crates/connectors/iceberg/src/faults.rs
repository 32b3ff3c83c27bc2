//! Named places on the commit path where a test can stop it. Costs a null check when nothing is set.

use std::fmt;
use std::sync::Arc;

use lakeward_core::Result;

type Hook = dyn Fn(&'static str) -> Result<()> + Send + Sync;

/// A hook that is called at each named point and may fail there, as a crash or a lost answer would.
#[derive(Clone, Default)]
pub struct FaultPoints(Option<Arc<Hook>>);

/// Every point, in the order in which a commit passes them.
pub const FAULT_POINTS: [&str; 10] = [
    "before-delete-files",
    "after-delete-files",
    "after-manifests",
    "after-manifest-list",
    "after-metadata",
    "before-catalog-commit",
    "catalog-answer-lost",
    "after-catalog-commit",
    "before-epoch-row",
    "after-epoch-row",
];

impl FaultPoints {
    pub fn new(hook: impl Fn(&'static str) -> Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    pub fn at(&self, point: &'static str) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(hook) => hook(point),
        }
    }
}

impl fmt::Debug for FaultPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "FaultPoints(set)" } else { "FaultPoints(unset)" })
    }
}
