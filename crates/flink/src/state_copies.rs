//! Copies of an instance's states, where the user wants to be able to go on without Flink's own.

use lakeward_core::CheckpointId;
use lakeward_runtime::store::copy_name;

use crate::context::Context;
use crate::wire::{Control, Outputs};

pub(crate) struct StateCopies {
    of: Option<Instance>,
    taken: Vec<Taken>,
}

struct Instance {
    operator: String,
    index: usize,
    instances: usize,
}

struct Taken {
    attempt: u64,
    checkpoint: CheckpointId,
    state: Vec<u8>,
}

impl StateCopies {
    pub(crate) fn of(context: &Context) -> Self {
        let of = context.file.pipeline.flink_state_copies.then(|| Instance {
            operator: context.operator.to_string(),
            index: context.index,
            instances: context.parallelism,
        });
        Self { of, taken: Vec::new() }
    }

    pub(crate) fn taken(&mut self, attempt: u64, checkpoint: CheckpointId, state: &[u8]) {
        if self.of.is_some() {
            self.taken.push(Taken { attempt, checkpoint, state: state.to_vec() });
        }
    }

    /// The copy is kept once the checkpoint is complete. One that never completes is forgotten with the next one that does.
    pub(crate) fn completed(&mut self, checkpoint: CheckpointId, out: &mut Outputs) {
        let Some(Instance { operator, index, instances }) = &self.of else { return };
        for Taken { attempt, checkpoint: id, state } in
            self.taken.extract_if(.., |taken| taken.checkpoint <= checkpoint)
        {
            if id == checkpoint {
                let name = copy_name(attempt, id, operator, *index, *instances);
                out.control(Control::Store(format!("state/{name}"), state));
            }
        }
    }
}
