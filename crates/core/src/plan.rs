//! A pipeline as a runtime sees it: a source and the stages behind it.

use std::sync::Arc;

use crate::{Operator, OperatorContext, PipelineId, Result, Source, State};

/// Makes one instance of an operator for one attempt.
pub type OperatorFactory = Arc<dyn Fn(OperatorContext) -> Result<Box<dyn Operator>> + Send + Sync>;

/// Hands the states of a stage's instances, in the order of their indices, to another number of instances: gives back one
/// state for each new instance. Nothing may be lost and nothing doubled.
pub type Redistribute = Arc<dyn Fn(Vec<State>, usize) -> Result<Vec<State>> + Send + Sync>;

#[derive(Clone)]
pub struct Stage {
    /// The operator's name in the spelling of the architecture page. State in a checkpoint is found by it.
    pub name: Arc<str>,
    pub parallelism: usize,
    pub factory: OperatorFactory,
    /// How its state survives a change of parallelism. Without it a checkpoint of another parallelism is refused, unless
    /// its states are all empty.
    pub redistribute: Option<Redistribute>,
    /// Its part of the job's memory, against the other stages' weights.
    pub memory_weight: usize,
}

impl Stage {
    pub fn new(
        name: impl Into<Arc<str>>,
        parallelism: usize,
        factory: impl Fn(OperatorContext) -> Result<Box<dyn Operator>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            parallelism: parallelism.max(1),
            factory: Arc::new(factory),
            redistribute: None,
            memory_weight: 1,
        }
    }

    pub fn with_redistribute(
        mut self,
        redistribute: impl Fn(Vec<State>, usize) -> Result<Vec<State>> + Send + Sync + 'static,
    ) -> Self {
        self.redistribute = Some(Arc::new(redistribute));
        self
    }

    pub fn with_memory_weight(mut self, weight: usize) -> Self {
        self.memory_weight = weight.max(1);
        self
    }
}

/// Stages are connected in a line. Each instance of a stage is connected to each instance of the next. The last stage
/// reports each epoch through [`crate::JobListener::epoch_committed`], those without rows too.
#[derive(Clone)]
pub struct Plan {
    pub pipeline: PipelineId,
    pub source: Arc<dyn Source>,
    pub stages: Vec<Stage>,
}
