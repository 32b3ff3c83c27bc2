//! A pipeline as a runtime sees it: a source and the stages behind it.

use std::sync::Arc;

use crate::{Operator, OperatorContext, PipelineId, Result, Source};

/// Makes one instance of an operator for one attempt.
pub type OperatorFactory = Arc<dyn Fn(OperatorContext) -> Result<Box<dyn Operator>> + Send + Sync>;

#[derive(Clone)]
pub struct Stage {
    /// The operator's name in the spelling of the architecture page.
    pub name: Arc<str>,
    pub parallelism: usize,
    pub factory: OperatorFactory,
}

/// Stages are connected in a line. Each instance of a stage is connected to each instance of the next.
#[derive(Clone)]
pub struct Plan {
    pub pipeline: PipelineId,
    pub source: Arc<dyn Source>,
    pub stages: Vec<Stage>,
}
