//! Gives the states of a checkpoint to the instances of a plan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lakeward_core::{Error, Plan, Reached, Result, Stage, State, TableId};

use crate::Checkpoint;

/// A state for each reader, and for each instance of each stage.
pub(crate) struct Restored {
    pub(crate) source: Vec<Option<State>>,
    pub(crate) stages: Vec<Vec<Option<State>>>,
}

pub(crate) fn restore(
    plan: &Plan,
    readers: usize,
    checkpoint: Option<&Arc<Checkpoint>>,
) -> Result<Restored> {
    let Some(checkpoint) = checkpoint else {
        let stages = plan.stages.iter().map(|s| vec![None; s.parallelism]).collect();
        return Ok(Restored { source: vec![None; readers], stages });
    };
    if checkpoint.source.len() != readers {
        return Err(Error::config(
            "the number of source readers has changed, which the stored state does not allow; use the earlier number",
        )
        .with("earlier", checkpoint.source.len())
        .with("now", readers));
    }
    let names: HashSet<&str> = plan.stages.iter().map(|s| &*s.name).collect();
    for stage in &checkpoint.stages {
        let empty = stage.states.iter().all(|s| s.bytes.is_empty());
        if !empty && !names.contains(&*stage.name) {
            return Err(Error::config(
                "the stored state is of a step that the pipeline no longer has; put it back",
            )
            .with("step", &stage.name));
        }
    }
    let mut stages = Vec::with_capacity(plan.stages.len());
    for stage in &plan.stages {
        let stored = checkpoint.stages.iter().find(|s| s.name == stage.name);
        stages.push(match stored {
            Some(stored) => states_of(stage, &stored.states)?,
            None => vec![None; stage.parallelism],
        });
    }
    let source = checkpoint.source.iter().cloned().map(Some).collect();
    Ok(Restored { source, stages })
}

fn states_of(stage: &Stage, stored: &[State]) -> Result<Vec<Option<State>>> {
    if stored.len() == stage.parallelism {
        return Ok(stored.iter().cloned().map(Some).collect());
    }
    let (earlier, now) = (stored.len(), stage.parallelism);
    match &stage.redistribute {
        Some(redistribute) => {
            let states = redistribute(stored.to_vec(), now)?;
            if states.len() == now {
                return Ok(states.into_iter().map(Some).collect());
            }
            Err(Error::bug("the stored states were given to a wrong number of instances")
                .with("step", &stage.name)
                .with("expected", now)
                .with("found", states.len()))
        }
        None if stored.iter().all(|s| s.bytes.is_empty()) => Ok(vec![None; now]),
        None => Err(Error::config(
            "the parallelism has changed, which the stored state does not allow; use the earlier one",
        )
        .with("step", &stage.name)
        .with("earlier", earlier)
        .with("now", now)),
    }
}

/// Refuses to read everything again on top of what the sink already holds.
pub(crate) fn check_not_lost(
    checkpoint: Option<&Arc<Checkpoint>>,
    committed: &HashMap<TableId, Reached>,
    resnapshot: &[String],
) -> Result<()> {
    let example = committed.keys().min();
    match example {
        Some(table) if checkpoint.is_none() && resnapshot.is_empty() => Err(Error::config(
            "the sink holds this pipeline's tables but the state directory is empty; restore the directory, or read the \
             tables anew with --resnapshot",
        )
        .with("table", table)
        .with("tables", committed.len())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use lakeward_core::{
        CheckpointId, ErrorKind, Offset, Offsets, PipelineId, Source, SourceCheck, SourceOpen,
        SourceReader,
    };

    use super::*;
    use crate::store::StageStates;

    struct NoSource;

    #[async_trait]
    impl Source for NoSource {
        async fn check(&self) -> Result<SourceCheck> {
            Ok(SourceCheck::default())
        }
        async fn open(&self, _: SourceOpen) -> Result<Box<dyn SourceReader>> {
            Err(Error::bug("not opened here"))
        }
        async fn current_offsets(&self) -> Result<Offsets> {
            Ok(Offsets::new())
        }
        fn covers(&self, _: &Offset, _: &Offset) -> Result<bool> {
            Ok(true)
        }
    }

    fn stage(parallelism: usize) -> Stage {
        Stage::new("Writer", parallelism, |_| Err(Error::bug("not made here")))
    }

    fn plan(stages: Vec<Stage>) -> Plan {
        Plan { pipeline: PipelineId("p".into()), source: Arc::new(NoSource), stages }
    }

    fn state(byte: u8) -> State {
        State { version: 1, bytes: vec![byte] }
    }

    fn checkpoint(states: Vec<State>) -> Arc<Checkpoint> {
        Arc::new(Checkpoint {
            id: 1,
            attempt: 1,
            created_ms: 0,
            offsets: Offsets::new(),
            held: false,
            source: vec![state(0)],
            stages: vec![StageStates { name: "Writer".into(), states }],
        })
    }

    fn kind(result: Result<Restored>) -> ErrorKind {
        result.err().expect("an error").kind()
    }

    #[test]
    fn each_instance_gets_its_own_state() {
        let stored = checkpoint(vec![state(1), state(2)]);
        let restored = restore(&plan(vec![stage(2)]), 1, Some(&stored)).expect("restored");
        assert_eq!(restored.source, [Some(state(0))]);
        assert_eq!(restored.stages, [vec![Some(state(1)), Some(state(2))]]);
        let fresh = restore(&plan(vec![stage(2)]), 1, None).expect("restored");
        assert_eq!(fresh.stages, [vec![None, None]]);
    }

    #[test]
    fn another_parallelism_needs_a_redistribution() {
        let stored = checkpoint(vec![state(1), state(2)]);
        let error = kind(restore(&plan(vec![stage(3)]), 1, Some(&stored)));
        assert_eq!(error, ErrorKind::Config);
        let merging = stage(1).with_redistribute(|states, n| {
            let bytes = states.into_iter().flat_map(|s| s.bytes).collect();
            let mut merged = vec![State { version: 1, bytes }];
            merged.resize(n, State { version: 1, bytes: vec![] });
            Ok(merged)
        });
        let restored = restore(&plan(vec![merging]), 1, Some(&stored)).expect("restored");
        assert_eq!(restored.stages, [vec![Some(State { version: 1, bytes: vec![1, 2] })]]);
        let wrong = stage(3).with_redistribute(|states, _| Ok(states));
        assert_eq!(kind(restore(&plan(vec![wrong]), 1, Some(&stored))), ErrorKind::Bug);
        let empty = checkpoint(vec![State { version: 0, bytes: vec![] }; 2]);
        let restored = restore(&plan(vec![stage(3)]), 1, Some(&empty)).expect("restored");
        assert_eq!(restored.stages, [vec![None, None, None]]);
    }

    #[test]
    fn state_is_never_dropped_in_silence() {
        let stored = checkpoint(vec![state(1)]);
        assert_eq!(kind(restore(&plan(vec![]), 1, Some(&stored))), ErrorKind::Config);
        assert_eq!(kind(restore(&plan(vec![stage(1)]), 2, Some(&stored))), ErrorKind::Config);
        let reached = Reached { offsets: Offsets::new(), checkpoint: CheckpointId(1) };
        let committed = [(TableId::new("a", "b"), reached)].into();
        let error = check_not_lost(None, &committed, &[]).expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("--resnapshot"));
        check_not_lost(None, &committed, &["*".into()]).expect("wished");
        check_not_lost(Some(&stored), &committed, &[]).expect("restored");
        check_not_lost(None, &HashMap::new(), &[]).expect("fresh");
    }
}
